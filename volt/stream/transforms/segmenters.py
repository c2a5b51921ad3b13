"""Segmenters: a word → its best segmentations, each with the logarithm of a score.

    UnigramLexicon    `count<TAB>subword`, the lexicon of Morfessor EM+Prune: score = Π count / total
    Morfessor         a model of the package `morfessor`, as text
    SegmentTable      `word<TAB>subword subword …`: one segmentation, and none for a word that is missing

Compiled loops read characters as symbols, and pieces from a trie of symbols. The segmenters of vocabularies and
SentencePiece models are in volt.stream.transforms.taboo.

>>> lexicon = UnigramLexicon.of({"lo": 2.0, "w": 2.0, "l": 1.0, "o": 1.0})
>>> [" ".join(found.pieces) for found in lexicon.best(["low"], 5)[0]]
['lo w', 'l o w']
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from volt.errors import VocabularyError, missing, quoted, shown_path
from volt.files.small_files import decoded, read_bytes
from volt.text.characters import SPACE, SUFFIX

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
_N_CODES = 0x110000


class PieceTrie(NamedTuple):
    """Texts by their characters.

    symbol_of: (n_codes,) int32, code point → symbol, or −1 − code
    steps: as in volt.kernels.bpe_tables: a state and a symbol → the next state − 1; the first state is 0
    pieces: (n_states,) int32, the number of the text that a state spells, or −1
    """

    symbol_of: Ints
    steps: NDArray[np.uint64]
    pieces: Ints


def trie_of(numbers: Mapping[str, int]) -> PieceTrie:
    """Return the trie of texts, by their numbers. Raises VocabularyError if there are too many.

    numbers: text, not empty → its number
    """
    from volt.kernels.bpe_tables import ranked_merges

    symbols = {character: place for place, character in enumerate(sorted(set(chain.from_iterable(numbers))))}
    steps, pieces = dict[tuple[int, int], int](), [-1]
    for text, number in numbers.items():
        state = 0
        for character in text:
            state = steps.setdefault((state, symbols[character]), len(pieces))
            pieces += [-1] * (state == len(pieces))
        pieces[state] = number
    check_size(len(steps))
    rows = np.array(list(steps), np.int32).reshape(-1, 2)
    table = ranked_merges(rows[:, 0], rows[:, 1], np.arange(len(rows)))
    return PieceTrie(symbols_of(symbols), table.pairs, np.array(pieces, np.int32))


def symbols_of(symbols: Mapping[str, int]) -> Ints:
    """Return the symbol of every code point: the number of these characters, or −1 − code.

    >>> symbols_of({"a": 5})[96:98].tolist()
    [-97, 5]
    """
    result = -1 - np.arange(_N_CODES, dtype=np.int32)
    single = {ord(text): number for text, number in symbols.items() if len(text) == 1}
    result[list(single)] = list(single.values())
    return result


def codes_of(texts: Sequence[str]) -> tuple[Ints, Longs]:
    """Return the code points of texts, and where each text's end."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32)
    return codes, np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))


def check_size(n_rows: int) -> None:
    """Raise VocabularyError if a table of pairs cannot have so many rows.

    >>> check_size(1000)
    """
    from volt.kernels.bpe_tables import MOST

    if n_rows > MOST:
        raise VocabularyError(f"the model's pieces have {n_rows:,} parts; sampling takes {MOST:,} at most")


_UNKNOWN_PENALTY = 10.0  # what the logarithm of an unknown character's score is below the least of the lexicon
_MOST = 1e300  # of a count, so that sums of counts are numbers
_MOST_DIGITS = 300  # of a count that is a whole number
_PICKLE = b"\x80"  # the first byte
_JOINT = re.compile("(@@|￭) | ￭")  # how subword-nmt and OpenNMT mark where a word was cut
_LONGEST = 30  # characters of a morph, as the package's own commands have it by default


class Scored(NamedTuple):
    """A segmentation of a word.

    pieces: which make the word
    score: a logarithm
    """

    pieces: tuple[str, ...]
    score: float


class Segmenter(Protocol):
    """Gives the segmentations of words. Equal fingerprints give equal segmentations."""

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the inner segmenter."""

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        """Return the n best segmentations of each word, best first; fewer where there are not so many.

        words: not empty, without spaces
        """

    def characters(self, word: str) -> tuple[str, ...]:
        """Return the segmentation of a word into its characters."""


@dataclass(frozen=True, slots=True, eq=False)
class UnigramLexicon:
    """Pieces that occur independently: a segmentation's score is the product of their probabilities.

    pieces: with their numbers
    costs: (n_pieces,) float64, of each piece, −log of its probability
    unknown: the cost of a character that is not a piece
    trie: of the pieces
    """

    pieces: Mapping[str, int]
    costs: NDArray[np.float64]
    unknown: float
    trie: PieceTrie
    fingerprint: str = ""

    @classmethod
    def of(cls, counts: Mapping[str, float], *, fingerprint: str = "") -> UnigramLexicon:
        """Return the lexicon with these counts, of which none is 0. Raises VocabularyError if there are too many
        pieces.

        >>> UnigramLexicon.of({"a": 1.0, "b": 3.0}).costs.round(3).tolist()
        [1.386, 0.288]
        """
        costs = math.log(math.fsum(counts.values())) - np.log(np.fromiter(counts.values(), float))
        numbers = {piece: number for number, piece in enumerate(counts)}
        return cls(numbers, costs, float(costs.max()) + _UNKNOWN_PENALTY, trie_of(numbers), fingerprint)

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        """Return the n best segmentations of each word, of equal ones first that whose last different piece is
        longer.
        """
        from volt.kernels.apply_bpe import longest
        from volt.kernels.lattice import Paths, Trie, best_paths

        codes, ends = codes_of(words)
        shape = longest(ends) + 1, n
        paths = Paths(
            np.empty(shape[0], np.int64), np.empty(shape), np.empty(shape, np.int32), np.empty(shape, np.int32)
        )
        n_paths, cuts = np.empty(len(words), np.int64), np.empty(n * len(codes), np.int32)
        costs, sizes = np.empty(n * len(words)), np.empty(n * len(words), np.int64)
        trie = Trie(self.trie.steps, self.trie.pieces, self.costs, self.unknown)
        n_found = best_paths(self.trie.symbol_of[codes], ends, trie, paths, n_paths, costs, sizes, cuts)
        result = zip(costs[:n_found].tolist(), _spans(sizes[:n_found], cuts), strict=True)
        return [
            [Scored(_pieces(word, starts), -cost) for cost, starts in islice(result, size)]
            for word, size in zip(words, n_paths.tolist(), strict=True)
        ]

    @property
    def has_marks(self) -> bool:
        """True if a piece starts with the marker."""
        return any(piece.startswith(SPACE) for piece in self.pieces)

    def characters(self, word: str) -> tuple[str, ...]:
        """Return the characters, the marker being one of them."""
        return tuple(word)


def _spans(sizes: NDArray[np.int64], values: NDArray[np.int32]) -> Iterator[list[int]]:
    taken = iter(values.tolist())
    return (list(islice(taken, size)) for size in sizes.tolist())


def _pieces(word: str, starts: list[int]) -> tuple[str, ...]:
    """Return the pieces of a word. starts: where each starts, the last first"""
    starts.reverse()
    return tuple([word[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)])


@dataclass(frozen=True, slots=True, eq=False)
class Morfessor:
    """A model of the package `morfessor`, which finds the segmentations.

    model: its BaselineModel
    """

    model: Any
    fingerprint: str = ""

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        """Return the n best segmentations of each word, as `viterbi_nbest` finds them without smoothing."""
        return [self._of_word(word, n) for word in words]

    @property
    def has_marks(self) -> bool:
        """True if a morph starts with the marker."""
        return any(morph.startswith(SPACE) for morph, _ in self.model.get_constructions())

    def _of_word(self, word: str, n: int) -> list[Scored]:
        result = [Scored(tuple(pieces), -cost) for pieces, cost in self.model.viterbi_nbest(word, n, 0, _LONGEST)]
        return sorted(result, key=lambda one: -one.score)

    def characters(self, word: str) -> tuple[str, ...]:
        """Return the characters."""
        return tuple(word)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentTable:
    """One segmentation for each of some words.

    segmentations: word → pieces with a space between two
    """

    segmentations: Mapping[str, str]
    fingerprint: str = ""

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        """Return the segmentation of each word; none of one that is not in the table."""
        result = map(self.segmentations.get, words)
        return [[] if pieces is None else [Scored(tuple(pieces.split(" ")), 0.0)] for pieces in result]

    @property
    def has_marks(self) -> bool:
        """True if a word starts with the marker."""
        return any(word.startswith(SPACE) for word in self.segmentations)

    def characters(self, word: str) -> tuple[str, ...]:
        """Return the characters."""
        return tuple(word)


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """Another segmenter, for words that lack the marker ▁, which it puts before each.

    segmenter: the other
    first: whether the marker is put before the word, which is then cut; otherwise before the first piece

    >>> Marked(UnigramLexicon.of({"a": 1.0, "ab": 9.0}), first=False).best(["ab"], 1)[0][0].pieces
    ('▁ab',)
    """

    segmenter: Segmenter
    first: bool

    @property
    def fingerprint(self) -> str:
        """The other's."""
        return self.segmenter.fingerprint

    def best(self, words: Sequence[str], n: int) -> list[list[Scored]]:
        """Return the segmentations of each word with a marker."""
        if self.first:
            return self.segmenter.best([SPACE + word for word in words], n)
        result = self.segmenter.best(words, n)
        return [[Scored((SPACE + one.pieces[0], *one.pieces[1:]), one.score) for one in scored] for scored in result]

    def characters(self, word: str) -> tuple[str, ...]:
        """Return the characters, the marker before them."""
        return self.segmenter.characters(SPACE + word)


def read_model(path: Path) -> Segmenter:
    """Return a lexicon of Morfessor EM+Prune, or a model of Morfessor as text, which the tab distinguishes.

    Raises VocabularyError, with the line, if it is neither, MissingLibraryError if the package `morfessor` is missing.
    """
    data = read_bytes(path, kind=VocabularyError)
    if data.startswith(_PICKLE):
        raise VocabularyError(
            f"{shown_path(path)}: a pickle, which may run any code when it is read; write the model as text: "
            "morfessor -l MODEL -S MODEL.txt"
        )
    lines = _lines_of(path, data, needs="`count<TAB>subword` or `count morph + morph …`")
    fingerprint = blake2b(data, digest_size=8).hexdigest()
    if not any("\t" in line for _, line in lines[:100]):
        return Morfessor(_morfessor(path, lines), fingerprint)
    if counts := _counts_of(path, lines):
        return UnigramLexicon.of(counts, fingerprint=fingerprint)
    raise VocabularyError(f"{shown_path(path)}: no subword has a count above 0; check the path")


def read_table(path: Path) -> SegmentTable:
    """Return a table of segmentations. Raises VocabularyError, with the line, for a line that is not valid.

    The pieces of a word spell it, but for marks: others could not be joined to the text again.
    """
    data = read_bytes(path, kind=VocabularyError)
    result, places = dict[str, str](), dict[str, int]()
    for number, line in _lines_of(path, data, needs="`word<TAB>subword subword …`"):
        word, tab, rest = line.partition("\t")
        pieces = [piece for piece in rest.split(" ") if piece]
        if not tab or not pieces or not word or " " in word or "\t" in rest:
            raise _fault(path, number, f"{quoted(line)} is not `word<TAB>subword subword …`; fix the line")
        if word in places:
            raise _fault(path, number, f"the word {quoted(word)} repeats line {places[word]}; remove one")
        if not _spells(pieces, word):
            message = f"the pieces {quoted(' '.join(pieces))} do not spell the word {quoted(word)}"
            raise _fault(path, number, f"{message}; give pieces that make it when they are joined")
        result[word], places[word] = " ".join(pieces), number
    return SegmentTable(result, blake2b(data, digest_size=8).hexdigest())


def _spells(pieces: Sequence[str], word: str) -> bool:
    """Check whether joined pieces spell a word, but for marks: ▁ before it, </w> after it, @@ or ￭
    between.

    >>> _spells(["▁lo", "w"], "low"), _spells(["lo@@", "w</w>"], "low"), _spells(["lo", "￭w"], "low")
    (True, True, True)
    >>> _spells(["l", "w"], "low"), _spells(["lo", "▁w"], "low")
    (False, False)
    """
    if (joined := "".join(pieces)) == word:
        return True
    return _bare(word) in (_bare(joined), _bare(_JOINT.sub("", " ".join(pieces)).replace(" ", "")))


def _bare(word: str) -> str:
    return word.removeprefix(SPACE).removesuffix(SUFFIX)


def _lines_of(path: Path, data: bytes, *, needs: str) -> list[tuple[int, str]]:
    """Return the lines that are not empty, with their numbers, from 1. Raises VocabularyError if there are none.

    needs: what there should be
    """
    text = decoded(path, data, kind=VocabularyError)
    lines = enumerate((line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")), 1)
    result = [(number, line) for number, line in lines if line]
    if not result:
        raise VocabularyError(f"{shown_path(path)}: the file is empty; give one with lines {needs}")
    return result


def _counts_of(path: Path, lines: Sequence[tuple[int, str]]) -> dict[str, float]:
    """Return the counts of pieces; a count of 0 is as if the line were not there."""
    counts, places = dict[str, float](), dict[str, int]()
    for number, line in lines:
        first, _, piece = line.partition("\t")
        count = _count(first)
        if count is None or not piece or " " in piece or "\t" in piece:
            raise _fault(path, number, f"{quoted(line)} is not `count<TAB>subword`; fix the line")
        if count > _MOST:
            raise _fault(path, number, f"the count {quoted(first)} is above {_MOST:g}; divide all counts by a number")
        if piece in places:
            raise _fault(path, number, f"the subword {quoted(piece)} repeats line {places[piece]}; remove one")
        places[piece] = number
        if count:
            counts[piece] = count
    return counts


def _count(text: str) -> float | None:
    """Return a number from 0 up; None if the text is not one."""
    try:
        count = float(text)
    except ValueError:
        return None
    return count if 0 <= count < math.inf else None


def _morfessor(path: Path, lines: Sequence[tuple[int, str]]) -> Any:
    """Return a model of the package, of lines `count morph + morph + …`."""
    try:
        from morfessor import BaselineModel
    except ImportError:
        raise missing("morfessor", extra="morfessor") from None
    model = BaselineModel()
    rows = [_row(path, number, line) for number, line in lines if not line.startswith("#")]
    if not rows:
        raise VocabularyError(f"{shown_path(path)}: no segmentations; check the path")
    model.load_segmentations(rows)
    return model


def _row(path: Path, number: int, line: str) -> tuple[int, str, tuple[str, ...]]:
    count, _, analysis = line.strip(" ").partition(" ")
    morphs = tuple(analysis.split(" + "))
    if not count.isdecimal() or len(count) > _MOST_DIGITS or not int(count) or not all(morphs):
        raise _fault(path, number, f"{quoted(line)} is neither `count morph + morph …` nor `count<TAB>subword`")
    return int(count), "".join(morphs), morphs


def _fault(path: Path, number: int, what: str) -> VocabularyError:
    return VocabularyError(f"{shown_path(path)}:{number}: {what}")
