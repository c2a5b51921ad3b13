"""Laws of units: the words of cached units equal the words of whole lines, for any pattern."""

import json
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.patterns import any_texts, oracle, patterns, split_by

from volt.encode.chunks import NO_BYTE_OF_TEXT, Chunk
from volt.encode.encoder import Encoder
from volt.encode.units import UnitRule
from volt.errors import ConfigError
from volt.text.atoms import SPACE, SUFFIX
from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.normalizer import Normalizer
from volt.text.patterns.published import BYTES, NAMED
from volt.text.patterns.splitter import Split
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

# Hard cases: line ends after signs, white space that is not a break, and units that differ only by it.
HARD = (
    *";/.'\u0301\x00\x1c\x1f\x7f\t\x0b\n\r\x85\xa0\u1680\u2003\u2028\u3000\u180e\u200b▁é\U0010ffff\U0010fffe\ue000",
    *("\r\n", ";\n", "/\n", "\u0301\n", " \n", "\n ", "'s", "'LL", "12345", "foo", "Foo", "漢字"),
    *("  ", " " * 20, "b" * 15, "b" * 16),
)
hard_texts = st.lists(st.sampled_from(HARD) | st.sampled_from("a 0!"), max_size=14).map("".join)
# Patterns in which a space always begins a word, so that it may separate units, are rare.
spaced = st.tuples(
    patterns, st.sampled_from(["", r"|\s", r"|\s+(?!\S)|\s+", r"|\s*[\r\n]+|\s+", "|[ \t]+"])
).map("".join)
hard_lines = st.lists(hard_texts | any_texts, max_size=8)


@cache
def encoder(name, user=()):
    """Return an encoder without merges, whose pieces show the ends of words."""
    cut = PreTokenizer(name)
    atoms = ALPHABET if cut.is_bytes else "a"
    return Encoder(
        Vocabulary(
            (),
            tuple(atom + mark for atom in atoms for mark in ("", SUFFIX)),
            marker="suffix",
            pretokenizer=cut,
            special=SpecialTokens(user=user),
        )
    )


def declared(pattern, level):
    """Return the name of a pre-tokenizer with published splits, or with a regular expression."""
    splits = NAMED.get(pattern, (Split(pattern),))
    rows = [{"pattern": one.pattern, "from_end": one.from_end} for one in splits]
    return BYTES * (level == "bytes") + "splits:" + json.dumps(rows)


def by_units(one, lines):
    """Return the words of lines that cached units have."""
    data = b"".join(line.encode() + b"\xff" for line in lines)
    parts = list(one.text_parts([Chunk(data, NO_BYTE_OF_TEXT)], n_threads=1) if lines else [])
    found = b"".join(part.values.tobytes() for part in parts)
    bounds = [0, *(end for part in parts for end in part.ends.tolist())]
    return [words_of(found[start : end - 1].decode().split(" ")) for start, end in pairwise(bounds)]


def words_of(pieces):
    """Join pieces, each of which is an atom, to words."""
    return "".join(pieces).split(SUFFIX)[:-1]


def spelled(words, cut):
    """Return words as a vocabulary spells them."""
    return [
        to_characters(word.encode()) if cut.is_bytes else word.replace(" ", SPACE) for word in words
    ]


def read(line, cut):
    """Return a line as the pattern reads it."""
    return line if cut.is_bytes else line.replace(SPACE, " ")


@pytest.mark.parametrize("level", ["characters", "bytes"])
@pytest.mark.parametrize("pattern", NAMED)
@given(hard_lines)
@example(
    ["a;\n\n b", "a;\n /", "foo'\n b", "0;\r\n\r\n\t0", "/\n/\n a/", "\u0301\n b", "a\u0301\n \nb"]
)
@example(
    [
        "a\xa0 b",
        "a\xa0",
        "\xa0 ",
        "a\xa0\n b",
        "\xa0\xa0a",
        "\xa0",
        "a  b",
        "a ",
        "  ",
        "a\x85 \xa0 b",
    ]
)
@settings(max_examples=6)
def test_words_equal_the_regex_module(pattern, level, lines):
    """For every published pattern, cached units have the words that the module `regex` finds in
    whole lines.
    """
    one = encoder(declared(pattern, level))
    cut = one.vocabulary.pretokenizer
    expected = [spelled(split_by(pattern, oracle, read(line, cut)), cut) for line in lines]
    assert by_units(one, lines) == expected


@given(
    pattern=spaced,
    level=st.sampled_from(["characters", "bytes"]),
    lines=hard_lines,
    more=hard_lines,
)
@example(pattern="a(?! )|.+", level="bytes", lines=["a b", "a", "a\tb"], more=[])
@example(pattern=r"[^ ]+| +", level="bytes", lines=["a\tb \x85 c"], more=[])
@example(pattern=r"[a-z]+$|[^ ]| ", level="characters", lines=["ab cd", "ab"], more=["ab"])
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.filter_too_much])
def test_units_have_the_words_of_whole_lines(pattern, level, lines, more):
    """For any pattern, cached units have the words of whole lines.

    Lines are encoded twice, because only the first time units are new.
    """
    try:
        cut = PreTokenizer(declared(pattern, level))
    except ConfigError:
        assume(False)
    one = encoder.__wrapped__(cut.name)
    for text in (lines, more + lines):
        assert by_units(one, text) == [cut.split(line) for line in text]


@given(pattern=patterns, lines=hard_lines)
@example(pattern=r" ?[a-z]+", lines=["foo b!", "foo  b"])
@example(pattern=r"[^\s]+(?= )|\w", lines=["foo b", "foo"])
@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much])
def test_units_have_the_matches_of_a_regex(pattern, lines):
    """With "regex:…", cached units have the matches in whole lines as words; other text is dropped."""
    try:
        cut = PreTokenizer(f"regex:{pattern}")
    except ConfigError:
        assume(False)
    assert by_units(encoder.__wrapped__(cut.name), lines) == [cut.split(line) for line in lines]


@pytest.mark.parametrize("level", ["characters", "bytes"])
@pytest.mark.parametrize("pattern", ["cl100k", "o200k", "deepseek3", r"[^ ]+| "])
@given(spans=st.lists(hard_texts | st.sampled_from(["<url>", "<n>", "<u"]), max_size=8))
@example(spans=["a;", "<url>", "\n \n0", "<n>", "'s"])
@example(spans=["  ", "<n>", " a  ", "<url>", "12345"])
@settings(max_examples=6)
def test_text_between_user_tokens_is_split_alone(pattern, level, spans):
    """A line is split at its user tokens first; the text between two of them is split like a line."""
    one = encoder(declared(pattern, level), ("<url>", "<n>"))
    cut, text = one.vocabulary.pretokenizer, "".join(spans)
    expected = []
    for part in re.split("(<url>|<n>)", text):
        expected += [part] if part in ("<url>", "<n>") else cut.split(part)
    assert by_units(one, [text]) == [expected]
    assert words_of(one.encode(text)) == expected


def test_published_patterns_have_units():
    """`UnitRule.of` finds units for every published pattern except those of digits and of stretches; with a
    normaliser, words are units.
    """
    for name in NAMED:
        vocabulary = encoder(declared(name, "bytes")).vocabulary
        assert UnitRule.of(vocabulary).units_are_words == name.startswith(("digits", "superbpe"))
        assert UnitRule.of(replace(vocabulary, normalizer=Normalizer("nfc"))).units_are_words
    assert UnitRule.of(encoder(r"regex:[^ ]+").vocabulary).breaks == 1 << ord(" ")
