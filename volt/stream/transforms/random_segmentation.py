"""Subword regularisation: split words into pieces, drawn independently for each occurrence of a
word.

P(segmentation) ∝ score^theta        theta = 0: uniform; theta = ∞: always the best segmentation

With the segmentations (low), of score 0.5, and (lo, w), of score 0.125, and theta 0.5, the
probabilities are in the proportion √0.5 : √0.125, that is 2 : 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from volt.errors import quoted, shown_path
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import SOURCE, Draws, each_field, map_columns
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.nbest_segmenters import (
    MarkingSegmenter,
    Segmenter,
    read_model,
    read_table,
)
from volt.stream.transforms.options import Amount, Exponent, Fields, File, whole_between
from volt.stream.transforms.spm import NBest, SpmEncode
from volt.stream.transforms.subwords import split_pieces
from volt.stream.transforms.transform import (
    Changes,
    FileTransform,
    LineFault,
    LineTransform,
    Loaded,
    LoadedFiles,
    Opened,
    Transform,
)
from volt.stream.transforms.word_types import Choices, ColumnWords, WordTypes
from volt.text.atoms import PREFIX, SPACE, SUFFIX

Marks = Literal["auto", "given", "word", "pieces"]
ComputeChoices = Callable[..., list[Choices]]
BEST = math.inf  # the theta that always takes the best segmentation


@dataclass(frozen=True, slots=True)
class Segmenting(FileTransform, LineTransform):
    """Base class of transforms that draw from the n best segmentations of a segmenter."""

    changes: ClassVar[Changes] = "pieces"
    model: File
    """A lexicon of Morfessor EM+Prune, `count<TAB>subword`, or a Morfessor model as text, `count
    morph + morph`."""
    n_samples: Annotated[int, partial(whole_between, low=1, high=64)] = 5
    """How many of a word's best segmentations to draw from; 1 takes the best."""
    theta: Exponent = 0.5
    """The power of the score in P(segmentation): with 0, all are equally probable; with .inf, the
    best is taken."""
    marks: Marks = "auto"
    """How words get the marker ▁. given: it is in the text; word: it is put before each word;
    pieces: it is put before each word's first piece; auto: `word` if the model contains ▁ and the
        field does not, else `given`."""

    def load(self, files: LoadedFiles) -> Loaded:
        segmenter = self._load_segmenter(files)
        types = make_word_types(
            segmenter, self._compute_choices, self.marks, n=self.n_samples, theta=self.theta
        )
        return partial(self._segment, types), {"model": segmenter.fingerprint}

    def _load_segmenter(self, files: LoadedFiles) -> Segmenter:
        return files.load(self.model, read_model)

    @property
    def _compute_choices(self) -> ComputeChoices:
        raise NotImplementedError

    def _segment(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        raise NotImplementedError

    def deterministic(self) -> Transform:
        return replace(self, theta=BEST)

    def inverse(self) -> Transform:
        return JoinPieces()


@dataclass(frozen=True, slots=True)
class MorfessorEm(Segmenting):
    """Split words with a Morfessor model. Each occurrence of a word draws one of its best
    segmentations."""

    fields: Fields | None = None
    """The fields to split; by default 1 and, if a line has it, 2."""

    @property
    def _compute_choices(self) -> ComputeChoices:
        return choose_segmentations

    def _segment(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        return _segment_fields(types, self.model, self.fields, batch, rng)

    def inverse(self) -> Transform:
        return JoinPieces(self.fields)


@dataclass(frozen=True, slots=True)
class DeterministicSegmentation(FileTransform, LineTransform):
    """Split words by a table. A line with a word that the table lacks is unfit."""

    changes: ClassVar[Changes] = "pieces"
    table: File
    """A file of lines `word<TAB>subword subword …`, each word once. Without marks, they must spell
    the word."""
    fields: Fields | None = None
    """The fields to split; by default 1 and, if a line has it, 2."""
    marks: Marks = "auto"
    """How words get the marker ▁. given: it is in the text; word: it is put before each word;
    pieces: it is put before each word's first piece; auto: `word` if the table contains ▁ and the
        field does not, else `given`."""

    def load(self, files: LoadedFiles) -> Loaded:
        segmenter = files.load(self.table, read_table)
        types = make_word_types(segmenter, choose_segmentations, self.marks, n=1, theta=BEST)
        call = partial(_segment_fields, types, self.table, self.fields)
        return call, {"table": segmenter.fingerprint}

    def inverse(self) -> Transform:
        return JoinPieces(self.fields)


@dataclass(frozen=True, slots=True)
class Sentencepiece(FileTransform, LineTransform):
    """Sample splits with a SentencePiece model, like `spm_encode`, with `theta` for alpha, as in
    `morfessor_em`."""

    changes: ClassVar[Changes] = "pieces"
    model: File
    """A SentencePiece model file."""
    nbest: NBest = -1
    """How many best segmentations to draw from; −1 draws from all; 1 takes the best."""
    theta: Amount = 0.5
    """The sharpness of the distribution, like alpha of `spm_encode`."""
    fields: Fields | None = None
    """The fields to split; by default 1 and, if a line has it, 2."""

    def _encode(self) -> SpmEncode:
        return SpmEncode(self.model, self.fields, alpha=self.theta, nbest=self.nbest)

    def opened(self, files: LoadedFiles) -> Opened:
        return replace(self._encode().opened(files), transform=self)

    def deterministic(self) -> Transform:
        return self._encode().deterministic()

    def inverse(self) -> Transform:
        return self._encode().inverse()


@dataclass(frozen=True, slots=True)
class JoinPieces(LineTransform):
    """Join pieces: remove spaces, then replace each ▁ by a space; remove a ▁ at the start of a
    field."""

    decodes: ClassVar[bool] = True
    fields: Fields | None = None
    """The fields to join; by default 1 and, if the line has it, 2."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return map_columns(batch, _join_pieces, fields=self.fields)


def _join_pieces(column: Column) -> Column:
    pieces = column.text().tobytes()
    text = pieces.replace(b" ", b"").replace(SPACE.encode(), b" ")
    return Column.cut(text.replace(b"\n ", b"\n").removeprefix(b" "))


def make_word_types(
    segmenter: Segmenter,
    compute_choices: ComputeChoices,
    marks: Marks,
    *,
    n: int,
    theta: float,
) -> WordTypes:
    """Return a table that computes the choices of words from their n best segmentations.

    compute_choices: `choose_segmentations` or `choose_disjoint_pairs`
    """
    prepare = None
    if marks == "auto" and segmenter.has_marker:
        prepare = add_missing_markers
    if marks in ("word", "pieces"):
        segmenter = MarkingSegmenter(segmenter=segmenter, before_split=marks == "word")
    return WordTypes(partial(compute_choices, segmenter, n=n, theta=theta), prepare)


def choose_segmentations(
    segmenter: Segmenter, words: Sequence[str], *, n: int, theta: float
) -> list[Choices]:
    """Return each word's choices: its n best segmentations, the same on both sides."""
    result = list[Choices]()
    for segmentations in segmenter.best(words, n):
        texts = [" ".join(each.pieces) for each in segmentations]
        sides = [(index, index) for index in range(len(texts))]
        probs = compute_probs([each.score for each in segmentations], theta)
        result.append(Choices(texts, sides, _accumulate(probs)))
    return result


def choose_disjoint_pairs(
    segmenter: Segmenter, words: Sequence[str], *, n: int, theta: float
) -> list[Choices]:
    """Return each word's choices: pairs, among its n best segmentations, that share no piece of
    several characters.

    P(first, second) = P(first) · P(second among the partners of first). A segmentation without such
    a partner is paired with the word's characters.
    """
    result = list[Choices]()
    for word, segmentations in zip(words, segmenter.best(words, n), strict=True):
        characters = segmenter.characters(word)
        long = [find_long_pieces(each.pieces, characters) for each in segmentations]
        scores = [each.score for each in segmentations]
        sides = list[tuple[int, int]]()
        probs = list[float]()
        for first, prob in enumerate(compute_probs(scores, theta)):
            partners = [other for other in range(len(long)) if long[first].isdisjoint(long[other])]
            partner_probs = compute_probs([scores[partner] for partner in partners], theta)
            if not partners:
                partners = [len(segmentations)]  # the index of the characters
                partner_probs = [1.0]
            for second, partner_prob in zip(partners, partner_probs, strict=True):
                if prob * partner_prob:
                    sides.append((first, second))
                    probs.append(prob * partner_prob)

        texts = [" ".join(each.pieces) for each in segmentations]
        result.append(Choices([*texts, " ".join(characters)], sides, _accumulate(probs)))
    return result


def find_long_pieces(pieces: Collection[str], characters: Collection[str] = ()) -> frozenset[str]:
    """Return the pieces with several characters (without markers), minus the pieces in
    `characters`."""
    result = set[str]()
    for piece in pieces:
        if len(piece.replace(PREFIX, "").removesuffix(SUFFIX)) > 1 and piece not in characters:
            result.add(piece)
    return frozenset(result)


def compute_probs(scores: Sequence[float], theta: float) -> list[float]:
    """Return probabilities ∝ score^theta. scores: their logarithms, the highest first"""
    if theta == BEST:
        return [float(index == 0) for index in range(len(scores))]
    weights = [math.exp(theta * (score - scores[0])) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]


def _accumulate(probs: Sequence[float]) -> list[float]:
    """Return the cumulative probabilities; rounding does not change the last, 1."""
    return [*list(accumulate(probs))[:-1], 1.0] if probs else []


def add_missing_markers(column: Column) -> Column:
    """Put ▁ before each word of the values that contain no ▁."""
    indices = list[int]()
    marked = list[str]()
    for index, value in enumerate(column.strings()):
        if value and SPACE not in value:
            indices.append(index)
            marked.append(" ".join(SPACE + word for word in split_pieces(value)))
    return column.replaced(indices, Column.of(marked)) if indices else column


def _segment_fields(
    types: WordTypes, path: Path, fields: Fields | None, batch: Batch, rng: LineRng
) -> Batch:
    def segment(column: Column, draws: Draws) -> Column:
        words = look_up_words(types, column, path)
        return words.write_choices(words.draw_choices(draws.words), side=SOURCE)

    return each_field(batch, rng, segment, fields=fields)


def look_up_words(types: WordTypes, column: Column, path: Path) -> ColumnWords:
    """Return the words of a column. Raises LineFault for lines with a word that the file at `path`
    lacks."""
    words = types.look_up(column)
    unknown = words.find_unknown()[::-1]  # so that a line's reason is its first unknown word
    lines = np.searchsorted(words.value_ends, unknown, side="right").tolist()
    reasons = dict[int, str]()
    for line, type_number in zip(lines, words.type_numbers[unknown].tolist(), strict=True):
        word = words.unknown_words[type_number]
        reasons[line] = f"{shown_path(path)} lacks the word {quoted(word)}"
    if reasons:
        raise LineFault(reasons)
    return words
