"""Laws of indexed ids: the bytes that fairseq and Megatron write, and errors that name each damaged
sentence."""

import os
import re
import struct
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.indexed_ids import CODES, packed, unpacked, write_pair

from volt.errors import ConfigError, CorpusError, OutputError
from volt.files import indexed_dataset
from volt.files.indexed_dataset import check_dtype, dtype_for, dtype_of, open_ids, write_ids

SENTENCES = [[5, 6, 2], [2], [], [7, 2]]
QUICK = settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def small_spans(monkeypatch):
    """Check and write two sentences at a time."""
    monkeypatch.setattr(indexed_dataset, "_SPAN", 2)


def write(
    path,
    sentences,
    dtype,
    *,
    at_a_time=2,
    has_documents=False,
    starts=None,
):
    """Write sentences; return the bytes of both files."""
    with write_ids(path, dtype=dtype, has_documents=has_documents) as writer:
        for first in range(0, len(sentences), at_a_time):
            last = first + at_a_time
            some = sentences[first:last]
            ids = np.array([*chain(*some)], dtype_of(dtype))
            own = None if starts is None else np.array(starts[first:last], np.bool_)
            writer.add(ids, np.array(list(map(len, some))), starts_document=own)
    return path.with_suffix(".bin").read_bytes(), path.with_suffix(".idx").read_bytes()


@st.composite
def typed_sentences(draw):
    """A dtype, and sentences of any ids that it can store."""
    dtype = draw(st.sampled_from(sorted(CODES)))
    info = np.iinfo(dtype_of(dtype))
    least = int(info.min)
    most = int(info.max)
    ids = st.integers(least, most) | st.sampled_from([0, least, most])
    return dtype, draw(st.lists(st.lists(ids, max_size=4), max_size=7))


@QUICK
@given(typed_sentences(), st.integers(1, 3))
def test_sentences_are_written_and_read(tmp_path, typed, at_a_time):
    """`write_ids` writes the bytes of an independent writer; an independent reader and `open_ids`
    return the sentences."""
    dtype, sentences = typed
    both = write(tmp_path / "a", sentences, dtype, at_a_time=at_a_time)
    assert both == packed(sentences, dtype)
    assert unpacked(*both) == sentences
    found = open_ids(tmp_path / "a")
    found.check()
    assert [found.ids(number).tolist() for number in range(len(found))] == sentences
    assert (found.dtype, found.documents) == (dtype, None)
    for first in range(len(sentences) + 1):
        ids, offsets = found.span(first, len(sentences))
        bounds = pairwise(offsets.tolist())
        assert [ids[start:end].tolist() for start, end in bounds] == sentences[first:]


@pytest.mark.parametrize("name", ["a", "a.bin", "a.idx"])
def test_either_file_or_the_prefix_names_both(tmp_path, name):
    """`write_ids` and `open_ids` accept NAME, NAME.bin and NAME.idx."""
    with write_ids(tmp_path / name, dtype="u16") as writer:
        writer.add(np.array([7, 2]), np.array([2]))
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "a.idx"]
    assert open_ids(tmp_path / name).ids(0).tolist() == [7, 2]


def test_an_index_with_documents_has_the_bytes_of_megatron(tmp_path):
    """In an index with documents, the number of bounds follows the number of sentences, and the
    bounds are at the end."""
    starts = [True, False, True]
    data, index = write(
        tmp_path / "m", [[5, 6, 2], [2], []], "u16", has_documents=True, starts=starts
    )
    parts = ["4d4d49444944580000", "0100000000000000", "08", "0300000000000000", "0300000000000000"]
    parts += ["030000000100000000000000", "000000000000000006000000000000000800000000000000"]
    parts += ["000000000000000002000000000000000300000000000000"]
    assert index.hex() == "".join(parts)
    assert data.hex() == "0500060002000200"


@QUICK
@given(typed_sentences(), st.integers(1, 3), st.booleans(), st.data())
def test_documents_are_written_and_read(tmp_path, typed, at_a_time, by_default, data):
    """`write_ids` with documents writes the bytes of an independent writer.

    By default, each sentence is a document.
    """
    dtype, sentences = typed
    n = len(sentences)
    starts = [by_default or data.draw(st.booleans()) for _ in sentences]
    both = write(
        tmp_path / "m",
        sentences,
        dtype,
        at_a_time=at_a_time,
        has_documents=True,
        starts=None if by_default else starts,
    )
    bounds = [0, *(number for number in range(1, n) if starts[number]), n][: n + 2 if n else 1]
    assert both == packed(sentences, dtype, documents=bounds)
    found = open_ids(tmp_path / "m")
    found.check()
    assert found.documents is not None
    assert found.documents.tolist() == bounds


def test_empty_documents_are_read(tmp_path):
    """`open_ids` accepts bounds of documents that repeat."""
    found = open_ids(write_pair(tmp_path / "m", SENTENCES, "i32", documents=[0, 0, 3, 3, 4]))
    found.check()
    assert found.documents is not None
    assert found.documents.tolist() == [0, 0, 3, 3, 4]


INDEX = packed(SENTENCES, "u16")[1]
POINTERS = 26 + 4 * len(SENTENCES)
# Where an index is damaged (place, layout, value) → the start of the error.
CHANGES = {
    (9, "<Q", 2): "the format version is 2, but VOLT reads only 1",
    (17, "<B", 6): "contains floating-point numbers, which are not ids",
    (17, "<B", 7): "contains floating-point numbers, which are not ids",
    (17, "<B", 11): "the code 11 stands for no dtype",
    (18, "<Q", 1 << 60): "has 74 bytes, but 1,152,921,504,606,846,976 sentences need",
    (26, "<i", 4): "sentence 2 starts at byte 6, but the previous one ends at 8",
    (30, "<i", -1): "sentence 2 has -1 ids; copy both files again",
    (38, "<i", -2): "sentence 4 has -2 ids",
    (POINTERS, "<q", 2): "sentence 1 starts at byte 2, but the previous one ends at 0",
    (POINTERS + 8, "<q", 4): "sentence 2 starts at byte 4, but the previous one ends at 6",
    (POINTERS + 16, "<q", 10): "sentence 3 starts at byte 10, but the previous one ends at 8",
}
CONTENTS = {
    b"": "has 0 bytes, but a header needs 26; copy both files again, or binarize",
    b"MMID": "has 4 bytes, but a header needs 26",
    INDEX[:25]: "has 25 bytes, but a header needs 26",
    b"one two three": "is not an index of fairseq or Megatron, which starts with MMIDIDX",
    b"TNTIDX\0\0" + bytes(40): "is in fairseq's older index format; binarize the text again",
    INDEX[:-1]: "has 73 bytes, but 4 sentences need 74, or more with Megatron's bounds",
    INDEX + b"\0": "has 75 bytes, but 4 sentences need 74",
}
DOCUMENTS = {
    (0, 3): "bounds of documents do not span all sentences",
    (): "bounds of documents do not span all sentences",
    (0, 3, 1, 4): "bounds of documents do not increase",
}


def damaged():
    """Return damaged indices, and the start of the error of each."""
    result = list(CONTENTS.items())
    for (place, layout, value), message in CHANGES.items():
        index = bytearray(INDEX)
        struct.pack_into(layout, index, place, value)
        result.append((bytes(index), message))
    for bounds, message in DOCUMENTS.items():
        result.append((packed(SENTENCES, "u16", documents=list(bounds))[1], message))
    multimodal = packed(SENTENCES, "u16", documents=[0, 4])[1] + bytes(4)
    return [*result, (multimodal, "is a multimodal index of Megatron")]


@pytest.mark.parametrize(("index", "message"), damaged(), ids=[row[1][:40] for row in damaged()])
def test_a_damaged_index_is_refused(tmp_path, index, message):
    """The error for a damaged index names the file, and the sentence if only one is damaged."""
    write_pair(tmp_path / "a", SENTENCES, "u16")
    (tmp_path / "a.idx").write_bytes(index)
    with pytest.raises(CorpusError, match=f"^{re.escape(f'{tmp_path}/a.idx: {message}')}"):
        open_ids(tmp_path / "a.bin").check()


def test_damage_in_one_place_leaves_the_rest(tmp_path):
    """`IndexedIds.ids` returns sentences before a damaged one, and raises IndexError for a missing
    sentence."""
    write_pair(tmp_path / "a", SENTENCES, "u16")
    index = bytearray(INDEX)
    struct.pack_into("<q", index, POINTERS + 8, 4)
    (tmp_path / "a.idx").write_bytes(index)
    found = open_ids(tmp_path / "a")
    assert found.ids(0).tolist() == [5, 6, 2]
    for wrong in (1, 2):
        with pytest.raises(CorpusError, match="the previous one ends at"):
            found.ids(wrong)
    for missing in (-1, 4):
        with pytest.raises(IndexError, match=f"sentence {missing} of 4"):
            found.ids(missing)


@pytest.mark.parametrize("size", [0, 11, 13, 14])
def test_data_of_another_length_is_refused(tmp_path, size):
    """If NAME.bin has another length than the index requires, the error states both lengths."""
    write_pair(tmp_path / "a", SENTENCES, "u16")
    (tmp_path / "a.bin").write_bytes(bytes(size))
    message = rf"a\.bin: has {size} bytes, but .*a\.idx requires 12; copy both"
    with pytest.raises(CorpusError, match=message):
        open_ids(tmp_path / "a")


@pytest.mark.parametrize("ending", [".bin", ".idx"])
def test_a_missing_file_is_named(tmp_path, ending):
    """If NAME.bin or NAME.idx is missing, the error of `open_ids` names the missing file."""
    write_pair(tmp_path / "a", SENTENCES, "u16")
    (tmp_path / f"a{ending}").unlink()
    message = rf"a\{ending}: cannot be read: no such file.*belong together"
    with pytest.raises(CorpusError, match=message):
        open_ids(tmp_path / "a")


def test_a_failed_write_leaves_the_old_pair(tmp_path):
    """If the block of `write_ids` raises an error, both old files are unchanged, and no other file exists."""
    before = write(tmp_path / "a", SENTENCES, "u16")
    with (
        pytest.raises(ConfigError, match="a sentence has 2,147,483,648 ids; the limit is"),
        write_ids(tmp_path / "a", dtype="u16") as writer,
    ):
        writer.add(np.array([5]), np.array([1 << 31]))
    assert [(tmp_path / name).read_bytes() for name in sorted(os.listdir(tmp_path))] == [*before]


def test_the_old_index_is_removed_before_new_data_are_renamed(tmp_path, monkeypatch):
    """A kill between the two renames of `write_ids` leaves data without an index, never new data
    with an old index."""
    write(tmp_path / "a", SENTENCES, "u16")
    replace = os.replace
    seen = []

    def replaced(part, place):
        seen.append([name for name in os.listdir(tmp_path) if not name.startswith(".")])
        replace(part, place)

    monkeypatch.setattr(os, "replace", replaced)
    write(tmp_path / "a", SENTENCES[::-1], "u16")
    assert seen == [["a.bin"], ["a.bin"]]
    assert open_ids(tmp_path / "a").ids(0).tolist() == [7, 2]


def test_places_that_cannot_hold_a_pair_are_refused(tmp_path):
    """`write_ids` reports a missing folder or a device before it writes anything."""
    with pytest.raises(OutputError, match=r"none/a\.idx: cannot be written: no such file"):
        write(tmp_path / "none" / "a", SENTENCES, "u16")
    (tmp_path / "a.idx").symlink_to("/dev/null")
    with pytest.raises(ConfigError, match=r"a\.idx: is a pipe or a device; give the path"):
        write(tmp_path / "a", SENTENCES, "u16")
    assert os.listdir(tmp_path) == ["a.idx"]


def test_the_dtype_follows_from_the_number_of_ids():
    """`dtype_for` returns u16 below 65,500 ids.

    `check_dtype` refuses a dtype that cannot store the largest id.
    """
    assert [dtype_for(n) for n in (1, 65_499, 65_500)] == ["u16", "u16", "i32"]
    for dtype, most in (("u8", 256), ("i8", 128), ("u16", 65_536)):
        check_dtype(dtype, most)
        message = f"dtype '{dtype}' allows ids up to {most - 1:,}, but the largest id is {most:,}"
        with pytest.raises(ConfigError, match=message):
            check_dtype(dtype, most + 1)
    with pytest.raises(ConfigError, match="unknown dtype 'f32'; choose from u8, i8"):
        check_dtype("f32", 1)
