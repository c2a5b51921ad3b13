"""Check the values of a saved state, which may come from any JSON file.

Each check returns the value, or raises StreamError, whose message names the value by its `key` in
the state, such as "sources.wmt.lines". The message of an invalid state always ends with a remedy
(`refusal`).

>>> whole(7, "n")
7
"""

from __future__ import annotations

import binascii
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.errors import StreamError, shown

_MOST = 1 << 62  # counts are below it
_MAX_BYTES = 1 << 28  # after decompression: bits of two thousand million numbers


def refusal(problem: str) -> StreamError:
    return StreamError(
        f"{problem}; use a state that a stream has written, or start the stream anew"
    )


def _wrong(value: object, key: str, wanted: str) -> StreamError:
    return refusal(f"the state's {shown(key)} is {arguments.shortened(repr(value))}, not {wanted}")


def whole(value: object, key: str, *, low: int = 0) -> int:
    """Return `value` if it is an integer of at least `low`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < _MOST:
        raise _wrong(value, key, f"a whole number from {low} up")
    return value


def text(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise _wrong(value, key, "text")
    return value


def mapping(value: object, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _wrong(value, key, "a mapping")
    return value


def listed(value: object, key: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise _wrong(value, key, "a list")
    return value


def check_keys(stored: Mapping[str, Any], keys: Sequence[str], parent: str = "") -> None:
    """Raise StreamError if a key of a mapping is missing, or unknown.

    parent: the key of the mapping in the state
    """
    prefix = f"{parent}." if parent else ""
    for key in stored:
        if key not in keys:
            raise refusal(f"the state has an unknown key, {arguments.shortened(f'{prefix}{key}')}")
    for key in keys:
        if key not in stored:
            raise refusal(f"the state has no {shown(f'{prefix}{key}')!r}")


def checksum(stored: Mapping[str, Any]) -> str:
    """Return the checksum of a state's other values: 32 hexadecimal digits."""
    rest = {name: value for name, value in stored.items() if name != "checksum"}
    return blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=16).hexdigest()


def check_checksum(stored: Mapping[str, Any]) -> None:
    try:
        expected = checksum(stored)
    except (TypeError, ValueError, RecursionError) as error:
        raise refusal(f"the state contains values that are not JSON ({error})") from None
    if stored["checksum"] != expected:
        raise refusal(
            "the state's checksum does not match its values: the state was damaged, or edited by hand"
        )


def encode_bits(numbers: Longs) -> str:
    """Return bits, compressed with zlib and encoded in base64: bit n is 1 if `numbers` contains n.

    >>> decode_bits(encode_bits(np.array([0, 2])), "wanted").tolist()
    [0, 2]
    """
    bits = np.zeros(int(numbers.max(initial=-1)) + 1, bool)
    bits[numbers] = True
    return b64encode(zlib.compress(np.packbits(bits).tobytes(), 9)).decode()


def decode_bits(text: str, key: str) -> Longs:
    """Return the numbers that `encode_bits` encoded.

    key: the key of the state, for errors
    """
    try:
        compressed = b64decode(text.encode(), validate=True)
        data = zlib.decompressobj().decompress(compressed, _MAX_BYTES)
    except (zlib.error, binascii.Error, UnicodeEncodeError):
        raise refusal(f"the state's {key} does not contain bits") from None
    return np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8)))
