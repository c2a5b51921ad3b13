"""Pieces or ids → the lines that they spell: markers become spaces, byte tokens become characters."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.encode.arrays import Bytes, Ints, Longs
from volt.encode.inputs import out_of_range
from volt.encode.special_in_text import named_tokens
from volt.errors import CorpusError, VocabularyError
from volt.files.text_checks import is_utf8
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.byte_alphabet import BYTE_TOKENS, to_bytes
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.decode import TextTable

BLOCK_SIZE = 1 << 18  # bytes of text that are decoded at a time: they fit into a core's cache
# bytes that are not text, by "surrogateescape"
_INVALID = dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")
_BYTES = {token: bytes([byte]) for byte, token in enumerate(BYTE_TOKENS)}


def decode(vocabulary: Vocabulary, pieces: Iterable[str]) -> str:
    """Decode pieces into a line of text. Invalid UTF-8 becomes U+FFFD; special tokens stay.

    As in sentencepiece, each invalid byte token becomes one; at the level of bytes, each invalid part of a character.
    """
    text = _decoded(b"".join(_texts(vocabulary, pieces)), vocabulary)
    if _ends_with_space(vocabulary):
        return text.removesuffix(" ")
    if _may_spell_spaces(vocabulary):
        text = text.replace(PREFIX, " ")
    if _starts_with_space(vocabulary):
        return text.removeprefix(" ")
    return text


def decode_stream(vocabulary: Vocabulary, pieces: Iterable[str]) -> Iterator[str]:
    """Yield the text of pieces as soon as its characters are complete. The parts join to the result of `decode`."""
    decoder = getincrementaldecoder("utf-8")(errors=_errors(vocabulary))
    may_spell_spaces = _may_spell_spaces(vocabulary)
    ends_with_space = _ends_with_space(vocabulary)
    drops_space = _starts_with_space(vocabulary)  # from the first text
    space = ""  # a space that waits for the next text, because the last space is removed
    for data in chain(_texts(vocabulary, pieces), [None]):
        text = decoder.decode(data or b"", data is None).translate(_INVALID)
        if may_spell_spaces:
            text = text.replace(PREFIX, " ")
        if drops_space and text:
            text = text.removeprefix(" ")
            drops_space = False
        if ends_with_space:
            text = space + text
            space = " " if text.endswith(" ") else ""
            text = text.removesuffix(" ")
        if text:
            yield text


def skipped_ids(vocabulary: Vocabulary, skip_special: bool | Collection[str]) -> frozenset[int]:
    """Return the ids that decoding skips.

    skip_special: True for `vocabulary.special.skipped`, False for none, or a collection of special tokens
    """
    if isinstance(skip_special, bool | np.bool_):
        tokens: Iterable[str] = vocabulary.special.skipped if skip_special else ()
    else:
        tokens = named_tokens(vocabulary, skip_special, "skip_special")
    return frozenset(vocabulary.ids[token] for token in tokens)


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """Decodes ids of one vocabulary. Safe to share between threads, to pickle and to fork.

    texts: the UTF-8 text of each id
    drops: which space to remove from each line, see volt.kernels.decode
    """

    vocabulary: Vocabulary
    texts: TextTable
    drops: int

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Decoder:
        """Return the decoder of a vocabulary. Building it takes as long as decoding a few hundred lines."""
        from volt.kernels.decode import FIRST_SPACE, LAST_SPACE, NO_SPACE

        drops = NO_SPACE
        if _ends_with_space(vocabulary):
            drops = LAST_SPACE
        elif _starts_with_space(vocabulary):
            drops = FIRST_SPACE
        return cls(vocabulary, _table(vocabulary), drops)

    def __reduce__(self) -> tuple[Any, ...]:
        return Decoder.of, (self.vocabulary,)

    def token_bytes(self, number: int) -> bytes:
        """Return the text of an id, which the decoder does not check."""
        start, end = self.texts.starts[number : number + 2].tolist()
        return self.texts.bytes[start:end].tobytes()

    def decode_lines(
        self, ids: Ints, offsets: Longs, *, skipped: Set[int] = frozenset()
    ) -> list[str]:
        """Decode flat ids into lines: line i has ids[offsets[i]:offsets[i + 1]]. skipped: ids to leave out"""
        ids, offsets = self.checked(ids, offsets)
        if skipped:
            retained = ~np.isin(ids, list(skipped))
            ids = ids[retained]
            offsets = np.append(0, np.cumsum(retained))[offsets]

        lines = []
        for ends, out in self._blocks(ids, offsets):
            lines += self._split(out, ends)
        if _may_spell_spaces(self.vocabulary):
            pieces = self.vocabulary.pieces
            for place, line in enumerate(lines):
                if PREFIX in line:
                    row = ids[offsets[place] : offsets[place + 1]].tolist()
                    lines[place] = decode(self.vocabulary, map(pieces.__getitem__, row))
        return lines

    def decode_bytes(self, ids: Ints, offsets: Longs) -> bytes:
        """Decode flat ids into lines of UTF-8 text, each with a line end."""
        ids, offsets = self.checked(ids, offsets)
        blocks = self._blocks(ids, offsets)
        text = b"".join(out[1 : ends[-1] + 1].tobytes() for ends, out in blocks)
        if _may_spell_spaces(self.vocabulary) and PREFIX.encode() in text:
            return "".join(f"{line}\n" for line in self.decode_lines(ids, offsets)).encode()
        holds_bytes = self.vocabulary.byte_fallback or self.vocabulary.pretokenizer.is_bytes
        if holds_bytes and not is_utf8(text):
            return _decoded(text, self.vocabulary).encode()
        return text

    def decode_text(self, text: bytes, *, place: Callable[[int], str] | None = None) -> bytes:
        r"""Decode lines of ids, separated by spaces, to lines of UTF-8 text.

        place: maps a line's index to the line's name in errors; by default "line N"

        Raises CorpusError if a word is not an id, VocabularyError if an id is out of range.
        """
        from volt.kernels.decode import parse_ids

        if text and not text.endswith(b"\n"):
            text += b"\n"
        ids = np.empty(len(text) // 2, np.int32)
        offsets = np.zeros(text.count(b"\n") + 1, np.int64)
        fault = parse_ids(np.frombuffer(text, np.uint8), self._n_pieces, ids, offsets)
        if fault >= 0:
            raise self._fault(text, fault, place or (lambda index: f"line {index + 1}"))
        return self.decode_bytes(ids[: offsets[-1]], offsets)

    @property
    def _n_pieces(self) -> int:
        return len(self.texts.starts) - 1

    def _blocks(self, ids: Ints, offsets: Longs) -> Iterator[tuple[Longs, Bytes]]:
        """Yield where each line ends, and the text, from byte 1 of an array that the next block may overwrite."""
        from volt.kernels.decode import expand_lines
        from volt.kernels.intrinsics import PADDING

        out = np.empty(BLOCK_SIZE + PADDING, np.uint8)
        ends = np.empty(len(offsets) - 1, np.int64)
        first = 0
        while first < len(ends):
            after = expand_lines(ids, offsets, first, self.texts, self.drops, out, ends)
            if after > first:
                yield ends[first:after], out
            else:
                out = np.empty(2 * len(out), np.uint8)
            first = after

    def _split(self, out: Bytes, ends: Longs) -> list[str]:
        """Return a block's lines; decode them together, several times faster, if none contains a line end."""
        text = _decoded(out[1 : ends[-1]].data, self.vocabulary)
        lines = text.split("\n")
        if len(lines) == len(ends):
            return lines
        spans = pairwise([0, *ends.tolist()])
        return [_decoded(out[start + 1 : end].data, self.vocabulary) for start, end in spans]

    def checked(self, ids: Ints, offsets: Longs) -> tuple[Ints, Longs]:
        """Check bounds, because compiled code does not. Return the ids, and the offsets moved to start at 0."""
        # as unsigned numbers, ids below 0 are large
        if len(ids) and not (ids.dtype == np.int32 and ids.view(np.uint32).max() < self._n_pieces):
            for place in np.flatnonzero((ids < 0) | (ids >= self._n_pieces)).tolist():
                raise out_of_range(ids[place], place, self._n_pieces)

        if not len(offsets):
            offsets = np.zeros(1, np.int64)
        offsets = np.require(offsets, np.int64, ("C", "A", "W"))
        falls = (offsets[:-1] > offsets[1:]).any()
        if falls or offsets[0] < 0 or offsets[-1] > len(ids):
            raise VocabularyError(
                f"offsets must not decrease, or lie outside 0 to {len(ids)}, the number of ids"
            )
        ids = ids[offsets[0] : offsets[-1]]
        ids = ids.astype(np.int32, casting="same_kind", copy=False)
        ids = np.require(ids, requirements=("C", "A", "W"))
        return ids, offsets - offsets[0]

    def _fault(
        self, text: bytes, fault: int, place: Callable[[int], str]
    ) -> CorpusError | VocabularyError:
        line = text.rfind(b"\n", 0, fault) + 1
        start = max(line, text.rfind(b" ", 0, fault) + 1)
        data, *_ = re.split(rb"\r?\n| ", text[start:], maxsplit=1)
        word = data.decode(errors="replace")
        where = place(text.count(b"\n", 0, fault))
        if word.isascii() and word.isdecimal():
            n_before = len(text[line:start].split())
            return out_of_range(word, n_before, self._n_pieces, where=f"{where}: ")
        return CorpusError(
            f"{where}: {word!r} is not an id; ids are whole numbers with spaces between them"
        )


def _decoded(data: Any, vocabulary: Vocabulary) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return str(data, "utf-8", _errors(vocabulary)).translate(_INVALID)


def _errors(vocabulary: Vocabulary) -> str:
    if vocabulary.pretokenizer.is_bytes:
        return "replace"
    return "surrogateescape"


def _may_spell_spaces(vocabulary: Vocabulary) -> bool:
    """Return whether byte tokens spell "▁" for a space: `decode` turns this into a space, compiled code does not."""
    return vocabulary.byte_fallback and _shows_spaces(vocabulary) and PREFIX not in vocabulary.ids


def _shows_spaces(vocabulary: Vocabulary) -> bool:
    cut = vocabulary.pretokenizer
    return not cut.is_bytes and (vocabulary.marker == "prefix" or cut.keeps_spaces)


def _starts_with_space(vocabulary: Vocabulary) -> bool:
    cut = vocabulary.pretokenizer
    return not cut.is_bytes and (vocabulary.marker == "prefix" or cut.dummy_prefix)


def _ends_with_space(vocabulary: Vocabulary) -> bool:
    return vocabulary.marker == "suffix" and not vocabulary.pretokenizer.keeps_spaces


def _texts(vocabulary: Vocabulary, pieces: Iterable[str]) -> Iterator[bytes]:
    is_bytes = vocabulary.pretokenizer.is_bytes
    byte_of = _BYTES if vocabulary.byte_fallback and not is_bytes else {}
    special = set(vocabulary.special.all) if is_bytes else set[str]()
    has_suffix = vocabulary.marker == "suffix"
    space = ""
    if _ends_with_space(vocabulary):
        space = " "
    shown = PREFIX
    if _shows_spaces(vocabulary):
        shown = " "
    elif is_bytes and vocabulary.marker == "prefix":
        shown = ""

    for piece in pieces:
        if piece in byte_of:
            yield byte_of[piece]
        elif piece in special:
            yield piece.encode()
        else:
            if has_suffix and piece.endswith(SUFFIX):
                piece = piece.removesuffix(SUFFIX) + space
            text = piece.replace(PREFIX, shown)
            yield to_bytes(text) if is_bytes else text.encode("utf-8", "surrogatepass")


def _table(vocabulary: Vocabulary) -> TextTable:
    from volt.kernels.decode import LONG, SHORT, TextTable
    from volt.kernels.intrinsics import PADDING

    texts = list(_texts(vocabulary, vocabulary.pieces))
    rows = bytearray()
    for text in texts:
        size = len(text) if len(text) <= SHORT else LONG
        rows += text[:SHORT].ljust(SHORT, b"\0") + bytes([size])
    data = bytearray(b"".join([*texts, bytes(PADDING)]))
    return TextTable(
        np.frombuffer(rows, "<u8"),
        np.cumsum([0, *map(len, texts)], dtype=np.int64),
        np.frombuffer(data, np.uint8),
    )
