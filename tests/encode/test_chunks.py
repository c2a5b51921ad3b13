"""Chunks: whole lines that know their numbers, of a text and of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.chunks import Chunk, chunks_of, file_chunks
from volt.kernels.intrinsics import PADDING


@settings(max_examples=examples(100), deadline=None)
@given(
    text=st.lists(st.sampled_from([b"\n", b"low", b"x" * 90, b" "]), max_size=30).map(b"".join),
    first=st.integers(0, 9),
    size=st.integers(1, 300),
)
def test_chunks_are_whole_lines_that_know_their_numbers(text: bytes, first: int, size: int) -> None:
    """Joined, chunks are the text; each but the last ends at a line end, and is numbered as its first line is. Where it
    says so, it ends with the separator, and so many bytes behind it may be read."""
    chunks, place = list(chunks_of(text, first=first, size=size)), 0
    assert b"".join(bytes(chunk.text) for chunk in chunks) == text
    for chunk in chunks:
        assert chunk.first == first + text[:place].count(b"\n")
        place += len(chunk.text)
        assert text[place - 1 : place] == b"\n" or place == len(text)
        assert not chunk.padded or (
            text[place - 1 : place] == b"\n" and place + PADDING <= len(text)
        )
    numbers = np.arange(100, 100 + text.count(b"\n") + (text[-1:] not in (b"", b"\n")))
    own = [chunk.numbers for chunk in chunks_of(text, numbers=numbers, size=size)]
    assert [number for found in own if found is not None for number in found] == numbers.tolist()
    assert [len(found) for found in own if found is not None] == [
        bytes(chunk.text).count(b"\n") + (not bytes(chunk.text).endswith(b"\n")) for chunk in chunks
    ]


def test_chunks_of_files_know_their_first_line(tmp_path: Path) -> None:
    """Chunks cover a file, in order, and count lines on."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {i}\n" for i in range(2_000)))
    chunks = list(file_chunks(str(path), size=1_000))
    assert b"".join(bytes(chunk.text) for chunk in chunks) == path.read_bytes()
    firsts = [chunk.first for chunk in chunks]
    counts = [bytes(chunk.text).count(b"\n") for chunk in chunks]
    assert firsts == [sum(counts[:i]) for i in range(len(counts))]
    assert len(chunks) > 10
    assert isinstance(chunks[0], Chunk)
