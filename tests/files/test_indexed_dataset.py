"""Indexed ids: the bytes that fairseq writes, the sentences that it reads, and every damage reported where it is."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from indexed_ids import CODES, Sentences, packed, unpacked, write_pair

from volt.errors import ConfigError, CorpusError, OutputError
from volt.files import indexed_dataset
from volt.files.indexed_dataset import (
    IdsWriter,
    check_dtype,
    dtype_for,
    dtype_of,
    open_ids,
    write_ids,
)

SENTENCES = [[5, 6, 2], [2], [], [7, 2]]


@pytest.fixture(autouse=True)
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check and write two sentences at a time."""
    monkeypatch.setattr(indexed_dataset, "_SPAN", 2)


QUICK = settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def _write(path: Path, sentences: Sentences, dtype: str, *, at_a_time: int = 2) -> None:
    with write_ids(path, dtype=dtype) as writer:
        for first in range(0, len(sentences), at_a_time):
            some = sentences[first : first + at_a_time]
            ids = np.array([id_ for sentence in some for id_ in sentence], dtype_of(dtype))
            writer.add(ids, np.array([len(sentence) for sentence in some]))


@st.composite
def typed_sentences(draw: st.DrawFn) -> tuple[str, list[list[int]]]:
    """A kind of number, and sentences of any ids that it holds."""
    dtype = draw(st.sampled_from(sorted(CODES)))
    info = np.iinfo(dtype_of(dtype))
    ids = st.integers(int(info.min), int(info.max)) | st.sampled_from(
        [0, int(info.min), int(info.max)]
    )
    return dtype, draw(st.lists(st.lists(ids, max_size=4), max_size=7))


@QUICK
@given(typed_sentences(), st.integers(1, 3))
def test_bytes_are_those_of_the_format_and_come_back(
    tmp_path: Path, message: tuple[str, list[list[int]]], at_a_time: int
) -> None:
    """Both files are, byte for byte, what an independent writer makes, however sentences are grouped; an independent
    reader and ours give the sentences back, one by one and by spans."""
    dtype, sentences = message
    _write(tmp_path / "a", sentences, dtype, at_a_time=at_a_time)
    data, index = (tmp_path / "a.bin").read_bytes(), (tmp_path / "a.idx").read_bytes()
    assert (data, index) == packed(sentences, dtype)
    assert unpacked(data, index) == sentences
    found = open_ids(tmp_path / "a")
    found.check()
    assert [found.ids(number).tolist() for number in range(len(found))] == sentences
    assert (found.dtype, found.documents) == (dtype, None)
    for first in range(len(sentences) + 1):
        ids, offsets = found.span(first, len(sentences))
        assert [ids[start:end].tolist() for start, end in pairwise(offsets.tolist())] == sentences[
            first:
        ]


@pytest.mark.parametrize("name", ["a", "a.bin", "a.idx"])
def test_either_file_or_the_prefix_names_both(tmp_path: Path, name: str) -> None:
    """All three names are written to, and read, as the same pair."""
    _write(tmp_path / name, SENTENCES, "u16")
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "a.idx"]
    assert open_ids(tmp_path / name).ids(3).tolist() == [7, 2]


def test_an_index_with_documents_has_the_bytes_of_megatron(tmp_path: Path) -> None:
    """Count of bounds after the count of sentences, and bounds at the end, in the bytes of Megatron's format."""
    with write_ids(tmp_path / "m", dtype="u16", has_documents=True) as writer:
        writer.add(
            np.array([5, 6, 2, 2]), np.array([3, 1, 0]), starts=np.array([True, False, True])
        )
    parts = ["4d4d49444944580000", "0100000000000000", "08", "0300000000000000", "0300000000000000"]
    parts += ["030000000100000000000000", "000000000000000006000000000000000800000000000000"]
    parts += ["000000000000000002000000000000000300000000000000"]
    assert (tmp_path / "m.idx").read_bytes().hex() == "".join(parts)
    assert (tmp_path / "m.bin").read_bytes().hex() == "0500060002000200"


@QUICK
@given(typed_sentences(), st.integers(1, 3), st.booleans(), st.data())
def test_documents_come_back(
    tmp_path: Path,
    message: tuple[str, list[list[int]]],
    at_a_time: int,
    by_default: bool,
    data: st.DataObject,
) -> None:
    """Documents of one sentence or more have the bytes of an independent writer, however sentences are grouped; by
    default, each sentence is a document."""
    dtype, sentences = message
    n = len(sentences)
    starts = np.array([by_default or data.draw(st.booleans()) for _ in sentences], np.bool_)
    with write_ids(tmp_path / "m", dtype=dtype, has_documents=True) as writer:
        for first in range(0, n, at_a_time):
            some = sentences[first : first + at_a_time]
            ids = np.array([id_ for sentence in some for id_ in sentence], dtype_of(dtype))
            own = None if by_default else starts[first : first + at_a_time]
            writer.add(ids, np.array([len(sentence) for sentence in some]), starts=own)
    bounds = [0, *(number for number in range(1, n) if starts[number]), n] if n else [0]
    both = (tmp_path / "m.bin").read_bytes(), (tmp_path / "m.idx").read_bytes()
    assert both == packed(sentences, dtype, documents=bounds)
    found = open_ids(tmp_path / "m")
    found.check()
    assert found.documents is not None
    assert found.documents.tolist() == bounds


def _index(change: Callable[[bytearray], object]) -> bytes:
    index = bytearray(packed(SENTENCES, "u16")[1])
    change(index)
    return bytes(index)


def _put(place: int, layout: str, value: int) -> Callable[[bytearray], object]:
    return lambda index: struct.pack_into(layout, index, place, value)


POINTERS = 26 + 4 * len(SENTENCES)
DAMAGED = {
    "empty": (b"", "has 0 bytes, but a header needs 26; copy both files again, or binarize"),
    "half a magic": (b"MMID", "has 4 bytes, but a header needs 26"),
    "half a head": (packed(SENTENCES, "u16")[1][:25], "has 25 bytes, but a header needs 26"),
    "no index": (
        b"one two three",
        "is not an index of fairseq or Megatron, which starts with MMIDIDX",
    ),
    "older": (
        b"TNTIDX\0\0" + bytes(40),
        "is in fairseq's older index format; binarize the text again as mmap",
    ),
    "version": (_index(_put(9, "<Q", 2)), "the format version is 2, but VOLT reads only 1"),
    "float": (_index(_put(17, "<B", 6)), "contains floating-point numbers, which are not ids"),
    "double": (_index(_put(17, "<B", 7)), "contains floating-point numbers, which are not ids"),
    "kind": (_index(_put(17, "<B", 11)), "the code 11 stands for no dtype"),
    "truncated": (
        packed(SENTENCES, "u16")[1][:-1],
        "has 73 bytes, but 4 sentences need 74, or more with Megatron's bounds",
    ),
    "longer": (packed(SENTENCES, "u16")[1] + b"\0", "has 75 bytes, but 4 sentences need 74"),
    "count": (
        _index(_put(18, "<Q", 1 << 60)),
        "has 74 bytes, but 1152921504606846976 sentences need",
    ),
    "modes": (
        packed(SENTENCES, "u16", documents=[0, 4])[1] + bytes(4),
        "is a multimodal index of Megatron",
    ),
    "documents": (
        packed(SENTENCES, "u16", documents=[0, 3])[1],
        "bounds of documents do not span all sentences",
    ),
    "no documents": (
        packed(SENTENCES, "u16", documents=[])[1],
        "bounds of documents do not span all sentences",
    ),
    "falling": (
        packed(SENTENCES, "u16", documents=[0, 3, 1, 4])[1],
        "bounds of documents do not increase",
    ),
    "negative": (_index(_put(30, "<i", -1)), "sentence 2 has -1 ids; copy both files again"),
    "last is negative": (_index(_put(38, "<i", -2)), "sentence 4 has -2 ids"),
    "overlap": (
        _index(_put(POINTERS + 8, "<q", 4)),
        "sentence 2 starts at byte 4, but the previous one ends at 6",
    ),
    "gap": (
        _index(_put(POINTERS + 16, "<q", 10)),
        "sentence 3 starts at byte 10, but the previous one ends at 8",
    ),
    "first": (
        _index(_put(POINTERS, "<q", 2)),
        "sentence 1 starts at byte 2, but the previous one ends at 0",
    ),
    "size": (
        _index(_put(26, "<i", 4)),
        "sentence 2 starts at byte 6, but the previous one ends at 8",
    ),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_index_is_refused(tmp_path: Path, kind: str) -> None:
    """A fault is reported with its file, and with its sentence if it concerns only one."""
    index, message = DAMAGED[kind]
    write_pair(tmp_path / "a", SENTENCES, "u16")
    (tmp_path / "a.idx").write_bytes(index)
    with pytest.raises(CorpusError) as caught:
        open_ids(tmp_path / "a.bin").check()
    assert (
        str(caught.value)
        .replace(",", "")
        .startswith(f"{tmp_path}/a.idx: {message}".replace(",", ""))
    )


def test_damage_in_one_place_leaves_the_rest(tmp_path: Path) -> None:
    """What is read is what is checked: sentences elsewhere can be read, the damaged one and those behind it cannot."""
    write_pair(tmp_path / "a", SENTENCES, "u16")
    (tmp_path / "a.idx").write_bytes(_index(_put(POINTERS + 8, "<q", 4)))
    found = open_ids(tmp_path / "a")
    assert found.ids(0).tolist() == [5, 6, 2]
    for wrong in (1, 2):
        with pytest.raises(CorpusError, match="the previous one ends at"):
            found.ids(wrong)
    for missing in (-1, 4):
        with pytest.raises(IndexError, match=f"sentence {missing} of 4"):
            found.ids(missing)


@pytest.mark.parametrize("size", [0, 11, 13, 14])
def test_data_of_another_length_is_refused(tmp_path: Path, size: int) -> None:
    """A .bin that ends before or behind its last sentence is reported with both lengths."""
    data = packed(SENTENCES, "u16")[0]
    write_pair(tmp_path / "a", SENTENCES, "u16")
    (tmp_path / "a.bin").write_bytes((data + bytes(2))[:size])
    with pytest.raises(
        CorpusError, match=rf"a\.bin: has {size} bytes, but .*a\.idx requires 12; copy both"
    ):
        open_ids(tmp_path / "a")


@pytest.mark.parametrize("gone", [".bin", ".idx"])
def test_a_missing_file_is_named(tmp_path: Path, gone: str) -> None:
    """One file without the other cannot be read."""
    write_pair(tmp_path / "a", SENTENCES, "u16")
    (tmp_path / f"a{gone}").unlink()
    with pytest.raises(
        CorpusError, match=rf"a\{gone}: cannot be read: no such file.*belong together"
    ):
        open_ids(tmp_path / "a")


def _add_good_and(writer: IdsWriter, ids: list[int], sizes: list[int]) -> None:
    writer.add(np.array([1]), np.array([1]))
    writer.add(np.array(ids), np.array(sizes))


def test_ids_that_do_not_fit_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    """An id beyond the kind of number stops writing; an old pair stays as it was, and no half file is left."""
    _write(tmp_path / "a", SENTENCES, "u16")
    before = [(tmp_path / name).read_bytes() for name in ("a.bin", "a.idx")]
    wrong = [
        ([65_536], [1], "id 65,536 does not fit: u16 allows 0 to 65,535; choose another dtype"),
        ([-1], [1], "id -1 does not fit"),
        ([1], [1, 1], "the sum of sizes is 2, but there are 1 ids"),
        ([1], [-1, 2], "sentences have -1 to 2 ids"),
    ]
    for ids, sizes, message in wrong:
        with (
            pytest.raises(ConfigError, match=message),
            write_ids(tmp_path / "a", dtype="u16") as writer,
        ):
            _add_good_and(writer, ids, sizes)
    assert [(tmp_path / name).read_bytes() for name in ("a.bin", "a.idx")] == before
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "a.idx"]


def test_an_old_index_goes_before_new_data_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the two renames leaves data without an index, never new data with an old index."""
    _write(tmp_path / "a", SENTENCES, "u16")
    real, seen = os.replace, list[list[str]]()

    def replaced(part: Path, place: Path) -> None:
        seen.append(sorted(name for name in os.listdir(tmp_path) if not name.startswith(".")))
        real(part, place)

    monkeypatch.setattr(os, "replace", replaced)
    _write(tmp_path / "a", SENTENCES[::-1], "u16")
    assert seen == [["a.bin"], ["a.bin"]]
    assert open_ids(tmp_path / "a").ids(0).tolist() == [7, 2]


def test_places_that_cannot_hold_a_pair_are_refused(tmp_path: Path) -> None:
    """No folder, a device: reported before anything is written."""
    with pytest.raises(OutputError, match=r"none/a\.idx: cannot be written: no such file"):
        _write(tmp_path / "none" / "a", SENTENCES, "u16")
    (tmp_path / "a.idx").symlink_to("/dev/null")
    with pytest.raises(
        ConfigError, match=r"a\.idx: is a pipe or a device; give the path of a file"
    ):
        _write(tmp_path / "a", SENTENCES, "u16")
    assert sorted(os.listdir(tmp_path)) == ["a.idx"]


def test_the_kind_of_number_follows_from_the_vocabulary() -> None:
    """u16 below 65,500 ids, else i32; a kind that does not hold the largest id is refused."""
    assert [dtype_for(n) for n in (1, 65_499, 65_500)] == ["u16", "u16", "i32"]
    for dtype, most in (("u8", 256), ("i8", 128), ("u16", 65_536)):
        check_dtype(dtype, most)
        message = f"dtype '{dtype}' allows ids up to {most - 1:,}, but the largest id is {most:,}"
        with pytest.raises(ConfigError, match=message):
            check_dtype(dtype, most + 1)
    with pytest.raises(ConfigError, match="unknown dtype 'f32'; choose from u8, i8"):
        check_dtype("f32", 1)
