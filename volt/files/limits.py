"""Limit the length of a line, which could otherwise fill the memory."""

from __future__ import annotations

from volt import arguments
from volt.errors import CorpusError, shown_path

MAX_LINE = 64 << 20  # bytes
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # no part of the first line


def parse_max_line(text: str, name: str = "max_line") -> int | None:
    """Parse a limit such as 1000 or 64M; "none" and 0 stand for no limit. Raises ConfigError. name: the option's"""
    if text.strip().lower() == "none":
        return None
    return checked_max_line(arguments.parse_bytes(text, name, such_as="1000, 64M or 1G, or none for no limit"))


def checked_max_line(most: int | None) -> int | None:
    """Return the limit, None for 0. Raises ConfigError unless it is a number from 0."""
    remedy = "give bytes, 1 or more, or None for no limit"
    return None if most is None else arguments.whole(most, "max_line", low=0, remedy=remedy) or None


def overlong(text: bytes, most: int) -> int:
    r"""Return where the first line of more than `most` bytes starts, or −1.

    >>> overlong(b"old\nlower\n", 4)
    4
    """
    start = 0
    while len(text) - start > most:
        if (end := text.rfind(b"\n", start, start + most + 1)) < 0:
            return start
        start = end + 1
    return -1


class LongLineError(CorpusError):
    """A line exceeds the limit."""


def long_line_error(path: str, line: int, most: int) -> LongLineError:
    """Return the error for a line of more than `most` bytes."""
    return LongLineError(f"{shown_path(path)}:{line}: the line has more than {most:,} bytes; cut it, or raise max_line")


def refuse_long(text: bytes, most: int | None, *, path: str, first_line: int) -> None:
    """Raise CorpusError if one of these lines has more than `most` bytes."""
    if most is not None and (start := overlong(text, most)) >= 0:
        raise long_line_error(path, first_line + text.count(b"\n", 0, start), most)
