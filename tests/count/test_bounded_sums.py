"""Laws of counting within a memory limit: exact sums spill words to disk, approximate ones bound
errors.
"""

import json
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import volt
from volt.count import bounded_sums, counting
from volt.count.bounded_sums import (
    Budget,
    CountHistogram,
    SortedRuns,
    learning_bytes,
    sum_approximately,
    sum_within_budget,
)
from volt.count.corpus import in_ranges
from volt.count.unit_table import CounterLimits
from volt.count.word_counts import CountedPart, sum_parts
from volt.errors import ConfigError, CorpusError, OutputError
from volt.files.temporary import scratch_folder

Words = dict[str, int]
WORDS = st.dictionaries(
    st.text("abcö😀\x00", min_size=1, max_size=4), st.integers(1, 2**40), max_size=30
)
SMALL = Budget(bounded_sums._BASE + 2000)  # 200 bytes of pending words: four or five of them
TAMIL = str.maketrans("0123456789abcdef", "கஙசஞடணதநபமயரலவழள")


def part_of(counts):
    schema = {"word": pl.String, "count": pl.Int64}
    table = pl.DataFrame([*counts.items()], schema=schema, orient="row")
    return CountedPart(table, len(counts), sum(counts.values()), 1)


def total(parts):
    return sum(map(Counter, parts), Counter())


def check_bound(found, expected):
    """Check that no count is too low by more than the bound, or too high; return the counts."""
    table = found.part.table
    counts = dict(table.rows())
    assert counts.keys() <= expected.keys()
    for word, count in expected.items():
        assert count - found.bound <= counts.get(word, 0) <= count
    assert found.n_left_out == sum(expected.values()) - sum(counts.values())
    return counts


@given(st.lists(WORDS, max_size=12), st.integers(1, 5))
def test_spilled_counts_are_exact(parts, min_count):
    """`sum_within_budget` equals `sum_parts` without rare words, however many words go to disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "table", 10**9)
        found = sum_within_budget(map(part_of, parts), SMALL, min_count=min_count)
    whole = sum_parts(map(part_of, parts))
    retained = whole.table.filter(pl.col("count") >= min_count)
    assert found.part.table.rows() == retained.rows()
    assert found.part[1:] == whole[1:]
    assert found.n_left_out == whole.table["count"].sum() - retained["count"].sum()
    assert found.bound == 0


@given(st.lists(WORDS, max_size=40), st.integers(2, 4), st.integers(1, 5))
def test_merged_runs_add_up(tables, most, rows):
    """`SortedRuns.merge` gives the sum of all tables, for any numbers of open runs and rows in
    memory.
    """
    with scratch_folder() as folder:
        runs = SortedRuns(folder, max_open=most, rows=rows)
        for counts in tables:
            runs.write(part_of(counts).table.sort("word"))
        merged = [row for table in runs.merge() for row in table.rows()]
        assert len([*folder.iterdir()]) <= most * 6
    assert merged == sorted(total(tables).items(), key=lambda row: row[0].encode())


@given(st.lists(WORDS, max_size=20), st.integers(1, 20), st.integers(0, 60) | st.none())
def test_forgotten_words_are_within_the_bound(parts, n_words, n_symbols):
    """`sum_approximately` keeps to its limits, and no count is too low by more than the bound."""
    expected = total(parts)
    found = sum_approximately(map(part_of, parts), n_words=n_words, n_symbols=n_symbols)
    counts = check_bound(found, expected)

    def fits(words):
        length = sum(map(len, words)) + len(words)
        return len(words) <= n_words and (n_symbols is None or length <= n_symbols)

    assert fits(counts)
    if fits(expected):
        assert found.bound == 0
        assert counts == expected


def test_words_of_long_characters_fit_into_memory(tmp_path, monkeypatch):
    """Approximate counts of long words fit into memory for learning; exact ones raise an error.

    The error proposes approximate=True only if it is not set yet."""
    path = tmp_path / "a.txt"
    numbers = range(1 << 12)
    words = (f"{number:x}".translate(TAMIL) * 4 for number in numbers)
    lines = (f"{word} " * (1 + number % 17) for number, word in zip(numbers, words, strict=True))
    path.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(Budget, "for_words", 300_000)
    budget = Budget.of("1G")
    counts = volt.count_words([path, path], memory="1G", approximate=True)
    budget.check_learning(counts.table, approximate=True)
    whole = volt.count_words(path).table
    advice = r"give \d+M of memory or pass min_count=\d+"
    with pytest.raises(CorpusError, match=f"{advice}$"):
        budget.check_learning(whole, approximate=True)
    with pytest.raises(CorpusError, match=f"{advice} or approximate=True$"):
        budget.check_learning(whole)


def test_a_word_that_was_always_remembered_is_exact():
    """`sum_approximately` gives a word that was never forgotten its exact count."""
    parts = [{"a": 3, "b": 1, "c": 1}, {"a": 1, "d": 1, "e": 3}, {"f": 9, "g": 9}]
    remembered = [{"a": 3}, {"a": 4, "e": 3}, {"f": 9, "g": 9}]
    for n, bound in enumerate((1, 2, 4), 1):
        found = sum_approximately(map(part_of, parts[:n]), n_words=2)
        assert dict(found.part.table.rows()) == remembered[n - 1]
        assert found.bound == bound


@pytest.fixture
def small_pieces(monkeypatch):
    """Make counting spill after a few hundred words; yield a list of the written runs."""
    written = []
    write = bounded_sums._write_run

    def recorded(path, *inputs, **options):
        written.append(path)
        write(path, *inputs, **options)

    monkeypatch.setattr(bounded_sums, "_write_run", recorded)
    monkeypatch.setattr(Budget, "pending", 10_000)
    monkeypatch.setattr(Budget, "block", 5_000)
    monkeypatch.setattr(Budget, "rows", 100)
    monkeypatch.setattr(counting, "_LARGE", 1_000)
    yield written
    assert not any(path.parent.exists() for path in written)


def text_of(n_lines):
    lines = range(n_lines)
    return "".join(
        f"line {n} of {n % 97} words, {n * n % 1013} and Wörter {n % 7}\n" for n in lines
    )


@pytest.fixture
def path(tmp_path):
    """A text of 3,500 lines, some of which repeat."""
    path = tmp_path / "a.txt"
    path.write_text(text_of(3_000) + text_of(500), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "pretokenizer", ["whitespace", "bytes", "gpt2", "unicode", "metaspace-line"]
)
@pytest.mark.parametrize("min_count", [1, 3])
def test_a_limit_does_not_change_the_counts_of_files(small_pieces, path, pretokenizer, min_count):
    """`count_words` of text gives the same counts with a memory limit, although it spills words."""
    count = partial(volt.count_words, [path, path], pretokenizer=pretokenizer, min_count=min_count)
    assert count(memory="1G") == count()
    assert small_pieces


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "tsv"])
def test_a_limit_does_not_change_the_counts_of_tables(small_pieces, tmp_path, ending):
    """`count_words` of JSON lines, Parquet and word tables is the same with a memory limit."""
    lines = text_of(2_000).splitlines()
    path = tmp_path / f"a.{ending}"
    options = {"column": "text"}
    if ending == "jsonl":
        rows = (json.dumps({"text": line}) for line in lines)
        path.write_text("\n".join(rows), encoding="utf-8")
    elif ending == "parquet":
        pl.DataFrame({"text": lines}).write_parquet(path)
    else:
        options = {"word_counts": True}
        words = set(" ".join(lines).split())
        path.write_text("".join(f"{word}\t{10**12}\n" for word in words), "utf-8")
    assert volt.count_words(path, memory="1G", **options) == volt.count_words(path, **options)
    assert small_pieces


@pytest.mark.parametrize("pretokenizer", ["whitespace", "bytes", "unicode"])
def test_approximate_counts_do_not_depend_on_threads(small_pieces, path, monkeypatch, pretokenizer):
    """Approximate counts are the same with one thread and with four, and within their bound."""
    monkeypatch.setattr(Budget, "n_words", 300)
    monkeypatch.setattr(counting, "UnitCounter", partial(counting.UnitCounter, piece=500))
    exact = volt.count_words(path, pretokenizer=pretokenizer)
    found = []
    for n_threads in (1, 4):
        limits = CounterLimits(50, 100, yields_each_block=True, n_threads=n_threads)
        monkeypatch.setattr(Budget, "counter_limits", lambda *_, limits=limits, **__: limits)
        options = {"pretokenizer": pretokenizer, "memory": "1G"}
        found.append(volt.count_words(path, approximate=True, **options))
    assert found[0] == found[1]
    assert found[0].bound > 0
    for word, count in exact.table.rows():
        assert count - found[0].bound <= dict(found[0].table.rows()).get(word, 0) <= count


@pytest.mark.parametrize("size", [700, 4_096, 100_000])
def test_approximate_counts_of_a_pipe_are_those_of_the_file(small_pieces, path, monkeypatch, size):
    """Approximate counts of a pipe equal those of a file, in whatever pieces the bytes arrive."""
    monkeypatch.setattr(Budget, "n_words", 300)
    expected = volt.count_words(path, memory="1G", approximate=True)
    write = f"for n in range(0, len(data), {size}): os.write(1, data[n : n + {size}])"
    script = f"import os\ndata = open({str(path)!r}, 'rb').read()\n{write}"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout
        pipe = f"/dev/fd/{child.stdout.fileno()}"
        assert volt.count_words(pipe, memory="1G", approximate=True) == expected


def test_words_that_are_all_forgotten_are_reported(small_pieces, path, monkeypatch):
    """If approximate counting forgets all words, the error proposes more memory, not a lower
    min_count.
    """
    path.write_text("".join(f"{n}\n" for n in range(3_000)), encoding="utf-8")
    monkeypatch.setattr(Budget, "n_words", 300)
    message = "none of 3,000 words is left within the memory; give more memory, or remove"
    with pytest.raises(CorpusError, match=message):
        volt.count_words(path, memory="1G", approximate=True)


@given(st.integers(0, 30_000))
def test_the_suggested_min_count_is_the_least(n_bytes):
    """The words of the `min_count` that a refusal proposes fit into memory; one less would be too
    many.
    """
    histogram = CountHistogram(1)
    histogram.add(part_of({f"{count:03}": count for count in range(1, 300)}).table)
    budget = Budget(bounded_sums._BASE + n_bytes)
    match = re.search(r"and (\d+) of them occur (\d+) times?", str(histogram.refusal(budget)))
    assert match
    left, least = map(int, match.groups())
    assert left == max(0, 300 - least)
    assert learning_bytes(left, 3 * left) <= budget.for_words
    assert least == 1 or learning_bytes(left + 1, 3 * (left + 1)) > budget.for_words


def test_a_histogram_starts_at_min_count():
    """A refusal counts only the words that occur the histogram's `min_count` times or more."""
    histogram = CountHistogram(7)
    histogram.add(part_of({"abc": 7, "de": 9}).table)
    message = "and 2 of them occur 7 times or more; give 257M of memory or pass min_count=7"
    assert message in str(histogram.refusal(Budget.of("512M")))


def test_a_full_disk_is_reported(tmp_path, monkeypatch):
    """If words cannot be written to disk, the error proposes to set TMPDIR."""
    missing = "no such file or directory"
    message = f"cannot write words that exceed the memory: {missing}; set TMPDIR to"
    with pytest.raises(CorpusError, match=message):
        SortedRuns(tmp_path / "nowhere").write(part_of({"a": 1}).table)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    message = f"TMPDIR=.*/nowhere: no folder can be created there: {missing}"
    with pytest.raises(OutputError, match=message):
        sum_within_budget([part_of({f"word{n}": 1 for n in range(20)})], SMALL, min_count=1)


SIZES = "give bytes, such as 512M, which is the least, 2G or 16G$"
REFUSED = [
    ({"memory": "511M"}, "give 512M or more"),
    ({"memory": -5}, "memory is -5; give 512M or more"),
    ({"memory": "a lot"}, f"memory is 'a lot'; {SIZES}"),
    ({"memory": ""}, f"memory is ''; {SIZES}"),
    ({"memory": True}, rf"memory is True \(bool\); {SIZES}"),
    ({"memory": [1]}, f"memory is a list; {SIZES}"),
    ({"memory": 1.5}, rf"memory is 1.5 \(float\); {SIZES}"),
    ({"approximate": True}, "pass memory='2G'"),
    (
        {"approximate": True, "memory": "1G", "map": lambda *args: map(*args)},
        "map may count several",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_an_invalid_limit_is_refused(tmp_path, options, message):
    """An invalid `memory` raises ConfigError, and so does `approximate` without it or with a
    map.
    """
    with pytest.raises(ConfigError, match=message):
        volt.count_words(tmp_path / "nowhere", **options)


def test_the_command_prints_the_bound(tmp_path, run):
    """`volt search --approximate` prints the bound; errors about memory name the command's
    options.
    """
    path = tmp_path / "a.txt"
    path.write_text(text_of(100), encoding="utf-8")
    options = ("--memory", "1G", "--approximate", "--json", "-q")
    done = run("search", path, *options, "-o", tmp_path / "a.volt")
    counts = json.loads(done.stdout)["counts"]
    assert counts.pop("words") == len(set(text_of(100).split()))
    numbers = {"occurrences": 900, "left_out": 0, "bound": 0, "lines": 100}
    assert counts == numbers | {"bytes": path.stat().st_size}
    faults = {
        ("--memory", ""): "memory is ''; give bytes, such as 512M, which is the least, 2G or 16G\n",
        ("--memory", "5M"): "memory is 5M; give 512M or more",
        ("--approximate",): "approximate needs a memory limit, above which it forgets words; "
        "pass --memory 2G",
    }
    for options, message in faults.items():
        done = run("search", path, *options, "-o", tmp_path / "b.volt", status=2)
        assert message in done.stderr.decode()


def test_a_map_counts_within_the_limit(tmp_path, monkeypatch):
    """With `map`, the counts of files and of ranges are spilled, and their sum is exact."""
    draw = random.Random(1)
    for number in range(3):
        lines = [" ".join(f"w{draw.randrange(4000)}" for _ in range(8)) for _ in range(2000)]
        (tmp_path / f"{number}.txt").write_text("\n".join(lines))
    heights = []
    write = SortedRuns.write

    def recorded(runs, table):
        heights.append(table.height)
        write(runs, table)

    monkeypatch.setattr(SortedRuns, "write", recorded)
    monkeypatch.setattr(Budget, "pending", 200_000)
    whole = volt.count_words(tmp_path, min_count=5)
    with ThreadPoolExecutor(2) as pool:
        for shard_map in (pool.map, in_ranges(pool.map, size=10_000)):
            heights.clear()
            assert volt.count_words(tmp_path, min_count=5, memory="512M", map=shard_map) == whole
            assert len(heights) > 1


def test_a_refusal_names_the_memory_that_suffices():
    """`Budget.check_learning` passes with the memory that its error proposes, but not with 1 MB
    less.
    """
    words = pl.int_range(10**11, 10**11 + 400_000).cast(pl.String)
    table = pl.select(word=words).with_columns(count=pl.lit(1, pl.Int64))
    with pytest.raises(CorpusError, match=r"give \d+M of memory or pass") as refusal:
        Budget.of("512M").check_learning(table)
    [enough] = re.findall(r"give (\d+)M", str(refusal.value))
    Budget.of(f"{enough}M").check_learning(table)
    with pytest.raises(CorpusError, match=f"give {enough}M"):
        Budget.of(f"{int(enough) - 1}M").check_learning(table)


def test_a_budget_is_divided_among_its_uses(monkeypatch):
    """Half of a budget of 512 MB is for words, and its uses together take no more than that half.

    `Budget.counter_limits` divides a constant number of units among the cores."""
    budget = Budget.of("512M")
    assert budget == Budget.of(512 << 20)
    assert budget.for_words == 256 << 20
    assert budget.pending + budget.table + 8 * budget.block < budget.for_words
    assert [str(Budget(n)) for n in (1024, 3 << 29, 2 << 40)] == ["1 KB", "1.5 GB", "2 TB"]
    for n_cores in (1, 4, 1000):
        monkeypatch.setattr(bounded_sums, "available_cores", lambda n=n_cores: n)
        limits = budget.counter_limits(approximate=True)
        assert limits[:3] == (max(4_096, 139_810 // n_cores), 139_810, True)
    assert Budget.of("16G").counter_limits(approximate=False)[:3] == (8_808, 1 << 22, False)


@pytest.mark.parametrize(
    ("limit", "n_parts", "n_runs"), [(66, 1, 0), (65, 1, 2), (131, 2, 2), (132, 2, 0)]
)
def test_tables_that_are_just_too_large_are_spilled(monkeypatch, limit, n_parts, n_runs):
    """`sum_within_budget` spills at the very byte at which the pending words exceed the limit.

    A word takes 32 bytes and its text. A sum of more than half of the limit is written to disk."""
    heights = []
    monkeypatch.setattr(SortedRuns, "write", lambda self, table: heights.append(table.height))
    monkeypatch.setattr(SortedRuns, "merge", lambda self: iter([]))
    monkeypatch.setattr(Budget, "pending", limit)
    sum_within_budget([part_of({"a": 1, "b": 2})] * n_parts, Budget.of("1G"), min_count=1)
    assert len(heights) == n_runs


def test_the_words_that_remain_may_just_fit(monkeypatch):
    """`sum_within_budget` returns words of exactly the limit, and refuses one byte more."""
    parts = [part_of({"ab": 3, "c": 1, "d": 9})]
    monkeypatch.setattr(Budget, "for_words", 60 * 7)
    monkeypatch.setattr(Budget, "table", 100)
    assert sum_within_budget(parts, Budget.of("1G"), min_count=1).part.table.height == 3
    monkeypatch.setattr(Budget, "table", 99)
    with pytest.raises(CorpusError, match=r"3 distinct words are too many .*, and 3 of them occur"):
        sum_within_budget(parts, Budget.of("1G"), min_count=1)


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
def test_ties_are_forgotten_together(n_words, n_symbols, words, bound):
    """`sum_approximately` forgets all words of the least count together.

    The end of a word counts as a character."""
    counts = {"aa": 5, "b": 3, "c": 3, "d": 1}
    found = sum_approximately([part_of(counts)], n_words=n_words, n_symbols=n_symbols)
    assert found.bound == bound
    assert check_bound(found, counts) == {word: counts[word] for word in words.split()}
