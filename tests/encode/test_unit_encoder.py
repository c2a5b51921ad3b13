"""Laws of the classes of characters that compiled code reads."""

import numpy as np

from volt.encode.unit_encoder import (
    CharacterClasses,
    known_classes,
    look_up_classes,
)
from volt.kernels import pretokenize


def test_known_classes_equal_those_of_the_pattern_engine():
    """The classes that are known without the engine are the engine's."""
    classes = CharacterClasses().table
    known = np.flatnonzero(classes)
    assert len(known) > 1_200
    assert look_up_classes(known.tolist()).tolist() == classes[known].tolist()


def test_each_owner_has_its_own_classes():
    """A look-up changes the classes of one owner; a second look-up finds nothing new."""
    owner, other, text = CharacterClasses(), CharacterClasses(), "a\U0001d538"
    assert [owner.classify(text), owner.classify(text)] == [True, False]
    assert owner.table[ord(text[1])] > 0
    assert other.table[ord(text[1])] == 0


def test_ideographs_and_syllables_are_known_to_their_ends():
    """Ranges of letters are known, and no character next to them."""
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
