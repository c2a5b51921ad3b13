"""Taboo segmentation: two segmentations of a text, as source and target, with no long piece in common.

low low  →  l ow l ow    lo w lo w
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from volt.errors import ConfigError, VocabularyError, shown_path
from volt.stream.transforms import spm, subwords
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import Draws, each_field, with_fields
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.nbest_segmenters import Scored, Segmenter, read_model, read_table
from volt.stream.transforms.options import File, Probability
from volt.stream.transforms.random_segmentation import SOURCE, TARGET, JoinPieces, Segmenting, known
from volt.stream.transforms.sentencepiece_sampling import UNIGRAM, UnigramSampler
from volt.stream.transforms.spm import SpmDecode
from volt.stream.transforms.subwords import Decode
from volt.stream.transforms.transform import LoadedFiles, Transform
from volt.stream.transforms.word_types import WordTypes

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder


_SEED = 0  # of all samples, so that a word has the same segmentations in every epoch and process
_SCHEMES = {("whitespace", "suffix"), ("whitespace", "prefix"), ("metaspace", "none")}
Kind = Literal["morfessor", "sentencepiece", "vocabulary", "table"]


@dataclass(frozen=True, slots=True)
class MorfessorEmTaboo(Segmenting):
    """Split field 1 into source and target, so that each word's two segmentations share no piece of several characters.

    If a word has no such segmentations, the target gets its characters. ▁ does not count as a character. An
    autoencoder trained on such lines cannot copy pieces (Grönroos et al. 2020).
    """

    is_disjoint: ClassVar[bool] = True

    def _segmented(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        return _with_sides(types, self.model, batch, rng, reordered=False)


@dataclass(frozen=True, slots=True)
class MorfessorEmTabooReordered(MorfessorEmTaboo):
    """Split source and target, which have the same words in any order, as `morfessor_em_taboo` does.

    The two sides of a word get the two segmentations of one draw. Put this after `reorder`.
    """

    def _segmented(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        return _with_sides(types, self.model, batch, rng, reordered=True)


@dataclass(frozen=True, slots=True)
class Taboo(MorfessorEmTaboo):
    """Do the same as `morfessor_em_taboo` or `morfessor_em_taboo_reordered`, with any segmenter."""

    model: File
    """The segmenter's file: a model, a vocabulary or a table."""
    segmenter: Kind = "morfessor"
    """The kind of the file: a model for `morfessor_em`, a SentencePiece unigram model, a vocabulary for `encode`, or a
    table for `deterministic_segmentation`."""
    reordered: bool = False
    """True if the lines have both sides already, with the same words in possibly different orders."""
    dropout: Probability = 0.1
    """For a vocabulary: the probability of skipping a merge; n_samples is then how often each word is sampled."""

    def check(self) -> None:
        if self.marks not in ("auto", "given") and self.segmenter in (
            "sentencepiece",
            "vocabulary",
        ):
            raise ConfigError(
                f"marks: {self.marks!r}; a {self.segmenter} marks words itself; remove marks"
            )

    def _segmenter(self, files: LoadedFiles) -> Segmenter:
        if self.segmenter == "vocabulary":
            encoder = files.load(self.model, read_encoder)
            fingerprint = f"{encoder.vocabulary.fingerprint} {self.dropout!r}"
            return DropoutSegmenter(encoder, self.dropout, fingerprint=fingerprint)
        return files.load(self.model, _READERS[self.segmenter])

    def _segmented(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        return _with_sides(types, self.model, batch, rng, reordered=self.reordered)

    def inverse(self) -> Transform:
        if self.segmenter == "vocabulary":
            return Decode(self.model, None)
        return SpmDecode(self.model, None) if self.segmenter == "sentencepiece" else JoinPieces()


def _with_sides(
    types: WordTypes, model: Path, batch: Batch, rng: LineRng, *, reordered: bool
) -> Batch:
    """Split field 1 into two sides; if `reordered`, split each side, with one draw for all equal words of a line."""
    bits = rng.words(batch.origins)

    def changed(column: Column, draws: Draws) -> Column:
        words = known(types.find(column), model)
        return words.written(words.drawn(bits, by_type=True), side=draws.field)

    if reordered:
        return each_field(batch, rng, changed, fields=None)
    batch, _ = with_fields(batch, (SOURCE,))
    words = known(types.find(batch.column(SOURCE)), model)
    drawn = words.drawn(bits)
    return batch.with_columns({side: words.written(drawn, side=side) for side in (SOURCE, TARGET)})


@dataclass(frozen=True, slots=True, eq=False)
class DropoutSegmenter(Segmenter):
    """An encoder with BPE-dropout. The score of a segmentation is how often it was sampled."""

    encoder: Encoder
    dropout: float

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        """Return the distinct segmentations among n samples of each word, most frequent first."""
        rows = self._encoded(
            [word for word in words for _ in range(n)], self.dropout if n > 1 else 0.0, n
        )
        counts = (Counter(rows[first : first + n]) for first in range(0, len(rows), n))
        return [
            [Scored(pieces, math.log(count)) for pieces, count in each.most_common()]
            for each in counts
        ]

    def characters(self, word: str) -> tuple[str, ...]:
        return self._encoded([word], 1.0, 1)[0]

    def _encoded(self, words: Sequence[str], dropout: float, n: int) -> list[tuple[str, ...]]:
        text = "".join(word + "\n" for word in words).encode("utf-8", "surrogatepass")
        numbers = np.tile(np.arange(n), len(words) // n)
        options: dict[str, Any] = (
            {"dropout": dropout, "seed": _SEED, "numbers": numbers} if dropout else {}
        )
        lines = self.encoder.encode_text(text, n_threads=1, **options).decode().split("\n")[:-1]
        return [tuple(line.split(" ")) for line in lines]


@dataclass(frozen=True, slots=True, eq=False)
class SentencePieceSegmenter(Segmenter):
    sampler: UnigramSampler

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        return [self._of_word(word, n) for word in words]

    def _of_word(self, word: str, n: int) -> list[Scored]:
        rows = zip(*self.sampler.paths(word, n), strict=True)
        result = [Scored(tuple(pieces), score) for pieces, score in rows if pieces]
        return sorted(result, key=lambda one: -one.score) or [Scored((word,), 0.0)]

    def characters(self, word: str) -> tuple[str, ...]:
        return tuple("".join(self._of_word(word, 1)[0].pieces))


def read_encoder(path: Path) -> Encoder:
    encoder = subwords.read_encoder(path)
    vocabulary = encoder.vocabulary
    if (vocabulary.pretokenizer.name, vocabulary.marker) not in _SCHEMES:
        schemes = f"splits text with {vocabulary.pretokenizer.name!r} and marks words with {vocabulary.marker!r}"
        raise ConfigError(
            f"{shown_path(path)}: {schemes}; give a vocabulary that splits at spaces and marks words"
        )
    return encoder


def read_sentencepiece_segmenter(path: Path) -> SentencePieceSegmenter:
    model = spm.read_model(path)
    if model.proto.trainer_spec.model_type != UNIGRAM:
        raise VocabularyError(
            f"{shown_path(path)}: not a unigram model, so a word has only one segmentation; give a unigram model"
        )
    assert isinstance(model.sampler, UnigramSampler)
    return SentencePieceSegmenter(model.sampler, fingerprint=model.fingerprint)


_READERS: dict[Kind, Callable[[Path], Segmenter]] = {
    "morfessor": read_model,
    "table": read_table,
    "sentencepiece": read_sentencepiece_segmenter,
}
