"""The length of a training → the vocabulary size that a text deserves.

    V = 7 √(C / E) min(1, 8 / E)²

    C: characters of the text
    E: epochs, the number of characters that the training reads, divided by C
    V: tokens, for example 7 √(1,000,000 / 5) = 3,130

Fitted to trainings of small language models whose dev score was best after E epochs
(experiments/evidence/law). A model with fewer tokens composes more; one with more tokens sees each
too rarely, and, from about 8 epochs on, learns the text by heart.

E counts at most `most_epochs`. The fall beyond 8 epochs was seen on texts of 0.1 to 0.2 million
characters, read up to 20 times. On the two texts of 2 million, read 9 and 11 times, the size for 8
epochs lost 0.1 % of the bits on average, and a smaller one 0.2 %; no longer text was read as often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from volt import arguments
from volt.errors import ConfigError

FACTOR = 7  # fitted
MOST = 32_000  # tokens of the largest vocabulary in the fitted trainings
ASSUMED = 5.0  # epochs of a training of unknown length
NEAR = 1.7  # a size within this factor of the best one costs about 0.5 % of the bits
OVERFITS = 8  # epochs beyond which large vocabularies overfit
FEWEST = 1  # epochs of the shortest trainings that agree with the law
SMALL_TEXT = 200_000  # characters of the largest text that was read MOST_EPOCHS times
MOST_EPOCHS = 20
LARGE_TEXT = 2_000_000  # characters of the largest text that was read more than OVERFITS times
SHOWN = (1, 5, 20)  # epochs for which a report shows V
FITTED_TEXTS = 0.1, 2.1  # million characters of the texts that were read FEWEST times or more
TRANSLATION = (
    "For translation there are 12 trainings, on Multi30k (3.9 million characters, 5.5 epochs): 4,000 "
    "to 8,000 tokens were best; 2,000 lost 1.5 BLEU, 500 lost 5 to 8, and 16,000 lost 1 to 3."
)
_LONGEST = {"epochs": 10**6, "read": 10**18}


@dataclass(frozen=True, slots=True)
class Training:
    """The length of a training. Without a value, the rule `trained` assumes 5 epochs.

    epochs: how often the training reads the text, until its dev score is best
    read: instead of `epochs`, the number of characters that the training reads, with repetitions
    Raises ConfigError if both are given, or a value is not positive or too large.

    >>> Training(epochs=10).size(1_000_000), Training(read=10_000_000).size(1_000_000)
    (1417, 1417)
    >>> Training().size(1_000_000)
    3130
    """

    epochs: float | None = None
    read: float | None = None

    def __post_init__(self) -> None:
        if self.epochs is not None and self.read is not None:
            raise ConfigError("epochs and read both give the length of a training; remove one")
        for name, most in _LONGEST.items():
            value = getattr(self, name)
            if value is None:
                continue
            value = arguments.number(value, name)
            if not 0 < value <= most:
                raise ConfigError(
                    f"{name} is {value:g}; give a number above 0 and at most {most:,}"
                )
            object.__setattr__(self, name, value)  # this dataclass is frozen

    @property
    def is_assumed(self) -> bool:
        """Check whether no length was given."""
        return self.epochs is None and self.read is None

    def of(self, n_characters: int) -> float:
        """Return E, how often the training reads a text.

        n_characters: C, the number of characters in the text
        """
        if self.read is not None:
            return self.read / n_characters
        return ASSUMED if self.epochs is None else self.epochs

    def size(self, n_characters: int) -> int:
        """Return V, rounded, for a text.

        n_characters: C, the number of characters in the text

        V is at most 32,000, because no fitted training had more tokens. E is at most
        `most_epochs(n_characters)`.
        """
        return min(round(self._size(n_characters)), MOST)

    def _size(self, n_characters: int) -> float:
        epochs = min(self.of(n_characters), most_epochs(n_characters))
        return FACTOR * math.sqrt(n_characters / epochs) * min(1, OVERFITS / epochs) ** 2

    def reason(self, n_characters: int) -> str:
        """Describe how V follows from E and C.

        n_characters: C, the number of characters in the text
        """
        epochs = self.of(n_characters)
        most = most_epochs(n_characters)
        n_counted = min(epochs, most)
        length = "1 epoch" if n_counted == 1 else f"{n_counted:.4g} epochs"
        if self.is_assumed:
            length += ", assumed"
        why = f"{FACTOR} √({n_characters:,} characters / {length})"
        if n_counted > OVERFITS:
            why += f" · ({OVERFITS} / {n_counted:.4g})²"
        if epochs > most:
            why += f"; {epochs:.4g} epochs count as {most:.4g}"

        size = self._size(n_characters)
        if size > MOST:
            why += f"; that is {size:,.0f}, but no training had more than {MOST:,} tokens"
        return why

    def evidence(self, n_characters: int, differences: Sequence[str]) -> str:
        """Say how far a text and this training lie from the trainings behind the law.

        n_characters: C, the number of characters in the text
        differences: further differences, such as the text's script

        The figures are those of experiments/evidence/law/REGRETS.md for D ≥ 2 million characters.
        """
        epochs = self.of(n_characters)
        least, most = FITTED_TEXTS
        all_differences = list(differences)
        if n_characters > 1e6 * most:
            all_differences.append(f"it is longer ({n_characters / 1e6:.2g} million)")
        if n_characters < 1e6 * least:
            all_differences.append(f"it is shorter ({n_characters:,})")
        if epochs < FEWEST:
            all_differences.append(
                "it is read less than once, where the rule cost 2.3 %, 6.1 % at worst"
            )
        if epochs > OVERFITS:
            all_differences.append(
                "it is read more than 8 times, where the rule cost 0.3 %, 2.9 % at worst, on texts "
                "of 0.1 to 0.2 million characters and two of 2 million"
            )
        comparison = "Yours is like these."
        if all_differences:
            comparison = f"Yours differs: {'; '.join(all_differences)}."
        return (
            f"The rule was fitted to small language models on texts of {least} to {most} million "
            "characters, read 1 to 8 times. There, its sizes cost 0.4 % more bits than the best "
            f"ones on average, 1.3 % at worst. {comparison}"
        )

    @property
    def signature(self) -> str:
        """The length in short, for the signature of a result."""
        if self.read is not None:
            return f"read:{self.read:.15g}"
        return f"epochs:{self.epochs or ASSUMED:.15g}"


def most_epochs(n_characters: int) -> float:
    """Return how many epochs count for a text: 20 up to 0.2 million characters, 8 from 2 million.

    Between these, the number falls evenly with the logarithm of the characters.

    >>> most_epochs(100_000), round(most_epochs(632_456), 2), most_epochs(10**7)
    (20.0, 12.65, 8.0)
    """
    distance = math.log(n_characters / SMALL_TEXT) / math.log(LARGE_TEXT / SMALL_TEXT)
    ratio: float = (OVERFITS / MOST_EPOCHS) ** min(max(distance, 0), 1)
    return MOST_EPOCHS * ratio
