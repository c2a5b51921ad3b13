"""What people read, fitted to the width of a terminal: tables and labelled texts for rich.

No number is cut and no word is broken inside. A text breaks between its words, or between the parts that it is given
as; a part that is wider than the terminal stands on a line of its own, whole. A table that is too wide is shown in
parts, one below the other, and each part repeats the first column. Where lines may be of any length (`soft_wrap`, for
a file or a pipe), a labelled text is one line.

Print with `crop=False`, or rich cuts what is wider than the terminal.

>>> print(wrapped("no such file: a/long/path/of/a/file; check it", 20))
no such file:
a/long/path/of/a/file;
check it
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

GAP = 2  # spaces between columns
MIN_PROSE = 24  # columns of text are not made narrower than that, unless they hold less


def packed(parts: Iterable[str], room: int, *, gap: str = " ") -> list[str]:
    """Parts as lines of at most so many columns, with a gap between two in a line; a wider part has its own line.

    >>> packed(["a</w> 12", "the</w> 1,234", "of</w> 7"], 24, gap="  ")
    ['a</w> 12  the</w> 1,234', 'of</w> 7']
    """
    from rich.cells import cell_len

    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1] + gap + part) <= room:
            lines[-1] += gap + part
        else:
            lines.append(part)
    return lines


def wrapped(text: str, room: int) -> str:
    """A text whose lines break between words, at single spaces."""
    return "\n".join(line for told in text.split("\n") for line in packed(told.split(" "), room))


def at_bars(signature: str) -> list[str]:
    """The parts of a signature, to be put together without a gap.

    >>> at_bars("volt|norm:none|pre:gpt2")
    ['volt|', 'norm:none|', 'pre:gpt2']
    """
    return re.findall(r"[^|]*\||[^|]+", signature)


@dataclass(frozen=True, slots=True)
class Entry:
    """A text behind a label; further lines begin where the first one does.

    parts: what the text is put together from, none broken inside
    gap: what stands between two parts in a line
    """

    label: str
    parts: Sequence[str]
    gap: str = " "
    style: str = ""
    label_style: str = "dim"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.cells import cell_len
        from rich.text import Text

        indent = cell_len(self.label)
        lines = [self.gap.join(self.parts)]
        if not options.no_wrap:
            lines = packed(self.parts, max(options.max_width - indent, 1), gap=self.gap) or [""]
        for number, line in enumerate(lines):
            label = " " * indent if number else self.label
            yield Text.assemble((label, self.label_style), (line, self.style), no_wrap=True, overflow="ignore")


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that fits.

    heads: what stands above the columns
    rows: the texts of each row
    numbers: indices of the columns that hold numbers, which end at the right and stay whole
    strong: the index of the row that stands out, if any
    spare: indices of columns that a narrow terminal does without, the first of them first; a line below names them
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    strong: int | None = None
    spare: Sequence[int] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        room, natural = options.max_width, self._natural()
        least = natural if _total(natural) <= room else self._least(natural, room)
        left_out = self._left_out(least, room)
        shown = [column for column in range(len(self.heads)) if column not in left_out]
        for number, part in enumerate(column_parts([least[column] for column in shown], room)):
            yield from [""] * bool(number)
            yield self._part(_grown({shown[place]: least[shown[place]] for place in part}, natural, room))
        if left_out:
            names = ", ".join(self.heads[column] for column in sorted(left_out))
            yield Text(wrapped(f"no room for {names}; a wider terminal shows them", room), style="dim")

    def _natural(self) -> list[int]:
        """What each column takes on lines of its own."""
        return [_widest([head, *(row[column] for row in self.rows)]) for column, head in enumerate(self.heads)]

    def _least(self, natural: Sequence[int], room: int) -> list[int]:
        """What each column needs: numbers stay whole, heads break between words, and so does prose."""
        widths = []
        for column, head in enumerate(self.heads):
            cells = [row[column] for row in self.rows]
            prose = max(MIN_PROSE, _widest(word for cell in cells for word in cell.split(" ")))
            needed = _widest(cells) if column in self.numbers else min(_widest(cells), prose)
            widths.append(max(_widest(head.split(" ")), needed))
        return [min(widths[0], max(room // 2, 1)), *widths[1:]]

    def _left_out(self, least: Sequence[int], room: int) -> tuple[int, ...]:
        """The spare columns that must go; none if it does not help when all of them go."""
        for n_left in range(len(self.spare) + 1):
            left_out = tuple(self.spare[:n_left])
            if _total([width for column, width in enumerate(least) if column not in left_out]) <= room:
                return left_out
        return ()

    def _part(self, widths: dict[int, int]) -> RenderableType:
        """Some columns of the table, as wide as is said."""
        from rich.table import Table
        from rich.text import Text

        part = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
        for column, width in widths.items():
            justify: Literal["right", "left"] = "right" if column in self.numbers else "left"
            part.add_column(Text(self.heads[column]), justify=justify, overflow="fold", width=width)
        for number, row in enumerate(self.rows):
            style = "bold green" if number == self.strong else ""
            part.add_row(*(Text(row[column]) for column in widths), style=style)
        return part


def _grown(least: dict[int, int], natural: Sequence[int], room: int) -> dict[int, int]:
    """The widths of columns that share so much room: what is left makes them wider, what is missing is the last's.

    >>> _grown({0: 4, 2: 10}, [6, 9, 30], 40), _grown({0: 4, 2: 80}, [6, 9, 90], 40)
    ({0: 6, 2: 30}, {0: 4, 2: 34})
    """
    left, widths = room - _total(list(least.values())), dict(least)
    if left < 0:
        last = max(widths)
        return {**widths, last: max(widths[last] + left, 1)}
    for column, width in least.items():
        widths[column] += min(left, natural[column] - width)
        left -= widths[column] - width
    return widths


def _widest(texts: Iterable[str]) -> int:
    """Columns of the terminal that the widest text takes."""
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _total(widths: Sequence[int]) -> int:
    """What columns take, with the gaps between them."""
    return sum(widths) + GAP * (len(widths) - 1)


def column_parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """Which columns stand together where there is so much room; the first column is in every part.

    >>> column_parts([6, 5, 5, 5], 20), column_parts([6, 5, 5, 5], 40)
    ([[0, 1, 2], [0, 3]], [[0, 1, 2, 3]])
    """
    parts, left = [[0]], room - widths[0]
    for column, width in enumerate(widths[1:], 1):
        if width + GAP > left and len(parts[-1]) > 1:
            parts.append([0])
            left = room - widths[0]
        parts[-1].append(column)
        left -= width + GAP
    return parts
