"""Laws of units in compiled code: where they begin and end, their numbers, their words, and what is left to Python."""

from itertools import chain, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import split_lines
from volt.encode.unit_cache import UnitCache
from volt.encode.unit_encoder import CharacterClasses, build_unit_encoder
from volt.encode.units import UnitWords
from volt.encode.word_tables import join_words
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
# Contractions, spaces, classes of characters, marks, characters beyond 16 bits.
FRAGMENTS = (
    *" \t\r\x0b\x01'²Ⅷé中𝔸😀\ufe0fß",
    *("'s", "'ll", "'re", "'v", "lo", "42", "!?", "e\u0301"),
)
characters = st.characters(
    exclude_categories=["Cs", "Zs", "Zl", "Zp", "Co"],
    max_codepoint=FIRST_HIDDEN - 1,
    exclude_characters="\n\x85▁",
)
texts = st.lists(st.sampled_from(FRAGMENTS) | characters, max_size=30).map("".join)


def fail(text, lengths):
    """Fail if words are left to Python."""
    raise AssertionError(text)


def numbered(breaks=b" ", *, limit=9, **options):
    """Return a cache in which the value of a unit is its number."""
    vocabulary = Vocabulary((), ("a",))
    cache = UnitCache(vocabulary, numbering(), np.int32, encode_words=fail, limit=limit)
    rule = cache._loop.rule._replace(breaks=sum(1 << byte for byte in breaks), **options)
    cache._change(rule=rule)
    return cache


def cache_of(tables, text="", rendering=None, encode_words=fail):
    """Return a cache of atoms, or of rendered pieces. text: characters whose classes are known"""
    classes = CharacterClasses()
    classes.classify(text)
    encoder = build_unit_encoder(tables, rendering, classes)
    return UnitCache(tables.vocabulary, encoder, np.int32, encode_words=encode_words, limit=9)


def encode(cache, text, *, separator=NEWLINE, **options):
    return cache.encode(cache.memory.read(text, separator=separator), **options)


def units_of(cache, numbers):
    data, ends, _ = cache.units(numbers)
    return [data[start:end] for start, end in pairwise([0, *ends.tolist()])]


@given(words=st.lists(st.binary(max_size=40), max_size=200))
def test_units_have_the_numbers_of_a_dictionary(words):
    """A unit cache numbers distinct units in the order of their first occurrence, while its table
    grows.
    """
    cache = numbered()
    numbers = {}
    for text in (b" ".join(words), b" ".join(words[::-1])):
        text = text.replace(b"\xff", b".")
        expected = [numbers.setdefault(word, len(numbers)) for word in text.split(b" ") if word]
        assert encode(cache, text, separator=0xFF).values.tolist() == expected
    assert units_of(cache, np.arange(cache.n_units)) == list(numbers)


def test_a_table_that_grows_often_finds_every_unit():
    """A unit cache finds all of 60,000 units again, long and short, after its table has grown."""
    words = [f"{i:x}".encode() * (1 + i % 5) for i in range(60_000)]
    cache = numbered()
    first = encode(cache, b" ".join(words)).values.tolist()
    assert encode(cache, b" ".join(words)).values.tolist() == first
    assert cache.n_units == len(set(words))


@pytest.mark.parametrize("alike", ALIKE)
def test_units_with_equal_keys_are_distinguished(alike):
    """A unit cache distinguishes two long units with equal hashes, because it compares their bytes."""
    cache = numbered()
    assert encode(cache, b" ".join(alike + alike)).values.tolist() == [0, 1, 0, 1]
    rows = cache._loop.table.rows.reshape(-1, 4)
    first, second = rows[rows[:, 2] > 0, :2].tolist()
    assert first == second, "the hash has changed: search for units that share a key now"


def test_trim_empties_a_cache_beyond_its_limit():
    """`trim` empties a cache with more units than its limit, and leaves a cache with exactly that
    many.
    """
    cache = numbered(limit=3)
    for text, n_units in ((b"a b c", 3), (b"d", 4), (b"a", 1)):
        cache.trim()
        encode(cache, text)
        assert cache.n_units == n_units


@given(sizes=st.lists(st.integers(0, 300), max_size=5), has_end=st.booleans())
def test_a_text_may_be_read_beyond_its_end(sizes, has_end):
    """`PaddedMemory.read` ends a text with the separator, and `PADDING` readable bytes follow it."""
    memory = numbered().memory
    for size in sizes:
        text = b"x" * size + (b"\n" if has_end else b"")
        padded = memory.read(text, separator=NEWLINE)
        expected = text if text.endswith(b"\n") or not text else text + b"\n"
        assert padded.data[: padded.size].tobytes() == expected
        assert len(padded.data) >= padded.size + PADDING


@settings(max_examples=examples(200))
@given(
    lines=st.lists(
        st.lists(st.sampled_from([b"a", b"bc", b" ", b"\t", b"\r", b"\x01", b"x" * 70])).map(
            b"".join
        )
    ),
    keeps=st.booleans(),
    strips=st.booleans(),
    breaks=st.sampled_from([b" ", b" \t", b" \t\r"]),
    last=st.sampled_from([b"", b"a b"]),
)
def test_units_are_runs_between_breaks(lines, keeps, strips, breaks, last):
    """The compiled loop finds the units of a naive reading: runs between breaks, with the breaks
    before them if kept.
    """
    cache = numbered(breaks, keeps_breaks=keeps)
    text = b"".join(line + b"\n" for line in lines) + last
    encoded = encode(cache, text, strips_return=strips)
    if last:
        lines = [*lines, last]
    expected = [naive_units(line, keeps, strips, breaks) for line in lines]
    assert units_of(cache, encoded.values) == list(chain.from_iterable(expected))
    assert encoded.ends.tolist() == np.cumsum([len(units) for units in expected]).tolist()


def naive_units(line, keeps, strips, breaks):
    units = [b""]
    for byte in line.removesuffix(b"\r") if strips else line:
        if byte in breaks and units[-1].strip(breaks):
            units.append(b"")
        units[-1] += bytes([byte])
    if not keeps:
        units = [unit.strip(breaks) for unit in units]
    return [unit for unit in units if unit]


def atoms_of(tables, words):
    """Return 2 · atom for each atom, and 1 more for the last atom of a word."""
    atoms, ends = tables.atoms(*join_words(words))
    values = 2 * atoms
    values[ends - 1] += 1
    return values.tolist()


BARE = {
    name: MergeTables.of(Vocabulary((), (), pretokenizer=PreTokenizer(name), marker="none"))
    for name in ("whitespace", *LOSSLESS)
}


@pytest.mark.parametrize("name", LOSSLESS)
@settings(max_examples=examples(400))
@given(text=texts)
def test_compiled_words_equal_those_of_the_pattern(name, text):
    """If the classes of all characters are known, compiled code splits units into the words of
    `split_lines`.
    """
    cache = cache_of(BARE[name], text)
    values = encode(cache, f"{text}\n".encode()).values.tolist()
    [words] = split_lines(BARE[name].vocabulary, [text])
    assert values == atoms_of(BARE[name], words)


@pytest.mark.parametrize("marker", ["suffix", "prefix", "none"])
@given(text=texts)
def test_compiled_words_have_the_marker(marker, text):
    """Compiled code gives words between white space the atoms of `MergeTables.atoms`, with
    the marker.
    """
    tables = MergeTables.of(Vocabulary((), (), marker=marker))
    values = encode(cache_of(tables), f"{text}\n".encode()).values
    assert values.tolist() == atoms_of(tables, text.split())


def test_white_space_beyond_ascii_separates_words():
    """Compiled code splits at every character beyond ASCII at which `str.split()` splits, and at no
    neighbour of one.
    """
    codes = {
        code + step for code in range(0x80, 0x10000) if chr(code).isspace() for step in (-1, 0, 1)
    }
    text = " ".join(f"a{chr(code)}b" for code in sorted(codes))
    cache = cache_of(BARE["whitespace"])
    values = encode(cache, f"{text}\n".encode()).values.tolist()
    assert values == atoms_of(BARE["whitespace"], text.split())


def test_invalid_bytes_are_left_to_python(monkeypatch):
    """Compiled code leaves a unit to Python if and only if it is invalid, or contains a private
    character.
    """
    firsts = bytes.fromhex("61 80 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 fe")
    others = bytes.fromhex("61 7f 80 8f 90 9f a0 bf c0")
    rests = [b""]
    for n in range(3):
        rests += map(bytes, product(others, *[b"\x61\x80\xbf\xc0"] * n))
    units = [bytes([first]) + rest for first in firsts for rest in rests]

    pending = set()

    def split(vocabulary, data, ends, firsts):
        pending.update(data.split())
        return UnitWords("", np.zeros(0, np.int64), np.zeros(len(ends), np.int64))

    monkeypatch.setattr("volt.encode.unit_cache.unit_words", split)
    nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
    cut = PreTokenizer("metaspace")
    tables = MergeTables.of(Vocabulary((), ("a",), marker="none", pretokenizer=cut))
    cache = cache_of(tables, encode_words=lambda text, lengths: nothing)
    encode(cache, b" " + b" ".join(units) + b"\n")
    assert pending == {unit for unit in units if is_left(unit)}
    assert {b"\xc0\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"} < pending
    assert not {b"\xc2\x80", b"\xe0\xa0\x80", b"\xed\x9f\xbf", b"\xf0\x90\x80\x80"} & pending


def is_left(unit):
    try:
        return any(ord(char) >= FIRST_HIDDEN for char in unit.decode())
    except UnicodeDecodeError:
        return True
