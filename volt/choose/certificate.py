"""Word counts and a size → a number of pieces that no vocabulary of this size goes below.

The bound holds for every vocabulary of so many tokens that has all atoms of the words, whatever its
model, if it cuts the same words into their atoms, or into tokens of several atoms. The atoms count
for its size; special and byte tokens do not. `volt.kernels.piece_bound` has the equation.

    words abab 9×, abb 4×, 3 tokens: a, b and one other     pieces
    abab                                                    9 · 1 + 4 · 3 = 21
    ab                                                      9 · 2 + 4 · 2 = 26
    the bound, over fractions of tokens                     21

A token of l atoms that occurs f times saves at most f (l − 1) pieces. Tokens that can save
`least_saving` pieces are *candidates*. All others together are bounded: each of the k places that a
vocabulary has for tokens of several atoms is taken to save at least least_saving − 1 pieces. Words
of more than LONGEST atoms are taken to need one piece. Both can only lower the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import ceil, inf
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from volt import arguments
from volt.array_types import Floats, Longs
from volt.choose.extend import words_for
from volt.count.word_counts import as_counts
from volt.display import counted
from volt.encode.score_tables import tables_of
from volt.encode.word_tables import WordTables, join_words
from volt.errors import CandidateError, ConfigError, CorpusError, VocabularyError
from volt.files.threads import available_cores, in_order
from volt.kernels.arrays import Words
from volt.learn.bpe import choose_marker, learn_bpe, split_into_atoms
from volt.learn.candidates import Candidates
from volt.text.atoms import SPACE, SUFFIX, Marker, atom_text
from volt.text.byte_alphabet import ALPHABET
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts
    from volt.kernels.piece_bound import WordLattice

LONGEST = 256  # atoms of a word in the lattice
MOST_SWEEPS = 1_000
_CHECK = 25  # sweeps between two bounds
_PATIENCE = 4  # bounds in which the last one must have risen by _LEAST_RISE of itself
_LEAST_RISE = 2e-4
_MOST_PARTS = 8  # of the words; a fixed number, so that the bound is the same on any machine
_PART = 50_000  # edges
_MOST_BITS = 20  # of a multiplier's fraction
_MOST_TOTAL = 1 << 60  # in which sums of whole numbers cannot overflow
_MOST_MERGES = 1_000_000
_SPACES = f" {SPACE}{ALPHABET[ord(' ')]}"

Report = Callable[..., object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A number of pieces, and a number that no vocabulary of this size goes below.

    size: tokens, with all atoms of the text
    n_atoms: the atoms of the text; a vocabulary that marks words otherwise may have others, and then
        the bound does not apply to it
    n_pieces: the pieces of the vocabulary that was measured, or of BPE at this size
    bound: the pieces of any vocabulary of this size are at least this number
    n_missing: how many of the tokens are characters of the text that the measured vocabulary lacks
    least_saving, n_candidates: tokens that can save so many pieces, and how many there are
    n_sweeps: the sweeps over all words that were made
    has_converged: whether further sweeps are unlikely to raise the bound noticeably
    """

    size: int
    n_atoms: int
    n_pieces: int
    bound: int
    n_missing: int
    least_saving: int
    n_candidates: int
    n_sweeps: int
    has_converged: bool

    @property
    def gap(self) -> float:
        """The pieces above the bound, as a share of the bound."""
        return self.n_pieces / self.bound - 1

    def __str__(self) -> str:
        atoms = counted(self.n_atoms, "atom")
        if self.n_missing:
            atoms += f", of which this one lacks {self.n_missing:,},"
        text = (
            f"{counted(self.n_pieces, 'piece')}; no vocabulary of {counted(self.size, 'token')} with "
            f"these {atoms} needs fewer than "
            f"{self.bound:,}: at most {ceil(1000 * self.gap) / 10:.1f} % above the fewest"
        )
        if not self.has_converged:
            text += "; more sweeps would raise this bound"
        return text

    @property
    def data(self) -> dict[str, Any]:
        """The fields, the gap and the sentence that `str` returns, for JSON."""
        return {**asdict(self), "gap": self.gap, "text": str(self)}


def fewest_pieces(
    counts: WordCounts | Mapping[str, int],
    size: int,
    *,
    marker: Marker | None = None,
    least_saving: int | None = None,
    max_sweeps: int = MOST_SWEEPS,
    seconds: float | None = None,
    report: Report | None = None,
) -> Certificate:
    """Bound the pieces of every vocabulary of a size from below, and compare BPE with the bound.

    counts: the result of `count_words`, or a mapping of words to their counts
    size: tokens, atoms included
    marker: as in `learn_bpe`; the suffix makes a character that ends a word a token of its own
    least_saving: the pieces that a token must be able to save to be a candidate; None for half of
        what the last merge of BPE saves. A lower number can only raise the bound, and takes longer
    max_sweeps, seconds: when to stop, with the bound so far
    report: called with the number of sweeps that are done, and the gap so far
    Raises CandidateError if there are more atoms than tokens.
    Raises CorpusError if there are no words, or their counts are too high.

    >>> certificate = fewest_pieces({"abab": 9, "abb": 4}, 3, marker="none")
    >>> print(certificate)
    26 pieces; no vocabulary of 3 tokens with these 2 atoms needs fewer than 21: at most 23.9 % above the fewest
    """
    counts = as_counts(counts)
    size = arguments.whole(size, "size")
    limits = _check_limits(least_saving, max_sweeps, seconds, report)
    if not counts.n_words:
        raise CorpusError("there are no words; give a corpus that contains some")
    marker = choose_marker(marker, counts)
    n_atoms = learn_bpe(counts, 0, marker=marker).n_atoms
    if size < n_atoms:
        raise CandidateError(f"size {size:,}: give {n_atoms:,} (the atoms) or more")
    candidates = learn_bpe(counts, min(size - n_atoms, _MOST_MERGES), marker=marker)
    n_pieces = int(candidates.counts_at(candidates.n_tokens).sum())
    words = Words(*split_into_atoms(counts, marker))
    return _certify(words, candidates, size - n_atoms, limits, size=size, n_pieces=n_pieces)


def certify(
    vocabulary: Vocabulary,
    counts: WordCounts | Mapping[str, int],
    *,
    least_saving: int | None = None,
    max_sweeps: int = MOST_SWEEPS,
    seconds: float | None = None,
    report: Report | None = None,
) -> Certificate:
    """Count the pieces of words in a vocabulary, and bound those of every other of its size.

    Unknown characters are pieces of their own. If the vocabulary lacks characters of the text, the
    bound is over larger vocabularies, which have these, too.

    vocabulary: of any model, perhaps another library's
    counts: the result of `count_words` with the vocabulary's settings, or a mapping of words to
        their counts
    least_saving, max_sweeps, seconds, report: as in `fewest_pieces`
    Raises VocabularyError if most lines are not split into words.
    Raises CorpusError if the words were counted with other settings, there are no words, or their
    counts are too high.

    >>> merges = (("a", "b"), ("ab", "ab"))
    >>> vocabulary = Vocabulary(merges=merges, tokens=("a", "b", "ab", "abab"), marker="none")
    >>> print(certify(vocabulary, {"abab": 9, "abb": 4}))
    17 pieces; no vocabulary of 4 tokens with these 2 atoms needs fewer than 13: at most 30.8 % above the fewest
    """
    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    limits = _check_limits(least_saving, max_sweeps, seconds, report)
    counts = words_for(vocabulary, counts)
    _check_split(counts)
    marker = vocabulary.marker
    words = Words(*split_into_atoms(counts, marker))
    tokens = {*vocabulary.tokens, *(token for token, _ in vocabulary.special_scores)}
    atoms = set(map(atom_text, np.unique(words.symbols).tolist()))
    end = SUFFIX if marker == "suffix" else ""
    n_free = sum(len(token.removesuffix(end)) > 1 for token in tokens)
    candidates = learn_bpe(counts, min(n_free, _MOST_MERGES), marker=marker)
    n_missing = len(atoms - tokens)
    return _certify(
        words,
        candidates,
        n_free,
        limits,
        size=len(tokens | atoms),
        n_pieces=_count_pieces(tables_of(vocabulary), counts),
        n_missing=n_missing,
    )


@dataclass(frozen=True, slots=True)
class SweepLimits:
    least_saving: int | None
    max_sweeps: int
    seconds: float
    report: Report | None


def _check_limits(
    least_saving: int | None, max_sweeps: int, seconds: float | None, report: Report | None
) -> SweepLimits:
    if least_saving is not None:
        least_saving = arguments.whole(least_saving, "least_saving", low=1)
    if seconds is not None and not arguments.number(seconds, "seconds") >= 0:
        raise ConfigError(f"seconds is {seconds}; give 0 or more")
    return SweepLimits(
        least_saving,
        arguments.whole(max_sweeps, "max_sweeps", low=0),
        inf if seconds is None else float(seconds),
        arguments.function(report, "report"),
    )


def _check_split(counts: WordCounts) -> None:
    """Raise VocabularyError if most words contain a space after another character."""
    n_joined = 0
    for word, count in counts.table.iter_rows():
        rest = word.lstrip(_SPACES)
        if any(space in rest for space in _SPACES):
            n_joined += count
    if 2 * n_joined > counts.total:
        raise VocabularyError(
            "its tokens may span words, so a bound over tokens within words does not apply; "
            "choose a vocabulary that splits lines into words"
        )


def _count_pieces(tables: WordTables, counts: WordCounts) -> int:
    """Return the number of pieces of all words; each unknown character is a piece."""
    symbols, ends = tables.segment(*join_words(counts.words))
    symbol_counts = np.repeat(counts.counts, np.diff(ends, prepend=0))
    distinct, indices = np.unique(symbols, return_inverse=True)
    n_pieces = np.array([len(tables.spell(symbol)) for symbol in distinct.tolist()])
    return int(symbol_counts @ n_pieces[indices])


def _certify(
    words: Words,
    candidates: Candidates,
    n_free: int,
    limits: SweepLimits,
    *,
    size: int,
    n_pieces: int,
    n_missing: int = 0,
) -> Certificate:
    """Return the certificate of words, as codes of atoms.

    candidates: of BPE, with n_free merges unless fewer pairs occur twice
    n_free: how many tokens of several atoms a vocabulary may have
    """
    least_saving = limits.least_saving
    if least_saving is None:
        least_saving = 1
        if 0 < candidates.n_merges == n_free:
            least_saving = max(1, int(candidates.gains()[-1]) // 2)
    sizes = np.diff(words.ends, prepend=0)
    is_short = sizes <= LONGEST
    symbols = words.symbols[np.repeat(is_short, sizes)]
    short = Words(symbols, np.cumsum(sizes[is_short]), words.counts[is_short])
    relaxation = Relaxation(build_lattice(short, least_saving), n_free, least_saving)
    n_words = int(words.counts.sum())
    n_long = n_words - int(short.counts.sum())

    def report(n_sweeps: int) -> None:
        if limits.report:
            gap = n_pieces / max(n_words, n_long + relaxation.best) - 1
            limits.report(n_sweeps, gap)

    n_sweeps, has_converged = relaxation.run(replace(limits, report=report))
    return Certificate(
        size=size,
        n_atoms=size - n_free,
        n_pieces=n_pieces,
        bound=max(n_words, n_long + relaxation.best),
        n_missing=n_missing,
        least_saving=least_saving,
        n_candidates=relaxation.n_candidates,
        n_sweeps=n_sweeps,
        has_converged=has_converged,
    )


def build_lattice(words: Words, least_saving: int, *, least_count: int = 1) -> WordLattice:
    """Return the lattice of all tokens that can save so many pieces, and occur least_count times.

    Tokens of l + 1 atoms are found from two overlapping tokens of l atoms. A token is extended if it
    occurs so often that a token of the length of its longest word could save enough.

    words: with any numbers as symbols
    """
    from volt.kernels.piece_bound import WordLattice

    sizes = np.diff(words.ends, prepend=0)
    place_ends = np.repeat(words.ends, sizes)
    place_sizes = np.repeat(sizes, sizes)
    place_counts = np.repeat(words.counts, sizes).astype(np.int64)
    n_places = len(words.symbols)
    places = np.arange(n_places)
    _, parts = np.unique(words.symbols, return_inverse=True)  # the number of the part at each place
    edges = [(places[:0], places[:0])]
    n_candidates = 0
    size = 1
    while len(places):
        part_at = np.full(n_places + 1, -1)
        part_at[places] = parts
        size += 1
        fits = (places + size <= place_ends[places]) & (part_at[places + 1] >= 0)
        places = places[fits]
        pairs = part_at[places] * n_places + part_at[places + 1]
        distinct, parts = np.unique(pairs, return_inverse=True)
        token_counts = np.zeros(len(distinct), np.int64)
        np.add.at(token_counts, parts, place_counts[places])
        longest = np.zeros(len(distinct), np.int64)
        np.maximum.at(longest, parts, place_sizes[places])

        is_frequent = token_counts >= least_count
        is_candidate = is_frequent & (token_counts * (size - 1) >= least_saving)
        tokens = n_candidates + np.cumsum(is_candidate) - 1
        n_candidates += int(is_candidate.sum())
        is_edge = is_candidate[parts]
        edges.append((places[is_edge] * LONGEST + size - 1, tokens[parts[is_edge]]))
        is_extended = is_frequent & (token_counts * (longest - 1) >= least_saving)
        places = places[is_extended[parts]]
        parts = parts[is_extended[parts]]

    keys = np.concatenate([keys for keys, _ in edges])
    order = np.argsort(keys)
    keys = keys[order]
    return WordLattice(
        ends=words.ends,
        counts=words.counts,
        first_edges=np.searchsorted(keys, np.arange(n_places + 1) * LONGEST),
        sizes=(keys % LONGEST + 1).astype(np.int32),
        tokens=np.concatenate([tokens for _, tokens in edges])[order].astype(np.int32),
    )


class Relaxation:
    """The relaxation of a lattice for vocabularies with room for n_free candidates.

    best: the greatest bound so far, in pieces
    shares: (n_candidates,) the share of each candidate in the best fractional vocabulary
    """

    def __init__(self, lattice: WordLattice, n_free: int, least_saving: int) -> None:
        from volt.kernels.piece_bound import Flow

        n_places = len(lattice.first_edges) - 1
        n_edges = len(lattice.tokens)
        n_parts = min(_MOST_PARTS, 1 + n_edges // _PART)
        self.lattice = lattice
        self.n_free = n_free
        self.n_candidates = int(lattice.tokens.max(initial=-1)) + 1
        self.best = 0
        self._other_saving = least_saving - 1
        edges_before = lattice.first_edges[lattice.ends]
        shares = np.linspace(0, n_edges, n_parts + 1)[1:-1]
        splits = np.searchsorted(edges_before, shares)
        self._limits = [0, *splits.tolist(), len(lattice.ends)]
        room = int(np.diff(lattice.ends, prepend=0).max(initial=0)) + 1
        self._room = np.zeros((n_parts, room))
        self._values = np.zeros((n_parts, self.n_candidates))

        starts = np.repeat(np.arange(n_places), np.diff(lattice.first_edges))
        degrees = np.full(n_places + 1, 2.0)
        degrees += np.bincount(starts, minlength=n_places + 1)
        degrees += np.bincount(starts + lattice.sizes, minlength=n_places + 1)
        words = np.searchsorted(lattice.ends, starts, side="right")
        counts = lattice.counts[words].astype(float)
        self._weights = np.bincount(lattice.tokens, counts, self.n_candidates)
        self._flow = Flow(
            atoms=np.zeros(n_places),
            edges=np.zeros(n_edges),
            potentials=np.zeros(n_places),
            multipliers=np.zeros(n_edges),
            steps=1 / degrees[:n_places],
        )
        self.shares = np.zeros(self.n_candidates)
        self._extrapolated = np.zeros(self.n_candidates)
        self._active = np.zeros(self.n_candidates, np.int32)
        self._price = np.array([2.0 * least_saving + 1])
        self._start()

    def _start(self) -> None:
        """Divide a price for each token among its edges, and choose tokens that shortest paths use."""
        from volt.kernels.piece_bound import find_starts

        flow = self._flow
        flow.multipliers[:] = self._cap(self._price / self._weights[self.lattice.tokens])
        savings = np.zeros(self.n_candidates)
        find_starts(self.lattice, flow.multipliers, flow.potentials, savings)
        if 0 < self.n_free < self.n_candidates:
            savings /= max(1.0, np.partition(savings, -self.n_free)[-self.n_free])
        self.shares[:] = np.minimum(1.0, savings)
        self._extrapolated[:] = self.shares

    def _cap(self, multipliers: Floats) -> Floats:
        """Return multipliers that make no edge cost more than its atoms, which never helps."""
        return np.minimum(multipliers, self.lattice.sizes - 1.0)

    def run(self, limits: SweepLimits) -> tuple[int, bool]:
        """Sweep until the bound hardly rises. Return the number of sweeps, and whether it does."""
        deadline = monotonic() + limits.seconds
        bounds = [self.bound(self._flow.multipliers)]
        if not 0 < self.n_free < self.n_candidates:  # no token can be used, or all can
            multipliers = np.zeros(len(self.lattice.tokens))
            if not self.n_free:
                multipliers += self.lattice.sizes - 1.0
            self.bound(multipliers)
            return 0, True

        n_sweeps = 0
        is_flat = False
        while not is_flat and n_sweeps < limits.max_sweeps and monotonic() <= deadline:
            self.sweep()
            n_sweeps += 1
            if limits.report:
                limits.report(n_sweeps)
            if n_sweeps % _CHECK == 0:
                bounds.append(self.bound(self._flow.multipliers))
                rise = bounds[-1] - min(bounds[-_PATIENCE - 1 :])
                is_flat = len(bounds) > _PATIENCE and rise <= _LEAST_RISE * bounds[-1]
        if not is_flat:
            self.bound(self._flow.multipliers)
        return n_sweeps, is_flat

    def sweep(self) -> None:
        """Move all paths and multipliers, then the shares of tokens."""
        from volt.kernels.piece_bound import relax, share_out

        def move(part: int, first: int, last: int) -> None:
            relax(
                self.lattice,
                first,
                last,
                self._extrapolated,
                self._flow,
                self._room[part],
                self._values[part],
            )

        self._for_each_part(move)
        share_out(
            self._values.sum(axis=0),
            self._weights,
            self.n_free,
            self._price,
            self.shares,
            self._extrapolated,
            self._active,
        )

    def _for_each_part(self, function: Callable[[int, int, int], T]) -> list[T]:
        """Call a function with the number of each part, its first word, and the word after its last."""
        parts = [(part, *limits) for part, limits in enumerate(pairwise(self._limits))]
        n_threads = min(available_cores(), len(parts))
        return list(in_order(lambda part: function(*part), parts, n_threads=n_threads))

    def bound(self, multipliers: Floats) -> int:
        """Return the bound by multipliers of edges, (n_edges,), in pieces; it is exact.

        Multipliers are rounded down to multiples of 1 / unit, with a unit so large that no sum
        overflows. Raises CorpusError if there is none.
        """
        from volt.kernels.piece_bound import sum_shortest_paths

        lattice = self.lattice
        longest = float(lattice.sizes.max(initial=2))
        sizes = np.diff(lattice.ends, prepend=0)
        total = float(lattice.counts @ sizes.astype(float)) + longest * self._weights.sum()
        if total > _MOST_TOTAL:
            raise CorpusError("the counts are too high for a bound; scale them down")
        n_bits = int(_MOST_TOTAL / max(total, 1)).bit_length() - 1
        unit = 1 << min(_MOST_BITS, n_bits)
        numbers = (self._cap(multipliers) * unit).astype(np.int64)

        def add_up(part: int, first: int, last: int) -> tuple[int, Longs]:
            costs = np.empty(self._room.shape[1], np.int64)
            values = np.empty(self.n_candidates, np.int64)
            cost = sum_shortest_paths(lattice, first, last, numbers, unit, costs, values)
            return cost, values

        sums = self._for_each_part(add_up)
        values = np.sum([values for _, values in sums], axis=0)
        others = self._other_saving * unit  # perhaps more than 64 bits
        highest = np.sort(values)[::-1][: self.n_free].tolist()
        highest_sum = sum(max(value, others) for value in highest)
        highest_sum += (self.n_free - len(highest)) * others
        cost = sum(cost for cost, _ in sums)
        bound: int = -((highest_sum - cost) // unit)
        self.best = max(self.best, bound)
        return bound
