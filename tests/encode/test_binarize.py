"""Text → .bin and .idx: the ids of `encode`, line by line, with eos behind each and what else is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexed_ids import packed, unpacked
from texts_to_encode import LINES, write_texts

from volt.encode import binarize as binarizing
from volt.encode.binarize import binarize, binarize_each
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_stream
from volt.encode.frames import Frame
from volt.errors import ConfigError, CorpusError
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

TOKENS = ("l", "o", "w", "w</w>", "low</w>", "lo", "e")
ENCODER = Encoder(
    Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=TOKENS, special=SpecialTokens(user=("<2de>",)))
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three files: plain, empty, and compressed without a last line end."""
    return write_texts(tmp_path)


def _ids(lines: list[str]) -> list[list[int]]:
    return [ENCODER.encode_ids(line).tolist() for line in lines]


def _both(prefix: Path) -> tuple[bytes, bytes]:
    return Path(f"{prefix}.bin").read_bytes(), Path(f"{prefix}.idx").read_bytes()


@pytest.mark.parametrize("n_threads", [1, 3])
def test_sentences_are_the_lines_of_encode_with_eos(files: list[str], tmp_path: Path, n_threads: int) -> None:
    """Sentence i is what `encode --form ids` gives for line i, and eos, in the bytes of an independent writer."""
    made = binarize(ENCODER, files, tmp_path / "out", job=EncodeJob("bin", n_threads=n_threads))
    text = b"".join(encode_stream(ENCODER, files, job=EncodeJob("ids"))).decode()
    expected = [[*map(int, line.split()), 2] for line in text.split("\n")[:-1]]
    assert _both(tmp_path / "out") == packed(expected, "u16")
    assert (made.n_lines, made.n_ids, made.dtype) == (len(LINES) + 3, sum(map(len, expected)), "u16")


def test_each_file_has_a_pair_of_its_own(files: list[str], tmp_path: Path) -> None:
    """In a folder each file has a pair, named without the ending of a compressed file."""
    made = list(binarize_each(ENCODER, files, tmp_path / "out"))
    assert [(one.prefix.name, one.n_lines) for one in made] == [("a.txt", 200), ("b.txt", 0), ("c.txt", 3)]
    for one, lines in zip(made, (LINES, [], LINES[:3]), strict=True):
        assert unpacked(*_both(one.prefix)) == [[*ids, 2] for ids in _ids(lines)]


@given(
    st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=6), st.lists(st.integers(0, 99), max_size=3), st.data()
)
def test_a_frame_stands_around_every_line(lines: list[list[int]], front: list[int], data: st.DataObject) -> None:
    """Each line has the same ids in front and behind, and its own between them, an empty one no others."""
    back = data.draw(st.lists(st.integers(0, 99), max_size=3))
    ids = np.array([id_ for line in lines for id_ in line], np.int32)
    ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
    made, sizes = Frame(tuple(front), tuple(back)).around(ids, ends)
    expected = [front + line + back for line in lines]
    assert made.tolist() == [id_ for line in expected for id_ in line]
    assert sizes.tolist() == [len(line) for line in expected]


def test_what_stands_around_lines_is_reported_by_token_or_id(files: list[str], tmp_path: Path) -> None:
    """bos, then the token to prepend, then the line, then eos; each a token, an id, or nothing."""
    frame = Frame.of(ENCODER.vocabulary, bos="<s>", prepend="<2de>", eos=300)
    assert frame == Frame((1, 4), (300,))
    binarize(ENCODER, files[:1], tmp_path / "out", frame=frame)
    assert unpacked(*_both(tmp_path / "out")) == [[1, 4, *ids, 300] for ids in _ids(LINES)]
    binarize(ENCODER, files[:1], tmp_path / "out", frame=Frame(), dtype="u8")
    assert _both(tmp_path / "out") == packed(_ids(LINES), "u8")
    for wrong, message in (
        ("<x>", "prepend '<x>' is not a token of the vocabulary"),
        (-1, "prepend is -1; give 0 or more"),
    ):
        with pytest.raises(ConfigError, match=message):
            Frame.of(ENCODER.vocabulary, prepend=wrong)


def test_ids_beyond_the_kind_of_number_are_refused_before_any_work(files: list[str], tmp_path: Path) -> None:
    """A kind that does not hold the vocabulary's ids, or those around lines, is reported at once."""
    for frame, dtype, message in (
        (Frame((), (256,)), "u8", "dtype 'u8' allows ids up to 255, but the largest id is 256; pass dtype='u16'"),
        (Frame((), (70_000,)), "u16", "allows ids up to 65,535, but the largest id is 70,000; pass dtype='i32'"),
    ):
        with pytest.raises(ConfigError, match=message):
            binarize(ENCODER, files, tmp_path / "out", frame=frame, dtype=dtype)
    assert not (tmp_path / "out.idx").exists()
    assert binarize(ENCODER, files, tmp_path / "out", frame=Frame((), (70_000,))).dtype == "i32"


def test_no_input_is_written_over_and_nothing_half_written_is_left(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output that is an input is refused; a text that is no UTF-8, or a kill at writing, leaves no file."""
    os.link(files[0], tmp_path / "x.bin")
    with pytest.raises(ConfigError, match=r"x\.bin: would be written over .*a\.txt, which is read"):
        binarize(ENCODER, files, tmp_path / "x")
    with pytest.raises(ConfigError, match="stdin has no name for an output in a folder"):
        list(binarize_each(ENCODER, ["-"], tmp_path / "out"))
    (tmp_path / "bad.txt").write_bytes(b"low\n\xff\n")
    with pytest.raises(CorpusError, match=r"bad\.txt:2: invalid UTF-8"):
        binarize(ENCODER, [str(tmp_path / "bad.txt")], tmp_path / "y")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt", "bad.txt", "c.txt.gz", "x.bin"]
    assert binarizing.pair_files(tmp_path / "y.bin") == [tmp_path / "y.bin", tmp_path / "y.idx"]
