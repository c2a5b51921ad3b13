"""Check the arguments of public functions. Each function here accepts one kind of argument.

It takes the argument's value, and its name for the error. It returns the value, converted to one
type of Python. A value of the wrong type raises `ArgumentError`, which is also a TypeError; other
unsuitable values raise `ConfigError`. Either message ends with a remedy.

>>> whole(7, "n_merges"), whole(1e4, "n_merges")
(7, 10000)
>>> whole(1.5, "n_merges")
Traceback (most recent call last):
    ...
volt.errors.ArgumentError: n_merges is 1.5 (float); give a whole number
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from io import IOBase
from numbers import Integral, Real
from operator import index
from typing import Any, TypeVar

from volt.errors import ArgumentError, ConfigError, VoltError, quoted
from volt.urls import plain_path

T = TypeVar("T")
MAX_LINE = 64 << 20  # bytes; the usual limit of a line
_LONGEST = 40  # characters of a value that an error shows
# Iterable, or with __iter__, but not a list of values.
_SINGLE = str, bytes, bytearray, memoryview, Mapping, IOBase, os.PathLike, type

# What to give instead of a value that is not of this type.
_REMEDIES = {
    "WordCounts": "give a volt.WordCounts: the result of volt.count_words(path)",
    "Candidates": "give a volt.Candidates: the result of volt.learn_bpe(counts)",
    "Vocabulary": (
        "give a volt.Vocabulary: volt.read_vocabulary(path), or the vocabulary of a result of "
        "volt.search"
    ),
    "Encoder": "give a volt.Encoder: volt.Encoder(vocabulary)",
    "Stream": "give a volt.Stream",
    "SpecialTokens": "give special tokens, such as volt.SpecialTokens(user=('<url>',))",
}


def refusal(value: object, name: str, remedy: str) -> ArgumentError:
    """Return the error for a value of the wrong type.

    >>> refusal(None, "path", "give the path of a file")
    ArgumentError('path is None; give the path of a file')
    """
    return ArgumentError(f"{name} is {_shown(value)}; {remedy}")


def instance(value: Any, kind: type[T], name: str, *, remedy: str = "") -> T:
    """Return the value if it is of the type `kind`; otherwise raise an error that says how to get
    such a value.

    remedy: replaces the usual advice for the type

    >>> class Candidates: pass
    >>> instance({}, Candidates, "candidates")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: candidates is a dict; give a volt.Candidates: the result of volt.learn_bpe(counts)
    """
    if isinstance(value, kind):
        return value
    usual = _REMEDIES.get(kind.__name__, f"give a {kind.__name__}")
    raise refusal(value, name, remedy or usual)


def mapping(value: Any, name: str, *, remedy: str = "give a dict") -> Mapping[Any, Any]:
    """Return the value if it is a mapping, such as a dict.

    >>> mapping({"low": 2}, "counts")
    {'low': 2}
    """
    kind: type[Any] = Mapping
    result: Mapping[Any, Any] = instance(value, kind, name, remedy=remedy)
    return result


def whole(
    value: Any,
    name: str,
    *,
    low: int | None = None,
    high: int | None = None,
    kind: type[VoltError] = ConfigError,
    remedy: str = "give a whole number",
) -> int:
    """Return a whole number as an int: an int, an integer of numpy, or a float such as 2.0, but not
    a bool.

    low, high: the least and the greatest number that is allowed
    kind: the error for a number that is too low or too high
    remedy: the advice for a value that is not a whole number

    >>> whole(0, "n_merges", low=1)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: n_merges is 0; give 1 or more
    """
    if type(value) is not int:
        value = _as_int(value, name, remedy)
    if low is not None and value < low:
        raise kind(f"{name} is {shortened(str(value))}; give {low:,} or more")
    if high is not None and value > high:
        raise kind(f"{name} is {shortened(str(value))}; give {high:,} or less")
    return int(value)


def _as_int(value: Any, name: str, remedy: str) -> int:
    if isinstance(value, Real) and not isinstance(value, Integral) and float(value).is_integer():
        return int(float(value))
    with suppress(TypeError):  # arrays have __index__, but only some are numbers
        if not isinstance(value, bool):
            return index(value)
    raise refusal(value, name, remedy)


def wholes(values: Any, name: str) -> list[int]:
    """Return the whole numbers in a list, an array or any other iterable.

    >>> wholes((1, 2.0), "sizes")
    [1, 2]
    """
    if getattr(values, "ndim", 0) and hasattr(values, "tolist"):
        values = values.tolist()
    result = several(values, name)
    if set(map(type, result)) <= {int}:
        return result
    return [whole(value, f"{name}[{i}]") for i, value in enumerate(result)]


def number(value: Any, name: str) -> float:
    """Return a number as a float. A bool is not a number, and NaN is one. A number above all floats
    is infinity.

    >>> number("0.5", "temperature")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: temperature is '0.5' (str); give a number
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise refusal(value, name, "give a number")
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def text(value: Any, name: str, *, remedy: str = "give a str") -> str:
    """Return the value if it is a str.

    remedy: the advice for other values, except for bytes, which must be decoded

    >>> text(b"low", "line", remedy="give one line")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: line is b'low' (bytes); did you mean line.decode()?
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        remedy = f"did you mean {name}.decode()?"
    raise refusal(value, name, remedy)


def storable(value: Any, name: str) -> str:
    """Return the value if it is a str that a file can store: without lone surrogates, which UTF-8
    cannot encode.

    >>> storable("a\\udc00", "pattern")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: pattern contains the lone surrogate U+DC00, which UTF-8 cannot encode; remove it
    """
    try:
        text(value, name).encode()
    except UnicodeEncodeError as error:
        code = ord(value[error.start])
        raise ConfigError(
            f"{name} contains the lone surrogate U+{code:04X}, which UTF-8 cannot encode; remove it"
        ) from None
    return str(value)


def flag(value: Any, name: str) -> bool:
    """Return a bool of Python or numpy as a bool of Python.

    >>> flag("no", "whole_words")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: whole_words is 'no' (str); give True or False
    """
    if type(value).__name__ not in ("bool", "bool_"):
        raise refusal(value, name, "give True or False")
    return bool(value)


def choice(value: Any, name: str, choices: Collection[str]) -> Any:
    """Return the value if it is one of the strings `choices`.

    >>> choice("suffix", "marker", ("suffix", "prefix"))
    'suffix'
    """
    remedy = f"choose from {', '.join(choices)}"
    if text(value, name, remedy=remedy) not in choices:
        raise ConfigError(f"unknown {name} {shortened(repr(value))}; {remedy}")
    return value


def path(value: Any, name: str = "path", *, remedy: str = "give the path of a file") -> str:
    """Return a path, or the path that a `file:` URL stands for, as a str.

    >>> path("file:///tmp/a.txt")
    '/tmp/a.txt'
    >>> path(None)
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: path is None; give the path of a file
    """
    if not isinstance(value, str | os.PathLike):
        raise refusal(value, name, remedy)
    result = os.fspath(value)
    if not isinstance(result, str):
        raise refusal(value, name, remedy)
    with suppress(UnicodeEncodeError):
        if b"\0" not in os.fsencode(result):
            return plain_path(result)
    raise ConfigError(
        f"{name} {shortened(repr(result))} contains a character that no path can contain; {remedy}"
    )


def several(values: Any, name: str, *, one: str = "", remedy: str = "") -> list[Any]:
    """Return the items of a list, an array or another iterable as a list.

    A text, a file, a mapping or a table is not accepted, although it is iterable.

    one: the advice for a single text
    remedy: the advice for other values that are not accepted

    >>> several("low", "lines", one="did you mean encode(line)?")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: lines is 'low' (str); did you mean encode(line)?
    """
    if type(values) is list:
        return values
    return list(iterable(values, name, one=one, remedy=remedy))


def iterable(values: Any, name: str, *, one: str = "", remedy: str = "") -> Iterable[Any]:
    """Return an iterable itself; `several` describes which ones are accepted."""
    if isinstance(values, str | bytes | bytearray) and one:
        raise refusal(values, name, one)
    is_array = hasattr(values, "__iter__") and getattr(values, "ndim", 1) > 0
    if isinstance(values, _SINGLE) or hasattr(values, "columns") or not is_array:
        raise refusal(values, name, remedy or f"give a list of {name}")
    result: Iterable[Any] = values
    return result


def texts(values: Any, name: str, *, one: str = "", remedy: str = "give strings") -> list[str]:
    """Return the strings of a list or another iterable as a list.

    one: the advice for a single text
    remedy: the advice for an item that is not a text

    >>> texts(["low", None], "lines")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: lines[1] is None; give strings
    """
    result = several(values, name, one=one)
    if set(map(type, result)) <= {str}:
        return result
    for i, value in enumerate(result):
        text(value, f"{name}[{i}]", remedy=remedy)
    return list(map(str, result))


def function(value: Any, name: str) -> Callable[..., Any] | None:
    """Return the value if it is a function or None.

    >>> function(None, "report")
    """
    if value is None or callable(value):
        result: Callable[..., Any] | None = value
        return result
    raise refusal(value, name, "give a function, or None")


def parse_bytes(value: int | str, name: str, *, such_as: str = "1000, 64M or 1G") -> int:
    """Return the number of bytes that a text such as "64M", or a whole number, stands for.

    such_as: examples of valid texts, for the error

    >>> parse_bytes("64M", "memory")
    67108864
    """
    if not isinstance(value, str):
        return whole(value, name, remedy=f"give bytes, such as {such_as}")
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)B?", value.strip().upper())
    if not match:
        raise ConfigError(f"{name} is {quoted(value)}; give bytes, such as {such_as}")
    return int(match[1]) << 10 * " KMGT".find(match[2] or " ")


def _shown(value: object) -> str:
    kind = type(value).__name__
    if isinstance(value, Real):
        return f"{shortened(str(value))} ({kind})"
    if isinstance(value, str | bytes):
        return f"{shortened(repr(value[: _LONGEST + 1]))} ({kind})"
    if value is None:
        return "None"
    if kind[0] in "aeiouAEIOU":
        return f"an {kind}"
    return f"a {kind}"


def shortened(text: str) -> str:
    """Return a text for an error: in one line, and cut to 40 characters.

    >>> shortened("a" * 100)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'
    """
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 1]}…"
    return text.replace("\n", " ")


def parse_max_line(text: str, name: str = "max_line") -> int | None:
    """Return the limit of a line in bytes that a text such as "64M" stands for; None for "none" and
    "0".

    name: the name of the option that errors mention
    """
    if text.strip().lower() == "none":
        return None
    examples = "1000, 64M or 1G, or none for no limit"
    return parse_bytes(text, name, such_as=examples) or None


def checked_max_line(most: int | None) -> int | None:
    """Return the limit of a line in bytes; None, which means no limit, if `most` is None or 0."""
    if most is None:
        return None
    remedy = "give bytes, 1 or more, or None for no limit"
    return whole(most, "max_line", low=0, remedy=remedy) or None
