"""Validate arguments of public functions: return the value, or raise an error that says what to pass instead.

A value of the wrong type raises `ArgumentError`, which is also a TypeError.

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
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from io import IOBase
from numbers import Integral, Real
from operator import index
from typing import Any, TypeVar

from volt.errors import ArgumentError, ConfigError, VoltError, quoted
from volt.urls import plain_path

T = TypeVar("T")
_LONGEST = 40  # characters of a text that an error shows

# Type of a value → another type → the expression that converts the value, {}, to that type.
_CALLS: Mapping[str, Mapping[str, str]] = {
    "path": {"WordCounts": "volt.count_words({})", "Vocabulary": "volt.read_vocabulary({})"},
    "Mapping": {"WordCounts": "volt.WordCounts.from_pairs({})"},
    "WordCounts": {"Candidates": "volt.learn_bpe({})"},
    "Candidates": {"SearchResult": "volt.search({})", "WordCounts": "{}.counts"},
    "SearchResult": {"Vocabulary": "{}.vocabulary", "Candidates": "{}.candidates"},
    "Comparison": {"SearchResult": "{}.search"},
    "Vocabulary": {"Encoder": "volt.Encoder({})"},
    "Encoder": {"Vocabulary": "{}.vocabulary"},
}
_NAMES = {"Mapping": "counts", "WordCounts": "counts", "SearchResult": "result"}  # type → usual name of a variable
_MAKERS = {
    "WordCounts": "the result of volt.count_words",
    "Candidates": "the result of volt.learn_bpe",
    "Encoder": "a volt.Encoder",
    "Vocabulary": "a vocabulary, the path of a vocabulary file, or the result of volt.search",
    "Stream": "a volt.Stream",
    "SpecialTokens": "special tokens, such as volt.SpecialTokens(user=('<url>',))",
}


def refusal(value: object, name: str, remedy: str) -> ArgumentError:
    """Return the error for a value of the wrong type.

    >>> refusal(None, "path", "give the path of a file")
    ArgumentError('path is None; give the path of a file')
    """
    return ArgumentError(f"{name} is {_shown(value)}; {remedy}")


def instance(value: Any, kind: type[T], name: str, *, call: str = "{}", remedy: str = "") -> T:
    """Return the value if its type is `kind`; otherwise raise an error with an expression that converts it.

    call: the call to suggest in the error, with {} in place of the argument
    remedy: the advice if no expression converts the value; by default, how to make a value of type `kind`

    >>> class WordCounts: pass
    >>> class Candidates: pass
    >>> instance(WordCounts(), Candidates, "candidates", call="volt.search({})")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: candidates is a WordCounts; did you mean volt.search(volt.learn_bpe(counts))?
    """
    if isinstance(value, kind):
        return value
    wanted = kind.__name__
    if expression := _conversion(value, wanted):
        raise refusal(value, name, f"did you mean {call.format(expression)}?")
    raise refusal(value, name, remedy or f"give {_MAKERS.get(wanted, f'a {wanted}')}")


def mapping(value: Any, name: str, *, remedy: str = "give a dict") -> Mapping[Any, Any]:
    """Return a mapping, such as a dict.

    >>> mapping({"low": 2}, "counts")
    {'low': 2}
    """
    if not isinstance(value, Mapping):
        raise refusal(value, name, remedy)
    return value


def whole(
    value: Any, name: str, *, low: int | None = None, high: int | None = None, kind: type[VoltError] = ConfigError,
    remedy: str = "give a whole number",
) -> int:  # fmt: skip
    """Return a whole number: an int, an integer of numpy, or a float without a fraction, but not a bool.

    low, high: inclusive limits; a number outside them raises `kind`
    remedy: the advice if the value is not a whole number
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
    result = values.tolist() if getattr(values, "ndim", 0) and hasattr(values, "tolist") else several(values, name)
    if not set(map(type, result)) <= {int}:
        return [whole(value, f"{name}[{place}]") for place, value in enumerate(result)]
    return result


def number(value: Any, name: str) -> float:
    """Return a number, but not a bool, as a float; infinity if it exceeds all floats. NaN is allowed.

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
    """Return a text. remedy: the advice for other values; for bytes, the advice is always to decode them

    >>> text(b"low", "line", remedy="give one line")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: line is b'low' (bytes); did you mean line.decode()?
    """
    if isinstance(value, str):
        return value
    is_bytes = isinstance(value, bytes | bytearray | memoryview)
    raise refusal(value, name, f"did you mean {name}.decode()?" if is_bytes else remedy)


def storable(value: Any, name: str) -> str:
    """Return a text. Raises ConfigError if it contains a lone surrogate, which UTF-8 cannot encode.

    >>> storable("a\\udc00", "pattern")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: pattern contains the lone surrogate U+DC00, which UTF-8 cannot encode; remove it
    """
    try:
        text(value, name).encode()
    except UnicodeEncodeError as error:
        code = f"U+{ord(value[error.start]):04X}"
        raise ConfigError(f"{name} contains the lone surrogate {code}, which UTF-8 cannot encode; remove it") from None
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
    """Return the value if it is one of `choices`.

    >>> choice("suffix", "marker", ("suffix", "prefix"))
    'suffix'
    """
    if text(value, name, remedy=f"choose from {', '.join(choices)}") not in choices:
        raise ConfigError(f"unknown {name} {shortened(repr(value))}; choose from {', '.join(choices)}")
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
    result = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(result, str):
        raise refusal(value, name, remedy)
    with suppress(UnicodeEncodeError):
        if b"\0" not in os.fsencode(result):
            return plain_path(result)
    raise ConfigError(f"{name} {shortened(repr(result))} contains a character that no path can contain; {remedy}")


def several(values: Any, name: str, *, one: str = "", remedy: str = "") -> list[Any]:
    """Return the items of an iterable that is not a text, a file, a mapping or a table.

    one: the advice for a single text
    remedy: the advice for other values that are not accepted

    >>> several("low", "lines", one="did you mean encode(line)?")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: lines is 'low' (str); did you mean encode(line)?
    """
    if type(values) is list:
        return values
    if isinstance(values, str | bytes | bytearray) and one:
        raise refusal(values, name, one)
    is_single = isinstance(values, str | bytes | bytearray | memoryview | Mapping | IOBase | os.PathLike | type)
    is_array = hasattr(values, "__iter__") and getattr(values, "ndim", 1) > 0
    if is_single or hasattr(values, "columns") or not is_array:
        raise refusal(values, name, remedy or f"give a list of {name}")
    return list(values)


def texts(values: Any, name: str, *, one: str = "", remedy: str = "give strings") -> list[str]:
    """Return the items of an iterable of texts.

    one: the advice for a single text
    remedy: the advice for an item that is not a text

    >>> texts(["low", None], "lines")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: lines[1] is None; give strings
    """
    result = several(values, name, one=one)
    if not set(map(type, result)) <= {str}:
        return [str(text(value, f"{name}[{place}]", remedy=remedy)) for place, value in enumerate(result)]
    return result


def function(value: Any, name: str) -> Callable[..., Any] | None:
    """Return a function or None.

    >>> function(None, "report")
    """
    if value is not None and not callable(value):
        raise refusal(value, name, "give a function, or None")
    result: Callable[..., Any] | None = value
    return result


def parse_bytes(value: int | str, name: str, *, such_as: str = "1000, 64M or 1G") -> int:
    """Parse a size such as 64M into bytes. Raises ConfigError if it is invalid. such_as: valid examples, for the error

    >>> parse_bytes("64M", "memory")
    67108864
    """
    if not isinstance(value, str):
        return whole(value, name, remedy=f"give bytes, such as {such_as}")
    if not (match := re.fullmatch(r"([0-9]{1,15})([KMGT]?)B?", value.strip().upper())):
        raise ConfigError(f"{name} is {quoted(value)}; give bytes, such as {such_as}")
    return int(match[1]) << 10 * " KMGT".index(match[2] or " ")


def _shown(value: object) -> str:
    kind = type(value).__name__
    if isinstance(value, str | bytes | Real):
        return f"{shortened(str(value) if isinstance(value, Real) else repr(value[: _LONGEST + 1]))} ({kind})"
    return "None" if value is None else f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def shortened(text: str) -> str:
    """Return a text in one line, cut to 40 characters.

    >>> shortened("a" * 100)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'
    """
    line = text[: _LONGEST + 1].replace("\n", " ")
    return line if len(text) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _conversion(value: object, wanted: str) -> str:
    start, expression = _kind_and_name(value)
    ahead, seen = deque([(start, expression)]), {start}
    while ahead:
        kind, expression = ahead.popleft()
        for gives, step in _CALLS.get(kind, {}).items():
            if gives == wanted:
                return step.format(expression)
            if gives not in seen:
                seen.add(gives)
                ahead.append((gives, step.format(expression)))
    return ""


def _kind_and_name(value: object) -> tuple[str, str]:
    if isinstance(value, str | os.PathLike):
        shown = repr(os.fspath(value))
        return "path", shown if len(shown) <= _LONGEST else "path"
    kind = "Mapping" if isinstance(value, Mapping) else type(value).__name__
    return kind, _NAMES.get(kind, kind.lower())


MAX_LINE = 64 << 20  # bytes


def parse_max_line(text: str, name: str = "max_line") -> int | None:
    """Parse a limit such as 1000 or 64M; "none" and 0 mean no limit. Raises ConfigError. name: the option in errors"""
    if text.strip().lower() == "none":
        return None
    return checked_max_line(parse_bytes(text, name, such_as="1000, 64M or 1G, or none for no limit"))


def checked_max_line(most: int | None) -> int | None:
    """Return a limit in bytes, or None if it is 0 or None. Raises ConfigError if it is negative or not whole."""
    remedy = "give bytes, 1 or more, or None for no limit"
    return None if most is None else whole(most, "max_line", low=0, remedy=remedy) or None
