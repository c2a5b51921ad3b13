"""Pieces → their spans in the original line, in characters, in linear time.

    " Ｌow"   →   ("lo", 1, 3), ("w</w>", 3, 4)   with the normaliser nfkc+lowercase

A line becomes pieces in four steps; the spans of the last are mapped back through all of them:

    line  --hide user tokens-->  hidden line  --normalise: `align`-->  normalised line
          --split: `find_word_spans`-->  words  --merge: `_find_spans_in_word`-->  pieces
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from volt.encode.arrays import Ints, Longs, row_indices
from volt.encode.pretokens import find_own_characters
from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE, SUFFIX
from volt.text.byte_alphabet import BYTE_TOKENS, to_bytes
from volt.text.normalizer import Normalizer, check_text
from volt.text.pretokenizer import PreTokenizer
from volt.text.white_space import SPLIT_CLASS
from volt.vocabulary import Vocabulary

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


def align(normalizer: Normalizer, line: str) -> tuple[str, Longs]:
    """Normalise one line. Return the normalised line, and the span of the line for each character.

    spans: (n_characters, 2) int64, the start and end in the line of what became each character of
        the normalised line; several characters may share a span

    The line is divided into the shortest parts that, normalised one by one, give the normalised
    line. A part that changes is the span of all its characters.
    """
    import polars as pl

    text = normalizer.normalize(line)
    line_series = pl.Series([line], dtype=pl.String)
    for pattern in (_CLUSTER, _WORD_OR_GAP, _LINE):
        parts = line_series.str.extract_all(pattern).explode().drop_nulls()
        normal_parts = normalizer.apply_series(parts)
        # a sigma's form depends on its context
        if "".join(normal_parts).replace("ς", "σ") == text.replace("ς", "σ"):
            break

    lengths = parts.str.len_chars().to_numpy().astype(np.int64)
    normal_lengths = normal_parts.str.len_chars().to_numpy().astype(np.int64)
    starts = np.repeat(np.cumsum(lengths) - lengths, normal_lengths)
    sizes = np.repeat(lengths, normal_lengths)

    # A part that does not change maps character by character.
    index_in_part = row_indices(np.zeros(len(normal_lengths), np.int64), normal_lengths)
    is_unchanged = np.repeat((parts == normal_parts).to_numpy(), normal_lengths)
    starts[is_unchanged] += index_in_part[is_unchanged]
    sizes[is_unchanged] = 1
    return text, np.stack([starts, starts + sizes], axis=1)


def find_word_spans(
    pretokenizer: PreTokenizer, text: str, *, hidden: bool = True
) -> list[tuple[str, int, int]]:
    """Return each word with its start and end in a normalised text, in characters.

    A "▁" that the pre-tokenizer adds has no width.

    hidden: whether private characters stand for user tokens
    """
    words = pretokenizer.split(text, hidden=hidden)
    if pretokenizer.name.startswith("regex:"):
        spans = _match_spans(pretokenizer, text)
    else:
        spans = _spans_in_order(pretokenizer, text, words, hidden=hidden)
    return [(word, *span) for word, span in zip(words, spans, strict=True)]


def _spans_in_order(
    pretokenizer: PreTokenizer, text: str, words: Sequence[str], *, hidden: bool
) -> Iterator[tuple[int, int]]:
    """Yield the span of each word. A word is searched from the end of the previous word on."""
    dummy_at = pretokenizer.dummy_places(text, hidden=hidden)
    marked_text = text  # with the "▁" that the pre-tokenizer adds
    if dummy_at:
        bounds = pairwise([0, *dummy_at, len(text)])
        marked_text = SPACE.join(text[start:end] for start, end in bounds)
    keeps_spaces = pretokenizer.keeps_spaces and not pretokenizer.is_bytes
    text_of_mark = " " if keeps_spaces else SPACE
    marked_text = marked_text.replace(SPACE, text_of_mark)
    dummy_at = [position + n_before for n_before, position in enumerate(dummy_at)]

    end = 0
    for word in words:
        plain = to_bytes(word).decode() if pretokenizer.is_bytes else word
        start = marked_text.index(plain.replace(SPACE, text_of_mark), end)
        end = start + len(plain)
        yield start - bisect_left(dummy_at, start), end - bisect_left(dummy_at, end)


def _match_spans(pretokenizer: PreTokenizer, text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each match of a regex.

    Polars does not return positions, so each match is put between two characters that the text
    lacks.
    """
    import polars as pl

    about_to_use_polars()
    used = set(text)
    unused = (character for character in map(chr, range(0xE000, 0x110000)) if character not in used)
    before_match = next(unused)
    after_match = next(unused)
    source = text.replace(SPACE, " ") if pretokenizer.keeps_spaces else text
    series = pl.Series([source], dtype=pl.String)
    bracketed = series.str.replace_all(pretokenizer.pattern, f"{before_match}${{0}}{after_match}")

    gap, *matches = str(bracketed.item()).split(before_match)
    position = len(gap)
    for match in matches:
        word, gap = match.split(after_match)
        if word:
            yield position, position + len(word)
        position += len(word) + len(gap)


EncodeWords = Callable[[Sequence[str]], Sequence[Sequence[str]]]  # words → the pieces of each word


def encode_offsets(
    vocabulary: Vocabulary, line: str, *, encode_words: EncodeWords
) -> Iterator[tuple[str, int, int, int]]:
    """Yield each piece with its start and end in the line, and the index of its word."""
    special = vocabulary.special
    is_bytes = vocabulary.pretokenizer.is_bytes
    is_visible = np.ones(len(check_text(line)) + 1, bool)
    for start, end in special.spans(line):
        is_visible[start + 1 : end] = False
    in_line = np.flatnonzero(is_visible)  # position in the hidden line → position in the line

    own = find_own_characters(vocabulary, [line])
    [line_without_own] = own.put([line])
    normal, hidden_spans = align(vocabulary.normalizer, special.hide_text(line_without_own))
    starts = [*in_line[hidden_spans[:, 0]].tolist(), len(line)]
    ends = [0, *in_line[hidden_spans[:, 1]].tolist()]  # ends[i]: the end of the first i characters

    spans = find_word_spans(vocabulary.pretokenizer, normal, hidden=bool(special.user))
    words = [word for word, _, _ in spans]
    [words] = own.restored([words], is_bytes=is_bytes)
    pieces_of_words = encode_words(words)
    for word_index, (_, word_start, word_end) in enumerate(spans):
        pieces = list(_find_spans_in_word(vocabulary, pieces_of_words[word_index]))
        word_length = pieces[-1][2]
        n_added = word_length - (word_end - word_start)  # an added "▁"
        for piece, first, after in pieces:
            start = word_start + max(0, first - n_added)
            end = word_start + max(0, after - n_added)
            end_in_line = ends[end] if end > start else starts[start]
            yield piece, starts[start], end_in_line, word_index


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The ids of many lines with their spans in the lines, as flat numpy arrays.

    ids: (n_ids,) int32, equal to the ids of `Encoder.encode_batch`
    starts, ends: (n_ids,) int64, the span of each id in its line, in characters
    words: (n_ids,) int64, the index of the word in its line
    offsets: (n_lines + 1,) int64; line i has ids[offsets[i]:offsets[i + 1]]

    >>> from volt.encode.encoder import Encoder
    >>> vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>"))
    >>> spans = Encoder(vocabulary).encode_spans(["low lo"])
    >>> spans.ids.tolist(), spans.starts.tolist(), spans.ends.tolist(), spans.words.tolist()
    ([6, 7, 4, 0], [0, 2, 4, 5], [2, 3, 5, 6], [0, 0, 1, 1])
    """

    ids: Ints
    starts: Longs
    ends: Longs
    words: Longs
    offsets: Longs

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, lines: Sequence[str], *, encode_words: EncodeWords
    ) -> Spans:
        """Encode lines with spans.

        An unknown piece gets the id of `unk`; without `unk`, it is left out.

        vocabulary: the vocabulary
        lines: texts
        encode_words: returns the pieces of each word
        """
        known = vocabulary.ids
        unk = vocabulary.unk_id
        rows = []
        offsets = [0]
        for line in lines:
            for piece, *span in encode_offsets(vocabulary, line, encode_words=encode_words):
                number = known.get(piece, unk)
                if number is not None:
                    rows.append((number, *span))
            offsets.append(len(rows))
        columns = np.array(rows, np.int64).reshape(-1, 4).T.copy()
        numbers, starts, ends, words = columns
        ids = numbers.astype(np.int32)
        return cls(ids, starts, ends, words, np.array(offsets, np.int64))


def _find_spans_in_word(
    vocabulary: Vocabulary, pieces: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """Yield each piece with its span in its word, in characters.

    Pieces that are parts of one character share its span.
    """
    texts = [_text_of_piece(vocabulary, piece) for piece in pieces]
    starts_character = np.frombuffer(b"".join(texts), np.uint8) & 0xC0 != 0x80
    n_started = [0, *np.cumsum(starts_character).tolist()]  # characters that start in n bytes
    start = 0
    for piece, text in zip(pieces, texts, strict=True):
        end = start + len(text)
        first = n_started[start]
        if text:
            first = n_started[start + 1] - 1
        yield piece, first, n_started[end]
        start = end


def _text_of_piece(vocabulary: Vocabulary, piece: str) -> bytes:
    """Return the UTF-8 text of a piece without its marker; a user token counts as one character."""
    is_bytes = vocabulary.pretokenizer.is_bytes
    if piece in vocabulary.special.user:
        return b"x"
    if vocabulary.byte_fallback and not is_bytes and piece in BYTE_TOKENS:
        return bytes([int(piece[3:5], 16)])
    if vocabulary.marker == "suffix":
        piece = piece.removesuffix(SUFFIX)
    if is_bytes:
        return to_bytes(piece)
    return piece.encode()
