"""Laws of the tables from which compiled code splits units."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from volt.encode.unit_encoder import (
    CharacterClasses,
    add_user_tokens,
    known_classes,
    look_up_classes,
)
from volt.kernels import pretokenize
from volt.kernels.encode_new_unit import numbering


def test_known_classes_equal_those_of_the_pattern_engine():
    """`known_classes` equals the engine's classes wherever it is not NO_CLASS."""
    classes = CharacterClasses().table
    known = np.flatnonzero(classes)
    assert len(known) > 1_200
    assert look_up_classes(known.tolist()).tolist() == classes[known].tolist()


def test_each_owner_has_its_own_classes():
    """`classify` changes only its own table, and returns False for characters that it already
    knows.
    """
    owner, other, text = CharacterClasses(), CharacterClasses(), "a\U0001d538"
    assert [owner.classify(text), owner.classify(text)] == [True, False]
    assert owner.table[ord(text[1])] > 0
    assert other.table[ord(text[1])] == 0


def test_ideographs_and_syllables_are_known_to_their_ends():
    """`known_classes` contains the ranges of ideographs and syllables, but not the characters next
    to them.
    """
    known = known_classes.__wrapped__()
    assert (known.dtype, CharacterClasses().table.dtype) == (np.uint8, np.uint8)
    for start, end in ((0x3400, 0x4DB5), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3)):
        assert (known[start : end + 1] == pretokenize.LETTER).all()
        assert (known[start - 1] != pretokenize.LETTER, known[end + 1]) == (True, 0)
    expected = [
        pretokenize.LETTER,
        pretokenize.NUMBER_CLASS,
        pretokenize.MARK,
        pretokenize.OTHER,
        pretokenize.WHITE,
        pretokenize.WHITE,
        pretokenize.NO_CLASS,
    ]
    assert known[list(map(ord, "a1\u0301! \u3000\u0378"))].tolist() == expected


@given(
    users=st.lists(st.text("<ab>é", min_size=1, max_size=4), min_size=1, unique=True),
    unit=st.text("<ab>éx", max_size=12),
)
def test_units_are_left_to_python_if_they_contain_a_user_token(users, unit):
    """A unit that only begins like a user token is cut in compiled code."""
    cutter = numbering().cutter._replace(cut=pretokenize.RUNS)
    cutter = add_user_tokens(users, cutter)
    data = np.frombuffer(unit.encode(), np.uint8)
    _, n_words = pretokenize.cut_unit(data, 0, len(data), False, cutter)
    assert (n_words == pretokenize.LEFT_TO_PYTHON) == any(user in unit for user in users)
