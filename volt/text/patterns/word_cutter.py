"""`WordCutter`: lines of text → their words (pre-tokens), spelled as vocabularies spell them.

    WordCutter(splitter)                  "a b" → "a", "▁b"    a space becomes "▁"
    WordCutter(splitter, is_bytes=True)   "a b" → "a", "Ġb"    bytes become GPT-2's alphabet

In a line, one private character (from U+10C000, see volt.text.special_tokens) stands for each user
token. It is a word of its own, and the text before it is split as if the line ended there.

Compiled code writes the words of many lines at once: with a space after each word but the last of
a line, and with the byte 0xFF, which UTF-8 never uses, after each line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.array_cache import Arrays, cached_arrays
from volt.array_types import Bytes, Longs
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.normalizer import check_text
from volt.text.patterns.split_points import SplitPoints, find_split_points
from volt.text.patterns.splitter import Split, Splitter
from volt.text.special_tokens import FIRST_HIDDEN, HIDDEN_START, LAST_HIDDEN

if TYPE_CHECKING:
    import polars as pl

    from volt.kernels.regex_cutting import SplitTables, WordSpelling

LINE_END = 0xFF
_LINE_END = "\udcff"  # the character to which "surrogateescape" decodes LINE_END
_SPACE = SPACE.encode()
_HIDDEN = Split(f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]")  # private characters
_HIDDEN_BYTES = re.compile(
    rb"\xf4(?:[\x8c-\x8e][\x80-\xbf]{2}|\x8f(?:[\x80-\xbe][\x80-\xbf]|\xbf[\x80-\xbd]))"
)
_HIDDEN_SIZE = 4  # bytes of a private character


@dataclass(frozen=True, eq=False)
class WordCutter:
    """Splits lines into words, and spells the words as vocabularies do.

    splitter: the splits
    is_bytes: whether each byte becomes a character of GPT-2's alphabet
    matches_only: whether text between the matches of the one forward split is dropped
    isolates_users: whether private characters stand for user tokens
    matches_between_users: with matches_only, whether no match extends over a user token
    """

    splitter: Splitter
    is_bytes: bool = False
    matches_only: bool = False
    isolates_users: bool = True
    matches_between_users: bool = False

    @cached_property
    def reads_mark_as_space(self) -> bool:
        """Return whether a "▁" of a line is read as a space.

        It is, unless words are spelled in bytes, or the splits drop a space.
        """
        if self.is_bytes:
            return False
        words_of_space = self._write_words(b" ", np.array([0]), np.array([1]))
        return not self.matches_only or len(words_of_space) > 1

    def cut_lines(self, data: bytes, *, separator: int, strips_return: bool = False) -> Bytes:
        r"""Return the words of lines, as bytes: a space between words, and 0xFF after each line.

        data: UTF-8, with the separator after each line (optional after the last)
        separator: the byte after each line
        strips_return: whether lines end at "\r\n" too
        """
        if self.reads_mark_as_space:
            data = data.replace(_SPACE, b" ")
        codes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(codes == separator)
        if len(codes) and codes[-1] != separator:
            ends = np.append(ends, len(codes))
        starts = np.append(0, ends + 1)[:-1]
        if strips_return:
            has_return = (ends > starts) & (codes[ends - 1] == ord("\r"))
            ends = ends - has_return
        return self._write_words(data, starts, ends)

    def cut_texts(self, texts: Sequence[str]) -> list[str]:
        """Return the words of each text, as one string with a space between words."""
        joined = _LINE_END.join([*texts, ""]).encode("utf-8", "surrogateescape")
        words = self.cut_lines(joined, separator=LINE_END).tobytes()
        return words.decode("utf-8", "surrogateescape").split(_LINE_END)[:-1]

    def cut_text(self, text: str) -> list[str]:
        """Return the words of a text. Raises CorpusError if it contains a lone surrogate."""
        [words] = self.cut_texts([check_text(text)])
        return words.split(" ") if words else []

    def cut_series(self, series: pl.Series) -> pl.Series:
        """Return the list of words of each string of a Polars series; no words for null."""
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

    def choose_tables(self, data: bytes) -> SplitTables:
        """Return the tables for a text: if it contains user tokens, a first split isolates them."""
        if self.isolates_users and not self.matches_only and HIDDEN_START in data:
            return Splitter.of(_HIDDEN, *self.splitter.splits).tables
        return self.splitter.tables

    def must_part_at_users(self, data: bytes) -> bool:
        """Check whether a text must be divided at its user tokens before matches are searched."""
        if not (self.isolates_users and self.matches_between_users):
            return False
        return _HIDDEN_BYTES.search(data) is not None

    def spell_lines(self, lines: bytes) -> str:
        r"""Spell words, one per line, as vocabularies do.

        >>> WordCutter(Splitter.of(Split("[a-z]+")), is_bytes=True).spell_lines(b" a\nb")
        'Ġa\nb'
        """
        if not self.is_bytes:
            return lines.replace(b" ", _SPACE).decode()
        if not self.isolates_users or HIDDEN_START not in lines:
            return to_characters(lines, keeps_line_ends=True)
        words = list[str]()
        for word in lines.split(b"\n"):
            is_user = _HIDDEN_BYTES.fullmatch(word) is not None
            words.append(word.decode() if is_user else to_characters(word))
        return "\n".join(words)

    def _write_words(self, data: bytes, line_starts: Longs, line_ends: Longs) -> Bytes:
        from volt.kernels.regex_cutting import SPARE, WIDEST, write_words

        if self.must_part_at_users(data):
            return self._write_words_between_users(data, line_starts, line_ends)
        longest = int((line_ends - line_starts).max(initial=0))
        word_starts, word_ends = np.empty((2, longest), np.int64)
        out = np.empty(WIDEST * len(data) + 2 * len(line_starts) + SPARE, np.uint8)
        n_bytes = write_words(
            np.frombuffer(data, np.uint8),
            line_starts,
            line_ends,
            self.choose_tables(data),
            self._spelling,
            word_starts,
            word_ends,
            out,
        )
        return out[:n_bytes]

    def _write_words_between_users(
        self, data: bytes, line_starts: Longs, line_ends: Longs
    ) -> Bytes:
        """Write the words of each part of a line between user tokens, and each user token."""
        users = {match.start(): match[0] for match in _HIDDEN_BYTES.finditer(data)}
        user_starts = np.array(list(users), np.int64)
        part_starts = np.sort(np.append(line_starts, user_starts + _HIDDEN_SIZE))
        part_ends = np.sort(np.append(line_ends, user_starts))
        without_users = _HIDDEN_BYTES.sub(b" " * _HIDDEN_SIZE, data)
        words = self._write_words(without_users, part_starts, part_ends)
        words_of_parts = words.tobytes().split(b"\xff")

        lines = list[list[bytes]]([] for _ in line_starts)
        line_of_part = np.searchsorted(line_ends, part_ends).tolist()
        parts = zip(line_of_part, words_of_parts, part_ends.tolist(), strict=False)
        for line_index, part_words, part_end in parts:
            lines[line_index] += filter(None, (part_words, users.get(part_end)))
        joined = b"".join(b" ".join(line) + b"\xff" for line in lines)
        return np.frombuffer(joined, np.uint8)

    @cached_property
    def without_user_tokens(self) -> WordCutter:
        """A cutter that treats private characters as ordinary characters."""
        return replace(self, isolates_users=False)

    @cached_property
    def split_points(self) -> SplitPoints | None:
        """The places where a text may be divided into units; None if spaces do not separate units."""
        key = ["split points", self.matches_only, *self.splitter.splits]
        arrays = cached_arrays(key, self._find_split_points)
        values: list[Any] = [array if array.ndim else array.item() for array in arrays]
        return SplitPoints(*values) if len(values) > 1 else None

    def _find_split_points(self) -> Arrays:
        """Return the fields of `split_points`, each as an array; one array if there are none."""
        points = find_split_points(self.splitter.tables, matches_only=self.matches_only)
        if points is None:
            return [np.asarray(False)]
        return [np.asarray(getattr(points, field.name)) for field in fields(points)]

    @cached_property
    def _spelling(self) -> WordSpelling:
        from volt.kernels.regex_cutting import WordSpelling

        if self.is_bytes:
            spellings = [character.encode() for character in ALPHABET]
        else:
            spellings = [bytes([byte]) for byte in range(256)]
            spellings[ord(" ")] = _SPACE
        table = np.zeros((256, 4), np.uint8)
        for byte, spelling in enumerate(spellings):
            table[byte, : 1 + len(spelling)] = len(spelling), *spelling
        keeps_hidden = self.is_bytes and self.isolates_users
        return WordSpelling(table.reshape(-1), int(keeps_hidden), int(self.matches_only))
