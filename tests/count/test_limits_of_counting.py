"""Where counting changes its way: budgets, tables that are full, shares at a threshold, what progress reports."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from counting import pairs
from hypothesis import given
from hypothesis import strategies as st

from volt import WordCounts, count_words, mix
from volt.count import bounded_sums, word_counts
from volt.count.bounded_sums import Budget, CounterLimits, approximate_sum, bounded_sum
from volt.count.column_texts import column_numbers
from volt.count.corpus_statistics import Unspaced, text_bytes, unspaced
from volt.count.coverage import coverage_of
from volt.count.file_arguments import named_files, source_paths, split_name
from volt.count.unit_table import CountTable
from volt.count.word_counts import CountedPart, summed
from volt.errors import ConfigError, CorpusError
from volt.files.tables import columns_in, is_json_lines, is_parquet
from volt.text.pretokenizer import PreTokenizer

SHARES = ("for_words", "pending", "table", "block", "rows", "n_words", "n_symbols")


def part(words: dict[str, int], *numbers: int) -> CountedPart:
    return CountedPart(WordCounts.from_pairs(words).table, *(numbers or (0, 0, 0)))


def test_a_budget_is_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each use has its part of what Python and the libraries leave; limits of threads depend on how many there are."""
    of = {size: Budget.of(size) for size in ("512M", "1G", "16G")}
    assert [[getattr(budget, share) for share in SHARES] for budget in of.values()] == [
        [268_435_456, 26_843_545, 89_478_485, 4_194_304, 8_192, 419_430, 4_473_924],
        [805_306_368, 80_530_636, 268_435_456, 12_582_912, 24_576, 1_258_291, 13_421_772],
        [
            16_911_433_728,
            1_691_143_372,
            5_637_144_576,
            264_241_152,
            65_536,
            26_424_115,
            281_857_228,
        ],
    ]
    assert [str(Budget(n)) for n in (1, 1023, 1024, 3 << 29, 1 << 50)] == [
        "1  B",
        "1.02e+03  B",
        "1 KB",
        "1.5 GB",
        "1.02e+03 TB",
    ]
    limits = []
    for n_cores in (1, 4, 1000):
        monkeypatch.setattr(bounded_sums, "available_cores", lambda n=n_cores: n)
        limits += [CounterLimits.of(budget, approximate=n_cores > 1) for budget in of.values()]
    assert [tuple(one)[:3] for one in limits] == [
        (139_810, 139_810, False),
        (419_430, 419_430, False),
        (1_048_576, 4_194_304, False),
        (34_952, 139_810, True),
        (104_857, 419_430, True),
        (1_048_576, 4_194_304, True),
        (4_096, 139_810, True),
        (4_096, 419_430, True),
        (8_808, 4_194_304, True),
    ]
    assert Budget.of(512 << 20).n_bytes == 512 << 20


def test_tables_that_are_just_too_large_are_spilled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word takes 32 bytes and its text. Pending words are added up above their limit; the sum spills above half."""
    calls = list[int]()
    monkeypatch.setattr(
        bounded_sums.SortedRuns, "write", lambda self, table: calls.append(table.height)
    )
    monkeypatch.setattr(bounded_sums.SortedRuns, "merged", lambda self: iter([]))
    for limit, n_runs in ((66, 0), (65, 2), (131, 2), (132, 0)):
        calls.clear()
        monkeypatch.setattr(Budget, "pending", limit)
        parts = [part({"a": 1, "b": 2}, 1, 5, 0)] * (1 if limit < 100 else 2)
        found = bounded_sum(parts, Budget.of("1G"), min_count=1)
        assert (len(calls), found.part[1:]) == (n_runs, (len(parts), 5 * len(parts), 0))


def test_the_words_that_remain_may_just_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result of exactly the limit is returned; one byte less is refused with what would fit."""
    words = {"ab": 3, "c": 1, "d": 9}
    for limit in (100, 99):
        monkeypatch.setattr(Budget, "table", limit)
        monkeypatch.setattr(Budget, "for_words", 60 * 7)
        if limit == 100:
            assert (
                pairs(WordCounts(*bounded_sum([part(words)], Budget.of("1G"), min_count=1).part))
                == words
            )
            continue
        with pytest.raises(
            CorpusError,
            match="3 distinct words are too many for 1 GB, and 3 of them occur 1 time or",
        ):
            bounded_sum([part(words)], Budget.of("1G"), min_count=1)


@given(
    st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), max_size=4), max_size=9)
)
def test_parts_are_compacted_without_a_trace(tables: list[dict[str, int]]) -> None:
    """However few rows or parts are held at once, the sum and its numbers of lines, bytes and bad lines are exact."""
    expected = sum(map(Counter, tables), Counter[str]())
    for rows, parts in ((2, 256), (1 << 22, 2), (1 << 22, 256)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(word_counts, "_COMPACT_ROWS", rows)
            patch.setattr(word_counts, "_COMPACT_PARTS", parts)
            found = summed(part(words, 1, 2, 3) for words in tables)
        assert found.table.rows() == sorted(expected.items())
        assert found[1:] == (len(tables), 2 * len(tables), 3 * len(tables))


def test_ties_are_forgotten_together() -> None:
    """Words of the least count go together; characters count with each word's end, and a word that just fits stays."""
    words = {"aa": 5, "b": 3, "c": 3, "d": 1}
    tables = {
        (n, symbols): approximate_sum([part(words, 2, 9, 1)], n_words=n, n_symbols=symbols)
        for n, symbols in ((4, None), (3, None), (2, None), (4, 9), (4, 8), (4, 3), (4, 2))
    }
    found = {
        key: ("".join(one.part.table["word"]), one.bound, one.n_left_out, one.part[1:])
        for key, one in tables.items()
    }
    assert found == {
        (4, None): ("aabcd", 0, 0, (2, 9, 1)),
        (3, None): ("aabc", 1, 1, (2, 9, 1)),
        (2, None): ("aa", 3, 7, (2, 9, 1)),
        (4, 9): ("aabcd", 0, 0, (2, 9, 1)),
        (4, 8): ("aabc", 1, 1, (2, 9, 1)),
        (4, 3): ("aa", 3, 7, (2, 9, 1)),
        (4, 2): ("", 5, 12, (2, 9, 1)),
    }
    parts = [
        part({"aaaa": 9, "b": 3, "c": 3}),
        part({"dddddddd": 8}),
    ]  # 3 of the last may be lost: most likely, but long
    result = approximate_sum(parts, n_words=2, n_symbols=5)
    assert (result.part.table.height, result.bound, result.n_left_out) == (0, 11, 23)


def test_a_table_is_full_at_its_limits() -> None:
    """At so many byte strings, or so many bytes."""
    table = CountTable(most=3, most_bytes=10)
    for n, n_bytes, is_full in ((2, 9, False), (3, 9, True), (2, 10, True)):
        table.n, table._table.starts[n] = n, n_bytes
        assert table.is_full == is_full


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({"一二三四五六": 1, "a" * 27: 2}, Unspaced("Han", 0.1, 6.0)),
        ({"一二三四五六": 1, "a" * 55: 1}, None),
        ({"一二三四五": 1}, None),
        ({"一二三四五カタカナ。": 2, "ab": 2}, Unspaced("Han", 10 / 12, 9.0)),
        ({"カタカナカタ一": 3}, Unspaced("Katakana", 1.0, 7.0)),
        ({"ab": 1}, None),
    ],
)
def test_scripts_without_spaces_are_measured(words: dict[str, int], found: Unspaced | None) -> None:
    """A tenth of the characters and six letters a word are enough; the commonest script is named."""
    assert unspaced(WordCounts.from_pairs(words)) == found
    assert unspaced(WordCounts.from_pairs(words, pretokenizer="unicode")) is None


def test_bytes_of_words_with_spaces() -> None:
    """A "▁" stands for one byte, and a word without marks takes one more for the space after it."""
    words = {"▁é▁": 3, "ab": 2}
    sizes = [
        text_bytes(WordCounts.from_pairs(words, pretokenizer=name))
        for name in ("metaspace", "whitespace")
    ]
    assert sizes == [3 * 4 + 2 * 2, 3 * 9 + 2 * 3]


def test_progress_is_reported_with_bytes_and_size(tmp_path: Path) -> None:
    """After each block: the path, the bytes read so far and the file's size; of a Parquet file once, at its end."""
    text, table, lines = tmp_path / "a.txt", tmp_path / "a.parquet", tmp_path / "a.jsonl"
    text.write_bytes(b"low new\n" * 4)
    lines.write_text('{"t": "low"}\n' * 2)
    pl.DataFrame({"t": ["low", "new"]}).write_parquet(table)
    heard = list[tuple[object, ...]]()
    count_words(text, block_size=16, progress=lambda *one: heard.append(one))
    assert heard == [(str(text), 16, 32), (str(text), 32, 32)]
    heard.clear()
    count_words([table, lines], column="t", progress=lambda *one: heard.append(one))
    assert heard == [
        (str(path), path.stat().st_size, path.stat().st_size) for path in (table, lines)
    ]


def _named(description: str) -> str:
    """The names of columns in a description."""
    return " ".join(re.findall(r"\d '(.*?)'", description))


def test_tables_are_recognised_by_name_and_first_lines(tmp_path: Path) -> None:
    """JSON lines by their ending, Parquet by its first bytes, a table by tabs within each of its first five lines."""
    assert [
        is_json_lines(name)
        for name in ("a.jsonl", "a.ndjson.gz", "a.jsonl.xz", "a.jsonl.txt", "a.json", "a")
    ] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    cases = {
        "a\tb\tc\n": "a b c",
        "\n \na\tb\n": "a b",
        "a\tb\nc\n": "",
        "a\n": "",
        "": "",
        "\ta\n": "",
        "a\tb\n" * 5 + "c\n": "a b",
        "a\tb\n" * 4 + "c\n": "",
    }
    for text, columns in cases.items():
        (tmp_path / "a.tsv").write_text(text)
        assert _named(columns_in(str(tmp_path / "a.tsv"))) == columns
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.strip().replace("\t", ",").encode()))
        assert _named(columns_in(str(tmp_path / "a.csv.gz"))) == columns
    (tmp_path / "a.jsonl").write_text(json.dumps({"a\tb": 1}))
    (tmp_path / "b").write_bytes(b"PAR1\ta\n")
    (tmp_path / "a.txt").write_text("a, b\nc, d\n")
    names = [str(tmp_path / name) for name in ("a.jsonl", "b", "none", "a.txt")]
    assert [columns_in(name) for name in names] == ["", "", "", ""]
    assert [is_parquet(name) for name in (*names, str(tmp_path))] == [
        False,
        True,
        False,
        False,
        False,
    ]
    assert [column_numbers(value) for value in ("1,3", 2, [3, 1], "1", None)] == [
        (1, 3),
        (2,),
        (3, 1),
        (1,),
        (),
    ]


def test_numbers_of_counts_go_along() -> None:
    """Sums add lines, bytes, bad lines, bounds and what was left out; a limit that is met keeps a word."""
    empty, words = WordCounts.empty(), WordCounts.from_pairs({"a": 4, "b": 2})
    one = WordCounts(words.table, 1, 2, 3, bound=4, n_left_out=5)
    both = one + WordCounts(
        WordCounts.from_pairs({"a": 1}).table, 10, 20, 30, bound=40, n_left_out=50
    )
    assert (both.bound, both.n_left_out, *both.part[1:]) == (44, 55, 11, 22, 33)
    assert both != one
    assert (both.origin, one.part[1:], one.origin + empty.origin) == (
        "|bound:44",
        (1, 2, 3),
        "|bound:4",
    )
    assert all((left + right) is one for left, right in ((empty, one), (one, empty)))
    for numbers in ({"n_lines": 1}, {"n_left_out": 1}):
        assert (one + WordCounts(empty.table, **numbers)).n_lines == 1 + numbers.get("n_lines", 0)
    assert [pairs(one.min_count(n)) for n in (4, 5, 2**70)] == [{"a": 4}, {}, {}]
    assert [one.min_count(n).n_left_out for n in (-1, 2, 4, 5)] == [5, 5, 7, 11]
    mixed = mix({"x": one, "y": {"c": 1}}, temperature=3)
    assert (pairs(mixed), mixed.bound, mixed.sources) == ({"a": 3, "b": 2, "c": 2}, 5, ("x", "y"))
    assert WordCounts(WordCounts.from_pairs({"a": 2**63 - 1}).table).total == 2**63 - 1


def test_characters_at_the_share_are_left_out() -> None:
    """Of 4 a, 4 b and 2 c, without spaces, the share 0.8 keeps a and b, one a little larger keeps all."""
    counts = WordCounts.from_pairs({"aabb": 2, "c": 2}, pretokenizer=PreTokenizer("gpt2"))
    found = [coverage_of(counts, share) for share in (0.4, 0.41, 0.8, 0.81)]
    assert [one and (one.left_out, one.n_left_out, one.n_characters) for one in found] == [
        ("bc", 6, 10),
        ("c", 2, 10),
        ("c", 2, 10),
        ("", 0, 10),
    ]
    assert found[0] is not None
    assert found[0].codes.tolist() == [98, 99]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["data/train.de.gz", "data/train.en.gz"], ["de", "en"]),
        (["a-1.b.tsv", "a-2.b.tsv"], ["1", "2"]),
        (["a.txt", "b/a.txt"], None),
        (["x_a_y", "x_b_y", "x_c_c_y"], ["a", "b", "c_c"]),
        (["x.a", "x.a.b"], ["x.a", "x.a.b"]),
        (["-", "n=a.txt"], ["stdin", "n"]),
        (["one.xz"], ["one"]),
    ],
)
def test_files_are_named_after_what_tells_them_apart(
    arguments: list[str], names: list[str] | None
) -> None:
    """Common parts at both ends go, unless a name would be empty or two would be equal; equal names are refused."""
    if names is None:
        with pytest.raises(ConfigError, match=r"source name 'a' of b/a\.txt is given twice"):
            source_paths(arguments)
        return
    assert list(source_paths(arguments)) == names
    assert list(source_paths(arguments).values()) == [
        argument.rpartition("=")[2] for argument in arguments
    ]


def test_named_files_and_their_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns count from 1; a name that a file has is its path; some names alone are refused."""
    monkeypatch.chdir(tmp_path)
    for name in ("a=b", "x.tsv:3"):
        Path(name).touch()
    assert (split_name("a=b"), split_name("b=a"), split_name("ab")) == (
        (None, "a=b"),
        ("b", "a"),
        (None, "ab"),
    )
    assert named_files(["a.tsv", "b.tsv"]) == {}
    assert {
        name: tuple(one)
        for name, one in named_files(["b=x.tsv:1", "a=x.tsv:3", "c=y:z:12"]).items()
    } == {
        "a": ("x.tsv:3", None),
        "b": ("x.tsv", 1),
        "c": ("y:z", 12),
    }
    assert list(named_files(["b=x", "a=y"])) == ["a", "b"]
    for given_, message in {
        "a=x:0": "a=x:0: columns are counted from 1; write a=x:1, say",
        "a=": "a=: names no file; write NAME=FILE",
        "..=x": r"\.\.=x: names no source",
        "=x": "source name '' of x is empty; write NAME=FILE with a name",
        "x": "x has no name, but b=y has one; write NAME=x",
        "b=z": "source name 'b' of z is given twice",
    }.items():
        with pytest.raises(ConfigError, match=message):
            named_files(["b=y", given_])
