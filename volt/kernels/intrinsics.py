"""Read and write 64-bit numbers, find bytes, and decode UTF-8 characters, at any position of an array.

Bounds are not checked: the caller leaves `PADDING` bytes after the last position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from volt.kernels.arrays import ByteArray
from volt.kernels.jit import borrowing, inlined


@inlined
def character(data: ByteArray, p: int, end: int) -> tuple[Any, int]:
    """Return the character that starts at p, or −1 for invalid UTF-8, and where the next one starts."""
    first = np.int64(data[p])
    if first < 0x80:
        return first, p + 1
    n = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or p + n > end:
        return -1, p
    code = first & (0x7F >> n)
    for i in range(p + 1, p + n):
        if data[i] & 0xC0 != 0x80:
            return -1, p
        code = code << 6 | (np.int64(data[i]) & 0x3F)
    overlong = (n == 3 and code < 0x800) or (n == 4 and code < 0x10000)
    return (-1 if overlong or code > 0x10FFFF or 0xD800 <= code < 0xE000 else code), p + n


@borrowing
def is_white(code: int) -> bool:
    """Check whether a character beyond ASCII is white space in str.split()."""
    if code < 0x1680:
        return code == 0x85 or code == 0xA0
    if code < 0x2000:
        return code == 0x1680
    return code <= 0x200A or code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


PADDING = 96  # bytes after the last position that the loops may read and write
BLOCK = 64  # bytes that are examined together


if vars(config)["DISABLE_JIT"]:

    def load64(data: ByteArray, position: Any) -> Any:
        return np.uint64(
            int.from_bytes(data[position : position + 8 // data.itemsize].tobytes(), "little")
        )

    def store64(data: ByteArray, position: Any, value: Any) -> None:
        whole = np.frombuffer(int(value).to_bytes(8, "little"), data.dtype)
        data[position : position + len(whole)] = whole

    def within(data: ByteArray, position: Any, first: int, span: int) -> Any:
        """Return which of 64 bytes lie from `first` to first + span: bit i is for the byte at `position` + i."""
        block = data[position : position + BLOCK].astype(np.int64)
        bits = np.packbits((block >= first) & (block <= first + span), bitorder="little")
        return np.uint64(int.from_bytes(bits.tobytes(), "little"))

    def ones(word: Any) -> Any:
        """Count the bits that are set."""
        return int(word).bit_count()

    def trailing_zeros(word: Any) -> Any:
        """Return the index of the lowest set bit; at least one must be set."""
        return np.uint64((int(word) & -int(word)).bit_length() - 1)

    def prefetch(data: ByteArray, position: Any) -> None:
        """Prefetch the cache line of a position."""

else:

    def _address(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())

    @intrinsic
    def load64(typing: Any, data: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(
                _address(context, builder, signature, arguments, ir.IntType(64)), align=1
            )

        return types.uint64(data, position), generate

    @intrinsic
    def store64(typing: Any, data: Any, position: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store(
                arguments[2],
                _address(context, builder, signature, arguments, ir.IntType(64)),
                align=1,
            )
            return context.get_dummy_value()

        return types.void(data, position, value), generate

    @intrinsic
    def within(typing: Any, data: Any, position: Any, first: Any, span: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            byte, bytes_ = ir.IntType(8), ir.VectorType(ir.IntType(8), BLOCK)
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)

            def everywhere(number: Any) -> Any:
                one = builder.insert_element(
                    ir.Constant(bytes_, ir.Undefined),
                    builder.trunc(number, byte),
                    ir.IntType(32)(0),
                )
                return builder.shuffle_vector(one, one, zeros)

            block = builder.load(_address(context, builder, signature, arguments, bytes_), align=1)
            above = builder.sub(block, everywhere(arguments[2]))
            result = builder.icmp_unsigned("<=", above, everywhere(arguments[3]))
            return builder.bitcast(result, ir.IntType(BLOCK))

        return types.uint64(data, position, first, span), generate

    @intrinsic
    def ones(typing: Any, word: Any) -> Any:

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.int64(word), generate

    @intrinsic
    def trailing_zeros(typing: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.IntType(1)(1))

        return types.uint64(word), generate

    @intrinsic
    def prefetch(typing: Any, data: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place, number = (
                _address(context, builder, signature, arguments, ir.IntType(8)),
                ir.IntType(32),
            )
            takes = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
            to_read, everywhere, data_not_code = number(0), number(3), number(1)
            function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], takes)
            builder.call(function, [place, to_read, everywhere, data_not_code])
            return context.get_dummy_value()

        return types.void(data, position), generate
