"""Read and write 64-bit numbers at any position of an array, find bytes, and decode UTF-8
characters.

    load64(data, p)               the eight bytes from element p on, as a little-endian number
    store64(data, p, number)      the reverse
    within(data, p, first, span)  a mask of the 64 bytes from p on: bit i is set if data[p + i] is from first to first + span
    ones(mask)                    how many bits are set
    trailing_zeros(mask)          the index of the lowest set bit; at least one must be set
    prefetch(data, p)             nothing; the processor loads the cache line of p meanwhile
    new_array(like, shape)        an array of zeros with the type of another array
    free(array)                   nothing; the memory of a `new_array` is free from then on

Each of these is plain Python here, for NUMBA_DISABLE_JIT; machine code has the LLVM instructions of
`volt.kernels.compiling` instead. No function checks bounds: the caller leaves `PADDING` bytes after
the last position.
"""

from typing import Any

import numpy as np

from volt.kernels.arrays import ByteArray
from volt.kernels.jit import borrowing, inlined

PADDING = 96  # bytes after the last position that the loops may read and write
BLOCK = 64  # bytes that `within` examines
_EIGHT = np.uint64(8)


def load64(data: ByteArray, p: Any) -> Any:
    return np.uint64(int.from_bytes(data[p : p + 8 // data.itemsize].tobytes(), "little"))


def store64(data: ByteArray, p: Any, number: Any) -> None:
    elements = np.frombuffer(int(number).to_bytes(8, "little"), data.dtype)
    data[p : p + len(elements)] = elements


def within(data: ByteArray, p: Any, first: int, span: int) -> Any:
    block = data[p : p + BLOCK].astype(np.int64)
    bits = np.packbits((block >= first) & (block <= first + span), bitorder="little")
    return np.uint64(int.from_bytes(bits.tobytes(), "little"))


def ones(mask: Any) -> Any:
    return int(mask).bit_count()


def trailing_zeros(mask: Any) -> Any:
    return np.uint64((int(mask) & -int(mask)).bit_length() - 1)


def prefetch(data: ByteArray, p: Any) -> None: ...


def new_array(like: Any, shape: tuple[int, ...]) -> Any:
    return np.zeros(shape, like.dtype)


def free(array: Any) -> None: ...


@inlined
def copy_eights(data: ByteArray, start: Any, size: Any, out: ByteArray, to: Any) -> None:
    """Copy data[start:start + size] to out[to:] in steps of eight bytes. Up to seven bytes after it
    are overwritten."""
    start = np.uint64(start)
    size = np.uint64(size)
    to = np.uint64(to)
    i = np.uint64(0)
    while i < size:
        store64(out, to + i, load64(data, start + i))
        i += _EIGHT


@inlined
def character(data: ByteArray, p: int, end: int) -> tuple[Any, int]:
    """Return the code point of the character at p, or −1 for invalid UTF-8, and the position to
    continue from."""
    first = np.int64(data[p])
    if first < 0x80:
        return first, p + 1
    n = 2 + int(first >= 0xE0) + int(first >= 0xF0)
    if first < 0xC2 or first > 0xF4 or p + n > end:
        return -1, p
    code = first & (0x7F >> n)
    for i in range(p + 1, p + n):
        if data[i] & 0xC0 != 0x80:
            return -1, p
        code = code << 6 | (np.int64(data[i]) & 0x3F)
    is_overlong = (n == 3 and code < 0x800) or (n == 4 and code < 0x10000)
    if is_overlong or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        code = np.int64(-1)
    return code, p + n


@borrowing
def code_before(data: ByteArray, p: int) -> int:
    """Return the code point of the character that ends before p, or −1 if it is invalid UTF-8."""
    first = p - 1
    while first > 0 and data[first] & 0xC0 == 0x80:
        first -= 1
    return int(character(data, first, p)[0])


@borrowing
def is_white(code: int) -> bool:
    """Check whether str.split() treats a character beyond ASCII as white space."""
    if code < 0x1680:
        return code == 0x85 or code == 0xA0
    if code < 0x2000:
        return code == 0x1680
    return (
        code <= 0x200A
        or code == 0x2028
        or code == 0x2029
        or code == 0x202F
        or code == 0x205F
        or code == 0x3000
    )
