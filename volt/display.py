"""Lay out texts, tables and curves: in terminals with rich, and in notebooks as HTML.

    terminals    Grid, LabelledText, wrapped, packed, at_bars
    notebooks    html_page, html_note, html_table, html_curve
    both         counted

>>> counted(1, "token"), counted(1200, "token"), counted(2, "entropy", "entropies")
('1 token', '1,200 tokens', '2 entropies')

In a terminal, text breaks between words or between the parts that the caller passes. A table that
is too wide is split; each part repeats the first column. With rich's `soft_wrap`, for files and
pipes, a labelled text is one line. Print with `crop=False`; otherwise rich cuts lines at the
terminal's width. Notebooks may be light or dark, so drawings use the colour of the surrounding text
and an accent colour that is legible on both.

>>> print(wrapped("no such file: a/long/path/of/a/file; check it", 20))
no such file:
a/long/path/of/a/file;
check it
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from volt.errors import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


GAP = 2  # spaces between columns
MIN_PROSE = 24  # least width of a column of text, unless its cells are shorter
# The size of a curve in pixels, and the space for its numbers.
_WIDTH, _HEIGHT = 480, 160
_MARGIN = 34
_MOST_DOTS = 40  # more points are a line without dots
_COLOR = "#3f7fd0"  # a contrast of 3:1 with white and with black
_LEFT = "text-align: left; padding-right: 1em"
_RIGHT = "text-align: right; padding-right: 1em"


def packed(parts: Iterable[str], room: int, *, gap: str = " ") -> list[str]:
    """Join texts into lines of at most `room` columns; a wider text has a line of its own.

    gap: what separates two texts in a line

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
    """Break a text at spaces into lines of at most `room` columns."""
    lines = list[str]()
    for line in text.split("\n"):
        lines += packed(line.split(" "), room)
    return "\n".join(lines)


def without_bars(text: str) -> str:
    """Return a text for a part of a signature, whose parts end at bars "|".

    >>> without_bars("split:a|b")
    'split:a%7Cb'
    """
    return text.replace("|", "%7C")


def at_bars(signature: str) -> list[str]:
    """Split a signature after each bar "|".

    >>> at_bars("volt|norm:none|pre:gpt2")
    ['volt|', 'norm:none|', 'pre:gpt2']
    """
    return re.findall(r"[^|]*\||[^|]+", signature)


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A label and its text; further lines of the text are indented by the label's width.

    parts: unbreakable parts of the text
    gap: separator of two parts in a line
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
            room = max(options.max_width - indent, 1)
            lines = packed(self.parts, room, gap=self.gap) or [""]
        label = self.label
        for line in lines:
            styled = (label, self.label_style), (line, self.style)
            yield Text.assemble(*styled, no_wrap=True, overflow="ignore")
            label = "".ljust(indent)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that fits the terminal.

    heads: headings of the columns
    rows: texts of each row
    numbers: indices of columns of numbers, which are aligned to the right and never broken
    strong: index of the highlighted row, if any
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    strong: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width
        full_widths = list(map(_max_width, zip(self.heads, *self.rows, strict=True)))
        min_widths = full_widths
        if _total_width(full_widths) > room:
            min_widths = self._find_min_widths(room)
        for number, columns in enumerate(split_columns(min_widths, room)):
            if number:
                yield ""
            widths = {column: min_widths[column] for column in columns}
            yield self._build_table(_distribute_room(widths, full_widths, room))

    def _find_min_widths(self, room: int) -> list[int]:
        """Return the least width of each column: headings and prose break between words."""
        widths = []
        for column, head in enumerate(self.heads):
            cells = [row[column] for row in self.rows]
            needed = _max_width(cells)
            if column not in self.numbers:
                words = [word for cell in cells for word in cell.split(" ")]
                needed = min(needed, max(MIN_PROSE, _max_width(words)))
            widths.append(max(_max_width(head.split(" ")), needed))
        return [min(widths[0], max(room // 2, 1)), *widths[1:]]

    def _build_table(self, widths: dict[int, int]) -> RenderableType:
        """Return a table of some columns. widths: column → width"""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
        for column, width in widths.items():
            justify: Literal["right", "left"] = "right" if column in self.numbers else "left"
            table.add_column(
                Text(self.heads[column]), justify=justify, overflow="fold", width=width
            )
        for number, row in enumerate(self.rows):
            style = "bold green" if number == self.strong else ""
            table.add_row(*(Text(row[column]) for column in widths), style=style)
        return table


def split_columns(widths: Sequence[int], room: int) -> list[list[int]]:
    """Split a table that is too wide into tables that fit. Return the columns of each.

    Each table repeats column 0.

    >>> split_columns([6, 5, 5, 5], 20), split_columns([6, 5, 5, 5], 40)
    ([[0, 1, 2], [0, 3]], [[0, 1, 2, 3]])
    """
    tables = [[0]]
    n_free = room - widths[0]
    for column, width in enumerate(widths[1:], 1):
        if width + GAP > n_free and len(tables[-1]) > 1:
            tables.append([0])
            n_free = room - widths[0]
        tables[-1].append(column)
        n_free -= width + GAP
    return tables


def _distribute_room(
    min_widths: dict[int, int], full_widths: Sequence[int], room: int
) -> dict[int, int]:
    """Widen columns to their full widths while there is room. Without room, narrow the last column.

    min_widths: column → width
    Returns column → width.

    >>> _distribute_room({0: 4, 2: 10}, [6, 9, 30], 40)
    {0: 6, 2: 30}
    >>> _distribute_room({0: 4, 2: 80}, [6, 9, 90], 40)
    {0: 4, 2: 34}
    """
    n_free = room - _total_width(list(min_widths.values()))
    widths = dict(min_widths)
    if n_free < 0:
        last = max(widths)
        return {**widths, last: max(widths[last] + n_free, 1)}
    for column, width in min_widths.items():
        widths[column] += min(n_free, full_widths[column] - width)
        n_free -= widths[column] - width
    return widths


def _max_width(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def escape(text: str) -> str:
    r"""Return a text as HTML, with control characters as escapes.

    >>> escape("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    return html.escape(visible(text))


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number and its noun in the singular or plural: "1 token", "2 tokens".

    one, many: the noun in the singular and the plural; by default, the plural ends in s
    """
    if n == 1:
        return f"1 {one}"
    return f"{n:,} {many or f'{one}s'}"


def html_page(title: str, *parts: str) -> str:
    """Return HTML for a notebook: a bold title, then the parts, which are HTML already."""
    return f'<div style="max-width: 60em"><p><b>{escape(title)}</b></p>{"".join(parts)}</div>'


def html_note(text: str) -> str:
    """Return a line of small text.

    >>> html_note("<script>")
    '<p style="font-size: smaller; overflow-wrap: anywhere">&lt;script&gt;</p>'
    """
    return f'<p style="font-size: smaller; overflow-wrap: anywhere">{escape(text)}</p>'


def html_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[int] = (),
    strong: int | None = None,
) -> str:
    """Return a table as HTML; whole numbers are aligned to the right, with commas.

    heads: headings of the columns; may be empty
    numbers: indices of columns of texts that are aligned to the right
    strong: index of the highlighted row, if any

    >>> html_table([], [["<s>"]])
    '<table><tr><td style="text-align: left; padding-right: 1em">&lt;s&gt;</td></tr></table>'
    """
    body = ""
    if heads:
        cells = [
            f'<th style="{_RIGHT if column in numbers else _LEFT}">{escape(text)}</th>'
            for column, text in enumerate(heads)
        ]
        body = f"<thead><tr>{''.join(cells)}</tr></thead>"
    for number, row in enumerate(rows):
        cells = [_cell(cell, column in numbers) for column, cell in enumerate(row)]
        kind = ' class="strong" style="font-weight: bold"' if number == strong else ""
        body += f"<tr{kind}>{''.join(cells)}</tr>"
    return f"<table>{body}</table>"


def _cell(cell: object, is_number: bool) -> str:
    if isinstance(cell, int):
        return f'<td style="{_RIGHT}">{cell:,}</td>'
    return f'<td style="{_RIGHT if is_number else _LEFT}">{escape(str(cell))}</td>'


def html_curve(
    points: Sequence[tuple[float, float]],
    *,
    chosen: tuple[float, float] | None = None,
    across: str,
    upwards: str,
) -> str:
    """Return a line through points as inline SVG, with the least and greatest number of each axis.

    chosen: a highlighted point
    across, upwards: names of the axes

    >>> html_curve([], across="size", upwards="entropy")
    ''
    """
    if not points:
        return ""
    xs, ys = zip(*points, strict=True)
    spots = [_place(point, xs, ys) for point in points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    dots = ""
    if len(spots) <= _MOST_DOTS:
        dots = "".join(_dot(spot, 2) for spot in spots)
    if chosen:
        dots += _dot(_place(chosen, xs, ys), 5)
    words = [
        (0, 12, "start", f"{max(ys):.4g}"),
        (0, _HEIGHT - _MARGIN, "start", f"{min(ys):.4g}"),
        (_MARGIN * 2, _HEIGHT - 6, "start", f"{min(xs):,.0f}"),
        (_WIDTH - 4, _HEIGHT - 6, "end", f"{max(xs):,.0f}"),
        (_WIDTH / 2 + _MARGIN, _HEIGHT - 6, "middle", f"{upwards} over {across}"),
    ]
    texts = "".join(
        f'<text x="{x:g}" y="{y}" text-anchor="{side}">{escape(text)}</text>'
        for x, y, side, text in words
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(upwards)} over {escape(across)}" font-size="12" fill="currentColor" '
        'style="max-width: 100%; height: auto">'
        f'<polyline points="{line}" fill="none" stroke="{_COLOR}" stroke-width="2"/>{dots}{texts}</svg>'
    )


def _place(
    point: tuple[float, float], xs: Sequence[float], ys: Sequence[float]
) -> tuple[float, float]:
    width = max(xs) - min(xs)
    height = max(ys) - min(ys)
    across = (point[0] - min(xs)) / (width or 1)
    upwards = (point[1] - min(ys)) / (height or 1)
    x = 2 * _MARGIN + across * (_WIDTH - 2 * _MARGIN - 8)
    y = 8 + (1 - upwards) * (_HEIGHT - _MARGIN - 16)
    return x, y


def _dot(spot: tuple[float, float], radius: int) -> str:
    return f'<circle cx="{spot[0]:.1f}" cy="{spot[1]:.1f}" r="{radius}" fill="{_COLOR}"/>'
