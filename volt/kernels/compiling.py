"""Compile loops with numba to object code, which `volt.kernels.jit` stores, loads and calls.

    entry(words) = number        the C function: calls the loop with the arguments that `words` hold

Parts are not optimised alone, but within the loops that call them: this halves the time to compile
(experiments/LOG.md). numba has no public way to do so, so this module overrides private methods of
it. If an installed numba lacks these, `PARTS_DIFFER` is False, and parts are compiled its way.

Functions without annotations handle objects of numba and llvmlite, which have no types.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache, reduce
from itertools import count
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic, typeof_impl
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype, from_dtype

from volt.kernels import intrinsics
from volt.kernels.jit import FAILED, PARTS, CompiledLoop, Signature, annotations_of, target_machine

_NUMBERS = {
    bool: types.boolean,
    int: types.int64,
    float: types.float64,
    np.uint64: types.uint64,
    type(None): types.none,
}
_WORD = ir.IntType(64)
_STATUS = ir.IntType(32)
_BYTE = ir.IntType(8)
_C_LIBRARY = ctypes.CDLL(None if os.name == "posix" else "msvcrt")


def numba_type(kind):
    """Return numba's type of an annotation: a number, an array or a tuple."""
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if hasattr(kind, "__metadata__"):
        [array] = kind.__metadata__
        return types.Array(from_dtype(array.dtype), array.n_dims, "C", readonly=array.is_read)
    fields = [numba_type(field) for field in annotations_of(kind).values()]
    return types.BaseTuple.from_types(fields, kind)


def _have(*owners):
    return all(hasattr(owner, name) for owner, names in owners for name in names.split())


PARTS_DIFFER = _have(
    (JITCodeLibrary, "_optimize_final_module _finalize_final_module _finalize_dynamic_globals"),
    (CPUDispatcher, "add_overload get_call_template"),
    (Compiler, "compile_extra"),
)


class _LoopCode(JITCodeLibrary):
    def _finalize_final_module(self):
        """Do not load the code into numba's engine."""
        self._finalize_dynamic_globals()
        self._finalized = True


class _PartCode(_LoopCode):
    def _optimize_final_module(self):
        """Do nothing: the code is optimised in its loops."""


class _PartCompiler(Compiler):
    def __init__(self, typing, target, library, arguments, result, flags, local):
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        library = library or _PartCode(target.codegen(), "part")
        super().__init__(typing, target, library, arguments, result, flags, local)

    def compile_extra(self, function):
        part = super().compile_extra(function)
        part = part._replace(entry_point=(function, object()))
        self.state.targetctx.insert_user_function(part.entry_point, part.fndesc, [part.library])
        return part


class _Part(CPUDispatcher):
    def get_call_template(self, args, kws):
        return super().get_call_template(tuple(map(_widened, args)), kws)

    def add_overload(self, part):
        self.overloads[tuple(part.signature.args)] = part


def _widened(kind):
    kind = types.unliteral(kind)
    return types.int64 if kind in (types.int16, types.int32) else kind


@cache
def dispatcher(function):
    """Return what numba compiles and calls in place of a Python function."""
    options = {"_nrt": False, **PARTS.get(function, {})}
    if not PARTS_DIFFER:
        return njit(**options)(function)
    options["nopython"] = True
    return _Part(function, targetoptions=options, pipeline_class=_PartCompiler)


@typeof_impl.register(FunctionType)
def _type_of_function(function, context):
    """Return numba's type of a part, or of a function that has LLVM instructions."""
    if function in _INSTRUCTIONS:
        return cpu_target.typing_context.resolve_value_type(_INSTRUCTIONS[function])
    return types.Dispatcher(dispatcher(function)) if function in PARTS else None


@typeof_impl.register(CompiledLoop)
def _type_of_loop(loop, context):
    return types.Dispatcher(dispatcher(loop.function))


def compile_loop(function: Callable[..., Any], signature: Signature) -> bytes:
    """Return the object code of a loop, which defines the C function `signature.symbol`."""
    kinds = [numba_type(kind) for kind in signature.arguments.values()]
    read_arguments = _reader_of(types.Tuple(kinds))
    loop = dispatcher(function)

    def entry(words):
        return loop(*read_arguments(words))

    compiled = _compile(entry, types.uintp, numba_type(signature.result))
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    module.link_in(llvm.parse_assembly(_c_function(signature.symbol, compiled.fndesc)))
    for defined in module.functions:
        is_declared = defined.is_declaration
        if is_declared and not defined.name.startswith("llvm."):
            assert hasattr(_C_LIBRARY, defined.name), f"{signature.symbol}: {defined.name}"
        if not is_declared and defined.name != signature.symbol:
            defined.linkage = "internal"
    code: bytes = target_machine().emit_object(module)
    return code


def _compile(function, argument, result):
    """Compile a function of one argument, without what Python needs to call it."""
    flags = Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    target = cpu_target.target_context
    library = _LoopCode(target.codegen(), "loop") if PARTS_DIFFER else None
    with global_compiler_lock:
        compiled = compile_extra(
            cpu_target.typing_context, target, function, (argument,), result, flags, {}, library
        )
        compiled.library.finalize()
    return compiled


def _c_function(symbol, description):
    """Return a C function that calls a function of numba.

    numba's function takes an address for its result, one for its error, and the arguments. It
    returns a status, which is 0 if there is no error.
    """
    module = ir.Module()
    address = _BYTE.as_pointer()
    callee_type = ir.FunctionType(_STATUS, [address, address, _WORD])
    callee = ir.Function(module, callee_type, description.llvm_func_name)
    function = ir.Function(module, ir.FunctionType(_WORD, [_WORD]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    result = cgutils.alloca_once_value(builder, _WORD(0))
    places = [builder.bitcast(result, address), builder.alloca(_BYTE, 8)]
    status = builder.call(callee, [*places, *function.args])
    is_fine = builder.icmp_signed("==", status, _STATUS(0))
    builder.ret(builder.select(is_fine, builder.load(result), _WORD(FAILED)))
    return str(module)


def _reader_of(kind):
    """Return an intrinsic that returns the arguments of a loop, a tuple, from its words."""

    @intrinsic
    def read(typing, words):
        def generate(context, builder, signature, values):
            words = (_load(builder, values[0], position) for position in count())
            return _read_value(context, builder, kind, words)

        return kind(words), generate

    return read


def _load(builder, address, position):
    """Return a word of memory."""
    start = builder.inttoptr(address, _WORD.as_pointer())
    return builder.load(builder.gep(start, [_WORD(position)]))


def _read_value(context, builder, kind, words):
    if isinstance(kind, types.BaseTuple):
        fields = [_read_value(context, builder, field, words) for field in kind]
        return context.make_tuple(builder, kind, fields)
    word = next(words)
    if isinstance(kind, types.Array):
        return _read_array(context, builder, kind, word)
    if kind == types.boolean:
        return builder.trunc(word, ir.IntType(1))
    return builder.bitcast(word, context.get_value_type(kind))


def _read_array(context, builder, kind, address):
    """Read an array from its object, which NumPy documents as PyArrayObject: Python's fields, the
    address of the data, the number of dimensions, and the address of the shape."""
    first = object.__basicsize__ // 8
    data = _load(builder, address, first)
    shape_address = _load(builder, address, first + 2)
    shape = [_load(builder, shape_address, i) for i in range(kind.ndim)]
    return _make_array(context, builder, kind, data, shape)


def _make_array(context, builder, kind, start, shape):
    array = context.make_array(kind)(context, builder)
    strides = [_WORD(as_dtype(kind.dtype).itemsize)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(
        array,
        data=builder.inttoptr(start, array.data.type),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=strides[-1],
        meminfo=None,
    )
    return array._getvalue()


# numba calls an intrinsic with the types of its arguments. The intrinsic returns its signature, and
# a function that numba calls with a `builder` to append the instructions, and with the values of
# the arguments.


def _address(context, builder, signature, arguments, kind):
    """Return the address of element arguments[1] of array arguments[0], as that of a number of this
    kind."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())


@intrinsic
def _load64(typing, data, p):
    def generate(context, builder, signature, arguments):
        return builder.load(_address(context, builder, signature, arguments, _WORD), align=1)

    return types.uint64(data, p), generate


@intrinsic
def _store64(typing, data, p, number):
    def generate(context, builder, signature, arguments):
        address = _address(context, builder, signature, arguments, _WORD)
        builder.store(arguments[2], address, align=1)
        return context.get_dummy_value()

    return types.void(data, p, number), generate


@intrinsic
def _within(typing, data, p, first, span):
    """Compare 64 bytes at once: (byte − first) modulo 256 is at most `span`."""

    def generate(context, builder, signature, arguments):
        block_type = ir.VectorType(_BYTE, intrinsics.BLOCK)
        undefined = ir.Constant(block_type, ir.Undefined)
        all_from_0 = ir.Constant(ir.VectorType(_STATUS, intrinsics.BLOCK), [0] * intrinsics.BLOCK)

        def repeat_byte(number):
            byte = builder.trunc(number, _BYTE)
            vector = builder.insert_element(undefined, byte, _STATUS(0))
            return builder.shuffle_vector(vector, vector, all_from_0)

        address = _address(context, builder, signature, arguments, block_type)
        block = builder.load(address, align=1)
        differences = builder.sub(block, repeat_byte(arguments[2]))
        is_within = builder.icmp_unsigned("<=", differences, repeat_byte(arguments[3]))
        return builder.bitcast(is_within, _WORD)

    return types.uint64(data, p, first, span), generate


@intrinsic
def _ones(typing, mask):
    return types.int64(mask), lambda _, builder, __, arguments: builder.ctpop(arguments[0])


@intrinsic
def _trailing_zeros(typing, mask):
    is_never_0 = ir.IntType(1)(1)
    return types.uint64(mask), lambda _, builder, __, arguments: builder.cttz(
        arguments[0], is_never_0
    )


@intrinsic
def _prefetch(typing, data, p):
    def generate(context, builder, signature, arguments):
        address = _address(context, builder, signature, arguments, _BYTE)
        kind = ir.FunctionType(ir.VoidType(), [address.type, _STATUS, _STATUS, _STATUS])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        to_read = _STATUS(0)
        into_all_caches = _STATUS(3)
        data_not_code = _STATUS(1)
        builder.call(function, [address, to_read, into_all_caches, data_not_code])
        return context.get_dummy_value()

    return types.void(data, p), generate


def _call_c(builder, name, result, *arguments):
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


@intrinsic
def _new_array(typing, like, shape):
    def generate(context, builder, signature, arguments):
        lengths = cgutils.unpack_tuple(builder, arguments[1])
        n_items = reduce(builder.mul, lengths)
        size = _WORD(as_dtype(like.dtype).itemsize)
        return _make_array(
            context, builder, like, _call_c(builder, "calloc", _WORD, n_items, size), lengths
        )

    return like(like, shape), generate


@intrinsic
def _free(typing, array):
    def generate(context, builder, signature, arguments):
        data = context.make_array(array)(context, builder, arguments[0]).data
        _call_c(builder, "free", ir.VoidType(), builder.ptrtoint(data, _WORD))
        return context.get_dummy_value()

    return types.void(array), generate


_INSTRUCTIONS = {
    intrinsics.load64: _load64,
    intrinsics.store64: _store64,
    intrinsics.within: _within,
    intrinsics.ones: _ones,
    intrinsics.trailing_zeros: _trailing_zeros,
    intrinsics.prefetch: _prefetch,
    intrinsics.new_array: _new_array,
    intrinsics.free: _free,
}
