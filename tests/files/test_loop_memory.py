"""Laws of the memory that compiled loops read: aligned, padded, and with a separator after each line."""

import numpy as np
import pytest

from volt.files.loop_memory import PaddedMemory, aligned_zeros, extended
from volt.files.ranges import FileSpan, RandomAccessFile
from volt.kernels.intrinsics import PADDING


@pytest.mark.parametrize(
    ("n", "step"), [(1, 64), (100, 64), ((1 << 18) - 1, 64), (1 << 18, 1 << 21)]
)
def test_zeros_start_at_a_cache_line_or_a_large_page(n, step):
    """`aligned_zeros` starts at a page of 2 MB if the array fills one, and otherwise at a cache
    line. `extended` adds zeros."""
    array = aligned_zeros(n)
    assert array.ctypes.data % step == 0
    assert np.array_equal(array, np.zeros(n, np.uint64))
    assert extended(np.array([1, 2], np.int32), 3).tolist() == [1, 2, 0]


def test_a_text_gets_a_last_separator_and_padding(tmp_path):
    """`PaddedMemory.read` adds a missing last separator and padding to a copy of a text; a text
    that is padded already is not copied."""
    (tmp_path / "a.txt").write_bytes(b"low\nnew lower\n\nend")
    span = FileSpan(RandomAccessFile(str(tmp_path / "a.txt")), 4, 10)
    memory = PaddedMemory()
    texts = {b"a\nb": b"a\nb\n", b"b\n": b"b\n", memoryview(b"c"): b"c\n", b"": b""}
    for text, expected in [*texts.items(), (span, b"new lower\n")]:
        padded = memory.read(text, separator=10)
        assert padded.data[: padded.size].tobytes() == expected
        assert len(padded.data) >= padded.size + PADDING
        assert not padded.data.flags.writeable
    whole = b"x\n" + bytes(PADDING)
    padded = memory.read(whole, separator=10, padded=True)
    assert padded.size == len(whole)
    assert np.shares_memory(padded.data, np.frombuffer(whole, np.uint8))
