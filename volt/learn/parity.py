"""Named sources → `Candidates` that treat them alike: the worst-compressed source chooses each merge.

    rate of source s = pieces of s / units of s

Plain BPE favours the largest source. Here each merge is the most frequent pair of the worst source, which has the
highest rate (Foroutan et al. 2025, arXiv 2508.04796). Encoding does not depend on a text's source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from volt import arguments
from volt.count.word_counts import as_counts, mix
from volt.display import counted
from volt.errors import ConfigError, CorpusError
from volt.files.threads import run_watched
from volt.fork_guard import about_to_use_polars
from volt.learn.bpe import (
    N_SURE,
    as_marker,
    atoms_of,
    checked_limits,
    ending_of,
    learn_bpe,
    numbered,
    replay_bpe,
    spelled_atoms,
    token_strings,
)
from volt.learn.candidates import Candidates, Longs
from volt.text.atoms import Marker
from volt.text.byte_alphabet import ALPHABET
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts
    from volt.kernels.arrays import Words

Unit = Literal["character", "byte", "line"]
Named = Mapping[str, "WordCounts | Mapping[str, int]"]

_HIDDEN = f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]"
_CONTINUING = f"[{''.join(ALPHABET[0x80:0xC0])}]"  # all bytes of a character but the first, as bytes are spelled


def learn_parity(
    sources: Named,
    n_merges: int | None = None,
    *,
    unit: Unit = "character",
    temperature: float = 1.0,
    marker: Marker | None = None,
    min_pair_count: int = 2,
    report: Callable[[int], object] | None = None,
) -> Candidates:
    """Learn up to `n_merges` merges. Each is the most frequent pair of the source with the most pieces per unit so far.

    sources: the counts of two sources or more, by name; their order does not matter
    n_merges: how many merges to learn, 0 or more; None is 30,000
    unit: how a source's length is counted: "character" or "byte" of its words, or "line", for line-by-line translations
    temperature: the temperature of `mix`; it affects the candidates' token counts, but not the merges
    marker: as in `learn_bpe`
    min_pair_count: how often a pair must occur, in the source that chooses the merge, to be merged
    report: called with the number of merges done, several times a second

    Ties go to the source with the most words, then to the source whose fingerprint sorts first. If a source has no pair
    that is frequent enough, the next worst source chooses.
    Raises ConfigError, CorpusError or CandidateError if a source or a number is unsuitable.

    >>> candidates = learn_parity({"en": {"low": 50, "lower": 20}, "fi": {"uuni": 2, "suu": 1}}, n_merges=3)
    >>> candidates, candidates.merges[:2]
    (<Candidates: 14 tokens, 11 atoms, 3 merges, suffix, from 73 words>, [('l', 'o'), ('u', 'u')])
    """
    from volt.kernels.bpe_tables import MOST
    from volt.kernels.learn import Until, learn

    named, mixture = _several(sources, temperature)
    requested, min_pair_count = checked_limits(n_merges, min_pair_count)
    n_merges = min(N_SURE if requested is None else requested, MOST, 2**30 // len(named))
    marker = as_marker(marker, mixture)
    units = n_units(named, unit)
    order = sorted(named, key=lambda name: (-named[name].total, named[name].fingerprint))

    joined = _joined([named[name] for name in order], marker)
    words = joined.labelled()
    n_pieces = joined.by_source(np.diff(words.ends, prepend=0))
    tokens, final = spelled_atoms(joined.codes)
    labelled_tokens = [token for token in tokens for _ in order]
    texts = token_strings(labelled_tokens, len(order) * (n_merges + 1))
    ending = ending_of(marker)
    lengths = np.array([units[name] for name in order], np.int64)
    until = Until(n_merges, min_pair_count, n_merges, min_pair_count)
    learned, _ = run_watched(
        lambda progress: learn(
            words, texts, final, ending, until, progress, units=lengths, pieces=n_pieces
        ),
        report=arguments.function(report, "report"),
    )

    merges = []
    for first, second in learned.merges.tolist():
        merges.append((tokens[first], tokens[second]))
        tokens.append(tokens[first] + tokens[second])
    left = 0 if len(merges) < n_merges else None
    return replace(replay_bpe(mixture, merges, marker=marker), parity=unit, left=left)


class SourceParity(NamedTuple):
    """A source's length, and its pieces under plain BPE and under the measured candidates."""

    name: str
    n_units: int
    plain: int
    fair: int


@dataclass(frozen=True, slots=True)
class Parity:
    """How evenly plain BPE and other candidates of the same size compress sources.

    unit: the unit in which a source's length is counted
    size: the number of tokens, atoms included; no token is left out
    sources: one row for each source, sorted by name

    >>> Parity("line", 100, (SourceParity("en", 10, 80, 90), SourceParity("ta", 10, 160, 135))).ratios
    (2.0, 1.5)
    """

    unit: Unit
    size: int
    sources: tuple[SourceParity, ...]

    def __repr__(self) -> str:
        plain, fair = self.ratios
        facts = [
            counted(len(self.sources), "source"),
            f"{self.size:,} tokens",
            f"worst ÷ best {plain:.3f} → {fair:.3f} pieces per {self.unit}",
            f"{self.cost:+.1%} pieces",
        ]
        return f"<Parity: {', '.join(facts)}>"

    @property
    def ratios(self) -> tuple[float, float]:
        """The worst source's pieces per unit ÷ the best source's: for plain BPE, and for the candidates."""
        rates = [(row.plain / row.n_units, row.fair / row.n_units) for row in self.sources]
        plain, fair = zip(*rates, strict=True)
        return max(plain) / min(plain), max(fair) / min(fair)

    @property
    def cost(self) -> float:
        """The number of pieces of all sources, relative to plain BPE; 0.01 is one percent more."""
        n_fair = sum(row.fair for row in self.sources)
        n_plain = sum(row.plain for row in self.sources)
        return n_fair / n_plain - 1


def measure_parity(
    sources: Named, candidates: Candidates, *, size: int, unit: Unit = "character"
) -> Parity:
    """Measure how evenly candidates compress sources, compared with plain BPE of the same mixture and size.

    sources: the counts of each source, by name
    candidates: the result of `learn_parity`, or any others
    size: tokens, atoms included
    unit: as in `learn_parity`

    >>> sources = {"en": {"low": 50, "lower": 20}, "fi": {"uuni": 2, "suu": 1}}
    >>> measure_parity(sources, learn_parity(sources, n_merges=3), size=14)
    <Parity: 2 sources, 14 tokens, worst ÷ best 2.273 → 1.131 pieces per character, +54.5% pieces>
    """
    named, _ = _several(sources, 1.0)
    candidates = arguments.instance(candidates, Candidates, "candidates")
    marker = candidates.marker
    n_merges = candidates.merges_at(size)
    units = n_units(named, unit)
    plain = learn_bpe(candidates.counts, n_merges, marker=marker, min_pair_count=1)
    joined = _joined(list(named.values()), marker)
    n_plain = joined.n_pieces(plain.merges, marker)
    n_fair = joined.n_pieces(candidates.merges[:n_merges], marker)
    rows = zip(named, units.values(), n_plain, n_fair, strict=True)
    return Parity(unit, size, tuple(map(SourceParity._make, rows)))


def n_units(sources: Mapping[str, WordCounts], unit: Unit) -> dict[str, int]:
    """Return the length of each source. Raises ConfigError if numbers of lines differ or are 0."""
    arguments.choice(unit, "unit", get_args(Unit))
    if unit == "line":
        return _n_lines(sources)
    lengths = {name: _length(counts, unit) for name, counts in sources.items()}
    for name, length in lengths.items():
        if not length:
            raise CorpusError(f"source {name!r} has no text except user tokens; remove it")
    return lengths


def _n_lines(sources: Mapping[str, WordCounts]) -> dict[str, int]:
    lines = {name: counts.n_lines for name, counts in sources.items()}
    first, *others = lines
    hint = {"unit": "character"}
    for other in others:
        if lines[other] != lines[first]:
            fault = (
                f"source {first!r} has {lines[first]:,} lines but {other!r} has {lines[other]:,}"
            )
            raise ConfigError(f"{fault}; give texts of equally many lines or pass", hint=hint)
    if not lines[first]:
        raise ConfigError("the counts contain no number of lines; count texts or pass", hint=hint)
    return lines


def _length(counts: WordCounts, unit: Unit) -> int:
    import polars as pl

    about_to_use_polars()
    is_bytes = counts.pretokenizer.is_bytes
    word = pl.col("word").str.replace_all(_HIDDEN, "")
    if is_bytes and unit == "character":
        word = word.str.replace_all(_CONTINUING, "")
    lengths = word.str.len_chars()
    if unit == "byte" and not is_bytes:
        lengths = word.str.len_bytes()
    total = (lengths.cast(pl.Int128) * pl.col("count")).sum()
    return int(counts.table.select(total).item())


def _several(sources: Named, temperature: float) -> tuple[dict[str, WordCounts], WordCounts]:
    remedy = "give the counts of each source by its name, such as {'de': german, 'en': english}"
    sources = arguments.mapping(sources, "sources", remedy=remedy)
    names = sorted(arguments.text(name, "the name of a source") for name in sources)
    named = {name: as_counts(sources[name], f"sources[{name!r}]") for name in names}
    if len(named) == 1:
        raise ConfigError(
            f"parity compares sources, but there is only {names[0]!r}; give two or more"
        )
    return named, mix(named, temperature=temperature)


class _Joined(NamedTuple):
    """The words of several sources, one source after another. Symbol i of a word is the atom codes[i]."""

    words: Words
    codes: list[int]
    n_words: list[int]  # of each source

    def labelled(self) -> Words:
        """Return the words with different symbols for different sources; see volt.kernels.learn."""
        n_sources = len(self.n_words)
        sources = np.repeat(np.arange(n_sources), self.n_words)
        labels = np.repeat(sources, np.diff(self.words.ends, prepend=0))
        symbols = self.words.symbols * n_sources + labels
        return self.words._replace(symbols=symbols.astype(np.int32))

    def n_pieces(self, merges: Sequence[tuple[str, str]], marker: Marker) -> list[int]:
        """Return the number of pieces of each source, encoded with these merges."""
        from volt.kernels.apply_bpe import PieceRule, encode_words
        from volt.kernels.bpe_tables import no_spellings, ranked_merges

        atoms, table = numbered(merges, self.codes, marker)
        n_tokens = len(atoms) + len(table)
        retained = np.ones(n_tokens, np.uint8)
        rule = PieceRule(retained, np.full(n_tokens, -1, np.int64), no_spellings())
        symbols = self.words.symbols.astype(np.int32)
        state = np.zeros(1, np.int64)
        ranked = ranked_merges(*table.T)
        _, ends = encode_words(symbols, self.words.ends, ranked, rule, 0.0, state)
        return [int(n) for n in self.by_source(np.diff(ends, prepend=0))]

    def by_source(self, lengths: Longs) -> Longs:
        """Return the sum of the words' lengths, times their counts, for each source."""
        sums = np.append(0, np.cumsum(lengths * self.words.counts))
        totals: Longs = np.diff(sums[np.cumsum(self.n_words)], prepend=0)
        return totals


def _joined(sources: Sequence[WordCounts], marker: Marker) -> _Joined:
    from volt.kernels.arrays import Words

    codes, ends, counts = zip(*(atoms_of(source, marker) for source in sources), strict=True)
    distinct, symbols = np.unique(np.concatenate(codes), return_inverse=True)
    lengths = np.concatenate([np.diff(one, prepend=0) for one in ends])
    words = Words(symbols, np.cumsum(lengths), np.concatenate(counts))
    return _Joined(words, distinct.tolist(), n_words=list(map(len, ends)))
