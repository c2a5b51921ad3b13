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
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from hashlib import blake2b
from numbers import Integral
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from volt.errors import ConfigError, CorpusError
from volt.reader import BLOCK_SIZE, Block, Errors, Sources, expand, prefetch, read_blocks
from volt.special import SpecialTokens
from volt.text import SPACE, Normalizer, PreTokenizer, check_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Progress = Callable[[str, int, int | None], object]
Map = Callable[[Callable[[str], "WordCounts"], Iterable[str]], Iterable["WordCounts"]]

_MAX_TOTAL = 2**63 - 1
_COMPACT_ROWS, _COMPACT_PARTS = 1 << 22, 256  # partial tables are summed when there are more
_PARQUET_ROWS = 1 << 22  # per step
_NORMALIZER, _PRETOKENIZER = Normalizer(), PreTokenizer()
_EMPTY = pl.DataFrame(schema={"word": pl.String, "count": pl.Int64})
_TEXT, _WORD, _COUNT = pl.col("text"), pl.col("word"), pl.col("count")
_SPACES = bytes(ord("\n") if chr(byte).isspace() and byte < 128 else byte for byte in range(256))
_TABLE_LINE = r"^(.+)[\t ]([0-9]+)$"
_decode_json = json.JSONDecoder().raw_decode


class _Part(NamedTuple):
    """The count of a part of a corpus; the rows are in any order."""

    table: pl.DataFrame
    n_lines: int
    n_bytes: int
    n_bad_lines: int


@dataclass(frozen=True, slots=True, eq=False)
class WordCounts:
    """Distinct pre-tokens and how often each occurs.

    table: columns word (String) and count (Int64, positive), sorted by the words' bytes, no word twice.
    n_lines, n_bytes: of (decompressed) text read; n_bad_lines: those of them that were not UTF-8, or null.
    normalizer, pretokenizer: what made the words; adding counts made differently raises CorpusError.

    >>> counts = WordCounts.from_pairs({"b": 1, "a": 2}) + WordCounts.from_pairs({"b": 5})
    >>> counts.words, counts.counts, counts.n_words, counts.total
    (['a', 'b'], array([2, 6]), 2, 8)
    """

    table: pl.DataFrame
    n_lines: int = 0
    n_bytes: int = 0
    n_bad_lines: int = 0
    normalizer: Normalizer = _NORMALIZER
    pretokenizer: PreTokenizer = _PRETOKENIZER

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
        normalizer: str | Normalizer = _NORMALIZER,
        pretokenizer: str | PreTokenizer = _PRETOKENIZER,
    ) -> WordCounts:
        """Counts of ready pre-tokens, taken as they are; a word that repeats adds up.

        Raises CorpusError if a word is empty or no text, a count not positive, or the total beyond 64 bits.

        >>> WordCounts.from_pairs([("a", 1), ("b", 2), ("a", 1)]).table.rows()
        [('a', 2), ('b', 2)]
        """
        rows = list(pairs.items() if isinstance(pairs, Mapping) else pairs)
        for word, count in rows:
            if not (isinstance(word, str) and word and isinstance(count, Integral) and int(count) > 0):
                raise CorpusError(f"word {word!r}, count {count!r}: give non-empty words and positive integers")
        _check_total(sum(int(count) for _, count in rows))
        try:
            table = pl.DataFrame(rows, schema=_EMPTY.schema, orient="row").group_by("word").agg(_COUNT.sum())
        except UnicodeEncodeError as error:
            raise CorpusError(f"word {error.object!r} holds a lone surrogate; it is not text") from None
        return cls(*_summed([_Part(table, 0, 0, 0)]), _normalizer(normalizer), _pretokenizer(pretokenizer))

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
        """16 hexadecimal digits (BLAKE2b) that depend on words and counts alone."""
        digest = blake2b(digest_size=8)
        digest.update(self.table["word"].str.len_bytes().to_numpy().astype("<i8").tobytes())
        digest.update("".join(self.words).encode())
        digest.update(self.counts.astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def _provenance(self) -> tuple[int, int, int, Normalizer, PreTokenizer]:
        return self.n_lines, self.n_bytes, self.n_bad_lines, self.normalizer, self.pretokenizer

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordCounts):
            return NotImplemented
        return self._provenance == other._provenance and self.table.equals(other.table)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: WordCounts) -> WordCounts:
        if not isinstance(other, WordCounts):
            return NotImplemented
        for left, right in ((self, other), (other, self)):
            if not (left.n_words or left.n_lines):
                return right
        if self._provenance[3:] != other._provenance[3:]:
            made_with = " and ".join(f"{one.normalizer.name}/{one.pretokenizer.name}" for one in (self, other))
            raise CorpusError(f"counts made with {made_with} do not add up; count both the same way")
        return replace(self, **_summed([self._part(), other._part()])._asdict())

    def _part(self) -> _Part:
        return _Part(self.table, self.n_lines, self.n_bytes, self.n_bad_lines)

    def min_count(self, n: int) -> WordCounts:
        """Only the words that occur at least n times.

        >>> WordCounts.from_pairs({"a": 2, "b": 1}).min_count(2).words
        ['a']
        """
        return replace(self, table=self.table.filter(pl.col("count") >= n))

    def rescale(self, total: int) -> WordCounts:
        """Every count times total / self.total, rounded up, so that no word vanishes.

        Raises CorpusError if the counts then add up to more than 64 bits hold.

        >>> WordCounts.from_pairs({"a": 4, "b": 1}).rescale(12).table.rows()
        [('a', 10), ('b', 3)]
        """
        new, old = (pl.lit(number, dtype=pl.Int128) for number in (total, self.total))
        scaled = self.table.with_columns((_COUNT.cast(pl.Int128) * new + old - 1) // old)
        _check_total(int(scaled["count"].sum()))
        return replace(self, table=scaled.cast({"count": pl.Int64}))


def mix(named: Mapping[str, WordCounts], *, temperature: float = 1.0) -> WordCounts:
    """Add named sources after rescaling their totals n_i in proportion to n_i^(1/temperature).

    The largest source keeps its counts; the others grow (or shrink, below temperature 1) to the total
    n_max (n_i / n_max)^(1/temperature), rounded up word by word. Temperature 1 changes nothing.
    Raises ConfigError if the temperature is not positive or no source is given, CorpusError if one is empty.

    >>> named = {"de": WordCounts.from_pairs({"und": 100}), "sw": WordCounts.from_pairs({"na": 1})}
    >>> mix(named, temperature=2).table.rows()
    [('na', 10), ('und', 100)]
    """
    if not named or not temperature > 0:
        raise ConfigError(f"{len(named)} sources, temperature {temperature}: give sources and a positive temperature")
    if empty := [name for name, counts in named.items() if not counts.n_words]:
        raise CorpusError(f"source {empty[0]!r} has no words; leave it out")
    largest = max(counts.total for counts in named.values())
    return reduce(add, (_warmed(counts, largest, temperature=temperature) for counts in named.values()))


def _warmed(counts: WordCounts, largest: int, *, temperature: float) -> WordCounts:
    if temperature == 1 or counts.total == largest:
        return counts
    return counts.rescale(max(1, round(largest * (counts.total / largest) ** (1 / temperature))))


def count_words(
    sources: Sources,
    *,
    normalizer: str | Normalizer = _NORMALIZER,
    pretokenizer: str | PreTokenizer = _PRETOKENIZER,
    fields: str | int | Iterable[int] | None = None,
    column: str | None = None,
    word_counts: bool = False,
    errors: Errors = "strict",
    min_count: int = 1,
    special: SpecialTokens | None = None,
    map: Map = map,
    progress: Progress | None = None,
    block_size: int = BLOCK_SIZE,
) -> WordCounts:
    """Count the pre-tokens of files, globs, directories or stdin ("-"), plain or compressed.

    fields: columns of tab-separated text, from 1: 2, "1,2" or [1, 2].
    column: the text column of .jsonl or .parquet.
    word_counts: the files are tables, a word and its count per line; words are normalised, and only cut at
        white space, if that is how pre-tokens are made.
    errors: what to do with a line that is not UTF-8 (or null in parquet): "strict", "replace" or "skip".
    map: applied to the paths, such as a process pool's.
    progress: called with the path, the bytes read, and the bytes in all (None for a pipe).
    Raises CorpusError, with file and line, if a source cannot be read or there are no words.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"Hallo Welt\\thello world\\n") and file.flush()
    ...     count_words(file.name, fields=2).words
    ['hello', 'world']
    """
    made_with = _normalizer(normalizer), _pretokenizer(pretokenizer)
    job = _Job(*made_with, _fields(fields), column, word_counts, errors, progress, block_size, special)
    paths = expand(sources)
    part = _summed(counts._part() for counts in map(partial(_count_path, job=job), paths))
    counts = WordCounts(*part, *made_with)
    kept = counts.min_count(min_count)
    if not kept.n_words:
        raise CorpusError(_no_words(paths, counts, min_count=min_count))
    return kept


@dataclass(frozen=True, slots=True)
class _Job:
    """What `count_words` was asked for, checked; picklable, if `progress` is."""

    normalizer: Normalizer
    pretokenizer: PreTokenizer
    fields: tuple[int, ...]
    column: str | None
    word_counts: bool
    errors: Errors
    progress: Progress | None
    block_size: int
    special: SpecialTokens | None

    def __post_init__(self) -> None:
        if bool(self.fields) + (self.column is not None) + self.word_counts > 1:
            raise ConfigError("fields, column and word_counts exclude each other; give one")

    @property
    def cuts_first(self) -> bool:
        """Whether texts may be cut at ASCII white space before all else: the same, but faster."""
        return self.pretokenizer.name == "whitespace" and not self.fields and not self.word_counts

    def counted(self, texts: pl.LazyFrame) -> pl.DataFrame:
        """Column text → table of word and count; texts that were cut first are few, once counted themselves."""
        words = self.pretokenizer.extract(self.normal(_TEXT))
        if self.cuts_first:
            texts = texts.group_by("text").agg(count=pl.len().cast(pl.Int64))
            rows = texts.select("count", word=words).explode("word").group_by("word").agg(_COUNT.sum())
        else:
            rows = texts.select(word=words).explode("word").group_by("word").agg(count=pl.len().cast(pl.Int64))
        return rows.filter(_WORD.is_not_null()).collect(engine="streaming").select("word", "count")

    def normal(self, text: pl.Expr) -> pl.Expr:
        """A text with user tokens hidden, normalised."""
        return self.normalizer.apply(self.special.hide(text) if self.special else text)

    def units(self, word: pl.Expr) -> pl.Expr:
        """A word of a table → the pre-tokens that it stands for."""
        word = self.normal(word)
        if self.pretokenizer.name == "whitespace":
            return self.pretokenizer.extract(word)
        return pl.concat_list(word.str.replace_all(" ", SPACE, literal=True))


def _count_path(path: str, *, job: _Job) -> WordCounts:
    parts = _count_parquet(path, job) if _is_parquet(path) else _count_blocks(path, job)
    return WordCounts(*_summed(parts), job.normalizer, job.pretokenizer)


def _count_blocks(path: str, job: _Job) -> Iterator[_Part]:
    if job.column is None and _is_json_lines(path):
        raise CorpusError(f"{path}: JSON lines; name the text column, one of: {_json_columns(path)}")
    size = os.path.getsize(path) if os.path.isfile(path) else None
    blocks = read_blocks(path, block_size=job.block_size, errors=job.errors)
    for block, texts in prefetch((block, _texts(block, job)) for block in blocks):
        table = _table_block(block, job) if job.word_counts else job.counted(texts)
        yield _Part(table, block.n_lines, len(block.data), block.n_bad_lines)
        if job.progress:
            job.progress(path, block.n_raw_bytes, size)


def _summed(parts: Iterable[_Part]) -> _Part:
    """Add up parts as they come, holding little more than the distinct words; sorted in the end."""
    pending: list[_Part] = []
    n_rows = 0
    for part in parts:
        pending.append(part)
        n_rows += part.table.height
        if n_rows > max(_COMPACT_ROWS, 2 * pending[0].table.height) or len(pending) > _COMPACT_PARTS:
            pending = [_added(pending)]
            n_rows = pending[0].table.height
    whole = _added(pending or [_Part(_EMPTY, 0, 0, 0)])
    return whole._replace(table=whole.table.sort("word"))


def _added(parts: list[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    _check_total(sum(int(part.table["count"].sum()) for part in parts))
    rows = pl.concat([part.table for part in parts]).lazy()
    table = rows.group_by("word").agg(_COUNT.sum()).collect(engine="streaming")
    n_lines, n_bytes, n_bad_lines = (sum(numbers) for numbers in zip(*(part[1:] for part in parts), strict=True))
    return _Part(table, n_lines, n_bytes, n_bad_lines)


def _check_total(total: int) -> None:
    if total > _MAX_TOTAL:
        raise CorpusError(f"the counts add up to {total}, more than 64 bits hold; scale them down")


def _no_words(paths: list[str], counts: WordCounts, *, min_count: int) -> str:
    if counts.n_words:
        return f"none of {counts.n_words} distinct words occurs {min_count} times; lower min_count"
    names = ", ".join(paths[:3]) + f" and {len(paths) - 3} more" * (len(paths) > 3)
    return f"{names}: no words in {counts.n_lines} lines; check the files and the pre-tokenizer"


def _normalizer(value: str | Normalizer) -> Normalizer:
    return Normalizer.parse(value) if isinstance(value, str) else value


def _pretokenizer(value: str | PreTokenizer) -> PreTokenizer:
    return PreTokenizer.parse(value) if isinstance(value, str) else value


def _fields(value: str | int | Iterable[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    parts = value.split(",") if isinstance(value, str) else [value] if isinstance(value, int) else value
    fields = tuple(int(part) if str(part).strip().isdecimal() else 0 for part in parts)
    if not fields or min(fields) < 1 or len(set(fields)) < len(fields):
        raise ConfigError(f"fields={value!r}: give distinct column numbers, counted from 1, such as 2 or 1,2")
    return fields


# The kinds of file: a block → its texts.


def _texts(block: Block, job: _Job) -> pl.LazyFrame:
    """The texts of a block, one per row, in column text."""
    if job.fields:
        return _field_texts(block, job.fields)
    if job.column is None:
        return _lines(block.data, job)
    texts = _json_texts(block, job.column)
    if job.cuts_first:
        return _lines("\n".join(texts).encode(), job)
    return pl.LazyFrame({"text": texts}, schema={"text": pl.String})


def _lines(data: bytes, job: _Job) -> pl.LazyFrame:
    return pl.scan_lines(data.translate(_SPACES) if job.cuts_first else data, name="text")


def _field_texts(block: Block, fields: tuple[int, ...]) -> pl.LazyFrame:
    lines = pl.scan_lines(block.data, name="text")
    n_fields = _TEXT.str.count_matches("\t", literal=True) + 1
    short = lines.select(n=n_fields).with_row_index().filter(pl.col("n") < max(fields)).head(1).collect()
    for index, n in short.rows():
        found = f"field {max(fields)} was asked for, but there are {n}"
        raise CorpusError(f"{block.place(index)}: {found}; repair the line")
    parts = _TEXT.str.split("\t")
    return lines.select(text=pl.concat_list([parts.list.get(number - 1) for number in fields])).explode("text")


def _is_json_lines(path: str) -> bool:
    stem, ending = os.path.splitext(path)
    return (stem if ending in {".gz", ".bz2", ".xz", ".zst"} else path).endswith((".jsonl", ".ndjson"))


def _json_columns(path: str) -> str:
    for block in read_blocks(path, block_size=1):
        line = block.data.decode().split("\n")[0]
        return ", ".join(_json_record(f"{path}:1", line))
    return "none, it is empty"


def _json_texts(block: Block, column: str) -> list[str]:
    lines = block.data.decode().split("\n")
    texts = [_json_text(line, column) for line in lines]
    return [
        _json_text_or_reason(block.place(index), lines[index], column=column) if text is None else text
        for index, text in enumerate(texts)
    ]


def _json_text(line: str, column: str) -> str | None:
    """The text of one line, or None if it needs a second, careful look."""
    try:
        record, end = _decode_json(line)
        text = record[column]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
    careful = not isinstance(text, str) or end < len(line) or ("\\u" in line and not _is_text(text))
    return None if careful else text


def _is_text(text: str) -> bool:
    try:
        check_text(text)
    except CorpusError:
        return False
    return True


def _json_text_or_reason(place: str, line: str, *, column: str) -> str:
    if not line or line.isspace():
        return ""
    record = _json_record(place, line)
    if column not in record:
        raise CorpusError(f"{place}: no column {column!r}; there are: {', '.join(record)}")
    if not isinstance(text := record[column], str):
        raise CorpusError(f"{place}: column {column!r} is {json.dumps(text)[:40]}, not a string; repair the line")
    if not _is_text(text):
        raise CorpusError(f"{place}: column {column!r} holds a lone surrogate (\\ud800 to \\udfff); repair the line")
    return text


def _json_record(place: str, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: invalid JSON ({error}); repair the line") from None
    if not isinstance(record, dict):
        raise CorpusError(f"{place}: not a JSON object but {line[:40]}; repair the line")
    return record


def _table_block(block: Block, job: _Job) -> pl.DataFrame:
    """A block of lines "word count" → table; blank lines are passed over."""
    parts = _TEXT.str.extract_groups(_TABLE_LINE).struct
    filled = pl.scan_lines(block.data, name="text").with_row_index().filter(_TEXT.str.contains(r"[^\t ]"))
    table = filled.with_columns(word=job.units(parts[0]), count=parts[1].cast(pl.Int64, strict=False)).collect()
    bad = table.filter((_COUNT.fill_null(0) < 1) | (_WORD.list.len().fill_null(0) == 0))
    for index, text in bad.select("index", "text").head(1).rows():
        raise CorpusError(
            f"{block.place(index)}: {text[:40]!r} is not a word, a tab or space, "
            "and a count (a positive 64-bit integer); repair the line"
        )
    rows = table.select("count", "word").explode("word")
    _check_total(int(rows["count"].cast(pl.Int128).sum()))
    return rows.group_by("word").agg(_COUNT.sum())


def _is_parquet(path: str) -> bool:
    if not os.path.isfile(path) or not os.access(path, os.R_OK):  # a pipe must not be looked into
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _count_parquet(path: str, job: _Job) -> Iterator[_Part]:
    size = os.path.getsize(path)
    try:
        texts = _parquet_texts(path, job.column)
        for start in range(0, texts.select(pl.len()).collect().item(), _PARQUET_ROWS):
            yield _parquet_part(texts.slice(start, _PARQUET_ROWS), job, place=f"{path}: row", start=start)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"{path}: damaged parquet file ({error}); copy it again") from error
    if job.progress:
        job.progress(path, size, size)


def _parquet_texts(path: str, column: str | None) -> pl.LazyFrame:
    frame = pl.scan_parquet(path, glob=False)
    kinds = frame.collect_schema()
    textual = [name for name, kind in kinds.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    if column not in textual:
        asked = "parquet; name the text column" if column is None else f"no text column {column!r}"
        raise CorpusError(f"{path}: {asked}; there are: {', '.join(textual) or 'none'}")
    return frame.select(text=pl.col(column).cast(pl.String))


def _parquet_part(texts: pl.LazyFrame, job: _Job, *, place: str, start: int) -> _Part:
    null = _TEXT.is_null()
    numbers = texts.select(pl.len(), n_bytes=_TEXT.str.len_bytes().sum(), n_nulls=null.sum(), first=null.arg_max())
    n_rows, n_bytes, n_nulls, first = numbers.collect().row(0)
    if n_nulls and job.errors == "strict":
        raise CorpusError(f"{place} {start + first + 1} is null; remove it or pass --encoding-errors skip")
    return _Part(job.counted(texts), n_rows, n_bytes, n_nulls)
