"""Pieces → their spans in the original line, in characters, in linear time.

    " low", pieces "lo", "w</w>"   →   spans (1, 3), (3, 4)

A piece spells a known number of characters, so the spans of a line follow from its pieces, and from
the white space between its words (volt.kernels.spans). This fails where a line has characters that
its pieces do not spell: if the normaliser changes it, if a pattern drops other text, and for some
user tokens. The characters of such a line are *traced*: each character that the pieces spell gets
its own span in the line, and spans of pieces are composed from these:

    line "Ｌow"   --hide user tokens, normalise: `align`, drop: `_trace`-->   "low" with spans (0, 1),
    (1, 2), (2, 3)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from volt import arguments
from volt.display import counted
from volt.encode.arrays import Bytes, Flags, Ints, Longs, ends_to_sizes, row_indices
from volt.encode.pretokens import find_own_characters
from volt.encode.rendering import INNER_CHARACTERS
from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE, SUFFIX
from volt.text.byte_alphabet import BYTE_TOKENS, INNER, to_bytes
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.white_space import SPLIT_CLASS, SPLIT_SPACE
from volt.vocabulary import Vocabulary
from volt.vocabulary.cached_vocabulary import cached_with

if TYPE_CHECKING:
    import polars as pl

    from volt.kernels.spans import PieceShapes

# Regexes for parts of a line that are normalised one by one, from short to long parts.
# A character and those that may combine with it: marks, Hangul vowels and finals, and characters
# that NFKC turns into them.
_CLUSTER = (
    r"(?s).[\p{M}\x{1160}-\x{11FF}\x{E33}\x{EB3}\x{3133}\x{3135}\x{3136}\x{313A}-\x{313F}\x{314F}-\x{3164}"
    r"\x{3167}-\x{316D}\x{316F}\x{3170}\x{3182}\x{3183}\x{3187}-\x{318E}\x{FF9E}-\x{FFA0}\x{FFA3}\x{FFA5}"
    r"\x{FFA6}\x{FFAA}-\x{FFAF}\x{FFC2}-\x{FFC7}\x{FFCA}-\x{FFCF}\x{FFD2}-\x{FFD7}\x{FFDA}-\x{FFDC}]*"
)
_WORD_OR_GAP = rf"[^{SPLIT_CLASS}]+|[{SPLIT_CLASS}]+"
_LINE = r"(?s)^.*$"
_KEPT, _DROPPED, _LINE_END = b"x \n"  # for traced characters


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The ids of many lines with their spans in the lines, as flat numpy arrays.

    ids: (n_ids,) int32, equal to the ids of `Encoder.encode_batch`
    starts, ends: (n_ids,) int64, the span of each id in its line, in characters
    words: (n_ids,) int64, the index of the word in its line
    offsets: (n_lines + 1,) int64; line i has ids[offsets[i]:offsets[i + 1]]

    The methods find ids, characters and words of one line. An index counts the ids of its line, from
    0. Ids that are parts of one character, such as byte tokens, share its span; a marker of words
    that the line does not contain has an empty span.

    >>> from volt.encode.encoder import Encoder
    >>> vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>"))
    >>> spans = Encoder(vocabulary).encode_spans(["low lo"])
    >>> spans.ids.tolist(), spans.starts.tolist(), spans.ends.tolist(), spans.words.tolist()
    ([6, 7, 4, 0], [0, 2, 4, 5], [2, 3, 5, 6], [0, 0, 1, 1])
    >>> [spans.char_to_token(0, position) for position in range(6)]
    [0, 0, 1, None, 2, 3]
    >>> spans.token_to_chars(0, 1), spans.token_to_word(0, 1), spans.word_to_tokens(0, 1)
    ((2, 3), 0, (2, 4))
    """

    ids: Ints
    starts: Longs
    ends: Longs
    words: Longs
    offsets: Longs

    def char_to_token(self, line: int, position: int) -> int | None:
        """Return the index of the first id whose span contains a character.

        Return None if no span does: for white space between words, for a character without an id, or
        after the end of the line.

        line: the index of the line
        position: the index of the character in the line, 0 or more

        >>> from volt.encode.encoder import Encoder
        >>> vocabulary = Vocabulary(merges=(), tokens=("l", "o</w>"), byte_fallback=True)
        >>> spans = Encoder(vocabulary).encode_spans(["é lo"])
        >>> spans.starts.tolist()  # <0xC3> <0xA9> </w> l o</w>
        [0, 0, 1, 2, 3]
        >>> [spans.char_to_token(0, position) for position in range(4)]
        [0, None, 3, 4]
        """
        row = self._row(line)
        position = arguments.whole(position, "position", low=0)
        index = int(np.searchsorted(self.ends[row], position, side="right"))
        if index < row.stop - row.start and self.starts[row.start + index] <= position:
            return index
        return None

    def token_to_chars(self, line: int, index: int) -> tuple[int, int]:
        """Return where the span of an id starts and ends, in characters.

        line: the index of the line
        index: the index of the id in the line; IndexError if the line has no such id
        """
        at = self._place(line, index)
        return int(self.starts[at]), int(self.ends[at])

    def token_to_word(self, line: int, index: int) -> int:
        """Return the index of an id's word in the line. line, index: see `token_to_chars`"""
        return int(self.words[self._place(line, index)])

    def word_to_tokens(self, line: int, word: int) -> tuple[int, int] | None:
        """Return the index of a word's first id, and the index after its last.

        Return None if the line has no such word, or if the word has no ids.

        line: the index of the line
        word: the index of the word in the line, 0 or more
        """
        words = self.words[self._row(line)]
        word = arguments.whole(word, "word", low=0)
        first, after = np.searchsorted(words, [word, word + 1]).tolist()
        return (first, after) if first < after else None

    def _row(self, line: int) -> slice:
        line = arguments.whole(line, "line")
        n_lines = len(self.offsets) - 1
        if not -n_lines <= line < n_lines:
            raise IndexError(f"line {line} is out of range for {counted(n_lines, 'line')}")
        line %= n_lines
        return slice(int(self.offsets[line]), int(self.offsets[line + 1]))

    def _place(self, line: int, index: int) -> int:
        row = self._row(line)
        n_ids = row.stop - row.start
        index = arguments.whole(index, "index")
        if not 0 <= index < n_ids:
            raise IndexError(
                f"index {index} is out of range for {counted(n_ids, 'id')} of the line"
            )
        return int(row.start) + index

    def without_unknown(self) -> Spans:
        """Return the spans without those whose id is -1."""
        is_known = self.ids >= 0
        if is_known.all():
            return self
        return Spans(
            ids=self.ids[is_known],
            starts=self.starts[is_known],
            ends=self.ends[is_known],
            words=self.words[is_known],
            offsets=np.append(0, np.cumsum(is_known))[self.offsets],
        )


class SpanFinder:
    """Finds the spans of one vocabulary's pieces. Safe to share between threads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._pieces = _describe_pieces(vocabulary)

    def find(
        self, lines: Sequence[str], text: bytes, separator: int, *, numbers: Ints, ends: Longs
    ) -> Spans:
        """Return the spans of all pieces of lines. A piece without an id has the id -1.

        lines: texts
        text: the lines as UTF-8, with the byte `separator` after each
        numbers: the lines as "marked ids" (volt.encode.rendering)
        ends: (n_lines,) int64, where the numbers of each line end
        """
        n_added = _count_added_marks(self._vocabulary.pretokenizer, lines)
        spans, totals = _run_loop(numbers, ends, n_added, text, separator, self._pieces)
        is_traced = totals != np.fromiter(map(len, lines), np.int64, len(lines))
        if self._vocabulary.normalizer.name != "none":
            is_traced[_find_changed(self._vocabulary, lines)] = True
        if is_traced.any():
            self._trace_lines(lines, np.flatnonzero(is_traced), numbers, ends, spans)
        return spans

    def _trace_lines(
        self, lines: Sequence[str], traced: Longs, numbers: Ints, ends: Longs, spans: Spans
    ) -> None:
        """Correct the spans of lines whose pieces do not spell all of their characters.

        traced: the indices of these lines
        """
        sizes = ends_to_sizes(ends)[traced]
        numbers = numbers[row_indices(ends[traced] - sizes, sizes)]
        lines_of_characters = list(trace(self._vocabulary, [lines[i] for i in traced.tolist()]))
        characters = Characters(*map(np.concatenate, zip(*lines_of_characters, strict=True)))
        in_trace, _ = _run_loop(
            numbers,
            np.cumsum(sizes),
            np.zeros(len(traced), np.uint8),
            characters.kinds.tobytes(),
            _LINE_END,
            self._pieces._replace(is_dropped=_flags_of(" ")),
        )

        n_characters = [len(line.kinds) for line in lines_of_characters]
        line_starts = np.append(0, np.cumsum(n_characters)[:-1])
        line_starts = np.repeat(line_starts, np.diff(in_trace.offsets))
        starts = characters.starts[line_starts + in_trace.starts]
        last_ends = characters.ends[line_starts + in_trace.ends - 1]
        places = row_indices(spans.offsets[traced], np.diff(in_trace.offsets))
        spans.starts[places] = starts
        spans.ends[places] = np.where(in_trace.starts < in_trace.ends, last_ends, starts)


def _run_loop(
    numbers: Ints, ends: Longs, n_added: Bytes, text: bytes, separator: int, pieces: PieceShapes
) -> tuple[Spans, Longs]:
    """Return the spans, and the characters of each line; see `find_spans`."""
    from volt.kernels.spans import find_spans

    ids = np.empty(len(numbers), np.int32)
    spans = np.empty((3, len(numbers)), np.int64)
    offsets = np.zeros(len(ends) + 1, np.int64)
    totals = np.empty(len(ends), np.int64)
    data = np.frombuffer(text, np.uint8)
    n = find_spans(numbers, ends, n_added, data, separator, pieces, ids, spans, offsets[1:], totals)
    starts, span_ends, words = spans[:, :n]
    return Spans(ids[:n], starts, span_ends, words, offsets), totals


def _describe_pieces(vocabulary: Vocabulary) -> PieceShapes:
    """Return what the loop needs to know of all numbers of "marked ids"."""
    from volt.kernels.spans import PieceShapes

    [shapes] = cached_with(vocabulary, ["shapes of pieces"], lambda: [_shape_pieces(vocabulary)])
    unknown_id = -1 if vocabulary.unk_id is None else vocabulary.unk_id
    ids = np.arange(len(shapes), dtype=np.int32)
    ids[len(vocabulary) :] = unknown_id
    drops_spaces = vocabulary.pretokenizer.name == "whitespace"
    return PieceShapes(
        ids=ids,
        shapes=shapes,
        n_marks=int(vocabulary.marker == "prefix"),
        is_dropped=_flags_of(SPLIT_SPACE if drops_spaces else ""),
    )


def _shape_pieces(vocabulary: Vocabulary) -> Longs:
    """Return the shapes of all pieces, and of the four kinds of unknown pieces."""
    from volt.kernels.spans import DEPENDS_ON_TEXT, ONE_CHARACTER, STARTS_INSIDE

    pretokenizer = vocabulary.pretokenizer
    special = vocabulary.special
    pieces: Sequence[str] = vocabulary.pieces
    if vocabulary.marker == "suffix":
        pieces = [piece.removesuffix(SUFFIX) for piece in pieces]

    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    shapes = np.append(ONE_CHARACTER * sizes, 2 * [ONE_CHARACTER, STARTS_INSIDE])
    if pretokenizer.is_bytes:
        codes = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32)
        is_inner = np.append(np.isin(codes, list(map(ord, INNER_CHARACTERS))), False)
        starts = np.cumsum(sizes) - sizes
        n_inner = np.append(0, np.cumsum(is_inner))
        shapes[:-4] -= ONE_CHARACTER * (n_inner[starts + sizes] - n_inner[starts])
        shapes[:-4] += STARTS_INSIDE * (is_inner[starts] & (sizes > 0))
    elif vocabulary.byte_fallback:
        for byte, token in enumerate(BYTE_TOKENS):
            shapes[vocabulary.ids[token]] = STARTS_INSIDE if byte in INNER else ONE_CHARACTER

    moves_marks = pretokenizer.if_absent or pretokenizer.of_lines != pretokenizer
    n_marks = int(vocabulary.marker == "prefix" and pretokenizer.isolates_users)
    for token in special.user:
        shape = ONE_CHARACTER * (len(token) + n_marks)
        strips = token in special.lstrip or token in special.rstrip
        if moves_marks or strips or (pretokenizer.name == "whitespace" and token in special.spaced):
            shape |= DEPENDS_ON_TEXT
        shapes[vocabulary.ids[token]] = shape
    return shapes


def _flags_of(characters: str) -> Bytes:
    """Return an array with 1 at the code points of characters, up to the last of them."""
    codes = list(map(ord, characters))
    flags = np.zeros(1 + max(codes, default=-1), np.uint8)
    flags[codes] = 1
    return flags


def _count_added_marks(pretokenizer: PreTokenizer, lines: Sequence[str]) -> Bytes:
    """Return how many "▁" the pre-tokenizer puts before each line, (n_lines,)."""
    if not pretokenizer.dummy_prefix:
        return np.zeros(len(lines), np.uint8)
    unmarked = ("", " ", SPACE) if pretokenizer.if_absent else ("",)
    return np.array([line[:1] not in unmarked for line in lines], np.uint8)


def _find_changed(vocabulary: Vocabulary, lines: Sequence[str]) -> list[int]:
    """Return the indices of the lines whose characters the normaliser changes.

    In ASCII, only the case of letters changes, which moves no character.
    """
    candidates = [index for index, line in enumerate(lines) if not line.isascii()]
    if not candidates:
        return []
    import polars as pl

    about_to_use_polars()
    hidden = [vocabulary.special.hide_text(lines[index]) for index in candidates]
    normal = vocabulary.normalizer.apply_series(pl.Series(hidden, dtype=pl.String)).to_list()
    rows = zip(candidates, hidden, normal, strict=True)
    return [index for index, before, after in rows if before != after]


class Characters(NamedTuple):
    """The characters that the pieces of a line spell, and those between words; then the line's end.

    kinds: (n + 1,) uint8, _KEPT or _DROPPED, and _LINE_END
    starts, ends: (n + 1,) int64, the span of each character in the line
    """

    kinds: Bytes
    starts: Longs
    ends: Longs


def trace(vocabulary: Vocabulary, lines: Sequence[str]) -> Iterator[Characters]:
    """Yield the characters of each line, as its pieces spell them.

    The characters of a user token share its span. A "▁" that the pre-tokenizer adds has no width.
    """
    special = vocabulary.special
    has_users = bool(special.user)
    own = find_own_characters(vocabulary, lines)
    hidden = list(map(special.hide_text, own.put(lines)))
    aligned = align(vocabulary.normalizer, hidden)
    texts = [text for text, _ in aligned]
    dropped = _find_dropped(vocabulary.pretokenizer, texts, hidden=has_users)
    for line, (text, spans), is_dropped in zip(lines, aligned, dropped, strict=True):
        is_visible = np.ones(len(line) + 1, bool)
        for start, end in special.spans(line):
            is_visible[start + 1 : end] = False
        in_line = np.flatnonzero(is_visible)  # position in the hidden line → position in the line

        kinds = np.append(np.where(is_dropped, _DROPPED, _KEPT), _LINE_END).astype(np.uint8)
        starts = np.append(in_line[spans[:, 0]], len(line))
        ends = np.append(in_line[spans[:, 1]], len(line))
        sizes = np.ones(len(kinds), np.int64)
        if has_users:
            for position, character in enumerate(text):
                user = special.revealed(ord(character))
                if user is not None:
                    sizes[position] = len(user)

        marks = vocabulary.pretokenizer.dummy_places(text, hidden=has_users)
        ends = np.insert(ends, marks, starts[marks])
        starts = np.insert(starts, marks, starts[marks])
        kinds = np.insert(kinds, marks, _KEPT)
        sizes = np.insert(sizes, marks, 1)
        yield Characters(np.repeat(kinds, sizes), np.repeat(starts, sizes), np.repeat(ends, sizes))


def align(normalizer: Normalizer, lines: Sequence[str]) -> list[tuple[str, Longs]]:
    """Normalise lines. Return each normalised line, and the span of the line for each character.

    spans: (n_characters, 2) int64, the start and end in the line of what became each character of
        the normalised line; several characters may share a span

    Each line is divided into the shortest parts that, normalised one by one, give the normalised
    line. A part that changes is the span of all its characters.
    """
    import polars as pl

    about_to_use_polars()
    series = pl.Series(lines, dtype=pl.String)
    texts = normalizer.apply_series(series).to_list()
    spans_of_line = dict[int, Longs]()
    for pattern in (_CLUSTER, _WORD_OR_GAP, _LINE):
        remaining = [index for index in range(len(lines)) if index not in spans_of_line]
        if not remaining:
            break
        parts_of_lines = series[remaining].str.extract_all(pattern)
        parts = parts_of_lines.explode().drop_nulls()
        normal_parts = normalizer.apply_series(parts)
        spans, part_starts, normal_starts = _align_parts(parts, normal_parts)
        strings = normal_parts.to_list()
        part_ends = np.cumsum(parts_of_lines.list.len().to_numpy(), dtype=np.int64).tolist()
        for index, (first, after) in zip(remaining, pairwise([0, *part_ends]), strict=True):
            normal_line = "".join(strings[first:after])
            # a sigma's form depends on its context
            if normal_line.replace("ς", "σ") == texts[index].replace("ς", "σ"):
                in_text = spans[normal_starts[first] : normal_starts[after]]
                spans_of_line[index] = in_text - part_starts[first]
    return [(text, spans_of_line[index]) for index, text in enumerate(texts)]


def _align_parts(parts: pl.Series, normal_parts: pl.Series) -> tuple[Longs, Longs, Longs]:
    """Return the span of each character of normalised parts in the concatenated parts, and where
    each part starts in the concatenated parts, and in the concatenated normalised parts.
    """
    lengths = parts.str.len_chars().to_numpy().astype(np.int64)
    normal_lengths = normal_parts.str.len_chars().to_numpy().astype(np.int64)
    part_starts = np.append(0, np.cumsum(lengths))
    starts = np.repeat(part_starts[:-1], normal_lengths)
    sizes = np.repeat(lengths, normal_lengths)

    # A part that does not change maps character by character.
    index_in_part = row_indices(np.zeros(len(normal_lengths), np.int64), normal_lengths)
    is_unchanged = np.repeat((parts == normal_parts).to_numpy(), normal_lengths)
    starts[is_unchanged] += index_in_part[is_unchanged]
    sizes[is_unchanged] = 1
    spans = np.stack([starts, starts + sizes], axis=1)
    return spans, part_starts, np.append(0, np.cumsum(normal_lengths))


def _find_dropped(
    pretokenizer: PreTokenizer, texts: Sequence[str], *, hidden: bool
) -> Iterator[Flags]:
    """Yield, for each normalised text, which characters no word contains, (n_characters,)."""
    if pretokenizer.name == "whitespace":
        for text in texts:
            yield np.array([character in SPLIT_SPACE for character in text], bool)
        return
    if pretokenizer.name.startswith("regex:"):
        matches_of_texts = _find_matches(pretokenizer, texts)
    elif pretokenizer.isolates_users:
        matches_of_texts = (list(_find_words(pretokenizer, text, hidden=hidden)) for text in texts)
    else:
        matches_of_texts = ([(0, len(text))] for text in texts)
    for text, matches in zip(texts, matches_of_texts, strict=True):
        is_dropped = np.ones(len(text), bool)
        for start, end in matches:
            is_dropped[start:end] = False
        yield is_dropped


def _find_words(
    pretokenizer: PreTokenizer, text: str, *, hidden: bool
) -> Iterator[tuple[int, int]]:
    """Yield the span of each word. A word is searched from the end of the previous word on."""
    is_bytes = pretokenizer.is_bytes
    searched_text = text if is_bytes else text.replace(SPACE, " ")
    end = 0
    for word in pretokenizer.split(text, hidden=hidden):
        plain = to_bytes(word).decode() if is_bytes else word.replace(SPACE, " ")
        start = searched_text.index(plain, end)
        end = start + len(plain)
        yield start, end


def _find_matches(
    pretokenizer: PreTokenizer, texts: Sequence[str]
) -> Iterator[list[tuple[int, int]]]:
    """Yield the spans of the matches of a regex in each text.

    Polars does not return positions, so each match is put between two characters that the texts
    lack.
    """
    import polars as pl

    about_to_use_polars()
    used = set("".join(texts))
    unused = (character for character in map(chr, range(0xE000, 0x110000)) if character not in used)
    before_match = next(unused)
    after_match = next(unused)
    series = pl.Series(texts, dtype=pl.String)
    if pretokenizer.keeps_spaces:
        series = series.str.replace_all(SPACE, " ", literal=True)
    bracketed = series.str.replace_all(pretokenizer.pattern, f"{before_match}${{0}}{after_match}")
    for text in bracketed.to_list():
        gap, *matches = text.split(before_match)
        position = len(gap)
        spans = []
        for match in matches:
            word, gap = match.split(after_match)
            spans.append((position, position + len(word)))
            position += len(word) + len(gap)
        yield spans
