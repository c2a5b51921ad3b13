"""Laws of layouts: tables and labelled texts fit terminals of any width, and no word is lost."""

import io
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from support.golden import check
from support.screens import printed, too_wide, words

from volt.display import (
    Grid,
    LabelledText,
    at_bars,
    html_curve,
    html_page,
    html_table,
    packed,
    split_columns,
    wrapped,
)

TEXT = st.lists(st.text("ab1,.字", min_size=1, max_size=30), max_size=12).map(" ".join)
NUMBER = st.integers(-10, 10**9).map("{:,}".format)


@given(TEXT, st.integers(1, 60))
def test_lines_break_between_words_and_as_late_as_they_can(text, room):
    """`wrapped` and `packed` break a text only between words, and only where the next word does not
    fit."""
    lines = wrapped(text, room).split("\n")
    assert " ".join(lines) == text
    assert all(cell_len(line) <= room or " " not in line for line in lines)
    for line, after in pairwise(lines):
        assert cell_len(f"{line} {after.split(' ')[0]}") > room
    assert packed(text.split(" "), room) == lines


def test_the_parts_of_a_signature_join_to_it():
    """The parts of any text, split at bars, join to the text."""
    for text in ("volt|norm:none|pre:gpt2", "a", "a||b", "|a", "a|"):
        assert "".join(at_bars(text)) == text


@given(TEXT, st.integers(8, 60))
def test_the_lines_of_a_labelled_text_are_indented(text, width):
    """Further lines of a LabelledText begin below its first word, and all words are shown."""
    first, *rest = printed([LabelledText("label ", text.split(" "))], width).splitlines()
    assert first.startswith("label ")
    assert all(line.startswith(" " * 6) for line in rest)
    assert "".join(line[6:].replace(" ", "") for line in [first, *rest]) == text.replace(" ", "")


@given(st.data(), st.integers(30, 120))
def test_a_grid_fits_and_loses_nothing(data, width):
    """A Grid has no line that is wider than the terminal, and shows every word of its cells and
    headings whole."""
    kinds = data.draw(st.lists(st.booleans(), min_size=1, max_size=8))
    cells = [
        NUMBER if is_number else st.sampled_from(["", "some words here", "x"])
        for is_number in [False, *kinds]
    ]
    rows = data.draw(st.lists(st.tuples(*cells), min_size=1, max_size=3))
    heads = ["name", *(f"head of {number}" for number in range(len(kinds)))]
    grid = Grid(
        heads, rows, numbers=[place for place, is_number in enumerate([False, *kinds]) if is_number]
    )
    shown = printed([grid], width)
    assert not too_wide(shown, width)
    assert words(shown) == words(" ".join([*heads, *(cell for row in rows for cell in row)]))


def test_split_columns_shows_every_column_once():
    """At every width, `split_columns` puts each column except the first into exactly one table."""
    for room in range(60):
        parts = split_columns([9, 4, 30, 1, 1, 12], room)
        assert all(part[0] == 0 for part in parts)
        assert [column for part in parts for column in part[1:]] == [1, 2, 3, 4, 5]


def test_layouts_are_pinned():
    """Widths, gaps, alignment, colours and the coordinates of a curve equal the golden values."""
    rows = [("low", "1,234", "the first of two", "12"), ("lowest of all", "7", "no", "1,200")]
    grid = Grid(("name", "number of it", "why it is so", "spare"), rows, numbers=(1, 3), strong=1)
    label = LabelledText("label  ", ["some", "words", "here"], gap=", ", style="bold")
    screens = {str(width): printed([grid, label], width) for width in (9, 17, 26, 34, 42, 49, 50)}
    console = Console(file=io.StringIO(), width=50, force_terminal=True, color_system="standard")
    console.print(grid, label, LabelledText("", []), no_wrap=True)
    line = [(100, 2.5), (250, 1.25), (300, 2.0)]
    many = [(float(n), float(n % 3)) for n in range(41)]
    curves = [
        html_curve(line, chosen=line[1], across="a<", upwards="b"),
        html_curve([(5, 5)], across="x", upwards="y"),
    ]
    curves += [
        str(html_curve(many[:n], across="x", upwards="y").count("<circle")) for n in (40, 41)
    ]
    table = html_page("<t>", html_table(["a", "b"], [["<", 1_234], ["x", 1.5]], strong=1))
    check(
        "display layouts",
        {"screens": screens, "styles": console.file.getvalue(), "html": [*curves, table]},
    )
