"""Values of a stored state → what they must be, or an error that names the key.

>>> whole(7, "n")
7
>>> whole(-1, "n")
Traceback (most recent call last):
    ...
volt.errors.StreamError: the state's n is -1, no whole number from 0 up; take one that a stream has written, or start
the stream anew
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from volt import arguments
from volt.errors import StreamError, shown

_MOST = 1 << 62  # of what is counted
REMEDY = "take one that a stream has written, or start the stream anew"


def refusal(found: str) -> StreamError:
    """What to raise for a state in which this was found."""
    return StreamError(f"{found}; {REMEDY}")


def whole(value: object, place: str, *, low: int = 0) -> int:
    """A whole number from `low` up; True and False are none."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < _MOST:
        raise refusal(f"the state's {shown(place)} is {shown(repr(value))}, no whole number from {low} up")
    return value


def text(value: object, place: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise refusal(f"the state's {shown(place)} is {shown(repr(value))}, no text")
    return value


def mapping(value: object, place: str) -> Mapping[str, Any]:
    """A mapping whose keys are texts."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refusal(f"the state's {shown(place)} is {arguments.shortened(repr(value))}, no mapping")
    return value


def listed(value: object, place: str) -> Sequence[Any]:
    """A list."""
    if not isinstance(value, list | tuple):
        raise refusal(f"the state's {shown(place)} is {arguments.shortened(repr(value))}, no list")
    return value


def pair(value: object, place: str, *, low: int = 0) -> tuple[int, int]:
    """Two whole numbers, the second from `low` up.

    >>> pair([3, 5], "spans.0")
    (3, 5)
    """
    found = listed(value, place)
    if len(found) != 2:
        raise refusal(f"the state's {shown(place)} has {len(found)} items, not 2")
    return whole(found[0], place), whole(found[1], place, low=low)


def names(value: object, place: str) -> tuple[str, ...]:
    """A list of distinct texts.

    >>> names(["wmt"], "ended")
    ('wmt',)
    """
    found = tuple(text(one, place) for one in listed(value, place))
    if len(set(found)) != len(found):
        raise refusal(f"the state's {place} names something twice")
    return found


def counts(value: object, place: str) -> dict[str, int]:
    """A mapping of names to whole numbers.

    >>> counts({"wmt": 3}, "base")
    {'wmt': 3}
    """
    return {name: whole(n, f"{place}.{name}") for name, n in mapping(value, place).items()}


def check_keys(stored: Mapping[str, Any], keys: Sequence[str], place: str = "") -> None:
    """Raise StreamError unless a mapping has these keys and no other. place: its own; empty for the state itself.

    >>> check_keys({"line": 1}, ["lines"], "sources.wmt")
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: the state has an unknown key, sources.wmt.line; take one that a stream has written, or
    start the stream anew
    """
    at = f"{place}." if place else ""
    for key in stored:
        if key not in keys:
            raise refusal(f"the state has an unknown key, {arguments.shortened(f'{at}{key}')}")
    for key in keys:
        if key not in stored:
            raise refusal(f"the state has no {shown(f'{at}{key}')!r}")
