"""How objects show themselves: numbers of things in one line, tables and curves in notebooks.

Notebooks have light or dark grounds, so what is drawn takes the colour of the text around it, and one of its own that
stands out on both. Every text is escaped: a token that looks like markup is shown as it is.

>>> counted(1, "token"), counted(1200, "token"), counted(2, "entropy", "entropies")
('1 token', '1,200 tokens', '2 entropies')
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from volt.errors import visible

_WIDTH, _HEIGHT, _MARGIN = 480, 160, 34
_COLOR = "#3f7fd0"  # 3:1 on white and on black


def escape(text: str) -> str:
    r"""A text as HTML, with what a terminal obeys or nobody sees written out.

    >>> escape("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    return html.escape(visible(text))


def counted(n: int, one: str, many: str = "") -> str:
    """A number of things."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def html_page(title: str, *parts: str) -> str:
    """What a notebook shows of an object: a title in bold above parts that are HTML."""
    return f'<div style="max-width: 60em"><p><b>{escape(title)}</b></p>{"".join(parts)}</div>'


def html_note(text: str) -> str:
    """A line of small text.

    >>> html_note("<script>")
    '<p style="font-size: smaller; overflow-wrap: anywhere">&lt;script&gt;</p>'
    """
    return f'<p style="font-size: smaller; overflow-wrap: anywhere">{escape(text)}</p>'


def html_table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, strong: int = -1) -> str:
    """A table of texts; whole numbers stand to the right, with commas.

    heads: of the columns; without any, there is no row of them
    strong: the number of a row in bold

    >>> html_table([], [["<s>"]])
    '<table><tr><td style="text-align: left; padding-right: 1em">&lt;s&gt;</td></tr></table>'
    """
    head = "".join(f'<th style="{_LEFT}">{escape(text)}</th>' for text in heads)
    body = "".join(_row(row, is_strong=number == strong) for number, row in enumerate(rows))
    return f"<table>{f'<tr>{head}</tr>' * bool(heads)}{body}</table>"


_LEFT, _RIGHT = "text-align: left; padding-right: 1em", "text-align: right; padding-right: 1em"


def _row(row: Sequence[object], *, is_strong: bool) -> str:
    cells = ((f"{cell:,}", _RIGHT) if isinstance(cell, int) else (escape(str(cell)), _LEFT) for cell in row)
    mark = ("<b>", "</b>") if is_strong else ("", "")
    shown = (f'<td style="{side}">{mark[0]}{text}{mark[1]}</td>' for text, side in cells)
    return f"<tr>{''.join(shown)}</tr>"


def html_curve(
    points: Sequence[tuple[float, float]], *, chosen: tuple[float, float] | None = None, across: str, upwards: str
) -> str:
    """A line through points as inline SVG, with the least and the greatest number on either side.

    chosen: a point that is marked
    across, upwards: what the numbers are

    >>> html_curve([], across="size", upwards="entropy")
    ''
    """
    if not points:
        return ""
    xs, ys = zip(*points, strict=True)
    spots = [_place(point, xs, ys) for point in points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    dots = "".join(_dot(spot, 2) for spot in spots[: len(spots) if len(spots) <= 40 else 0])
    dots += _dot(_place(chosen, xs, ys), 5) if chosen else ""
    labels = [
        (0, 12, "start", f"{max(ys):.4g}"), (0, _HEIGHT - _MARGIN, "start", f"{min(ys):.4g}"),
        (_MARGIN * 2, _HEIGHT - 6, "start", f"{min(xs):,.0f}"), (_WIDTH - 4, _HEIGHT - 6, "end", f"{max(xs):,.0f}"),
        (_WIDTH / 2 + _MARGIN, _HEIGHT - 6, "middle", f"{upwards} over {across}"),
    ]  # fmt: skip
    texts = "".join(
        f'<text x="{x:g}" y="{y}" text-anchor="{side}">{escape(text)}</text>' for x, y, side, text in labels
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(upwards)} over {escape(across)}" font-size="12" fill="currentColor">'
        f'<polyline points="{line}" fill="none" stroke="{_COLOR}" stroke-width="2"/>{dots}{texts}</svg>'
    )


def _place(point: tuple[float, float], xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Where a point is drawn."""
    across = (point[0] - min(xs)) / ((max(xs) - min(xs)) or 1)
    upwards = (point[1] - min(ys)) / ((max(ys) - min(ys)) or 1)
    return 2 * _MARGIN + across * (_WIDTH - 2 * _MARGIN - 8), 8 + (1 - upwards) * (_HEIGHT - _MARGIN - 16)


def _dot(spot: tuple[float, float], radius: int) -> str:
    return f'<circle cx="{spot[0]:.1f}" cy="{spot[1]:.1f}" r="{radius}" fill="{_COLOR}"/>'
