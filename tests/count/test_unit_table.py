"""Laws of `UnitCounter`: its counts equal those of whole lines, for any threads and sizes of
tables.
"""

import random
from collections import Counter
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.counting import PACKERS, pairs
from support.drawn import examples

from volt.count import counting
from volt.count.corpus import count_words
from volt.count.unit_table import (
    CounterLimits,
    CountTable,
    UnitCounter,
    UnitCutter,
    UnitTable,
    WordTable,
)
from volt.errors import CorpusError
from volt.files.blocks import Block
from volt.text.patterns.published import NAMED
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens

BUILT_IN = ("whitespace", "unicode", "gpt2", "bytes", "metaspace", "metaspace-runs")
PATTERNS = [
    PreTokenizer.of_pattern(name, level=level).name
    for name in NAMED
    if not name.startswith("digits")
    for level in ("characters", "bytes")
]
GIVEN = (
    r"regex:\w+|[^\w\s]+",
    r"regex:[^ ]+| +",
    r"matches:\p{L}+|\p{N}",
    r"bytes+matches: ?[a-z]+|[0-9]",
)
NAMES = sorted({*BUILT_IN, *PATTERNS, *GIVEN, "metaspace-if-absent", "metaspace-runs-if-absent"})
TRICKY = st.sampled_from(
    "aabßé'st 12,;!   \t\r\x0b\x0c\0\x1c\x1f\x85\xa0\u2003\u3000\u200b\u0301\ufeff中字▁🙂\U0010c000\U0010f000\U0010fffd"
)
lines = st.lists(
    st.text(
        TRICKY | st.characters(exclude_characters="\n", codec="utf-8"),
        max_size=24,
    ),
    max_size=8,
)


def cut_by_lines(name, texts):
    """Count the words of lines one by one: the naive twin of `UnitCounter`."""
    return Counter(word for text in texts for word in PreTokenizer(name).split(text, hidden=False))


def added(tables):
    total = Counter()
    for table in tables:
        total.update(dict(table.rows()))
    return total


def by_units(name, data, *, n_blocks=1, piece=1 << 20, **limits):
    cutter = UnitCutter.of(PreTokenizer(name))
    assert cutter is not None, f"{name} cannot be counted by units"
    counter = UnitCounter(cutter, CounterLimits(**limits), piece=piece)
    found = Counter()
    rest = [line + b"\n" for line in data.split(b"\n")[:-1]] + [data.rpartition(b"\n")[2]]
    size = 1 + len(rest) // n_blocks
    for start in range(0, len(rest), size):
        found += added(counter.add(Block("a.txt", 1, 0, b"".join(rest[start : start + size]), 0)))
    return found + added(counter.finish())


@given(
    name=st.sampled_from(NAMES),
    texts=lines,
    ending=st.sampled_from(("\n", "\r\n")),
    piece=st.integers(1, 60),
    n_threads=st.integers(1, 3),
    most_units=st.integers(1, 20),
    most_words=st.integers(1, 40),
    n_blocks=st.integers(1, 3),
)
@settings(max_examples=examples(50))
def test_counts_by_units_are_those_of_lines(
    name, texts, ending, piece, n_threads, most_units, most_words, n_blocks
):
    """`UnitCounter` gives the words of the lines for any text, pre-tokenizer, threads and table
    sizes.
    """
    data = "".join(text + ending for text in texts).encode()
    cutter = UnitCutter.of(PreTokenizer(name))
    assume(cutter is not None)
    expected = cut_by_lines(
        name, [text.removesuffix("\r") if ending == "\n" else text for text in texts]
    )
    limits = {"n_units": most_units, "n_words": most_words, "n_threads": n_threads}
    found = by_units(name, data, piece=piece, n_blocks=n_blocks, **limits)
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_no_word_extends_beyond_its_unit(name):
    """`UnitCounter` gives the words of lines with any three kinds of characters in sequence."""
    texts = [
        start + "".join(chain.from_iterable(product("a1!'\r\t \xa0", repeat=3)))
        for start in ("", " ", "▁")
    ]
    if UnitCutter.of(PreTokenizer(name)) is not None:
        assert by_units(name, "".join(f"{text}\n" for text in texts).encode()) == cut_by_lines(
            name, texts
        )


@pytest.mark.parametrize("name", ["metaspace-line", "split:[0-9]", r"regex:\d|.+"])
def test_words_over_spaces_have_no_units(name):
    """`UnitCutter.of` returns None if a word of the pre-tokenizer can extend over a space."""
    assert UnitCutter.of(PreTokenizer(name)) is None


def test_tables_grow_with_units_and_with_their_bytes():
    """`UnitCounter` counts 10,000 units of up to thousands of bytes, and counts them again."""
    draw = random.Random(1)
    sizes = [*range(1, 20), 500, 9_000]
    words = ["".join(draw.choices("abcdefgé!", k=draw.choice(sizes[:-2]))) for _ in range(10_000)]
    words += ["x" * size + end for size in sizes for end in "ab"]
    lines = [" ".join(draw.choices(words, k=12)) for _ in range(3_000)] * 2
    data = "\n".join(lines).encode()
    assert by_units("whitespace", data, n_blocks=2) == Counter(data.decode().split())


def test_a_table_of_words_grows_within_a_unit():
    """`WordTable` grows if one unit has more words than the table has room for."""
    words = [
        f"{n:05}".translate(str.maketrans("0123456789", "abcdefghij")) + "!" for n in range(6_000)
    ]
    texts = ["".join(words[start : start + 40]) for start in range(0, 6_000, 20)]
    data = "".join(f"{text} {text}\n" for text in texts).encode()
    expected = cut_by_lines("bytes", [f"{text} {text}" for text in texts])
    assert len(expected) > 5_000
    assert by_units("bytes", data) == expected


def test_counts_have_64_bits():
    """The counts of units and of words may exceed 32 bits."""
    cutter = UnitCutter.of(PreTokenizer("bytes"))
    assert cutter is not None
    table = UnitTable(cutter.rule)
    table.add(b"low, low,")
    rows = table._table.rows.reshape(-1, 4)
    rows[rows[:, 2] != 0, 3] += np.uint64(10**12)
    table.add(b"low,")
    words = WordTable()
    cutter.add_words(table.counted_strings(), to=words)
    assert dict(cutter.table(words.counted_strings()).rows()) == {
        "low": 10**12 + 2,
        "Ġlow": 10**12 + 1,
        ",": 2 * 10**12 + 3,
    }


@pytest.mark.parametrize("name", ["bytes", "metaspace", "whitespace", PATTERNS[0]])
@pytest.mark.parametrize("block_size", [64, 1 << 25])
def test_large_texts_are_counted_as_small_ones(name, block_size, tmp_path, monkeypatch):
    """`count_words` gives the same words, lines, bytes and bad lines by units and by lines."""
    rng = random.Random(2)
    parts = ["low", "é\xa0", "▁", "\U0010f003", "'s", " ", "  ", "\r", "\t", "\0"]
    for form, packer in PACKERS.items():
        text = (
            "\n".join("".join(rng.choices(parts, k=9)) for _ in range(60))
            .encode()
            .replace(b"lowlow", b"\xfflow")
        )
        (tmp_path / form).write_bytes(packer(b"\xef\xbb\xbf" + text))
    (tmp_path / "empty").write_bytes(b"")
    found = []
    for large in (0, 1 << 40):
        monkeypatch.setattr(counting, "_LARGE", large)
        for errors in ("replace", "skip"):
            found.append(
                count_words(
                    tmp_path, pretokenizer=name, block_size=block_size, errors=errors, min_count=2
                )
            )
    assert found[:2] == found[2:]  # with the numbers of lines and bytes
    assert found[0].n_bad_lines > 0


def test_errors_and_progress_are_the_same(tmp_path, monkeypatch):
    """`count_words` gives the same errors and progress by units and by lines."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"low lower\n" * 20 + b"lo\xffw\n")
    reports = []
    messages = []
    for large in (0, 1 << 40):
        monkeypatch.setattr(counting, "_LARGE", large)
        for options in ({}, {"max_line": 8}):
            with pytest.raises(CorpusError) as caught:
                count_words(path, pretokenizer="bytes", block_size=64, **options)
            messages.append(str(caught.value))
        count_words(
            path,
            pretokenizer="bytes",
            block_size=64,
            errors="skip",
            progress=lambda *one: reports.append(one),
        )
    assert messages[:2] == messages[2:]
    assert f"{path}:21: invalid UTF-8 byte 0xff" in messages[0]
    assert len(reports) > 2
    assert reports[: len(reports) // 2] == reports[len(reports) // 2 :]


def test_user_tokens_and_normal_forms_are_respected(tmp_path, monkeypatch):
    """`count_words` of large text respects user tokens and normalisation, as of small text."""
    (tmp_path / "a.txt").write_text("See <url>, SEE<url> ﬁn\n" * 3)
    found = []
    for large in (0, 1 << 40):
        monkeypatch.setattr(counting, "_LARGE", large)
        found += [
            pairs(
                count_words(tmp_path, pretokenizer="bytes", special=SpecialTokens(user=("<url>",)))
            ),
            pairs(count_words(tmp_path, pretokenizer="gpt2", normalizer="nfkc+lowercase")),
        ]
    assert found[:2] == found[2:]
    assert "▁fin" in found[1]


def test_a_table_is_full_at_its_limits():
    """`CountTable.is_full` holds from `max_strings` strings or `max_bytes` bytes on."""
    table = CountTable(max_strings=3, max_bytes=10)
    for n, n_bytes, is_full in ((2, 9, False), (3, 9, True), (2, 10, True)):
        table.n = n
        table._table.starts[n] = n_bytes
        assert table.is_full == is_full
