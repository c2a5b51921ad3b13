"""Eight bytes at a time: reading and writing a byte array as 64-bit little-endian numbers, at any position.

The compiled forms do not check bounds: the caller leaves eight bytes of room behind the last position.

>>> from numba import njit
>>> hex(njit(lambda data: load64(data, np.int64(2)))(np.arange(12, dtype=np.uint8)))
'0x908070605040302'
"""

from typing import Any

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from volt.kernels.hashing import IntArray

PADDING = 32  # bytes of room that the loops need behind the last byte they are asked about


if vars(config)["DISABLE_JIT"]:

    def load64(data: IntArray, position: int) -> Any:
        """The 64-bit number that starts at a position."""
        return np.uint64(int.from_bytes(bytes(data[position : position + 8]), "little"))

    def store64(data: IntArray, position: int, value: Any) -> None:
        """Write a 64-bit number at a position."""
        data[position : position + 8] = np.frombuffer(int(value).to_bytes(8, "little"), np.uint8)

else:

    @intrinsic
    def load64(typing: Any, data: Any, position: Any) -> Any:
        """The 64-bit number that starts at a position; only llvmlite can say: without alignment or bounds."""
        from llvmlite import ir

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            place = builder.gep(array.data, [arguments[1]])
            return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

        return types.uint64(data, position), generate

    @intrinsic
    def store64(typing: Any, data: Any, position: Any, value: Any) -> Any:
        """Write a 64-bit number at a position."""
        from llvmlite import ir

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            place = builder.gep(array.data, [arguments[1]])
            builder.store(arguments[2], builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(data, position, value), generate
