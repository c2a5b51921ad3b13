r"""Limits in bytes: sizes as people write them (64K, 2G), and the longest line that is read.

A line may have 64 MB unless the caller sets another limit: a gigabyte of spaces without a line end compresses to a
megabyte, and would fill the memory. The limit counts decompressed bytes without the line end, and is itself allowed.

>>> parse_bytes("64M", "memory"), shown_bytes(64 << 20)
(67108864, '64 MB')
>>> limit = LineLimit(3)
>>> list(limit.passing([b"low\nlo", b"wer\nold\n"])), limit.is_broken
([b'low\nlo', b'w'], True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from volt import arguments
from volt.errors import ConfigError, CorpusError, quoted, shown_path

_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_bytes(value: int | str, name: str, *, such_as: str = "1000, 64M or 1G") -> int:
    """Return a number of bytes; what is a whole number already, whatever its range. such_as: what an error says may be
    given.

    Raises ConfigError if it is none.

    >>> parse_bytes("1.5g", "memory")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: memory is '1.5g'; give bytes, such as 1000, 64M or 1G
    """
    if not isinstance(value, str):
        return arguments.whole(value, name, remedy=f"give bytes, such as {such_as}")
    number, suffix = value.strip().upper().removesuffix("B"), ""
    if number[-1:] in _SUFFIXES:
        number, suffix = number[:-1], number[-1:]
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        raise ConfigError(f"{name} is {quoted(value)}; give bytes, such as {such_as}")
    return int(number) * _SUFFIXES[suffix]


def shown_bytes(n_bytes: int) -> str:
    """Return the same in the largest unit that leaves a whole part.

    >>> shown_bytes(3 << 29), shown_bytes(700)
    ('1.5 GB', '700 bytes')
    """
    for suffix in "TGMK":
        if n_bytes >= _SUFFIXES[suffix]:
            return f"{n_bytes / _SUFFIXES[suffix]:.3g} {suffix}B"
    return f"{n_bytes} bytes"


MAX_LINE = 64 << 20  # bytes
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # no part of the first line


def parse_max_line(text: str) -> int | None:
    """Return a number of bytes as the command line takes it: 1000, 64K, 64M, 1G; none or 0 for no limit.

    Raises ConfigError if it is none.

    >>> parse_max_line("64M") == MAX_LINE, parse_max_line("none")
    (True, None)
    """
    if text.strip().lower() == "none":
        return None
    return checked_max_line(parse_bytes(text, "max_line", such_as="1000, 64M or 1G, or none for no limit"))


def checked_max_line(most: int | None) -> int | None:
    """Return the most bytes of a line; None, as 0 is read, for no limit. Raises ConfigError if it is negative or no
    number.

    >>> checked_max_line(0), checked_max_line(100)
    (None, 100)
    """
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
        raise ConfigError(f"max_line is {most!r}; give bytes, 1 or more, or None for no limit")
    return most or None


def overlong(text: bytes, most: int, *, before: int = 0) -> int:
    """Return where the first line of more than `most` bytes starts, or −1. before: bytes of the first line that came
    before.

    >>> overlong(b"old\\nlower\\n", 4), overlong(b"old\\nlower\\n", 5), overlong(b"old\\n", 3, before=1)
    (4, -1, 0)
    """
    start, room = 0, most - before
    while len(text) - start > room:
        end = text.rfind(b"\n", start, start + room + 1)
        if end < 0:
            return start
        start, room = end + 1, most
    return -1


class LongLineError(CorpusError):
    """A line has more bytes than are read."""


def long_line_error(path: str, line: int, most: int) -> LongLineError:
    """Return the error for a line of more than `most` bytes.

    >>> long_line_error("a.txt", 5, 3)
    LongLineError('a.txt:5: the line has more than 3 bytes; cut it, or raise max_line')
    """
    return LongLineError(f"{shown_path(path)}:{line}: the line has more than {most:,} bytes; cut it, or raise max_line")


class LineLimit:
    """Lets the pieces of a text pass until a line is too long.

    most: bytes of a line; None for no limit
    may_be_marked: whether the text may start with a byte order mark, as that of a part of a file does not
    is_broken: whether a line was too long; it is then the last one that passed, or what passed of it
    """

    def __init__(self, most: int | None, *, may_be_marked: bool = True) -> None:
        self.most, self.may_be_marked, self.is_broken = checked_max_line(most), may_be_marked, False

    def passing(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pieces, up to the first byte of a line that is too long, or more of it, but nothing after it."""
        if self.most is None:
            yield from pieces
            return
        length, head = 0, b""  # length: of the line that has not ended yet
        for piece in pieces:
            if self.may_be_marked and len(head) < len(BYTE_ORDER_MARK):
                head += piece[: len(BYTE_ORDER_MARK) - len(head)]
                length -= len(head) * (head == BYTE_ORDER_MARK)
            if (start := overlong(piece, self.most, before=length)) >= 0:
                self.is_broken = True
                yield piece[: start + 1]
                return
            yield piece
            end = piece.rfind(b"\n")
            length = length + len(piece) if end < 0 else len(piece) - end - 1

    def refuse(self, path: str, line: int) -> None:
        """Raise CorpusError if a line was too long. line: its number."""
        if self.is_broken and self.most is not None:
            raise long_line_error(path, line, self.most)
