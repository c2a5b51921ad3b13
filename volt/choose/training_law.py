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
from dataclasses import dataclass

from volt import arguments
from volt.errors import ConfigError

FACTOR = 7  # fitted
MOST = 32_000  # tokens of the largest vocabulary in the fitted trainings
ASSUMED = 5.0  # epochs of a training of unknown length
OVERFITS = 8  # epochs beyond which large vocabularies overfit
FEWEST = 1  # epochs of the shortest trainings that agree with the law
SMALL_TEXT = 200_000  # characters of the largest text that was read MOST_EPOCHS times
MOST_EPOCHS = 20
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

    def describe(self, n_characters: int) -> str:
        """Return E in words, such as "5 epochs"; beyond `most_epochs`, "8 epochs or more".

        n_characters: C, the number of characters in the text
        """
        epochs = self.of(n_characters)
        most = most_epochs(n_characters)
        if epochs > most:
            return f"{most:.3g} epochs or more"
        text = "1 epoch" if epochs == 1 else f"{epochs:.4g} epochs"
        if self.epochs is None and self.read is None:
            text += " (assumed; set epochs=N)"
        return text

    def reason(self, n_characters: int) -> str:
        """Describe how V follows from E and C.

        n_characters: C, the number of characters in the text
        """
        law = f"{FACTOR} √(C/E)"
        if min(self.of(n_characters), most_epochs(n_characters)) > OVERFITS:
            law += f" ({OVERFITS}/E)²"
        why = f"{law} for C = {n_characters:,} characters and E = {self.describe(n_characters)}"
        size = self._size(n_characters)
        if size > MOST:
            why += f" is {size:,.0f}, but no training had more than {MOST:,} tokens"
        return why

    @property
    def signature(self) -> str:
        """The length in short, for the signature of a result."""
        if self.read is not None:
            return f"read:{self.read:.15g}"
        return f"epochs:{self.epochs or ASSUMED:.15g}"


def most_epochs(n_characters: int) -> float:
    """Return how many epochs count for a text: 20 up to 0.2 million characters, 8 from 2 million.

    Between these, the number falls with a power of the characters.

    >>> most_epochs(100_000), round(most_epochs(632_456), 2), most_epochs(10**7)
    (20, 12.62, 8)
    """
    falling = MOST_EPOCHS * math.pow(SMALL_TEXT / n_characters, 0.4)
    return min(max(falling, OVERFITS), MOST_EPOCHS)
