"""A slow, obvious way to find the spans of pieces, word by word and piece by piece, for comparison."""

from bisect import bisect_left
from itertools import pairwise

import numpy as np
import polars as pl

from volt.encode.offsets import align
from volt.encode.pretokens import find_own_characters
from volt.text.atoms import SPACE, SUFFIX
from volt.text.byte_alphabet import BYTE_TOKENS, to_bytes


def find_word_spans(pretokenizer, text, *, hidden=True):
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


def _spans_in_order(pretokenizer, text, words, *, hidden):
    """Yield the span of each word. A word is searched from the end of the previous word on."""
    dummy_at = pretokenizer.dummy_places(text, hidden=hidden)
    marked_text = text  # with the "▁" that the pre-tokenizer adds
    if dummy_at:
        bounds = pairwise([0, *dummy_at, len(text)])
        marked_text = SPACE.join(text[start:end] for start, end in bounds)
    shows_spaces = pretokenizer.name != "whitespace" and not pretokenizer.is_bytes
    text_of_mark = " " if shows_spaces else SPACE
    marked_text = marked_text.replace(SPACE, text_of_mark)
    dummy_at = [position + n_before for n_before, position in enumerate(dummy_at)]

    end = 0
    for word in words:
        plain = to_bytes(word).decode() if pretokenizer.is_bytes else word
        start = marked_text.index(plain.replace(SPACE, text_of_mark), end)
        end = start + len(plain)
        yield start - bisect_left(dummy_at, start), end - bisect_left(dummy_at, end)


def _match_spans(pretokenizer, text):
    """Yield the span of each match of a regex.

    Polars does not return positions, so each match is put between two characters that the text
    lacks.
    """
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


def slow_offsets(vocabulary, line, encode_words):
    """Yield each piece with its start and end in the line, and the index of its word."""
    special = vocabulary.special
    is_bytes = vocabulary.pretokenizer.is_bytes
    is_visible = np.ones(len(line) + 1, bool)
    for start, end in special.spans(line):
        is_visible[start + 1 : end] = False
    in_line = np.flatnonzero(is_visible)  # position in the hidden line → position in the line

    own = find_own_characters(vocabulary, [line])
    [line_without_own] = own.put([line])
    hidden = special.hide_text(line_without_own)
    [(normal, hidden_spans)] = align(vocabulary.normalizer, [hidden])
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


def _find_spans_in_word(vocabulary, pieces):
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


def _text_of_piece(vocabulary, piece):
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


def slow_spans(encoder, lines):
    """Return the rows (id, start, end, word) of each line; pieces without an id are left out."""
    vocabulary = encoder.vocabulary
    id_of = dict(vocabulary.ids)
    for token in set(vocabulary.special.all) - set(vocabulary.special.user):
        del id_of[token]  # fused unknown characters may spell it
    rows_of_lines = []
    for line in lines:
        rows = slow_offsets(vocabulary, line, encoder._tables.pieces)
        numbered = [(id_of.get(piece, vocabulary.unk_id), *span) for piece, *span in rows]
        rows_of_lines.append([row for row in numbered if row[0] is not None])
    return rows_of_lines


def rows_of(spans):
    """Return the rows (id, start, end, word) of each line of `Spans`."""
    columns = (spans.ids, spans.starts, spans.ends, spans.words)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    return [rows[start:end] for start, end in pairwise(spans.offsets.tolist())]
