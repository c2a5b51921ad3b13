"""Files that belong together: a later command has other names for its own, or refuses to replace one of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import Run

TEXTS = {"few.txt": "low lower\n", "many.txt": "low\nlower low\nlowest\n"}
ENCODE = ("encode", "-m", "v.volt", "-q", "--form")
BINARIZE = ("binarize", "-m", "v.volt", "-q")


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """The current folder, with a vocabulary and two texts."""
    run("search corpus.txt -q -o v.volt")
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def _content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_outputs_of_one_stem_have_their_own_offsets(run: Run, folder: Path) -> None:
    """x.npy and x.bin are read with their own offsets, whichever was written last."""
    run(*ENCODE, "npy", "few.txt", "-o", "x.npy")
    run(*ENCODE, "bin", "many.txt", "-o", "x.bin")
    assert [len(np.load(f"x.{form}.offsets.npy")) - 1 for form in ("npy", "bin")] == [1, 3]
    assert np.load("x.npy.offsets.npy")[-1] == len(np.load("x.npy"))
    assert np.load("x.bin.offsets.npy")[-1] == len(np.fromfile("x.bin", "<i4"))
    run(*ENCODE, "bin", "few.txt", "-o", "x.bin")
    assert len(np.load("x.bin.offsets.npy")) == 2


OPTIONS = {"sentencepiece": ["--marker", "prefix"], "subword-nmt": []}
EXPORTS = {to: ("export", "-m", f"{to}.volt", "-q", "--to", to, "-o", "x") for to in OPTIONS}
FIRST_AND_SECOND = {
    "a pair over an array": (
        (*ENCODE, "bin", "few.txt", "-o", "x.bin"),
        (*BINARIZE, "many.txt", "-o", "x"),
    ),
    "an array over a pair": (
        (*BINARIZE, "few.txt", "-o", "x"),
        (*ENCODE, "bin", "many.txt", "-o", "x.bin"),
    ),
    "text over an index": (
        (*BINARIZE, "few.txt", "-o", "x"),
        (*ENCODE, "ids", "many.txt", "-o", "x.idx"),
    ),
    "text over an array": (
        (*ENCODE, "npy", "few.txt", "-o", "x"),
        (*ENCODE, "ids", "many.txt", "-o", "x"),
    ),
    "an array over offsets": (
        (*ENCODE, "npy", "few.txt", "-o", "x.npy"),
        (*ENCODE, "npy", "many.txt", "-o", "x.npy.offsets.npy"),
    ),
    "pairs over arrays": (
        (*ENCODE, "bin", "few.txt", "-o", "x/"),
        (*BINARIZE, "few.txt", "-o", "x/"),
    ),
    "arrays over pairs": (
        (*BINARIZE, "few.txt", "-o", "x/"),
        (*ENCODE, "bin", "few.txt", "-o", "x/"),
    ),
    "a list over codes' list": (EXPORTS["subword-nmt"], EXPORTS["sentencepiece"]),
    "a list over a model's list": (EXPORTS["sentencepiece"], EXPORTS["subword-nmt"]),
}


@pytest.mark.parametrize("name", FIRST_AND_SECOND)
def test_no_command_replaces_half_of_another_output(run: Run, folder: Path, name: str) -> None:
    """The second command is refused and changes nothing; the first may run again."""
    first, second = FIRST_AND_SECOND[name]
    if "export" in first:
        for to, options in OPTIONS.items():
            run("search corpus.txt -q -o", f"{to}.volt", *options)
    run(*first)
    before = _content(folder)
    message = run(*second, status=2).stderr.decode()
    assert "choose another name" in message
    assert "belongs to" in message
    assert _content(folder) == before
    run(*first)


def test_a_folder_of_texts_is_not_taken_for_a_trial(run: Run, folder: Path) -> None:
    """A trial writes train.txt only beside its own results, and reads no results as text."""
    (folder / "train.txt").write_text("mine\n")
    message = run("trial corpus.txt --hours 0.1 -o . -q", status=2).stderr.decode()
    assert "train.txt: exists, but trial.jsonl does not" in message
    assert (folder / "train.txt").read_text() == "mine\n"
    (folder / "trial.jsonl").write_text("")
    assert b"which is read" in run("trial trial.jsonl --hours 0.1 -o . -q", status=2).stderr
