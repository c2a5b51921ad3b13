"""Laws of chunks: whole lines, with the number of the first, of a text and of a file."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.golden import check

from volt.encode.chunks import (
    CHUNK_SIZE,
    Chunk,
    chunks_of,
    file_chunks,
    join_lines,
    split_for_threads,
)
from volt.kernels.intrinsics import PADDING


@settings(max_examples=examples(200))
@given(
    parts=st.lists(st.sampled_from(["\n", "a", "x" * PADDING]), max_size=20),
    size=st.integers(1, 2 * PADDING),
    first=st.integers(0, 3),
    numbered=st.booleans(),
)
def test_a_chunk_holds_as_many_lines_as_fit(parts, size, first, numbered):
    """`chunks_of` puts at least one line into a chunk, and more while they fit into `size` bytes.

    Each chunk knows the number of its first line, its lines' numbers, and whether padding follows.
    """
    text = "".join(parts)
    lines = text.splitlines(keepends=True)
    expected = []
    for line in lines:
        if expected and len(expected[-1]) + len(line) <= size:
            expected[-1] += line
        else:
            expected.append(line)
    numbers = np.arange(7, 7 + len(lines)) if numbered and first else None
    options = {"first": first, "size": size, "numbered": numbered, "numbers": numbers}
    chunks = list(chunks_of(text.encode(), **options))
    assert [bytes(chunk.text).decode() for chunk in chunks] == expected

    n_lines = n_bytes = 0
    for chunk in chunks:
        own = len(bytes(chunk.text).splitlines())
        assert chunk.first == first + (n_lines if numbered else 0)
        assert chunk.next_line == chunk.first + own
        if numbers is not None:
            assert chunk.numbers.tolist() == numbers[n_lines : n_lines + own].tolist()
        n_lines += own
        n_bytes += len(chunk.text)
        assert chunk.padded == (n_bytes + PADDING <= len(text))


@pytest.mark.parametrize(("errors", "firsts"), [("skip", [7, 8, 8, 9]), ("replace", [7, 8, 9, 10])])
def test_chunks_of_files_know_their_first_line(tmp_path, errors, firsts):
    """`file_chunks` numbers the lines of a file in order, without the lines that it skips."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\r\n\xff\nb\nc")
    chunks = list(file_chunks(str(path), errors=errors, first=7, size=2))
    if errors == "replace":
        assert b"".join(bytes(chunk.text) for chunk in chunks) == "a\r\n\ufffd\nb\nc".encode()
    assert [chunk.first for chunk in chunks] == firsts
    assert {chunk.strips_return for chunk in chunks} == {True}


def test_sizes_and_separators():
    """`split_for_threads`, `Chunk` and `join_lines` return golden values, also at the limits of a
    chunk's size.
    """
    sizes = (0, 65535, 65536, 65537, 131073, 10**6, 2**20, 2**20 + 1, 2**22, 2**22 + 1, 10**7)
    rows = {
        str(n): " ".join("{} {}".format(*split_for_threads(n, k)) for k in (1, 2, 3)) for n in sizes
    }
    check("encode shares", rows)
    assert CHUNK_SIZE == 1 << 20
    assert Chunk(b"", first=4).block.first_line == 5
    assert Chunk(b"a\xff", 255).next_line == 1
    assert join_lines([]) == (b"", 10)
    assert join_lines(["a"]) == (b"a\n", 10)
    assert join_lines(["a\n", ""]) == (b"a\n\xff\xff", 255)
