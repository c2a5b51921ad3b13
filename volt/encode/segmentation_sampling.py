"""`SegmentationSampling`: how segmentations are drawn at random (Provilkov et al. 2020, Kudo 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volt import arguments
from volt.errors import ConfigError

ALL_PATHS = -1
_MOST_PATHS = 512  # as in sentencepiece
_MOST_ALPHA = 1e9


@dataclass(frozen=True, slots=True)
class SegmentationSampling:
    """Random segmentations: merges that are skipped, or paths of a unigram model.

    seed: 64 bits; the seed and a line's number together seed the line's random generator
    dropout: the probability of skipping a merge
    alpha: the probability of a path is in proportion to exp(alpha · score)
    nbest: how many best paths are drawn from; ALL_PATHS to draw from all
    """

    seed: int
    dropout: float = 0.0
    alpha: float = 0.0
    nbest: int = ALL_PATHS

    @classmethod
    def of(
        cls,
        dropout: float,
        seed: int | None,
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
        *,
        is_unigram: bool = False,
    ) -> SegmentationSampling | None:
        """Return how to sample, or None if nothing is drawn: for dropout 0, and without alpha.

        Raises ConfigError if a seed is missing, or if the vocabulary has a model of the other kind.
        """
        is_plain = seed is None and alpha is None and nbest == ALL_PATHS
        if is_plain and type(dropout) is float and dropout == 0.0:
            return None  # in a tenth of the time of the checks
        dropout = arguments.number(dropout, "dropout")
        if not 0.0 <= dropout <= 1.0:
            raise ConfigError(f"dropout is {dropout}; give a probability from 0 to 1")
        if dropout and is_unigram:
            raise ConfigError(
                "dropout skips merges, and a unigram model has none; replace dropout by",
                hint={"alpha": 0.1},
            )
        if alpha is not None:
            alpha = arguments.number(alpha, "alpha")
            if not 0.0 <= alpha <= _MOST_ALPHA:
                raise ConfigError(f"alpha is {alpha}; give a number from 0 to 1e9, such as 0.1")
            if not is_unigram:
                raise ConfigError(
                    "alpha draws paths of a unigram model, and this model has merges; replace alpha by",
                    hint={"dropout": 0.1},
                )
        nbest = arguments.whole(nbest, "nbest", low=ALL_PATHS, high=_MOST_PATHS)
        if nbest == 0:
            raise ConfigError("nbest is 0; give the number of best paths, or -1 for all paths")
        if nbest != ALL_PATHS and alpha is None:
            raise ConfigError(
                "nbest limits what alpha draws from; encode with", hint={"alpha": 0.1}
            )
        if seed is not None:
            seed = arguments.whole(seed, "seed")
        if alpha is None and not dropout:
            return None
        if seed is None or seed < 0:
            name = "dropout" if alpha is None else "alpha"
            message = f"{name} needs a seed, a whole number of 0 or more"
            if seed is not None:
                message += f", not {seed}"
            message += "; encode with"
            raise ConfigError(message, hint={"seed": 1})
        [state] = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        return cls(int(state.astype(np.int64)), dropout, alpha or 0.0, nbest)
