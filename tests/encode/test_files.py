"""Files → encoded files: the lines of the plain path, one output per input, none half-written, none made twice."""

from __future__ import annotations

import cProfile
import gzip
import io
import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from texts_to_encode import LINES, write_texts

from volt.encode.binarize import binarize, binarize_each
from volt.encode.encoder import Encoder
from volt.encode.files import (
    EncodeJob,
    Outcome,
    _write_header,
    encode_each,
    encode_one,
    encode_stream,
    output_files,
)
from volt.encode.frames import Frame
from volt.errors import ConfigError, CorpusError, OutputError
from volt.files.paths import expand
from volt.vocabulary import Vocabulary

ENCODER = Encoder(
    Vocabulary(
        merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w", "w</w>", "low</w>", "lo", "e")
    )
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three files: plain, empty, and compressed without a last line end."""
    return write_texts(tmp_path)


def _made(encoder: Encoder, files: list[str], out: Path, **options: object) -> list[Outcome]:
    return list(encode_each(encoder, files, out, job=EncodeJob(**options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["pieces", "ids"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_stream_is_the_lines_of_all_files(files: list[str], form: str, n_threads: int) -> None:
    """One line per line, in the order of the files, as `encode_text` gives them."""
    stream = b"".join(encode_stream(ENCODER, files, job=EncodeJob(form=form, n_threads=n_threads)))  # type: ignore[arg-type]
    text = "\n".join(LINES + LINES[:3]) + "\n"
    assert stream == ENCODER.encode_text(text.encode(), form=form)  # type: ignore[arg-type]


def test_dropout_counts_lines_on_through_a_stream_and_anew_in_each_file(
    files: list[str], tmp_path: Path
) -> None:
    """Line i of an output draws from (seed, i), whether the output is a stream, text, an array or a pair of files."""
    job, drops, out = EncodeJob(dropout=0.5, seed=3), {"dropout": 0.5, "seed": 3}, tmp_path / "out"
    whole, own = LINES + LINES[:3], LINES[:3]
    text, own_text = ("".join(f"{line}\n" for line in lines).encode() for lines in (whole, own))
    expected, rows = (
        ENCODER.encode_text(text, **drops),
        [ENCODER.encode_batch(lines, **drops) for lines in (whole, own)],
    )
    assert b"".join(encode_stream(ENCODER, files, job=job)) == expected
    encode_one(ENCODER, files, tmp_path / "all", job=job)
    assert (tmp_path / "all").read_bytes() == expected
    outcomes = list(encode_each(ENCODER, files, out, job=job))
    assert outcomes[2].output.read_bytes() == ENCODER.encode_text(own_text, **drops)
    job = EncodeJob("bin", dropout=0.5, seed=3)
    list(encode_each(ENCODER, files, out, job=job))
    assert np.fromfile(out / "c.txt.bin", "<i4").tolist() == rows[1].ids.tolist()
    binarize(ENCODER, files, tmp_path / "all", frame=Frame(), job=job)
    list(binarize_each(ENCODER, files, tmp_path / "pairs", frame=Frame(), job=job))
    for prefix, encoded in ((tmp_path / "all", rows[0]), (tmp_path / "pairs/c.txt", rows[1])):
        assert np.fromfile(f"{prefix}.bin", "<u2").tolist() == encoded.ids.tolist()


@pytest.mark.parametrize("errors", ["strict", "replace", "skip"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_an_output_has_the_lines_of_its_own_file(
    tmp_path: Path, errors: str, dropout: float
) -> None:
    """Also where blocks are empty: a byte order mark alone, packed or not, and a megabyte of lines that are skipped."""
    texts = {
        "a": b"\xef\xbb\xbf",
        "b.gz": gzip.compress(b"\xef\xbb\xbf"),
        "c": b"low\n",
        "f": b"lo\nw",
    }
    if errors == "skip":
        texts |= {"d": b"\xff\n", "e": b"low\n" + b"\xff low low\n" * 250_000 + b"low\n"}
    paths = [str(tmp_path / name) for name in sorted(texts)]
    for path in paths:
        Path(path).write_bytes(texts[Path(path).name])
    options: dict[str, Any] = {"errors": errors, "dropout": dropout, "seed": 1}
    outcomes = _made(ENCODER, paths, tmp_path / "all", **options)
    pairs = list(
        binarize_each(ENCODER, paths, tmp_path / "ids", frame=Frame(), job=EncodeJob(**options))
    )
    for path, outcome, pair in zip(paths, outcomes, pairs, strict=True):
        alone = b"".join(encode_stream(ENCODER, [path], job=EncodeJob(**options)))
        assert (outcome.output.read_bytes(), outcome.n_lines) == (alone, alone.count(b"\n"))
        assert pair.n_lines == alone.count(b"\n")


@pytest.mark.parametrize("way", [encode_stream, encode_one, encode_each, binarize, binarize_each])
def test_each_way_passes_its_options_on(
    way: Callable[..., Any], files: list[str], tmp_path: Path
) -> None:
    """Progress ends at the bytes of all texts; jobs limit lines, and report, replace or skip what is not UTF-8."""
    output = [] if way is encode_stream else [tmp_path / "out"]

    def run(paths: list[str], **options: object) -> int:
        progress, job = [0], EncodeJob("ids" if way is encode_stream else "bin", **options)  # type: ignore[arg-type]
        result = way(ENCODER, paths, *output, job=job, progress=progress.append)
        deque(result if isinstance(result, Iterator) else (), maxlen=0)
        assert progress == sorted(progress)
        return progress[-1]

    assert run(files) == len("".join(f"{line}\n" for line in [*LINES, *LINES[:3]]).encode()) - 1
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"low\n\xff\nlow low\n")
    for options, message in (
        ({}, r"bad\.txt:2: invalid UTF-8"),
        ({"max_line": 3, "errors": "skip"}, r"bad\.txt:3: "),
    ):
        with pytest.raises(CorpusError, match=message):
            run([str(bad)], **options)
    assert run([str(bad)], errors="skip", max_line=7) == 12
    assert run([str(bad)], errors="replace", max_line=7) == 16


@pytest.mark.parametrize("form", ["npy", "bin"])
def test_arrays_hold_the_ids_and_offsets_beside(
    files: list[str], tmp_path: Path, form: str
) -> None:
    """Both arrays hold what `encode_file` gives; numpy reads them, mapped into memory too."""
    for outcome, path in zip(
        _made(ENCODER, files, tmp_path / "out", form=form), files, strict=True
    ):
        expected = ENCODER.encode_file(path)
        offsets = np.load(outcome.output.with_name(f"{outcome.output.name}.offsets.npy"))
        ids = (
            np.load(outcome.output, mmap_mode="r")
            if form == "npy"
            else np.fromfile(outcome.output, "<i4")
        )
        assert (ids == expected.ids).all()
        assert (offsets == expected.offsets).all()
        assert outcome.n_lines == len(expected)


def test_outputs_are_named_after_their_files() -> None:
    """The ending of a compressed file is dropped; arrays have offsets, and a folder its manifest."""
    written = output_files(["a.txt.gz"], Path("out"), job=EncodeJob(form="npy"), each=True)
    assert [path.name for path in written] == [
        "a.txt.npy",
        "a.txt.npy.offsets.npy",
        ".volt-encoded.json",
    ]


def test_all_files_can_share_an_array(files: list[str], tmp_path: Path) -> None:
    """One output for all files: the ids of the stream."""
    n_lines = encode_one(ENCODER, files, tmp_path / "all.npy", job=EncodeJob(form="npy"))
    assert n_lines == len(LINES) + 3
    assert len(np.load(tmp_path / "all.npy.offsets.npy")) == n_lines + 1
    assert (np.load(tmp_path / "all.npy") == ENCODER.encode_batch(LINES + LINES[:3]).ids).all()


def test_finished_outputs_are_not_made_again(files: list[str], tmp_path: Path) -> None:
    """A second run makes nothing; a changed file, option, vocabulary or output is made again, and only that."""
    out = tmp_path / "out"
    assert [outcome.n_lines for outcome in _made(ENCODER, files, out)] == [len(LINES), 0, 3]
    assert [outcome.n_lines for outcome in _made(ENCODER, files, out)] == [None, None, None]
    Path(files[1]).write_text("low\n")
    assert {outcome.source: outcome.n_lines for outcome in _made(ENCODER, files, out)}[
        files[1]
    ] == 1
    (out / "a.txt.pieces").write_text("cut")
    assert [outcome.n_lines for outcome in _made(ENCODER, files, out)] == [None, None, len(LINES)]
    other = Encoder(ENCODER.vocabulary.closed())
    assert all(
        outcome.n_lines is None for outcome in _made(other, files, out)
    )  # the same: it was closed already
    pruned = Encoder(Vocabulary(merges=(), tokens=("l", "o")))
    assert all(outcome.n_lines is not None for outcome in _made(pruned, files, out))
    assert all(outcome.n_lines is not None for outcome in _made(pruned, files, out, separator="@@"))


@pytest.mark.parametrize("form", ["npy", "bin"])
def test_an_output_without_its_offsets_is_made_again(
    files: list[str], tmp_path: Path, form: str
) -> None:
    """Offsets that are gone, shorter or other than before: both files are made again, as they were, and no others."""
    out = tmp_path / "out"
    _made(ENCODER, files, out, form=form)
    before = {path.name: path.read_bytes() for path in out.glob("*.npy")}
    (out / f"a.txt.{form}.offsets.npy").unlink()
    (out / f"c.txt.{form}.offsets.npy").write_bytes(b"cut")
    assert [outcome.n_lines for outcome in _made(ENCODER, files, out, form=form)] == [
        None,
        len(LINES),
        3,
    ]
    (out / f"c.txt.{form}.offsets.npy").write_bytes(
        before[f"c.txt.{form}.offsets.npy"].replace(b"\0", b"\1")
    )
    assert [outcome.n_lines for outcome in _made(ENCODER, files, out, form=form)] == [None, None, 3]
    assert {path.name: path.read_bytes() for path in out.glob("*.npy")} == before


def test_what_is_being_made_again_is_not_said_to_be_made(files: list[str], tmp_path: Path) -> None:
    """Stopped while it makes outputs anew, perhaps between an output and its offsets, a run leaves no claim on them."""
    out = tmp_path / "out"
    _made(ENCODER, files, out, form="npy")
    pruned = Encoder(Vocabulary(merges=(), tokens=("l", "o")))
    made = encode_each(pruned, files, out, job=EncodeJob(form="npy"))
    next(made)
    (out / "b.txt.npy.offsets.npy").write_bytes(
        (out / "b.txt.npy.offsets.npy").read_bytes()
    )  # of the same size as before
    made.close()  # type: ignore[attr-defined]
    manifest = json.loads((out / ".volt-encoded.json").read_bytes())
    assert {name for name, origin in manifest.items() if "files" in origin} == {"a.txt.npy"}
    assert [outcome.n_lines for outcome in _made(ENCODER, files, out, form="npy")] == [
        len(LINES),
        0,
        3,
    ]


def test_no_output_is_an_input(files: list[str], tmp_path: Path) -> None:
    """In Python too: one output for all files, one for each, and the offsets beside."""
    (tmp_path / "twin").hardlink_to(files[0])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a.txt.npy.offsets.npy").symlink_to(files[0])
    (tmp_path / "ids.npy.offsets.npy").hardlink_to(files[0])
    before = Path(files[0]).read_bytes()
    with pytest.raises(ConfigError, match="which is read"):
        encode_one(ENCODER, files, tmp_path / "twin", job=EncodeJob())
    with pytest.raises(ConfigError, match="which is read"):
        encode_one(ENCODER, files, tmp_path / "ids.npy", job=EncodeJob(form="npy"))
    with pytest.raises(ConfigError, match="which is read"):
        _made(ENCODER, files, tmp_path / "out", form="npy")
    assert Path(files[0]).read_bytes() == before
    assert len(_made(ENCODER, files, tmp_path / "out")) == 3


def test_a_fault_leaves_what_was_done_and_nothing_half_done(
    files: list[str], tmp_path: Path
) -> None:
    """Files before a bad one are finished and recognised later; the bad one leaves nothing."""
    Path(files[1]).write_bytes(b"low\n\xff\n")
    out = tmp_path / "out"
    with pytest.raises(CorpusError, match=r"b\.txt:2: invalid UTF-8"):
        _made(ENCODER, files, out)
    assert sorted(path.name for path in out.iterdir()) == [".volt-encoded.json", "a.txt.pieces"]
    Path(files[1]).write_bytes(b"low\n")
    assert [outcome.n_lines for outcome in _made(ENCODER, files, out)] == [None, 1, 3]


def test_places_that_cannot_be_written_are_reported(files: list[str], tmp_path: Path) -> None:
    """Two files of one name, a folder that cannot be made, arrays in a stream, bad options."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.txt").write_text("low")
    with pytest.raises(ConfigError, match="has the same output"):
        _made(ENCODER, [*files, str(tmp_path / "d/a.txt")], tmp_path / "out")
    with pytest.raises(OutputError, match="cannot be created"):
        _made(ENCODER, files, tmp_path / "a.txt" / "out")
    with pytest.raises(ConfigError, match="cannot go to a stream"):
        next(encode_stream(ENCODER, files, job=EncodeJob(form="npy")))
    for options in (
        {"form": "json"},
        {"form": "ids", "separator": "@@"},
        {"n_threads": 0},
        {"dropout": 2.0},
    ):
        with pytest.raises(ConfigError):
            EncodeJob(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["pieces", "npy"])
def test_a_folder_can_be_encoded_into_itself_again_and_again(
    files: list[str], tmp_path: Path, form: str
) -> None:
    """What earlier runs wrote, in any form, or half made, is no input; a file of the user's is, whatever its name."""
    assert len(_made(ENCODER, files, tmp_path, form="ids")) == 3
    stopped = encode_each(ENCODER, expand(tmp_path), tmp_path, job=EncodeJob(form=form))  # type: ignore[arg-type]
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    (tmp_path / "a.txt.ids").write_bytes(b"\xff")  # as a kill may leave it, between two renames
    assert [
        outcome.n_lines for outcome in _made(ENCODER, expand(tmp_path), tmp_path, form=form)
    ] == [None, 0, 3]
    assert [
        outcome.n_lines for outcome in _made(ENCODER, expand(tmp_path), tmp_path, form=form)
    ] == [None] * 3
    (tmp_path / "mine.txt.ids").write_text("low\n")
    outcomes = _made(ENCODER, expand(tmp_path), tmp_path, form=form)
    assert [Path(outcome.source).name for outcome in outcomes if outcome.n_lines] == [
        "mine.txt.ids"
    ]
    (tmp_path / "d").mkdir()
    (tmp_path / "d/c.txt.ids").write_text(
        "low\n"
    )  # in another folder, an earlier output's name means nothing
    assert [
        outcome.n_lines for outcome in _made(ENCODER, [str(tmp_path / "d/c.txt.ids")], tmp_path)
    ] == [1]


def test_the_manifest_of_many_outputs_is_written_in_linear_time(tmp_path: Path) -> None:
    """While outputs are made, notes are added to the manifest, and it is not written anew for each."""
    for number in range(200):
        (tmp_path / f"{number:03}.txt").write_text("low\n")
    out, sizes, inodes = tmp_path / "out", list[int](), set[int]()
    for _ in encode_each(ENCODER, expand(tmp_path), out, job=EncodeJob()):
        found = (out / ".volt-encoded.json").stat()
        sizes.append(found.st_size)
        inodes.add(found.st_ino)
    assert len(inodes) == 1  # never rewritten meanwhile
    assert sizes == sorted(sizes)
    assert sizes[-1] < 5 * (out / ".volt-encoded.json").stat().st_size


@pytest.mark.parametrize("n_bytes", [1, 40, 300])
def test_a_note_cut_off_by_a_kill_costs_its_output_alone(
    files: list[str], tmp_path: Path, n_bytes: int
) -> None:
    """A run that is killed leaves a note for each output made; one that was cut off is made again, and no other."""
    out = tmp_path / "out"
    lines, stopped = [], encode_each(ENCODER, files, out, job=EncodeJob())
    for _ in stopped:
        lines.append((out / ".volt-encoded.json").read_bytes())
    (out / ".volt-encoded.json").write_bytes(lines[1])
    assert [outcome.n_lines for outcome in _made(ENCODER, files, out)] == [None, None, 3]
    (out / ".volt-encoded.json").write_bytes(lines[2][:-n_bytes])
    assert [outcome.n_lines for outcome in _made(ENCODER, files, out)] == [None, None, 3]


def test_damaged_notes_about_outputs_are_ignored(files: list[str], tmp_path: Path) -> None:
    """A manifest that is no JSON means that outputs are made again, not that the run fails."""
    out = tmp_path / "out"
    _made(ENCODER, files, out)
    for damaged in ("{", "[1]", '{"a.txt.pieces": 1}', "\xff"):
        (out / ".volt-encoded.json").write_text(damaged, encoding="latin-1")
        assert all(outcome.n_lines is not None for outcome in _made(ENCODER, files, out))


def test_npy_head_fits_any_length() -> None:
    """The head that is written last is as long as the one written first."""
    files = {n: io.BytesIO() for n in (0, 10**6, 10**15)}
    for n, file in files.items():
        _write_header(file, n)
    assert len({file.tell() for file in files.values()}) == 1


def test_a_small_file_costs_few_calls(tmp_path: Path) -> None:
    """Each further output of one line calls few functions more; creating and renaming it takes the most time."""
    calls = []
    for n in (5, 45):
        folder = tmp_path / str(n)
        folder.mkdir()
        for number in range(n):
            (folder / f"{number}.txt").write_text("low lower\n")
        profile = cProfile.Profile()
        paths = sorted(map(str, folder.iterdir()))
        profile.runcall(deque, binarize_each(ENCODER, paths, folder / "out", frame=Frame()), 0)
        calls.append(sum(row.callcount for row in profile.getstats()))
    assert (calls[1] - calls[0]) / 40 < 1_900
