"""Lines → their words (pre-tokens) by a splitter, spelled as vocabularies have them, many lines in one call.

>>> from volt.text.patterns.splitter import Split, Splitter
>>> cutter = WordCutter.of(Splitter.of(Split(r" ?[a-z]+")))
>>> cutter.cut_lines(b"in 12 days\\n!\\n", separator=10).tobytes()
b'in \\xe2\\x96\\x8112 \\xe2\\x96\\x81days\\xff!\\xff'
>>> WordCutter.of(Splitter.of(Split(r" ?[a-z]+")), matches_only=True).cut_text("in 12 days")
['in', '▁days']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.markers import SPACE
from volt.text.normalizer import check_text
from volt.text.patterns.parting import Parting, parting_of
from volt.text.patterns.splitter import Split, Splitter
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

if TYPE_CHECKING:
    import polars as pl

    from volt.kernels.pattern_cutting import SplitTables
    from volt.kernels.pattern_words import Spelling

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
_HIDDEN = Split(f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]")
_HIDDEN_START = chr(FIRST_HIDDEN).encode()[:2]
_HIDDEN_BYTES, _WIDTH = re.compile(rb"\xf4\x8f[\x80-\xbf](?:(?<!\xbf)[\x80-\xbf]|[\x80-\xbd])"), 4
_SPACE = SPACE.encode()
_LINE_FEED, LINE_END = ord("\n"), 0xFF  # the latter occurs nowhere in UTF-8


@dataclass(frozen=True, eq=False)
class WordCutter:
    """What cuts lines into words, and spells these.

    splitter: what cuts
    is_bytes: whether each byte becomes a character of GPT-2's alphabet
    matches_only: whether what lies between the matches of the one split is dropped
    reads_marks: whether a "▁" of the text is read as a space
    isolates: whether private characters stand for user tokens: each is a word then, and ends the text around it
    parts_users: whether that is so, too, where what lies between matches is dropped
    """

    splitter: Splitter
    is_bytes: bool
    matches_only: bool
    reads_marks: bool
    isolates: bool = True
    parts_users: bool = False

    @classmethod
    def of(
        cls, splitter: Splitter, *, is_bytes: bool = False, matches_only: bool = False, parts_users: bool = False
    ) -> WordCutter:
        """The cutter by a splitter.

        matches_only: there is one split then, which does not read from the end. A "▁" is read as a space where the
            split matches a lone space, or nothing is dropped
        """
        assert not matches_only or (len(splitter.splits) == 1 and not splitter.splits[0].from_end)
        made = cls(splitter, is_bytes, matches_only, reads_marks=False)
        reads_marks = not is_bytes and (not matches_only or made.cut_text(" ") != [])
        return cls(splitter, is_bytes, matches_only, reads_marks, parts_users=parts_users)

    def cut_lines(self, data: bytes, *, separator: int, strips_return: bool = False) -> Bytes:
        """The words of lines, see volt.kernels.pattern_words.

        data: UTF-8 but for the separator, which stands behind each line (the last may lack it)
        strips_return: whether a "\\r" at the end of a line is no part of it
        """
        data = data.replace(_SPACE, b" ") if self.reads_marks else data
        codes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(codes == separator)
        if len(codes) and codes[-1] != separator:
            ends = np.append(ends, len(codes))
        starts = np.append(0, ends + 1)[:-1]
        if strips_return:
            ends = ends - ((ends > starts) & (codes[ends - 1] == ord("\r")))
        return self._written(data, starts, ends)

    def cut_texts(self, texts: Sequence[str]) -> list[str]:
        """The words of each text with a space between two. No word holds a space.

        >>> WordCutter.of(Splitter.of(Split("[a-z]+")), is_bytes=True).cut_texts(["é a", ""])
        ['Ã©Ġ a', '']
        """
        joined = "\n".join(texts) + "\n"
        if joined.count("\n") == len(texts):
            found = self.cut_lines(joined.encode(), separator=_LINE_FEED).tobytes()
            return found.replace(b"\xff", b"\n").decode().split("\n")[:-1]
        found = self.cut_lines(b"".join(text.encode() + b"\xff" for text in texts), separator=LINE_END).tobytes()
        return [words.decode() for words in found.split(b"\xff")[:-1]]

    def cut_text(self, text: str) -> list[str]:
        """The words of a text. Raises CorpusError if it holds a lone surrogate."""
        [words] = self.cut_texts([check_text(text)])
        return words.split(" ") if words else []

    def cut_series(self, series: pl.Series) -> pl.Series:
        """A column of strings → a column of lists of words; null has none."""
        import polars as pl

        words = pl.Series(series.name, self.cut_texts(series.fill_null("").to_list()), dtype=pl.String)
        lists, is_empty = words.str.split(" "), words == ""
        if not is_empty.any():
            return lists
        none = pl.lit([], dtype=pl.List(pl.String))
        return pl.select(pl.when(is_empty).then(none).otherwise(lists).alias(series.name)).to_series()

    def tables_for(self, data: bytes) -> SplitTables:
        """What cuts a text: where private characters stand for user tokens and the text holds any, they stand alone."""
        isolates = self.isolates and not self.matches_only and _HIDDEN_START in data
        return (self._isolating if isolates else self.splitter).tables

    def parts_at_users(self, data: bytes) -> bool:
        """Whether a text must be parted at its private characters before it is cut."""
        return self.isolates and self.parts_users and _HIDDEN_BYTES.search(data) is not None

    def spelled(self, lines: bytes) -> str:
        """Words, one a line and none of them with a line end inside, as vocabularies spell them.

        >>> WordCutter.of(Splitter.of(Split("[a-z]+")), is_bytes=True).spelled(b" a\\nb")
        'Ġa\\nb'
        """
        if not self.is_bytes:
            return lines.replace(b" ", _SPACE).decode()
        if self.isolates and _HIDDEN_START in lines:
            words = lines.split(b"\n")
            return "\n".join(word.decode() if _HIDDEN_BYTES.fullmatch(word) else to_characters(word) for word in words)
        return to_characters(lines, keeps_line_ends=True)

    def _written(self, data: bytes, starts: Longs, ends: Longs) -> Bytes:
        """The words of lines that start and end there."""
        from volt.kernels.pattern_words import MORE, WIDEST, write_words

        if self.parts_at_users(data):
            return self._parted(data, starts, ends, [one.start() for one in _HIDDEN_BYTES.finditer(data)])
        tables = self.tables_for(data)
        longest = int((ends - starts).max(initial=0))
        out = np.empty(WIDEST * len(data) + 2 * len(starts) + MORE, np.uint8)
        spare = np.empty((2, longest), np.int64)
        n = write_words(np.frombuffer(data, np.uint8), starts, ends, tables, self._spelling, spare[0], spare[1], out)
        return out[:n]

    def _parted(self, data: bytes, starts: Longs, ends: Longs, hidden: list[int]) -> Bytes:
        """The words of lines, each cut at the private characters that start at these places."""
        places, are_hidden = np.array(hidden, np.int64), set(hidden)
        first, last = np.sort(np.append(starts, places + _WIDTH)), np.sort(np.append(ends, places))
        blank = _HIDDEN_BYTES.sub(b" " * _WIDTH, data)
        words = self._written(blank, first, last).tobytes().split(b"\xff")[:-1]
        lines = list[list[bytes]]([] for _ in starts)
        owners = np.searchsorted(ends, last, side="left")
        for owner, text, end in zip(owners.tolist(), words, last.tolist(), strict=True):
            lines[owner] += [text] * bool(text) + [data[end : end + _WIDTH]] * (end in are_hidden)
        return np.frombuffer(b"".join(b" ".join(line) + b"\xff" for line in lines), np.uint8)

    @cached_property
    def without_user_tokens(self) -> WordCutter:
        """The same for text in which private characters are characters like others.

        >>> WordCutter.of(Splitter.of(Split("[^ ]+"))).without_user_tokens.cut_text("a\U0010f000 b")
        ['a\U0010f000', '▁', 'b']
        """
        return replace(self, isolates=False)

    @cached_property
    def parting(self) -> Parting | None:
        """How a text may be parted before it is cut; None if not at all."""
        return parting_of(self.splitter.tables, matches_only=self.matches_only)

    @cached_property
    def _isolating(self) -> Splitter:
        """The splitter for text that holds private characters: each is a word of its own."""
        return Splitter.of(_HIDDEN, *self.splitter.splits)

    @cached_property
    def _spelling(self) -> Spelling:
        from volt.kernels.pattern_words import Spelling

        written = [char.encode() for char in ALPHABET] if self.is_bytes else [bytes([byte]) for byte in range(256)]
        if not self.is_bytes:
            written[ord(" ")] = _SPACE
        spelled = np.zeros((256, 4), np.uint8)
        for byte, form in enumerate(written):
            spelled[byte, : 1 + len(form)] = len(form), *form
        return Spelling(spelled.reshape(-1), int(self.is_bytes and self.isolates), int(self.matches_only))
