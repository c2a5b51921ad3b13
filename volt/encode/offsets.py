"""Pieces → their spans in the original line, in characters, in linear time.

    " low", pieces "lo", "w</w>"   →   spans (1, 3), (3, 4)

A piece spells a known number of characters, so the spans of a line follow from its pieces, and from
the white space between its words (volt.kernels.spans). This fails where a line has characters that
its pieces do not spell: if the normaliser changes it, if a pattern drops other text, and for some
user tokens. The characters of such a line are *traced*: each character that the pieces spell gets
its own span in the line, and spans of pieces are composed from these:

    line "Ｌow"   --hide user tokens, normalise: `align`, drop: `trace`-->   "low" with spans (0, 1),
    (1, 2), (2, 3)

Spans of unigram models are those of sentencepiece, except that

- pieces that are parts of one character, a replaced string or a user-defined symbol share its span
- a "▁" that is not in the line has an empty span directly before the next character that remains

docs/pages/limits.md lists how the spans of Hugging Face's tokenizers differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from volt import arguments
from volt.array_types import Bytes, Flags, Ints, Longs
from volt.encode.arrays import ends_to_sizes, row_indices
from volt.encode.batch_encoder import BatchEncoder, Encoded
from volt.encode.chunks import chunks_of, join_lines, split_for_threads
from volt.encode.pretokens import find_own_characters, normalize_hidden
from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE, SUFFIX
from volt.text.byte_alphabet import BYTE_TOKENS, INNER, to_bytes
from volt.text.normalizer import Normalizer, evaluate_on_series
from volt.text.normalizer_steps import CompiledStep, find_matches
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import HIDDEN
from volt.text.white_space import SPLIT_CLASS, SPLIT_SPACE
from volt.vocabulary import Vocabulary
from volt.vocabulary.cached_vocabulary import cached_with

if TYPE_CHECKING:
    import polars as pl

    from volt.kernels.spans import PieceShapes

# A normalised line, and where the text of each of its characters, and of its end, starts in the line:
# (n_characters + 1,)
Traced: TypeAlias = tuple[str, Longs]
Change: TypeAlias = "Callable[[pl.Expr], pl.Expr]"

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
_KEPT, _DROPPED, _LINE_END = b"x \n"  # kinds of traced characters
_UNKNOWN = (b"x", INNER[:1])  # texts with the shapes of unknown pieces


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
        starts = self.starts[row]
        if index < len(starts) and starts[index] <= position:
            return index
        return None

    def token_to_chars(self, line: int, index: int) -> tuple[int, int]:
        """Return where the span of an id starts and ends, in characters.

        line: the index of the line
        index: the index of the id in the line

        Raises ConfigError if the line, or the id, does not exist.
        """
        place = self._place(line, index)
        return int(self.starts[place]), int(self.ends[place])

    def token_to_word(self, line: int, index: int) -> int:
        """Return the index of an id's word in its line.

        line: the index of the line
        index: the index of the id in the line
        """
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
        if first == after:
            return None
        return first, after

    def _row(self, line: int) -> slice:
        last = len(self.offsets) - 2
        line = arguments.whole(line, "line", low=0, high=last)
        start, end = self.offsets[line : line + 2].tolist()
        return slice(start, end)

    def _place(self, line: int, index: int) -> int:
        row = self._row(line)
        last = row.stop - row.start - 1
        return int(row.start) + arguments.whole(index, "index", low=0, high=last)

    def without_unknown(self) -> Spans:
        """Return the spans without those whose id is -1."""
        is_known = self.ids >= 0
        if is_known.all():
            return self
        n_before = np.append(0, np.cumsum(is_known))
        return Spans(
            ids=self.ids[is_known],
            starts=self.starts[is_known],
            ends=self.ends[is_known],
            words=self.words[is_known],
            offsets=n_before[self.offsets],
        )


class SpanFinder:
    """Finds the spans of one vocabulary's pieces. Safe to share between threads.

    encoder: encodes lines as "marked ids" (volt.encode.rendering)
    """

    def __init__(self, vocabulary: Vocabulary, encoder: BatchEncoder) -> None:
        from volt.kernels.spans import PieceShapes

        self._vocabulary = vocabulary
        self._encoder = encoder
        [shapes] = cached_with(
            vocabulary,
            ["shapes of pieces"],
            lambda: [_find_shapes(vocabulary)],
        )
        ids = np.arange(len(shapes), dtype=np.int32)
        unk = vocabulary.unk_id
        ids[len(vocabulary) :] = -1 if unk is None else unk
        drops_spaces = vocabulary.pretokenizer.name == "whitespace"
        self._pieces = PieceShapes(
            ids=ids,
            shapes=shapes,
            n_marks=int(vocabulary.marker == "prefix"),
            is_dropped=_flag(SPLIT_SPACE if drops_spaces else ""),
        )

    def add_offsets(self, pieces: Sequence[str], line: str) -> list[tuple[str, int, int]]:
        """Return each piece of a line with its start and end."""
        spans = self.find([line], n_threads=1)
        return list(zip(pieces, spans.starts.tolist(), spans.ends.tolist(), strict=True))

    def find(self, lines: Sequence[str], *, n_threads: int | None) -> Spans:
        """Return the spans of all pieces of lines. A piece without an id has the id -1."""
        text, separator = join_lines(lines)
        if len(lines) == 1:
            numbers = self._encoder.encode_line(lines[0])
            ends = np.array([len(numbers)])
        else:
            size, n_threads = split_for_threads(len(text), n_threads)
            chunks = chunks_of(text, separator=separator, numbered=False, size=size)
            parts = self._encoder.encode(chunks, n_threads=n_threads)
            encoded = Encoded.of(parts, n_bytes=len(text))
            numbers = encoded.ids
            ends = encoded.offsets[1:]

        spans, totals = _run_loop(
            numbers,
            ends,
            _count_added_marks(self._vocabulary.pretokenizer, lines),
            np.frombuffer(text, np.uint8),
            separator,
            self._pieces,
        )
        is_traced = totals != np.fromiter(map(len, lines), np.int64)
        if self._vocabulary.normalizer.name != "none":
            is_traced |= _find_changed(self._vocabulary, lines)
        traced = np.flatnonzero(is_traced)
        if len(traced):
            self._trace_lines(lines, traced, numbers, ends, spans)
        return spans

    def _trace_lines(
        self,
        lines: Sequence[str],
        traced: Longs,
        numbers: Ints,
        ends: Longs,
        spans: Spans,
    ) -> None:
        """Correct the spans of lines whose pieces do not spell all of their characters.

        traced: the indices of these lines
        """
        traced_lines = [lines[index] for index in traced.tolist()]
        characters = list(trace(self._vocabulary, traced_lines))
        kinds, char_starts, char_ends = np.concatenate(characters, axis=1)
        sizes = ends_to_sizes(ends)[traced]
        in_trace, _ = _run_loop(
            numbers[row_indices(ends[traced] - sizes, sizes)],
            np.cumsum(sizes),
            np.zeros(len(traced), np.uint8),
            kinds.astype(np.uint8),
            _LINE_END,
            self._pieces._replace(is_dropped=_flag(" ")),
        )

        n_pieces = np.diff(in_trace.offsets)
        n_characters = np.array([line.shape[1] for line in characters])
        line_starts = np.cumsum(n_characters) - n_characters
        first = np.repeat(line_starts, n_pieces) + in_trace.starts
        after = first + in_trace.ends - in_trace.starts
        places = row_indices(spans.offsets[traced], n_pieces)
        spans.starts[places] = char_starts[first]
        spans.ends[places] = np.where(first < after, char_ends[after - 1], char_starts[first])


def _run_loop(
    numbers: Ints,
    ends: Longs,
    n_added: Bytes,
    text: Bytes,
    separator: int,
    pieces: PieceShapes,
) -> tuple[Spans, Longs]:
    """Return the spans, and the characters of each line; see `find_spans`."""
    from volt.kernels.spans import find_spans

    text.flags.writeable = False  # the type of the loop's argument
    rows = np.empty((4, len(numbers)), np.int64)
    offsets = np.zeros(len(ends) + 1, np.int64)
    totals = np.empty(len(ends), np.int64)
    n_pieces = find_spans(
        numbers,
        ends,
        n_added,
        text,
        separator,
        pieces,
        rows,
        offsets[1:],
        totals,
    )
    ids, starts, span_ends, words = rows[:, :n_pieces]
    return Spans(ids.astype(np.int32), starts, span_ends, words, offsets), totals


def _find_shapes(vocabulary: Vocabulary) -> Longs:
    """Return the shapes of all pieces, and of the four kinds of unknown pieces."""
    from volt.kernels.spans import DEPENDS_ON_TEXT, ONE_CHARACTER, STARTS_INSIDE

    pretokenizer = vocabulary.pretokenizer
    special = vocabulary.special
    id_of = vocabulary.ids
    spell = to_bytes if pretokenizer.is_bytes else str.encode
    ending = SUFFIX if vocabulary.marker == "suffix" else ""
    texts = [spell(piece.removesuffix(ending)) for piece in vocabulary.pieces]
    if vocabulary.byte_fallback:
        for byte, token in enumerate(BYTE_TOKENS):
            texts[id_of[token]] = bytes([byte])

    shapes = list[int]()
    for text in [*texts, *_UNKNOWN, *_UNKNOWN]:
        shape = ONE_CHARACTER * len(text.translate(None, INNER))
        if text and text[0] in INNER:
            shape += STARTS_INSIDE
        shapes.append(shape)

    moves_marks = pretokenizer.if_absent or pretokenizer.of_lines != pretokenizer
    drops_spaces = pretokenizer.name == "whitespace"
    n_marks = int(vocabulary.marker == "prefix" and pretokenizer.isolates_users)
    depends = {*special.lstrip, *special.rstrip}
    if moves_marks:
        depends.update(special.user)
    elif drops_spaces:
        depends.update(special.spaced)
    for token in special.user:
        shape = ONE_CHARACTER * (len(token) + n_marks)
        if token in depends:
            shape += DEPENDS_ON_TEXT
        shapes[id_of[token]] = shape
    return np.array(shapes, np.int64)


def _flag(characters: str) -> Bytes:
    """Return an array with 1 at the code points of characters, up to the last of them."""
    codes = list(map(ord, characters))
    flags = np.zeros(1 + max(codes, default=-1), np.uint8)
    flags[codes] = 1
    return flags


def _count_added_marks(pretokenizer: PreTokenizer, lines: Sequence[str]) -> Bytes:
    """Return how many "▁" the pre-tokenizer puts before each line, (n_lines,)."""
    counts = np.zeros(len(lines), np.uint8)
    if pretokenizer.dummy_prefix:
        unmarked = {""}
        if pretokenizer.if_absent:
            unmarked |= {" ", SPACE}
        counts[:] = [line[:1] not in unmarked for line in lines]
    return counts


def _find_changed(vocabulary: Vocabulary, lines: Sequence[str]) -> Flags:
    """Return whether the normaliser moves characters of each line, (n_lines,)."""
    # Without steps, it only changes the case of letters in ASCII.
    is_changed = np.array([not line.isascii() for line in lines], bool)
    if vocabulary.normalizer.steps:  # the text between user tokens is normalised alone
        has_users = bool(vocabulary.special.user)
        is_changed[:] = [has_users or not vocabulary.normalizer.keeps(line) for line in lines]
    doubtful = np.flatnonzero(is_changed)
    if len(doubtful):
        lines = [lines[index] for index in doubtful.tolist()]
        lines = find_own_characters(vocabulary, lines).put(lines)
        hidden = list(map(vocabulary.special.hide_text, lines))
        pairs = zip(hidden, normalize_hidden(vocabulary, lines), strict=True)
        is_changed[doubtful] = [before != after for before, after in pairs]
    return is_changed


def trace(vocabulary: Vocabulary, lines: Sequence[str]) -> Iterator[Longs]:
    """Yield, for each line, the characters that its pieces spell and those between words, (3, n).

    The rows are: _KEPT or _DROPPED, and the start and end of the character's span in the line. A last
    column stands for the line's end. The characters of a user token share its span. A "▁" that the
    pre-tokenizer adds has no width.
    """
    special = vocabulary.special
    has_users = bool(special.user)
    own = find_own_characters(vocabulary, lines)
    hidden = list(map(special.hide_text, own.put(lines)))
    aligned = _align_segments(vocabulary, hidden)
    texts = [text for text, _ in aligned]
    matches_of_texts = _find_matches(vocabulary.pretokenizer, texts, hidden=has_users)
    for line, (text, spans), matches in zip(lines, aligned, matches_of_texts, strict=True):
        is_visible = np.ones(len(line) + 1, bool)
        for start, end in special.spans(line):
            is_visible[start + 1 : end] = False
        in_line = np.flatnonzero(is_visible)  # position in the hidden line → position in the line

        rows = np.full((3, len(text) + 1), len(line))
        rows[0, :-1] = _DROPPED
        rows[0, -1] = _LINE_END
        rows[1:, :-1] = in_line[spans.T]
        for start, end in matches:
            rows[0, start:end] = _KEPT
        sizes = np.ones(len(text) + 1, np.int64)
        if has_users:
            for position, character in enumerate(text):
                user = special.revealed(ord(character))
                sizes[position] = len(user or " ")

        marks = vocabulary.pretokenizer.dummy_places(text, hidden=has_users)
        added = rows[:, marks]
        added[0] = _KEPT
        added[2] = added[1]
        rows = np.insert(rows, marks, added, axis=1)
        sizes = np.insert(sizes, marks, 1)
        yield np.repeat(rows, sizes, axis=1)


def _align_segments(vocabulary: Vocabulary, hidden: Sequence[str]) -> list[tuple[str, Longs]]:
    """Align lines with hidden user tokens. Each segment between them is normalised alone by steps."""
    if not (vocabulary.normalizer.steps and vocabulary.special.user):
        return align(vocabulary.normalizer, hidden)
    parts_of_lines = list(map(HIDDEN.split, hidden))
    segments = chain.from_iterable(parts[::2] for parts in parts_of_lines)
    aligned = iter(align(vocabulary.normalizer, list(segments)))
    result = list[tuple[str, Longs]]()
    for parts in parts_of_lines:
        line = ""
        spans_of_parts = list[Longs]()
        place = 0
        for index, part in enumerate(parts):
            user_token = part, np.array([[0, 1]])
            text, spans = user_token if index % 2 else next(aligned)
            line += text
            spans_of_parts.append(spans + place)
            place += len(part)
        result.append((line, np.concatenate(spans_of_parts)))
    return result


def align(normalizer: Normalizer, lines: Sequence[str]) -> list[tuple[str, Longs]]:
    """Normalise lines. Return each normalised line, and the span of the line for each character.

    spans: (n_characters, 2) int64, the start and end in the line of what became each character of
        the normalised line; several characters may share a span

    The span of a character ends where the text of another character starts, so that it covers
    removed text that follows.
    """
    about_to_use_polars()
    result = list[tuple[str, Longs]]()
    for text, starts in _trace_normalizer(normalizer, lines):
        next_start = np.searchsorted(starts, starts[:-1], side="right")
        ends = starts[np.minimum(next_start, len(text))]
        result.append((text, np.stack([starts[:-1], ends], axis=1)))
    return result


def _trace_normalizer(normalizer: Normalizer, lines: Sequence[str]) -> list[Traced]:
    """Return the normalised lines, and where the text of their characters starts."""
    if not normalizer.steps:
        return _trace_parts(normalizer.apply, lines)
    result = [(line, np.arange(len(line) + 1)) for line in lines]
    for step in normalizer.compiled().steps:
        if isinstance(step, CompiledStep):
            result = _follow(step.trace, result)
            continue
        for row, change in zip(step.rows, step.changes, strict=True):
            trace_step = partial(_trace_change, row, change)
            result = _follow(trace_step, result)
    return result


def _follow(
    trace_step: Callable[[Sequence[str]], list[Traced]], traced: list[Traced]
) -> list[Traced]:
    """Return the results of a further step."""
    traced_again = trace_step([text for text, _ in traced])
    pairs = zip(traced_again, traced, strict=True)
    return [(text, starts[places]) for (text, places), (_, starts) in pairs]


def _trace_change(row: list[Any], change: Change, lines: Sequence[str]) -> list[Traced]:
    """Trace a step that Polars runs."""
    match row:
        case ["replace", searched, content, kind]:
            pattern = searched if kind == "regex" else re.escape(searched)
            size = len(content)
        case ["strip", left, right]:
            patterns = [r"\A\s+"] * left + [r"\s+\z"] * right
            pattern = "|".join(patterns) or r"[^\s\S]"
            size = 0
        case ["prepend", content]:
            pattern = r"\A[\s\S]"
            size = len(content) + 1
        case _:
            return _trace_parts(change, lines)
    import polars as pl

    series = pl.Series("text", lines, dtype=pl.String)
    texts = evaluate_on_series(change, series)
    matches = find_matches(pattern, series)
    return [
        (text, _find_starts(len(line), spans, size))
        for line, text, spans in zip(lines, texts, matches, strict=True)
    ]


def _find_starts(length: int, matches: Iterable[tuple[int, int]], size: int) -> Longs:
    """Return where the text of each character, and of the end, starts in a line, in which `size`
    characters replace each match."""
    starts = list[int]()
    start = end = 0
    for start, after in matches:
        starts.extend(range(end, start))
        starts.extend([start] * size)
        end = after
    starts.extend(range(end, length))
    ends_with_removed = size == 0 and end == length
    starts.append(start if ends_with_removed else length)
    return np.array(starts, np.int64)


def _trace_parts(change: Change, lines: Sequence[str]) -> list[Traced]:
    """Divide each line into the shortest parts that, changed one by one, give the changed line. All
    characters of a part that changes start where it does.
    """
    import polars as pl

    series = pl.Series("text", lines, dtype=pl.String)
    texts = evaluate_on_series(change, series).to_list()
    starts_of_line = dict[int, Longs]()
    for pattern in (_CLUSTER, _WORD_OR_GAP, _LINE):
        remaining = [index for index in range(len(lines)) if index not in starts_of_line]
        if not remaining:
            break
        parts_of_lines = series[remaining].str.extract_all(pattern)
        parts = parts_of_lines.explode().drop_nulls()
        normal_parts = evaluate_on_series(change, parts)
        starts, part_starts, normal_starts = _align_parts(parts, normal_parts)
        strings = normal_parts.to_list()
        part_ends = np.cumsum(parts_of_lines.list.len().to_numpy(), dtype=np.int64).tolist()
        for index, (first, after) in zip(remaining, pairwise([0, *part_ends]), strict=True):
            normal_line = "".join(strings[first:after])
            # a sigma's form depends on its context
            if normal_line.replace("ς", "σ") == texts[index].replace("ς", "σ"):
                in_text = starts[normal_starts[first] : normal_starts[after]]
                in_line = np.append(in_text, part_starts[after]) - part_starts[first]
                starts_of_line[index] = in_line
    return [(text, starts_of_line[index]) for index, text in enumerate(texts)]


def _align_parts(parts: pl.Series, normal_parts: pl.Series) -> tuple[Longs, Longs, Longs]:
    """Return where the part of each character of normalised parts starts in the concatenated parts,
    and where each part starts in the concatenated parts, and in the concatenated normalised parts.
    """
    lengths = parts.str.len_chars().to_numpy().astype(np.int64)
    normal_lengths = normal_parts.str.len_chars().to_numpy().astype(np.int64)
    part_starts = np.append(0, np.cumsum(lengths))
    starts = np.repeat(part_starts[:-1], normal_lengths)

    # A part that does not change maps character by character.
    index_in_part = row_indices(np.zeros(len(normal_lengths), np.int64), normal_lengths)
    is_unchanged = np.repeat((parts == normal_parts).to_numpy(), normal_lengths)
    starts[is_unchanged] += index_in_part[is_unchanged]
    return starts, part_starts, np.append(0, np.cumsum(normal_lengths))


def _find_matches(
    pretokenizer: PreTokenizer, texts: Sequence[str], *, hidden: bool
) -> Iterator[Iterable[tuple[int, int]]]:
    """Yield the spans of the characters of each text that its words contain."""
    import polars as pl

    is_regex = pretokenizer.name.startswith("regex:")
    drops_text = pretokenizer.name == "whitespace" or pretokenizer.isolates_users
    series = pl.Series("text", texts, dtype=pl.String)
    if is_regex:
        if pretokenizer.keeps_spaces:
            series = series.str.replace_all(SPACE, " ", literal=True)
        yield from find_matches(pretokenizer.pattern, series)
    elif drops_text:
        words = pretokenizer.extract(pl.col("text"), hidden=hidden)
        words_of_texts = series.to_frame().select(words).to_series().to_list()
        for text, words_of_text in zip(texts, words_of_texts, strict=True):
            yield _find_words(pretokenizer, text, words_of_text)
    else:
        for text in texts:
            yield [(0, len(text))]


def _find_words(
    pretokenizer: PreTokenizer,
    text: str,
    words: Sequence[str],
) -> Iterator[tuple[int, int]]:
    """Yield the span of each word. A word is searched from the end of the previous word on."""
    text_of_mark = SPACE
    if pretokenizer.has_own_pattern and not pretokenizer.is_bytes:
        text_of_mark = " "
    text = text.replace(SPACE, text_of_mark)
    end = 0
    for word in words:
        plain = word.replace(SPACE, text_of_mark)
        if pretokenizer.is_bytes:
            plain = to_bytes(word).decode()
        start = text.index(plain, end)
        end = start + len(plain)
        yield start, end
