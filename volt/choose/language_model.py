"""A language model → the vocabulary size that it deserves, and its operations per byte of text at a size.

    N_v = 3,145,728 · (N / 33·10⁶)^0.8354        V = N_v / d

Tao et al. 2024, "Scaling Laws with Vocabulary", approach 2, fitted to English models of 33 M to 3 B parameters.

>>> scaling_size(70e9, 8192)  # the paper says of Llama2-70B: at least 216 K
230865
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from volt import arguments
from volt.errors import ConfigError

EXPONENT = 0.8354
_PARAMS, _VOCABULARY_PARAMS = 33e6, 3_145_728  # of the model that the law starts from
_MOST_WIDTH = 1_000_000_000
_FLOPS = 2  # a multiplication and an addition for each parameter and token


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """The language model that a vocabulary is for.

    params: N, its parameters without the embedding
    width: d, the numbers that each token's embedding holds
    Raises ConfigError if one is not positive and finite.

    >>> LanguageModel(params=1.2e9, width=2048).size
    30915
    """

    params: float
    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", _checked_params(self.params))  # a frozen dataclass takes them in this way
        object.__setattr__(self, "width", _checked_width(self.width))

    @property
    def size(self) -> int:
        """The size that it deserves, tokens."""
        return scaling_size(self.params, self.width)

    @property
    def signature(self) -> str:
        """The model in short, for the signature of a result."""
        return f"model:{self.params:g},{self.width}"


def vocabulary_parameters(n_params: float) -> float:
    """Return N_v, the vocabulary parameters that a model of N parameters deserves.

    >>> vocabulary_parameters(33e6)
    3145728.0
    """
    return float(_VOCABULARY_PARAMS * (_checked_params(n_params) / _PARAMS) ** EXPONENT)


def scaling_size(n_params: float, width: int) -> int:
    """Return V = N_v / d tokens, rounded down; 1 at least.

    >>> scaling_size(33e6, 512)
    6144
    """
    return max(1, int(vocabulary_parameters(n_params) / _checked_width(width)))


def serving_flops_per_byte(n_params: float, width: int, size: int, tokens_per_byte: float) -> float:
    """Return 2 (N + V d) operations for each token, times the tokens per byte; attention is left out.

    >>> serving_flops_per_byte(1e9, 1000, 32_000, 0.25)
    516000000.0
    """
    return _FLOPS * (n_params + size * width) * tokens_per_byte


def _checked_params(n_params: float) -> float:
    params = arguments.number(n_params, "params")
    if not 0 < params < math.inf:
        raise ConfigError(
            f"params is {params:g}; give the model's parameters without the embedding, a finite number above 0"
        )
    return params


def _checked_width(width: int) -> int:
    return arguments.whole(width, "width", low=1, high=_MOST_WIDTH)
