"""The arrays of a step → what they come to: sentences, tokens, places, the widest array. Whoever sums steps counts so.

>>> import numpy as np
>>> step = {"nsentences": 2, "ntokens": 5, "target": np.zeros((2, 3)), "net_input": {}}
>>> both = counts_of(step).with_those_of(counts_of(step))
>>> both.sentences, both.tokens, both.laid_out, both.longest
(4, 10, 12, 3)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from volt import arguments


class StepCounts(NamedTuple):
    """What a step holds, or several.

    sentences: rows of a batch; where sentences are packed, as many as are in its rows
    tokens: ids of all fields, without padding
    laid_out: places in the arrays of all fields, padding included
    longest: the widest array, in ids
    """

    sentences: int = 0
    tokens: int = 0
    laid_out: int = 0
    longest: int = 0

    @property
    def padding_share(self) -> float:
        """The share of padding in what is laid out; 0.0 where nothing is.

        >>> StepCounts(tokens=75, laid_out=100).padding_share
        0.25
        """
        return 1 - self.tokens / self.laid_out if self.laid_out else 0.0

    def with_those_of(self, other: StepCounts) -> StepCounts:
        """Both together."""
        return StepCounts(
            self.sentences + other.sentences, self.tokens + other.tokens, self.laid_out + other.laid_out,
            max(self.longest, other.longest),
        )  # fmt: skip


def counts_of(step: object) -> StepCounts:
    """What a step holds.

    step: arrays, of numpy or of torch, as `collate` and `collate_packed` give them
    Raises ConfigError if it is none.
    """
    if not isinstance(step, Mapping) or "ntokens" not in step:
        raise arguments.refusal(step, "a step", "give what volt.batches.Steps gives, or collate")
    sides = _sides(step)
    return StepCounts(
        int(step["nsentences"]), sum(n_ids for _, n_ids in sides), sum(math.prod(array.shape) for array, _ in sides),
        max(int(array.shape[1]) for array, _ in sides),
    )  # fmt: skip


def _sides(step: Mapping[str, Any]) -> list[tuple[Any, int]]:
    """The array of each field, and how many ids are in it."""
    inputs, target = step["net_input"], (step["target"], int(step["ntokens"]))
    if "prev_output_tokens" not in inputs:  # there is one field
        return [target]
    return [target, (inputs["src_tokens"], int(inputs["src_lengths"].sum()))]


@dataclass(frozen=True, slots=True)
class Totals:
    """What a rank has been given since it was opened or restored.

    n_steps, n_samples: how many steps, and samples in its batches
    n_tokens: ids, of all fields
    n_laid_out: ids and padding
    seconds: how long its trainer has waited for them
    n_too_long, n_too_short: samples, of all ranks, that are in no batch
    too_long: where the lines of the first ten that are too long are
    n_left: samples at the end of the stream that are too few for a batch for each rank

    >>> Totals(n_tokens=75, n_laid_out=100).padding_share
    0.25
    """

    n_steps: int = 0
    n_samples: int = 0
    n_tokens: int = 0
    n_laid_out: int = 0
    seconds: float = 0.0
    n_too_long: int = 0
    n_too_short: int = 0
    too_long: tuple[str, ...] = ()
    n_left: int = 0

    @property
    def first_too_long(self) -> str:
        """Where the line of the first that is too long is; empty if there is none."""
        return self.too_long[0] if self.too_long else ""

    @property
    def padding_share(self) -> float:
        """The share of padding in what was laid out; 0.0 before the first step."""
        return 1 - self.n_tokens / self.n_laid_out if self.n_laid_out else 0.0
