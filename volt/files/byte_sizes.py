"""Numbers of bytes as people write them: 1000, 64K, 64M, 2G, 1T.

>>> parse_bytes("64M", "memory"), shown_bytes(64 << 20)
(67108864, '64 MB')
"""

from __future__ import annotations

from volt import arguments
from volt.errors import ConfigError, quoted

_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_bytes(value: int | str, name: str, *, such_as: str = "1000, 64M or 1G") -> int:
    """A number of bytes; what is a whole number already, whatever its range. such_as: what an error says may be given.

    Raises ConfigError if it is none.

    >>> parse_bytes("1.5g", "memory")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: memory='1.5g': give bytes, such as 1000, 64M or 1G
    """
    if not isinstance(value, str):
        return arguments.whole(value, name, remedy=f"give bytes, such as {such_as}")
    number, suffix = value.strip().upper().removesuffix("B"), ""
    if number[-1:] in _SUFFIXES:
        number, suffix = number[:-1], number[-1:]
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        raise ConfigError(f"{name}={quoted(value)}: give bytes, such as {such_as}")
    return int(number) * _SUFFIXES[suffix]


def shown_bytes(n_bytes: int) -> str:
    """The same in the largest unit that leaves a whole part.

    >>> shown_bytes(3 << 29), shown_bytes(700)
    ('1.5 GB', '700 bytes')
    """
    for suffix in "TGMK":
        if n_bytes >= _SUFFIXES[suffix]:
            return f"{n_bytes / _SUFFIXES[suffix]:.3g} {suffix}B"
    return f"{n_bytes} bytes"
