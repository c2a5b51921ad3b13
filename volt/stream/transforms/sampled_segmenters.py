"""Segmenters that have a subword vocabulary find segmentations: VOLT's encoder with dropout, and a SentencePiece model.

>>> from volt.encode.encoder import Encoder
>>> from volt.vocabulary import Vocabulary
>>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
>>> segmenter = DropoutSegmenter(encoder, 0.5)
>>> sorted(found.pieces for found in segmenter.best(["low"], 50)[0])
[('l', 'o', 'w</w>'), ('lo', 'w</w>')]
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.errors import ConfigError, VocabularyError, shown_path
from volt.files.whole import read_bytes
from volt.stream.transforms.segmenters import Scored
from volt.stream.transforms.sentencepiece import processor_of
from volt.stream.transforms.sentencepiece_sampling import UNIGRAM, BestSampler, UnigramSampler, sampler_of

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder

_SEED = 0  # of all samples: a word's segmentations are the same in every epoch and process
_SCHEMES = {("whitespace", "suffix"), ("whitespace", "prefix"), ("metaspace", "none")}


@dataclass(frozen=True, slots=True, eq=False)
class DropoutSegmenter:
    """Samples of an encoder's, with BPE-dropout: the score of a segmentation is how many of them are it.

    dropout: the probability of passing over a merge
    """

    encoder: Encoder
    dropout: float

    @property
    def fingerprint(self) -> str:
        """The vocabulary's, and the dropout."""
        return f"{self.encoder.vocabulary.fingerprint} {self.dropout!r}"

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        """The distinct ones of n samples of each word, the most frequent first; of one, the encoding itself."""
        rows = self._encoded([word for word in words for _ in range(n)], self.dropout if n > 1 else 0.0, n)
        return [_counted(rows[first : first + n]) for first in range(0, len(rows), n)]

    def characters(self, word: str) -> tuple[str, ...]:
        """The encoding with all merges passed over."""
        return self._encoded([word], 1.0, 1)[0]

    def _encoded(self, words: Sequence[str], dropout: float, n: int) -> list[tuple[str, ...]]:
        """Sample k of every word draws by the number k. words: each n times"""
        text = "".join(word + "\n" for word in words).encode("utf-8", "surrogatepass")
        numbers = np.tile(np.arange(n), len(words) // n)
        options: dict[str, Any] = {"dropout": dropout, "seed": _SEED, "numbers": numbers} if dropout else {}
        lines = self.encoder.encode_text(text, n_threads=1, **options).decode().split("\n")[:-1]
        return [tuple(line.split(" ")) for line in lines]


def _counted(samples: Sequence[tuple[str, ...]]) -> list[Scored]:
    """Distinct samples by frequency; of equally frequent ones first that which came first."""
    return [Scored(pieces, math.log(count)) for pieces, count in Counter(samples).most_common()]


@dataclass(frozen=True, slots=True, eq=False)
class SentencePieceSegmenter:
    """A SentencePiece unigram model, which finds the n best segmentations.

    sampler: finds them, with their scores
    """

    sampler: BestSampler
    fingerprint: str

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        """The n best segmentations of each word, as the library finds them."""
        return [self._of_word(word, n) for word in words]

    def _of_word(self, word: str, n: int) -> list[Scored]:
        """Those of a word. One that the model normalises to nothing stays as it is."""
        rows = zip(*self.sampler.paths(word, n), strict=True)
        found = [Scored(tuple(pieces), score) for pieces, score in rows if pieces]
        return sorted(found, key=lambda one: -one.score) or [Scored((word,), 0.0)]

    def characters(self, word: str) -> tuple[str, ...]:
        """The characters of the word as the model normalises it."""
        return tuple("".join(self._of_word(word, 1)[0].pieces))


def read_encoder(path: Path) -> Encoder:
    """The encoder of a vocabulary file. Raises VocabularyError or CorpusError if it cannot be loaded.

    Raises ConfigError if its words are other than what stands between spaces.
    """
    from volt.encode.encoder import Encoder
    from volt.formats.registry import read_vocabulary

    vocabulary = read_vocabulary(path)
    if (vocabulary.pretokenizer.name, vocabulary.marker) not in _SCHEMES:
        raise ConfigError(
            f"{shown_path(path)}: cuts text with {vocabulary.pretokenizer.name!r} and marks words with "
            f"{vocabulary.marker!r}; give a vocabulary that cuts it at spaces and marks words"
        )
    return Encoder(vocabulary)


def read_sentencepiece_segmenter(path: Path) -> SentencePieceSegmenter:
    """That of a model file. Raises VocabularyError if it is none, or no unigram model."""
    from volt.formats.sentencepiece.library import model_class

    data = read_bytes(path, kind=VocabularyError)
    processor, proto = processor_of(path, data), model_class().FromString(data)
    if proto.trainer_spec.model_type != UNIGRAM:
        raise VocabularyError(f"{shown_path(path)}: no unigram model, so it has one segmentation of a word; give one")
    sampler = sampler_of(processor, proto)
    assert isinstance(sampler, UnigramSampler)
    return SentencePieceSegmenter(sampler.best, blake2b(data, digest_size=8).hexdigest())
