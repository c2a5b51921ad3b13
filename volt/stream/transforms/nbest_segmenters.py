"""Read files that tell how to split words. A segmenter returns a word's n best segmentations.

    lexicon           `count<TAB>subword` lines of Morfessor EM+Prune; P(pieces) = Π count / total
    Morfessor model   `count morph + morph …` lines, which the package `morfessor` reads
    table             `word<TAB>subword subword …` lines: one segmentation for each word

With the lexicon low 2, lo 1, w 1, the word "low" has the segmentations (low), with the score
log 2/4, and (lo, w), with the score log 1/16.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from volt.array_types import Bytes, Ints, Longs
from volt.errors import VocabularyError, missing, quoted, shown_path
from volt.files.small_files import decode_text, read_bytes
from volt.stream.transforms.column import longs
from volt.stream.transforms.transform import fingerprint_of
from volt.text.atoms import SPACE, SUFFIX

if TYPE_CHECKING:
    from volt.kernels.trie import Trie

_N_CODE_POINTS = 0x110000
_UNKNOWN_PENALTY = 10.0  # an unknown character costs this much more than the rarest subword
_MOST_COUNT = 1e300  # so that sums of counts are finite
_MOST_DIGITS = 300  # of a whole number, for the same reason
_MAX_MORPH = 30  # characters; the default of the package's own commands
_N_CHECKED_LINES = 100  # a lexicon has a tab in one of its first lines; a Morfessor model has not
_PICKLE_START = b"\x80"
_SPLIT_MARKERS = re.compile("(@@|￭) | ￭")  # subword-nmt and OpenNMT mark where a word is split
_COUNT_LINE = "`count<TAB>subword`"
_MORFESSOR_LINE = "`count morph + morph …`"
_TABLE_LINE = "`word<TAB>subword subword …`"

NumberedLines = Sequence[tuple[int, str]]  # line number, from 1, and line


class Segmentation(NamedTuple):
    """The pieces of a word. score: the logarithm of a probability, or of a number in proportion"""

    pieces: tuple[str, ...]
    score: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Segmenter:
    """A way to split words.

    fingerprint: a digest of the file
    has_marker: whether a subword or word of the file starts with the marker ▁
    """

    fingerprint: str = ""
    has_marker: bool = False

    def best(self, words: Sequence[str], n: int) -> list[list[Segmentation]]:
        """Return at most n segmentations of each word, the best first; none for an unknown word."""
        raise NotImplementedError

    def characters(self, word: str) -> tuple[str, ...]:
        """Return the segmentation of a word into characters."""
        return tuple(word)


@dataclass(frozen=True, eq=False, kw_only=True)
class LexiconSegmenter(Segmenter):
    """A unigram model. Between segmentations of equal score, the last pieces that differ decide:
    the longer one comes first.

    trie: the subwords, with their costs, −log(count / total)
    """

    trie: Trie

    @classmethod
    def from_counts(cls, counts: Mapping[str, float], *, fingerprint: str = "") -> Self:
        from volt.kernels.trie import trie_of

        total = math.fsum(counts.values())
        costs = math.log(total) - np.log(np.fromiter(counts.values(), float))
        unknown_cost = float(costs.max()) + _UNKNOWN_PENALTY
        trie = trie_of(list(counts), costs, unknown_cost)
        return cls(trie=trie, fingerprint=fingerprint, has_marker=_has_marker(counts))

    def best(self, words: Sequence[str], n: int) -> list[list[Segmentation]]:
        from volt.kernels.apply_bpe import longest
        from volt.kernels.best_paths import find_best_paths, paths_of

        data, word_ends = _encode_words(words)
        memory = paths_of(longest(word_ends), n)
        n_paths = longs(len(words))
        costs = np.empty(n * len(words))
        n_pieces = longs(n * len(words))
        piece_starts = np.empty(n * len(data), np.int32)
        text = np.empty(longest(word_ends) + 8, np.uint8)
        find_best_paths(
            data, word_ends, self.trie, text, memory, n_paths, costs, n_pieces, piece_starts
        )

        next_starts = iter(
            piece_starts.tolist()
        )  # a path's starts, from its last piece to its first
        paths = zip(costs.tolist(), n_pieces.tolist(), strict=True)
        result = list[list[Segmentation]]()
        for word, n_paths_of_word in zip(words, n_paths.tolist(), strict=True):
            spelled = word.replace(SPACE, " ").encode("utf-8", "surrogatepass")
            segmentations = list[Segmentation]()
            for cost, n_pieces_of_path in islice(paths, n_paths_of_word):
                starts_from_last = list(islice(next_starts, n_pieces_of_path))
                bounds = [*reversed(starts_from_last), len(spelled)]
                parts = (spelled[start:end] for start, end in pairwise(bounds))
                pieces = (part.decode("utf-8", "surrogatepass") for part in parts)
                marked = tuple(piece.replace(" ", SPACE) for piece in pieces)
                segmentations.append(Segmentation(marked, -cost))
            result.append(segmentations)
        return result


@dataclass(frozen=True, eq=False, kw_only=True)
class MorfessorSegmenter(Segmenter):
    """model: a `BaselineModel` of the package `morfessor`"""

    model: Any

    def best(self, words: Sequence[str], n: int) -> list[list[Segmentation]]:
        result = list[list[Segmentation]]()
        for word in words:
            paths = self.model.viterbi_nbest(word, n, 0, _MAX_MORPH)
            result.append(
                sort_by_score(Segmentation(tuple(pieces), -cost) for pieces, cost in paths)
            )
        return result


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSegmenter(Segmenter):
    """table: word → its pieces, separated by spaces"""

    table: Mapping[str, str]

    def best(self, words: Sequence[str], n: int) -> list[list[Segmentation]]:
        result = list[list[Segmentation]]()
        for word in words:
            pieces = self.table.get(word)
            result.append([Segmentation(tuple(pieces.split(" ")), 0.0)] if pieces else [])
        return result


@dataclass(frozen=True, eq=False, kw_only=True)
class MarkingSegmenter(Segmenter):
    """Put the marker ▁ before each word.

    segmenter: splits the word
    before_split: whether `segmenter` gets the word with ▁; otherwise, its first piece gets the ▁
    """

    segmenter: Segmenter
    before_split: bool

    def best(self, words: Sequence[str], n: int) -> list[list[Segmentation]]:
        if self.before_split:
            return self.segmenter.best([SPACE + word for word in words], n)
        result = list[list[Segmentation]]()
        for segmentations in self.segmenter.best(words, n):
            marked = list[Segmentation]()
            for (first, *others), score in segmentations:
                marked.append(Segmentation((SPACE + first, *others), score))
            result.append(marked)
        return result

    def characters(self, word: str) -> tuple[str, ...]:
        return self.segmenter.characters(SPACE + word)


def sort_by_score(segmentations: Iterable[Segmentation]) -> list[Segmentation]:
    return sorted(segmentations, key=lambda segmentation: -segmentation.score)


def read_model(path: Path) -> Segmenter:
    """Read a lexicon, or a Morfessor model, which is a file without tabs.

    Raises VocabularyError with the number of an invalid line.
    """
    data = read_bytes(path, kind=VocabularyError)
    if data.startswith(_PICKLE_START):
        raise VocabularyError(
            f"{shown_path(path)}: a pickle, which could run any code; write the model as text: "
            "morfessor -l MODEL -S MODEL.txt"
        )
    lines = _number_lines(path, data, needs=f"{_COUNT_LINE} or {_MORFESSOR_LINE}")
    fingerprint = fingerprint_of(data)
    if any("\t" in line for _, line in lines[:_N_CHECKED_LINES]):
        counts = _read_counts(path, lines)
        return LexiconSegmenter.from_counts(counts, fingerprint=fingerprint)

    model = _read_morfessor_model(path, lines)
    has_marker = _has_marker(morph for morph, _ in model.get_constructions())
    return MorfessorSegmenter(model=model, fingerprint=fingerprint, has_marker=has_marker)


def _read_counts(path: Path, lines: NumberedLines) -> dict[str, float]:
    counts = dict[str, float]()
    line_numbers = dict[str, int]()
    for line_number, line in lines:
        number, _, subword = line.partition("\t")
        try:
            count = float(number)
        except ValueError:
            count = -1.0
        if not 0 <= count < math.inf or not subword or " " in subword or "\t" in subword:
            fault = f"{quoted(line)} is not {_COUNT_LINE}; fix the line"
            raise _line_error(path, line_number, fault)
        if count > _MOST_COUNT:
            fault = f"the count {quoted(number)} is above {_MOST_COUNT:g}"
            raise _line_error(path, line_number, f"{fault}; divide all counts by a number")
        _refuse_repeat(path, line_number, "subword", subword, line_numbers)
        if count:
            counts[subword] = count
    if not counts:
        raise VocabularyError(f"{shown_path(path)}: no subword has a count above 0; check the path")
    return counts


def _read_morfessor_model(path: Path, lines: NumberedLines) -> Any:
    try:
        from morfessor import BaselineModel
    except ImportError:
        raise missing("morfessor", extra="morfessor") from None
    rows = list[tuple[int, str, tuple[str, ...]]]()
    for line_number, line in lines:
        if line.startswith("#"):
            continue
        count, _, analysis = line.strip(" ").partition(" ")
        morphs = tuple(analysis.split(" + "))
        if not count.isdecimal() or len(count) > _MOST_DIGITS or not int(count) or not all(morphs):
            fault = f"{quoted(line)} is neither {_MORFESSOR_LINE} nor {_COUNT_LINE}; fix the line"
            raise _line_error(path, line_number, fault)
        rows.append((int(count), "".join(morphs), morphs))
    if not rows:
        raise VocabularyError(f"{shown_path(path)}: no segmentations; check the path")
    model = BaselineModel()
    model.load_segmentations(rows)
    return model


def read_table(path: Path) -> Segmenter:
    """Read a table of words and their pieces.

    Raises VocabularyError with the number of an invalid line.
    """
    data = read_bytes(path, kind=VocabularyError)
    table = dict[str, str]()
    line_numbers = dict[str, int]()
    for line_number, line in _number_lines(path, data, needs=_TABLE_LINE):
        word, _, rest = line.partition("\t")
        pieces = [piece for piece in rest.split(" ") if piece]
        if not pieces or not word or " " in word or "\t" in rest:
            fault = f"{quoted(line)} is not {_TABLE_LINE}; fix the line"
            raise _line_error(path, line_number, fault)
        _refuse_repeat(path, line_number, "word", word, line_numbers)
        table[word] = " ".join(pieces)
        if not _spells(pieces, word):
            fault = f"the pieces {quoted(table[word])} do not spell the word {quoted(word)}"
            remedy = "give pieces that spell the word when joined"
            raise _line_error(path, line_number, f"{fault}; {remedy}")
    has_marker = _has_marker(table)
    return TableSegmenter(table=table, fingerprint=fingerprint_of(data), has_marker=has_marker)


def _spells(pieces: Sequence[str], word: str) -> bool:
    """Check whether joined pieces spell a word, apart from the markers ▁ before it, </w> after it,
    and @@ or ￭ between its pieces.

    >>> _spells(["▁lo", "w"], "low"), _spells(["lo@@", "w</w>"], "low"), _spells(["lo", "▁w"], "low")
    (True, True, False)
    """
    joined = "".join(pieces)
    without_split_markers = _SPLIT_MARKERS.sub("", " ".join(pieces)).replace(" ", "")
    spellings = (_strip_markers(joined), _strip_markers(without_split_markers))
    return joined == word or _strip_markers(word) in spellings


def _strip_markers(word: str) -> str:
    return word.removeprefix(SPACE).removesuffix(SUFFIX)


def _has_marker(texts: Iterable[str]) -> bool:
    return any(text.startswith(SPACE) for text in texts)


def _number_lines(path: Path, data: bytes, *, needs: str) -> NumberedLines:
    """Return the lines that are not empty, with their numbers. needs: the format of a line"""
    text = decode_text(path, data, kind=VocabularyError).removeprefix("\ufeff")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    result = [(line_number, line) for line_number, line in enumerate(lines, 1) if line]
    if not result:
        raise VocabularyError(f"{shown_path(path)}: the file is empty; give one with lines {needs}")
    return result


def _refuse_repeat(
    path: Path, line_number: int, kind: str, word: str, line_numbers: dict[str, int]
) -> None:
    first = line_numbers.setdefault(word, line_number)
    if first != line_number:
        fault = f"the {kind} {quoted(word)} repeats line {first}; remove one"
        raise _line_error(path, line_number, fault)


def _line_error(path: Path, line_number: int, fault: str) -> VocabularyError:
    return VocabularyError(f"{shown_path(path)}:{line_number}: {fault}")


def _encode_words(words: Sequence[str]) -> tuple[Bytes, Longs]:
    """Return all words as UTF-8, and where each ends."""
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum(list(map(len, encoded)))


def map_code_points(symbols: Mapping[str, int]) -> Ints:
    """Return the symbol of each code point, (1,114,112,) int32.

    symbols: text → its symbol; only texts of one character count
    """
    result = -1 - np.arange(_N_CODE_POINTS, dtype=np.int32)
    for text, symbol in symbols.items():
        if len(text) == 1:
            result[ord(text)] = symbol
    return result


def join_code_points(texts: Sequence[str]) -> tuple[Ints, Longs]:
    """Return the code points of all texts, text after text, and (n_texts,) where each text ends."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return codes, np.cumsum(sizes)


def check_table_size(n_rows: int) -> None:
    """Raise VocabularyError if a model needs more rows than a table of pairs can hold."""
    from volt.kernels.bpe_tables import MOST

    if n_rows > MOST:
        raise VocabularyError(
            f"its table would have {n_rows:,} rows, and the limit is {MOST:,}; use a smaller model"
        )
