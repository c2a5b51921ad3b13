"""Size steps → the size that each rule picks, why, and whether the choice lies on the edge of the range.

muv      the greatest marginal utility, argmax of Eq. 1 (the paper's text); on a BPE sweep that is the first size
knee     where the entropy lies farthest below the chord, the straight line from the first size to the last; the
         marginal utility falls to its mean there
f95      the largest size whose 95th-percentile type occurs at least 100 times (Gowda & May 2020)
renyi    the greatest Rényi efficiency, α = 2.5 (Zouhar et al. 2023, who rank tokenizers, not sizes, by it)
tokens   the fewest pieces in the corpus, so always the largest size
fixed:N  N tokens
scaling  what a language model of a given size deserves (Tao et al. 2024); needs a model, see volt.choose.scaling
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from volt import arguments
from volt.choose.criteria import knee
from volt.choose.scaling import RULE, LanguageModel, pick_scaling
from volt.choose.size_steps import SizeStep
from volt.errors import ConfigError

F95_COUNT = 100


@dataclass(frozen=True, slots=True)
class Pick:
    """What a rule picks.

    index, size: of the step
    why: the reason
    on_edge: whether it is the first or the last step that the rule could pick
    """

    rule: str
    index: int
    size: int
    why: str
    on_edge: bool


def pick_muv(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """The index of the greatest MUV, and why. A single step is picked as it is."""
    values = [step.muv for step in steps[1:] if step.muv is not None]
    if not values:
        return 0, "the only size"
    index = int(np.argmax(values)) + 1
    return index, f"greatest marginal utility, {values[index - 1]:.2e} nats per character and token"


def pick_knee(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """The index of the greatest distance below the chord, and why."""
    index = knee(np.array([step.entropy for step in steps]), np.array([step.size for step in steps]))
    return index, f"entropy {steps[index].entropy:.3f} lies farthest below the chord over the range"


def pick_f95(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """The index of the largest size with F95 ≥ 100, or of the first size if there is none, and why."""
    fits = [index for index, step in enumerate(steps) if step.f95 >= F95_COUNT]
    index = fits[-1] if fits else 0
    found = f"95 % of its types occur at least {steps[index].f95:,.0f} times"
    return index, found if fits else f"no size reaches {F95_COUNT}: even here {found}"


def pick_renyi(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """The index of the greatest Rényi efficiency, and why."""
    index = int(np.argmax([step.renyi for step in steps]))
    return index, f"greatest Rényi efficiency, {steps[index].renyi:.4f}"


def pick_tokens(steps: Sequence[SizeStep]) -> tuple[int, str]:
    """The index of the fewest pieces, and why."""
    index = int(np.argmin([step.n_pieces for step in steps]))
    return index, f"fewest pieces, {steps[index].n_pieces:,}"


RULES: dict[str, Callable[[Sequence[SizeStep]], tuple[int, str]]] = {
    "knee": pick_knee,
    "muv": pick_muv,
    "f95": pick_f95,
    "renyi": pick_renyi,
    "tokens": pick_tokens,
}


def as_rule(rule: str | int) -> str:
    """The name of a rule; a size stands for the rule that picks it.

    >>> as_rule(8000), as_rule("knee")
    ('fixed:8000', 'knee')
    """
    if isinstance(rule, str):
        return rule
    if rule is None:
        raise arguments.refusal(rule, "select", f"choose from {', '.join(RULES)}, or give a size")
    return f"fixed:{arguments.whole(rule, 'select', low=1)}"


def parse_rule(rule: str) -> int | None:
    """The size of a "fixed:N" rule, None for the other rules. Raises ConfigError if there is no such rule.

    >>> parse_rule("fixed:8000"), parse_rule("knee")
    (8000, None)
    """
    name, _, size = rule.partition(":")
    if name == "fixed" and size.isdecimal():
        return int(size)
    if rule not in (*RULES, RULE):
        names = ", ".join((*RULES, RULE))
        raise ConfigError(f"unknown rule {arguments.shortened(repr(rule))}; choose from {names}, fixed:N")
    return None


def all_picks(
    steps: Sequence[SizeStep], *, fixed: int | None = None, model: LanguageModel | None = None
) -> dict[str, Pick]:
    """What every rule picks from these steps.

    fixed: a size among them, picked by a rule of its own
    model: what the rule scaling needs; without it, the rule picks nothing
    """
    picks = {rule: _pick(rule, steps, *choose(steps)) for rule, choose in RULES.items()}
    if model is not None:
        index, why, on_edge = pick_scaling(steps, model)
        picks[RULE] = Pick(RULE, index, steps[index].size, why, on_edge)
    if fixed is not None:
        index = [step.size for step in steps].index(fixed)
        picks[f"fixed:{fixed}"] = Pick(f"fixed:{fixed}", index, fixed, "as asked", on_edge=False)
    return picks


def _pick(rule: str, steps: Sequence[SizeStep], index: int, why: str) -> Pick:
    first = min(1, len(steps) - 1) if rule == "muv" else 0
    return Pick(rule, index, steps[index].size, why, on_edge=index in (first, len(steps) - 1))
