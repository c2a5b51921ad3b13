"""Candidates and size steps → the size that each rule picks, and why.

trained    7 √(C / E) tokens for a text of C characters that a training reads E times, fewer beyond
           8 (the default)
balanced   the larger of utility and median500
utility    the first size whose entropy is less than 1/8 below the entropy at half the size
median500  the largest size at which half of the tokens in use occur at least 500 times
knee       where the entropy lies farthest below the straight line from 1,000 to 30,000 tokens
f95        the largest size at which 95 % of the tokens occur at least 100 times (Gowda & May 2020)
muv        the greatest marginal utility (Eq. 1) of the searched sizes, as in the paper; with BPE,
           the second size
renyi      the greatest Rényi efficiency, α = 2.5 (Zouhar et al. 2023)
tokens     the fewest pieces in the corpus, so always the largest size
scaling    the size that a language model deserves (Tao et al. 2024)
fixed:N    N tokens

trained, balanced, utility, median500, knee, f95 and scaling do not depend on the searched sizes.
For an extended vocabulary, the smallest size is the number of tokens that its merges make,
median500 and f95 count only new tokens, and trained counts only tokens that occur in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.choose.criteria import knee, muv
from volt.choose.exact_curve import EntropyCurve, merges_at_every_size, sum_at_every_size
from volt.choose.scaling_law import LanguageModel
from volt.choose.size_steps import SizeStep
from volt.choose.training_law import Training
from volt.count.corpus_statistics import text_characters
from volt.display import counted
from volt.errors import ConfigError
from volt.learn.candidates import Candidates

DEFAULT = TRAINED = "trained"
SCALING = "scaling"

MEDIAN_COUNT = 500  # occurrences, in median500
F95_COUNT = 100  # occurrences, in f95
UTILITY = 1 / 8  # the share by which the entropy falls at a doubling that is still worth it
LEAST = 1_000  # tokens, the smallest size that utility may pick
KNEE_RANGE = 1_000, 30_000  # tokens, between which knee draws its straight line


@dataclass(frozen=True, slots=True)
class CurvePick:
    """The size that a rule picks on the curve, and why.

    at_least: whether more merges could change the pick
    """

    size: int
    why: str
    at_least: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ExactCurve:
    """The rules that read the exact counts and entropies at every size of the candidates."""

    candidates: Candidates
    curve: EntropyCurve

    def trained(self, training: Training) -> CurvePick:
        """Return the size that the text deserves in this training (see `Training`)."""
        n_characters = text_characters(self.candidates.counts)
        deserved = training.size(n_characters)
        why = training.reason(n_characters)
        if not self.candidates.extends:
            return self._clip(deserved, why)

        n_used = self._count_frequent(1, first=0)
        why = (
            f"{deserved:,} tokens that occur in the text, {why}; {n_used[0]:,} tokens of the "
            "extended vocabulary occur"
        )
        is_enough = n_used >= deserved
        if is_enough.any():
            return CurvePick(int(self.curve.sizes[np.argmax(is_enough)]), why)
        return CurvePick(self.candidates.n_tokens, why, may_grow(self.candidates))

    def scaling(self, model: LanguageModel) -> CurvePick:
        """Return the size that a language model deserves (Tao et al. 2024), whatever the corpus."""
        why = f"{model.params:g} parameters of width {model.width:,} deserve {model.size:,} tokens"
        return self._clip(model.size, why)

    def _clip(self, deserved: int, why: str) -> CurvePick:
        """Return the pick of a size, or of the nearest size that the candidates have."""
        low = self.candidates.smallest
        high = self.candidates.n_tokens
        if deserved < low:
            kind = "tokens that are extended" if self.candidates.extends else "atoms"
            why += f", and {deserved:,} tokens are fewer than the {low:,} {kind}"
            return CurvePick(low, why)
        return CurvePick(min(deserved, high), why, at_least=deserved > high)

    def balanced(self) -> CurvePick:
        """Return the larger of `utility` and `median500`; for an extension, return `median500`."""
        utility = self.utility()
        pick = self.median500()
        note = " (median500; utility is not larger)"
        if self.candidates.extends:
            note = (
                "; for an extension balanced leaves utility out, because few extensions double a "
                "vocabulary"
            )
        elif utility.at_least or utility.size > pick.size:
            pick = utility
            note = " (utility; median500 is not larger)"
        return replace(pick, why=pick.why + note)

    def utility(self) -> CurvePick:
        """Return the first size whose entropy is less than 1/8 below the entropy at half the size.

        The rule begins at 1,000 tokens or, if that is more, at twice the smallest size.
        """
        low = self.candidates.smallest
        high = self.candidates.n_tokens
        start = max(LEAST, 2 * low)
        if high < start:
            why = f"the {high:,} tokens learned end before {start:,}, where the rule begins"
            return CurvePick(high, why, at_least=True)

        sizes = np.arange(start, high + 1)
        halves = self.curve.entropies[sizes // 2 - low]
        ratios = np.ones_like(halves)
        np.divide(self.curve.entropies[sizes - low], halves, out=ratios, where=halves > 0)
        falls = 1 - ratios

        is_small = falls < UTILITY
        if is_small.any():
            why = (
                f"the first size from {start:,} on at which the last doubling lowered the entropy "
                "by less than 1/8 of its value"
            )
            return CurvePick(int(sizes[np.argmax(is_small)]), why)
        why = (
            f"every doubling up to {high:,} tokens lowers the entropy by {100 * falls.min():.3g} % "
            "of its value or more, not yet by less than 1/8"
        )
        return CurvePick(high, why, at_least=True)

    def knee(self) -> CurvePick:
        """Return where the entropy is farthest below the line from 1,000 to 30,000 tokens."""
        smallest = self.candidates.smallest
        low, high = np.clip(KNEE_RANGE, smallest, self.candidates.n_tokens).tolist()
        if low == high:
            low = smallest

        within = slice(low - smallest, high + 1 - smallest)
        size = low + knee(self.curve.entropies[within], self.curve.sizes[within])
        why = f"the entropy lies farthest below the straight line from {low:,} to {high:,} tokens"
        return CurvePick(size, why, high < KNEE_RANGE[1] and may_grow(self.candidates))

    def median500(self) -> CurvePick:
        """Return the largest size at which half of the tokens in use occur at least 500 times."""
        return self._largest(
            MEDIAN_COUNT,
            share=0.5,
            n_types=self._count_frequent(1, self._first),
            which=f"half of the {self._kind}s in use",
        )

    def f95(self) -> CurvePick:
        """Return the largest size at which 95 % of the tokens occur at least 100 times.

        If there is no such size, return the size with the greatest share of such tokens.
        """
        return self._largest(
            F95_COUNT,
            share=0.95,
            n_types=self.curve.sizes - self._first,
            which=f"95 % of the {self._kind}s",
            closest=True,
        )

    def _largest(
        self, least: int, *, share: float, n_types: Longs, which: str, closest: bool = False
    ) -> CurvePick:
        """Return the largest size at which a share of the types occur `least` times.

        n_types: (n_sizes,) the number of types at each size
        which: the share of types in words, for the reason
        closest: if there is no such size, whether to return the one with the greatest share of such
            types instead of the smallest size

        Rare characters may fail the share at the first sizes, until enough merges made frequent
        tokens. Once merges make rare tokens only, a failure is final: larger sizes do not count.
        """
        n_frequent = self._count_frequent(least, self._first)
        is_enough = (n_frequent >= share * n_types) & (n_types > 0)
        n_merges = merges_at_every_size(self.candidates)
        is_final = ~is_enough & (n_merges >= self._count_frequent_merges(least))
        is_open = may_grow(self.candidates)
        if is_final.any():
            is_enough = is_enough[: int(np.argmax(is_final))]
            is_open = False

        if is_enough.any():
            size = self.curve.sizes[np.flatnonzero(is_enough)[-1]]
            why = f"the largest size at which {which} occur {least} times or more"
            return CurvePick(int(size), why, is_open and bool(is_enough[-1]))

        size = self.curve.sizes[0]
        why = f"at no size do {which} occur {least} times"
        if closest:
            shares = n_frequent / np.maximum(n_types, 1)
            size = self.curve.sizes[np.argmax(shares)]
            why += f"; this comes closest, with {100 * shares.max():.0f} %"
        return CurvePick(int(size), why, is_open)

    def _count_frequent_merges(self, least: int) -> int:
        """Count the merges before the first one whose token occurs fewer than `least` times.

        If there is no such merge and more could be learned, the result is one more than all merges.
        """
        parts = self.candidates.parts
        extends = self.candidates.extends
        # Pairs overlap in "aaa", so a merge of a token with itself may be rarer than later ones.
        is_rare = self.candidates.gains() < least
        is_rare &= parts[:, 0] != parts[:, 1]
        if extends:
            is_rare[: len(extends.vocabulary.merges)] = False  # every size has these merges
        if is_rare.any():
            return int(np.argmax(is_rare))

        next_count = self.candidates.left
        is_next_rare = next_count is not None and next_count < least
        return len(is_rare) if is_next_rare else len(is_rare) + 1

    def _count_frequent(self, least: int, first: int) -> Longs:
        """Count at every size the tokens from number `first` on that occur `least` times."""
        n_frequent = sum_at_every_size(
            self.candidates, lambda counts, tokens: (counts >= least) & (tokens >= first)
        )
        return n_frequent.astype(np.int64)

    @property
    def _first(self) -> int:
        """The number of the first token that median500 and f95 count."""
        return self.candidates.smallest if self.candidates.extends else 0

    @property
    def _kind(self) -> str:
        return "new token" if self.candidates.extends else "token"


def may_grow(candidates: Candidates) -> bool:
    """Check whether more merges could be learned."""
    return candidates.left != 0


@dataclass(frozen=True, slots=True)
class Pick:
    """The size that a rule picks, and why.

    index: the index of the size among the measured steps
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
        return f"at least {self.size:,}" if self.at_least else f"{self.size:,}"

    @property
    def reason(self) -> str:
        if self.on_edge and not self.at_least:
            return f"{self.why} (edge of the range)"
        return self.why


def pick_muv(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """Return the index of the step with the greatest MUV from the previous step, and why."""
    if len(steps) == 1:
        return 0, "the only size"
    entropies = np.array([step.entropy for step in steps])
    values = muv(entropies, np.array([step.size for step in steps]))
    greatest = f"{values.max() * 1e6:,.1f}·10⁻⁶ nats per character and token"
    why = f"greatest marginal utility of {_count_sizes(steps)}, {greatest}"
    return int(np.argmax(values)) + 1, why  # the first step has no MUV


def pick_renyi(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """Return the index of the step with the greatest Rényi efficiency, and why."""
    index = int(np.argmax([step.renyi for step in steps]))
    return index, f"greatest Rényi efficiency of {_count_sizes(steps)}, {steps[index].renyi:.3f}"


def pick_tokens(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """Return the index of the step with the fewest pieces, and why."""
    index = int(np.argmin([step.n_pieces for step in steps]))
    return index, f"fewest pieces of {_count_sizes(steps)}, {steps[index].n_pieces:,}"


def _count_sizes(steps: Sequence[SizeStep]) -> str:
    return f"the {counted(len(steps), 'size')} searched"


EXACT: dict[str, Callable[[ExactCurve], CurvePick]] = {
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
    """Return the names of all rules but "scaling", which needs a language model, and "fixed:N"."""
    return (TRAINED, *EXACT, *AMONG_STEPS)


def as_rule(rule: str | int) -> str:
    """Return the name of a rule; a size such as 8000 stands for "fixed:8000".

    Raises ConfigError if the rule is unknown.
    """
    if rule is None:
        raise arguments.refusal(rule, "select", f"choose from {', '.join(rules())}, or give a size")
    if not isinstance(rule, str):
        return f"fixed:{arguments.whole(rule, 'select', low=1)}"
    parse_rule(rule)
    return rule


def parse_rule(rule: str) -> int | None:
    """Return N for the rule "fixed:N", None for other rules.

    Raises ConfigError if the rule is unknown.
    """
    name, _, size = rule.partition(":")
    if name == "fixed" and size.isdecimal():
        return int(size)
    names = (*rules(), SCALING)
    if rule not in names:
        unknown = arguments.shortened(repr(rule))
        raise ConfigError(f"unknown rule {unknown}; choose from {', '.join(names)}, fixed:N")
    return None


def checked_model(model: LanguageModel | None, select: str = "") -> LanguageModel | None:
    """Return the language model after checking its type.

    Raises ConfigError if the model is None and the rule `select` is "scaling".
    """
    example = "give a model such as model=volt.LanguageModel(params=1.2e9, width=2048)"
    if model is not None:
        return arguments.instance(model, LanguageModel, "model", remedy=example)
    if select == SCALING:
        raise ConfigError(f"the rule {SCALING} needs a language model; {example}")
    return None


def checked_training(training: Training | None) -> Training:
    """Return the training after checking its type; None becomes a training of assumed length."""
    if training is None:
        return Training()
    remedy = "give a training such as training=volt.Training(epochs=10)"
    return arguments.instance(training, Training, "training", remedy=remedy)


def curve_picks(
    curve: ExactCurve, training: Training, model: LanguageModel | None = None
) -> dict[str, CurvePick]:
    """Return the pick of every rule that reads the exact curve."""
    picks = {TRAINED: curve.trained(training)}
    for rule, pick in EXACT.items():
        picks[rule] = pick(curve)
    if model is not None:
        picks[SCALING] = curve.scaling(model)
    return picks


def all_picks(
    steps: Sequence[SizeStep],
    on_curve: Mapping[str, CurvePick],
    *,
    searched: Sequence[int],
    fixed: int | None = None,
) -> dict[str, Pick]:
    """Return the pick of every rule, by the rule's name.

    steps: the measured sizes, which contain the sizes of the other arguments
    on_curve: the picks of the rules that read the exact curve
    searched: the sizes that the rules muv, renyi and tokens choose from
    fixed: N of the rule "fixed:N", if it is selected
    """
    index_of = {step.size: index for index, step in enumerate(steps)}
    picks = dict[str, Pick]()
    for rule, pick in on_curve.items():
        index = index_of[pick.size]
        picks[rule] = Pick(rule, index, pick.size, pick.why, pick.at_least, pick.at_least)

    offered = [steps[index_of[size]] for size in searched]
    last = len(offered) - 1
    for rule, choose in AMONG_STEPS.items():
        index, why = choose(offered)
        first = min(1, last) if rule == "muv" else 0
        size = searched[index]
        picks[rule] = Pick(rule, index_of[size], size, why, on_edge=index in (first, last))

    if fixed is not None:
        rule = f"fixed:{fixed}"
        picks[rule] = Pick(rule, index_of[fixed], fixed, "as requested", on_edge=False)
    return picks
