"""The loops that measure and change text do to each value what Python's str does."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kernels.support import drawn, views

from volt.kernels import string_functions
from volt.stream.transforms.case import Lower, Title, Upper, has_case, title_case
from volt.stream.transforms.column import Column
from volt.stream.transforms.column_measurements import (
    count_bytes,
    find_blank_values,
    measure_lengths,
)
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.tags import surround
from volt.text.white_space import SPLIT_SPACE

ANY = st.characters(exclude_characters="\t\n")
CASES = st.sampled_from(
    "aZßẞſŉİıΣςσΆάÿŸǰǅԱև一か\u0301\u0345’'- .(?“𐐀𝐀ⱥȺKÅﬀſt\x00\x1f\x85\u2028\u3000\ud800"
)
VALUES = st.lists(st.one_of(st.text(ANY, max_size=24), st.text(CASES, max_size=12)), max_size=8)


def is_telling(character):
    """Check whether a character has case, or may precede a word; one in 97 of the others counts, too."""
    may_open = ord(character) < 0x3001 and not character.isalpha()
    return character not in "\t\n" and (has_case(character) or may_open or ord(character) % 97 == 0)


def check_case(values):
    batch, rng = Batch.of(values), LineRng(1, 2)
    assert Lower()(batch, rng).lines == [value.lower() for value in values]
    assert Upper()(batch, rng).lines == [value.upper() for value in values]
    assert Title()(batch, rng).lines == [title_case(value) for value in values]
    for transform, function in ((Upper(if_cased=1), str.upper), (Title(if_cased=1), title_case)):
        expected = [function(value) if has_case(value) else value for value in values]
        assert transform(batch, rng).lines == expected


def test_every_character_changes_case_as_in_str():
    """Each character with case, alone, inside a word and after an opening one, gets the case that
    `str` gives it."""
    telling = filter(is_telling, map(chr, range(0x110000)))
    check_case([value for x in telling for value in (x, f"aB{x}Cd {x}", f"({x}{x}")])


@given(VALUES)
def test_the_case_of_a_value_does_not_depend_on_other_values(values):
    """`change_case` changes a value as if it were alone, whatever is before or after it in the
    buffer."""
    check_case(values)


@given(VALUES)
def test_no_rule_of_case_reaches_over_a_line_feed(values):
    """A text of many lines changes case as its lines do, so values can be changed as one text."""
    for function in (str.lower, str.upper, title_case):
        assert (
            function("\n".join(values)).split("\n") == [function(value) for value in values]
            or not values
        )


def test_an_ascii_letter_always_has_case():
    """Lower-casing never yields an ASCII capital, so an ASCII letter alone decides whether a value has case."""
    assert not re.search("[A-Z]", "".join(map(chr, range(0x110000))).lower())


@given(
    st.lists(st.one_of(st.none(), st.text(ANY, max_size=12)), max_size=8),
    st.text(ANY, max_size=9),
    st.text(ANY),
)
def test_surrounded_values_are_concatenations(values, before, after):
    """`surrounded` adds both texts to each value, and leaves missing values missing, in any order
    of the buffer."""
    before, after = (text.encode("utf-8", "ignore").decode() for text in (before, after))
    column = Column.of(values[::-1]).take(np.arange(len(values))[::-1])
    done = surround(column, before=before, after=after)
    assert done.present.tolist() == [value is not None for value in values]
    assert done.strings() == [
        before + value + after if value is not None else "" for value in values
    ]


def test_measures_of_texts_equal_pythons():
    """`count_words`, `find_blank`, `count_within` and `find_any` find the words, white space and
    bytes that Python finds."""
    near = "\x08\x0e\x1b!\x7f\x84\x86\xa1\u167f\u1681\u1fff\u200b\u2027\u202a\u2030\u205e\u2060\u2fff\u3001"
    letters = SPLIT_SPACE.replace("\n", "") + near + "aabb  é中😀\0" * 4
    wanted = np.isin(np.arange(256), [98, 0xE4])
    for rng, values in drawn(7, letters, 60):
        if rng.random() < 0.3:
            values.append(b" " * rng.randint(60, 140))
            values.append("\u2003".encode() * 30 + b"a" * rng.randint(0, 1))
        data, *row = views(values, rng, rng.choice([16, 40]))
        numbers, flags = np.zeros(len(values), np.int64), np.zeros(len(values), bool)
        plain = [(value or b"").decode() for value in values]
        string_functions.count_words(data, *row, numbers)
        assert numbers.tolist() == [len(text.split()) for text in plain]
        string_functions.find_blank(data, *row, flags)
        assert flags.tolist() == [not text.strip() for text in plain]
        for first, span in ((97, 0), (97, 1), (0xE2, 1)):
            string_functions.count_within(data, *row, first, span, numbers)
            in_range = range(first, first + span + 1)
            assert numbers.tolist() == [sum(byte in in_range for byte in v or b"") for v in values]
        string_functions.find_any(data, *row, wanted, flags)
        assert flags.tolist() == [any(wanted[byte] for byte in value or b"") for value in values]

        column = Column(data, *row)
        assert measure_lengths(column, "words").tolist() == [len(text.split()) for text in plain]
        assert measure_lengths(column, "characters").tolist() == list(map(len, plain))
        assert measure_lengths(column, "bytes").tolist() == [len(value or b"") for value in values]
        assert find_blank_values(column).tolist() == [not text.strip() for text in plain]
        assert count_bytes(column, 97, n_adjacent=2).tolist() == [
            sum(map(text.count, "ab")) for text in plain
        ]


def test_each_id_of_a_column_counts_as_a_word():
    """In a column of ids, each id is a word of as many characters as its digits; a value without
    ids is blank."""
    ids = Column.of_ids(np.array([7, 10, 12345], np.int32), np.array([0, 2, 2, 3]))
    column = ids.take([2, 1, 0])
    assert measure_lengths(column, "words").tolist() == [1, 0, 2]
    assert measure_lengths(column, "characters").tolist() == [5, 0, 4]
    assert find_blank_values(column).tolist() == [False, True, False]
