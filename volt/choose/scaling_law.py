"""A language model → the vocabulary size that it deserves, and its operations per byte of text.

    N_v = 3,145,728 · (N / 33·10⁶)^0.8354        V = N_v / d

    N: parameters without the embedding    d: width    N_v: parameters of the embedding    V: tokens

Tao et al. 2024, "Scaling Laws with Vocabulary", approach 2, fitted to English models of 33 M to
3 B parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from volt import arguments
from volt.errors import ConfigError

EXPONENT = 0.8354
_PARAMS = 33e6  # N of the paper's smallest model
_VOCABULARY_PARAMS = 3_145_728  # N_v of the paper's smallest model
_MOST_WIDTH = 1_000_000_000
_FLOPS = 2  # a multiplication and an addition for each parameter and token


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """The language model that a vocabulary is for.

    params: N, its parameters without the embedding
    width: d, the length of a token's embedding
    Raises ConfigError if a value is not positive and finite.

    >>> LanguageModel(params=70e9, width=8192).size  # the paper says of Llama2-70B: at least 216 K
    230865
    """

    params: float
    width: int

    def __post_init__(self) -> None:
        params = arguments.number(self.params, "params")
        if not 0 < params < math.inf:
            raise ConfigError(
                f"params is {params:g}; give a finite number above 0, without the embedding"
            )
        width = arguments.whole(self.width, "width", low=1, high=_MOST_WIDTH)
        object.__setattr__(self, "params", params)  # this dataclass is frozen
        object.__setattr__(self, "width", width)

    @property
    def vocabulary_params(self) -> float:
        """N_v, the number of parameters that the embedding deserves."""
        return float(_VOCABULARY_PARAMS * (self.params / _PARAMS) ** EXPONENT)

    @property
    def size(self) -> int:
        """V, the number of tokens that the model deserves, rounded down; at least 1."""
        return max(1, int(self.vocabulary_params / self.width))

    @property
    def signature(self) -> str:
        """The model in short, for the signature of a result."""
        return f"model:{self.params:g},{self.width}"

    def flops_per_byte(self, size: int, tokens_per_byte: float) -> float:
        """Return the model's operations per byte of text, without attention: 2 (N + V d) per piece.

        size: V, the number of tokens of the vocabulary
        tokens_per_byte: the number of pieces of a text, divided by its number of bytes
        """
        return _FLOPS * (self.params + size * self.width) * tokens_per_byte
