"""Named sources → `Candidates` that compress all sources alike: the worst-compressed source chooses
each merge.

    rate of source s = pieces of s / units of s

A source is a set of word counts, for example of one language. A piece is an occurrence of a token,
and a unit is a character, a byte or a line. Plain BPE favours the largest source. Here each merge
is the most frequent pair of the source with the highest rate (Foroutan et al. 2025, arXiv
2508.04796), and is applied to all sources. Encoding does not depend on a text's source.

`learn_parity` learns such merges, and `measure_parity` compares them with plain BPE.
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
from volt.fork_guard import about_to_use_polars
from volt.learn.bpe import (
    N_SURE,
    check_limits,
    choose_marker,
    learn_bpe,
    learn_merges,
    number_merges,
    replay_bpe,
    split_into_atoms,
)
from volt.learn.candidates import Candidates
from volt.text.atoms import Marker, atom_text
from volt.text.byte_alphabet import ALPHABET
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts
    from volt.kernels.arrays import Words
    from volt.kernels.learn import Sources

Unit = Literal["character", "byte", "line"]
NamedCounts = Mapping[str, "WordCounts | Mapping[str, int]"]

# A private character that stands for a user token in a word.
_USER_TOKEN = f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]"
# In words of bytes, the spelling of a byte that continues a character of UTF-8: 0x80 to 0xBF.
_CONTINUATION_BYTE = f"[{''.join(ALPHABET[0x80:0xC0])}]"


def learn_parity(
    sources: NamedCounts,
    n_merges: int | None = None,
    *,
    unit: Unit = "character",
    temperature: float = 1.0,
    marker: Marker | None = None,
    min_pair_count: int = 2,
    report: Callable[[int], object] | None = None,
) -> Candidates:
    """Learn merges, each of the most frequent pair of the source with the most pieces per unit.

    sources: the counts of two sources or more, by name; their order does not matter
    n_merges: how many merges to learn, 0 or more; None is 30,000
    unit: of a source's length: "character", "byte" or, for line-by-line translations, "line"
    temperature: as in `mix`; it affects the candidates' token counts, but not the merges
    marker: as in `learn_bpe`
    min_pair_count: how often a pair must occur, in the source that chooses the merge, to be merged
    report: called with the number of merges done, several times a second

    Ties go to the source with the most words, then to the source whose fingerprint sorts first. If
    a source has no pair that is frequent enough, the next worst source chooses.
    Raises ConfigError, CorpusError or CandidateError if a source or a number is unsuitable.

    >>> candidates = learn_parity({"en": {"low": 50, "lower": 20}, "fi": {"uuni": 2, "suu": 1}}, n_merges=3)
    >>> candidates, candidates.merges[:2]
    (<Candidates: 14 tokens, 11 atoms, 3 merges, suffix, from 73 words>, [('l', 'o'), ('u', 'u')])
    """
    from volt.kernels.bpe_tables import MOST

    report = arguments.function(report, "report")
    named, mixture = _check_sources(sources, temperature)
    requested, min_pair_count = check_limits(n_merges, min_pair_count)
    # A symbol is a token's number times the number of sources, and has 31 bits.
    n_merges = min(N_SURE if requested is None else requested, MOST, 2**30 // len(named))
    marker = choose_marker(marker, mixture)
    lengths = measure_lengths(named, unit)
    # The loop gives ties to the first source.
    names = sorted(named, key=lambda name: (-named[name].total, named[name].fingerprint))

    joined = _join_words({name: named[name] for name in names}, lengths, marker)
    tokens = list(map(atom_text, joined.atom_codes))
    is_final = np.array([code & 1 for code in joined.atom_codes], np.uint8)
    limits = (n_merges, min_pair_count)
    parts, _, _ = learn_merges(
        joined.words,
        tokens,
        is_final,
        *limits,
        marker=marker,
        report=report,
        sources=joined.sources,
    )

    merges = []
    for left, right in parts.tolist():
        merges.append((tokens[left], tokens[right]))
        tokens.append(tokens[left] + tokens[right])
    best_left = 0 if len(merges) < n_merges else None
    return replace(replay_bpe(mixture, merges, marker=marker), parity=unit, left=best_left)


class SourceParity(NamedTuple):
    """The length of a source, and the number of its pieces.

    n_units: the length in characters, bytes or lines
    plain: pieces when plain BPE encodes the source
    fair: pieces when the measured candidates encode the source
    """

    name: str
    n_units: int
    plain: int
    fair: int


@dataclass(frozen=True, slots=True)
class Parity:
    """Compare how evenly plain BPE and the measured candidates compress sources, at one size of
    vocabulary.

    unit: the unit of the sources' lengths
    size: the number of tokens, atoms included, of both vocabularies
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
        """The worst source's pieces per unit ÷ the best source's: for plain BPE, and for the
        candidates."""
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
    sources: NamedCounts, candidates: Candidates, *, size: int, unit: Unit = "character"
) -> Parity:
    """Measure how evenly candidates compress sources, compared with plain BPE of the same mixture
    and size.

    sources: the counts of each source, by name
    candidates: the result of `learn_parity`, or any others
    size: tokens, atoms included
    unit: as in `learn_parity`

    >>> sources = {"en": {"low": 50, "lower": 20}, "fi": {"uuni": 2, "suu": 1}}
    >>> measure_parity(sources, learn_parity(sources, n_merges=3), size=14)
    <Parity: 2 sources, 14 tokens, worst ÷ best 2.273 → 1.131 pieces per character, +54.5% pieces>
    """
    named, _ = _check_sources(sources, 1.0)
    candidates = arguments.instance(candidates, Candidates, "candidates")
    marker = candidates.marker
    n_merges = candidates.merges_at(size)
    lengths = measure_lengths(named, unit)
    plain = learn_bpe(candidates.counts, n_merges, marker=marker, min_pair_count=1)
    joined = _join_words(named, lengths, marker)
    n_plain = joined.count_pieces(plain.merges, marker)
    n_fair = joined.count_pieces(candidates.merges[:n_merges], marker)
    rows = zip(named, lengths.values(), n_plain, n_fair, strict=True)
    return Parity(unit, size, tuple(map(SourceParity._make, rows)))


def _check_sources(
    sources: NamedCounts, temperature: float
) -> tuple[dict[str, WordCounts], WordCounts]:
    """Return the counts of each source, sorted by name, and their mixture."""
    remedy = "give the counts of each source by its name, such as {'de': german, 'en': english}"
    sources = arguments.mapping(sources, "sources", remedy=remedy)
    names = sorted(arguments.text(name, "the name of a source") for name in sources)
    named = {name: as_counts(sources[name], f"sources[{name!r}]") for name in names}
    if len(named) == 1:
        raise ConfigError(
            f"parity compares sources, but there is only {names[0]!r}; give two or more"
        )
    return named, mix(named, temperature=temperature)


def measure_lengths(sources: Mapping[str, WordCounts], unit: Unit) -> dict[str, int]:
    """Return the length of each source in characters, bytes or lines. User tokens have no length.

    Raises ConfigError if the unit is "line" and the numbers of lines differ or are unknown.
    Raises CorpusError if a source consists of user tokens.
    """
    arguments.choice(unit, "unit", get_args(Unit))
    if unit == "line":
        return _count_lines(sources)
    lengths = {name: _measure_text(counts, unit) for name, counts in sources.items()}
    for name, length in lengths.items():
        if not length:
            raise CorpusError(f"source {name!r} has no text except user tokens; remove it")
    return lengths


def _count_lines(sources: Mapping[str, WordCounts]) -> dict[str, int]:
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


def _measure_text(counts: WordCounts, unit: Unit) -> int:
    import polars as pl

    about_to_use_polars()
    is_bytes = counts.pretokenizer.is_bytes
    word = pl.col("word").str.replace_all(_USER_TOKEN, "")
    if is_bytes and unit == "character":
        word = word.str.replace_all(_CONTINUATION_BYTE, "")
    lengths = word.str.len_chars()
    if unit == "byte" and not is_bytes:
        lengths = word.str.len_bytes()
    total = (lengths.cast(pl.Int128) * pl.col("count")).sum()
    return int(counts.table.select(total).item())


class _JoinedWords(NamedTuple):
    """The words of all sources, one source after another. Symbol i of a word is the atom with
    atom_codes[i]."""

    words: Words
    atom_codes: list[int]
    sources: Sources

    def count_pieces(self, merges: Sequence[tuple[str, str]], marker: Marker) -> list[int]:
        """Encode all words with these merges. Return the number of pieces of each source."""
        from volt.kernels.apply_bpe import PieceRule, encode_words
        from volt.kernels.bpe_tables import no_spellings, ranked_merges

        atoms, table = number_merges(merges, self.atom_codes, marker)
        n_tokens = len(atoms) + len(table)
        retained = np.ones(n_tokens, np.uint8)
        rule = PieceRule(retained, np.full(n_tokens, -1, np.int64), no_spellings())
        ranked = ranked_merges(*table.T)
        no_random_state = np.zeros(1, np.int64)
        _, ends = encode_words(
            self.words.symbols, self.words.ends, ranked, rule, 0.0, no_random_state
        )
        n_pieces = np.diff(ends, prepend=0) * self.words.counts
        totals: list[int] = self.sources.sum_by_source(n_pieces).tolist()
        return totals


def _join_words(
    named: Mapping[str, WordCounts], lengths: Mapping[str, int], marker: Marker
) -> _JoinedWords:
    from volt.kernels.arrays import Words
    from volt.kernels.learn import Sources

    codes, ends, counts = zip(
        *(split_into_atoms(source, marker) for source in named.values()), strict=True
    )
    atom_codes, symbols = np.unique(np.concatenate(codes), return_inverse=True)
    word_sizes = np.concatenate([np.diff(source_ends, prepend=0) for source_ends in ends])
    words = Words(symbols.astype(np.int32), np.cumsum(word_sizes), np.concatenate(counts))
    source_numbers = np.repeat(np.arange(len(named)), list(map(len, ends)))
    source_lengths = np.array([lengths[name] for name in named], np.int64)
    return _JoinedWords(words, atom_codes.tolist(), Sources(source_numbers, source_lengths))
