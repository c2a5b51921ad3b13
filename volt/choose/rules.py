"""Candidates and size steps → the size that each rule picks, why, and how far the pick can be trusted.

balanced   the larger of utility and median500 (the default)
utility    the first size at which doubling lowered the entropy by less than 1/8 of its value
median500  the largest size at which half of the tokens in use occur at least 500 times
knee       where the entropy lies farthest below the chord from 1,000 to 30,000 tokens
f95        the largest size at which 95 % of the tokens occur at least 100 times (Gowda & May 2020)
muv        argmax of Eq. 1 among the searched sizes (the paper's text); on a BPE sweep that is the first
renyi      the greatest Rényi efficiency, α = 2.5 (Zouhar et al. 2023)
tokens     the fewest pieces in the corpus, so always the largest size
scaling    the size that a language model deserves (Tao et al. 2024)
fixed:N    N tokens
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from volt import arguments
from volt.choose.exact_curve import MEDIAN_COUNT, ExactCurve, RuleReading
from volt.choose.language_model import LanguageModel
from volt.choose.size_steps import SizeStep
from volt.count.corpus_statistics import unspaced, warning
from volt.display import counted
from volt.errors import ConfigError
from volt.learn.candidates import Candidates

DEFAULT = "balanced"
SCALING = "scaling"


@dataclass(frozen=True, slots=True)
class Pick:
    """The size (of the step `index`) that a rule picks.

    on_edge: whether it is the first or the last size that the rule could pick
    at_least: whether the candidates end before the rule is decided
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
    values = [(before.entropy - step.entropy) / (step.size - before.size) for before, step in pairwise(steps)]
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
    return (*EXACT, *AMONG_STEPS)


def as_rule(rule: str | int) -> str:
    """Return the name of a rule; a size such as 8000 stands for "fixed:8000"."""
    if isinstance(rule, str):
        return rule
    if rule is None:
        raise arguments.refusal(rule, "select", f"choose from {', '.join(rules())}, or give a size")
    return f"fixed:{arguments.whole(rule, 'select', low=1)}"


def parse_rule(rule: str) -> int | None:
    """Return the size of a "fixed:N" rule, None for others. Raises ConfigError if there is no such rule."""
    name, _, size = rule.partition(":")
    if name == "fixed" and size.isdecimal():
        return int(size)
    if rule not in (*rules(), SCALING):
        names = ", ".join((*rules(), SCALING))
        raise ConfigError(f"unknown rule {arguments.shortened(repr(rule))}; choose from {names}, fixed:N")
    return None


def checked_model(model: LanguageModel | None, select: str = "") -> LanguageModel | None:
    """Return the model, if it is one or None. select: the rule; "scaling" needs a model"""
    example = "give model=volt.LanguageModel(params=1.2e9, width=2048), say"
    if model is not None:
        return arguments.instance(model, LanguageModel, "model", remedy=example)
    if select == SCALING:
        raise ConfigError(f"the rule {SCALING} needs a language model; {example}")
    return None


def exact_readings(readings: ExactCurve, model: LanguageModel | None = None) -> dict[str, RuleReading]:
    """Return the reading of every rule on the exact curve. model: for the rule scaling"""
    result = {rule: read(readings) for rule, read in EXACT.items()}
    return result if model is None else {**result, SCALING: readings.scaling(model)}


def all_picks(
    steps: Sequence[SizeStep], readings: dict[str, RuleReading], *, searched: Sequence[int], fixed: int | None = None
) -> dict[str, Pick]:
    """Return the pick of every rule. searched: the sizes that muv, renyi and tokens choose from"""
    at = {step.size: index for index, step in enumerate(steps)}
    picks = {
        rule: Pick(rule, at[one.size], one.size, one.why, on_edge=one.at_least, at_least=one.at_least)
        for rule, one in readings.items()
    }
    offered = [steps[at[size]] for size in searched]
    for rule, choose in AMONG_STEPS.items():
        index, why = choose(offered)
        first = min(1, len(offered) - 1) if rule == "muv" else 0
        size = offered[index].size
        picks[rule] = Pick(rule, at[size], size, why, on_edge=index in (first, len(offered) - 1))
    if fixed is not None:
        picks[f"fixed:{fixed}"] = Pick(f"fixed:{fixed}", at[fixed], fixed, "as asked", on_edge=False)
    return picks


FAIR_COUNT = 50
SMALL_CORPUS = 100_000  # words; in fewer, all but the commonest tokens occur a handful of times


def supported(candidates: Candidates, size: int) -> str:
    """Return how often half of the tokens in use occur at least, and how well that supports the size."""
    counts = candidates.counts_at(size)[candidates.smallest if candidates.extends else 0 :]
    used = np.sort(counts[counts > 0])
    median = int(used[len(used) // 2]) if len(used) else 0  # the upper one of two, as in median500
    degree = "good" if median >= MEDIAN_COUNT else "fair" if median >= FAIR_COUNT else "weak"
    kind = "new token" if candidates.extends else "token"
    return f"{degree} support: half of the {kind}s in use occur {counted(median, 'time')} or more"


def caveats(candidates: Candidates, steps: Sequence[SizeStep], searched: Sequence[int], pick: Pick) -> Iterator[str]:
    """Yield warnings about the result, each with a remedy."""
    if pick.at_least:
        if candidates.left == 0:
            undecided = f"no pair is left to merge after {candidates.n_tokens:,} tokens. Give more text"
        else:
            undecided = f"the candidates end at {candidates.n_tokens:,} tokens. Learn more merges"
        yield f"{pick.rule} picks {pick.size_text}: {undecided}"
    elif pick.on_edge and len(searched) > 1:
        yield (
            f"{pick.rule} picks {pick.size:,}, on the edge of the searched range {searched[0]:,} to "
            f"{searched[-1]:,}: the range decides, not the corpus. Widen it, or choose another rule"
        )
    if failed := [step for step in steps if not step.converged]:
        result = f"{len(failed)} of {len(steps)} transports did not converge, first at {failed[0].size:,}"
        yield f"{result}: {failed[0].remedy}"
    counts = candidates.counts
    if text := unspaced(counts):
        yield warning(text)
    elif counts.total < SMALL_CORPUS:
        yield (
            f"{counts.total:,} words are a tiny corpus: most tokens rest on a few occurrences. "
            "Expect another choice from more text"
        )
    if counts.n_left_out or counts.bound:
        share = f"{100 * counts.n_left_out / (counts.n_left_out + counts.total):.3g} % of all"
        if counts.bound:
            yield (
                f"counts are approximate: none is too low by more than {counts.bound:,}, and none was when words were "
                f"left out, {share}"
            )
        else:
            yield f"words that occur too rarely were left out, {share}"
    if n_bad := counts.n_bad_lines:
        were = "was" if n_bad == 1 else "were"
        yield f"{counted(n_bad, 'line')} {were} not UTF-8 and {were} repaired or skipped"
