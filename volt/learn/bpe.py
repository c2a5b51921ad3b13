"""WordCounts → `Candidates`: merges, and with them the exact token counts of every vocabulary size.

When merge (a, b) → ab makes r replacements, weighted by word count,

    n(ab) += r,   n(a) −= r,   n(b) −= r

so the counts after any number of merges are sums over the replacements that the learner records, and nothing is
encoded again. Merges, ties included, are those of subword-nmt.

>>> from volt.count.word_counts import WordCounts
>>> candidates = learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3}), n_merges=4)
>>> candidates.merges
[('s', 't</w>'), ('e', 'st</w>'), ('l', 'o'), ('w', 'est</w>')]
>>> size = candidates.n_tokens
>>> dict(zip(candidates.tokens_at(size)[-4:], candidates.counts_at(size)[-4:].tolist()))
{'st</w>': 0, 'est</w>': 3, 'lo': 7, 'west</w>': 6}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.count.corpus_statistics import Coverage, coverage_of
from volt.count.word_counts import as_counts
from volt.errors import CandidateError, CorpusError
from volt.files.threads import run_watched
from volt.learn.candidates import Candidates, Ints, Longs, Trajectory
from volt.text.characters import ALPHABET, SUFFIX, Marker, atom_code, atom_codes, atom_text, check_marker, token_lengths
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts
    from volt.kernels.arrays import Words
    from volt.kernels.learn import Until

Report = Callable[[int], object]
Flags = NDArray[np.uint8]

N_SURE = 30_000  # merges that are learned if no number is given
COMMON = 500  # occurrences of the best pair that justify further merges
MOST_ASKED = 10**9


def learn_bpe(
    counts: WordCounts | Mapping[str, int],
    n_merges: int | None = None,
    *,
    marker: Marker | None = None,
    min_pair_count: int = 2,
    coverage: float = 1.0,
    report: Report | None = None,
) -> Candidates:
    """Learn merges, as many as requested, or fewer if no remaining pair occurs `min_pair_count` times.

    counts: what `count_words` returns, or a mapping of words to their counts
    n_merges: how many merges to learn, 0 or more; None is 30,000, and more while the best pair occurs 500 times
    min_pair_count: how often a pair must occur to be merged, 1 or more
    marker: "suffix", "prefix" or "none"; None is "suffix" for pre-tokens without spaces and "none" for those with.
    coverage: the share of all characters, spaces included, that the commonest atoms make up; rarer ones are left out
    report: called with the number of merges done, several times a second.
    Raises CandidateError if n_merges is negative or min_pair_count is below 1.
    Raises CorpusError if the atoms of all words, repetitions included, are more than 64 bits hold.
    Raises ConfigError if coverage is not above 0 and at most 1, or below 1 for bytes.

    >>> learn_bpe({"low": 5, "lower": 2}, n_merges=2)
    <Candidates: 8 tokens, 6 atoms, 2 merges, suffix, from 7 words>
    """
    counts, report = as_counts(counts, call="volt.learn_bpe({})"), arguments.function(report, "report")
    limits = MergeLimits.checked(n_merges, min_pair_count)
    marker, covered = _marker(marker, counts), coverage_of(counts, coverage)
    words, atom_numbers = _words(counts, marker, covered)
    atoms, final = [atom_text(code) for code in atom_numbers], np.array([code & 1 for code in atom_numbers], np.uint8)
    parts, replaced, left = learned(words, atoms, final, limits, marker, report)
    steps, results = np.arange(len(parts)), np.arange(len(atoms), len(atoms) + len(parts), dtype=np.int32)
    changes = Replacements(steps, steps, replaced)
    return replace(_candidates(counts, words, atoms, parts, results, changes, marker, left), coverage=covered)


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """The requested number of merges, and the frequency of their pairs.

    n_merges: 0 or more; None is 30,000, and more while the best pair occurs 500 times
    min_pair_count: 1 or more
    """

    n_merges: int | None
    min_pair_count: int

    @classmethod
    def checked(cls, n_merges: int | None, min_pair_count: int) -> MergeLimits:
        """Check both numbers. Raises CandidateError if one is out of range."""
        if n_merges is not None:
            n_merges = arguments.whole(n_merges, "n_merges", low=0, high=MOST_ASKED, kind=CandidateError)
        least = arguments.whole(min_pair_count, "min_pair_count", low=1, high=2**63 - 1, kind=CandidateError)
        return cls(n_merges, least)

    def until(self, words: Words, n_tokens: int) -> Until:
        """Return when to stop. Each merge removes a symbol from some word, and one symbol of each word remains."""
        from volt.kernels.bpe_tables import MOST
        from volt.kernels.learn import Until

        most = max(0, min(MOST - n_tokens, len(words.symbols) - len(words.ends)))
        if self.n_merges is None:
            return Until(most, self.min_pair_count, N_SURE, COMMON)
        return Until(min(self.n_merges, most), self.min_pair_count, self.n_merges, self.min_pair_count)


def learned(
    words: Words, tokens: Sequence[str], final: Flags, limits: MergeLimits, marker: Marker, report: Report | None
) -> tuple[Ints, Longs, int]:
    """Learn merges of words that consist of these tokens; merge k makes token len(tokens) + k.

    final: (n_tokens,) uint8, which tokens carry the end-of-word marker
    Returns the parts of each merge (n, 2), how often it is made (n,), and how often the best remaining pair occurs.
    Raises CandidateError if more merges are requested than can be learned.
    """
    from volt.kernels.arrays import TokenStrings
    from volt.kernels.learn import learn

    until = limits.until(words, len(tokens))
    texts = TokenStrings(_code_points("".join(tokens)), _text_starts(tokens, until.n_merges))
    ending = _code_points(SUFFIX if marker == "suffix" else "")
    parts, replaced, left = run_watched(
        lambda progress: learn(words, texts, final, ending, until, progress), report=report
    )
    _refuse_too_many(len(parts), len(tokens), limits.n_merges, left)
    return parts, replaced, left


def _refuse_too_many(n_found: int, n_tokens: int, n_merges: int | None, left: int) -> None:
    """Raise CandidateError if learning stopped because a table was full."""
    from volt.kernels.bpe_tables import MOST

    if n_merges is not None and n_merges > n_found == MOST - n_tokens and left:
        raise CandidateError(f"n_merges is {n_merges:,}; at most {n_found:,} merges can be learned; ask for fewer")


def replay_bpe(
    counts: WordCounts | Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    marker: Marker | None = None,
    report: Report | None = None,
) -> Candidates:
    """Return the candidates of ready merges on these counts, such as the merges of a subword-nmt or sentencepiece file.

    counts: what `count_words` returns, or a mapping of words to their counts
    merges: pairs of strings, in order
    marker: "suffix", "prefix" or "none", as the merges are spelled; None as in `learn_bpe`
    report: called with the number of merges done, several times a second

    Raises CandidateError if a part of a merge is neither an atom nor the result of an earlier merge.

    >>> from volt.count.word_counts import WordCounts
    >>> replay_bpe(WordCounts.from_pairs({"abc": 3}), [("a", "b"), ("ab", "c</w>")]).counts_at(5).tolist()
    [0, 0, 0, 0, 3]
    """
    counts, report = as_counts(counts, call="volt.replay_bpe({}, merges)"), arguments.function(report, "report")
    merges = [_pair(pair, rank) for rank, pair in enumerate(arguments.several(merges, "merges"))]
    marker = _marker(marker, counts)
    words, atom_numbers = _words(counts, marker)
    numbers = {atom_text(code): number for number, code in enumerate(atom_numbers)}
    for left, right in merges:  # atoms that are only in merges occur 0 times
        for part in (left, right):
            if atom_code(part, marker=marker) is not None:
                numbers.setdefault(part, len(numbers))
    atoms, rows = list(numbers), []
    for rank, (left, right) in enumerate(merges):
        for part in (left, right):
            if part not in numbers:
                raise CandidateError(
                    f"merge {rank + 1}, {left!r} + {right!r}: no character and no earlier merge makes {part!r}"
                )
        rows.append((numbers[left], numbers[right], numbers.setdefault(left + right, len(numbers))))
    table = np.array(rows, np.int32).reshape(-1, 3)
    changes = traced(words, table[:, :2], table[:, 2], report)
    return _candidates(counts, words, atoms, table[:, :2], table[:, 2], changes, marker)


def _pair(pair: Sequence[str], rank: int) -> tuple[str, str]:
    parts = arguments.texts(pair, f"merges[{rank}]", one="give a pair of strings")
    if len(parts) != 2:
        raise CandidateError(f"merges[{rank}] has {len(parts)} parts; give a pair of strings")
    return parts[0], parts[1]


@dataclass(frozen=True, slots=True)
class Replacements:
    """Replacements: at which merge (the step), of which merge's pair, and how many. All (n,)."""

    steps: Longs
    ranks: Longs
    counts: Longs


def _marker(marker: Marker | None, counts: WordCounts) -> Marker:
    if marker is None:
        return "none" if counts.pretokenizer.keeps_spaces else "suffix"
    check_marker(marker)
    return marker


def _words(counts: WordCounts, marker: Marker, coverage: Coverage | None = None) -> tuple[Words, list[int]]:
    """Return the words as numbered atoms, and the atoms' codes, the most frequent first; of bytes, all 256 are
    atoms.
    """
    from volt.kernels.arrays import Words

    codes, ends, word_counts = _without_hidden(*atom_codes(counts.words, marker=marker), counts.counts, coverage)
    check_atoms(np.diff(ends, prepend=0), word_counts)
    occurrences = np.repeat(word_counts, np.diff(ends, prepend=0)).astype(float)
    always = [2 * ord(character) for character in ALPHABET] if counts.pretokenizer.is_bytes else []
    n_by_code = np.bincount(codes, occurrences, minlength=max(always, default=0) + 1)
    result = np.union1d(np.flatnonzero(n_by_code), always).astype(np.int64)
    ordered = result[np.lexsort((result, -n_by_code[result]))]
    numbers = np.zeros(len(n_by_code), np.int32)
    numbers[ordered] = np.arange(len(ordered))
    return Words(numbers[codes], ends, word_counts.astype(np.int64)), ordered.tolist()


def check_atoms(lengths: Longs, counts: Longs) -> None:
    """Raise CorpusError if the atoms of all words, repetitions included, are more than 64 bits hold.

    lengths: (n_words,) int64, the atoms of each word
    counts: (n_words,) int64

    So no pair's count leaves 64 bits either.

    >>> check_atoms(np.array([4]), np.array([2**60]))
    """
    if float(lengths @ counts.astype(float)) > 2.0**62:  # far above the error of rounding
        total = sum(length * count for length, count in zip(lengths.tolist(), counts.tolist(), strict=True))
        if total >= 2**63:
            raise CorpusError(f"the words hold {total} atoms, more than 64 bits hold; scale the counts down")


def _without_hidden(codes: Longs, ends: Longs, counts: Longs, coverage: Coverage | None) -> tuple[Longs, Longs, Longs]:
    """Remove hidden user tokens and uncovered characters from the words' atoms and counts.

    The parts on either side become two words.
    """
    if coverage is None and codes.max(initial=0) >> 1 < FIRST_HIDDEN:
        return codes, ends, counts
    hidden = is_hidden(codes)
    if coverage is not None:
        hidden |= np.isin(codes >> 1, coverage.codes)
    return without(hidden, codes, ends, counts)


def is_hidden(codes: Longs) -> NDArray[np.bool_]:
    """Return which codes of atoms stand for user tokens. (n,)"""
    return np.asarray((codes >> 1 >= FIRST_HIDDEN) & (codes >> 1 <= LAST_HIDDEN))


def without(
    taken: NDArray[np.bool_], symbols: NDArray[Any], ends: Longs, counts: Longs
) -> tuple[NDArray[Any], Longs, Longs]:
    """Remove the taken symbols from words: the parts on either side become two words.

    >>> taken, symbols = np.array([0, 1, 0, 1], bool), np.array([3, 4, 5, 6])
    >>> [part.tolist() for part in without(taken, symbols, np.array([3, 4]), np.array([7, 8]))]
    [[3, 5], [1, 2], [7, 7]]
    """
    words = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))[~taken]
    starts = np.flatnonzero(np.diff(words + np.cumsum(taken)[~taken], prepend=-1))
    return symbols[~taken], np.append(starts[1:], len(words))[: len(starts)], counts[words[starts]]


def _code_points(text: str) -> Ints:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int32)


def _text_starts(atoms: Sequence[str], n_more: int) -> Longs:
    starts = np.zeros(len(atoms) + n_more + 2, np.int64)
    np.cumsum([len(atom) for atom in atoms], out=starts[1 : len(atoms) + 1])
    return starts


def traced(
    words: Words, parts: Ints, results: Ints, report: Report | None, *, one_by_one: bool = False
) -> Replacements:
    """Return the replacements of encoding as merges are added one by one. one_by_one: as in the kernels' Merges"""
    from volt.kernels.apply_bpe import trace
    from volt.kernels.bpe_tables import MOST, ranked_merges

    if (n := max(len(parts), int(results.max(initial=0)) + 1)) > MOST:
        raise CandidateError(f"{n:,} candidates: at most {MOST:,}; ask for fewer merges")
    merges = ranked_merges(parts[:, 0], parts[:, 1], results, one_by_one=one_by_one)
    regular, late, late_counts = run_watched(lambda progress: trace(words, merges, progress), report=report)
    steps = np.arange(len(regular))
    return Replacements(
        np.concatenate([steps, late >> 32]),
        np.concatenate([steps, late & 0xFFFFFFFF]),
        np.concatenate([regular, late_counts]),
    )


def _candidates(
    counts: WordCounts,
    words: Words,
    atoms: list[str],
    parts: Ints,
    results: Ints,
    changes: Replacements,
    marker: Marker,
    left: int | None = None,
) -> Candidates:
    tokens = list(atoms)
    for (first, second), result in zip(parts.tolist(), results.tolist(), strict=True):
        if result == len(tokens):
            tokens.append(tokens[first] + tokens[second])
    occurrences = np.repeat(words.counts, np.diff(words.ends, prepend=0))
    atom_counts = np.zeros(len(atoms), np.int64)
    np.add.at(atom_counts, words.symbols, occurrences)
    trajectory = trajectory_of(atom_counts, parts, results, changes)
    lengths = token_lengths(tokens, marker=marker)
    return Candidates(tuple(tokens), lengths, atom_counts, parts, results, trajectory, marker, counts, left)


def trajectory_of(atom_counts: Longs, parts: Ints, results: Ints, changes: Replacements) -> Trajectory:
    """Sum the changes that each merge makes to each token, and add them up along the merges."""
    tokens = np.concatenate([results[changes.ranks], parts[changes.ranks, 0], parts[changes.ranks, 1]]).astype(np.int64)
    keys, groups = np.unique(tokens * max(1, len(results)) + np.tile(changes.steps, 3), return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, groups, np.concatenate([changes.counts, -changes.counts, -changes.counts]))
    tokens, merges = np.divmod(keys, max(1, len(results)))
    started = np.concatenate([atom_counts, np.zeros(len(results), np.int64)])[tokens]
    total = np.cumsum(sums)
    first = np.searchsorted(tokens, tokens)
    after = started + total - (total - sums)[first]
    return Trajectory(tokens.astype(np.int32), merges.astype(np.int32), after - sums, after)
