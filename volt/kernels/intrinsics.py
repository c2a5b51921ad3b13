"""Read and write 64-bit numbers, find bytes, and decode UTF-8 characters, at any position of an array.

Bounds are not checked: the caller leaves `PADDING` bytes after the last position.
"""

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
def code_before(data: ByteArray, place: int) -> int:
    """Return the character that ends before a place, or −1 for invalid UTF-8."""
    first = place - 1
    while first > 0 and data[first] & 0xC0 == 0x80:
        first -= 1
    return int(character(data, first, place)[0])


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
            address = _address(context, builder, signature, arguments, ir.IntType(64))
            return builder.load(address, align=1)

        return types.uint64(data, position), generate

    @intrinsic
    def store64(typing: Any, data: Any, position: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature, arguments, ir.IntType(64))
            builder.store(arguments[2], address, align=1)
            return context.get_dummy_value()

        return types.void(data, position, value), generate

    @intrinsic
    def within(typing: Any, data: Any, position: Any, first: Any, span: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            byte = ir.IntType(8)
            block_type = ir.VectorType(byte, BLOCK)
            nothing = ir.Constant(block_type, ir.Undefined)
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)

            def everywhere(number: Any) -> Any:
                one = builder.insert_element(
                    nothing, builder.trunc(number, byte), ir.IntType(32)(0)
                )
                return builder.shuffle_vector(one, one, zeros)

            address = _address(context, builder, signature, arguments, block_type)
            block = builder.load(address, align=1)
            above = builder.sub(block, everywhere(arguments[2]))
            result = builder.icmp_unsigned("<=", above, everywhere(arguments[3]))
            return builder.bitcast(result, ir.IntType(BLOCK))

        return types.uint64(data, position, first, span), generate

    @intrinsic
    def ones(typing: Any, word: Any) -> Any:
        return types.int64(word), lambda _, builder, __, words: builder.ctpop(words[0])

    @intrinsic
    def trailing_zeros(typing: Any, word: Any) -> Any:
        is_never_0 = ir.IntType(1)(1)
        return types.uint64(word), lambda _, builder, __, words: builder.cttz(words[0], is_never_0)

    @intrinsic
    def prefetch(typing: Any, data: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature, arguments, ir.IntType(8))
            number = ir.IntType(32)
            takes = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], takes)
            to_read = number(0)
            into_all_caches = number(3)
            data_not_code = number(1)
            builder.call(function, [address, to_read, into_all_caches, data_not_code])
            return context.get_dummy_value()

        return types.void(data, position), generate
