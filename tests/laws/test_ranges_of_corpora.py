"""Laws of ranges: however a file is cut, its ranges count as the file does, and errors name the same lines."""

import bz2
import gzip
import lzma
import pickle
from dataclasses import replace
from functools import reduce
from itertools import accumulate, chain, pairwise
from multiprocessing import get_context
from operator import add

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from volt.count import counting
from volt.count.corpus import count_words, in_ranges, shards_of
from volt.errors import ArgumentError, ConfigError, VoltError
from volt.files.blocks import read_blocks
from volt.files.ranges import (
    FileRange,
    divide_compressed_file,
    divide_file,
    open_divisible,
    read_range,
)

MARK = b"\xef\xbb\xbf"
TRICKY = st.sampled_from(
    [b"a", b"b", b" ", b"\n", b"\r\n", b"\r", b"\n\n", b"\t", "ß".encode(), "🙂".encode(), MARK]
)
BAD = st.sampled_from([b"\xff", b"\xc3", b"\x1f\x8b\x08\x00\n", b"a" * 70])
NUMBERS = "n_lines", "n_bytes", "n_bad_lines"
texts = st.lists(TRICKY, max_size=40).map(b"".join)
damaged = st.lists(TRICKY | BAD, max_size=40).map(b"".join)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("ranges") / "a.txt"


def outcome(path, **options):
    """Return the counts, or the error."""
    try:
        return count_words(path, **options)
    except VoltError as error:
        return type(error), str(error)


def at(path, cuts):
    """Return the ranges of a file, cut anywhere; none if it is empty or seems compressed."""
    if not open_divisible(str(path)):
        return []
    end = path.stat().st_size
    places = sorted({0, end, *(cut % (end + 1) for cut in cuts)})
    return [FileRange(str(path), start, stop, end) for start, stop in pairwise(places)]


@given(
    data=damaged,
    cuts=st.lists(st.integers(0, 200), max_size=8),
    errors=st.sampled_from(["strict", "replace", "skip"]),
)
@example(data=b"a\r\nb\n", cuts=[2], errors="strict")
@example(data=b"a\nb\n", cuts=[1, 2, 3], errors="strict")
@example(data="a\nß\nb".encode(), cuts=[3], errors="strict")
@example(data=MARK + b"a\n" + MARK + b"a", cuts=[1, 2, 3, 5], errors="strict")
@example(data=b"a\n\xff\nb\n\xff", cuts=[4], errors="strict")
@example(data=b"a" * 300, cuts=[1, 5, 9], errors="strict")
@example(data=b"a\n\x1f\x8b\x08\x00b\n", cuts=[2], errors="replace")
def test_the_ranges_of_a_file_count_as_the_file_does(path, data, cuts, errors):
    """Counting the ranges of a file gives the words, lines, bytes and first error of counting the
    file.
    """
    path.write_bytes(data)

    def cut(function, paths):
        return map(function, at(path, cuts) or paths)

    assert outcome(path, map=cut, errors=errors) == outcome(path, errors=errors)


def blocks_of(parts, **options):
    return [*chain.from_iterable(read_range(part, **options) for part in parts)]


PACKED = st.sampled_from([gzip.compress, bz2.compress, lzma.compress, zstandard.compress])


@given(
    data=damaged,
    pack=PACKED,
    lost=st.sampled_from([0, 0, 1, 9]),
    n=st.integers(1, 9),
    ratio=st.floats(0.01, 20),
    errors=st.sampled_from(["strict", "replace", "skip"]),
    block_size=st.integers(1, 50),
    most=st.sampled_from([5, 60, None]),
)
@example(MARK + b"a\nb\xff\na", gzip.compress, 0, 3, 0.2, "strict", 2, None)
@example(b"a\n\xff\n" + b"a\n" * 9, gzip.compress, 9, 9, 0.4, "strict", 2, None)
def test_the_ranges_of_a_packed_file_count_as_the_file_does(
    path,
    data,
    pack,
    lost,
    n,
    ratio,
    errors,
    block_size,
    most,
):
    """Counting the shares of a compressed file gives the counts and first error of the file, even
    if it is truncated.
    """
    middle = len(data) // 2
    whole = pack(data[:middle]) + pack(data[middle:])
    path.write_bytes(whole[: len(whole) - lost])
    size = path.stat().st_size
    cuts = pairwise(size * number // n for number in range(n + 1))
    parts = [FileRange(str(path), *cut, size, text_ratio=ratio) for cut in cuts]
    options = {"errors": errors, "block_size": block_size, "max_line": most}
    counted = outcome(path, map=lambda function, _: map(function, parts), **options)
    assert counted == outcome(path, **options)
    if not lost and errors == "replace" and most is None:
        blocks = blocks_of(parts, errors=errors, block_size=block_size)
        text = b"".join(block.data for block in read_blocks(str(path), errors=errors))
        assert b"".join(block.data for block in blocks) == text
        starts = [*accumulate((block.n_lines for block in blocks), initial=1)]
        assert [block.first_line for block in blocks] == starts[:-1]


def test_a_packed_file_is_divided_into_similar_shares(tmp_path):
    """A compressed file of many members is divided into shares of similar amounts of text."""
    plain, packed = tmp_path / "a.txt", tmp_path / "a.gz"
    plain.write_text("".join(f"{number} für low\n" for number in range(500_000)))
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
    parts = divide_compressed_file(str(packed), 3)
    shares = [sum(len(block.data) for block in read_range(part)) for part in parts]
    assert sum(shares) == plain.stat().st_size
    assert min(shares) > sum(shares) / 5
    for path in (str(plain), "-", str(tmp_path / "none")):
        assert divide_compressed_file(path, 3) == []


@given(data=texts, cuts=st.lists(st.integers(0, 200), max_size=8), block_size=st.integers(1, 50))
def test_every_line_is_in_one_range(path, data, cuts, block_size):
    """The lines of all ranges are the file's lines, in order, however many bytes are read at a time."""
    path.write_bytes(data)
    text = data.removeprefix(MARK)
    blocks = blocks_of(at(path, cuts), block_size=block_size)
    assert b"".join(block.data for block in blocks) == text
    n_lines = text.count(b"\n") + (text != b"" and not text.endswith(b"\n"))
    assert sum(block.n_lines for block in blocks) == n_lines


def test_what_is_packed_or_no_file_stays_whole(tmp_path):
    """Compressed files, Parquet, stdin and missing files are not divided into ranges."""
    packed, table, missing = (tmp_path / name for name in ("a.gz", "a.parquet", "none"))
    packed.write_bytes(gzip.compress(b"low lower\n" * 50, 0))
    pq.write_table(pa.table({"text": ["low"] * 9}), table)
    names = [str(packed), str(table), "-", str(missing)]
    assert shards_of(names, size=5) == names


@pytest.mark.parametrize("most", [4, 5, 9, None])
def test_a_line_that_is_too_long_is_named_as_without_ranges(path, most):
    """Reading by ranges refuses the same line that is too long as reading the whole file."""
    path.write_bytes(MARK + b"lower\nold\nnewest lower\nlow\n")
    expected = outcome(path, max_line=most)
    for size in range(1, 30):
        assert outcome(path, map=in_ranges(map, size=size), max_line=most) == expected


def test_tables_of_words_and_json_lines_are_cut_too(tmp_path):
    """Ranges consist of lines, whatever their form; errors name the line of the file."""
    table, lines = tmp_path / "words.tsv", tmp_path / "a.jsonl"
    table.write_text("low\t5\nlower\t2\n" * 9 + "new\n")
    lines.write_text('{"text": "low lower"}\n' * 9)
    cut = in_ranges(map, size=11)
    assert outcome(table, word_counts=True, map=cut) == outcome(table, word_counts=True)
    assert "words.tsv:19:" in str(outcome(table, word_counts=True, map=cut))
    assert outcome(lines, column="text", map=cut) == outcome(lines, column="text")
    assert outcome(lines, map=cut) == outcome(lines)


def test_ranges_counted_in_other_processes(tmp_path):
    """A pool of processes returns equal counts, also of large texts, whose words are counted by units."""
    path, large = tmp_path / "a.txt", tmp_path / "large.txt"
    path.write_bytes("für low\r\nlower \xff".encode() * 3 + b"\n\n" + b"x")
    large.write_bytes("für low lower, newer\n".encode() * 200_000)
    with get_context("spawn").Pool(2) as pool:
        for text, size in ((path, 7), (large, 3 << 20)):
            for name in ("whitespace", "gpt2"):
                counted = outcome(text, map=in_ranges(pool.map, size=size), pretokenizer=name)
                assert counted == outcome(text, pretokenizer=name)


def test_what_counts_a_shard_says_how_far_it_came_and_can_be_silent(path):
    """A counter of a shard reports progress; without a report, it can be pickled and counts
    equally.
    """
    path.write_bytes(b"low lower\n" * 9)
    message = []

    def apart(function, paths):
        silent = pickle.loads(pickle.dumps(replace(function, progress=None)))
        assert silent.progress is None
        assert function.progress == note
        return [reduce(add, map(silent, shards_of(paths, size=20)))]

    def note(path, done, total):
        message.append((path, done, total))

    assert count_words(path, map=apart, progress=note) == count_words(path)
    assert message == []
    count_words(path, map=in_ranges(map, size=20), progress=note)
    assert message[-1] == (str(path), 90, 90)
    assert [done for _, done, _ in message] == sorted(done for _, done, _ in message)


@pytest.mark.parametrize("size", [0, -1, 2.5, "64M"])
def test_a_size_that_is_none_is_refused(path, size):
    """A size of ranges that is not a positive whole number is refused."""
    path.write_bytes(b"low\n")
    with pytest.raises((ConfigError, ArgumentError), match="size"):
        divide_file(str(path), size=size)


def test_a_map_that_loses_a_shard_is_reported(tmp_path):
    """A `map` that returns fewer or more counts than shards, or is not a function, is reported."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"low\n" * 9)
    maps = [
        lambda function, shards: [*map(function, shards)][1:],
        lambda function, shards: [*map(function, shards)] * 2,
    ]
    for wrong in maps:
        with pytest.raises(ConfigError, match="counts for 4 shards; it must count each shard once"):
            count_words(path, map=in_ranges(wrong, size=10))
    with pytest.raises(ArgumentError, match="map is 5"):
        in_ranges(5)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_files_are_cut_by_their_size_alone(tmp_path, size):
    """Ranges follow each other without gaps; a file that is not larger than one stays whole."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"low lower\n" * 5)
    parts = divide_file(str(path), size=size)
    if size >= 50:
        assert parts == []
        assert shards_of([str(path)], size=size) == [str(path)]
        return
    places = [*range(0, 50, size), 50]
    assert [(part.start, part.stop) for part in parts] == [*pairwise(places)]


@given(
    files=st.lists(damaged, min_size=2, max_size=6),
    errors=st.sampled_from(["strict", "replace", "skip"]),
    large=st.sampled_from([1, 20, 1 << 20]),
    pretokenizer=st.sampled_from(["whitespace", "gpt2"]),
)
@example(
    files=[b"a b", b"b\n", b"", MARK + b"b"], errors="strict", large=20, pretokenizer="whitespace"
)
@example(files=[b"a", b"\nb\xff", b"\xff"], errors="strict", large=20, pretokenizer="whitespace")
def test_small_files_count_together_as_each_alone(
    tmp_path_factory, files, errors, large, pretokenizer
):
    """Small files counted together have the sums of their own counts; the first error is reported."""
    folder = tmp_path_factory.mktemp("small")
    for number, data in enumerate(files):
        (folder / f"{number}.txt").write_bytes(data)
    paths = sorted(folder.iterdir())
    options = {"errors": errors, "pretokenizer": pretokenizer, "max_line": 60}
    alone = [outcome(path, **options) for path in paths]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_LARGE", large)
        together = outcome(paths, **options)
    real = [each for each in alone if not isinstance(each, tuple) or "no words in" not in each[1]]
    failed = [each for each in real if isinstance(each, tuple)]
    if failed or not real:
        assert together == failed[0] if failed else "no words in" in together[1]
        return
    expected = reduce(add, real)
    assert together.table.equals(expected.table)
    if len(real) == len(alone):
        assert [getattr(together, name) for name in NUMBERS] == [
            getattr(expected, name) for name in NUMBERS
        ]


def test_progress_of_small_files_is_that_of_all(tmp_path):
    """Counting small files together reports progress up to the bytes of all files."""
    for number in range(5):
        (tmp_path / f"{number}.txt").write_bytes(b"low\n" * 10)
    reports = []
    count_words(tmp_path, progress=lambda *report: reports.append(report))
    assert reports == [(f"{tmp_path}/4.txt", 200, None)]


def test_a_small_packed_file_is_counted_block_by_block(tmp_path, monkeypatch):
    """Counting a small compressed file with a large text takes memory for a few blocks only."""
    sizes, joined = [], counting._join_blocks
    for number in range(2):
        (tmp_path / f"{number}.gz").write_bytes(gzip.compress(b"low lower\n" * 400_000))

    def recorded(blocks, n_raw_bytes):
        sizes.append(sum(len(block.data) for block in blocks))
        return joined(blocks, n_raw_bytes)

    monkeypatch.setattr(counting, "_join_blocks", recorded)
    assert count_words(tmp_path, block_size=1 << 18).counts.tolist() == [800_000, 800_000]
    assert sum(sizes) == 8_000_000
    assert max(sizes) < 3 << 20
