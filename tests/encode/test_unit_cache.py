"""Units of text: numbered, looked up, and encoded in compiled code as the patterns have it."""

from __future__ import annotations

from functools import cache
from itertools import chain, pairwise, product

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import CharacterClasses, UnitRule, classes_of, split_lines, unit_words
from volt.encode.rendering import Rendering
from volt.encode.unit_cache import UnitCache, unit_encoder_of
from volt.kernels.encode_new_unit import numbering
from volt.kernels.intrinsics import PADDING
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN
from volt.vocabulary import Vocabulary

NEWLINE = ord("\n")
# Units of 16 bytes with equal keys, found by a search among 200,000 beginnings: 2^34 pairs, one in 2^32 of which can be
# continued to equal keys.
ALIKE = (
    (b"rugsycvea\xc9ez\xd3UK\xc3", b"funnvjup\xc6d\xc8\xc1h+%}"),
    (b"yyjlbrgyi\xe70\xe2&\xf1hB", b"uxfwnosq\xb2IiQ\xc1E3)"),
)
LOSSLESS = ("metaspace", "metaspace-runs", "metaspace-line", "unicode", "gpt2", "bytes")
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
    *"中𝔸😀\ufe0fß",
)
characters = st.characters(
    exclude_categories=["Cs", "Zs", "Zl", "Zp", "Co"],
    max_codepoint=FIRST_HIDDEN - 1,
    exclude_characters="\n\x85▁",
)
texts = st.lists(st.sampled_from(BITS) | characters, max_size=30).map("".join)


def _numbering(breaks: bytes = b" ") -> UnitCache:
    return UnitCache(UnitRule(sum(1 << byte for byte in breaks)), numbering(), np.int32, limit=9)


@settings(max_examples=examples(100), deadline=None)
@given(words=st.lists(st.binary(max_size=40), max_size=200))
def test_units_have_their_own_numbers(words: list[bytes]) -> None:
    """Units are numbered as a dictionary would, whatever their bytes and length, while the table grows."""
    table, texts = _numbering(), [b" ".join(words), b" ".join(words[::-1])]
    numbers: dict[bytes, int] = {}
    for text in texts:
        text = text.replace(b"\xff", b".")
        lines = table.encode(table.memory.read(text, separator=0xFF))
        expected = [numbers.setdefault(word, len(numbers)) for word in text.split(b" ") if word]
        assert lines.values.tolist() == expected
    data, ends, _ = table.units(np.arange(table.n_units))
    assert [data[start:end] for start, end in pairwise([0, *ends.tolist()])] == list(numbers)


def test_many_units_share_one_table() -> None:
    """A table that has grown many times still finds every unit, long and short."""
    words = [f"{i:x}".encode() * (1 + i % 5) for i in range(60_000)]
    table = _numbering()
    first = table.encode(table.memory.read(b" ".join(words), separator=NEWLINE)).values
    again = table.encode(table.memory.read(b" ".join(words), separator=NEWLINE)).values
    assert (first == again).all()
    assert table.n_units == len(set(words))


@pytest.mark.parametrize("alike", ALIKE)
def test_units_that_share_a_key_are_distinguished(alike: tuple[bytes, bytes]) -> None:
    """Two long units whose hashes are equal have numbers of their own, because their bytes are compared too."""
    table = _numbering()
    found = table.encode(table.memory.read(b" ".join(alike + alike), separator=NEWLINE)).values
    assert found.tolist() == [0, 1, 0, 1]
    rows = table._table.rows.reshape(-1, 4)
    keys = rows[rows[:, 2] > 0, :2]
    assert keys[0].tolist() == keys[1].tolist(), (
        "the hash has changed: look for units that share a key now"
    )


def test_a_table_that_holds_just_its_limit_is_kept() -> None:
    """`trim` forgets all units once there are more than the limit, and none before."""
    table = UnitCache(UnitRule(1 << ord(" ")), numbering(), np.int32, limit=3)
    for text, n_units in ((b"a b c", 3), (b"d", 4), (b"a", 1)):
        table.trim()
        table.encode(table.memory.read(text, separator=NEWLINE))
        assert table.n_units == n_units


@given(sizes=st.lists(st.integers(0, 300), max_size=5), ends=st.booleans())
def test_a_text_may_be_read_beyond_its_end(sizes: list[int], ends: bool) -> None:
    """However long the texts before it were: a text ends with the separator, and the bytes that loops may read behind
    it are there."""
    table = _numbering()
    for size in sizes:
        text = b"x" * size + b"\n" * ends
        found = table.memory.read(text, separator=NEWLINE)
        assert found.data[: found.size].tobytes() == (text if ends or not size else text + b"\n")
        assert len(found.data) >= found.size + PADDING


@settings(max_examples=examples(200), deadline=None)
@given(
    lines=st.lists(
        st.lists(st.sampled_from([b"a", b"bc", b" ", b"\t", b"\r", b"\x01", b"x" * 70])).map(
            b"".join
        )
    ),
    keeps=st.booleans(),
    strips=st.booleans(),
    breaks=st.sampled_from([b" ", b" \t", b" \t\r"]),
    last=st.booleans(),
)
def test_lines_are_cut_as_by_hand(
    lines: list[bytes], keeps: bool, strips: bool, breaks: bytes, last: bool
) -> None:
    """Units are the runs between breaks, with the breaks before them if these are kept, in every line."""
    table = UnitCache(
        UnitRule(sum(1 << byte for byte in breaks), keeps_breaks=keeps),
        numbering(),
        np.int32,
        limit=9,
    )
    text = b"".join(line + b"\n" for line in lines) + b"a b" * last
    found = table.encode(table.memory.read(text, separator=NEWLINE), strips_return=strips)
    data, ends, _ = table.units(found.values)
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


@cache
def _bare(name: str) -> tuple[Vocabulary, MergeTables]:
    """A vocabulary without tokens, which cuts by this pre-tokeniser."""
    vocabulary = Vocabulary((), (), pretokenizer=PreTokenizer(name), marker="none")
    return vocabulary, MergeTables.of(vocabulary)


@pytest.mark.parametrize("name", LOSSLESS)
@settings(max_examples=examples(400), deadline=None)
@given(text=texts)
def test_compiled_cut_is_that_of_the_pattern(name: str, text: str) -> None:
    """Atoms and words of every line whose characters have been met: found without Python, as the pattern has them."""
    vocabulary, tables = _bare(name)
    classes = CharacterClasses()
    classes.classify(text)
    table = UnitCache(
        UnitRule.of(vocabulary), unit_encoder_of(tables, None, classes), np.int32, limit=9
    )
    found = table.encode(table.memory.read((text + "\n").encode(), separator=NEWLINE))
    assert not len(table.pending)
    words = split_lines(vocabulary, [text])[0]
    assert found.values.tolist() == _atoms(tables, words)


def test_classes_known_from_the_start_are_those_of_the_pattern() -> None:
    """What is known without asking the engine is what the engine says."""
    classes = CharacterClasses().table
    known = np.flatnonzero(classes)
    assert len(known) > 1_200
    assert classes_of(known.tolist()).tolist() == classes[known].tolist()


def test_what_one_owner_finds_out_no_other_knows() -> None:
    """Classes belong to their owner: asking changes its own alone, and a second question finds nothing new."""
    one, other, text = CharacterClasses(), CharacterClasses(), "a\U0001d538"
    assert [
        one.classify(text),
        one.classify(text),
        other.table[ord(text[1])],
        one.table[ord(text[1])] > 0,
    ] == [
        True,
        False,
        0,
        True,
    ]


@pytest.mark.parametrize("marker", ["suffix", "prefix", "none"])
@settings(max_examples=examples(100), deadline=None)
@given(text=texts)
def test_compiled_words_carry_the_marker(marker: str, text: str) -> None:
    """White space parts words, and the atoms are those of the plain path."""
    vocabulary = Vocabulary((), (), marker=marker)
    tables = MergeTables.of(vocabulary)
    table = UnitCache(
        UnitRule.of(vocabulary),
        unit_encoder_of(tables, None, CharacterClasses()),
        np.int32,
        limit=9,
    )
    found = table.encode(table.memory.read((text + "\n").encode(), separator=NEWLINE))
    words = text.split()
    assert found.values.tolist() == _atoms(tables, words)


def test_white_space_beyond_ascii_parts_words() -> None:
    """Where words are parted by white space: at every character that str.split() cuts at, and at none beside them."""
    spaces = [code for code in range(0x80, 0x10000) if chr(code).isspace()]
    characters = "".join(map(chr, sorted({code + step for code in spaces for step in (-1, 0, 1)})))
    vocabulary = Vocabulary((), (), marker="none")
    tables, text = (
        MergeTables.of(vocabulary),
        " ".join(f"a{character}b" for character in characters),
    )
    table = UnitCache(
        UnitRule.of(vocabulary),
        unit_encoder_of(tables, None, CharacterClasses()),
        np.int32,
        limit=9,
    )
    found = table.encode(table.memory.read((text + "\n").encode(), separator=NEWLINE))
    assert not len(table.pending)
    assert found.values.tolist() == _atoms(tables, text.split())


def _atoms(tables: MergeTables, words: list[str]) -> list[int]:
    """Twice the number of each atom, and one more where it ends its word."""
    atoms, ends = tables.atoms("".join(words), np.array([len(word) for word in words], np.int64))
    atoms = 2 * atoms
    atoms[ends - 1] += 1
    return atoms.tolist()


def test_ill_formed_bytes_are_left_to_python() -> None:
    """A unit is pending if Python cannot decode it, or must decide it; for every kind of ill-formed sequence: overlong,
    surrogate, too large, cut short, out of place; what stands next to it and is well formed is not left."""
    firsts = bytes.fromhex("61 80 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 fe")
    others = bytes.fromhex("61 7f 80 8f 90 9f a0 bf c0")
    rests = [
        bytes(rest)
        for n in range(4)
        for rest in product(others, *[b"\x61\x80\xbf\xc0"] * (n - 1))
        if n
    ]
    units = [bytes([first]) + rest for first in firsts for rest in (b"", *rests)]
    pending = _pending(units)
    assert pending == {unit for unit in units if _is_left(unit)}
    assert {b"\xc0\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"} < pending
    assert not {b"\xc2\x80", b"\xe0\xa0\x80", b"\xed\x9f\xbf", b"\xf0\x90\x80\x80"} & pending


def _pending(units: list[bytes]) -> set[bytes]:
    """Those of the units that the loop leaves to Python."""
    vocabulary = Vocabulary((), tuple("a"), marker="none", pretokenizer=PreTokenizer("metaspace"))
    tables = MergeTables.of(vocabulary)
    table = UnitCache(
        UnitRule.of(vocabulary),
        unit_encoder_of(tables, None, CharacterClasses()),
        np.int32,
        limit=9,
    )
    table.encode(table.memory.read(b" " + b" ".join(units) + b"\n", separator=NEWLINE))
    data, ends, _ = table.units(table.pending)
    return {data[start:end].strip(b" ") for start, end in pairwise([0, *ends.tolist()])}


def _is_left(unit: bytes) -> bool:
    try:
        return any(char == "▁" or ord(char) >= FIRST_HIDDEN for char in unit.decode())
    except UnicodeDecodeError:
        return True


def test_irregular_units_are_reported() -> None:
    """What Python says is irregular has its line left to Python: written as empty, with its number and place."""
    vocabulary = Vocabulary((), tuple("ab▁"), marker="none", pretokenizer=PreTokenizer("gpt2"))
    tables = MergeTables.of(vocabulary)
    rule = UnitRule.of(vocabulary)
    table, text = (
        UnitCache(
            rule,
            unit_encoder_of(tables, Rendering("ids", tables), CharacterClasses()),
            np.int32,
            limit=9,
        ),
        "a b\na\xa0 b\nb\n".encode(),
    )
    table.encode(table.memory.read(text, separator=NEWLINE))
    words = unit_words(vocabulary, *table.units(table.pending))
    assert words.irregular.tolist() == [True]
    table.fill_pending(np.array([4], np.int32), np.array([1]), words.irregular)
    lines = table.encode(table.memory.read(text, separator=NEWLINE))
    assert lines.left.tolist() == [[1, text.index(b"\nb")]]
    assert lines.ends.tolist()[0] == lines.ends.tolist()[1]
