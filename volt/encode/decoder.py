"""Pieces or ids → the lines of text that they spell.

    pieces "lo", "w</w>", "t</w>"   →   "low t"   a marker of words becomes a space
    pieces "<0xC3>", "<0xA9>"       →   "é"       byte tokens become bytes of characters

`decode` and `decode_stream` decode the pieces of one line in Python. A `Decoder` decodes the ids of
many lines in compiled code, from a table with the text of each id. All give equal text.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.array_types import Bytes, Ints, Longs
from volt.encode.inputs import out_of_range_error
from volt.encode.special_in_text import check_special_tokens
from volt.errors import CorpusError, VocabularyError
from volt.files.text_checks import is_utf8
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.byte_alphabet import BYTE_TOKENS, to_bytes
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.decode import TextTable

_MOST_AT_ONCE = 1 << 12  # ids of a line that are decoded without blocks
BLOCK_SIZE = 1 << 18  # bytes of text that are decoded at a time: they fit into a core's cache
# "surrogateescape" decodes an invalid byte to one of these characters
_INVALID = dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")
_BYTE_OF_TOKEN = {token: bytes([byte]) for byte, token in enumerate(BYTE_TOKENS)}


def decode(vocabulary: Vocabulary, pieces: Iterable[str]) -> str:
    """Decode pieces into a line of text. Special tokens stay.

    Invalid UTF-8 becomes U+FFFD: one for each invalid byte token, as in sentencepiece; or, if
    pieces are spelled in GPT-2's alphabet, one for each incomplete character.
    """
    text = _decode_utf8(b"".join(_spell(vocabulary, pieces)), vocabulary)
    if _ends_with_space(vocabulary):
        return text.removesuffix(" ")
    if _may_spell_spaces(vocabulary):
        text = text.replace(PREFIX, " ")
    if _starts_with_space(vocabulary):
        return text.removeprefix(" ")
    return text


def decode_stream(vocabulary: Vocabulary, pieces: Iterable[str]) -> Iterator[str]:
    """Yield the text of pieces as soon as its characters are complete.

    The parts of text, joined, equal the result of `decode`.
    """
    decoder = getincrementaldecoder("utf-8")(errors=_errors(vocabulary))
    may_spell_spaces = _may_spell_spaces(vocabulary)
    ends_with_space = _ends_with_space(vocabulary)
    drops_first_space = _starts_with_space(vocabulary)
    held_space = ""  # yielded with the next text, because a last space is dropped
    for data in chain(_spell(vocabulary, pieces), [None]):
        text = decoder.decode(data or b"", final=data is None).translate(_INVALID)
        if may_spell_spaces:
            text = text.replace(PREFIX, " ")
        if drops_first_space and text:
            text = text.removeprefix(" ")
            drops_first_space = False
        if ends_with_space:
            text = held_space + text
            held_space = " " if text.endswith(" ") else ""
            text = text.removesuffix(" ")
        if text:
            yield text


def skipped_ids(vocabulary: Vocabulary, skip_special: bool | Collection[str]) -> frozenset[int]:
    """Return the ids that decoding skips.

    skip_special: True for `vocabulary.special.skipped`, False for none, or a collection of special
        tokens
    """
    if isinstance(skip_special, bool | np.bool_):
        tokens: Iterable[str] = vocabulary.special.skipped if skip_special else ()
    else:
        tokens = check_special_tokens(vocabulary, skip_special, "skip_special")
    return frozenset(vocabulary.ids[token] for token in tokens)


class Decoder:
    """Decodes ids of one vocabulary. Safe to share between threads, to pickle and to fork.

    texts: the UTF-8 text of each id
    """

    def __init__(self, vocabulary: Vocabulary, texts: TextTable) -> None:
        from volt.kernels.decode import expand_line
        from volt.kernels.intrinsics import PADDING
        from volt.kernels.jit import bind

        self.vocabulary = vocabulary
        self.texts = texts
        self._longest = int(np.diff(texts.starts).max(initial=0))
        self._margin = 2 + PADDING  # bytes of `expand_line` before and after the text
        self._expand_line = bind(expand_line, texts)

    def __reduce__(self) -> tuple[Any, ...]:
        return Decoder, (self.vocabulary, self.texts)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Decoder:
        """Return the decoder of a vocabulary.

        Building it takes as long as decoding a few hundred lines.
        """
        return cls(vocabulary, _build_text_table(vocabulary))

    def decode_line(self, ids: Ints) -> str:
        """Decode the ids of one line, (n,) int32.

        Raises VocabularyError if an id is out of range.
        """
        if len(ids) > _MOST_AT_ONCE:
            [line] = self.decode_lines(ids, np.array([0, len(ids)]))
            return line
        ids = ids.copy()  # another thread may write to an array of the caller
        out = np.empty(len(ids) * self._longest + self._margin, np.uint8)
        end = self._expand_line(ids, out)
        if end < 0:
            index = -1 - end
            raise out_of_range_error(ids[index], index, self._n_pieces)
        text = _decode_utf8(out.data[1:end], self.vocabulary)
        if _may_spell_spaces(self.vocabulary) and PREFIX in text:
            return decode(self.vocabulary, map(self.vocabulary.pieces.__getitem__, ids.tolist()))
        return text

    def token_bytes(self, number: int) -> bytes:
        """Return the UTF-8 text of an id. The id must be in range: it is not checked."""
        start, end = self.texts.starts[number : number + 2].tolist()
        return self.texts.bytes[start:end].tobytes()

    def decode_lines(
        self, ids: Ints, offsets: Longs, *, skipped: Set[int] = frozenset()
    ) -> list[str]:
        """Decode flat ids into lines: line i has ids[offsets[i]:offsets[i + 1]].

        skipped: ids to leave out
        """
        ids, offsets = self.check_ids(ids, offsets)
        if skipped:
            is_retained = ~np.isin(ids, list(skipped))
            ids = ids[is_retained]
            offsets = np.append(0, np.cumsum(is_retained))[offsets]

        lines = []
        for ends, block in self._decode_blocks(ids, offsets):
            lines += self._split_block(block, ends)
        if _may_spell_spaces(self.vocabulary):
            pieces = self.vocabulary.pieces
            for index, line in enumerate(lines):
                if PREFIX in line:
                    row = ids[offsets[index] : offsets[index + 1]].tolist()
                    lines[index] = decode(self.vocabulary, map(pieces.__getitem__, row))
        return lines

    def decode_bytes(self, ids: Ints, offsets: Longs) -> bytes:
        """Decode flat ids into lines of UTF-8 text, each with a line end."""
        ids, offsets = self.check_ids(ids, offsets)
        blocks = self._decode_blocks(ids, offsets)
        text = b"".join(block[1 : ends[-1] + 1].tobytes() for ends, block in blocks)
        if _may_spell_spaces(self.vocabulary) and PREFIX.encode() in text:
            return "".join(f"{line}\n" for line in self.decode_lines(ids, offsets)).encode()
        may_be_invalid = self.vocabulary.byte_fallback or self.vocabulary.pretokenizer.is_bytes
        if may_be_invalid and not is_utf8(text):
            return _decode_utf8(text, self.vocabulary).encode()
        return text

    def decode_text(self, text: bytes, *, place: Callable[[int], str] | None = None) -> bytes:
        """Decode lines of ids to lines of UTF-8 text, each with a line end. place: see `parse_text`"""
        return self.decode_bytes(*self.parse_text(text, place=place))

    def parse_text(
        self, text: bytes, *, place: Callable[[int], str] | None = None
    ) -> tuple[Ints, Longs]:
        r"""Return the ids in lines of text, separated by spaces, and the offsets of the lines.

        place: maps a line's index to the line's name in errors; by default "line N"

        Raises CorpusError if a word is not an id, VocabularyError if an id is out of range.
        """
        from volt.kernels.decode import parse_ids

        if text and not text.endswith(b"\n"):
            text += b"\n"
        ids = np.empty(len(text) // 2, np.int32)
        offsets = np.zeros(text.count(b"\n") + 1, np.int64)
        fault_at = parse_ids(np.frombuffer(text, np.uint8), self._n_pieces, ids, offsets)
        if fault_at >= 0:
            raise self._explain_fault(text, fault_at, place or (lambda index: f"line {index + 1}"))
        return ids[: offsets[-1]], offsets

    def check_ids(self, ids: Ints, offsets: Longs) -> tuple[Ints, Longs]:
        """Check that ids and offsets are in range, because compiled code does not.

        Return copies of the ids between the first and the last offset, and the offsets minus the first.
        """
        ids = np.array(ids)  # another thread may write to an array of the caller
        offsets = np.array(offsets if len(offsets) else [0], np.int64)
        # as unsigned numbers, ids below 0 are large
        if len(ids) and not (ids.dtype == np.int32 and ids.view(np.uint32).max() < self._n_pieces):
            for index in np.flatnonzero((ids < 0) | (ids >= self._n_pieces)).tolist():
                raise out_of_range_error(ids[index], index, self._n_pieces)

        decreases = (offsets[:-1] > offsets[1:]).any()
        if decreases or offsets[0] < 0 or offsets[-1] > len(ids):
            raise VocabularyError(
                f"offsets must not decrease, or lie outside 0 to {len(ids)}, the number of ids"
            )
        ids = ids[offsets[0] : offsets[-1]]
        return ids.astype(np.int32, casting="same_kind", copy=False), offsets - offsets[0]

    @property
    def _n_pieces(self) -> int:
        return len(self.texts.starts) - 1

    def _decode_blocks(self, ids: Ints, offsets: Longs) -> Iterator[tuple[Longs, Bytes]]:
        """Yield blocks of lines: where each line ends, and the text of the lines.

        The text starts at byte 1 of an array, which the next block may overwrite. In the array,
        line i is block[ends[i - 1] + 1 : ends[i]], with ends[-1] = 0, and a line end follows.
        """
        from volt.kernels.decode import expand_lines
        from volt.kernels.intrinsics import PADDING

        block = np.empty(BLOCK_SIZE + PADDING, np.uint8)
        ends = np.empty(len(offsets) - 1, np.int64)
        first = 0
        while first < len(ends):
            after = expand_lines(ids, offsets, first, self.texts, block, ends)
            if after > first:
                yield ends[first:after], block
            else:  # the first line is longer than the array
                block = np.empty(2 * len(block), np.uint8)
            first = after

    def _split_block(self, block: Bytes, ends: Longs) -> list[str]:
        # All lines are decoded together, several times faster, unless a line contains a line end.
        text = _decode_utf8(block[1 : ends[-1]].data, self.vocabulary)
        lines = text.split("\n")
        if len(lines) == len(ends):
            return lines
        spans = pairwise([0, *ends.tolist()])
        return [_decode_utf8(block[start + 1 : end].data, self.vocabulary) for start, end in spans]

    def _explain_fault(
        self, text: bytes, fault_at: int, place: Callable[[int], str]
    ) -> CorpusError | VocabularyError:
        """Return the error about the word at byte `fault_at`. place: see `decode_text`"""
        line_start = text.rfind(b"\n", 0, fault_at) + 1
        word_start = max(line_start, text.rfind(b" ", 0, fault_at) + 1)
        data, *_ = re.split(rb"\r?\n| ", text[word_start:], maxsplit=1)
        word = data.decode(errors="replace")
        where = place(text.count(b"\n", 0, fault_at))
        if word.isascii() and word.isdecimal():
            n_before = len(text[line_start:word_start].split())
            return out_of_range_error(word, n_before, self._n_pieces, where=f"{where}: ")
        return CorpusError(
            f"{where}: {word!r} is not an id; ids are whole numbers with spaces between them"
        )


def _decode_utf8(data: Any, vocabulary: Vocabulary) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return str(data, "utf-8", _errors(vocabulary)).translate(_INVALID)


def _errors(vocabulary: Vocabulary) -> str:
    if vocabulary.pretokenizer.is_bytes:
        return "replace"
    return "surrogateescape"


def _may_spell_spaces(vocabulary: Vocabulary) -> bool:
    """Return whether byte tokens may spell a "▁" that stands for a space.

    `decode` turns it into a space; compiled code does not.
    """
    return vocabulary.byte_fallback and _shows_spaces(vocabulary) and PREFIX not in vocabulary.ids


def _shows_spaces(vocabulary: Vocabulary) -> bool:
    cut = vocabulary.pretokenizer
    return not cut.is_bytes and (vocabulary.marker == "prefix" or cut.keeps_spaces)


def _starts_with_space(vocabulary: Vocabulary) -> bool:
    cut = vocabulary.pretokenizer
    return not cut.is_bytes and (vocabulary.marker == "prefix" or cut.dummy_prefix)


def _ends_with_space(vocabulary: Vocabulary) -> bool:
    return vocabulary.marker == "suffix" and not vocabulary.pretokenizer.keeps_spaces


def _spell(vocabulary: Vocabulary, pieces: Iterable[str]) -> Iterator[bytes]:
    """Yield the UTF-8 text of each piece, with a space for its marker.

    The text may be part of a character.
    """
    is_bytes = vocabulary.pretokenizer.is_bytes
    byte_of = _BYTE_OF_TOKEN if vocabulary.byte_fallback and not is_bytes else {}
    special = set(vocabulary.special.all) if is_bytes else set[str]()
    has_suffix = vocabulary.marker == "suffix"
    space = ""
    if _ends_with_space(vocabulary):
        space = " "
    text_of_prefix = PREFIX
    if _shows_spaces(vocabulary):
        text_of_prefix = " "
    elif is_bytes and vocabulary.marker == "prefix":
        text_of_prefix = ""

    for piece in pieces:
        if piece in byte_of:
            yield byte_of[piece]
        elif piece in special:
            yield piece.encode()
        else:
            if has_suffix and piece.endswith(SUFFIX):
                piece = piece.removesuffix(SUFFIX) + space
            text = piece.replace(PREFIX, text_of_prefix)
            yield to_bytes(text) if is_bytes else text.encode("utf-8", "surrogatepass")


def _build_text_table(vocabulary: Vocabulary) -> TextTable:
    from volt.kernels.decode import FIRST_SPACE, LAST_SPACE, LONG, NO_SPACE, SHORT, TextTable
    from volt.kernels.intrinsics import PADDING

    dropped_space = NO_SPACE
    if _ends_with_space(vocabulary):
        dropped_space = LAST_SPACE
    elif _starts_with_space(vocabulary):
        dropped_space = FIRST_SPACE
    texts = list(_spell(vocabulary, vocabulary.pieces))
    rows = bytearray()
    for text in texts:
        size = len(text) if len(text) <= SHORT else LONG
        rows += text[:SHORT].ljust(SHORT, b"\0") + bytes([size])
    data = bytearray(b"".join([*texts, bytes(PADDING)]))
    return TextTable(
        np.frombuffer(rows, "<u8"),
        np.cumsum([0, *map(len, texts)], dtype=np.int64),
        np.frombuffer(data, np.uint8),
        dropped_space,
    )
