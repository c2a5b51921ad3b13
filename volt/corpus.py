"""Corpus → `WordCounts`: how often each distinct pre-token occurs, which is all that learning ever reads.

Counts form a commutative monoid: `count(a) + count(b)` is the count of both, so shards, order, block size and
compression make no difference. Polars counts one block while the next is being read and decompressed.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
...     _ = file.write(b"low lower low\\n") and file.flush()
...     counts = count_words(file.name)
>>> dict(zip(counts.words, counts.counts.tolist())), counts.total
({'low': 2, 'lower': 1}, 3)
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from hashlib import blake2b
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from volt.errors import ConfigError, CorpusError
from volt.reader import BLOCK_SIZE, Block, Errors, Sources, expand, prefetch, read_blocks
from volt.text import SPACE, Normalizer, PreTokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress = Callable[[str, int, int | None], object]
Map = Callable[[Callable[[str], "WordCounts"], Iterable[str]], Iterable["WordCounts"]]

_MAX_COUNT = 2**63 - 1
_COMPACT_ROWS, _COMPACT_PARTS = 1 << 20, 256  # partial tables are summed when there are more
_PARQUET_ROWS = 1 << 22
_WORD_COUNT = r"^(.*\S)[\t ]+([0-9]+)[\t ]*$"
_TEXT = pl.col("text")
_decode_json = json.JSONDecoder().raw_decode


class _Part(NamedTuple):
    """The count of a part of a corpus: rows in any order, a word may repeat."""

    table: pl.DataFrame
    n_lines: int
    n_bytes: int
    n_bad_lines: int


@dataclass(frozen=True, slots=True, eq=False)
class WordCounts:
    """Distinct pre-tokens and how often each occurs.

    table: columns word (String) and count (Int64, positive), sorted by the words' bytes, no word twice.
    n_lines, n_bytes: lines and bytes of (decompressed) text that were read; n_bad_lines: of these, the lines that
    were not UTF-8 or null. normalizer, pretokenizer: what made the words.

    >>> (WordCounts.from_pairs({"b": 1, "a": 2}) + WordCounts.from_pairs({"b": 5})).table.rows()
    [('a', 2), ('b', 6)]
    """

    table: pl.DataFrame
    n_lines: int = 0
    n_bytes: int = 0
    n_bad_lines: int = 0
    normalizer: Normalizer = Normalizer()
    pretokenizer: PreTokenizer = PreTokenizer()

    @classmethod
    def empty(cls) -> WordCounts:
        """The counts of nothing: `counts + WordCounts.empty()` is `counts`.

        >>> WordCounts.empty().n_words
        0
        """
        return cls.from_pairs(())

    @classmethod
    def from_pairs(
        cls,
        pairs: Mapping[str, int] | Iterable[tuple[str, int]],
        *,
        normalizer: str | Normalizer = "none",
        pretokenizer: str | PreTokenizer = "whitespace",
    ) -> WordCounts:
        """Counts of ready pre-tokens; a word that repeats adds up.

        Raises CorpusError if a word is empty, holds a lone surrogate, or a count is not a positive 64-bit integer.

        >>> WordCounts.from_pairs([("a", 1), ("b", 2), ("a", 1)]).table.rows()
        [('a', 2), ('b', 2)]
        """
        rows = list(pairs.items() if isinstance(pairs, Mapping) else pairs)
        for word, count in rows:
            if not word or not 0 < count <= _MAX_COUNT:
                raise CorpusError(
                    f"word {word!r} with count {count!r}: words are not empty, counts positive 64-bit integers"
                )
        _check_total(sum(count for _, count in rows))
        try:
            table = _table([word for word, _ in rows], [count for _, count in rows])
        except UnicodeEncodeError as error:
            raise CorpusError(f"word {error.object!r} holds a lone surrogate; it is not text") from None
        part = _summed([_Part(table, 0, 0, 0)])
        return cls(*part, _normalizer(normalizer), _pretokenizer(pretokenizer))

    @property
    def words(self) -> list[str]:
        """The distinct words, sorted."""
        return self.table["word"].to_list()

    @property
    def counts(self) -> NDArray[np.int64]:
        """(n_words,) int64: the count of each word, in the order of `words`."""
        return self.table["count"].to_numpy()

    @property
    def n_words(self) -> int:
        """The number of distinct words."""
        return self.table.height

    @property
    def total(self) -> int:
        """The number of words, repetitions included."""
        return int(self.table["count"].sum())

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that depend on the words and counts alone.

        >>> WordCounts.from_pairs({"a": 1, "b": 2}).fingerprint == WordCounts.from_pairs({"b": 2, "a": 1}).fingerprint
        True
        """
        lengths = self.table["word"].str.len_bytes().to_numpy()
        digest = blake2b(lengths.astype("<i8").tobytes(), digest_size=8)
        digest.update("".join(self.words).encode())
        digest.update(self.counts.astype("<i8").tobytes())
        return digest.hexdigest()

    def __add__(self, other: WordCounts) -> WordCounts:
        if not isinstance(other, WordCounts):
            return NotImplemented
        if self._is_unit or other._is_unit:
            return other if self._is_unit else self
        if (self.normalizer, self.pretokenizer) != (other.normalizer, other.pretokenizer):
            raise CorpusError(
                f"counts made with {self._made_with} and with {other._made_with} do not add up; count both the same way"
            )
        return replace(self, **_summed([self._part, other._part])._asdict())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordCounts):
            return NotImplemented
        return self._key == other._key and self.table.equals(other.table)

    def __hash__(self) -> int:
        return hash((self._key, self.fingerprint))

    @property
    def _part(self) -> _Part:
        return _Part(self.table, self.n_lines, self.n_bytes, self.n_bad_lines)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.n_lines, self.n_bytes, self.n_bad_lines, self.normalizer, self.pretokenizer

    @property
    def _is_unit(self) -> bool:
        return not (self.n_words or self.n_lines)

    @property
    def _made_with(self) -> str:
        return f"{self.normalizer.name}/{self.pretokenizer.name}"

    def min_count(self, n: int) -> WordCounts:
        """Only the words that occur at least n times.

        >>> WordCounts.from_pairs({"a": 2, "b": 1}).min_count(2).words
        ['a']
        """
        return replace(self, table=self.table.filter(pl.col("count") >= n))

    def rescale(self, total: int) -> WordCounts:
        """Every count times total / self.total, rounded up, so that no word vanishes.

        Raises CorpusError if the counts then exceed 64 bits.

        >>> WordCounts.from_pairs({"a": 4, "b": 1}).rescale(10).table.rows()
        [('a', 8), ('b', 2)]
        """
        if total == self.total:
            return self
        scaled = np.ceil(self.counts * (total / self.total))
        _check_total(int(scaled.sum()))
        return replace(self, table=_table(self.table["word"], scaled.astype(np.int64)))


def mix(named: Mapping[str, WordCounts], *, temperature: float = 1.0) -> WordCounts:
    """Add named sources after rescaling their totals n_i in proportion to n_i^(1/temperature).

    The largest source keeps its counts and the others grow to n_max (n_i / n_max)^(1/temperature), rounded up word
    by word; temperature 1 leaves all as they are. Raises ConfigError if the temperature is not positive or there is
    no source, CorpusError if a source has no words.

    >>> named = {"de": WordCounts.from_pairs({"und": 100}), "sw": WordCounts.from_pairs({"na": 1})}
    >>> mix(named, temperature=2).table.rows()
    [('na', 10), ('und', 100)]
    """
    if not named or not temperature > 0:
        raise ConfigError(
            f"{len(named)} sources at temperature {temperature}: give some, and a positive temperature"
        )
    for name, counts in named.items():
        if not counts.n_words:
            raise CorpusError(f"source {name!r} has no words; leave it out")
    largest = max(counts.total for counts in named.values())
    totals = {
        name: round(largest * (counts.total / largest) ** (1 / temperature)) for name, counts in named.items()
    }
    scaled = (
        named if temperature == 1 else {name: counts.rescale(totals[name]) for name, counts in named.items()}
    )
    return reduce(add, (scaled[name] for name in sorted(scaled)))


def count_words(
    sources: Sources,
    *,
    normalizer: str | Normalizer = "none",
    pretokenizer: str | PreTokenizer = "whitespace",
    fields: str | int | Iterable[int] | None = None,
    column: str | None = None,
    word_counts: bool = False,
    errors: Errors = "strict",
    min_count: int = 1,
    map: Map = map,
    progress: Progress | None = None,
    block_size: int = BLOCK_SIZE,
) -> WordCounts:
    """Count the pre-tokens of files, globs, directories or stdin ("-"), plain or compressed.

    fields: 1-based columns of tab-separated text, "2", "1,2" or [1, 2]. column: the text column of .jsonl or .parquet.
    word_counts: the files are tables, a word and its count per line, and the words are taken as they are.
    errors: what to do with a line that is not UTF-8 (or a null): "strict", "replace" or "skip".
    map: applied to the paths, e.g. a process pool's. progress: called with (path, bytes read, bytes in all or None).
    Raises CorpusError, with file and line, if a source cannot be read or there are no words.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write("Hallo Welt\\thello world\\n".encode()) and file.flush()
    ...     count_words(file.name, fields="2").words
    ['hello', 'world']
    """
    job = _Job(
        _normalizer(normalizer),
        _pretokenizer(pretokenizer),
        _fields(fields),
        column,
        word_counts,
        errors,
        block_size,
        progress,
    )
    paths = expand(sources)
    part = _summed(counts._part for counts in map(partial(_count_path, job=job), paths))
    counts = WordCounts(*part, job.normalizer, job.pretokenizer)
    kept = counts.min_count(min_count) if min_count > 1 else counts
    if not kept.n_words:
        raise CorpusError(_no_words(paths, counts, min_count))
    return kept


@dataclass(frozen=True, slots=True)
class _Job:
    """How to count one path: what `count_words` was asked for, checked and picklable."""

    normalizer: Normalizer
    pretokenizer: PreTokenizer
    fields: tuple[int, ...]
    column: str | None
    word_counts: bool
    errors: Errors
    block_size: int
    progress: Progress | None

    def __post_init__(self) -> None:
        if bool(self.fields) + (self.column is not None) + self.word_counts > 1:
            raise ConfigError("fields, column and word_counts exclude each other; give one")

    def counted(self, texts: pl.LazyFrame) -> pl.DataFrame:
        """Column text → table of word and count."""
        words = texts.select(word=self.pretokenizer.extract(self.normalizer.apply(_TEXT))).explode("word")
        counted = words.group_by("word").agg(count=pl.len().cast(pl.Int64))
        return counted.filter(pl.col("word").is_not_null()).collect(engine="streaming")

    def unit(self, word: pl.Expr) -> pl.Expr:
        """A word of a table → its pre-tokens: itself, once normalised, unless white space within must cut it."""
        word = self.normalizer.apply(word)
        if self.pretokenizer.name == "whitespace":
            return self.pretokenizer.extract(word)
        return pl.concat_list(word.str.replace_all(" ", SPACE, literal=True))


def _count_path(path: str, *, job: _Job) -> WordCounts:
    parts = _count_parquet(path, job) if _is_parquet(path) else _count_blocks(path, job)
    return WordCounts(*_summed(parts), job.normalizer, job.pretokenizer)


def _count_blocks(path: str, job: _Job) -> Iterator[_Part]:
    if job.column is None and _is_json_lines(path):
        raise CorpusError(f"{path}: JSON lines; name the text column: {_json_columns(path)}")
    size = os.path.getsize(path) if os.path.isfile(path) else None
    blocks = read_blocks(path, block_size=job.block_size, errors=job.errors)
    for block, texts in prefetch((block, _texts(block, job)) for block in blocks):
        table = _table_of_counts(block, texts, job) if job.word_counts else job.counted(texts)
        yield _Part(table, block.n_lines, len(block.data), block.n_bad_lines)
        if job.progress:
            job.progress(path, block.n_raw_bytes, size)


def _summed(parts: Iterable[_Part]) -> _Part:
    """Add up parts as they come, holding little more than the distinct words; sorted in the end."""
    pending, n_rows = [_Part(_table([], []), 0, 0, 0)], 0
    for part in parts:
        pending.append(part)
        n_rows += part.table.height
        if n_rows > max(_COMPACT_ROWS, pending[0].table.height) or len(pending) > _COMPACT_PARTS:
            pending, n_rows = [_added(pending)], 0
    whole = _added(pending)
    return whole._replace(table=whole.table.sort("word"))


def _added(parts: list[_Part]) -> _Part:
    _check_total(sum(int(part.table["count"].sum()) for part in parts))
    rows = pl.concat([part.table for part in parts]).lazy()
    table = rows.group_by("word").agg(pl.col("count").sum()).collect(engine="streaming")
    n_lines, n_bytes, n_bad_lines = (
        sum(numbers) for numbers in zip(*(part[1:] for part in parts), strict=True)
    )
    return _Part(table, n_lines, n_bytes, n_bad_lines)


def _check_total(total: int) -> None:
    if total > _MAX_COUNT:
        raise CorpusError(f"the counts add up to {total}, more than 64 bits hold; scale them down")


def _table(words: Iterable[str], counts: Iterable[int]) -> pl.DataFrame:
    return pl.DataFrame({"word": words, "count": counts}, schema={"word": pl.String, "count": pl.Int64})


def _no_words(paths: list[str], counts: WordCounts, min_count: int) -> str:
    if counts.n_words:
        return f"none of {counts.n_words} words occurs {min_count} times; lower min_count"
    names = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return f"{names}: no words in {counts.n_lines} lines; check the files and the pre-tokenizer"


def _normalizer(value: str | Normalizer) -> Normalizer:
    return Normalizer.parse(value) if isinstance(value, str) else value


def _pretokenizer(value: str | PreTokenizer) -> PreTokenizer:
    return PreTokenizer.parse(value) if isinstance(value, str) else value


def _fields(value: str | int | Iterable[int] | None) -> tuple[int, ...]:
    parts = value.split(",") if isinstance(value, str) else [value] if isinstance(value, int) else value or ()
    try:
        fields = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        fields = (0,)
    if (
        any(number < 1 for number in fields)
        or len(set(fields)) < len(fields)
        or (value is not None and not fields)
    ):
        raise ConfigError(f"fields={value!r}: give distinct column numbers from 1, such as 2 or 1,2")
    return fields


# Kinds of file: block → texts, one per row.


def _texts(block: Block, job: _Job) -> pl.LazyFrame:
    """The texts of a block, one per row, in column text."""
    if job.column is not None:
        return _json_texts(block, job.column)
    lines = pl.scan_lines(block.data, name="text")
    return _field_texts(block, lines, job.fields) if job.fields else lines


def _field_texts(block: Block, lines: pl.LazyFrame, fields: tuple[int, ...]) -> pl.LazyFrame:
    n_fields = (_TEXT.str.count_matches("\t", literal=True) + 1).alias("n")
    short = lines.select(n_fields).with_row_index().filter(pl.col("n") < max(fields)).head(1).collect()
    if short.height:
        index, n = short.row(0)
        raise CorpusError(
            f"{block.path}:{block.line_number(index)}: field {max(fields)} was asked for, but there are {n}; "
            "repair the line or ask for other fields"
        )
    parts = _TEXT.str.split("\t")
    return lines.select(text=pl.concat_list([parts.list.get(number - 1) for number in fields])).explode(
        "text"
    )


def _is_json_lines(path: str) -> bool:
    stem, ending = os.path.splitext(path)
    return (stem if ending in {".gz", ".bz2", ".xz", ".zst"} else path).endswith((".jsonl", ".ndjson"))


def _json_columns(path: str) -> str:
    block = next(read_blocks(path, block_size=1), None)
    line = block.data.decode().split("\n")[0] if block else ""
    return ", ".join(_json_record(f"{path}:1", line)) or "there are none"


def _json_texts(block: Block, column: str) -> pl.LazyFrame:
    texts = [
        _json_text(block, index, line, column) for index, line in enumerate(block.data.decode().split("\n"))
    ]
    try:
        return pl.LazyFrame({"text": texts}, schema={"text": pl.String})
    except UnicodeEncodeError as error:
        place = f"{block.path}:{block.line_number(texts.index(error.object))}"
    raise CorpusError(
        f"{place}: column {column!r} holds a lone surrogate (\\ud800 to \\udfff); repair the line"
    )


def _json_text(block: Block, index: int, line: str, column: str) -> str:
    """The text of one line; "" for a blank one. Errors are told by a second, careful look."""
    try:
        record, end = _decode_json(line)
        text = record[column]
        if isinstance(text, str) and end == len(line):
            return text
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        if not line or line.isspace():
            return ""
    place = f"{block.path}:{block.line_number(index)}"
    record = _json_record(place, line)
    if column not in record:
        raise CorpusError(f"{place}: no column {column!r}; it has: {', '.join(record)}")
    if not isinstance(text := record[column], str):
        raise CorpusError(
            f"{place}: column {column!r} is {json.dumps(text)[:40]}, not a string; repair the line"
        )
    return text


def _json_record(place: str, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: invalid JSON ({error}); repair the line") from None
    if not isinstance(record, dict):
        raise CorpusError(f"{place}: not a JSON object but {line[:40]}; repair the line")
    return record


def _table_of_counts(block: Block, lines: pl.LazyFrame, job: _Job) -> pl.DataFrame:
    """A block of "word count" lines → table; blank lines are passed over."""
    parts = _TEXT.str.extract_groups(_WORD_COUNT)
    rows = lines.with_row_index().select(
        "index", "text", word=parts.struct[0], count=parts.struct[1].cast(pl.Int64, strict=False)
    )
    rows = rows.filter(~_TEXT.str.contains(r"^\s*$")).collect()
    for index, text, _, _ in rows.filter(pl.col("count").fill_null(0) < 1).head(1).rows():
        raise CorpusError(
            f"{block.path}:{block.line_number(index)}: {text[:40]!r} is not a word, a tab or space, and a count "
            "(a positive 64-bit integer); repair the line"
        )
    _check_total(rows["count"].cast(pl.Int128).sum())
    return rows.lazy().select(job.unit(pl.col("word")), "count").explode("word").drop_nulls().collect()


def _is_parquet(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def _count_parquet(path: str, job: _Job) -> Iterator[_Part]:
    try:
        texts = _parquet_texts(path, job.column)
        for start in range(0, texts.select(pl.len()).collect().item(), _PARQUET_ROWS):
            part = texts.slice(start, _PARQUET_ROWS)
            numbers = part.select(
                pl.len(), _TEXT.str.len_bytes().sum(), _TEXT.is_null().sum(), _TEXT.is_null().arg_max()
            )
            n_rows, n_bytes, n_nulls, first = numbers.collect().row(0)
            if n_nulls and job.errors == "strict":
                raise CorpusError(
                    f"{path}: row {start + first + 1} has no text; remove it or pass --encoding-errors skip"
                )
            yield _Part(job.counted(part), n_rows, n_bytes, n_nulls)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"{path}: damaged parquet file ({error})") from error
    if job.progress:
        size = os.path.getsize(path)
        job.progress(path, size, size)


def _parquet_texts(path: str, column: str | None) -> pl.LazyFrame:
    frame = pl.scan_parquet(path, glob=False)
    textual = [
        name for name, kind in frame.collect_schema().items() if kind in (pl.String, pl.Categorical, pl.Enum)
    ]
    if column not in textual:
        asked = "name the text column" if column is None else f"no text column {column!r}"
        raise CorpusError(f"{path}: {asked}; there are: {', '.join(textual) or 'none'}")
    return frame.select(text=pl.col(column).cast(pl.String))
