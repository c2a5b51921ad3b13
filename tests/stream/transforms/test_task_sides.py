"""What tasks do to the sides of a line: a target of the source, languages in front, no line that is too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_lines import LINES, tokens_of

from volt.errors import ConfigError
from volt.stream.config.configuration import parse_config
from volt.stream.transforms.field_edits import DuplicateMono
from volt.stream.transforms.filters import FilterTooLong
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.tags import LangPrefixBoth
from volt.stream.transforms.transform import deterministic

CHANCE = LineRng(1, 2)


@given(LINES)
def test_a_monolingual_line_gets_two_sides(values: list[str]) -> None:
    """The second is the first, as views into the same bytes."""
    done = DuplicateMono()(Batch.of(values), CHANCE)
    assert done.lines == [f"{value}\t{value}" for value in values]
    assert done.columns[0] is done.columns[1]


@given(LINES)
def test_languages_stand_before_the_source(values: list[str]) -> None:
    """The source alone gets them, in this order, without a space behind them where it is empty; they are what a
    vocabulary needs."""
    tags = LangPrefixBoth("de", "en", "<BT> <x>")
    done = tags(Batch.of([f"{value}\tb" for value in values]), CHANCE).lines
    assert done == [f"<FROM_de> <TO_en> <BT> <x>{value and f' {value}'}\tb" for value in values]
    assert tags.special_tokens() == ("<FROM_de>", "<TO_en>", "<BT>", "<x>")
    assert LangPrefixBoth("de", "en").special_tokens() == ("<FROM_de>", "<TO_en>")
    assert deterministic([tags]) == (tags,)


@given(st.lists(st.tuples(LINES.map(" ".join), LINES.map(" ".join)), max_size=6), st.integers(0, 12))
def test_lines_that_are_too_long_go(pairs: list[tuple[str, str]], most: int) -> None:
    """A line stays if both its sides have few enough tokens; the others of a batch do not matter."""
    fitting = [pair for pair in pairs if all(len(tokens_of(side)) <= most for side in pair)]
    assert FilterTooLong(most)(Batch.of(["\t".join(pair) for pair in pairs]), CHANCE).lines == [
        "\t".join(pair) for pair in fitting
    ]


def test_a_transform_without_options_takes_none() -> None:
    """An option is refused where it stands, as one that the transform does not know."""
    with pytest.raises(
        ConfigError, match=r"^stream.yaml:1: .*duplicate_mono.5: unknown key; no key is allowed; remove it"
    ):
        parse_config("{sources: {a: {path: a, transforms: [duplicate_mono: 5]}}}")
