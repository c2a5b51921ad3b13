"""`lower`, `upper` and `title`: the same results as Python's str methods, in the chosen fields only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream.transforms.support import FIELD, ROWS, apply

from volt.stream.transforms import case
from volt.stream.transforms.case import Lower, Title, Upper, has_case, title_case
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.transform import LineFault

RNG = LineRng(1, 2)


def test_every_character_changes_as_in_python():
    """Lower, Upper and Title change characters as the str methods do: alone, inside a word and
    before a full stop."""
    case._make_tables.cache_clear()
    characters = list(map(chr, range(0x10FFFF)))
    cased = [each for each in characters if each.lower() != each or each.upper() != each]
    edges = ["\x7f", "\x80", "\u07ff", "\u0800", "\uffff", "\U00010000"]
    lines = []
    for each in (*cased[::7], *"ΣσςßŉǰİıſKÅⅷⓐﬁﬀ𐐀", *edges):
        lines += [each, f"a{each}b", f"{each}.", f"aΣ {each}"]
    for kind, function in ((Lower, str.lower), (Upper, str.upper), (Title, title_case)):
        assert kind(fields=(1,))(Batch.of(lines), RNG).lines == list(map(function, lines))
    lines += ["中", "1", ""]
    changed = Upper(fields=(2,), if_cased=1)(Batch.of([f"{line}\ta" for line in lines]), RNG)
    expected = ["A" if has_case(line) else "a" for line in lines]
    assert changed.column(2).strings() == expected


@given(ROWS)
def test_only_the_chosen_fields_change(rows):
    """Case transforms change fields 1 and 2 or the fields in `fields`; with `if_cased`, only lines
    whose field has a cased letter."""
    upper = [[row[0].upper(), row[1].upper(), *row[2:]] for row in rows]
    assert apply(Lower(fields=(2,)), rows) == [[row[0], row[1].lower(), *row[2:]] for row in rows]
    assert apply(Upper(), rows) == upper
    pairs = zip(rows, upper, strict=True)
    expected = [changed if has_case(row[0]) else row for row, changed in pairs]
    assert apply(Upper(if_cased=1), rows) == expected
    assert not has_case("中文 العربية हिन्दी 123")


def test_unfit_lines_keep_their_numbers_with_if_cased():
    """With `if_cased`, a line without a cased letter may lack a field; an unfit line is reported
    with its index in the whole batch."""
    with pytest.raises(LineFault) as fault:
        apply(Lower(fields=(2,), if_cased=1), [["1"], ["A", "B"], ["A"]])
    assert list(fault.value.reasons) == [2]


@given(FIELD, st.lists(st.from_regex(r"[A-Za-z]{1,8}", fullmatch=True), max_size=6))
def test_title_changes_only_case(text, words):
    """title_case equals str.title on words of ASCII letters, and changes only case on any text."""
    assert title_case(" ".join(words)) == " ".join(words).title()
    assert title_case(text).lower().casefold() == text.lower().casefold()


def test_title_keeps_letters_inside_words_small():
    """title_case, unlike str.title, puts no capital after an apostrophe, a digit or a combining
    accent."""
    text = "don't l’ami 3rd e\u0301cole ta\u0303o (so) “he” jean-paul"
    assert title_case(text) == "Don't L’ami 3rd E\u0301cole Ta\u0303o (So) “He” Jean-Paul"


def test_ids_have_no_case():
    """Upper does not change a field of ids, except that the ids become text."""
    ids = Column.of_ids(np.array([5, 6, 7], np.int32), np.array([0, 2, 3]))
    batch = Batch((ids,), None, np.arange(2))
    for upper in (Upper(), Upper(if_cased=1)):
        assert upper(batch, RNG).lines == ["5 6", "7"]
