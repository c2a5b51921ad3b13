"""The compiled loops that change columns do what plain Python does to each value."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from volt.stream.transforms.case import Lower, Title, Upper, has_case, titled
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.tags import surrounded

ANY = st.characters(exclude_characters="\t\n")
CASES = st.sampled_from(
    "aZßẞſŉİıΣςσΆάÿŸǰǅԱև一か\u0301\u0345’'- .(?“𐐀𝐀ⱥȺKÅﬀſt\x00\x1f\x85\u2028\u3000\ud800"
)
VALUES = st.lists(st.one_of(st.text(ANY, max_size=24), st.text(CASES, max_size=12)), max_size=8)


def is_telling(character: str) -> bool:
    """Whether a character has case, or may stand before a word; and one in 97 of the others."""
    may_open = ord(character) < 0x3001 and not character.isalpha()
    return character not in "\t\n" and (has_case(character) or may_open or ord(character) % 97 == 0)


def test_every_character_with_case_in_every_place() -> None:
    """Each such character, alone, inside a word and behind an opening one, gets the case that str gives it."""
    message = filter(is_telling, map(chr, range(0x110000)))
    values = [value for x in message for value in (x, f"aB{x}Cd {x}", f"({x}{x}")]
    batch = Batch.of(values)
    assert Lower()(batch, LineRng(1, 2)).lines == [value.lower() for value in values]
    assert Upper()(batch, LineRng(1, 2)).lines == [value.upper() for value in values]
    assert Title()(batch, LineRng(1, 2)).lines == [titled(value) for value in values]
    cased = [value.upper() if has_case(value) else value for value in values]
    assert Upper(if_cased=1)(batch, LineRng(1, 2)).lines == cased


@given(VALUES)
def test_case_of_values_is_that_of_str(values: list[str]) -> None:
    """A value changes as if it were alone, whatever stands before or behind it in the buffer."""
    batch = Batch.of(values)
    assert Lower()(batch, LineRng(1, 2)).lines == [value.lower() for value in values]
    assert Upper()(batch, LineRng(1, 2)).lines == [value.upper() for value in values]
    assert Title()(batch, LineRng(1, 2)).lines == [titled(value) for value in values]
    cased = [titled(value) if has_case(value) else value for value in values]
    assert Title(if_cased=1)(batch, LineRng(1, 2)).lines == cased


@given(VALUES)
def test_no_rule_of_case_reaches_over_a_line_feed(values: list[str]) -> None:
    """A text of many lines changes case as its lines do: what lets values be changed as one text."""
    for function in (str.lower, str.upper, titled):
        assert (
            function("\n".join(values)).split("\n") == [function(value) for value in values]
            or not values
        )


def test_an_ascii_letter_always_has_case() -> None:
    """No character becomes a capital of ASCII when it is made small: beside an ASCII letter nothing else matters."""
    assert not re.search("[A-Z]", "".join(map(chr, range(0x110000))).lower())


@given(
    st.lists(st.one_of(st.none(), st.text(ANY, max_size=12)), max_size=8),
    st.text(ANY, max_size=9),
    st.text(ANY),
)
def test_surrounded_is_concatenation(values: list[str | None], before: str, after: str) -> None:
    """A value gets both texts; one that is missing stays missing; the order in the buffer does not matter."""
    before, after = (text.encode("utf-8", "ignore").decode() for text in (before, after))
    column = Column.of(values[::-1]).take(np.arange(len(values))[::-1])
    done = surrounded(column, before, after)
    assert done.present.tolist() == [value is not None for value in values]
    assert done.strings() == [
        before + value + after if value is not None else "" for value in values
    ]
