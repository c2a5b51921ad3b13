"""Learned merges, and the exact token counts at every vocabulary size.

A merge of (a, b) that makes r replacements changes three counts: n(ab) = r, and n(a), n(b) fall by
r. The trajectory lists these changes, so the counts at a size are the counts before any merge,
overwritten by all changes up to it:

    merge           changes of counts       n(l)  n(o)  n(lo)  n(low)
    (none)                                   7     7     0      0
    l + o → lo      lo 0→7, l 7→0, o 7→0     0     0     7      0
    lo + w → low    low 0→5, lo 7→2, …       0     0     2      5
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from volt import arguments
from volt.array_types import Array, Flags
from volt.array_types import Floats as Floats
from volt.array_types import Ints as Ints
from volt.array_types import Longs as Longs
from volt.display import counted, without_bars
from volt.errors import CandidateError
from volt.text.atoms import Marker

if TYPE_CHECKING:
    from volt.count.coverage import Coverage
    from volt.count.word_counts import WordCounts
    from volt.text.pretokenizer import PreTokenizer
    from volt.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Trajectory:
    """All changes of tokens' counts, sorted by token, then by merge. All arrays are (n_changes,).

    tokens, merges: the numbers of the changed token, and of the merge that changes its count
    before, after: the token's count before and after the merge
    """

    tokens: Ints
    merges: Ints
    before: Longs
    after: Longs


@dataclass(frozen=True, slots=True, eq=False)
class Extended:
    """The vocabulary that candidates extend. Its n tokens come before new merged tokens.

    retained: (n,) bool, whether every extension retains the token; False for scaffolding: results
        of merges that are only parts of longer tokens
    counts: (n,) int64, how often each token occurs after its own merges, when scaffolding is not
        yet split back into its parts
    """

    vocabulary: Vocabulary
    retained: Flags
    counts: Longs


@dataclass(frozen=True, slots=True)
class Superwords:
    """The second stage of candidates whose last merges may join words; see volt.choose.superwords.

    transition: the number of merges of the first stage, which are within words
    across: splits text into stretches, whose tokens the merges of the second stage join
    least: rarer pairs of first-stage tokens were left out, because no merge needs them
    n_reads: how often the text was read
    """

    transition: int
    across: PreTokenizer
    least: int
    n_reads: int


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Merges in order, the tokens that they make, and how often each token occurs at every size.

    tokens: the atoms (most frequent first), then merged tokens in the order in which merges make
        them
    lengths: (n_tokens,) int64, characters without the marker
    atom_counts: (n_atoms,) int64, before any merge
    parts, results: (n_merges, 2) and (n_merges,) int32, the numbers of the tokens that each merge
        joins and makes
    trajectory: how the counts change along the merges
    marker: "suffix", "prefix" or "none"
    counts: the words that the merges were learned from
    left: the count of the most frequent pair that is not merged; 0 if no pair is left, None if
        unknown
    coverage: the characters that were left out, if any
    parity: the unit in which `learn_parity` compared sources; empty for other merges
    extends: the extended vocabulary, whose merges precede new merges; None if merges start from
        atoms
    superwords: the second stage of merges, if `learn_superwords` learned one

    A size is a number of tokens, atoms included. If two merges make a token, sizes with this token
    include both merges.

    >>> from volt.learn.bpe import learn_bpe
    >>> candidates = learn_bpe({"low": 5, "lower": 2}, n_merges=2)
    >>> candidates.merges, candidates.tokens_at(8)[6:], candidates.counts_at(8)[6:]
    ([('l', 'o'), ('lo', 'w</w>')], ['lo', 'low</w>'], array([2, 5]))
    """

    tokens: tuple[str, ...]
    lengths: Longs
    atom_counts: Longs
    parts: Ints
    results: Ints
    trajectory: Trajectory = field(repr=False)
    marker: Marker
    counts: WordCounts = field(repr=False)
    left: int | None = None
    coverage: Coverage | None = field(default=None, repr=False)
    parity: str = ""
    extends: Extended | None = field(default=None, repr=False)
    superwords: Superwords | None = None

    def __repr__(self) -> str:
        facts = [
            counted(self.n_tokens, "token"),
            counted(self.n_atoms, "atom"),
            counted(self.n_merges, "merge"),
            "no marker" if self.marker == "none" else self.marker,
            f"from {counted(self.counts.total, 'word')}",
        ]
        if self.superwords:
            n_across = self.n_merges - self.superwords.transition
            facts.append(f"the last {counted(n_across, 'merge')} across words")
        return f"<Candidates: {', '.join(facts)}>"

    @property
    def origin(self) -> str:
        """The origin of the candidates as text for a signature: sources, parity unit, extended
        vocabulary."""
        parts = [self.counts.origin]
        if self.parity:
            parts.append(f"parity:{self.parity}")
        if self.extends:
            parts.append(f"extends:{self.extends.vocabulary.fingerprint}")
        if self.superwords:
            across = without_bars(self.superwords.across.name)
            parts.append(f"superwords:{self.superwords.transition}:{across}")
        return "|".join(parts)

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The merges in order, as pairs of strings."""
        return [(self.tokens[left], self.tokens[right]) for left, right in self.parts.tolist()]

    @property
    def n_merges(self) -> int:
        """The number of merges."""
        return len(self.results)

    @property
    def n_atoms(self) -> int:
        """The number of tokens before any merge."""
        return len(self.atom_counts)

    @property
    def smallest(self) -> int:
        """The smallest size: the number of atoms, plus the merged tokens of an extended
        vocabulary."""
        if self.extends:
            return len(self.extends.retained)
        return self.n_atoms

    @property
    def kept_always(self) -> Flags:
        """(smallest,) bool, whether every vocabulary retains each token of the smallest size."""
        if self.extends:
            return self.extends.retained
        return np.ones(self.n_atoms, bool)

    @property
    def first_counts(self) -> Longs:
        """(smallest,) int64, the count of each token of the smallest size."""
        if self.extends:
            return self.extends.counts
        return self.atom_counts

    @property
    def n_tokens(self) -> int:
        """The largest size: the number of tokens after all merges."""
        return len(self.tokens)

    def sizes_after(self) -> Longs:
        """Return the size after 0, 1, 2, … merges, (n_merges + 1,) int64."""
        last_tokens = np.append(self.n_atoms - 1, self.results)
        return np.maximum.accumulate(last_tokens).astype(np.int64) + 1

    def merges_at(self, size: int) -> int:
        """Return how many merges make a vocabulary of this size. Raises CandidateError if it is out
        of range.

        size: tokens, atoms included
        """
        size = arguments.whole(size, "size")
        if not self.smallest <= size <= self.n_tokens:
            least = "the extended tokens" if self.extends else "the atoms"
            raise CandidateError(
                f"size {size}: give {self.smallest} ({least}) to {self.n_tokens} (all merges)"
            )
        return int(np.searchsorted(self.sizes_after(), size, side="right")) - 1

    def pretokenizer_at(self, size: int) -> PreTokenizer:
        """Return the pre-tokenizer of a size: it splits text into words or, if the size has merges
        across words, into stretches.

        size: tokens, atoms included
        """
        if self.superwords and self.merges_at(size) > self.superwords.transition:
            return self.superwords.across
        return self.counts.pretokenizer

    def tokens_at(self, size: int) -> list[str]:
        """Return the tokens of a size, atoms first. Raises CandidateError if it is out of range.

        size: tokens, atoms included
        """
        self.merges_at(size)
        return list(self.tokens[: int(size)])

    def counts_at(self, size: int) -> Longs:
        """Return how often each token of a size occurs in the corpus encoded with its merges,
        (size,) int64.

        size: tokens, atoms included
        """
        changes = self.trajectory
        is_done = changes.merges < self.merges_at(size)
        counts = np.zeros(self.n_tokens, np.int64)
        counts[: self.smallest] = self.first_counts
        counts[changes.tokens[is_done]] = changes.after[is_done]  # a token's last change wins
        return counts[: int(size)]

    def gains(self) -> Longs:
        """Return how often each merge makes its token when it is added, (n_merges,) int64."""
        changes = self.trajectory
        is_result = changes.tokens == self.results[changes.merges]
        gains = np.zeros(self.n_merges, np.int64)
        gains[changes.merges[is_result]] = (changes.after - changes.before)[is_result]
        return gains

    def curve(self, term: Callable[[Longs, Array], Array]) -> Floats:
        """Return Σ_j term(n_j, j) over the tokens j after 0, 1, 2, … merges, (n_merges + 1,).

        term: maps counts (n,) and token numbers (n,) to summands (n,); the summand for a count of 0
            must be 0
        """
        changes = self.trajectory
        start = term(self.first_counts, np.arange(self.smallest)).sum()
        after = term(changes.after, changes.tokens).astype(float)
        differences = after - term(changes.before, changes.tokens)
        by_merge = np.bincount(changes.merges, differences, self.n_merges)
        return np.asarray(start + np.append(0.0, np.cumsum(by_merge)))
