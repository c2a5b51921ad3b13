"""Units of text: numbered, looked up, and learned in compiled code as the patterns have it."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import split_lines
from volt.encode.rendering import as_ids
from volt.encode.unit_cache import UnitCache
from volt.encode.unit_encoder import learner_of, numbering_learner
from volt.encode.units import UnitRule, unit_words
from volt.text.character_classes import character_classes, classes_of, classify
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN
from volt.vocabulary import Vocabulary

NEWLINE = ord("\n")
LOSSLESS = ("metaspace", "unicode", "gpt2", "bytes")
# What the patterns look at: contractions, spaces before and behind, classes of characters, marks, astral letters.
BITS = (
    *" \t\r\x0b\x01'",
    "'s",
    "'ll",
    "'re",
    "'v",
    "lo",
    "42",
    "²",
    "Ⅷ",
    "!?",
    "é",
    "e\u0301",
    "中",
    "𝔸",
    "😀",
    "️",
    "ß",
)
characters = st.characters(
    exclude_categories=["Cs", "Zs", "Zl", "Zp", "Co"], max_codepoint=FIRST_HIDDEN - 1, exclude_characters="\n\x85▁"
)
texts = st.lists(st.sampled_from(BITS) | characters, max_size=30).map("".join)


def _numbering(breaks: bytes = b" ") -> UnitCache:
    return UnitCache(UnitRule(sum(1 << byte for byte in breaks)), numbering_learner(), np.int32)


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.binary(max_size=40), max_size=200))
def test_units_have_their_own_numbers(words: list[bytes]) -> None:
    """Units are numbered as a dictionary would, whatever their bytes and length, while the table grows."""
    table, texts = _numbering(), [b" ".join(words), b" ".join(words[::-1])]
    numbers: dict[bytes, int] = {}
    for text in texts:
        text = text.replace(b"\xff", b".")
        lines = table.encode(table.read(text, separator=0xFF))
        expected = [numbers.setdefault(word, len(numbers)) for word in text.split(b" ") if word]
        assert lines.values.tolist() == expected
    data, ends = table.units(np.arange(table.n_units))
    assert [data[start:end] for start, end in pairwise([0, *ends.tolist()])] == list(numbers)


def test_many_units_share_one_table() -> None:
    """A table that has grown many times still finds every unit, long and short."""
    words = [f"{i:x}".encode() * (1 + i % 5) for i in range(60_000)]
    table = _numbering()
    first = table.encode(table.read(b" ".join(words), separator=NEWLINE)).values
    again = table.encode(table.read(b" ".join(words), separator=NEWLINE)).values
    assert (first == again).all()
    assert table.n_units == len(set(words))


@settings(max_examples=200, deadline=None)
@given(
    lines=st.lists(st.lists(st.sampled_from([b"a", b"bc", b" ", b"\t", b"\r", b"\x01", b"x" * 70])).map(b"".join)),
    keeps=st.booleans(), strips=st.booleans(), breaks=st.sampled_from([b" ", b" \t", b" \t\r"]), last=st.booleans(),
)  # fmt: skip
def test_lines_are_cut_as_by_hand(lines: list[bytes], keeps: bool, strips: bool, breaks: bytes, last: bool) -> None:
    """Units are the runs between breaks, with the breaks before them if these are kept, in every line."""
    table = UnitCache(UnitRule(sum(1 << byte for byte in breaks), keeps_breaks=keeps), numbering_learner(), np.int32)
    text = b"".join(line + b"\n" for line in lines) + b"a b" * last
    found = table.encode(table.read(text, separator=NEWLINE), strips_return=strips)
    data, ends = table.units(found.values)
    units = [data[start:end] for start, end in pairwise([0, *ends.tolist()])]
    expected = [_units(line, keeps, strips, breaks) for line in [*lines, *[b"a b"] * last]]
    assert units == list(chain.from_iterable(expected))
    assert found.ends.tolist() == np.cumsum([len(one) for one in expected]).tolist()


def _units(line: bytes, keeps: bool, strips: bool, breaks: bytes) -> list[bytes]:
    """A line's units, byte by byte."""
    units, unit = list[bytes](), b""
    for byte in line.removesuffix(b"\r") if strips else line:
        if byte in breaks and unit.strip(breaks):
            units, unit = [*units, unit], b""
        unit += bytes([byte])
    cut = [*units, *[unit] * bool(unit)]
    return cut if keeps else [one.strip(breaks) for one in cut if one.strip(breaks)]


@pytest.mark.parametrize("name", LOSSLESS)
@settings(max_examples=400, deadline=None)
@given(text=texts)
def test_compiled_cut_is_that_of_the_pattern(name: str, text: str) -> None:
    """Atoms and words of every line whose characters have been met: found without Python, as the pattern has them."""
    vocabulary = Vocabulary((), (), pretokenizer=PreTokenizer(name), marker="none")
    tables = MergeTables.of(vocabulary)
    classify(text)
    table = UnitCache(UnitRule.of(vocabulary.pretokenizer), learner_of(tables, None), np.int32)
    found = table.encode(table.read((text + "\n").encode(), separator=NEWLINE))
    assert not len(table.pending)
    words = split_lines(vocabulary, [text])[0]
    atoms, ends = tables.atoms("".join(words), np.array([len(word) for word in words], np.int64))
    atoms = 2 * atoms
    atoms[ends - 1] += 1
    assert found.values.tolist() == atoms.tolist()


def test_classes_known_from_the_start_are_those_of_the_pattern() -> None:
    """What is known without asking the engine is what the engine says."""
    character_classes.cache_clear()
    known = np.flatnonzero(character_classes())
    assert len(known) > 1_200
    assert classes_of(known.tolist()).tolist() == character_classes()[known].tolist()


@pytest.mark.parametrize("marker", ["suffix", "prefix", "none"])
@settings(max_examples=100, deadline=None)
@given(text=texts)
def test_compiled_words_carry_the_marker(marker: str, text: str) -> None:
    """White space parts words, and the atoms are those of the plain path."""
    vocabulary = Vocabulary((), (), marker=marker)
    tables = MergeTables.of(vocabulary)
    table = UnitCache(UnitRule.of(vocabulary.pretokenizer), learner_of(tables, None), np.int32)
    found = table.encode(table.read((text + "\n").encode(), separator=NEWLINE))
    words = text.split()
    atoms, ends = tables.atoms("".join(words), np.array([len(word) for word in words], np.int64))
    atoms = 2 * atoms
    atoms[ends - 1] += 1
    assert found.values.tolist() == atoms.tolist()


@settings(max_examples=200, deadline=None)
@given(units=st.lists(st.binary(min_size=1, max_size=12).filter(lambda unit: not set(unit) & set(b" \n")), min_size=1))
def test_bytes_that_are_no_text_are_left_to_python(units: list[bytes]) -> None:
    """A unit is pending if, and only if, Python cannot decode it (or it holds what Python must decide)."""
    vocabulary = Vocabulary((), tuple("a"), marker="none", pretokenizer=PreTokenizer("metaspace"))
    tables = MergeTables.of(vocabulary)
    table = UnitCache(UnitRule.of(vocabulary.pretokenizer), learner_of(tables, None), np.int32)
    table.encode(table.read(b" " + b" ".join(units) + b"\n", separator=NEWLINE))
    data, ends = table.units(table.pending)
    pending = {data[start:end].strip(b" ") for start, end in pairwise([0, *ends.tolist()])}
    assert pending == {unit for unit in units if _is_left(unit)}


def _is_left(unit: bytes) -> bool:
    try:
        return any(char == "▁" or ord(char) >= FIRST_HIDDEN for char in unit.decode())
    except UnicodeDecodeError:
        return True


def test_irregular_units_are_told() -> None:
    """What Python says is irregular makes its line strange: written as empty, with its number and place."""
    vocabulary = Vocabulary((), tuple("ab▁"), marker="none", pretokenizer=PreTokenizer("gpt2"))
    tables = MergeTables.of(vocabulary)
    rule = UnitRule.of(vocabulary.pretokenizer)
    table, text = UnitCache(rule, learner_of(tables, as_ids(tables)), np.int32), "a b\na\xa0 b\nb\n".encode()
    table.encode(table.read(text, separator=NEWLINE))
    data, ends = table.units(table.pending)
    words = unit_words(vocabulary, data, ends, first=table.firsts(table.pending))
    assert words.irregular.tolist() == [True]
    table.learn(np.array([4], np.int32), np.array([1]), words.irregular)
    lines = table.encode(table.read(text, separator=NEWLINE))
    assert lines.strange.tolist() == [[1, text.index(b"\nb")]]
    assert lines.ends.tolist()[0] == lines.ends.tolist()[1]
