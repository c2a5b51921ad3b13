"""Laws of `count_words`: counts equal collections.Counter for any form of text, and errors name the
line.
"""

import gc
import gzip
import io
import json
import pickle
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.counting import PACKERS, pairs
from support.drawn import examples

from volt.count.corpus import count_words
from volt.errors import VoltError
from volt.files import table_files
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer

TRICKY = st.sampled_from("aabbß é\t\r\x0b\x1c\x85\xa0\u2003\u3000\u200b\u0301🙂▁")
line = st.text(TRICKY | st.characters(exclude_characters="\n\0", codec="utf-8"), max_size=20)
field = line.map(lambda text: text.replace("\t", "").replace("\r", ""))
Packer = Callable[[bytes], bytes]
lines = st.lists(line, max_size=12)


def error_text(message, sources, **options):
    with pytest.raises(VoltError) as caught:
        count_words(sources, **options)
    assert message in str(caught.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("corpus")


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@given(
    parts=st.lists(lines, min_size=1, max_size=4),
    packers=st.lists(st.sampled_from([*PACKERS.values()]), min_size=4, max_size=4),
    block_size=st.integers(1, 60),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=examples(100))
def test_counts_equal_a_counter_of_the_words(folder, parts, packers, block_size, order):
    """`count_words` equals a Counter of str.split(), for any division, order, block size and
    compression.
    """
    expected = Counter(word for part in parts for text in part for word in text.split())
    paths = [folder / f"part{i}" for i in range(len(parts))]
    for path, part, packer in zip(paths, parts, packers, strict=False):
        path.write_bytes(packer("".join(f"{text}\n" for text in part).encode()))
    order.shuffle(paths)
    if not expected:
        return error_text("no words in", paths)
    counts = count_words(paths, block_size=block_size)
    assert pairs(counts) == expected
    assert counts.n_lines == sum(map(len, parts))
    assert counts.n_bytes == sum(len(f"{text}\n".encode()) for part in parts for text in part)
    return None


@pytest.mark.parametrize(
    "pretokenizer",
    ["whitespace", "unicode", "gpt2", "metaspace", "metaspace-runs", "metaspace-line", r"regex:\w"],
)
@pytest.mark.parametrize("normalizer", ["none", "nfkc+lowercase"])
@given(part=lines, block_size=st.integers(1, 60))
@example(part=["x^2 + y", "x\x01 a", "x^"], block_size=60)  # text that begins as zlib's data does
@settings(max_examples=examples(25))
def test_counts_equal_those_of_lines_split_one_by_one(
    folder, pretokenizer, normalizer, part, block_size
):
    """`count_words` equals normalising and splitting the lines one by one."""
    split = PreTokenizer(pretokenizer).split
    normalize = Normalizer.parse(normalizer).normalize
    expected = Counter(word for text in part for word in split(normalize(text.removesuffix("\r"))))
    path = folder / "text"
    path.write_bytes("".join(f"{text}\n" for text in part).encode())
    if expected:
        counts = count_words(
            path, pretokenizer=pretokenizer, normalizer=normalizer, block_size=block_size
        )
        assert pairs(counts) == expected


def test_min_count_drops_rare_words(write):
    """`min_count`, as an option and as a method, retains the words that occur at least so often."""
    path = write("a", "x x y\n")
    assert count_words(path, min_count=2) == count_words(path).min_count(2)
    assert count_words(path, min_count=2).words == ["x"]
    error_text("no word of 3 occurs 3 times or more; lower min_count", path, min_count=3)


def test_any_map_gives_the_same_counts(write):
    """A map in threads, or one that pickles the counter and the counts, gives the same counts."""
    paths = [write(f"{i}.txt", f"a b{i}\n") for i in range(5)]
    with ThreadPoolExecutor(2) as pool:
        counts = count_words(paths, map=pool.map)
    assert counts == count_words(paths) == count_words(paths[0].parent)
    assert pickle.loads(pickle.dumps(counts)) == counts
    assert count_words(paths, map=lambda f, xs: map(pickle.loads(pickle.dumps(f)), xs)) == counts


def test_stdin_is_counted(monkeypatch):
    """`count_words("-")` counts stdin, and reports progress without a size."""
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": io.BytesIO(b"a b a\n")}))
    totals = []
    counts = count_words("-", progress=lambda _, done, total: totals.append(total))
    assert pairs(counts) == {"a": 2, "b": 1}
    assert totals == [None]


def test_bad_utf8_follows_the_policy(write):
    """`errors` of strict names file and line; replace and skip count the lines that they change."""
    path = write("a", b"good\nb\xffd\n")
    error_text(f"{path}:2: invalid UTF-8 byte 0xff at column 2", path)
    replaced, skipped = (count_words(path, errors=errors) for errors in ("replace", "skip"))
    assert (replaced.words, replaced.n_lines, replaced.n_bad_lines) == (["b�d", "good"], 2, 1)
    assert (skipped.words, skipped.n_lines, skipped.n_bad_lines) == (["good"], 2, 1)


@given(rows=st.lists(st.lists(field, min_size=2, max_size=3), min_size=1, max_size=5))
@settings(max_examples=examples(40))
def test_fields_are_columns(folder, rows):
    """With `fields`, each field of a line is split as a text of its own."""
    path = folder / "a.tsv"
    path.write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())
    split = PreTokenizer("metaspace").split
    expected = Counter(word for row in rows for text in row[:2] for word in split(text))
    if expected:
        for fields in ("1,2", [2, 1], (1, 2)):
            counts = count_words(path, fields=fields, pretokenizer="metaspace", block_size=9)
            assert pairs(counts) == expected


def test_missing_fields_are_reported(write):
    """A line without a requested field is named in the error; a wrong `fields` gets an example."""
    path = write("a.tsv", "a\tb\nc\td\ne\n\n")
    error_text(
        f"{path}:3: field 2 was requested, but the line has only 1; repair the line",
        path,
        fields="2",
    )
    error_text(
        f"{path}:1: field 3 was requested, but the line has only 2", path, fields=3, block_size=1
    )
    for fields in ("0", "x", "", "1,1", [], [1.5], -1):
        error_text("give distinct column numbers, counted from 1", path, fields=fields)
    error_text(
        "fields, column and word_counts exclude each other", path, fields=1, word_counts=True
    )


@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=5), ascii=st.booleans())
@settings(max_examples=examples(40))
def test_texts_of_json_lines_are_counted(folder, texts, ascii):
    """With `column`, the text of each JSON object is counted, even if it has several lines.

    Blank lines between objects are ignored."""
    path = folder / "a.jsonl"
    rows = [json.dumps({"id": 1, "text": text}, ensure_ascii=ascii) for text in texts]
    path.write_bytes("\r\n\n".join(rows).encode())
    split = PreTokenizer("unicode").split
    expected = Counter(word for text in texts for word in split(text))
    if expected:
        counts = count_words(path, column="text", pretokenizer="unicode", block_size=9)
        assert pairs(counts) == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"text": "b"', "invalid JSON (Expecting ',' delimiter"),
        ('{"text": "b"} x', "invalid JSON (Extra data"),
        ("[1]", "not a JSON object but [1]"),
        ('"text"', 'not a JSON object but "text"'),
        (
            '{"id": 1, "body": ""}',
            "column 'text' is null or missing; the line has 'id', 'body'; name",
        ),
        ('{"text": 5}', "column 'text' is 5, not a string"),
        ('{"text": null}', "column 'text' is null or missing; the line has 'text'"),
        (r'{"text": "\ud800"}', "column 'text' contains a lone surrogate"),
        ("[" * 100_000, "invalid JSON (maximum recursion depth"),
    ],
)
def test_bad_json_is_reported_with_its_line(write, row, message):
    """The error for an invalid JSON line names file and line, compressed or not, in any block."""
    content = f'{{"text": "a"}}\n\n{row}\n{{"text": "a"}}\n'.encode()
    for path in (write("a.jsonl", content), write("a.jsonl.gz", gzip.compress(content))):
        error_text(f"{path}:3: {message}", path, column="text")
        error_text(f"{path}:3: {message}", path, column="text", block_size=1)
    gc.collect()  # a file that was left open would be reported here


def test_columns_must_be_named(write, tmp_path):
    """JSON lines and Parquet without a `column` raise an error that lists the columns."""
    path = write("a.jsonl.gz", gzip.compress(b'{"id": 1, "text": "a"}\n'))
    error_text(
        f"{path}: JSON lines, with columns of text 'text'; name one with column='text'", path
    )
    error_text("with columns of text none; name one with", write("b.ndjson", ""))
    pl.DataFrame({"id": [1], "text": ["a"], "lang": ["de"]}).write_parquet(tmp_path / "a.parquet")
    error_text(
        f"{tmp_path / 'a.parquet'}: Parquet, with columns of text 'text', 'lang'; name one with",
        tmp_path / "a.parquet",
    )
    error_text(
        "column 'id' is of type int64; name a column of text", tmp_path / "a.parquet", column="id"
    )
    error_text(
        "no column 'x'; there are 'id', 'text', 'lang'; name another",
        tmp_path / "a.parquet",
        column="x",
    )
    for kind in (pl.String, pl.Categorical, pl.Enum(["a", "b"])):
        pl.DataFrame({"text": ["a", "b", "a"]}, schema={"text": kind}).write_parquet(
            tmp_path / "a.parquet"
        )
        assert pairs(count_words(tmp_path / "a.parquet", column="text")) == {"a": 2, "b": 1}


@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=5))
@settings(max_examples=examples(30))
def test_texts_of_parquet_are_counted(folder, texts):
    """The text column of a Parquet file is counted row by row, whatever the file's name."""
    path = folder / "parquet-or-not"
    pl.DataFrame({"id": range(len(texts)), "text": texts}).write_parquet(path)
    expected = Counter(word for text in texts for word in text.split())
    if expected:
        counts = count_words(path, column="text")
        assert pairs(counts) == expected
        assert (counts.n_lines, counts.n_bytes) == (
            len(texts),
            sum(len(text.encode()) for text in texts),
        )


def test_nulls_and_damage_of_parquet_are_reported(tmp_path, monkeypatch):
    """A null in Parquet follows `errors`, in any slice of rows; a damaged file is named in the
    error.
    """
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": ["a", "b", None, "a"]}).write_parquet(path)
    for rows in (1, 100):
        monkeypatch.setattr(table_files, "_MOST_ROWS", rows)
        error_text(f"{path}:3: column 'text' is null; repair the row or pass", path, column="text")
        counts = count_words(path, column="text", errors="skip")
        assert (pairs(counts), counts.n_lines, counts.n_bad_lines) == ({"a": 2, "b": 1}, 4, 1)
    path.write_bytes(path.read_bytes()[:-9])
    error_text(f"{path}: cannot be read as Parquet (", path, column="text")


def test_word_tables_are_counted(write):
    """With `word_counts`, the last tab or space of a line separates a word and its count.

    Repeated words add up, blank lines are ignored, and words are normalised."""
    path = write("a.txt", "low\t5\nLow 2\n\n▁lo 1\r\nNew York\t3\nÉ\t4")
    counts = count_words(path, word_counts=True, normalizer="lowercase")
    assert pairs(counts) == {"low": 7, "▁lo": 1, "new": 3, "york": 3, "é": 4}
    whole = count_words(path, word_counts=True, pretokenizer="metaspace", block_size=1)
    assert pairs(whole) == {"low": 5, "Low": 2, "▁lo": 1, "New▁York": 3, "É": 4}


@pytest.mark.parametrize(
    "pretokenizer",
    ["whitespace", "unicode", "gpt2", "metaspace", "metaspace-runs", "metaspace-line"],
)
@given(texts=st.lists(line, min_size=1, max_size=4))
@settings(max_examples=examples(30))
def test_tables_of_counts_round_trip(folder, pretokenizer, texts):
    """Word counts written as a table, and read with `word_counts`, are the same."""
    words = Counter(
        word for text in texts for word in PreTokenizer(pretokenizer).split(text) if word.strip()
    )
    path = folder / "table"
    path.write_bytes("".join(f"{word}\t{n}\n" for word, n in words.items()).encode())
    if words:
        assert pairs(count_words(path, word_counts=True, pretokenizer=pretokenizer)) == words


@pytest.mark.parametrize(
    "row",
    [
        "word",
        "word 0",
        "word -3",
        "word 2.5",
        "word x",
        "7",
        " 7",
        "  7",
        "word 9223372036854775808",
    ],
)
def test_bad_tables_are_reported_with_their_line(write, row):
    """With `word_counts`, the error for a line that is not a word and a count names file and
    line.
    """
    path = write("a", f"low 5\n\n{row}\nlow 5\n")
    for block_size in (1, 1_000):
        error_text(
            f"{path}:3: {row!r} is not a word, a tab or space, and a count",
            path,
            word_counts=True,
            block_size=block_size,
        )


def test_overflowing_tables_are_reported(write):
    """With `word_counts`, counts whose sum exceeds 64 bits raise an error, in one block or
    several.
    """
    for other in ("a", "b"):
        path = write("a", f"a {2**62}\n{other} {2**62}\n")
        for block_size in (1, 1_000):
            error_text("more than 64 bits can store", path, word_counts=True, block_size=block_size)


def test_nothing_to_count_is_reported(write):
    """A corpus without words raises an error with its files and its number of lines."""
    empty = write("a", "")
    blank = write("b", " \n\n\t\n")
    error_text(f"{empty}: no words in 0 lines", empty)
    error_text(
        f"{empty}, {blank}: no words in 3 lines; check the text and the pre-tokenizer",
        [empty, blank],
    )
    for n, more in ((3, ""), (4, " and 1 more")):
        error_text(f"{blank}, {blank}, {blank}{more}: no words in {3 * n} lines", [blank] * n)
    error_text("give a file", [])


def test_huge_lines_and_words_are_linear(write):
    """A line of 10 MB, and words of 100,000 characters, are counted in reasonable time."""
    word = "é" * 100_000
    path = write("a", f"{word} " * 5 + "ab " * 3_000_000 + "\n" + word)
    for pretokenizer in ("whitespace", "metaspace"):
        counts = count_words(path, block_size=1 << 20, pretokenizer=pretokenizer)
        assert sorted(counts.counts.tolist())[-2:] == [6, 3_000_000]


@given(
    lines=st.lists(st.sampled_from(["", " ", "low", "low  lower", "\t"]), max_size=30),
    most=st.integers(1, 20),
)
@settings(deadline=None, max_examples=examples(25))
def test_many_blank_lines_and_blanks_change_nothing(tmp_path_factory, lines, most):
    """Dividing a block of many lines, and dropping its blank lines, does not change the counts."""
    path = tmp_path_factory.getbasetemp() / "blanks.txt"
    path.write_text(text := "\n".join(["low", *lines]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("volt.count.counting._MOST_LINES", most)
        for pretokenizer in ("whitespace", "metaspace"):
            counts = count_words(path, pretokenizer=pretokenizer)
            word = "low" if pretokenizer == "whitespace" else "▁low"
            assert dict(counts.table.rows()).get(word) == text.split().count("low")
            assert (counts.n_lines, counts.n_bytes) == (
                text.count("\n") + (not text.endswith("\n")),
                len(text),
            )


def test_progress_is_reported_with_bytes_and_size(tmp_path):
    """`progress` gets path, bytes read and size after each block, but once for a Parquet file."""
    text, table, lines = (tmp_path / f"a.{ending}" for ending in ("txt", "parquet", "jsonl"))
    text.write_bytes(b"low new\n" * 4)
    lines.write_text('{"t": "low"}\n' * 2)
    pl.DataFrame({"t": ["low", "new"]}).write_parquet(table)
    reports = []
    count_words(text, block_size=16, progress=lambda *report: reports.append(report))
    assert reports == [(str(text), 16, 32), (str(text), 32, 32)]
    reports.clear()
    count_words([table, lines], column="t", progress=lambda *report: reports.append(report))
    sizes = {path: path.stat().st_size for path in (table, lines)}
    assert reports == [(str(path), size, size) for path, size in sizes.items()]
