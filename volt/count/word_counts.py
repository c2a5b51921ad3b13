"""`WordCounts`: how often each distinct pre-token of a corpus occurs. Counts of two corpora can be added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import fsum
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, CorpusError, shown
from volt.fork_guard import about_to_use_polars
from volt.text.normalizer import Normalizer, as_normalizer
from volt.text.pretokenizer import PreTokenizer, as_pretokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MAX_TOTAL = 2**63 - 1
_COMPACT_ROWS = 1 << 22  # partial tables are summed beyond this number of rows, or
_COMPACT_PARTS = 256  # this number of parts
EMPTY = pl.DataFrame(schema={"word": pl.String, "count": pl.Int64})
_COUNT = pl.col("count")


class CountedPart(NamedTuple):
    """The counts of some lines of a corpus. table: columns word and count, in any order, no word twice"""

    table: pl.DataFrame
    n_lines: int
    n_bytes: int
    n_bad_lines: int


def summed(parts: Iterable[CountedPart]) -> CountedPart:
    """Add up parts, with little more than the distinct words in memory, and sort the words."""
    about_to_use_polars()
    pending = list[CountedPart]()
    n_rows = 0
    for part in parts:
        pending.append(part)
        n_rows += part.table.height
        most = max(_COMPACT_ROWS, 2 * pending[0].table.height)
        if n_rows > most or len(pending) > _COMPACT_PARTS:
            pending = [added(pending)]
            n_rows = pending[0].table.height
    whole = added(pending or [CountedPart(EMPTY, 0, 0, 0)])
    return whole._replace(table=whole.table.sort("word"))


def added(parts: list[CountedPart]) -> CountedPart:
    """Return the sum of parts, with words in any order."""
    if len(parts) == 1:
        return parts[0]
    check_total(sum(int(part.table["count"].sum()) for part in parts))
    tables = [part.table for part in parts if part.table.height] or [EMPTY]
    table = tables[0]
    if len(tables) > 1:
        rows = pl.concat(tables).lazy().group_by("word").agg(_COUNT.sum())
        table = rows.collect(engine="streaming")
    _, *columns = zip(*parts, strict=True)
    return CountedPart(table, *map(sum, columns))


def check_total(total: int) -> None:
    if total > MAX_TOTAL:
        raise CorpusError(
            f"the counts add up to {total}, more than 64 bits can store; scale them down"
        )


_NORMALIZER = Normalizer()
_PRETOKENIZER = PreTokenizer()


@dataclass(frozen=True, slots=True, eq=False)
class WordCounts:
    """Distinct pre-tokens and how often each occurs.

    table: columns word (String) and count (Int64, positive), sorted by the words' bytes, no word twice
    n_lines: how many lines were read
    n_bytes: how many bytes of decompressed text were read
    n_bad_lines: how many lines were not UTF-8, or were null in Parquet
    normalizer, pretokenizer: how text became words; adding counts with other settings raises CorpusError
    sources, temperature: the arguments of `mix`; equality ignores them
    bound: the maximum by which a count can be too low after approximate counting; otherwise 0
    n_left_out: occurrences of words that were counted but removed from the table

    >>> counts = WordCounts.from_pairs({"b": 1, "a": 2}) + WordCounts.from_pairs({"b": 5})
    >>> counts.words, counts.counts, counts.total
    (['a', 'b'], array([2, 6]), 8)
    >>> counts
    <WordCounts: 2 words, 8 in all, 0 lines, whitespace>
    """

    table: pl.DataFrame
    n_lines: int = 0
    n_bytes: int = 0
    n_bad_lines: int = 0
    normalizer: Normalizer = _NORMALIZER
    pretokenizer: PreTokenizer = _PRETOKENIZER
    sources: tuple[str, ...] = ()
    temperature: float = 1.0
    bound: int = 0
    n_left_out: int = 0

    def __post_init__(self) -> None:
        arguments.instance(
            self.table, pl.DataFrame, "table", remedy="did you mean WordCounts.from_pairs(…)?"
        )
        if self.table.schema != EMPTY.schema:
            columns = (f"{shown(name)} {kind}" for name, kind in self.table.schema.items())
            raise ConfigError(
                f"the columns of table are {', '.join(columns) or 'none'}; "
                "give word String and count Int64"
            )
        for name in ("n_lines", "n_bytes", "n_bad_lines", "bound", "n_left_out"):
            arguments.whole(getattr(self, name), name, low=0)
        check_total(int(self.table["count"].cast(pl.Int128).sum()))

    def __repr__(self) -> str:
        parts = [counted(self.n_words, "word"), f"{self.total:,} in all"]
        parts.append(counted(self.n_lines, "line"))
        if self.normalizer.name != "none":
            parts.append(self.normalizer.name)
        parts.append(arguments.shortened(self.pretokenizer.name))
        return f"<WordCounts: {', '.join(parts)}>"

    @classmethod
    def empty(cls) -> WordCounts:
        """Return counts without words: `counts + WordCounts.empty()` is `counts`."""
        return cls.from_pairs(())

    @classmethod
    def from_pairs(
        cls,
        pairs: Mapping[str, int] | Iterable[tuple[str, int]],
        *,
        normalizer: str | Normalizer = _NORMALIZER,
        pretokenizer: str | PreTokenizer = _PRETOKENIZER,
    ) -> WordCounts:
        """Return the counts of pre-tokens, which stay unchanged; repeated words add up.

        pairs: words and their counts, as a dict, a Counter or pairs
        normalizer, pretokenizer: how text became words
        Raises CorpusError if a word is empty or not text, a count is not positive, or the total exceeds 64 bits.

        >>> WordCounts.from_pairs([("a", 1), ("b", 2), ("a", 1)]).table.rows()
        [('a', 2), ('b', 2)]
        """
        about_to_use_polars()
        if isinstance(pairs, Mapping):
            pairs = list(pairs.items())
        rows = list(map(_row, arguments.several(pairs, "pairs")))
        check_total(sum(count for _, count in rows))
        try:
            table = pl.DataFrame(rows, schema=EMPTY.schema, orient="row")
        except UnicodeEncodeError as error:
            raise CorpusError(
                f"word {error.object!r} contains a lone surrogate; it is not text"
            ) from None
        table = table.group_by("word").agg(_COUNT.sum()).sort("word")
        settings = as_normalizer(normalizer), as_pretokenizer(pretokenizer)
        return cls(table, 0, 0, 0, *settings)

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
        """A hash of the words and their counts: 16 hexadecimal digits (BLAKE2b)."""
        digest = blake2b(digest_size=8)
        digest.update(self.table["word"].str.len_bytes().to_numpy().astype("<i8").tobytes())
        digest.update("".join(self.words).encode())
        digest.update(self.counts.astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def _settings(self) -> tuple[Normalizer, PreTokenizer]:
        return self.normalizer, self.pretokenizer

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordCounts):
            return NotImplemented
        mine, yours = (
            (*counts.part[1:], *counts._settings, counts.bound, counts.n_left_out)
            for counts in (self, other)
        )
        return mine == yours and self.table.equals(other.table)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: WordCounts) -> WordCounts:
        if not isinstance(other, WordCounts):
            return NotImplemented
        for left, right in ((self, other), (other, self)):
            if not (left.n_words or left.n_lines or left.n_left_out):
                return right
        return _added_up([self, other])

    @property
    def origin(self) -> str:
        """The sources and the temperature of a mixture, and the bound of approximate counts, for a signature."""
        result = ""
        if self.sources:
            result += f"|sources:{','.join(self.sources)}|temperature:{self.temperature:g}"
        if self.bound:
            result += f"|bound:{self.bound}"
        return result

    @property
    def part(self) -> CountedPart:
        """The counts and the numbers of lines and bytes, without normaliser and pre-tokenizer."""
        return CountedPart(self.table, self.n_lines, self.n_bytes, self.n_bad_lines)

    def min_count(self, n: int) -> WordCounts:
        """Return the counts of the words that occur at least n times.

        n: a whole number; 1 or less keeps all words
        """
        about_to_use_polars()
        is_kept = min(arguments.whole(n, "n"), MAX_TOTAL) <= _COUNT
        table = self.table.filter(is_kept)
        rare = self.table.filter(~is_kept)
        return replace(self, table=table, n_left_out=self.n_left_out + int(rare["count"].sum()))

    def _scaled(self, total: int, offset: int, *, extra_bound: int) -> WordCounts:
        """Return the counts ⌊(count · total + offset) / self.total⌋, but at least 1."""
        about_to_use_polars()
        new, old, least = (pl.lit(number, dtype=pl.Int128) for number in (total, self.total, 1))
        rounded = (_COUNT.cast(pl.Int128) * new + offset) // old
        scaled = self.table.with_columns(count=pl.max_horizontal(rounded, least))
        check_total(int(scaled["count"].sum()))
        bound = 0
        if self.bound:
            bound = -(-self.bound * total // max(1, self.total)) + extra_bound
        return replace(self, table=scaled.cast({"count": pl.Int64}), bound=bound)


def mix(
    named: Mapping[str, WordCounts | Mapping[str, int]], *, temperature: float = 1.0
) -> WordCounts:
    """Add named sources after rescaling their totals n_i in proportion to n_i^(1/temperature).

    named: the counts of each source, by its name; their order does not matter
    temperature: a positive number; above 1, small sources gain weight; 1 changes nothing

    Source i gets the share p_i = n_i^(1/T) / Σ_k n_k^(1/T) of the total N, and each word the count N p_i / n_i · count,
    rounded, but at least 1. (Conneau and Lample 2019, Arivazhagan et al. 2019.)

    >>> mix({"de": {"und": 100}, "sw": {"na": 1}}, temperature=2).table.rows()
    [('na', 9), ('und', 92)]
    """
    remedy = (
        "give the counts of each source by its name, such as mix({'de': german, 'en': english})"
    )
    sources = {
        str(name): as_counts(counts, f"named[{name!r}]")
        for name, counts in arguments.mapping(named, "named", remedy=remedy).items()
    }
    temperature = arguments.number(temperature, "temperature")
    if not sources or not temperature > 0:
        raise ConfigError(
            f"{counted(len(sources), 'source')}, temperature {temperature}: "
            "give sources and a positive temperature"
        )
    for name, counts in sources.items():
        if not counts.n_words:
            raise CorpusError(f"source {name!r} has no words; leave it out")

    totals = {name: counts.total for name, counts in sources.items()}
    total = sum(totals.values())
    check_total(total)
    if temperature != 1:
        largest = max(totals.values())
        shares = {name: (n / largest) ** (1 / temperature) for name, n in totals.items()}
        whole = fsum(shares.values())  # exact, whatever the order
        for name, n in totals.items():
            new = max(1, round(total * (shares[name] / whole)))
            sources[name] = sources[name]._scaled(new, n // 2, extra_bound=1)
    result = _added_up([*sources.values()])
    return replace(result, sources=tuple(sorted(sources)), temperature=temperature)


def _added_up(several: Sequence[WordCounts]) -> WordCounts:
    first = several[0]
    for other in several[1:]:
        if first._settings != other._settings:
            settings = " and ".join(
                f"{counts.normalizer.name}/{counts.pretokenizer.name}" for counts in (first, other)
            )
            raise CorpusError(f"counts made with {settings} do not add up; count both the same way")
    return WordCounts(
        *summed(counts.part for counts in several),
        *first._settings,
        bound=sum(counts.bound for counts in several),
        n_left_out=sum(counts.n_left_out for counts in several),
    )


def as_counts(value: WordCounts | Mapping[str, int], name: str = "counts") -> WordCounts:
    """Return counts; convert a mapping."""
    if isinstance(value, Mapping):
        return WordCounts.from_pairs(value)
    return arguments.instance(value, WordCounts, name)


def _row(pair: tuple[str, int]) -> tuple[str, int]:
    if isinstance(pair, str):
        raise arguments.refusal(
            pair, "a pair", "did you mean WordCounts.from_pairs(collections.Counter(words))?"
        )
    try:
        word, count = pair
    except (TypeError, ValueError):
        raise arguments.refusal(pair, "a pair", "give a word and its count") from None
    if not (isinstance(word, str) and word and isinstance(count, Integral) and int(count) > 0):
        raise CorpusError(
            f"word {word!r}, count {count!r}: give non-empty words and positive integers"
        )
    return word, int(count)
