"""Compile loops with numba to object code, which `volt.kernels.jit` stores, loads and calls.

    entry(words) = number        the C function: calls the loop with the arguments that `words` hold

Parts are not optimised alone, but within the loops that call them: this halves the time to compile
(experiments/LOG.md). numba has no public way to do so, so this module overrides private methods of
it. If an installed numba lacks these, `PARTS_DIFFER` is False, and parts are compiled its way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic, typeof_impl
from numba.np import arrayobj as _arrayobj
from numba.np.numpy_support import as_dtype, from_dtype

from volt.kernels import intrinsics
from volt.kernels.jit import (
    FAILED,
    PARTS,
    ArrayKind,
    Loop,
    Signature,
    annotations_of,
    target_machine,
)

# numba's annotations contradict each other
types: Any = _types
cgutils: Any = _cgutils
arrays: Any = _arrayobj
_NUMBERS: dict[Any, Any] = {
    bool: types.boolean,
    int: types.int64,
    float: types.float64,
    np.uint64: types.uint64,
    type(None): types.none,
}
_WORD = ir.IntType(64)
_BYTE = ir.IntType(8)


def numba_type(kind: Any) -> Any:
    """Return numba's type of an annotation: a number, an array or a tuple."""
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if hasattr(kind, "__metadata__"):
        array: ArrayKind = kind.__metadata__[0]
        return types.Array(from_dtype(array.dtype), array.n_dims, "C", readonly=array.is_read)
    fields = [numba_type(field) for field in annotations_of(kind).values()]
    return types.BaseTuple.from_types(fields, kind)


def _have(*owners: tuple[Any, str]) -> bool:
    return all(hasattr(owner, name) for owner, names in owners for name in names.split())


PARTS_DIFFER = _have(
    (JITCodeLibrary, "_optimize_final_module _finalize_final_module _finalize_dynamic_globals"),
    (CPUDispatcher, "add_overload get_call_template"),
    (Compiler, "compile_extra"),
)


def _untyped(thing: Any) -> Any:
    return thing


class _LoopCode(JITCodeLibrary):
    def _finalize_final_module(self) -> None:
        """Do not load the code into numba's engine."""
        _untyped(self)._finalize_dynamic_globals()
        self._finalized = True


class _PartCode(_LoopCode):
    def _optimize_final_module(self) -> None:
        """Do nothing: the code is optimised in its loops."""


class _PartCompiler(Compiler):
    def __init__(
        self,
        typing: Any,
        target: Any,
        library: Any,
        arguments: Any,
        result: Any,
        flags: Any,
        local: Any,
    ):
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        library = library or _untyped(_PartCode)(target.codegen(), "part")
        compiler = _untyped(super())
        compiler.__init__(typing, target, library, arguments, result, flags, local)

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        compiled_part = _untyped(super()).compile_extra(function)
        part = compiled_part._replace(entry_point=(function, object()))
        self.state.targetctx.insert_user_function(part.entry_point, part.fndesc, [part.library])
        return part


class _Part(CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(_widened, args)), kws)

    def add_overload(self, compiled_part: Any) -> None:
        self.overloads[tuple(compiled_part.signature.args)] = compiled_part


def _widened(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if kind in (types.int16, types.int32) else kind


@cache
def dispatcher(function: Callable[..., Any]) -> Any:
    """Return what numba compiles and calls in place of a Python function."""
    options = {"_nrt": False, **PARTS.get(function, {})}
    if not PARTS_DIFFER:
        return _untyped(njit)(**options)(function)
    options["nopython"] = True
    return _untyped(_Part)(function, targetoptions=options, pipeline_class=_PartCompiler)


@typeof_impl.register(FunctionType)
def _type_of_function(function: Any, context: Any) -> Any:
    """Return numba's type of a part, or of a function that has LLVM instructions."""
    if function in _INSTRUCTIONS:
        return cpu_target.typing_context.resolve_value_type(_INSTRUCTIONS[function])
    return types.Dispatcher(dispatcher(function)) if function in PARTS else None


@typeof_impl.register(Loop)
def _type_of_loop(loop: Loop, context: Any) -> Any:
    return types.Dispatcher(dispatcher(loop.function))


def compile_loop(function: Callable[..., Any], signature: Signature) -> bytes:
    """Return the object code of a loop, which defines the C function `signature.symbol`."""
    kinds = [numba_type(kind) for kind in signature.arguments.values()]
    read_arguments = _reader_of(types.Tuple(kinds))
    loop = dispatcher(function)

    def entry(words: Any) -> Any:
        return loop(*read_arguments(words))

    compiled = _compile(entry, types.uintp, numba_type(signature.result))
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    module.link_in(llvm.parse_assembly(_c_function(signature.symbol, compiled.fndesc)))
    for defined in module.functions:
        if not defined.is_declaration and defined.name != signature.symbol:
            defined.linkage = "internal"
    if missing := list(_missing_symbols(module)):
        raise RuntimeError(f"{signature.symbol} calls {missing}, which only numba has")
    code: bytes = target_machine().emit_object(module)
    return code


def _compile(function: Callable[..., Any], argument: Any, result: Any) -> Any:
    """Compile a function of one argument, without what Python needs to call it."""
    flags = _untyped(Flags)()
    flags.nrt = False
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    target = cpu_target.target_context
    library = _untyped(_LoopCode)(target.codegen(), "loop") if PARTS_DIFFER else None
    with global_compiler_lock:
        compiled = _untyped(compile_extra)(
            cpu_target.typing_context, target, function, (argument,), result, flags, {}, library
        )
        compiled.library.finalize()
    return compiled


def _c_function(symbol: str, description: Any) -> str:
    """Return a C function that calls a function of numba.

    numba's function takes an address for its result, one for its error, and the arguments. It
    returns a status, which is 0 or −2 if there is no error.
    """
    module = ir.Module(symbol)
    address = _BYTE.as_pointer()
    number = ir.IntType(32)
    callee_type = ir.FunctionType(number, [address, address, _WORD])
    callee = ir.Function(module, callee_type, description.llvm_func_name)
    function = ir.Function(module, ir.FunctionType(_WORD, [_WORD]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    result = builder.alloca(_WORD)
    fault = builder.alloca(_WORD)
    builder.store(_WORD(0), result)
    places = [builder.bitcast(place, address) for place in (result, fault)]
    status = builder.call(callee, [*places, function.args[0]])
    is_fine = builder.or_(
        builder.icmp_signed("==", status, number(0)),
        builder.icmp_signed("==", status, number(-2)),
    )
    builder.ret(builder.select(is_fine, builder.load(result), _WORD(FAILED)))
    return str(module)


def _missing_symbols(module: Any) -> Iterator[str]:
    """Yield the functions that machine code calls and a process without numba lacks."""
    for function in module.functions:
        is_found = not function.is_declaration or function.name.startswith("llvm.")
        if not is_found and not hasattr(ctypes.pythonapi, function.name):
            yield function.name


def _reader_of(kind: Any) -> Any:
    """Return an intrinsic that returns the arguments of a loop, a tuple, from its words."""

    @intrinsic
    def read(typing: Any, words: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = builder.inttoptr(values[0], _WORD.as_pointer())
            return _read_value(context, builder, kind, _Words(builder, address))

        return kind(words), generate

    return read


class _Words:
    """Reads words one after the other."""

    def __init__(self, builder: Any, address: Any) -> None:
        self._builder = builder
        self._address = address
        self._position = 0

    def next(self) -> Any:
        place = self._builder.gep(self._address, [_WORD(self._position)])
        self._position += 1
        return self._builder.load(place)


def _read_value(context: Any, builder: Any, kind: Any, words: _Words) -> Any:
    if isinstance(kind, types.BaseTuple):
        fields = [_read_value(context, builder, field, words) for field in kind]
        return context.make_tuple(builder, kind, fields)
    word = words.next()
    if isinstance(kind, types.Array):
        return _read_array(context, builder, kind, word)
    if kind == types.boolean:
        return builder.trunc(word, ir.IntType(1))
    return builder.bitcast(word, context.get_value_type(kind))


def _read_array(context: Any, builder: Any, kind: Any, word: Any) -> Any:
    """Read an array from its object, which NumPy documents as PyArrayObject: Python's fields, the
    address of the data, the number of dimensions, and the address of the shape."""
    start = builder.inttoptr(word, _WORD.as_pointer())

    def field(position: int) -> Any:
        return builder.load(builder.gep(start, [_WORD(object.__basicsize__ // 8 + position)]))

    shape_start = builder.inttoptr(field(2), _WORD.as_pointer())
    shape = [builder.load(builder.gep(shape_start, [_WORD(i)])) for i in range(kind.ndim)]
    return _make_array(context, builder, kind, field(0), shape)


def _make_array(context: Any, builder: Any, kind: Any, start: Any, shape: list[Any]) -> Any:
    array = context.make_array(kind)(context, builder)
    strides = _strides(builder, kind, shape)
    arrays.populate_array(
        array,
        data=builder.inttoptr(start, array.data.type),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=strides[-1],
        meminfo=None,
    )
    return array._getvalue()


def _strides(builder: Any, kind: Any, shape: list[Any]) -> list[Any]:
    """Return the bytes from each element to the next, for each dimension."""
    strides = [_WORD(as_dtype(kind.dtype).itemsize)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    return strides


# numba calls an intrinsic with the types of its arguments. The intrinsic returns its signature, and
# a function that numba calls with a `builder` to append the instructions, and with the values of
# the arguments.


def _address(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any) -> Any:
    """Return the address of element arguments[1] of array arguments[0], as that of a number of
    this kind."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())


@intrinsic
def _load64(typing: Any, data: Any, p: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature, arguments, ir.IntType(64))
        return builder.load(address, align=1)

    return types.uint64(data, p), generate


@intrinsic
def _store64(typing: Any, data: Any, p: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature, arguments, ir.IntType(64))
        builder.store(arguments[2], address, align=1)
        return context.get_dummy_value()

    return types.void(data, p, number), generate


@intrinsic
def _within(typing: Any, data: Any, p: Any, first: Any, span: Any) -> Any:
    """Compare 64 bytes at once: (byte − first) modulo 256 is at most `span`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_type = ir.IntType(8)
        block_type = ir.VectorType(byte_type, intrinsics.BLOCK)
        undefined = ir.Constant(block_type, ir.Undefined)
        all_from_0 = ir.Constant(
            ir.VectorType(ir.IntType(32), intrinsics.BLOCK), [0] * intrinsics.BLOCK
        )

        def repeat_byte(number: Any) -> Any:
            byte = builder.trunc(number, byte_type)
            vector = builder.insert_element(undefined, byte, ir.IntType(32)(0))
            return builder.shuffle_vector(vector, vector, all_from_0)

        address = _address(context, builder, signature, arguments, block_type)
        block = builder.load(address, align=1)
        differences = builder.sub(block, repeat_byte(arguments[2]))
        is_within = builder.icmp_unsigned("<=", differences, repeat_byte(arguments[3]))
        return builder.bitcast(is_within, ir.IntType(intrinsics.BLOCK))

    return types.uint64(data, p, first, span), generate


@intrinsic
def _ones(typing: Any, mask: Any) -> Any:
    return types.int64(mask), lambda _, builder, __, arguments: builder.ctpop(arguments[0])


@intrinsic
def _trailing_zeros(typing: Any, mask: Any) -> Any:
    is_never_0 = ir.IntType(1)(1)
    return types.uint64(mask), lambda _, builder, __, arguments: builder.cttz(
        arguments[0], is_never_0
    )


@intrinsic
def _prefetch(typing: Any, data: Any, p: Any) -> Any:
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


# Memory of the C library. Only `_free` frees it.


def _call_c(builder: Any, name: str, *arguments: Any, result: Any = _WORD) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


@intrinsic
def _new_array(typing: Any, like: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        other = context.make_array(like)(context, builder, arguments[0])
        shape = [arguments[1], *cgutils.unpack_tuple(builder, other.shape)[1:]]
        start = _call_c(builder, "calloc", shape[0], _strides(builder, like, shape)[0])
        return _make_array(context, builder, like, start, shape)

    return like(like, types.int64), generate


@intrinsic
def _lengthened(typing: Any, array: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        old = context.make_array(array)(context, builder, arguments[0])
        shape = [arguments[1], *cgutils.unpack_tuple(builder, old.shape)[1:]]
        n_bytes = builder.mul(shape[0], _strides(builder, array, shape)[0])
        old_start = builder.ptrtoint(old.data, _WORD)
        start = _call_c(builder, "realloc", old_start, n_bytes)
        return _make_array(context, builder, array, start, shape)

    return array(array, types.int64), generate


@intrinsic
def _free(typing: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        _call_c(builder, "free", builder.ptrtoint(data, _WORD), result=ir.VoidType())
        return context.get_dummy_value()

    return types.void(array), generate


_INSTRUCTIONS: dict[Any, Any] = {
    intrinsics.new_array: _new_array,
    intrinsics.lengthened: _lengthened,
    intrinsics.free: _free,
    intrinsics.load64: _load64,
    intrinsics.store64: _store64,
    intrinsics.within: _within,
    intrinsics.ones: _ones,
    intrinsics.trailing_zeros: _trailing_zeros,
    intrinsics.prefetch: _prefetch,
}
