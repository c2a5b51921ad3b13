"""Laws of counting within a memory: spilled counts are the counts, and forgotten words came as often as is said."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from commands import Run
from hypothesis import given
from hypothesis import strategies as st

import volt
from volt.count import bounded_sums, counting
from volt.count.bounded_sums import (
    Budget,
    CounterLimits,
    CountHistogram,
    SortedRuns,
    approximate_sum,
    bounded_sum,
    learning_bytes,
)
from volt.count.corpus import in_ranges
from volt.count.word_counts import CountedPart, summed
from volt.errors import ConfigError, CorpusError, OutputError
from volt.files.temporary import scratch_folder

WORDS = st.dictionaries(
    st.text("abcö😀\x00", min_size=1, max_size=4), st.integers(1, 2**40), max_size=30
)
SMALL = Budget(bounded_sums._BASE + 2000)  # 200 bytes of pending words: four or five of them


def part_of(counts: dict[str, int]) -> CountedPart:
    table = pl.DataFrame(
        [*counts.items()], schema={"word": pl.String, "count": pl.Int64}, orient="row"
    )
    return CountedPart(table, len(counts), sum(counts.values()), 1)


TAMIL = str.maketrans("0123456789abcdef", "கஙசஞடணதநபமயரலவழள")


@given(st.lists(WORDS, max_size=12), st.integers(1, 5))
def test_spilled_counts_are_the_counts(parts: list[dict[str, int]], min_count: int) -> None:
    """However little is held, and whatever is dropped in the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "table", 10**9)
        found = bounded_sum(map(part_of, parts), SMALL, min_count=min_count)
    whole = summed(map(part_of, parts))
    kept = whole.table.filter(pl.col("count") >= min_count)
    assert found.part.table.rows() == kept.rows()
    assert found.part[1:] == whole[1:]
    assert found.n_left_out == whole.table["count"].sum() - kept["count"].sum()
    assert found.bound == 0


@given(st.lists(WORDS, max_size=40), st.integers(2, 4), st.integers(1, 5))
def test_runs_of_runs_add_up(tables: list[dict[str, int]], most: int, rows: int) -> None:
    """Levels of merged runs, read a few rows at a time, with the same words at their edges."""
    expected: Counter[str] = Counter()
    with scratch_folder() as folder:
        runs = SortedRuns(folder, most=most, rows=rows)
        for counts in tables:
            expected.update(counts)
            runs.write(part_of(counts).table.sort("word"))
        merged = [row for table in runs.merged() for row in table.rows()]
        assert len([*folder.iterdir()]) <= most * 6
    assert merged == sorted(expected.items(), key=lambda row: row[0].encode())


@given(st.lists(WORDS, max_size=20), st.integers(1, 20), st.integers(0, 60) | st.none())
def test_forgotten_words_are_within_the_bound(
    parts: list[dict[str, int]], n_words: int, n_symbols: int | None
) -> None:
    """No count is too low by more or too high, no absent word came more often, and words with their ends fit."""
    expected: Counter[str] = Counter()
    for counts in parts:
        expected.update(counts)
    found = approximate_sum(map(part_of, parts), n_words=n_words, n_symbols=n_symbols)
    shown = dict(found.part.table.rows())
    assert len(shown) <= n_words
    assert n_symbols is None or sum(map(len, shown)) + len(shown) <= n_symbols
    assert all(
        count - found.bound <= shown.get(word, 0) <= count for word, count in expected.items()
    )
    assert found.n_left_out == expected.total() - sum(shown.values())
    assert shown.keys() <= expected.keys()
    if len(expected) <= n_words and (
        n_symbols is None or sum(map(len, expected)) + len(expected) <= n_symbols
    ):
        assert found.bound == 0
        assert shown == expected


def test_long_words_are_within_what_approximate_promises(tmp_path: Path) -> None:
    """Words of a script that takes three bytes a character: those that are left can be learned from; if others do not
    fit, the advice is not what has been done.
    """
    path = tmp_path / "a.txt"
    words = (f"{number:x}".translate(TAMIL) * 4 for number in range(1 << 12))
    path.write_text(
        "\n".join(f"{word} " * (1 + place % 17) for place, word in enumerate(words)),
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "for_words", 300_000)
        counts = volt.count_words([path, path], memory="1G", approximate=True)
        Budget.of("1G").check_learning(counts.table, approximate=True)
        whole = volt.count_words(path)
        with pytest.raises(CorpusError, match=r"give \d+M of memory or pass min_count=\d+$"):
            Budget.of("1G").check_learning(whole.table, approximate=True)
        with pytest.raises(
            CorpusError, match=r"give \d+M of memory or pass min_count=\d+ or approximate=True$"
        ):
            Budget.of("1G").check_learning(whole.table)


def test_a_word_that_was_remembered_all_along_lacks_nothing() -> None:
    """What it may lack is what it might have lacked when it first came."""
    parts = [{"a": 3, "b": 1, "c": 1}, {"a": 1, "d": 1, "e": 3}, {"f": 9, "g": 9}]
    found = [approximate_sum(map(part_of, parts[:n]), n_words=2) for n in (1, 2, 3)]
    assert [dict(one.part.table.rows()) for one in found] == [
        {"a": 3},
        {"a": 4, "e": 3},
        {"f": 9, "g": 9},
    ]
    assert [one.bound for one in found] == [1, 2, 4]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """A counter that spills after a few hundred words. Gives the runs that are written."""
    written = list[Path]()
    write = bounded_sums._write

    def noted(path: Path, *given: object, **options: object) -> None:
        written.append(path)
        write(path, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(bounded_sums, "_write", noted)
    monkeypatch.setattr(Budget, "pending", 10_000)
    monkeypatch.setattr(Budget, "block", 5_000)
    monkeypatch.setattr(Budget, "rows", 100)
    monkeypatch.setattr(counting, "_LARGE", 1_000)
    yield written
    assert not any(path.parent.exists() for path in written)


def text_of(n_lines: int) -> str:
    return "".join(
        f"line {n} of {n % 97} words, {n * n % 1013} and Wörter {n % 7}\n" for n in range(n_lines)
    )


@pytest.mark.parametrize(
    "pretokenizer", ["whitespace", "bytes", "gpt2", "unicode", "metaspace-line"]
)
@pytest.mark.parametrize("min_count", [1, 3])
def test_files_are_counted_alike(
    small_pieces: list[Path], tmp_path: Path, pretokenizer: str, min_count: int
) -> None:
    """By units and by Polars; the words that are left out are reported alike."""
    path, options = tmp_path / "a.txt", {"pretokenizer": pretokenizer, "min_count": min_count}
    path.write_text(text_of(3_000) + text_of(500), encoding="utf-8")
    found = volt.count_words([path, path], memory="1G", **options)  # type: ignore[arg-type]
    assert small_pieces
    assert found == volt.count_words([path, path], **options)  # type: ignore[arg-type]


def test_tables_and_columns_are_counted_alike(small_pieces: list[Path], tmp_path: Path) -> None:
    """Of word counts, JSON lines and Parquet."""
    lines = text_of(2_000).splitlines()
    (tmp_path / "a.jsonl").write_text(
        "".join(f"{json.dumps({'text': line})}\n" for line in lines), encoding="utf-8"
    )
    pl.DataFrame({"text": lines}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.tsv").write_text(
        "".join(f"{word}\t{10**12}\n" for word in set(" ".join(lines).split())), "utf-8"
    )
    for name, options in (
        ("a.jsonl", {"column": "text"}),
        ("a.parquet", {"column": "text"}),
        ("a.tsv", {"word_counts": True}),
    ):
        path = tmp_path / name
        assert volt.count_words(path, memory="1G", **options) == volt.count_words(
            path, **options
        ), name  # type: ignore[arg-type]
    assert small_pieces


@pytest.mark.parametrize("pretokenizer", ["whitespace", "bytes", "unicode"])
def test_approximate_counts_do_not_depend_on_threads(
    small_pieces: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pretokenizer: str
) -> None:
    """Words are forgotten after blocks, whichever thread counted them."""
    monkeypatch.setattr(Budget, "n_words", 300)
    monkeypatch.setattr(counting, "UnitCounter", partial(counting.UnitCounter, piece=500))
    monkeypatch.setattr(
        CounterLimits,
        "of",
        lambda budget, *, approximate: CounterLimits(50, 100, by_block=approximate),
    )
    path = tmp_path / "a.txt"
    path.write_text(text_of(3_000), encoding="utf-8")
    exact = dict(volt.count_words(path, pretokenizer=pretokenizer).table.rows())
    found = []
    for n_threads in (1, 4):
        monkeypatch.setattr(counting, "available_cores", lambda n=n_threads: n)
        found.append(
            volt.count_words(path, pretokenizer=pretokenizer, memory="1G", approximate=True)
        )
    assert found[0] == found[1]
    shown = dict(found[0].table.rows())
    assert found[0].bound > 0
    assert all(
        count - found[0].bound <= shown.get(word, 0) <= count for word, count in exact.items()
    )


def test_approximate_counts_do_not_depend_on_how_a_pipe_brings_its_bytes(
    small_pieces: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces of any size, as those of a file."""
    monkeypatch.setattr(Budget, "n_words", 300)
    path = tmp_path / "a.txt"
    path.write_text(text_of(3_000), encoding="utf-8")
    expected = volt.count_words(path, memory="1G", approximate=True)
    for size in (700, 4_096, 100_000):
        write = f"for n in range(0, len(data), {size}): os.write(1, data[n : n + {size}])"
        script = f"import os\ndata = open({str(path)!r}, 'rb').read()\n{write}"
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
            assert child.stdout
            pipe = f"/dev/fd/{child.stdout.fileno()}"
            assert volt.count_words(pipe, memory="1G", approximate=True) == expected


def test_words_that_are_all_forgotten_are_reported(
    small_pieces: list[Path], tmp_path: Path
) -> None:
    """Not as words that occur too seldom."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{n}\n" for n in range(3_000)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "n_words", 300)
        with pytest.raises(
            CorpusError,
            match="none of 3,000 words is left within the memory; give more memory, or remove",
        ):
            volt.count_words(path, memory="1G", approximate=True)


def test_words_that_do_not_fit_are_refused_with_what_would(
    small_pieces: list[Path], tmp_path: Path
) -> None:
    """The number of occurrences that leaves few enough."""
    path = tmp_path / "a.txt"
    path.write_text(text_of(3_000), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "table", 1_000)
        patch.setattr(Budget, "for_words", 60_000)
        with pytest.raises(
            CorpusError,
            match=r"distinct words are too many for 1 GB, and [\d,]+ of them occur \d+ times or more",
        ) as error_text:
            volt.count_words(path, memory="1G")
        least = int(str(error_text.value).partition("min_count=")[2].partition(" ")[0])
    counts = volt.count_words(path)
    for n, fits in ((least, True), (least - 1, False)):
        words = counts.min_count(n).words
        assert (learning_bytes(len(words), len("".join(words))) <= 60_000) == fits


@given(st.integers(0, 30_000))
def test_the_min_count_that_is_suggested_is_the_least(n_bytes: int) -> None:
    """What it leaves fits, as is said, and one less leaves too much."""
    tally, room = CountHistogram(1), Budget(bounded_sums._BASE + n_bytes)
    tally.add(part_of({f"{count:03}": count for count in range(1, 300)}).table)
    error_text = re.search(r"and (\d+) of them occur (\d+) times?", str(tally.refusal(room)))
    assert error_text
    left, least = map(int, error_text.groups())
    assert left == max(0, 300 - least)
    assert learning_bytes(left, 3 * left) <= room.for_words
    assert least == 1 or learning_bytes(left + 1, 3 * (left + 1)) > room.for_words


def test_a_tally_starts_at_the_least_number_asked() -> None:
    """What is rarer is not in it."""
    tally = CountHistogram(7)
    tally.add(part_of({"abc": 7, "de": 9}).table)
    assert "and 2 of them occur 7 times or more; give 257M of memory or pass min_count=7" in str(
        tally.refusal(Budget.of("512M"))
    )


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a traceback."""
    with pytest.raises(
        CorpusError,
        match="cannot write words that exceed the memory: no such file or directory; set TMPDIR to",
    ):
        SortedRuns(tmp_path / "nowhere").write(part_of({"a": 1}).table)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(
        OutputError,
        match=r"TMPDIR=.*/nowhere: no folder can be created there: no such file or directory",
    ):
        bounded_sum([part_of({f"word{n}": 1 for n in range(20)})], SMALL, min_count=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "511M"}, "give 512M or more"),
        (
            {"memory": "1G", "approximate": True, "map": lambda count, paths: map(count, paths)},
            "map may count several",
        ),
        ({"approximate": True}, "pass memory='2G'"),
        (
            {"memory": "a lot"},
            "memory is 'a lot'; give bytes, such as 512M, which is the least, 2G or 16G$",
        ),
        ({"memory": ""}, "memory is ''; give bytes, such as 512M, which is the least, 2G or 16G$"),
        (
            {"memory": True},
            r"memory is True \(bool\); give bytes, such as 512M, which is the least, 2G or 16G$",
        ),
        (
            {"memory": [1]},
            "memory is a list; give bytes, such as 512M, which is the least, 2G or 16G$",
        ),
        ({"memory": 1.5}, r"memory is 1.5 \(float\); give bytes, such as 512M"),
        ({"memory": -5}, "memory is -5; give 512M or more"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    """Before anything is read."""
    with pytest.raises(ConfigError, match=message):
        volt.count_words(tmp_path / "nowhere", **options)  # type: ignore[arg-type]


def test_the_command_tells_the_bound(tmp_path: Path, run: Run) -> None:
    """And what its options are called."""
    path = tmp_path / "a.txt"
    path.write_text(text_of(100), encoding="utf-8")
    done = run(
        "search", path, "--memory", "1G", "--approximate", "--json", "-q", "-o", tmp_path / "a.volt"
    )
    error_text = json.loads(done.stdout)["counts"]
    assert error_text.pop("words") == len(set(text_of(100).split()))
    assert error_text == {
        "occurrences": 900,
        "left_out": 0,
        "bound": 0,
        "lines": 100,
        "bytes": path.stat().st_size,
    }
    for options, message in (
        (
            ["--memory", ""],
            "memory is ''; give bytes, such as 512M, which is the least, 2G or 16G\n",
        ),
        (["--memory", "5M"], "memory is 5M; give 512M or more"),
        (
            ["--approximate"],
            "approximate needs a memory limit, above which it forgets words; pass --memory 2G",
        ),
    ):
        done = run("search", path, *options, "-o", tmp_path / "b.volt", status=2)
        assert message in done.stderr.decode()


def test_a_map_counts_within_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of threads, of whole files and of ranges, go to the disk; the counts are those without a bound."""
    chance = random.Random(1)
    for n in range(3):
        lines = [" ".join(f"w{chance.randrange(4000)}" for _ in range(8)) for _ in range(2000)]
        (tmp_path / f"{n}.txt").write_text("\n".join(lines))
    paths, written = sorted(map(str, tmp_path.glob("*.txt"))), list[int]()
    write = SortedRuns.write

    def seen(runs: SortedRuns, table: pl.DataFrame) -> None:
        written.append(table.height)
        write(runs, table)

    monkeypatch.setattr(SortedRuns, "write", seen)
    monkeypatch.setattr(Budget, "pending", 200_000)
    whole = volt.count_words(paths, min_count=5)
    with ThreadPoolExecutor(2) as pool:
        for shard_map in (pool.map, in_ranges(pool.map, size=10_000)):
            written.clear()
            assert volt.count_words(paths, min_count=5, memory="512M", map=shard_map) == whole
            assert len(written) > 1


@given(st.lists(WORDS, max_size=20), st.integers(1, 20), st.integers(0, 60))
def test_words_that_are_remembered_can_be_learned_from(
    parts: list[dict[str, int]], n_words: int, n_symbols: int
) -> None:
    """With their ends they have no more characters than is said, and the bound holds."""
    found = approximate_sum(map(part_of, parts), n_words=n_words, n_symbols=n_symbols)
    shown, expected = dict(found.part.table.rows()), Counter[str]()
    for counts in parts:
        expected.update(counts)
    assert len(shown) <= n_words
    assert sum(map(len, shown)) + len(shown) <= n_symbols
    assert all(
        count - found.bound <= shown.get(word, 0) <= count for word, count in expected.items()
    )


def test_the_commonest_words_are_exact() -> None:
    """A word that was always among those remembered has the count that it has."""
    parts = [part_of({"the": 100, "of": 50, f"rare{n}": 1, f"seldom{n}": 2}) for n in range(50)]
    found = approximate_sum(parts, n_words=4)
    shown = dict(found.part.table.rows())
    assert (shown["the"], shown["of"]) == (5000, 2500)
    assert 0 < found.bound < 200


def test_a_refusal_names_the_memory_that_suffices() -> None:
    """A search with the memory that the error names is not refused; with a megabyte less, it is."""
    words = pl.int_range(10**11, 10**11 + 400_000).cast(pl.String)
    table = pl.select(word=words).with_columns(count=pl.lit(1, pl.Int64))
    with pytest.raises(CorpusError, match=r"give \d+M of memory or pass") as refusal:
        Budget.of("512M").check_learning(table)
    [enough] = re.findall(r"give (\d+)M", str(refusal.value))
    Budget.of(f"{enough}M").check_learning(table)
    with pytest.raises(CorpusError, match=f"give {enough}M"):
        Budget.of(f"{int(enough) - 1}M").check_learning(table)


def test_a_budget_is_divided_among_its_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of 512 MB are for words; the tables of all threads together stay within their part."""
    budget = Budget.of("512M")
    assert budget == Budget.of(512 << 20)
    assert budget.for_words == 256 << 20
    uses = budget.pending + budget.table + 8 * budget.block
    assert uses < budget.for_words
    assert [str(Budget(n)) for n in (1024, 3 << 29, 2 << 40)] == ["1 KB", "1.5 GB", "2 TB"]
    for n_cores in (1, 4, 1000):
        monkeypatch.setattr(bounded_sums, "available_cores", lambda n=n_cores: n)
        limits = CounterLimits.of(budget, approximate=True)
        assert limits[:3] == (max(4_096, 139_810 // n_cores), 139_810, True)
    assert CounterLimits.of(Budget.of("16G"), approximate=False)[:3] == (8_808, 1 << 22, False)


@pytest.mark.parametrize(("limit", "n_runs"), [(66, 0), (65, 2), (131, 2), (132, 0)])
def test_tables_that_are_just_too_large_are_spilled(
    monkeypatch: pytest.MonkeyPatch, limit: int, n_runs: int
) -> None:
    """A word takes 32 bytes and its text; the sum of the pending words is spilled above half of the limit."""
    heights = list[int]()
    monkeypatch.setattr(SortedRuns, "write", lambda self, table: heights.append(table.height))
    monkeypatch.setattr(SortedRuns, "merged", lambda self: iter([]))
    monkeypatch.setattr(Budget, "pending", limit)
    parts = [part_of({"a": 1, "b": 2})] * (1 if limit < 100 else 2)
    bounded_sum(parts, Budget.of("1G"), min_count=1)
    assert len(heights) == n_runs


def test_the_words_that_remain_may_just_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result of exactly the limit is returned; one byte less is refused."""
    parts = [part_of({"ab": 3, "c": 1, "d": 9})]
    monkeypatch.setattr(Budget, "for_words", 60 * 7)
    monkeypatch.setattr(Budget, "table", 100)
    assert bounded_sum(parts, Budget.of("1G"), min_count=1).part.table.height == 3
    monkeypatch.setattr(Budget, "table", 99)
    with pytest.raises(CorpusError, match=r"3 distinct words are too many .*, and 3 of them occur"):
        bounded_sum(parts, Budget.of("1G"), min_count=1)


@pytest.mark.parametrize(
    ("n_words", "n_symbols", "words", "bound"),
    [
        (4, None, "aa b c d", 0),
        (3, None, "aa b c", 1),
        (2, None, "aa", 3),
        (4, 9, "aa b c d", 0),
        (4, 8, "aa b c", 1),
        (4, 3, "aa", 3),
        (4, 2, "", 5),
    ],
)
def test_ties_are_forgotten_together(
    n_words: int, n_symbols: int | None, words: str, bound: int
) -> None:
    """Words of the least count go together; the end of a word counts as a character."""
    parts = [part_of({"aa": 5, "b": 3, "c": 3, "d": 1})]
    found = approximate_sum(parts, n_words=n_words, n_symbols=n_symbols)
    assert found.part.table["word"].to_list() == words.split()
    assert found.bound == bound
    assert found.n_left_out == 12 - found.part.table["count"].sum()
