"""Candidates and size steps → the size that each rule picks, and why.

trained    7 √(C / E) tokens for a text of C characters that a training reads E times, fewer beyond 8 (the default)
balanced   the larger of utility and median500
utility    the first size whose entropy is less than 1/8 below the entropy at half the size
median500  the largest size at which half of the tokens in use occur at least 500 times
knee       where the entropy lies farthest below the straight line from 1,000 to 30,000 tokens
f95        the largest size at which 95 % of the tokens occur at least 100 times (Gowda & May 2020)
muv        the greatest marginal utility (Eq. 1) of the searched sizes, as in the paper; with BPE, the second size
renyi      the greatest Rényi efficiency, α = 2.5 (Zouhar et al. 2023)
tokens     the fewest pieces in the corpus, so always the largest size
scaling    the size that a language model deserves (Tao et al. 2024)
fixed:N    N tokens

trained, balanced, utility, median500, knee, f95 and scaling do not depend on the searched sizes. For an extended
vocabulary, the smallest size is the number of tokens that its merges make, median500 and f95 count only new tokens, and
trained counts only tokens that occur in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.choose.criteria import knee
from volt.choose.exact_curve import EntropyCurve
from volt.choose.scaling_law import LanguageModel
from volt.choose.size_steps import SizeStep
from volt.choose.training_law import Training
from volt.count.corpus_statistics import text_characters
from volt.display import counted
from volt.errors import ConfigError
from volt.learn.candidates import Candidates

DEFAULT = TRAINED = "trained"
SCALING = "scaling"

Longs = NDArray[np.int64]

MEDIAN_COUNT, MEDIAN_SHARE = 500, 0.5
F95_COUNT, F95_SHARE = 100, 0.95
UTILITY = 1 / 8  # of the entropy, for a doubling of the size
LEAST = 1_000  # tokens: the smallest size that the rule utility may pick
KNEE_RANGE = 1_000, 30_000  # tokens


@dataclass(frozen=True, slots=True)
class RuleReading:
    """The size that a rule picks on the curve, and why. at_least: whether more merges could change the pick"""

    size: int
    why: str
    at_least: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ExactCurve:
    """Candidates, the entropies of all their sizes, and the rules that need nothing else."""

    candidates: Candidates
    curve: EntropyCurve

    def trained(self, training: Training) -> RuleReading:
        """Return the size that a text deserves in a training of some length."""
        n_characters = text_characters(self.candidates.counts)
        why, deserved = training.reason(n_characters), training.size(n_characters)
        if self.candidates.extends:
            return self._first_in_use(deserved, why)
        return self._within(deserved, why)

    def _first_in_use(self, deserved: int, why: str) -> RuleReading:
        """Return the smallest size of which as many tokens occur."""
        in_use = self._often(1, 0)
        index = (
            int(np.argmax(in_use >= deserved)) if (in_use >= deserved).any() else len(in_use) - 1
        )
        why = f"{deserved:,} tokens that occur in the text, {why}; {in_use[0]:,} tokens of the extended vocabulary occur"
        is_open = bool(in_use[index] < deserved and self.candidates.left != 0)
        return RuleReading(int(self.curve.sizes[index]), why, is_open)

    def _within(self, deserved: int, why: str) -> RuleReading:
        """Return a size, limited to those of the candidates."""
        low, high = self.candidates.smallest, self.candidates.n_tokens
        if deserved < low:
            least = "tokens that are extended" if self.candidates.extends else "atoms"
            return RuleReading(
                low, f"{why}, and {deserved:,} tokens are fewer than the {low:,} {least}"
            )
        return RuleReading(min(deserved, high), why, at_least=deserved > high)

    def balanced(self) -> RuleReading:
        """Return the larger of `utility` and `median500`; if a vocabulary is extended, `median500`."""
        utility, median500 = self.utility(), self.median500()
        if self.candidates.extends:
            why = "for an extension balanced leaves utility out, because few extensions double a vocabulary"
            return replace(median500, why=f"{median500.why}; {why}")
        if utility.at_least or utility.size > median500.size:
            return replace(utility, why=f"{utility.why} (utility; median500 is not larger)")
        return replace(median500, why=f"{median500.why} (median500; utility is not larger)")

    def utility(self) -> RuleReading:
        """Return the first size whose entropy is less than 1/8 below the entropy at half the size.

        The rule begins at 1,000 tokens or, if that is more, at twice the smallest size.
        """
        low, size, entropies = (
            self.candidates.smallest,
            self.candidates.n_tokens,
            self.curve.entropies,
        )
        start = max(LEAST, 2 * low)
        if size < start:
            return RuleReading(
                size,
                f"the {size:,} tokens learned end before {start:,}, where the rule begins",
                True,
            )
        sizes = np.arange(start, size + 1)
        before = entropies[sizes // 2 - low]
        falls = np.where(
            before > 0, 1 - entropies[sizes - low] / np.where(before > 0, before, 1), 0.0
        )
        if (falls < UTILITY).any():
            why = f"the first size from {start:,} on at which the last doubling lowered the entropy by less than 1/8"
            return RuleReading(int(sizes[np.argmax(falls < UTILITY)]), f"{why} of its value")
        why = f"every doubling up to {size:,} tokens lowers the entropy by {100 * falls.min():.3g} % of its value or more"
        return RuleReading(size, f"{why}, not yet by less than 1/8", True)

    def median500(self) -> RuleReading:
        """Return the largest size at which half of the tokens in use occur at least 500 times."""
        return self._largest(
            MEDIAN_COUNT,
            MEDIAN_SHARE,
            self._often(1, self._first),
            f"half of the {self._kind}s in use",
        )

    def f95(self) -> RuleReading:
        """Return the largest size at which 95 % of tokens occur 100 times; if none, that of the highest share."""
        n_types = self.curve.sizes - self._first
        return self._largest(
            F95_COUNT, F95_SHARE, n_types, f"95 % of the {self._kind}s", closest=True
        )

    def scaling(self, model: LanguageModel) -> RuleReading:
        """Return the size that a language model deserves (Tao et al. 2024), whatever the corpus."""
        why = f"{model.params:g} parameters of width {model.width:,} deserve {model.size:,} tokens"
        return self._within(model.size, why)

    def knee(self) -> RuleReading:
        """Return where the entropy lies farthest below the straight line from 1,000 to 30,000 tokens."""
        smallest = self.candidates.smallest
        low, high = (min(max(bound, smallest), self.candidates.n_tokens) for bound in KNEE_RANGE)
        low = low if low < high else smallest
        within = slice(low - smallest, high + 1 - smallest)
        size = low + knee(self.curve.entropies[within], self.curve.sizes[within])
        why = f"the entropy lies farthest below the straight line from {low:,} to {high:,} tokens"
        return RuleReading(size, why, high < KNEE_RANGE[1] and bool(self.candidates.left != 0))

    def _often(self, least: int, first: int) -> Longs:
        """Return how many tokens from `first` on occur `least` times, at every size."""
        often = self.candidates.curve(lambda counts, tokens: (counts >= least) & (tokens >= first))
        return often[self._merges_at].astype(np.int64)

    @property
    def _merges_at(self) -> Longs:
        return np.searchsorted(self.candidates.sizes_after(), self.curve.sizes, side="right") - 1

    @property
    def _first(self) -> int:
        return self.candidates.smallest if self.candidates.extends else 0

    @property
    def _kind(self) -> str:
        return "new token" if self.candidates.extends else "token"

    def _largest(
        self, least: int, share: float, n_types: Longs, which: str, *, closest: bool = False
    ) -> RuleReading:
        """Return the largest size at which a share of types occur `least` times.

        n_types: the number of types at every size
        which: the share of types in words, for the reason
        closest: whether to return the closest size if there is no such size; otherwise, the smallest
        """
        # Many rare characters may fail the share at first; later merges may still make enough frequent tokens.
        often = self._often(least, self._first)
        enough = (often >= np.ceil(share * n_types)) & (n_types > 0)
        faded = np.flatnonzero(~enough & (self._merges_at >= self._faded(least)))
        enough = enough[: faded[0]] if len(faded) else enough
        undecided = not len(faded) and bool(self.candidates.left != 0)
        if enough.any():
            index, why = (
                np.flatnonzero(enough)[-1],
                f"the largest size at which {which} occur {least} times or more",
            )
            undecided &= bool(enough[-1])
        else:
            shares = often / np.maximum(n_types, 1)
            index, why = (
                np.argmax(shares) if closest else 0,
                f"at no size do {which} occur {least} times",
            )
            why += f"; this comes closest, with {100 * shares.max():.0f} %" * closest
        return RuleReading(int(self.curve.sizes[index]), why, undecided)

    def _faded(self, least: int) -> int:
        """Return how many merges precede the first one whose token occurs fewer than `least` times."""
        parts, gains = self.candidates.parts, self.candidates.gains()
        extends = self.candidates.extends
        gains[: len(extends.vocabulary.merges) if extends else 0] = (
            least  # these merges belong to every size
        )
        faded = np.flatnonzero(
            (gains < least) & (parts[:, 0] != parts[:, 1])
        )  # "aaa" contains overlapping pairs
        if len(faded):
            return int(faded[0])
        known = self.candidates.left is not None and self.candidates.left < least
        return len(gains) if known else len(gains) + 1


@dataclass(frozen=True, slots=True)
class Pick:
    """The size that a rule picks; `index` is the place of this size among the measured steps.

    on_edge: whether it is the first or the last size that the rule could pick
    at_least: whether more merges could change the pick
    """

    rule: str
    index: int
    size: int
    why: str
    on_edge: bool
    at_least: bool = False

    @property
    def size_text(self) -> str:
        return "at least " * self.at_least + f"{self.size:,}"

    @property
    def reason(self) -> str:
        return self.why + " (edge of the range)" * (self.on_edge and not self.at_least)


def pick_muv(steps: Sequence[SizeStep]) -> tuple[int, str]:
    values = [
        (before.entropy - step.entropy) / (step.size - before.size)
        for before, step in pairwise(steps)
    ]
    if not values:
        return 0, "the only size"
    index = int(np.argmax(values)) + 1
    result = f"{values[index - 1] * 1e6:,.1f}·10⁻⁶ nats per character and token"
    return index, f"greatest marginal utility of {_searched(steps)}, {result}"


def pick_renyi(steps: Sequence[SizeStep]) -> tuple[int, str]:
    index = int(np.argmax([step.renyi for step in steps]))
    return index, f"greatest Rényi efficiency of {_searched(steps)}, {steps[index].renyi:.3f}"


def pick_tokens(steps: Sequence[SizeStep]) -> tuple[int, str]:
    index = int(np.argmin([step.n_pieces for step in steps]))
    return index, f"fewest pieces of {_searched(steps)}, {steps[index].n_pieces:,}"


def _searched(steps: Sequence[SizeStep]) -> str:
    return f"the {counted(len(steps), 'size')} searched"


EXACT: dict[str, Callable[[ExactCurve], RuleReading]] = {
    "balanced": ExactCurve.balanced,
    "utility": ExactCurve.utility,
    "median500": ExactCurve.median500,
    "knee": ExactCurve.knee,
    "f95": ExactCurve.f95,
}
AMONG_STEPS: dict[str, Callable[[Sequence[SizeStep]], tuple[int, str]]] = {
    "muv": pick_muv,
    "renyi": pick_renyi,
    "tokens": pick_tokens,
}


def rules() -> tuple[str, ...]:
    return (TRAINED, *EXACT, *AMONG_STEPS)


def as_rule(rule: str | int) -> str:
    """Return the name of a rule; a size such as 8000 stands for "fixed:8000"."""
    if isinstance(rule, str):
        return rule
    if rule is None:
        raise arguments.refusal(rule, "select", f"choose from {', '.join(rules())}, or give a size")
    return f"fixed:{arguments.whole(rule, 'select', low=1)}"


def parse_rule(rule: str) -> int | None:
    """Return N for the rule "fixed:N", None for other rules. Raises ConfigError if the rule is unknown."""
    name, _, size = rule.partition(":")
    if name == "fixed" and size.isdecimal():
        return int(size)
    if rule not in (*rules(), SCALING):
        names = ", ".join((*rules(), SCALING))
        raise ConfigError(
            f"unknown rule {arguments.shortened(repr(rule))}; choose from {names}, fixed:N"
        )
    return None


def checked_model(model: LanguageModel | None, select: str = "") -> LanguageModel | None:
    """Check a model, which may be None unless the rule is "scaling". select: the rule"""
    example = "give model=volt.LanguageModel(params=1.2e9, width=2048), say"
    if model is not None:
        return arguments.instance(model, LanguageModel, "model", remedy=example)
    if select == SCALING:
        raise ConfigError(f"the rule {SCALING} needs a language model; {example}")
    return None


def checked_training(training: Training | None) -> Training:
    """Return the length of a training; None stands for an assumed length."""
    remedy = "give training=volt.Training(epochs=10), say"
    return (
        Training()
        if training is None
        else arguments.instance(training, Training, "training", remedy=remedy)
    )


def exact_readings(
    curve: ExactCurve, training: Training, model: LanguageModel | None = None
) -> dict[str, RuleReading]:
    result = {
        TRAINED: curve.trained(training),
        **{rule: read(curve) for rule, read in EXACT.items()},
    }
    return result if model is None else {**result, SCALING: curve.scaling(model)}


def all_picks(
    steps: Sequence[SizeStep],
    readings: dict[str, RuleReading],
    *,
    searched: Sequence[int],
    fixed: int | None = None,
) -> dict[str, Pick]:
    """Return the pick of every rule. searched: the sizes that muv, renyi and tokens choose from"""
    at = {step.size: index for index, step in enumerate(steps)}
    picks = {
        rule: Pick(
            rule, at[one.size], one.size, one.why, on_edge=one.at_least, at_least=one.at_least
        )
        for rule, one in readings.items()
    }
    offered = [steps[at[size]] for size in searched]
    for rule, choose in AMONG_STEPS.items():
        index, why = choose(offered)
        first = min(1, len(offered) - 1) if rule == "muv" else 0
        size = offered[index].size
        picks[rule] = Pick(rule, at[size], size, why, on_edge=index in (first, len(offered) - 1))
    if fixed is not None:
        picks[f"fixed:{fixed}"] = Pick(
            f"fixed:{fixed}", at[fixed], fixed, "as requested", on_edge=False
        )
    return picks


def with_notes(picks: dict[str, Pick], candidates: Candidates) -> dict[str, Pick]:
    """Add to the reasons of picks of the smallest size that no merge is made."""
    unit = "byte" if candidates.counts.pretokenizer.is_bytes else "character"
    note = f"no merge is made, so every token is one {unit}"
    if candidates.extends:
        note = "no merge is added"

    result = dict(picks)
    for rule, pick in picks.items():
        if pick.size == candidates.smallest:
            result[rule] = replace(pick, why=f"{pick.why}; at {pick.size:,} tokens {note}")
    return result
