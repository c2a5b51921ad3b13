r"""Transforms that cut words into pieces, drawn anew for each occurrence: subword regularisation.

    P(segmentation) ∝ score^theta        theta = 0: all alike; theta = ∞: always the best

Words are separated by spaces, and ▁ marks where a word starts, so that `join_pieces` can join pieces again. The choices
of a word type are computed once (volt.stream.transforms.tokens). For taboo segmentation the second one is drawn from
those that share no piece of several characters with the first, or is the word's characters; the markers ▁ and </w> are
not counted as characters.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
...     _ = file.write("8\tlo\n8\tw\n8\t▁\n1\tl\n1\to\n") and file.flush()
...     batch = MorfessorEm(Path(file.name), n_samples=1)(Batch.of(["▁low ▁lo"]), LineRng(1, 2))
>>> batch.lines, JoinPieces()(batch, LineRng(1, 2)).lines
(['▁ lo w ▁ lo'], ['low lo'])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from volt import arguments
from volt.errors import ConfigError, quoted, shown_path
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import ConfiguredTransform, Fields, check_fields, map_columns, take_file
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.segmenters import Marked, Scored, Segmenter, read_model, read_table
from volt.stream.transforms.sentencepiece import SpmEncode
from volt.stream.transforms.subwords import encoded_fields, pieces_of
from volt.stream.transforms.tokens import Choices, ColumnWords, WordTypes
from volt.stream.transforms.transform import LineFault, LoadedFiles, Opened, Transform
from volt.text.characters import PREFIX, SPACE, SUFFIX


def sampled(segmenter: Segmenter, words: Sequence[str], *, n: int, theta: float) -> list[Choices]:
    """Return one of the n best segmentations of each word, on both sides."""
    return [_one(result, theta) for result in segmenter.best(words, n)]


def _one(result: Sequence[Scored], theta: float) -> Choices:
    if not result:
        return Choices()
    shares = shares_of([one.score for one in result], theta)
    texts = [" ".join(one.pieces) for one in result]
    return Choices(texts, [(number, number) for number in range(len(texts))], _bounds(shares))


def disjoint(segmenter: Segmenter, words: Sequence[str], *, n: int, theta: float) -> list[Choices]:
    """Return two segmentations of each word, one for each side, of the n best."""
    result = zip(words, segmenter.best(words, n), strict=True)
    return [_two(scored, segmenter.characters(word), theta) for word, scored in result]


def _two(result: Sequence[Scored], characters: tuple[str, ...], theta: float) -> Choices:
    """Pairs of segmentations, with the product of both probabilities. found: may be empty"""
    if not result:
        return Choices()
    long = [long_pieces(one.pieces, characters) for one in result]
    sides, shares = list[tuple[int, int]](), list[float]()
    firsts = shares_of([one.score for one in result], theta)
    for first, share in enumerate(firsts):
        others = [other for other in range(len(result)) if long[first].isdisjoint(long[other])] if share else []
        seconds = shares_of([result[other].score for other in others], theta) if others else [1.0]
        sides += [(first, second) for second in others or [len(result)]]
        shares += [share * second for second in seconds]
    drawn = [place for place, share in enumerate(shares) if share]
    texts = [" ".join(pieces) for pieces in (*(one.pieces for one in result), characters)]
    return Choices(texts, [sides[place] for place in drawn], _bounds([shares[place] for place in drawn]))


def long_pieces(pieces: Collection[str], characters: Collection[str] = ()) -> frozenset[str]:
    """Return the pieces of several characters, which markers are not, nor what a segmenter takes for one character.

    >>> sorted(long_pieces(["▁a", "bc", "d</w>", "▁ef", "<0x0A>"], ["<0x0A>"]))
    ['bc', '▁ef']
    """
    return frozenset(piece for piece in pieces if len(_unmarked(piece)) > 1 and piece not in characters)


def _unmarked(piece: str) -> str:
    return piece.replace(PREFIX, "").removesuffix(SUFFIX)


def shares_of(scores: Sequence[float], theta: float) -> list[float]:
    """Probabilities ∝ score^theta. scores: logarithms, the greatest first

    >>> shares_of([-1.0, -2.0], float("inf"))
    [1.0, 0.0]
    """
    if theta == math.inf:
        return [1.0, *[0.0] * (len(scores) - 1)]
    weights = [math.exp(theta * (score - scores[0])) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]


def _bounds(shares: Sequence[float]) -> list[float]:
    """Return the cumulative shares; the last is 1."""
    return [*list(accumulate(shares))[:-1], 1.0]


Marks = Literal["auto", "given", "word", "pieces"]
MOST_SAMPLES = 64
BEST = float("inf")  # the theta with which nothing is drawn
SOURCE, TARGET = 1, 2


@dataclass(frozen=True, slots=True)
class Segmenting(ConfiguredTransform):
    """Base of the transforms that sample segmentations of a Morfessor model."""

    name: ClassVar[str]
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "pieces"
    model: Path
    """A lexicon of Morfessor EM+Prune, `count<TAB>subword`, or a model of Morfessor as text, `count morph + morph`."""
    n_samples: int = 5
    """The number of a word's best segmentations from which one is drawn; 1 takes the best."""
    theta: float = 0.5
    """The sharpness of the distribution: a segmentation is drawn in proportion to its score to this power; with 0, all
    are equally probable, and with .inf, the best is taken."""
    marks: Marks = "auto"
    """The origin of the marker ▁: the words have it where a space belongs before them (given), or it is put before
    each word, which the model then cuts (word), or it is put before each word's first piece (pieces). By default (auto)
    it is `word` for a field without any ▁, if the model has pieces that start with ▁; otherwise `given`."""

    def __post_init__(self) -> None:
        take_file(self, "model")
        arguments.choice(self.marks, "marks", get_args(Marks))
        if not 1 <= arguments.whole(self.n_samples, "n_samples") <= MOST_SAMPLES:
            raise ConfigError(f"n_samples: {self.n_samples}; give a number from 1 to {MOST_SAMPLES}")
        if not arguments.number(self.theta, "theta") >= 0:
            raise ConfigError(f"theta: {self.theta}; give 0 or more")

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, chance)

    def opened(self, files: LoadedFiles) -> Opened:
        """Return the transform with its model.

        Raises VocabularyError or MissingLibraryError if it cannot be loaded.
        """
        segmenter = self._segmenter(files)
        choices = partial(self._choices(), segmenter, n=self.n_samples, theta=self.theta)
        types = WordTypes(choices, _preparing(segmenter, self.marks))
        values = {"type": type(self).__name__, **self._options(), "model": segmenter.fingerprint}
        return Opened(self, partial(self._segmented, types), values)

    def _segmenter(self, files: LoadedFiles) -> Segmenter:
        return marked(files.load(self.model, read_model), self.marks)

    def _choices(self) -> Callable[..., list[Choices]]:
        return sampled

    def _options(self) -> dict[str, Any]:
        return {"n_samples": self.n_samples, "theta": self.theta, "marks": self.marks}

    def _segmented(self, types: WordTypes, batch: Batch, chance: LineRng) -> Batch:
        raise NotImplementedError

    def deterministic(self) -> Transform:
        """Return the same with the best segmentation of each word."""
        return replace(self, theta=BEST)

    def inverse(self) -> Transform:
        """Return the transform that joins the pieces of both sides."""
        return JoinPieces()

    def signature(self) -> dict[str, Any]:
        """Return the options, with the model's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).values


@dataclass(frozen=True, slots=True)
class MorfessorEm(Segmenting):
    """Cut words with a Morfessor model, each into one of its best segmentations, drawn anew for each occurrence."""

    name: ClassVar[str] = "morfessor_em"
    fields: Fields | None = None
    """The fields to cut; by default 1 and, where a line has it, 2."""

    def __post_init__(self) -> None:
        Segmenting.__post_init__(self)
        check_fields(self.fields)

    def _options(self) -> dict[str, Any]:
        return {**Segmenting._options(self), "fields": self.fields and list(self.fields)}

    def _segmented(self, types: WordTypes, batch: Batch, chance: LineRng) -> Batch:
        def changed(column: Column, chance: LineRng) -> Column:
            result = types.find(column)
            return result.written(result.drawn(chance.words(batch.origins)), side=SOURCE)

        return encoded_fields(batch, chance, changed, fields=self.fields)

    def inverse(self) -> Transform:
        """Return the transform that joins the pieces of the same fields."""
        return JoinPieces(self.fields)


@dataclass(frozen=True, slots=True)
class DeterministicSegmentation(ConfiguredTransform):
    """Cut words as a table says, which must hold them all: a line with another word is unfit."""

    name: ClassVar[str] = "deterministic_segmentation"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "pieces"
    table: Path
    """A file of lines `word<TAB>subword subword …`, each word once. The pieces spell the word, but for marks; other
    are refused, since they could not be joined to the text again."""
    fields: Fields | None = None
    """The fields to cut; by default 1 and, where a line has it, 2."""
    marks: Marks = "auto"
    """The origin of the marker ▁: the words have it (given), or it is put before each word, which is then looked up
    (word), or it is put before each word's first piece (pieces). By default (auto) it is `word` for a field without any
    ▁, if the table has words that start with ▁; otherwise `given`."""

    def __post_init__(self) -> None:
        take_file(self, "table")
        check_fields(self.fields)
        arguments.choice(self.marks, "marks", get_args(Marks))

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, chance)

    def opened(self, files: LoadedFiles) -> Opened:
        """Return the transform with its table. Raises VocabularyError, with the line, if it is not valid."""
        segmenter = marked(files.load(self.table, read_table), self.marks)
        types = WordTypes(partial(sampled, segmenter, n=1, theta=BEST), _preparing(segmenter, self.marks))
        options = {"fields": self.fields and list(self.fields), "marks": self.marks}
        values = {"type": "DeterministicSegmentation", "table": segmenter.fingerprint, **options}
        return Opened(self, partial(self._segmented, types), values)

    def _segmented(self, types: WordTypes, batch: Batch, chance: LineRng) -> Batch:
        def changed(column: Column, chance: LineRng) -> Column:
            result = known(types.find(column), self.table)
            return result.written(result.drawn(np.zeros(len(column), np.uint64)), side=SOURCE)

        return encoded_fields(batch, chance, changed, fields=self.fields)

    def deterministic(self) -> Transform:
        """Return the transform itself: nothing is drawn."""
        return self

    def inverse(self) -> Transform:
        """Return the transform that joins the pieces of the same fields."""
        return JoinPieces(self.fields)

    def signature(self) -> dict[str, Any]:
        """Return the options, with the table's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).values


@dataclass(frozen=True, slots=True)
class Sentencepiece(ConfiguredTransform):
    """Cut text with a SentencePiece model, sampled: `spm_encode` with the options of `morfessor_em`."""

    name: ClassVar[str] = "sentencepiece"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "pieces"
    model: Path
    """A SentencePiece model file."""
    nbest: int = -1
    """The number of best segmentations from which one is drawn; −1: of all; 1 takes the best."""
    theta: float = 0.5
    """The sharpness of the distribution, as alpha of `spm_encode`."""
    fields: Fields | None = None
    """The fields to cut; by default 1 and, where a line has it, 2."""

    def __post_init__(self) -> None:
        take_file(self, "model")
        if arguments.number(self.theta, "theta") < 0:
            raise ConfigError(f"theta: {self.theta}; give 0 or more")
        self._encode()

    def _encode(self) -> SpmEncode:
        return SpmEncode(self.model, self.fields, alpha=self.theta, nbest=self.nbest)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, chance)

    def opened(self, files: LoadedFiles) -> Opened:
        """Return the transform with its model; raises the errors of `spm_encode`."""
        encode = self._encode().opened(files)
        return Opened(self, encode.call, encode.values)

    def deterministic(self) -> Transform:
        """Return the best segmentation."""
        return self._encode().deterministic()

    def inverse(self) -> Transform:
        """Return the transform that decodes the same fields."""
        return self._encode().inverse()

    def signature(self) -> dict[str, Any]:
        """Return the options, with the model's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).values


@dataclass(frozen=True, slots=True)
class JoinPieces(ConfiguredTransform):
    """Join pieces: spaces go, then each ▁ becomes a space, but for one at the start of a field."""

    name: ClassVar[str] = "join_pieces"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    decodes: ClassVar[bool] = True
    fields: Fields | None = None
    """The fields to join; by default 1 and, where a line has it, 2."""

    def __post_init__(self) -> None:
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return map_columns(batch, _joined, fields=self.fields)


def _joined(column: Column) -> Column:
    text = column.text().tobytes().replace(b" ", b"").replace(SPACE.encode(), b" ")
    return Column.cut(text.replace(b"\n ", b"\n").removeprefix(b" "))


def marked(segmenter: Segmenter, marks: Marks) -> Segmenter:
    """Return a segmenter for words whose markers come from there.

    >>> from volt.stream.transforms.segmenters import SegmentTable
    >>> marked(SegmentTable({"▁low": "▁lo w"}), "word").best(["low"], 1)[0][0].pieces
    ('▁lo', 'w')
    """
    return segmenter if marks in ("auto", "given") else Marked(segmenter, first=marks == "word")


def _preparing(segmenter: Segmenter, marks: Marks) -> Callable[[Column], Column] | None:
    """Return the function that prepares a column before its words are looked up, if any."""
    return marked_where_none_is if marks == "auto" and getattr(segmenter, "has_marks", False) else None


def marked_where_none_is(column: Column) -> Column:
    """Return a column of text with ▁ before each word of those values that hold no ▁.

    >>> marked_where_none_is(Column.of(["a low", "▁a low", ""])).strings()
    ['▁a ▁low', '▁a low', '']
    """
    values = column.strings()
    places = [place for place, value in enumerate(values) if value and SPACE not in value]
    if not places:
        return column
    output = [" ".join(SPACE + word for word in pieces_of(values[place])) for place in places]
    return column.replaced(places, Column.of(output))


def known(found: ColumnWords, path: Path) -> ColumnWords:
    """Return the same words. Raises LineFault for lines with one that has no choices.

    path: of the table that lacks it

    >>> known(WordTypes(lambda words: [Choices()]).find(Column.of(["low"])), Path("table.tsv"))
    Traceback (most recent call last):
        ...
    volt.stream.transforms.transform.LineFault: 1 unfit lines, the first at index 0: table.tsv lacks the word 'low'
    """
    places = found.unknown_words()
    if not len(places):
        return found
    lines = np.searchsorted(found.ends, places, side="right").tolist()
    words = [found.unknown[number] for number in found.numbers[places].tolist()]
    reasons = dict(zip(reversed(lines), reversed(words), strict=True))  # the first word of each line
    raise LineFault({line: f"{shown_path(path)} lacks the word {quoted(word)}" for line, word in reasons.items()})
