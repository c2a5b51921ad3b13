"""Candidates and size steps → the size that each rule picks, why, and how far the pick can be trusted.

balanced  the larger of utility and fed (the default)
utility   the first size at which doubling lowered the entropy by less than 1/8 of its value
fed       the largest size at which half of the tokens in use occur at least 500 times
knee      where the entropy lies farthest below the chord from 1,000 to 30,000 tokens
f95       the largest size at which 95 % of the tokens occur at least 100 times (Gowda & May 2020)
muv       the greatest marginal utility, argmax of Eq. 1 (the paper's text); on a BPE sweep that is the first size
renyi     the greatest Rényi efficiency, α = 2.5 (Zouhar et al. 2023, who rank tokenizers, not sizes, by it)
tokens    the fewest pieces in the corpus, so always the largest size
scaling   what a language model of a given size deserves (Tao et al. 2024); needs a model, see volt.choose.scaling
fixed:N   N tokens

The first five are read off the exact curve (volt.choose.exact); the next three choose among the sizes searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from volt import arguments
from volt.choose.exact import Reading, Readings
from volt.choose.scaling import RULE, LanguageModel
from volt.choose.size_steps import SizeStep
from volt.display import counted
from volt.errors import ConfigError

DEFAULT = "balanced"


@dataclass(frozen=True, slots=True)
class Pick:
    """What a rule picks.

    index, size: of the step
    why: the reason
    on_edge: whether it is the first or the last size that the rule could pick
    at_least: whether the candidates end before the rule is decided, so that the size may be greater
    """

    rule: str
    index: int
    size: int
    why: str
    on_edge: bool
    at_least: bool = False

    @property
    def told(self) -> str:
        """The size as reports show it.

        >>> Pick("utility", 3, 5000, "", on_edge=True, at_least=True).told
        'at least 5,000'
        """
        return "at least " * self.at_least + f"{self.size:,}"

    @property
    def reason(self) -> str:
        """Why, and whether the searched range decides."""
        return self.why + " (edge of the range)" * (self.on_edge and not self.at_least)


def pick_muv(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """The index of the greatest MUV, and why. A single step is picked as it is."""
    values = [(before.entropy - step.entropy) / (step.size - before.size) for before, step in pairwise(steps)]
    if not values:
        return 0, "the only size"
    index = int(np.argmax(values)) + 1
    found = f"{values[index - 1] * 1e6:,.1f}·10⁻⁶ nats per character and token"
    return index, f"greatest marginal utility of {_searched(steps)}, {found}"


def pick_renyi(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """The index of the greatest Rényi efficiency, and why."""
    index = int(np.argmax([step.renyi for step in steps]))
    return index, f"greatest Rényi efficiency of {_searched(steps)}, {steps[index].renyi:.3f}"


def pick_tokens(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """The index of the fewest pieces, and why."""
    index = int(np.argmin([step.n_pieces for step in steps]))
    return index, f"fewest pieces of {_searched(steps)}, {steps[index].n_pieces:,}"


def _searched(steps: Sequence[SizeStep]) -> str:
    return f"the {counted(len(steps), 'size')} searched"


EXACT: dict[str, Callable[[Readings], Reading]] = {
    "balanced": Readings.balanced,
    "utility": Readings.utility,
    "fed": Readings.fed,
    "knee": Readings.knee,
    "f95": Readings.f95,
}
AMONG_STEPS: dict[str, Callable[[Sequence[SizeStep]], tuple[int, str]]] = {
    "muv": pick_muv,
    "renyi": pick_renyi,
    "tokens": pick_tokens,
}


def rules() -> tuple[str, ...]:
    """The names of all rules that need no language model.

    >>> rules()[:3]
    ('balanced', 'utility', 'fed')
    """
    return (*EXACT, *AMONG_STEPS)


def as_rule(rule: str | int) -> str:
    """The name of a rule; a size stands for the rule that picks it.

    >>> as_rule(8000), as_rule("knee")
    ('fixed:8000', 'knee')
    """
    if isinstance(rule, str):
        return rule
    if rule is None:
        raise arguments.refusal(rule, "select", f"choose from {', '.join(rules())}, or give a size")
    return f"fixed:{arguments.whole(rule, 'select', low=1)}"


def parse_rule(rule: str) -> int | None:
    """The size of a "fixed:N" rule, None for the other rules. Raises ConfigError if there is no such rule.

    >>> parse_rule("fixed:8000"), parse_rule("knee")
    (8000, None)
    """
    name, _, size = rule.partition(":")
    if name == "fixed" and size.isdecimal():
        return int(size)
    if rule not in (*rules(), RULE):
        names = ", ".join((*rules(), RULE))
        raise ConfigError(f"unknown rule {arguments.shortened(repr(rule))}; choose from {names}, fixed:N")
    return None


def exact_readings(readings: Readings, model: LanguageModel | None = None) -> dict[str, Reading]:
    """What every rule reads that looks at the exact curve. model: what the rule scaling needs."""
    found = {rule: read(readings) for rule, read in EXACT.items()}
    return found if model is None else {**found, RULE: readings.scaling(model)}


def all_picks(
    steps: Sequence[SizeStep], readings: dict[str, Reading], *, searched: Sequence[int], fixed: int | None = None
) -> dict[str, Pick]:
    """What every rule picks.

    steps: among them the sizes of all readings, and `fixed`
    searched: the sizes that rules choose from which choose among steps
    fixed: a size that is picked by a rule of its own
    """
    at = {step.size: index for index, step in enumerate(steps)}
    picks = {rule: _read(rule, one, at) for rule, one in readings.items()}
    offered = [steps[at[size]] for size in searched]
    picks |= {rule: _chosen(rule, offered, at, *choose(offered)) for rule, choose in AMONG_STEPS.items()}
    if fixed is not None:
        picks[f"fixed:{fixed}"] = Pick(f"fixed:{fixed}", at[fixed], fixed, "as asked", on_edge=False)
    return picks


def _read(rule: str, found: Reading, at: dict[int, int]) -> Pick:
    return Pick(rule, at[found.size], found.size, found.why, on_edge=found.at_least, at_least=found.at_least)


def _chosen(rule: str, offered: Sequence[SizeStep], at: dict[int, int], index: int, why: str) -> Pick:
    first = min(1, len(offered) - 1) if rule == "muv" else 0
    size = offered[index].size
    return Pick(rule, at[size], size, why, on_edge=index in (first, len(offered) - 1))
