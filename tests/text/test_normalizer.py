"""Laws of normalisation: Unicode's normal forms, then lower case."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from support.drawn import examples
from support.texts import NAMES, texts

from volt.text.normalizer import Normalizer


@given(texts)
def test_normal_forms_are_unicode(text):
    """`normalize` equals Python's unicodedata, for characters of Python's version of Unicode."""
    if all(unicodedata.category(c) != "Cn" for c in text):
        assert Normalizer("nfc").normalize(text) == unicodedata.normalize("NFC", text)
        assert Normalizer("nfkc").normalize(text) == unicodedata.normalize("NFKC", text)
        assert Normalizer("none", lowercase=True).normalize(text) == text.lower()


@pytest.mark.parametrize("name", NAMES)
@given(text=texts)
@example(text="J\u030c")
@settings(max_examples=examples(50))
def test_normalizing_is_idempotent(name, text):
    """Normalising a normalised text changes nothing."""
    once = Normalizer.parse(name).normalize(text)
    assert Normalizer.parse(name).normalize(once) == once


@pytest.mark.parametrize("name", NAMES)
def test_normalizer_names_round_trip(name):
    """The name of a parsed normaliser is the parsed name."""
    assert Normalizer.parse(name).name == name
