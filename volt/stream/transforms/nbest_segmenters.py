"""Segmenters: a word → its best segmentations, each with the logarithm of a score.

UnigramLexicon    `count<TAB>subword`, the lexicon of Morfessor EM+Prune: score = Π count / total
Morfessor         a model of the package `morfessor`, as text
SegmentTable      `word<TAB>subword subword …`: one segmentation for each word
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.errors import VocabularyError, missing, quoted, shown_path
from volt.files.small_files import decoded, read_bytes
from volt.stream.transforms.column import Ints, Longs
from volt.text.atoms import SPACE, SUFFIX

_N_CODES = 0x110000


class PieceTrie:
    """A trie of pieces; its edges are characters.

    symbol_of: (n_codes,) int32, code point → symbol, or `-1 - code_point` if no piece contains the character
    steps: (state, symbol) → the next state minus 1; state 0 is the root
    pieces: (n_states,) int32, the number of the piece that ends at each state, or −1
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        from volt.kernels.bpe_tables import ranked_merges

        symbols = {
            character: place
            for place, character in enumerate(sorted(set(chain.from_iterable(numbers))))
        }
        steps, pieces = dict[tuple[int, int], int](), [-1]
        for text, number in numbers.items():
            state = 0
            for character in text:
                state = steps.setdefault((state, symbols[character]), len(pieces))
                pieces += [-1] * (state == len(pieces))
            pieces[state] = number
        check_size(len(steps))
        rows = np.array(list(steps), np.int32).reshape(-1, 2)
        self.steps = ranked_merges(rows[:, 0], rows[:, 1], np.arange(len(rows))).pairs
        self.symbol_of, self.pieces = symbols_of(symbols), np.array(pieces, np.int32)


def symbols_of(symbols: Mapping[str, int]) -> Ints:
    result = -1 - np.arange(_N_CODES, dtype=np.int32)
    single = {ord(text): number for text, number in symbols.items() if len(text) == 1}
    result[list(single)] = list(single.values())
    return result


def codes_of(texts: Sequence[str]) -> tuple[Ints, Longs]:
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32)
    return codes, np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))


def check_size(n_rows: int) -> None:
    from volt.kernels.bpe_tables import MOST

    if n_rows > MOST:
        raise VocabularyError(
            f"its table would have {n_rows:,} rows, and the limit is {MOST:,}; use a smaller model"
        )


_UNKNOWN_PENALTY = (
    10.0  # log score of an unknown character: this much below the least of the lexicon
)
_MOST = 1e300  # maximum count, so that sums of counts are finite
_MOST_DIGITS = 300  # maximum number of digits of a count that is a whole number
_PICKLE = b"\x80"  # the first byte of a pickle
_JOINT = re.compile("(@@|￭) | ￭")  # marks of subword-nmt and OpenNMT where a word was split
_LONGEST = 30  # maximum number of characters of a morph, the default of the package's own commands


class Scored(NamedTuple):
    pieces: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Segmenter:
    """Base class of segmenters. has_marks: whether a piece or word starts with the marker ▁"""

    fingerprint: str = ""
    has_marks: bool = False

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        raise NotImplementedError

    def characters(self, word: str) -> tuple[str, ...]:
        return tuple(word)


@dataclass(frozen=True, slots=True, eq=False)
class UnigramLexicon(Segmenter):
    """A unigram model. costs: −log probability of each piece; unknown: the cost of an unknown character"""

    pieces: Mapping[str, int]
    costs: NDArray[np.float64]
    unknown: float
    trie: PieceTrie

    @classmethod
    def of(cls, counts: Mapping[str, float], *, fingerprint: str = "") -> UnigramLexicon:
        costs = math.log(math.fsum(counts.values())) - np.log(np.fromiter(counts.values(), float))
        numbers = {piece: number for number, piece in enumerate(counts)}
        unknown, marks = float(costs.max()) + _UNKNOWN_PENALTY, _has_marks(counts)
        return cls(
            numbers, costs, unknown, PieceTrie(numbers), fingerprint=fingerprint, has_marks=marks
        )

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        """Return the n best segmentations. In a tie, the last pieces that differ decide: the longer one comes first."""
        from volt.kernels.apply_bpe import longest
        from volt.kernels.lattice import Paths, Trie, best_paths

        codes, ends = codes_of(words)
        shape = longest(ends) + 1, n
        paths = Paths(
            np.empty(shape[0], np.int64), np.empty(shape), *np.empty((2, *shape), np.int32)
        )
        n_paths, cuts = np.empty(len(words), np.int64), np.empty(n * len(codes), np.int32)
        costs, sizes = np.empty(n * len(words)), np.empty(n * len(words), np.int64)
        trie = Trie(self.trie.steps, self.trie.pieces, self.costs, self.unknown)
        n_scored = best_paths(
            self.trie.symbol_of[codes], ends, trie, paths, n_paths, costs, sizes, cuts
        )
        scored, cut = (
            zip(costs[:n_scored].tolist(), sizes[:n_scored].tolist(), strict=True),
            iter(cuts.tolist()),
        )

        def pieces_of(word: str, n_pieces: int) -> tuple[str, ...]:
            starts = list(islice(cut, n_pieces))[::-1]  # the last piece comes first
            return tuple(
                word[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)
            )

        return [
            [Scored(pieces_of(word, n_pieces), -cost) for cost, n_pieces in islice(scored, size)]
            for word, size in zip(words, n_paths.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Morfessor(Segmenter):
    model: Any

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        nbest = (self.model.viterbi_nbest(word, n, 0, _LONGEST) for word in words)
        scored = [[Scored(tuple(pieces), -cost) for pieces, cost in result] for result in nbest]
        return [sorted(result, key=lambda one: -one.score) for result in scored]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentTable(Segmenter):
    segmentations: Mapping[str, str]

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        result = map(self.segmentations.get, words)
        return [
            [] if pieces is None else [Scored(tuple(pieces.split(" ")), 0.0)] for pieces in result
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Marked(Segmenter):
    """A segmenter that puts the marker ▁ before words: if `first`, before it splits them, else afterwards."""

    segmenter: Segmenter
    first: bool

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        if self.first:
            return self.segmenter.best([SPACE + word for word in words], n)
        result = self.segmenter.best(words, n)
        return [
            [Scored((SPACE + one.pieces[0], *one.pieces[1:]), one.score) for one in scored]
            for scored in result
        ]

    def characters(self, word: str) -> tuple[str, ...]:
        return self.segmenter.characters(SPACE + word)


def read_model(path: Path) -> Segmenter:
    """Read a lexicon, or a Morfessor model (a file without tabs). Raises VocabularyError, with the line."""
    data = read_bytes(path, kind=VocabularyError)
    if data.startswith(_PICKLE):
        message = "a pickle, which could run any code; write the model as text: morfessor -l MODEL -S MODEL.txt"
        raise VocabularyError(f"{shown_path(path)}: {message}")
    lines = _lines_of(path, data, needs="`count<TAB>subword` or `count morph + morph …`")
    fingerprint = blake2b(data, digest_size=8).hexdigest()
    if not any("\t" in line for _, line in lines[:100]):
        model = _morfessor(path, lines)
        marks = _has_marks(morph for morph, _ in model.get_constructions())
        return Morfessor(model, fingerprint=fingerprint, has_marks=marks)
    if counts := _counts_of(path, lines):
        return UnigramLexicon.of(counts, fingerprint=fingerprint)
    raise VocabularyError(f"{shown_path(path)}: no subword has a count above 0; check the path")


def read_table(path: Path) -> SegmentTable:
    data = read_bytes(path, kind=VocabularyError)
    result, places = dict[str, str](), dict[str, int]()
    for number, line in _lines_of(path, data, needs="`word<TAB>subword subword …`"):
        word, tab, rest = line.partition("\t")
        pieces = [piece for piece in rest.split(" ") if piece]
        if not tab or not pieces or not word or " " in word or "\t" in rest:
            raise _fault(
                path, number, f"{quoted(line)} is not `word<TAB>subword subword …`; fix the line"
            )
        if word in places:
            raise _fault(
                path, number, f"the word {quoted(word)} repeats line {places[word]}; remove one"
            )
        if not _spells(pieces, word):
            message = f"the pieces {quoted(' '.join(pieces))} do not spell the word {quoted(word)}"
            raise _fault(path, number, f"{message}; give pieces that spell the word when joined")
        result[word], places[word] = " ".join(pieces), number
    return SegmentTable(
        result, fingerprint=blake2b(data, digest_size=8).hexdigest(), has_marks=_has_marks(result)
    )


def _has_marks(texts: Iterable[str]) -> bool:
    return any(text.startswith(SPACE) for text in texts)


def _spells(pieces: Sequence[str], word: str) -> bool:
    """Check whether joined pieces spell a word, apart from marks: ▁ before it, </w> after it, @@ or ￭ between.

    >>> _spells(["▁lo", "w"], "low"), _spells(["lo@@", "w</w>"], "low"), _spells(["lo", "▁w"], "low")
    (True, True, False)
    """
    if (joined := "".join(pieces)) == word:
        return True
    return _bare(word) in (_bare(joined), _bare(_JOINT.sub("", " ".join(pieces)).replace(" ", "")))


def _bare(word: str) -> str:
    return word.removeprefix(SPACE).removesuffix(SUFFIX)


def _lines_of(path: Path, data: bytes, *, needs: str) -> list[tuple[int, str]]:
    text = decoded(path, data, kind=VocabularyError)
    lines = enumerate(
        (line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")), 1
    )
    result = [(number, line) for number, line in lines if line]
    if not result:
        raise VocabularyError(f"{shown_path(path)}: the file is empty; give one with lines {needs}")
    return result


def _counts_of(path: Path, lines: Sequence[tuple[int, str]]) -> dict[str, float]:
    counts, places = dict[str, float](), dict[str, int]()
    for number, line in lines:
        first, _, piece = line.partition("\t")
        try:
            count = float(first)
        except ValueError:
            count = -1.0
        if not 0 <= count < math.inf or not piece or " " in piece or "\t" in piece:
            raise _fault(path, number, f"{quoted(line)} is not `count<TAB>subword`; fix the line")
        if count > _MOST:
            raise _fault(
                path,
                number,
                f"the count {quoted(first)} is above {_MOST:g}; divide all counts by a number",
            )
        if piece in places:
            raise _fault(
                path,
                number,
                f"the subword {quoted(piece)} repeats line {places[piece]}; remove one",
            )
        places[piece] = number
        if count:
            counts[piece] = count
    return counts


def _morfessor(path: Path, lines: Sequence[tuple[int, str]]) -> Any:
    try:
        from morfessor import BaselineModel
    except ImportError:
        raise missing("morfessor", extra="morfessor") from None
    rows = list[tuple[int, str, tuple[str, ...]]]()
    for number, line in lines:
        if line.startswith("#"):
            continue
        count, _, analysis = line.strip(" ").partition(" ")
        morphs = tuple(analysis.split(" + "))
        if not count.isdecimal() or len(count) > _MOST_DIGITS or not int(count) or not all(morphs):
            raise _fault(
                path,
                number,
                f"{quoted(line)} is neither `count morph + morph …` nor `count<TAB>subword`",
            )
        rows.append((int(count), "".join(morphs), morphs))
    if not rows:
        raise VocabularyError(f"{shown_path(path)}: no segmentations; check the path")
    model = BaselineModel()
    model.load_segmentations(rows)
    return model


def _fault(path: Path, number: int, message: str) -> VocabularyError:
    return VocabularyError(f"{shown_path(path)}:{number}: {message}")
