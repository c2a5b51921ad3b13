"""Taboo segmentation: two segmentations of a text, as source and target, with no long piece in
common.

    low low  →  source  l ow l ow    target  lo w lo w

A piece is long if it has several characters, without markers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from volt.errors import ConfigError, VocabularyError, shown_path
from volt.stream.transforms import spm, subwords
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import BOTH_SIDES, SOURCE, Draws, each_field, with_fields
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.nbest_segmenters import (
    Segmentation,
    Segmenter,
    read_model,
    read_table,
    sort_by_score,
)
from volt.stream.transforms.options import File, Probability
from volt.stream.transforms.random_segmentation import (
    ComputeChoices,
    JoinPieces,
    Segmenting,
    choose_disjoint_pairs,
    look_up_words,
)
from volt.stream.transforms.sentencepiece_sampling import UNIGRAM, UnigramPaths
from volt.stream.transforms.spm import SpmDecode
from volt.stream.transforms.subwords import Decode
from volt.stream.transforms.transform import LoadedFiles, Transform
from volt.stream.transforms.word_types import WordTypes

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder


SEED = 0  # of all samples, so that a word has the same segmentations in every epoch and process
# Pairs (pre-tokeniser, marker) of the vocabularies that split text at spaces and mark words
_SCHEMES = {("whitespace", "suffix"), ("whitespace", "prefix"), ("metaspace", "none")}
Kind = Literal["morfessor", "sentencepiece", "vocabulary", "table"]


@dataclass(frozen=True, slots=True)
class MorfessorEmTaboo(Segmenting):
    """Split field 1 into source and target, so that each word's two segmentations share no piece of
    several characters.

    If a word has no such segmentations, the target gets its characters. ▁ does not count as a
    character. An autoencoder trained on such lines cannot copy pieces (Grönroos et al. 2020).
    """

    @property
    def _compute_choices(self) -> ComputeChoices:
        return choose_disjoint_pairs

    def _segment(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        if self._has_both_sides:
            return self._segment_each_side(types, batch, rng)
        batch, _ = with_fields(batch, (SOURCE,))
        words = look_up_words(types, batch.column(SOURCE), self.model)
        choices = words.draw_choices(rng.words(batch.origins))
        columns = {side: words.write_choices(choices, side=side) for side in BOTH_SIDES}
        return batch.with_columns(columns)

    def _segment_each_side(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        """Split source and target; all equal words of a line, on both sides, get one draw."""
        random_bits = rng.words(batch.origins)

        def segment(column: Column, draws: Draws) -> Column:
            words = look_up_words(types, column, self.model)
            choices = words.draw_choices(random_bits, by_type=True)
            return words.write_choices(choices, side=draws.field)

        return each_field(batch, rng, segment, fields=None)

    @property
    def _has_both_sides(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class MorfessorEmTabooReordered(MorfessorEmTaboo):
    """Split source and target, which have the same words in any order, as `morfessor_em_taboo`
    does.

    The two sides of a word get the two segmentations of one draw. Put this after `reorder`.
    """

    @property
    def _has_both_sides(self) -> bool:
        return True


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

    @property
    def _has_both_sides(self) -> bool:
        return self.reordered

    def _load_segmenter(self, files: LoadedFiles) -> Segmenter:
        if self.segmenter == "vocabulary":
            return DropoutSegmenter.from_encoder(
                files.load(self.model, read_encoder), dropout=self.dropout
            )
        return files.load(self.model, _READERS[self.segmenter])

    def inverse(self) -> Transform:
        if self.segmenter == "vocabulary":
            return Decode(self.model, None)
        if self.segmenter == "sentencepiece":
            return SpmDecode(self.model, None)
        return JoinPieces()


@dataclass(frozen=True, eq=False, kw_only=True)
class DropoutSegmenter(Segmenter):
    """Samples segmentations by BPE-dropout. A segmentation's score is how often it was sampled.

    dropout: the probability of skipping a merge
    """

    encoder: Encoder
    dropout: float

    @classmethod
    def from_encoder(cls, encoder: Encoder, *, dropout: float) -> DropoutSegmenter:
        fingerprint = f"{encoder.vocabulary.fingerprint} {dropout!r}"
        return cls(encoder=encoder, dropout=dropout, fingerprint=fingerprint)

    def best(self, words: Sequence[str], n: int) -> list[list[Segmentation]]:
        """Return the distinct segmentations among n samples of each word, most frequent first."""
        repeated = np.repeat(words, n).tolist()
        dropout = self.dropout if n > 1 else 0.0
        samples = self._encode(repeated, dropout=dropout, n_samples=n)
        result = list[list[Segmentation]]()
        for first in range(0, len(samples), n):
            counts = Counter(samples[first : first + n]).most_common()
            result.append([Segmentation(pieces, math.log(count)) for pieces, count in counts])
        return result

    def characters(self, word: str) -> tuple[str, ...]:
        return self._encode([word], dropout=1.0, n_samples=1)[0]

    def _encode(
        self, words: Sequence[str], *, dropout: float, n_samples: int
    ) -> list[tuple[str, ...]]:
        """Return the pieces of words, of which each run of `n_samples` is one word repeated."""
        text = "".join(f"{word}\n" for word in words).encode("utf-8", "surrogatepass")
        options = dict[str, Any]()
        if dropout:
            numbers = np.tile(np.arange(n_samples), len(words) // n_samples)
            options = {"dropout": dropout, "seed": SEED, "numbers": numbers}
        encoded = self.encoder.encode_text(text, n_threads=1, **options)
        lines = encoded.decode().removesuffix("\n").split("\n")
        return [tuple(line.split(" ")) for line in lines]


@dataclass(frozen=True, eq=False, kw_only=True)
class SentencePieceSegmenter(Segmenter):
    """Returns the n best paths of a SentencePiece unigram model."""

    paths: UnigramPaths

    def best(self, words: Sequence[str], n: int) -> list[list[Segmentation]]:
        result = list[list[Segmentation]]()
        for word in words:
            best = zip(*self.paths.find_best_paths(word, n), strict=True)
            scored = [Segmentation(tuple(pieces), score) for pieces, score in best if pieces]
            result.append(sort_by_score(scored) or [Segmentation((word,), 0.0)])
        return result

    def characters(self, word: str) -> tuple[str, ...]:
        [[best]] = self.best([word], 1)
        return tuple("".join(best.pieces))


def read_encoder(path: Path) -> Encoder:
    """Read a vocabulary. Raises ConfigError if it does not split text at spaces and mark words."""
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
    """Read a SentencePiece model. Raises VocabularyError if it is not a unigram model."""
    model = spm.read_model(path)
    if model.proto.trainer_spec.model_type != UNIGRAM:
        raise VocabularyError(
            f"{shown_path(path)}: not a unigram model, so a word has only one segmentation; give a "
            "unigram model"
        )
    paths = UnigramPaths(model.processor, model.proto)
    return SentencePieceSegmenter(paths=paths, fingerprint=model.fingerprint)


_READERS: dict[Kind, Callable[[Path], Segmenter]] = {
    "morfessor": read_model,
    "table": read_table,
    "sentencepiece": read_sentencepiece_segmenter,
}
