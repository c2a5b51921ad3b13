"""A search → what each of its sizes takes to be used: tokens per byte of text, and operations per byte of a model.

>>> from volt.choose.search import search
>>> from volt.learn.bpe import learn_bpe
>>> result = search(learn_bpe({"low": 5, "lower": 2}, n_merges=3), sizes=[7, 9])
>>> [round(cost.tokens_per_byte, 3) for cost in serving_costs(result)]  # 18 and 11 pieces for 32 bytes
[0.781, 0.562, 0.344]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volt.choose.scaling import LanguageModel, serving_flops_per_byte
from volt.count.text_bytes import text_bytes

if TYPE_CHECKING:
    from volt.choose.search import SearchResult
    from volt.choose.size_steps import SizeStep


@dataclass(frozen=True, slots=True)
class ServingCost:
    """What a vocabulary takes to be used.

    tokens_per_byte: pieces of a text over its bytes, those of its spaces included
    serving_flops_per_byte: of the language model that the vocabulary is for, None without one
    """

    tokens_per_byte: float
    serving_flops_per_byte: float | None


def serving_cost(n_pieces: int, n_bytes: int, size: int, model: LanguageModel | None) -> ServingCost:
    """What a vocabulary of this size takes that cuts so many bytes into so many pieces.

    >>> serving_cost(1, 4, 32_000, LanguageModel(1e9, 1000))
    ServingCost(tokens_per_byte=0.25, serving_flops_per_byte=516000000.0)
    """
    tokens = n_pieces / n_bytes
    flops = None if model is None else serving_flops_per_byte(model.params, model.width, size, tokens)
    return ServingCost(tokens, flops)


def serving_costs(result: SearchResult, steps: Sequence[SizeStep] | None = None) -> list[ServingCost]:
    """What these sizes of a search take, by default all that were measured, in their order."""
    n_bytes = text_bytes(result.candidates.counts)
    measured = result.steps if steps is None else steps
    return [serving_cost(step.n_pieces, n_bytes, step.size, result.model) for step in measured]
