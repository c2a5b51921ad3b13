"""Read and write 64-bit numbers at any position of an array, find bytes, and decode UTF-8
characters.

    load64(data, p)               the eight bytes from element p on, as a little-endian number
    store64(data, p, number)      the reverse
    within(data, p, first, span)  a mask of the 64 bytes from p on: bit i is set if data[p + i] is from first to first + span
    ones(mask)                    how many bits are set
    trailing_zeros(mask)          the index of the lowest set bit; at least one must be set
    prefetch(data, p)             nothing; the processor loads the cache line of p meanwhile
    bind(memory, arguments)       nothing; `memory` holds the arguments of a loop from then on
    reader_of(kind)               the function that returns the arguments, a `kind`, that a memory holds

Each of these has two definitions: plain Python, if NUMBA_DISABLE_JIT is set, and LLVM instructions.
No function checks bounds: the caller leaves `PADDING` bytes after the last position.

Converting a tuple of 45 arrays takes 13 µs at every call of a loop. A loop that is called for a few
words takes bound arguments instead, which were converted once.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from volt.kernels.arrays import ByteArray, KeyArray, numba_type
from volt.kernels.jit import borrowing, inlined

PADDING = 96  # bytes after the last position that the loops may read and write
BLOCK = 64  # bytes that `within` examines
_EIGHT = np.uint64(8)
_BOUND_SIZE = 512  # numbers of 64 bits that bound arguments take at most

if vars(config)["DISABLE_JIT"]:

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

    def bind(memory: KeyArray, arguments: Any) -> None:
        memory[0] = arguments

    def reader_of(kind: type) -> Any:
        return lambda memory: memory[0]

else:
    # numba calls an intrinsic with the types of its arguments. The intrinsic returns its signature,
    # and a function that numba calls with a `builder` to append the instructions, and with the
    # values of the arguments.

    def _address(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any) -> Any:
        """Return the address of element arguments[1] of array arguments[0], as that of a number of
        this kind."""
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())

    @intrinsic
    def load64(typing: Any, data: Any, p: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature, arguments, ir.IntType(64))
            return builder.load(address, align=1)

        return types.uint64(data, p), generate

    @intrinsic
    def store64(typing: Any, data: Any, p: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature, arguments, ir.IntType(64))
            builder.store(arguments[2], address, align=1)
            return context.get_dummy_value()

        return types.void(data, p, number), generate

    @intrinsic
    def within(typing: Any, data: Any, p: Any, first: Any, span: Any) -> Any:
        """Compare 64 bytes at once: (byte − first) modulo 256 is at most `span`."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            byte_type = ir.IntType(8)
            block_type = ir.VectorType(byte_type, BLOCK)
            undefined = ir.Constant(block_type, ir.Undefined)
            all_from_0 = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)

            def repeat_byte(number: Any) -> Any:
                byte = builder.trunc(number, byte_type)
                vector = builder.insert_element(undefined, byte, ir.IntType(32)(0))
                return builder.shuffle_vector(vector, vector, all_from_0)

            address = _address(context, builder, signature, arguments, block_type)
            block = builder.load(address, align=1)
            differences = builder.sub(block, repeat_byte(arguments[2]))
            is_within = builder.icmp_unsigned("<=", differences, repeat_byte(arguments[3]))
            return builder.bitcast(is_within, ir.IntType(BLOCK))

        return types.uint64(data, p, first, span), generate

    @intrinsic
    def ones(typing: Any, mask: Any) -> Any:
        return types.int64(mask), lambda _, builder, __, arguments: builder.ctpop(arguments[0])

    @intrinsic
    def trailing_zeros(typing: Any, mask: Any) -> Any:
        is_never_0 = ir.IntType(1)(1)
        return types.uint64(mask), lambda _, builder, __, arguments: builder.cttz(
            arguments[0], is_never_0
        )

    @intrinsic
    def prefetch(typing: Any, data: Any, p: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature, arguments, ir.IntType(8))
            number = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
            to_read = number(0)
            into_all_caches = number(3)
            data_not_code = number(1)
            builder.call(function, [address, to_read, into_all_caches, data_not_code])
            return context.get_dummy_value()

        return types.void(data, p), generate

    def _bound_address(context: Any, builder: Any, signature: Any, memory: Any, kind: Any) -> Any:
        bound_type = context.get_value_type(kind)
        assert context.get_abi_sizeof(bound_type) <= 8 * _BOUND_SIZE
        array = context.make_array(signature.args[0])(context, builder, memory)
        return builder.bitcast(array.data, bound_type.as_pointer())

    @intrinsic
    def bind(typing: Any, memory: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _bound_address(context, builder, signature, values[0], signature.args[1])
            builder.store(values[1], address, align=8)
            return context.get_dummy_value()

        return types.void(memory, arguments), generate

    def reader_of(kind: type) -> Any:
        @intrinsic
        def read(typing: Any, memory: Any) -> Any:
            bound_kind = numba_type(kind)

            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                address = _bound_address(context, builder, signature, values[0], bound_kind)
                return builder.load(address, align=8)

            return bound_kind(memory), generate

        return read


def bound_memory() -> KeyArray:
    """Return memory for `bind`. Its owner must retain the arrays that are bound."""
    return np.zeros(_BOUND_SIZE, object if vars(config)["DISABLE_JIT"] else np.uint64)


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
