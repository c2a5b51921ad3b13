"""Compile a sequence of splits, and cut texts into pre-tokens, or lines into spelled words.

Each split divides the results of the split before it into the matches of its pattern and the text
between them, like the behaviour "isolated" of published tokenizers. No character is lost; no
pre-token is empty.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.array_cache import Arrays, cached_arrays
from volt.errors import ConfigError, quoted
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.normalizer import check_text
from volt.text.patterns.automaton import Automaton, determinize, is_linear
from volt.text.patterns.regex_parser import parse, sets_of
from volt.text.patterns.regex_tree import Alphabet
from volt.text.patterns.split_points import SplitPoints, find_split_points
from volt.text.special_tokens import FIRST_HIDDEN, HIDDEN_START, LAST_HIDDEN

if TYPE_CHECKING:
    import polars as pl

    from volt.kernels.regex_cutting import SplitTables, WordSpelling


@dataclass(frozen=True, slots=True)
class Split:
    """Split text around the matches of a pattern.

    pattern: a regular expression, see volt.text.patterns.regex_parser
    from_end: whether text is read backwards; the pattern then describes the reversed text

    Raises ConfigError if the pattern is not text, or contains a lone surrogate. Splitter.of checks
    its syntax.
    """

    pattern: str
    from_end: bool = False

    def __post_init__(self) -> None:
        arguments.storable(self.pattern, "pattern")
        object.__setattr__(self, "from_end", arguments.flag(self.from_end, "from_end"))


@dataclass(frozen=True, eq=False, slots=True)
class Splitter:
    """A sequence of splits, ready to use.

    splits: the splits, in the order of application
    automata: one for each split, over the same classes of characters
    tables: the automata for the compiled loop
    """

    splits: tuple[Split, ...]
    automata: tuple[Automaton, ...]
    tables: SplitTables

    @staticmethod
    def of(*splits: Split) -> Splitter:
        r"""Return the splitter of these splits, compiled once in a process.

        Raises ConfigError without splits, or for a pattern that is unsupported, too large, or
        matches the empty text.

        >>> Splitter.of(Split(r"\p{N}{1,3}", from_end=True)).split("in 12345 days")
        ['in ', '12', '345', ' days']
        """
        if not splits:
            raise ConfigError("no split is given; give at least one, such as Split(r'\\s+')")
        for place, split in enumerate(splits):
            remedy = "give a Split"
            if isinstance(split, str):
                remedy = f"did you mean Splitter.of(Split({split!r}))?"
            arguments.instance(split, Split, f"splits[{place}]", remedy=remedy)
        return _compiled(splits)

    @property
    def is_linear(self) -> bool:
        """Return whether splitting provably takes linear time.

        Raises ConfigError if the proof takes too long.
        """
        return all(map(is_linear, self.automata))

    def split(self, text: str) -> list[str]:
        """Return the pre-tokens of a text. Raises CorpusError if it contains a lone surrogate."""
        data = check_text(text).encode()
        bounds = [0, *self.ends(data).tolist()]
        return [data[start:end].decode() for start, end in pairwise(bounds)]

    def ends(self, data: bytes) -> NDArray[np.int64]:
        r"""Return where the pre-tokens of UTF-8 text end, (n_words,) int64, in bytes.

        Invalid bytes count as U+FFFD.
        """
        from volt.kernels.regex_cutting import cut_texts

        codes = np.frombuffer(data, np.uint8)
        bounds = np.array([0, len(data)])
        ends = np.empty(len(data), np.int64)
        spare = np.empty_like(ends)
        n_words = np.empty(1, np.int64)
        n_ends = cut_texts(codes, bounds, self.tables, ends, spare, n_words)
        return ends[:n_ends].copy()


def cut_alike(one: Split, other: Split) -> bool:
    """Check whether two splits have the same automaton, however their patterns are written."""
    ours: tuple[Any, ...] = Splitter.of(one).tables
    theirs: tuple[Any, ...] = Splitter.of(other).tables
    return all(map(np.array_equal, ours, theirs))


@lru_cache(maxsize=64)
def _compiled(splits: tuple[Split, ...]) -> Splitter:
    from volt.kernels.regex_cutting import SplitTables

    arrays = cached_arrays(splits, lambda: _arrays_of(splits))
    starts, classes, moves, end, first_rows, *moves_of_each = arrays
    automata = tuple(map(Automaton, moves_of_each, starts.tolist()))
    return Splitter(splits, automata, SplitTables(classes, moves, int(end), first_rows))


def _arrays_of(splits: tuple[Split, ...]) -> Arrays:
    """Compile splits.

    This takes a quarter of a second, because Polars classifies the characters.
    """
    trees = [parse(split.pattern) for split in splits]
    alphabet = Alphabet.of(characters for tree in trees for characters in sets_of(tree))
    automata = [determinize(tree, alphabet) for tree in trees]
    for split, automaton in zip(splits, automata, strict=True):
        if (automaton.moves[automaton.start] & 1).any():
            raise ConfigError(
                f"pattern {quoted(split.pattern, 500)} could match the empty text, which is not a "
                "pre-token; let each alternative match a character: write + for *"
            )

    # Classes that have the same moves in all automata are merged.
    every = np.vstack([automaton.moves[:, :-1] for automaton in automata])
    _, first, renamed = np.unique(every, axis=1, return_index=True, return_inverse=True)
    classes = alphabet.table(renamed.reshape(-1).astype(np.uint8))
    columns = [*first.tolist(), alphabet.n_classes]
    width = len(columns)

    # A row's name is where it starts in the joint table; row 0 of each automaton has no moves.
    tables = list[NDArray[np.int32]]()
    first_rows = list[int]()
    offset = 0
    for automaton, split in zip(automata, splits, strict=True):
        moves = automaton.moves[:, columns].reshape(-1)
        names = np.where(moves > 1, (moves >> 1) * width + offset, 0)
        tables.append(2 * names.astype(np.int32) + (moves & 1))
        first_rows.append(2 * (automaton.start * width + offset) + split.from_end)
        offset += len(moves)

    return [
        np.array([automaton.start for automaton in automata]),
        classes,
        np.concatenate(tables),
        np.asarray(width - 1),
        np.array(first_rows, np.int64),
        *(automaton.moves for automaton in automata),
    ]


Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
_HIDDEN = Split(f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]")
_HIDDEN_BYTES = re.compile(
    rb"\xf4(?:[\x8c-\x8e][\x80-\xbf]{2}|\x8f(?:[\x80-\xbe][\x80-\xbf]|\xbf[\x80-\xbd]))"
)
_WIDTH = 4  # bytes of each
_SPACE = SPACE.encode()
LINE_END = 0xFF  # a byte that UTF-8 never uses
_LINE_END = "\udcff"  # the character to which "surrogateescape" decodes it


@dataclass(frozen=True, eq=False)
class WordCutter:
    """Splits lines into words, and spells the words as vocabularies do.

    is_bytes: whether each byte becomes a character of GPT-2's alphabet
    matches_only: whether text between the matches of the one forward split is dropped
    isolates: whether private characters stand for user tokens: each is a word then, and ends the
        text around it
    parts_users: whether user tokens split text also if text between matches is dropped
    """

    splitter: Splitter
    is_bytes: bool = False
    matches_only: bool = False
    isolates: bool = True
    parts_users: bool = False

    @cached_property
    def reads_marks(self) -> bool:
        """Return whether a "▁" is read as a space: not in bytes, nor if spaces are dropped."""
        if self.is_bytes:
            return False
        line = self._written(b" ", np.array([0]), np.array([1]))
        return not self.matches_only or len(line) > 1

    def cut_lines(self, data: bytes, *, separator: int, strips_return: bool = False) -> Bytes:
        r"""Return the words of lines, see volt.kernels.regex_cutting.

        data: UTF-8, with the separator after each line (optional after the last)
        strips_return: whether lines end at "\r\n" too
        """
        if self.reads_marks:
            data = data.replace(_SPACE, b" ")
        codes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(codes == separator)
        if len(codes) and codes[-1] != separator:
            ends = np.append(ends, len(codes))
        starts = np.append(0, ends + 1)[:-1]
        if strips_return:
            has_return = (ends > starts) & (codes[ends - 1] == ord("\r"))
            ends = ends - has_return
        return self._written(data, starts, ends)

    def cut_texts(self, texts: Sequence[str]) -> list[str]:
        joined = _LINE_END.join([*texts, ""]).encode("utf-8", "surrogateescape")
        words = self.cut_lines(joined, separator=LINE_END).tobytes()
        return words.decode("utf-8", "surrogateescape").split(_LINE_END)[:-1]

    def cut_text(self, text: str) -> list[str]:
        """Return the words of a text. Raises CorpusError if it contains a lone surrogate."""
        [words] = self.cut_texts([check_text(text)])
        return words.split(" ") if words else []

    def cut_series(self, series: pl.Series) -> pl.Series:
        import polars as pl

        texts = series.fill_null("").to_list()
        words = pl.Series(series.name, self.cut_texts(texts), dtype=pl.String)
        lists = words.str.split(" ")
        is_empty = words == ""
        if not is_empty.any():
            return lists
        no_words = pl.lit([], dtype=pl.List(pl.String))
        selected = pl.when(is_empty).then(no_words).otherwise(lists)
        return pl.select(selected.alias(series.name)).to_series()

    def tables_for(self, data: bytes) -> SplitTables:
        """Return the tables for a text, by which each private character is a word."""
        if self.isolates and not self.matches_only and HIDDEN_START in data:
            return Splitter.of(_HIDDEN, *self.splitter.splits).tables
        return self.splitter.tables

    def parts_at_users(self, data: bytes) -> bool:
        """Check whether a text must first be split at its private characters."""
        return self.isolates and self.parts_users and _HIDDEN_BYTES.search(data) is not None

    def spelled(self, lines: bytes) -> str:
        r"""Spell words, given one per line, as vocabularies do.

        >>> WordCutter(Splitter.of(Split("[a-z]+")), is_bytes=True).spelled(b" a\nb")
        'Ġa\nb'
        """
        if not self.is_bytes:
            return lines.replace(b" ", _SPACE).decode()
        if not self.isolates or HIDDEN_START not in lines:
            return to_characters(lines, keeps_line_ends=True)
        words = list[str]()
        for word in lines.split(b"\n"):
            is_user = _HIDDEN_BYTES.fullmatch(word) is not None
            words.append(word.decode() if is_user else to_characters(word))
        return "\n".join(words)

    def _written(self, data: bytes, starts: Longs, ends: Longs) -> Bytes:
        from volt.kernels.regex_cutting import SPARE, WIDEST, write_words

        if self.parts_at_users(data):
            return self._parted(data, starts, ends)
        texts = np.frombuffer(data, np.uint8)
        tables = self.tables_for(data)
        longest = int((ends - starts).max(initial=0))
        working, spare = np.empty((2, longest), np.int64)
        out = np.empty(WIDEST * len(data) + 2 * len(starts) + SPARE, np.uint8)
        n_bytes = write_words(texts, starts, ends, tables, self._spelling, working, spare, out)
        return out[:n_bytes]

    def _parted(self, data: bytes, starts: Longs, ends: Longs) -> Bytes:
        """Return the words of the text between user tokens, and these as words."""
        users = {match.start(): match[0] for match in _HIDDEN_BYTES.finditer(data)}
        places = np.array(list(users), np.int64)
        part_starts = np.sort(np.append(starts, places + _WIDTH))
        part_ends = np.sort(np.append(ends, places))
        blanked = _HIDDEN_BYTES.sub(b" " * _WIDTH, data)
        parts = self._written(blanked, part_starts, part_ends).tobytes().split(b"\xff")

        lines = list[list[bytes]]([] for _ in starts)
        owners = np.searchsorted(ends, part_ends).tolist()
        for owner, words, end in zip(owners, parts, part_ends.tolist(), strict=False):
            lines[owner] += filter(None, (words, users.get(end)))
        joined = b"".join(b" ".join(line) + b"\xff" for line in lines)
        return np.frombuffer(joined, np.uint8)

    @cached_property
    def without_user_tokens(self) -> WordCutter:
        """A cutter that treats private characters as ordinary characters."""
        return replace(self, isolates=False)

    @cached_property
    def parting(self) -> SplitPoints | None:
        """Where a text may be divided into units; None if nowhere."""
        return find_split_points(self.splitter.tables, matches_only=self.matches_only)

    @cached_property
    def _spelling(self) -> WordSpelling:
        from volt.kernels.regex_cutting import WordSpelling

        if self.is_bytes:
            forms = [character.encode() for character in ALPHABET]
        else:
            forms = [bytes([byte]) for byte in range(256)]
            forms[ord(" ")] = _SPACE
        spelled = np.zeros((256, 4), np.uint8)
        for byte, form in enumerate(forms):
            spelled[byte, : 1 + len(form)] = len(form), *form
        copies_users = self.is_bytes and self.isolates
        return WordSpelling(spelled.reshape(-1), int(copies_users), int(self.matches_only))
