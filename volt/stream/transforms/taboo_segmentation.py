"""Taboo segmentation: two segmentations of a text, as source and target, with no long piece in
common.

low low  →  l ow l ow    lo w lo w
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from volt.errors import ConfigError, VocabularyError, shown_path
from volt.stream.transforms import spm, subwords
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import BOTH_SIDES, SOURCE, Draws, each_field, with_fields
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.nbest_segmenters import (
    Scored,
    Segmenter,
    read_model,
    read_table,
    sorted_by_score,
)
from volt.stream.transforms.options import File, Probability
from volt.stream.transforms.random_segmentation import JoinPieces, Segmenting, known
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
    """Split field 1 into source and target, so that each word's two segmentations share no piece of
    several characters.

    If a word has no such segmentations, the target gets its characters. ▁ does not count as a
    character. An autoencoder trained on such lines cannot copy pieces (Grönroos et al. 2020).
    """

    is_disjoint: ClassVar[bool] = True

    def _segmented(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        return _with_sides(types, self.model, batch, rng, reordered=False)


@dataclass(frozen=True, slots=True)
class MorfessorEmTabooReordered(MorfessorEmTaboo):
    """Split source and target, which have the same words in any order, as `morfessor_em_taboo`
    does.

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
    """The kind of the file: a model for `morfessor_em`, a SentencePiece unigram model, a vocabulary
    for `encode`, or a table for `deterministic_segmentation`."""
    reordered: bool = False
    """True if the lines have both sides already, with the same words in possibly different
    orders."""
    dropout: Probability = 0.1
    """For a vocabulary: the probability of skipping a merge; n_samples is then how often each word
    is sampled."""

    def check(self) -> None:
        marks_itself = self.segmenter in ("sentencepiece", "vocabulary")
        if marks_itself and self.marks not in ("auto", "given"):
            raise ConfigError(
                f"marks: {self.marks!r}; a {self.segmenter} marks words itself; remove marks"
            )

    def _segmenter(self, files: LoadedFiles) -> Segmenter:
        if self.segmenter == "vocabulary":
            return dropout_segmenter(files.load(self.model, read_encoder), self.dropout)
        return files.load(self.model, _READERS[self.segmenter])

    def _segmented(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        return _with_sides(types, self.model, batch, rng, reordered=self.reordered)

    def inverse(self) -> Transform:
        if self.segmenter == "vocabulary":
            return Decode(self.model, None)
        if self.segmenter == "sentencepiece":
            return SpmDecode(self.model, None)
        return JoinPieces()


def _with_sides(
    types: WordTypes, model: Path, batch: Batch, rng: LineRng, *, reordered: bool
) -> Batch:
    """Split field 1 into two sides; if `reordered`, split each side, with one draw for all equal
    words of a line."""
    bits = rng.words(batch.origins)

    def changed(column: Column, draws: Draws) -> Column:
        words = known(types.find(column), model)
        return words.written(words.drawn(bits, by_type=True), side=draws.field)

    if reordered:
        return each_field(batch, rng, changed, fields=None)
    batch, _ = with_fields(batch, (SOURCE,))
    words = known(types.find(batch.column(SOURCE)), model)
    drawn = words.drawn(bits)
    return batch.with_columns({side: words.written(drawn, side=side) for side in BOTH_SIDES})


def dropout_segmenter(encoder: Encoder, dropout: float) -> Segmenter:
    """Return a segmenter by BPE-dropout. The score of a segmentation is how often it was
    sampled."""
    return Segmenter(
        partial(_best_of_samples, encoder, dropout),
        f"{encoder.vocabulary.fingerprint} {dropout!r}",
        characters=partial(_characters_of_encoder, encoder),
    )


def _best_of_samples(
    encoder: Encoder, dropout: float, words: Sequence[str], n: int
) -> list[list[Scored]]:
    """Return the distinct segmentations among n samples of each word, most frequent first."""
    repeated = np.repeat(words, n).tolist()
    samples = _encoded(encoder, repeated, dropout if n > 1 else 0.0, n)
    result = list[list[Scored]]()
    for first in range(0, len(samples), n):
        counts = Counter(samples[first : first + n]).most_common()
        result.append([Scored(pieces, math.log(count)) for pieces, count in counts])
    return result


def _characters_of_encoder(encoder: Encoder, word: str) -> tuple[str, ...]:
    return _encoded(encoder, [word], 1.0, 1)[0]


def _encoded(
    encoder: Encoder, words: Sequence[str], dropout: float, n: int
) -> list[tuple[str, ...]]:
    text = "".join(f"{word}\n" for word in words).encode("utf-8", "surrogatepass")
    options = dict[str, Any]()
    if dropout:
        numbers = np.tile(np.arange(n), len(words) // n)
        options = {"dropout": dropout, "seed": _SEED, "numbers": numbers}
    encoded = encoder.encode_text(text, n_threads=1, **options)
    lines = encoded.decode().removesuffix("\n").split("\n")
    return [tuple(line.split(" ")) for line in lines]


def _best_of_sampler(sampler: UnigramSampler, words: Sequence[str], n: int) -> list[list[Scored]]:
    result = list[list[Scored]]()
    for word in words:
        paths = zip(*sampler.paths(word, n), strict=True)
        scored = [Scored(tuple(pieces), score) for pieces, score in paths if pieces]
        result.append(sorted_by_score(scored) or [Scored((word,), 0.0)])
    return result


def _characters_of_sampler(sampler: UnigramSampler, word: str) -> tuple[str, ...]:
    [[best]] = _best_of_sampler(sampler, [word], 1)
    return tuple("".join(best.pieces))


def read_encoder(path: Path) -> Encoder:
    encoder = subwords.read_encoder(path)
    vocabulary = encoder.vocabulary
    pretokenizer = vocabulary.pretokenizer.name
    if (pretokenizer, vocabulary.marker) not in _SCHEMES:
        raise ConfigError(
            f"{shown_path(path)}: splits text with {pretokenizer!r} and marks words with "
            f"{vocabulary.marker!r}; give a vocabulary that splits at spaces and marks words"
        )
    return encoder


def read_sentencepiece_segmenter(path: Path) -> Segmenter:
    model = spm.read_model(path)
    if model.proto.trainer_spec.model_type != UNIGRAM:
        raise VocabularyError(
            f"{shown_path(path)}: not a unigram model, so a word has only one segmentation; give a unigram model"
        )
    assert isinstance(model.sampler, UnigramSampler)
    best = partial(_best_of_sampler, model.sampler)
    characters = partial(_characters_of_sampler, model.sampler)
    return Segmenter(best, model.fingerprint, characters=characters)


_READERS: dict[Kind, Callable[[Path], Segmenter]] = {
    "morfessor": read_model,
    "table": read_table,
    "sentencepiece": read_sentencepiece_segmenter,
}
