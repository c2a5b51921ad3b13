"""Segmenters: a word → its best segmentations, each with the logarithm of a score.

lexicon           `count<TAB>subword`, the lexicon of Morfessor EM+Prune: score = Π count / total
Morfessor model   a model of the package `morfessor`, as text
table             `word<TAB>subword subword …`: one segmentation for each word
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.errors import VocabularyError, missing, quoted, shown_path
from volt.files.small_files import decoded, read_bytes
from volt.stream.transforms.column import Ints, Longs, longs
from volt.text.atoms import SPACE, SUFFIX

if TYPE_CHECKING:
    from volt.kernels.lattice import Trie

_N_CODES = 0x110000
# The log score of an unknown character: this much below the least of the lexicon
_UNKNOWN_PENALTY = 10.0
_MOST = 1e300  # maximum count, so that sums of counts are finite
_MOST_DIGITS = 300  # maximum number of digits of a count that is a whole number
_PICKLE = b"\x80"  # the first byte of a pickle
_JOINT = re.compile("(@@|￭) | ￭")  # marks of subword-nmt and OpenNMT where a word was split
_LONGEST = 30  # maximum number of characters of a morph, the default of the package's own commands


class Scored(NamedTuple):
    pieces: tuple[str, ...]
    score: float


Best = Callable[[Sequence[str], int], list[list[Scored]]]


@dataclass(frozen=True, slots=True, eq=False)
class Segmenter:
    """A way to split words.

    best: a function (words, n) → the n best segmentations of each word, best first; none if the
        word is unknown
    has_marks: whether a piece or word starts with the marker ▁
    characters: a function from a word to its characters, with markers, as pieces
    """

    best: Best
    fingerprint: str = ""
    has_marks: bool = False
    characters: Callable[[str], tuple[str, ...]] = tuple


def trie_of(
    numbers: Mapping[str, int], scores: NDArray[np.float64], unknown: float
) -> tuple[Ints, Trie]:
    """Return the symbol of each code point, −1 − code point if no piece contains it, and a trie
    over symbols.

    numbers: piece → its number, which is the index of its score
    """
    from volt.kernels.bpe_tables import ranked_merges
    from volt.kernels.lattice import Trie

    characters = sorted(set(chain.from_iterable(numbers)))
    symbols = {character: number for number, character in enumerate(characters)}
    steps = dict[tuple[int, int], int]()  # state, symbol → next state
    pieces = [-1]  # of states
    for text, number in numbers.items():
        state = 0
        for character in text:
            state = steps.setdefault((state, symbols[character]), len(pieces))
            if state == len(pieces):
                pieces.append(-1)
        pieces[state] = number
    check_size(len(steps))

    rows = np.array(list(steps), np.int32).reshape(-1, 2)
    pairs = ranked_merges(rows[:, 0], rows[:, 1], np.arange(len(rows))).pairs
    return symbols_of(symbols), Trie(pairs, np.array(pieces, np.int32), scores, unknown)


def symbols_of(symbols: Mapping[str, int]) -> Ints:
    """Return the symbol of each code point, from the texts of one character; −1 − code point for
    others."""
    result = -1 - np.arange(_N_CODES, dtype=np.int32)
    for text, symbol in symbols.items():
        if len(text) == 1:
            result[ord(text)] = symbol
    return result


def codes_of(texts: Sequence[str]) -> tuple[Ints, Longs]:
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return codes, np.cumsum(sizes)


def check_size(n_rows: int) -> None:
    from volt.kernels.bpe_tables import MOST

    if n_rows > MOST:
        raise VocabularyError(
            f"its table would have {n_rows:,} rows, and the limit is {MOST:,}; use a smaller model"
        )


def lexicon_segmenter(counts: Mapping[str, float], *, fingerprint: str = "") -> Segmenter:
    """Return the segmenter of a unigram model. In a tie, the last pieces that differ decide: the
    longer one is first."""
    total = math.fsum(counts.values())
    costs = math.log(total) - np.log(np.fromiter(counts.values(), float))
    unknown = float(costs.max()) + _UNKNOWN_PENALTY
    numbers = {piece: number for number, piece in enumerate(counts)}
    best = partial(_best_of_lexicon, *trie_of(numbers, costs, unknown))
    return Segmenter(best, fingerprint, _has_marks(counts))


def _best_of_lexicon(
    symbol_of: Ints, trie: Trie, words: Sequence[str], n: int
) -> list[list[Scored]]:
    from volt.kernels.apply_bpe import longest
    from volt.kernels.lattice import Paths, best_paths

    codes, ends = codes_of(words)
    n_places = longest(ends) + 1
    starts, ranks = np.empty((2, n_places, n), np.int32)
    paths = Paths(longs(n_places), np.empty((n_places, n)), starts, ranks)
    n_paths = longs(len(words))
    costs = np.empty(n * len(words))
    sizes = longs(n * len(words))
    cuts = np.empty(n * len(codes), np.int32)
    best_paths(symbol_of[codes], ends, trie, paths, n_paths, costs, sizes, cuts)

    piece_starts = iter(cuts.tolist())
    all_paths = zip(costs.tolist(), sizes.tolist(), strict=True)
    result = list[list[Scored]]()
    for word, n_of_word in zip(words, n_paths.tolist(), strict=True):
        scored = list[Scored]()
        for cost, n_pieces in islice(all_paths, n_of_word):
            from_last = list(islice(piece_starts, n_pieces))
            bounds = [*reversed(from_last), len(word)]
            pieces = tuple(word[start:end] for start, end in pairwise(bounds))
            scored.append(Scored(pieces, -cost))
        result.append(scored)
    return result


def _best_of_morfessor(model: Any, words: Sequence[str], n: int) -> list[list[Scored]]:
    result = list[list[Scored]]()
    for word in words:
        nbest = model.viterbi_nbest(word, n, 0, _LONGEST)
        result.append(sorted_by_score(Scored(tuple(pieces), -cost) for pieces, cost in nbest))
    return result


def sorted_by_score(scored: Iterable[Scored]) -> list[Scored]:
    return sorted(scored, key=lambda each: -each.score)


def _best_of_table(table: Mapping[str, str], words: Sequence[str], n: int) -> list[list[Scored]]:
    result = list[list[Scored]]()
    for word in words:
        pieces = table.get(word)
        result.append([Scored(tuple(pieces.split(" ")), 0.0)] if pieces else [])
    return result


def marked(segmenter: Segmenter, *, first: bool) -> Segmenter:
    """Return a segmenter that puts the marker ▁ before words: if `first`, before it splits them,
    else afterwards."""
    best = partial(_best_of_marked if first else _mark_best, segmenter.best)
    return replace(segmenter, best=best, characters=partial(_marked_characters, segmenter))


def _best_of_marked(best: Best, words: Sequence[str], n: int) -> list[list[Scored]]:
    return best([SPACE + word for word in words], n)


def _mark_best(best: Best, words: Sequence[str], n: int) -> list[list[Scored]]:
    result = list[list[Scored]]()
    for scored in best(words, n):
        marked_scored = list[Scored]()
        for (first, *others), score in scored:
            marked_scored.append(Scored((SPACE + first, *others), score))
        result.append(marked_scored)
    return result


def _marked_characters(segmenter: Segmenter, word: str) -> tuple[str, ...]:
    return segmenter.characters(SPACE + word)


def read_model(path: Path) -> Segmenter:
    """Read a lexicon, or a Morfessor model (a file without tabs). Raises VocabularyError, with the
    line."""
    data = read_bytes(path, kind=VocabularyError)
    if data.startswith(_PICKLE):
        raise VocabularyError(
            f"{shown_path(path)}: a pickle, which could run any code; write the model as text: "
            "morfessor -l MODEL -S MODEL.txt"
        )
    lines = _lines_of(path, data, needs="`count<TAB>subword` or `count morph + morph …`")
    fingerprint = blake2b(data, digest_size=8).hexdigest()
    if not any("\t" in line for _, line in lines[:100]):
        model = _morfessor(path, lines)
        marks = _has_marks(morph for morph, _ in model.get_constructions())
        return Segmenter(partial(_best_of_morfessor, model), fingerprint, marks)

    counts = _counts_of(path, lines)
    if not counts:
        raise VocabularyError(f"{shown_path(path)}: no subword has a count above 0; check the path")
    return lexicon_segmenter(counts, fingerprint=fingerprint)


def read_table(path: Path) -> Segmenter:
    data = read_bytes(path, kind=VocabularyError)
    table = dict[str, str]()
    places = dict[str, int]()
    for number, line in _lines_of(path, data, needs="`word<TAB>subword subword …`"):
        word, tab, rest = line.partition("\t")
        pieces = [piece for piece in rest.split(" ") if piece]
        if not tab or not pieces or not word or " " in word or "\t" in rest:
            message = f"{quoted(line)} is not `word<TAB>subword subword …`; fix the line"
            raise _fault(path, number, message)
        if word in places:
            message = f"the word {quoted(word)} repeats line {places[word]}; remove one"
            raise _fault(path, number, message)
        spelled = " ".join(pieces)
        if not _spells(pieces, word):
            message = f"the pieces {quoted(spelled)} do not spell the word {quoted(word)}"
            raise _fault(path, number, f"{message}; give pieces that spell the word when joined")
        table[word] = spelled
        places[word] = number
    fingerprint = blake2b(data, digest_size=8).hexdigest()
    return Segmenter(partial(_best_of_table, table), fingerprint, _has_marks(table))


def _has_marks(texts: Iterable[str]) -> bool:
    return any(text.startswith(SPACE) for text in texts)


def _spells(pieces: Sequence[str], word: str) -> bool:
    """Check whether joined pieces spell a word, apart from marks: ▁ before it, </w> after it, @@ or
    ￭ between.

    >>> _spells(["▁lo", "w"], "low"), _spells(["lo@@", "w</w>"], "low"), _spells(["lo", "▁w"], "low")
    (True, True, False)
    """
    joined = "".join(pieces)
    without_joints = _JOINT.sub("", " ".join(pieces)).replace(" ", "")
    return joined == word or _bare(word) in (_bare(joined), _bare(without_joints))


def _bare(word: str) -> str:
    return word.removeprefix(SPACE).removesuffix(SUFFIX)


def _lines_of(path: Path, data: bytes, *, needs: str) -> list[tuple[int, str]]:
    text = decoded(path, data, kind=VocabularyError).removeprefix("\ufeff")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    result = [(number, line) for number, line in enumerate(lines, 1) if line]
    if not result:
        raise VocabularyError(f"{shown_path(path)}: the file is empty; give one with lines {needs}")
    return result


def _counts_of(path: Path, lines: Sequence[tuple[int, str]]) -> dict[str, float]:
    counts = dict[str, float]()
    places = dict[str, int]()
    for number, line in lines:
        first, _, piece = line.partition("\t")
        try:
            count = float(first)
        except ValueError:
            count = -1.0
        if not 0 <= count < math.inf or not piece or " " in piece or "\t" in piece:
            raise _fault(path, number, f"{quoted(line)} is not `count<TAB>subword`; fix the line")
        if count > _MOST:
            message = f"the count {quoted(first)} is above {_MOST:g}; divide all counts by a number"
            raise _fault(path, number, message)
        if piece in places:
            message = f"the subword {quoted(piece)} repeats line {places[piece]}; remove one"
            raise _fault(path, number, message)
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
            message = f"{quoted(line)} is neither `count morph + morph …` nor `count<TAB>subword`"
            raise _fault(path, number, message)
        rows.append((int(count), "".join(morphs), morphs))
    if not rows:
        raise VocabularyError(f"{shown_path(path)}: no segmentations; check the path")
    model = BaselineModel()
    model.load_segmentations(rows)
    return model


def _fault(path: Path, number: int, message: str) -> VocabularyError:
    return VocabularyError(f"{shown_path(path)}:{number}: {message}")
