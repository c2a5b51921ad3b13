"""What values of text hold: words, characters, tabs. They are counted 64 bytes at a time, exactly as Python counts.

A value is its start in `data` and its size in bytes, as in `volt.kernels.columns`; a size of −1 says that a line has no
such field, and counts as 0 of everything. White space is that of `str.split()` (volt.text.white_space), so

    words of a value = len(text.split())        a value without words is blank: not text.strip()

Sixty-four bytes give one bit each in a mask: whether the byte is white, whether it may start white space of two or
three bytes, whether it starts a character. A word starts at a bit that is not white, behind one that is.

>>> data, starts, sizes, out = np.zeros(64, np.uint8), np.array([0]), np.array([8]), np.empty(1, np.int64)
>>> data[:8] = np.frombuffer("a\\u3000 né".encode(), np.uint8)
>>> count_words(data, starts, sizes, out)
>>> out.tolist()
[2]
"""

from typing import Any

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from volt.kernels.arrays import FlagArray, IntArray, LongArray
from volt.kernels.compiling import inlined, releasing
from volt.kernels.memory import trailing_zeros

BLOCK = 64  # bytes that are looked at together; `data` holds as many at least

if vars(config)["DISABLE_JIT"]:

    def within(data: IntArray, position: Any, first: int, span: int) -> Any:
        """Which of 64 bytes lie from `first` to first + span: bit i stands for byte position + i."""
        block = data[position : position + BLOCK].astype(np.int64)
        bits = np.packbits((block >= first) & (block <= first + span), bitorder="little")
        return np.uint64(int.from_bytes(bits.tobytes(), "little"))

    def ones(word: Any) -> Any:
        """How many bits are set."""
        return int(word).bit_count()

else:

    @intrinsic
    def within(typing: Any, data: Any, position: Any, first: Any, span: Any) -> Any:
        """Which of 64 bytes lie from `first` to first + span: bit i stands for byte position + i."""
        from llvmlite import ir

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            byte, bytes_ = ir.IntType(8), ir.VectorType(ir.IntType(8), BLOCK)
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)

            def everywhere(number: Any) -> Any:
                one = builder.insert_element(
                    ir.Constant(bytes_, ir.Undefined), builder.trunc(number, byte), ir.IntType(32)(0)
                )
                return builder.shuffle_vector(one, one, zeros)

            place = builder.gep(array.data, [arguments[1]])
            block = builder.load(builder.bitcast(place, bytes_.as_pointer()), align=1)
            above = builder.sub(block, everywhere(arguments[2]))
            found = builder.icmp_unsigned("<=", above, everywhere(arguments[3]))
            return builder.bitcast(found, ir.IntType(BLOCK))

        return types.uint64(data, position, first, span), generate

    @intrinsic
    def ones(typing: Any, word: Any) -> Any:
        """How many bits are set."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.int64(word), generate


@inlined
def _lowest(n: int) -> Any:
    """A mask of the n lowest of 64 bits; 1 ≤ n."""
    return np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(max(BLOCK - n, 0))


@inlined
def _wide_space(data: IntArray, place: Any, end: int) -> int:
    """How many bytes the white space takes that starts at a place with the byte C2, E1, E2 or E3; 0 if none does."""
    first = data[place]
    if place + 1 >= end:
        return 0
    second = data[place + 1]
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if place + 2 >= end:
        return 0
    third = data[place + 2]
    if first == 0xE1:
        found = second == 0x9A and third == 0x80
    elif first == 0xE3:
        found = second == 0x80 and third == 0x80
    elif second == 0x80:
        found = third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF
    else:
        found = second == 0x81 and third == 0x9F
    return 3 if found else 0


@inlined
def _white(data: IntArray, place: int, end: int, spilled: Any) -> tuple[Any, Any]:
    """Which of the 64 bytes from a place on are white, or behind `end`; and which of the next 64 are for sure.

    spilled: those of these 64 that are for sure
    """
    last = len(data) - BLOCK
    shift = np.uint64(max(place - last, 0))
    at = min(place, last)
    white = ((within(data, at, 9, 4) | within(data, at, 28, 4)) >> shift) | spilled
    wide = (within(data, at, 0xC2, 0) | within(data, at, 0xE1, 2)) >> shift
    spilled = np.uint64(0)
    inside = _lowest(end - place)
    wide &= inside
    while wide != np.uint64(0):
        bit = trailing_zeros(wide)
        wide &= wide - np.uint64(1)
        size = _wide_space(data, place + np.int64(bit), end)
        if size > 0:
            bytes_ = _lowest(size)
            white |= bytes_ << bit
            if np.int64(bit) > BLOCK - size:
                spilled = bytes_ >> (np.uint64(BLOCK) - bit)
    return white | ~inside, spilled


@releasing
def count_words(data: IntArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    """How many words each value has.

    data: uint8, 64 bytes at least;  out: (n,) int64, is written
    """
    for i in range(len(starts)):
        place, end, total = starts[i], starts[i] + sizes[i], 0
        before, spilled = np.uint64(1), np.uint64(0)  # a value starts as if white space stood before it
        while place < end:
            white, spilled = _white(data, place, end, spilled)
            total += ones(~white & ((white << np.uint64(1)) | before))
            before = white >> np.uint64(63)
            place += BLOCK
        out[i] = total


@releasing
def find_blank(data: IntArray, starts: LongArray, sizes: LongArray, out: FlagArray) -> None:
    """Whether each value is without words: empty, white space or missing.

    data: uint8, 64 bytes at least;  out: (n,) bool, is written
    """
    for i in range(len(starts)):
        place, end, spilled = starts[i], starts[i] + sizes[i], np.uint64(0)
        is_blank = True
        while is_blank and place < end:
            white, spilled = _white(data, place, end, spilled)
            is_blank = ~white == np.uint64(0)
            place += BLOCK
        out[i] = is_blank


@releasing
def count_within(data: IntArray, starts: LongArray, sizes: LongArray, first: int, span: int, out: LongArray) -> None:
    """How many bytes of each value lie from `first` to first + span.

    data: uint8, 64 bytes at least;  out: (n,) int64, is written
    """
    last = len(data) - BLOCK
    for i in range(len(starts)):
        place, end, total = starts[i], starts[i] + sizes[i], 0
        while place < end:
            found = within(data, min(place, last), first, span) >> np.uint64(max(place - last, 0))
            total += ones(found & _lowest(end - place))
            place += BLOCK
        out[i] = total


@releasing
def find_any(data: IntArray, starts: LongArray, sizes: LongArray, wanted: FlagArray, out: FlagArray) -> None:
    """Whether each value holds any of some bytes.

    data: uint8;  wanted: (256,) bool, by byte;  out: (n,) bool, is written
    """
    for i in range(len(starts)):
        place, end = starts[i], starts[i] + sizes[i]
        while place < end and not wanted[data[place]]:
            place += 1
        out[i] = place < end
