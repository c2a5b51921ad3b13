"""`volt encode --bos --eos --truncate --pad-to`: the lines of ids that `Encoder.encode_batch` and `pad` return."""

from __future__ import annotations

import gzip
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from commands import Run

from volt.encode.encoder import Encoder
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    merges=(("t", "h"), ("th", "e</w>")), tokens=("t", "h", "e</w>", "th", "the</w>")
)
LINES = ["the the", "", "the the the the the", "th e the"]


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    VOCABULARY.save("m.volt")
    (tmp_path / "few.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("form", ["ids", "npy", "bin"])
@pytest.mark.parametrize(
    ("options", "bos", "eos", "truncate", "pad_to"),
    [
        (["--bos"], True, False, None, None),
        (["--eos", "--truncate", "3"], False, True, 3, None),
        (["--pad-to", "6"], False, False, None, 6),
        (["--bos", "--eos", "--truncate", "4", "--pad-to", "5"], True, True, 4, 5),
    ],
)
def test_lines_are_those_of_the_encoder(
    options: list[str],
    bos: bool,
    eos: bool,
    truncate: int | None,
    pad_to: int | None,
    form: str,
    run: Run,
    folder: Path,
) -> None:
    """Each form holds the ids that the encoder gives for the same options, and the offsets of the lines."""
    encoder = Encoder(VOCABULARY)
    rows = encoder.encode_batch(LINES, add_bos=bos, add_eos=eos, truncate=truncate)
    expected = [
        row.tolist() for row in (rows if pad_to is None else encoder.pad(rows, pad_to=pad_to).ids)
    ]
    run(f"encode -m m.volt few.txt --form {form}", *options, "-o", "out.x")
    if form == "ids":
        lines = (folder / "out.x").read_text().splitlines()
        assert [[int(number) for number in line.split()] for line in lines] == expected
        return
    ids = np.load("out.x") if form == "npy" else np.fromfile("out.x", "<i4")
    offsets = np.load("out.x.offsets.npy")
    assert [ids[i:j].tolist() for i, j in pairwise(offsets)] == expected


def test_other_options_write_the_output_again(run: Run, folder: Path) -> None:
    """A folder's output is up to date only for equal options."""
    command = ["encode", "-m", "m.volt", "few.txt", "--form", "ids", "-o", "out/"]
    assert b"4 lines" in run(*command, "--eos").stderr
    assert b"is up to date" in run(*command, "--eos").stderr
    assert b"4 lines" in run(*command, "--bos").stderr


def test_a_line_that_is_too_long_is_named(run: Run, folder: Path) -> None:
    """The error has the file, the line, its length and both remedies, and no output appears; also where it streams."""
    (folder / "few.txt.gz").write_bytes(gzip.compress((folder / "few.txt").read_bytes()))
    for name in ("few.txt", "few.txt.gz"):
        message = run(
            "encode -m m.volt",
            name,
            "--form",
            "ids",
            "--pad-to",
            "3",
            "-o",
            "o.ids",
            status=2,
        ).stderr
        assert (
            f"{name}:3, the longest line, has 5 ids, more than pad_to, 3; pass --pad-to 5 or --truncate 3"
            in message.decode()
        )
        assert not (folder / "o.ids").exists()


def test_refused_options(run: Run, folder: Path) -> None:
    """Pieces have no ids to shape; a vocabulary without the role cannot add its token."""
    for option in (["--bos"], ["--eos"], ["--truncate", "3"], ["--pad-to", "3"]):
        message = run("encode -m m.volt few.txt", *option, status=2).stderr.decode()
        assert "work only with ids; choose the form ids, npy or bin" in message
    Vocabulary(merges=(), tokens=("t",), special=SpecialTokens("<unk>", None, None, None)).save(
        "bare.volt"
    )
    for option, role in ((["--bos"], "bos"), (["--eos"], "eos"), (["--pad-to", "9"], "pad")):
        message = run("encode -m bare.volt few.txt --form ids", *option, status=2).stderr.decode()
        assert f"no {role} token" in message
    message = run(
        "encode -m m.volt few.txt --form ids --bos --eos --truncate 1",
        status=2,
    )
    assert b"truncate is 1; give 2 or more" in message.stderr


@pytest.mark.parametrize("form", ["pieces", "ids", "npy"])
@pytest.mark.parametrize("options", [[], ["--dropout", "0.5", "--seed", "1"]])
def test_unknown_characters_are_listed_at_the_end(
    form: str, options: list[str], run: Run, tmp_path: Path
) -> None:
    """Of all files and in any form, each once, without user tokens; nothing for text that is known, or with -q."""
    replace(VOCABULARY, special=SpecialTokens(user=("<url>",))).save("m.volt")
    (tmp_path / "known.txt").write_text("the <url> the\n", encoding="utf-8")
    (tmp_path / "new.txt").write_text("thé the ф\x02<url>\nфthé\n", encoding="utf-8")
    command = ["encode", "-m", "m.volt", "--form", form, *options, "-o", "out.x"]
    assert b"unknown" not in run(*command, "known.txt").stderr
    note = "note: 3 characters of the text are unknown: \\x02 é ф\n"
    assert note in run(*command, "known.txt", "new.txt").stderr.decode()
    assert run(*command, "new.txt", "-q").stderr == b""
