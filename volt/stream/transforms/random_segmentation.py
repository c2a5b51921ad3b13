"""Subword regularisation: split words into pieces, drawn independently for each occurrence of a
word.

P(segmentation) ∝ score^theta        theta = 0: uniform; theta = ∞: always the best segmentation
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
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.nbest_segmenters import Segmenter, marked, read_model, read_table
from volt.stream.transforms.options import Amount, Exponent, Fields, File, whole_between
from volt.stream.transforms.spm import NBest, SpmEncode
from volt.stream.transforms.subwords import pieces_of
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
BEST = math.inf  # the theta that always takes the best segmentation


@dataclass(frozen=True, slots=True)
class Segmenting(FileTransform, LineTransform):
    changes: ClassVar[Changes] = "pieces"
    is_disjoint: ClassVar[bool] = False
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
        segmenter = self._segmenter(files)
        choices = disjoint if self.is_disjoint else sampled
        types = word_types(choices, segmenter, self.marks, n=self.n_samples, theta=self.theta)
        return partial(self._segmented, types), {"model": segmenter.fingerprint}

    def _segmenter(self, files: LoadedFiles) -> Segmenter:
        return files.load(self.model, read_model)

    def _segmented(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
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

    def _segmented(self, types: WordTypes, batch: Batch, rng: LineRng) -> Batch:
        return _cut_fields(types, self.model, self.fields, batch, rng)

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
        types = word_types(sampled, segmenter, self.marks, n=1, theta=BEST)
        call = partial(_cut_fields, types, self.table, self.fields)
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
        def joined(column: Column) -> Column:
            pieces = column.text().tobytes()
            text = pieces.replace(b" ", b"").replace(SPACE.encode(), b" ")
            return Column.cut(text.replace(b"\n ", b"\n").removeprefix(b" "))

        return map_columns(batch, joined, fields=self.fields)


def _cut_fields(
    types: WordTypes, path: Path, fields: Fields | None, batch: Batch, rng: LineRng
) -> Batch:
    def changed(column: Column, draws: Draws) -> Column:
        words = known(types.find(column), path)
        return words.written(words.drawn(draws.words), side=SOURCE)

    return each_field(batch, rng, changed, fields=fields)


def sampled(segmenter: Segmenter, words: Sequence[str], *, n: int, theta: float) -> list[Choices]:
    """Return each word's choices: its n best segmentations."""
    result = list[Choices]()
    for segmentations in segmenter.best(words, n):
        texts = [" ".join(each.pieces) for each in segmentations]
        sides = [(number, number) for number in range(len(texts))]
        shares = shares_of([each.score for each in segmentations], theta)
        result.append(Choices(texts, sides, _bounds(shares)))
    return result


def disjoint(segmenter: Segmenter, words: Sequence[str], *, n: int, theta: float) -> list[Choices]:
    """Return each word's choices: pairs, among its n best segmentations, that share no piece of
    several characters.

    A segmentation without such a partner is paired with the word's characters.
    """
    result = list[Choices]()
    for word, segmentations in zip(words, segmenter.best(words, n), strict=True):
        characters = segmenter.characters(word)
        long = [long_pieces(each.pieces, characters) for each in segmentations]
        scores = [each.score for each in segmentations]
        sides = list[tuple[int, int]]()
        shares = list[float]()
        for first, share in enumerate(shares_of(scores, theta)):
            partners = [other for other in range(len(long)) if long[first].isdisjoint(long[other])]
            partner_shares = shares_of([scores[partner] for partner in partners], theta)
            if not partners:
                partners = [len(segmentations)]
                partner_shares = [1.0]
            for second, partner_share in zip(partners, partner_shares, strict=True):
                if share * partner_share:
                    sides.append((first, second))
                    shares.append(share * partner_share)

        texts = [" ".join(each.pieces) for each in segmentations]
        result.append(Choices([*texts, " ".join(characters)], sides, _bounds(shares)))
    return result


def long_pieces(pieces: Collection[str], characters: Collection[str] = ()) -> frozenset[str]:
    """Return the pieces with several characters (without markers), minus the pieces in
    `characters`."""
    result = set[str]()
    for piece in pieces:
        if len(piece.replace(PREFIX, "").removesuffix(SUFFIX)) > 1 and piece not in characters:
            result.add(piece)
    return frozenset(result)


def shares_of(scores: Sequence[float], theta: float) -> list[float]:
    """Return probabilities ∝ score^theta. scores: their logarithms, the highest first"""
    if theta == BEST:
        return [float(number == 0) for number in range(len(scores))]
    weights = [math.exp(theta * (score - scores[0])) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]


def _bounds(shares: Sequence[float]) -> list[float]:
    return [*list(accumulate(shares))[:-1], 1.0] if shares else []


def word_types(
    choices: Callable[..., list[Choices]],
    segmenter: Segmenter,
    marks: Marks,
    *,
    n: int,
    theta: float,
) -> WordTypes:
    prepare = marked_where_none_is if marks == "auto" and segmenter.has_marks else None
    if marks in ("word", "pieces"):
        segmenter = marked(segmenter, first=marks == "word")
    return WordTypes(partial(choices, segmenter, n=n, theta=theta), prepare)


def marked_where_none_is(column: Column) -> Column:
    """Put ▁ before each word of the values that contain no ▁."""
    places = list[int]()
    outputs = list[str]()
    for place, value in enumerate(column.strings()):
        if value and SPACE not in value:
            places.append(place)
            outputs.append(" ".join(SPACE + word for word in pieces_of(value)))
    return column.replaced(places, Column.of(outputs)) if places else column


def known(words: ColumnWords, path: Path) -> ColumnWords:
    """Return the words. Raises LineFault for lines with a word that the file at `path` lacks."""
    places = words.unknown_words()
    if not len(places):
        return words

    lines = np.searchsorted(words.ends, places, side="right").tolist()
    texts = [words.unknown[number] for number in words.numbers[places].tolist()]
    first = dict(zip(reversed(lines), reversed(texts), strict=True))  # the first word of each line
    reasons = {
        line: f"{shown_path(path)} lacks the word {quoted(word)}" for line, word in first.items()
    }
    raise LineFault(reasons)
