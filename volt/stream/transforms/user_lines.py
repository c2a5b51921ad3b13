"""What a function of the user's own returned, line by line → lines, or what is wrong with it.

>>> made = MadeLines()
>>> made.add([row_of(["a", "b"]), checked_line("c")])
>>> made.column(str).strings(), made.origins
(['a\\tb', 'c'], [0, 0])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from volt.stream.transforms.column import Column


@dataclass(slots=True)
class MadeLines:
    """What has become of the lines for which a function was called.

    n_called: how many those are
    rows, origins: the lines that it made, and from which line each
    widths: how many fields each of them was made of
    bad: what is wrong with lines
    """

    n_called: int = 0
    rows: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)

    def add(self, rows: list[str]) -> None:
        """Note lines of the function's last call, which have been looked at."""
        self.rows += rows
        self.widths += [row.count("\t") + 1 for row in rows]
        self.origins += [self.n_called] * len(rows)

    def column(self, fault: Callable[[BaseException], str]) -> Column:
        """The lines, looked at all at once where they are good. Those that cannot be written are bad."""
        text = "\n".join([*self.rows, ""])
        is_cut = text.count("\t") == sum(self.widths) - len(self.widths) and text.count("\n") == len(self.rows)
        if is_cut and (written := encoded(text)) is not None:
            return Column.cut(written)
        for place in reversed(range(len(self.rows))):
            try:
                _check_row(self.rows[place], self.widths[place])
            except (ValueError, TypeError) as error:
                self.bad[self.origins[place]] = fault(error)
                del self.rows[place], self.origins[place], self.widths[place]
        return Column.of(self.rows)


def encoded(text: str) -> bytes | None:
    """A text as UTF-8; None where it holds a lone surrogate, which cannot be written.

    >>> encoded("é"), encoded("\\ud800")
    (b'\\xc3\\xa9', None)
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _check_row(line: str, width: int) -> None:
    """Raise ValueError unless a line can be written, and has so many fields."""
    if line.count("\t") != width - 1:
        raise ValueError(f"returned a field with a tab inside: {line!r}")
    checked_line(line)


def row_of(result: object) -> str:
    """The line of a list of fields. Raises TypeError or ValueError if it is none.

    >>> row_of(["a", "b"])
    'a\\tb'
    """
    if not isinstance(result, list | tuple) or not result:
        raise TypeError(f"returned {result!r}, not a list of strings")
    try:
        line = "\t".join(result)
        if line.count("\t") == len(result) - 1 and "\n" not in line and (line.isascii() or line.encode()):
            return line
    except (TypeError, UnicodeEncodeError):
        pass
    return "\t".join([value_of(value) for value in result])  # one of them says what is wrong


def value_of(result: object) -> str:
    """A field. Raises TypeError or ValueError if it is none.

    >>> value_of("a b")
    'a b'
    """
    if "\t" in checked_line(result):
        raise ValueError(f"returned a field with a tab inside: {result!r}")
    return str(result)


def checked_line(result: object) -> str:
    """A line. Raises TypeError or ValueError if it is none.

    >>> checked_line("a\\tb")
    'a\\tb'
    """
    if not isinstance(result, str):
        raise TypeError(f"returned {result!r}, not a string")
    if "\n" in result:
        raise ValueError(f"returned a line break: {result!r}")
    if not result.isascii():
        result.encode()  # a lone surrogate could not be written
    return result
