"""Noise that draws from a vocabulary: tokens replaced by others, tokens put in, and word boundaries moved.

How many tokens of a line are hit, and which, is as for `drop` (volt.stream.transforms.token_noise). The two sides of a
line are hit independently. Fields may hold text or ids.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
...     _ = file.write("9\\t▁house\\n5\\tboat\\n4\\t▁a\\n".encode()) and file.flush()
...     for noise in (Switchout, Insertion, WbNoise):
...         noise(vocabulary=Path(file.name), rate=1.0)(Batch.of(["▁a boat"]), Chance(1, 2)).lines
['▁house ▁a']
['▁house ▁a ▁a boat']
['▁a boat']
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from volt import arguments
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.chance import Chance
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import Fields
from volt.stream.transforms.noise_vocabulary import NoiseVocabulary, noise_vocabulary
from volt.stream.transforms.opening import LoadedFiles, Opened
from volt.stream.transforms.options import check_fields, take_file
from volt.stream.transforms.token_noise import Draws, Hit, Noise, each_field, hit_tokens, take_amount
from volt.stream.transforms.tokens import NO_OTHERS, with_values, written


@dataclass(frozen=True, slots=True)
class VocabularyNoise(Noise):
    """Base of the noise that draws from a vocabulary: its options, and how it gets its file and its tokens."""

    name: ClassVar[str]
    vocabulary: Path
    """A vocabulary file of any format that VOLT reads, or a list of tokens with or without counts."""
    temperature: float | None = None
    """How fast the probability falls that k tokens are hit, as exp(-temperature k), where k runs from 0 to n - 1 in a
    line of n tokens: the more, the less noise; by default 2, which hits none in 86 of 100 lines."""
    rate: float | None = None
    """Instead of a temperature: the probability that a token is hit, the same for each."""
    fields: Fields | None = None
    """The fields to change; by default 1 and, where a line has it, 2."""
    without: tuple[str, ...] = ()
    """Tokens of the vocabulary that are never drawn, besides special ones and the tags that steps of this list add."""

    def __post_init__(self) -> None:
        take_file(self, "vocabulary")
        take_amount(self)
        check_fields(self.fields)
        arguments.texts(self.without, "without", one="give a tuple of tokens")

    def beside(self, tokens: tuple[str, ...]) -> Self:
        """The same noise, which draws none of these tokens either."""
        return replace(self, without=tuple(dict.fromkeys((*self.without, *tokens))))

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        return self.opened(LoadedFiles())(batch, chance)

    def opened(self, files: LoadedFiles) -> Opened:
        """The transform with its vocabulary. Raises VocabularyError if it cannot be loaded, or is of no use here."""
        vocabulary = files.load(self.vocabulary, noise_vocabulary).without(self.without)
        self.check(vocabulary)
        told = {
            "type": type(self).__name__, "vocabulary": vocabulary.fingerprint, "temperature": self.temperature,
            "rate": self.rate, "fields": self.fields and list(self.fields),
        }  # fmt: skip
        return Opened(self, partial(self._noisy, vocabulary), told)

    def signature(self) -> dict[str, Any]:
        """The options, with the vocabulary's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).told

    def _noisy(self, vocabulary: NoiseVocabulary, batch: Batch, chance: Chance) -> Batch:
        def changed(column: Column, draws: Draws) -> Column:
            hit = hit_tokens(column, draws, temperature=self.temperature, rate=self.rate, n_choices=len(vocabulary))
            return column if hit is None else with_values(column, hit.lines, self.made(hit, vocabulary))

        return each_field(batch, chance, changed, fields=self.fields)

    def check(self, vocabulary: NoiseVocabulary) -> None:
        """Raise VocabularyError if the vocabulary is of no use here."""

    @abstractmethod
    def made(self, hit: Hit, vocabulary: NoiseVocabulary) -> Column:
        """What becomes of the lines with tokens that are hit."""


@dataclass(frozen=True, slots=True)
class Switchout(VocabularyNoise):
    """Replace tokens by others of a vocabulary, each equally likely; no line becomes longer or shorter."""

    name: ClassVar[str] = "switchout"

    def made(self, hit: Hit, vocabulary: NoiseVocabulary) -> Column:
        """The lines with other tokens in place of those that are hit."""
        chosen = np.where(hit.drawn < 0, np.arange(len(hit.drawn)), -1 - hit.drawn)
        return written(hit.tokens, chosen, hit.tokens.ends, vocabulary.like(hit.tokens.column))


@dataclass(frozen=True, slots=True)
class Insertion(VocabularyNoise):
    """Put tokens of a vocabulary, each equally likely, before tokens that are hit."""

    name: ClassVar[str] = "insertion"

    def made(self, hit: Hit, vocabulary: NoiseVocabulary) -> Column:
        """The lines with another token before each that is hit."""
        is_hit = hit.drawn >= 0
        chosen = np.insert(np.arange(len(is_hit)), np.flatnonzero(is_hit), -1 - hit.drawn[is_hit])
        ends = hit.tokens.ends + np.cumsum(is_hit, dtype=np.int64)[hit.tokens.ends - 1]
        return written(hit.tokens, chosen, ends, vocabulary.like(hit.tokens.column))


@dataclass(frozen=True, slots=True)
class WbNoise(VocabularyNoise):
    """Move word boundaries: a token that is hit loses the ▁ in front, or gets one, where that gives a token of the
    vocabulary."""

    name: ClassVar[str] = "wb_noise"

    def check(self, vocabulary: NoiseVocabulary) -> None:
        """Raise VocabularyError if no token has a mark."""
        vocabulary.check_marks()

    def made(self, hit: Hit, vocabulary: NoiseVocabulary) -> Column:
        """The lines with the tokens that are hit as they are with the mark, or without it."""
        others = vocabulary.like(hit.tokens.column)
        if others.is_ids:
            return _toggled_ids(hit, vocabulary)
        from volt.kernels.token_noise import toggle_marks

        (column, starts, sizes, ends), chosen = hit.tokens, np.empty(len(hit.drawn), np.int64)
        toggle_marks(
            column.data, starts, sizes, hit.drawn, others.data, others.starts, others.sizes, *vocabulary.marked, chosen
        )
        return written(hit.tokens, chosen, ends, others)


def _toggled_ids(hit: Hit, vocabulary: NoiseVocabulary) -> Column:
    made = written(hit.tokens, np.arange(len(hit.drawn)), hit.tokens.ends, NO_OTHERS)
    ids, table = np.array(made.data), vocabulary.toggled
    places = np.flatnonzero((hit.drawn >= 0) & (ids >= 0) & (ids < len(table)))
    found = table[ids[places]]
    ids[places[found >= 0]] = found[found >= 0]
    return Column(ids, made.starts, made.sizes)
