"""Rules that are read off the exact counts at every size of a BPE sweep: properties of the corpus.

Neither the sizes that are searched nor the number of candidates moves what they find, as long as the candidates reach
beyond it (for knee, beyond its range); where they do not, the rule says "at least". The smallest size A is the number
of atoms, or of all that an extended vocabulary makes, of which fed and f95 count new types alone: a model is to learn
a row for each.

utility   the smallest size S ≥ max(1,000, 2 A) whose last doubling lowered the entropy (Eq. 2, type length) by less
          than 1/8 of its value: (H_{S/2} − H_S) / H_{S/2} < 1/8, the paper's MUV per doubling instead of per token
fed       the largest size at which half of the tokens in use, those that occur at all, occur at least 500 times
f95       the largest size at which 95 % of all tokens occur at least 100 times (Gowda & May 2020)
knee      where the entropy lies farthest below the chord from 1,000 to 30,000 tokens
scaling   the size that a language model deserves (Tao et al. 2024; volt.choose.scaling)

The first fall of the utility counts: near the end of the merges the entropy falls again, only because tokens grow long.

>>> from volt.count import WordCounts
>>> from volt.learn import learn_bpe
>>> words = {f"{a}{b}{c}": 900 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
>>> readings = Readings.of(learn_bpe(WordCounts.from_pairs(words)))
>>> readings.fed().size, readings.utility().at_least
(93, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from volt.choose.criteria import knee
from volt.choose.scaling import LanguageModel
from volt.choose.sweep import EntropyCurve, muv_search
from volt.learn.candidates import Candidates

Flags = NDArray[np.bool_]
Longs = NDArray[np.int64]

FED_COUNT, FED_SHARE = 500, 0.5
F95_COUNT, F95_SHARE = 100, 0.95
UTILITY = 1 / 8  # of the entropy, for a doubling of the size
LEAST = 1_000  # tokens, from which on the utility is looked at
KNEE_RANGE = 1_000, 30_000  # tokens


@dataclass(frozen=True, slots=True)
class Reading:
    """What a rule finds on the curve.

    size: tokens
    why: the reason
    at_least: whether the candidates end before the rule is decided, so that the size may be greater
    """

    size: int
    why: str
    at_least: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """The exact curve of candidates, and what the rules read off it.

    candidates, curve: the curve is the sweep with lengths by type
    merges_at: (n_sizes,) int64, the merges that make each size of the curve
    """

    candidates: Candidates
    curve: EntropyCurve
    merges_at: Longs

    @classmethod
    def of(cls, candidates: Candidates, curve: EntropyCurve | None = None) -> Self:
        """Of these candidates. curve: their sweep with lengths by type, if it has been worked out."""
        curve = curve or muv_search(candidates)
        return cls(candidates, curve, np.searchsorted(candidates.sizes_after(), curve.sizes, side="right") - 1)

    def balanced(self) -> Reading:
        """The larger of `utility` and `fed`; for what extends a vocabulary, `fed`: few extensions double it."""
        fed = self.fed()
        if self.candidates.extends:
            why = "for an extension balanced leaves utility out, because few extensions double a vocabulary"
            return Reading(fed.size, f"{fed.why}; {why}", fed.at_least)
        utility = self.utility()
        if utility.at_least or utility.size > fed.size:
            return Reading(utility.size, f"{utility.why} (utility; fed is not larger)", utility.at_least)
        return Reading(fed.size, f"{fed.why} (fed; utility is not larger)", fed.at_least)

    def utility(self) -> Reading:
        """The first size whose last doubling lowered the entropy by less than 1/8 of its value."""
        found = np.flatnonzero(self.doublings() < UTILITY)
        start = self._utility_start()
        if len(found):
            size = start + int(found[0])
            fell = "the last doubling lowered the entropy by less than 1/8 of its value"
            return Reading(size, f"the first size from {start:,} on at which {fell}")
        size = self.candidates.n_tokens
        if size < start:
            return Reading(size, f"the {size:,} tokens learned end before {start:,}, where the rule begins", True)
        least = 100 * self.doublings().min()
        falls = f"every doubling up to {size:,} tokens lowers the entropy by {least:.3g} % of its value or more"
        return Reading(size, f"{falls}, not yet by less than 1/8", True)

    def doublings(self) -> NDArray[np.float64]:
        """(H_{S/2} − H_S) / H_{S/2} of each size S from max(1,000, 2 A) up; S/2 is rounded down."""
        sizes = np.arange(self._utility_start(), self.candidates.n_tokens + 1)
        entropies, low = self.curve.entropies, self.candidates.smallest
        before = entropies[sizes // 2 - low]
        return np.asarray(np.where(before > 0, 1 - entropies[sizes - low] / np.where(before > 0, before, 1), 0.0))

    def _utility_start(self) -> int:
        return max(LEAST, 2 * self.candidates.smallest)

    def fed(self) -> Reading:
        """The largest size at which half of the tokens in use occur at least 500 times."""
        occurring = self._types(1)
        enough = (self._types(FED_COUNT) >= np.ceil(FED_SHARE * occurring)) & (occurring > 0)
        kind = self._kind
        index, at_least = self._last(enough, FED_COUNT)
        if index is None:
            size = self.candidates.smallest
            return Reading(size, f"at no size do half of the {kind}s in use occur {FED_COUNT} times", at_least)
        size = int(self.curve.sizes[index])
        found = f"the largest size at which half of the {kind}s in use occur {FED_COUNT} times or more"
        return Reading(size, found, at_least)

    def f95(self) -> Reading:
        """The largest size of whose types 95 % occur at least 100 times; without one, the size that comes closest."""
        sizes, kind = self.curve.sizes - self._first, self._kind
        enough = (self._types(F95_COUNT) >= np.ceil(F95_SHARE * sizes)) & (sizes > 0)
        index, at_least = self._last(enough, F95_COUNT)
        if index is not None:
            size = int(self.curve.sizes[index])
            found = f"the largest size at which 95 % of the {kind}s occur {F95_COUNT} times or more"
            return Reading(size, found, at_least)
        shares = self._types(F95_COUNT) / np.maximum(sizes, 1)
        index = int(np.argmax(shares))
        size, share = int(self.curve.sizes[index]), 100 * shares[index]
        found = f"at no size do 95 % of the {kind}s occur {F95_COUNT} times; this comes closest, with {share:.0f} %"
        return Reading(size, found, at_least)

    def scaling(self, model: LanguageModel) -> Reading:
        """The size that a language model deserves, whatever the corpus."""
        size, low, high = model.size, self.candidates.smallest, self.candidates.n_tokens
        why = f"{model.params:g} parameters of width {model.width:,} deserve {size:,} tokens"
        if size > high:
            return Reading(high, why, at_least=True)
        return Reading(size, why) if size >= low else Reading(low, f"{why}, fewer than the {low:,} {self._least}")

    def knee(self) -> Reading:
        """Where the entropy lies farthest below the chord, over a range that is always the same."""
        low, high = (min(max(bound, self.candidates.smallest), self.candidates.n_tokens) for bound in KNEE_RANGE)
        low = low if low < high else self.candidates.smallest
        within = slice(low - self.candidates.smallest, high + 1 - self.candidates.smallest)
        index = knee(self.curve.entropies[within], self.curve.sizes[within])
        size = int(self.curve.sizes[within][index])
        short = high < KNEE_RANGE[1] and self.candidates.left != 0
        return Reading(
            size, f"the entropy lies farthest below the straight line from {low:,} to {high:,} tokens", short
        )

    @property
    def _least(self) -> str:
        return "tokens that are extended" if self.candidates.extends else "atoms"

    def _types(self, least: int) -> Longs:
        """(n_sizes,): how many types of each size occur at least so often; of an extension, only new ones count."""
        first = self._first
        often = self.candidates.curve(lambda counts, tokens: (counts >= least) & (tokens >= first))
        return often[self.merges_at].astype(np.int64)

    @property
    def _first(self) -> int:
        """The first token that counts for fed and f95."""
        return self.candidates.smallest if self.candidates.extends else 0

    @property
    def _kind(self) -> str:
        return "new token" if self.candidates.extends else "token"

    def _last(self, enough: Flags, least: int) -> tuple[int | None, bool]:
        """The last size with enough, and whether the candidates end before that is certain.

        Until merges make only tokens that occur less than `least` times, a corpus with many rare characters may still
        come to have enough; the first size afterwards that has not is the end.
        """
        faded = np.flatnonzero(~enough & (self.merges_at >= self._faded(least)))
        end = int(faded[0]) if len(faded) else len(enough)
        found = np.flatnonzero(enough[:end])
        undecided = not len(faded) and self.candidates.left != 0
        if not len(found):
            return None, undecided
        return int(found[-1]), undecided and bool(enough[-1])

    def _faded(self, least: int) -> int:
        """After how many merges none makes a token that occurs so often; overlaps, as in "aaa", tell less and are
        left out."""
        parts, gains = self.candidates.parts, self.candidates.gains()
        extends = self.candidates.extends
        gains[: len(extends.vocabulary.merges) if extends else 0] = least  # which are made at every size
        faded = np.flatnonzero((gains < least) & (parts[:, 0] != parts[:, 1]))
        if len(faded):
            return int(faded[0])
        known = self.candidates.left is not None and self.candidates.left < least
        return len(gains) if known else len(gains) + 1
