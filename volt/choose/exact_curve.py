"""Candidates → the exact entropy of every size of a BPE sweep, and the rules that read a size off it.

    MUV(v_t) = −(H_t − H_{t−1}) / (|v_t| − |v_{t−1}|)       (Eq. 1), which MUV-search maximises

The searched sizes do not change a pick. For an extended vocabulary, the smallest size A is the number of tokens that
its merges make, and median500 and f95 count new tokens alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self, get_args

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.choose.criteria import Length, knee, muv
from volt.choose.language_model import LanguageModel
from volt.count.word_counts import WordCounts
from volt.display import counted
from volt.learn.bpe import learn_bpe
from volt.learn.candidates import Candidates
from volt.text.characters import Marker

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class EntropyCurve:
    """Every size (tokens) of a BPE sweep, from exact counts: its entropy, MUV against the size before, and pieces."""

    sizes: Longs
    entropies: Floats
    muv: Floats
    n_pieces: Longs

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.sizes), 'size')} from {self.sizes[0]:,} to {self.sizes[-1]:,}"
        return f"<EntropyCurve: {sizes}, entropy {self.entropies[0]:.4f} to {self.entropies[-1]:.4f}>"


def muv_search(candidates: Candidates, *, length: Length = "type") -> EntropyCurve:
    """Compute entropy and MUV of the BPE sweep at every size: the paper's MUV-search at full resolution.

    candidates: the result of `learn_bpe` or `replay_bpe`
    length: what l averages over, the tokens ("type") or their pieces ("occurrence")

    >>> from volt.learn.bpe import learn_bpe
    >>> curve = muv_search(learn_bpe({"low": 5, "lower": 2}, n_merges=3))
    >>> curve.sizes, curve.n_pieces
    (array([6, 7, 8, 9]), array([25, 18, 13, 11]))
    """
    candidates = arguments.instance(candidates, Candidates, "candidates", call="volt.muv_search({})")
    arguments.choice(length, "length", get_args(Length))
    sizes = np.arange(candidates.smallest, candidates.n_tokens + 1)
    at = np.searchsorted(candidates.sizes_after(), sizes, side="right") - 1
    lengths = candidates.lengths
    n = candidates.curve(lambda counts, _: counts)[at]
    n_log_n = candidates.curve(lambda counts, _: counts * np.log(np.maximum(counts, 1)))[at]
    if length == "type":
        means = (np.cumsum(lengths) / np.arange(1, len(lengths) + 1))[sizes - 1]
    else:
        means = candidates.curve(lambda counts, tokens: counts * lengths[tokens])[at] / n
    entropies = (np.log(n) - n_log_n / n) / means
    return EntropyCurve(sizes, entropies, muv(entropies, sizes), n.astype(np.int64))


Flags = NDArray[np.bool_]

MEDIAN_COUNT, MEDIAN_SHARE = 500, 0.5
F95_COUNT, F95_SHARE = 100, 0.95
UTILITY = 1 / 8  # of the entropy, for a doubling of the size
LEAST = 1_000  # tokens, from which on the utility is looked at
KNEE_RANGE = 1_000, 30_000  # tokens


@dataclass(frozen=True, slots=True)
class RuleReading:
    """The pick of a rule on the curve; `at_least` if the candidates end before the rule is decided."""

    size: int
    why: str
    at_least: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ExactCurve:
    """The sweep of candidates with lengths by type, and the rules that read it."""

    candidates: Candidates
    curve: EntropyCurve
    merges_at: Longs

    @classmethod
    def of(cls, candidates: Candidates, curve: EntropyCurve | None = None) -> Self:
        """Return the curve of candidates. curve: their sweep, if it is known."""
        curve = curve or muv_search(candidates)
        return cls(candidates, curve, np.searchsorted(candidates.sizes_after(), curve.sizes, side="right") - 1)

    def balanced(self) -> RuleReading:
        """Return the larger of `utility` and `median500`; for an extension `median500`."""
        median500 = self.median500()
        if self.candidates.extends:
            why = "for an extension balanced leaves utility out, because few extensions double a vocabulary"
            return RuleReading(median500.size, f"{median500.why}; {why}", median500.at_least)
        utility = self.utility()
        if utility.at_least or utility.size > median500.size:
            return RuleReading(utility.size, f"{utility.why} (utility; median500 is not larger)", utility.at_least)
        return RuleReading(median500.size, f"{median500.why} (median500; utility is not larger)", median500.at_least)

    def utility(self) -> RuleReading:
        """Return the first size S ≥ max(1,000, 2 A) whose last doubling lowered the entropy by less than 1/8."""
        doublings, start = self.doublings(), self._utility_start()
        result = np.flatnonzero(doublings < UTILITY)  # later falls come only from tokens that grow long
        if len(result):
            size = start + int(result[0])
            fell = "the last doubling lowered the entropy by less than 1/8 of its value"
            return RuleReading(size, f"the first size from {start:,} on at which {fell}")
        size = self.candidates.n_tokens
        if size < start:
            return RuleReading(size, f"the {size:,} tokens learned end before {start:,}, where the rule begins", True)
        least = 100 * doublings.min()
        falls = f"every doubling up to {size:,} tokens lowers the entropy by {least:.3g} % of its value or more"
        return RuleReading(size, f"{falls}, not yet by less than 1/8", True)

    def doublings(self) -> NDArray[np.float64]:
        """Return (H_{S/2} − H_S) / H_{S/2} of each size S from max(1,000, 2 A) up."""
        sizes = np.arange(self._utility_start(), self.candidates.n_tokens + 1)
        entropies, low = self.curve.entropies, self.candidates.smallest
        before = entropies[sizes // 2 - low]
        return np.asarray(np.where(before > 0, 1 - entropies[sizes - low] / np.where(before > 0, before, 1), 0.0))

    def _utility_start(self) -> int:
        return max(LEAST, 2 * self.candidates.smallest)

    def median500(self) -> RuleReading:
        """Return the largest size at which half of the tokens in use occur at least 500 times."""
        occurring, kind = self._types(1), self._kind
        enough = (self._types(MEDIAN_COUNT) >= np.ceil(MEDIAN_SHARE * occurring)) & (occurring > 0)
        index, at_least = self._last(enough, MEDIAN_COUNT)
        if index is None:
            size = self.candidates.smallest
            return RuleReading(size, f"at no size do half of the {kind}s in use occur {MEDIAN_COUNT} times", at_least)
        size = int(self.curve.sizes[index])
        result = f"the largest size at which half of the {kind}s in use occur {MEDIAN_COUNT} times or more"
        return RuleReading(size, result, at_least)

    def f95(self) -> RuleReading:
        """Return the largest size at which 95 % of the tokens occur 100 times (Gowda & May 2020), or the closest."""
        sizes, kind = self.curve.sizes - self._first, self._kind
        enough = (self._types(F95_COUNT) >= np.ceil(F95_SHARE * sizes)) & (sizes > 0)
        index, at_least = self._last(enough, F95_COUNT)
        if index is not None:
            size = int(self.curve.sizes[index])
            result = f"the largest size at which 95 % of the {kind}s occur {F95_COUNT} times or more"
            return RuleReading(size, result, at_least)
        shares = self._types(F95_COUNT) / np.maximum(sizes, 1)
        size, share = int(self.curve.sizes[np.argmax(shares)]), 100 * shares.max()
        result = f"at no size do 95 % of the {kind}s occur {F95_COUNT} times; this comes closest, with {share:.0f} %"
        return RuleReading(size, result, at_least)

    def scaling(self, model: LanguageModel) -> RuleReading:
        """Return the size that a language model deserves (Tao et al. 2024), whatever the corpus."""
        size, low, high = model.size, self.candidates.smallest, self.candidates.n_tokens
        why = f"{model.params:g} parameters of width {model.width:,} deserve {size:,} tokens"
        if size > high:
            return RuleReading(high, why, at_least=True)
        if size < low:
            least = "tokens that are extended" if self.candidates.extends else "atoms"
            return RuleReading(low, f"{why}, fewer than the {low:,} {least}")
        return RuleReading(size, why)

    def knee(self) -> RuleReading:
        """Return where the entropy lies farthest below the chord from 1,000 to 30,000 tokens."""
        low, high = (min(max(bound, self.candidates.smallest), self.candidates.n_tokens) for bound in KNEE_RANGE)
        low = low if low < high else self.candidates.smallest
        within = slice(low - self.candidates.smallest, high + 1 - self.candidates.smallest)
        index = knee(self.curve.entropies[within], self.curve.sizes[within])
        size = int(self.curve.sizes[within][index])
        short = high < KNEE_RANGE[1] and self.candidates.left != 0
        return RuleReading(
            size, f"the entropy lies farthest below the straight line from {low:,} to {high:,} tokens", short
        )

    def _types(self, least: int) -> Longs:
        first = self._first
        often = self.candidates.curve(lambda counts, tokens: (counts >= least) & (tokens >= first))
        return often[self.merges_at].astype(np.int64)

    @property
    def _first(self) -> int:
        return self.candidates.smallest if self.candidates.extends else 0

    @property
    def _kind(self) -> str:
        return "new token" if self.candidates.extends else "token"

    def _last(self, enough: Flags, least: int) -> tuple[int | None, bool]:
        """Return the index of the last size with enough, and whether more candidates could change it."""
        # While merges still make tokens that occur `least` times, many rare characters may still reach enough.
        faded = np.flatnonzero(~enough & (self.merges_at >= self._faded(least)))
        end = int(faded[0]) if len(faded) else len(enough)
        result = np.flatnonzero(enough[:end])
        undecided = not len(faded) and self.candidates.left != 0
        if not len(result):
            return None, undecided
        return int(result[-1]), undecided and bool(enough[-1])

    def _faded(self, least: int) -> int:
        """Return after how many merges no merge makes a token that occurs so often."""
        parts, gains = self.candidates.parts, self.candidates.gains()
        extends = self.candidates.extends
        gains[: len(extends.vocabulary.merges) if extends else 0] = least  # these merges belong to every size
        faded = np.flatnonzero((gains < least) & (parts[:, 0] != parts[:, 1]))  # without overlaps ("aaa")
        if len(faded):
            return int(faded[0])
        known = self.candidates.left is not None and self.candidates.left < least
        return len(gains) if known else len(gains) + 1


MOST_GROWN = 1 << 18  # merges, in steps that double


def learn_enough(
    counts: WordCounts | Mapping[str, int],
    *,
    marker: Marker | None = None,
    min_pair_count: int = 2,
    coverage: float = 1.0,
    model: LanguageModel | None = None,
    report: Callable[[int], object] | None = None,
) -> Candidates:
    """Learn merges until `balanced` is decided, no pair is left, or 262,144 merges are made.

    counts, marker, min_pair_count, coverage, report: as in `learn_bpe`
    model: a language model; learning continues up to its size

    >>> learn_enough({"low": 5, "lower": 2})
    <Candidates: 11 tokens, 6 atoms, 5 merges, suffix, from 7 words>
    """
    learn = partial(learn_bpe, counts, marker=marker, min_pair_count=min_pair_count, coverage=coverage, report=report)
    return learned_until_decided(learn, model)


def learned_until_decided(learn: Callable[..., Candidates], model: LanguageModel | None) -> Candidates:
    """Learn with more and more merges while a rule is undecided."""
    result = learn()
    while result.left != 0 and result.n_merges < MOST_GROWN:
        readings = ExactCurve.of(result)
        if not (readings.balanced().at_least or (model and readings.scaling(model).at_least)):
            break
        result = learn(min(2 * result.n_merges, MOST_GROWN))
    return result
