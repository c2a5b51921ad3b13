"""`WordCounts`: how often each distinct pre-token ("word") of a corpus occurs.

    WordCounts {low: 5, lower: 2} + WordCounts {low: 1} = WordCounts {low: 6, lower: 2}
    mix({"de": …, "en": …}, temperature=2): a weighted sum, in which small sources gain weight

While a corpus is counted, `CountedPart`s have the counts of some of its lines. `sum_parts` adds
them up. Counts are 64-bit integers; a total that needs more bits is an error, and never wraps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from math import fsum
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from volt import arguments
from volt.display import counted, without_bars
from volt.errors import ConfigError, CorpusError, shown
from volt.fork_guard import about_to_use_polars
from volt.text.normalizer import Normalizer, as_normalizer
from volt.text.pretokenizer import PreTokenizer, as_pretokenizer

if TYPE_CHECKING:
    from volt.array_types import Longs


MAX_TOTAL = 2**63 - 1
# Parts wait to be added up together, until they have so many rows, or there are so many parts.
_MAX_WAITING_ROWS = 1 << 22
_MAX_WAITING_PARTS = 256
EMPTY = pl.DataFrame(schema={"word": pl.String, "count": pl.Int64})
_COUNT = pl.col("count")
_NORMALIZER = Normalizer()
_PRETOKENIZER = PreTokenizer()


class CountedPart(NamedTuple):
    """The word counts of some lines of a corpus, and the numbers of these lines and their bytes.

    table: columns word (String) and count (Int64), in any order, no word twice
    n_bad_lines: how many of the lines were not UTF-8, or were null in Parquet
    """

    table: pl.DataFrame
    n_lines: int = 0
    n_bytes: int = 0
    n_bad_lines: int = 0


def sum_parts(parts: Iterable[CountedPart]) -> CountedPart:
    """Add up parts and sort the words. Memory holds little more than the distinct words."""
    about_to_use_polars()
    waiting = list[CountedPart]()
    n_rows = 0
    for part in parts:
        waiting.append(part)
        n_rows += part.table.height
        max_rows = max(_MAX_WAITING_ROWS, 2 * waiting[0].table.height)
        if n_rows > max_rows or len(waiting) > _MAX_WAITING_PARTS:
            waiting = [add_parts(waiting)]
            n_rows = waiting[0].table.height
    total = add_parts(waiting or [CountedPart(EMPTY)])
    return total._replace(table=total.table.sort("word"))


def add_parts(parts: list[CountedPart]) -> CountedPart:
    """Add up parts at once; words are in any order. Raises CorpusError beyond 64 bits."""
    if len(parts) == 1:
        return parts[0]
    check_total(sum(int(part.table["count"].sum()) for part in parts))
    tables = [part.table for part in parts if part.table.height] or [EMPTY]
    table = tables[0]
    if len(tables) > 1:
        rows = pl.concat(tables).lazy().group_by("word").agg(_COUNT.sum())
        table = rows.collect(engine="streaming")
    _, *numbers = zip(*parts, strict=True)
    return CountedPart(table, *map(sum, numbers))


def sum_counts(table: pl.DataFrame) -> int:
    """Return the sum of a column `count`, which may need more than 64 bits."""
    return int(table["count"].cast(pl.Int128).sum())


def check_total(total: int) -> None:
    """Raise CorpusError if a sum of counts needs more than 64 bits."""
    if total > MAX_TOTAL:
        raise CorpusError(
            f"the counts add up to {total}, more than 64 bits can store; scale them down"
        )


@dataclass(frozen=True, slots=True, eq=False)
class WordCounts:
    """Distinct pre-tokens ("words") and how often each occurs.

    table: columns word (String) and count (Int64, positive), sorted by the words' bytes, without
        repetitions
    n_lines: the number of lines that were read
    n_bytes: the number of bytes of decompressed text that were read
    n_bad_lines: the number of lines that were not UTF-8, or were null in Parquet
    normalizer, pretokenizer: how lines became words; counts with different settings cannot be added
    sources, temperature: the sources' names and the temperature of `mix`; equality ignores them
    bound: the maximum by which a count can be too low after approximate counting; otherwise 0
    n_left_out: the number of occurrences of words that were counted, but removed from the table

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
            columns = (f"{shown(name)} {dtype}" for name, dtype in self.table.schema.items())
            raise ConfigError(
                f"the columns of table are {', '.join(columns) or 'none'}; "
                "give word String and count Int64"
            )
        for name in ("n_lines", "n_bytes", "n_bad_lines", "bound", "n_left_out"):
            arguments.whole(getattr(self, name), name, low=0)
        check_total(sum_counts(self.table))

    def __repr__(self) -> str:
        parts = [counted(self.n_words, "word"), f"{self.total:,} in all"]
        parts.append(counted(self.n_lines, "line"))
        if self.normalizer.name != "none":
            parts.append(self.normalizer.label)
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
        """Return word counts with these words and counts; the counts of repeated words add up.

        Words are not changed or split.

        pairs: words and their counts, as a dict, a Counter or pairs
        normalizer, pretokenizer: how text became these words
        Raises CorpusError if a word is empty or not text, a count is not positive, or the total
        exceeds 64 bits.

        >>> WordCounts.from_pairs([("a", 1), ("b", 2), ("a", 1)]).table.rows()
        [('a', 2), ('b', 2)]
        """
        about_to_use_polars()
        if isinstance(pairs, Mapping):
            pairs = list(pairs.items())
        rows = list(map(_check_pair, arguments.several(pairs, "pairs")))
        check_total(sum(count for _, count in rows))
        try:
            table = pl.DataFrame(rows, schema=EMPTY.schema, orient="row")
        except UnicodeEncodeError as error:
            raise CorpusError(
                f"word {error.object!r} contains a lone surrogate; it is not text"
            ) from None
        table = table.group_by("word").agg(_COUNT.sum()).sort("word")
        return cls(
            table,
            normalizer=as_normalizer(normalizer),
            pretokenizer=as_pretokenizer(pretokenizer),
        )

    @property
    def words(self) -> list[str]:
        """The distinct words, sorted."""
        return self.table["word"].to_list()

    @property
    def counts(self) -> Longs:
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
        ignored = {"table", "sources", "temperature"}
        names = [field.name for field in fields(self) if field.name not in ignored]
        is_equal = all(getattr(self, name) == getattr(other, name) for name in names)
        return is_equal and self.table.equals(other.table)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: WordCounts) -> WordCounts:
        if not isinstance(other, WordCounts):
            return NotImplemented
        for addend, total in ((self, other), (other, self)):
            if not (addend.n_words or addend.n_lines or addend.n_left_out):
                return total
        return _add_counts([self, other])

    @property
    def origin(self) -> str:
        """The origin of the counts, as text for a signature; "" if a corpus was counted exactly.

        The text names the sources and the temperature of a mixture, and the bound of approximate
        counts.
        """
        result = ""
        if self.sources:
            names = without_bars(",".join(self.sources))
            result += f"|sources:{names}|temperature:{self.temperature:g}"
        if self.bound:
            result += f"|bound:{self.bound}"
        return result

    @property
    def part(self) -> CountedPart:
        """The table and the numbers of lines and bytes, without the settings."""
        return CountedPart(self.table, self.n_lines, self.n_bytes, self.n_bad_lines)

    def min_count(self, n: int) -> WordCounts:
        """Return the counts of the words that occur n times or more.

        n: a whole number; 1 or less retains all words
        """
        about_to_use_polars()
        table = self.table.filter(min(arguments.whole(n, "n"), MAX_TOTAL) <= _COUNT)
        n_removed = self.total - int(table["count"].sum())
        return replace(self, table=table, n_left_out=self.n_left_out + n_removed)

    def _scale(self, new_total: int) -> WordCounts:
        """Return the counts count · new_total / total, rounded to whole numbers, at least 1."""
        about_to_use_polars()
        old_total = self.total
        new, old, half, one = (
            pl.lit(number, dtype=pl.Int128) for number in (new_total, old_total, old_total // 2, 1)
        )
        rounded = (_COUNT.cast(pl.Int128) * new + half) // old
        scaled = self.table.with_columns(count=pl.max_horizontal(rounded, one))
        check_total(int(scaled["count"].sum()))
        bound = 0
        if self.bound:
            bound = -(-self.bound * new_total // old_total) + 1  # rounding may lower a count by 1
        return replace(self, table=scaled.cast({"count": pl.Int64}), bound=bound)


def mix(
    named: Mapping[str, WordCounts | Mapping[str, int]], *, temperature: float = 1.0
) -> WordCounts:
    """Add up the counts of sources, rescaled so that small sources gain weight.

    Source i, which has n_i words, gets the share p_i = n_i^(1/T) / Σ_k n_k^(1/T) of the total N.
    Each of its words gets the count N p_i / n_i · count, rounded, but at least 1. (Conneau and
    Lample 2019, Arivazhagan et al. 2019.)

    named: name of a source → its counts; the order does not matter
    temperature: T, a positive number; above 1, small sources gain weight; 1 changes no count

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
        weights = {name: (n / largest) ** (1 / temperature) for name, n in totals.items()}
        weight_sum = fsum(weights.values())  # exact, so the order does not matter
        for name, weight in weights.items():
            new_total = max(1, round(total * (weight / weight_sum)))
            sources[name] = sources[name]._scale(new_total)
    result = _add_counts([*sources.values()])
    return replace(result, sources=tuple(sorted(sources)), temperature=temperature)


def _add_counts(addends: Sequence[WordCounts]) -> WordCounts:
    first = addends[0]
    for other in addends[1:]:
        if first._settings != other._settings:
            settings = " and ".join(
                f"{counts.normalizer.label}/{counts.pretokenizer.name}" for counts in (first, other)
            )
            raise CorpusError(f"counts made with {settings} do not add up; count both the same way")
    return WordCounts(
        *sum_parts(counts.part for counts in addends),
        *first._settings,
        bound=sum(counts.bound for counts in addends),
        n_left_out=sum(counts.n_left_out for counts in addends),
    )


def as_counts(value: WordCounts | Mapping[str, int], name: str = "counts") -> WordCounts:
    """Return word counts unchanged; convert a mapping of words to counts.

    name: the name of the caller's argument, for errors
    """
    if isinstance(value, Mapping):
        return WordCounts.from_pairs(value)
    return arguments.instance(value, WordCounts, name)


def _check_pair(pair: tuple[str, int]) -> tuple[str, int]:
    """Return a word and its count. Raises an error if they are not a word and a positive number."""
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
