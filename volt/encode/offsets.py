"""Pieces → their spans in the original line, in characters, in linear time.

original line → line with user tokens hidden → normalised line → words → pieces
                                            `align`         `word_spans`

Each step maps spans back to the previous form.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from volt.encode.arrays import Ints, Longs
from volt.encode.pretokens import own_characters
from volt.encode.rendering import places_of
from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE, SUFFIX
from volt.text.byte_alphabet import BYTE_TOKENS, to_bytes
from volt.text.normalizer import Normalizer, check_text
from volt.text.pretokenizer import PreTokenizer
from volt.text.white_space import SPLIT_CLASS
from volt.vocabulary import Vocabulary

# A character and all that may combine with it: marks, Hangul vowels and finals, and what NFKC turns into them.
_CLUSTER = (
    r"(?s).[\p{M}\x{1160}-\x{11FF}\x{E33}\x{EB3}\x{3133}\x{3135}\x{3136}\x{313A}-\x{313F}\x{314F}-\x{3164}"
    r"\x{3167}-\x{316D}\x{316F}\x{3170}\x{3182}\x{3183}\x{3187}-\x{318E}\x{FF9E}-\x{FFA0}\x{FFA3}\x{FFA5}"
    r"\x{FFA6}\x{FFAA}-\x{FFAF}\x{FFC2}-\x{FFC7}\x{FFCA}-\x{FFCF}\x{FFD2}-\x{FFD7}\x{FFDA}-\x{FFDC}]*"
)
_WORD_OR_GAP = rf"[^{SPLIT_CLASS}]+|[{SPLIT_CLASS}]+"
_LINE = r"(?s)^.*$"


def align(normalizer: Normalizer, line: str) -> tuple[str, Longs]:
    """Normalise one line. Return its text, and for each character the span of the line that it came from.

    spans: (n_characters, 2) int64, starts and ends; several characters may share a span
    """
    import polars as pl

    text = normalizer.normalize(line)
    whole = pl.Series([line], dtype=pl.String)
    for pattern in (_CLUSTER, _WORD_OR_GAP, _LINE):
        before = whole.str.extract_all(pattern).explode().drop_nulls()
        after = normalizer.apply_series(before)
        # a sigma's form depends on its context
        if "".join(after).replace("ς", "σ") == text.replace("ς", "σ"):
            break

    n_before = before.str.len_chars().to_numpy().astype(np.int64)
    n_after = after.str.len_chars().to_numpy().astype(np.int64)
    starts = np.repeat(np.cumsum(n_before) - n_before, n_after)
    sizes = np.repeat(n_before, n_after)
    places = places_of(np.zeros(len(n_after), np.int64), n_after)

    # parts that normalising does not change map character by character
    is_equal = np.repeat((before == after).to_numpy(), n_after)
    starts[is_equal] += places[is_equal]
    sizes[is_equal] = 1
    return text, np.stack([starts, starts + sizes], axis=1)


def word_spans(
    pretokenizer: PreTokenizer, text: str, *, hidden: bool = True
) -> list[tuple[str, int, int]]:
    """Return each word with its start and end in a normalised text, in characters. An added "▁" has no width.

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
    """Yield the span of each word, which follows the previous word."""
    added = pretokenizer.dummy_places(text, hidden=hidden)
    source = text
    if added:
        bounds = pairwise([0, *added, len(text)])
        source = SPACE.join(text[start:end] for start, end in bounds)
    keeps_spaces = pretokenizer.keeps_spaces and not pretokenizer.is_bytes
    shown = " " if keeps_spaces else SPACE  # the character that "▁" stands for
    source = source.replace(SPACE, shown)
    added = [place + number for number, place in enumerate(added)]  # now in `source`

    end = 0
    for word in words:
        plain = to_bytes(word).decode() if pretokenizer.is_bytes else word
        start = source.index(plain.replace(SPACE, shown), end)
        end = start + len(plain)
        yield start - bisect_left(added, start), end - bisect_left(added, end)


def _match_spans(pretokenizer: PreTokenizer, text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each match of a regex."""
    import polars as pl

    about_to_use_polars()
    used = set(text)
    unused = (mark for mark in map(chr, range(0xE000, 0x110000)) if mark not in used)
    left = next(unused)
    right = next(unused)
    source = text.replace(SPACE, " ") if pretokenizer.keeps_spaces else text
    series = pl.Series([source], dtype=pl.String)
    bracketed = series.str.replace_all(pretokenizer.pattern, f"{left}${{0}}{right}")

    gap, *matches = str(bracketed.item()).split(left)
    position = len(gap)
    for match in matches:
        word, gap = match.split(right)
        if word:
            yield position, position + len(word)
        position += len(word) + len(gap)


EncodeWords = Callable[[Sequence[str]], Sequence[Sequence[str]]]


def encode_offsets(
    vocabulary: Vocabulary, line: str, *, encode_words: EncodeWords
) -> Iterator[tuple[str, int, int, int]]:
    """Yield each piece with its start and end in the original line, and the number of its word."""
    special = vocabulary.special
    is_bytes = vocabulary.pretokenizer.is_bytes
    starts_visible = np.ones(len(check_text(line)) + 1, bool)
    for start, end in special.spans(line):
        starts_visible[start + 1 : end] = False
    edges = np.flatnonzero(starts_visible)  # of characters, once user tokens are hidden

    own = own_characters(vocabulary, [line])
    [line_without_own] = own.put([line])
    normal, from_hidden = align(vocabulary.normalizer, special.hide_text(line_without_own))
    starts = [*edges[from_hidden[:, 0]].tolist(), len(line)]
    ends = [0, *edges[from_hidden[:, 1]].tolist()]

    spans = word_spans(vocabulary.pretokenizer, normal, hidden=bool(special.user))
    words = [word for word, _, _ in spans]
    [words] = own.restored([words], is_bytes=is_bytes)
    pieces_of_words = encode_words(words)
    for number, (_, start, end) in enumerate(spans):
        in_word = list(_within_word(vocabulary, pieces_of_words[number]))
        n_added = in_word[-1][2] - (end - start)  # characters of an added "▁"
        for piece, first, last in in_word:
            i = start + max(0, first - n_added)
            j = start + max(0, last - n_added)
            end_in_line = ends[j] if j > i else starts[i]
            yield piece, starts[i], end_in_line, number


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The ids of many lines and where they come from, flat, as numpy arrays.

    ids: (n_ids,) int32, equal to the ids of `Encoder.encode_batch`
    starts, ends: (n_ids,) int64, the span of each id in its line, in characters
    words: (n_ids,) int64, the number of the word in its line
    offsets: (n_lines + 1,) int64; line i has ids[offsets[i]:offsets[i + 1]]

    >>> from volt.encode.encoder import Encoder
    >>> spans = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>"))).encode_spans(["low lo"])
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
        """Encode lines with spans. An unknown piece gets the id of `unk`; without `unk`, it is left out.

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


def _within_word(vocabulary: Vocabulary, pieces: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield each piece with its span in its word; the bytes of a character share its span."""
    data = [_text_of(vocabulary, piece) for piece in pieces]
    starts_character = np.frombuffer(b"".join(data), np.uint8) & 0xC0 != 0x80
    n_started = [0, *np.cumsum(starts_character).tolist()]  # characters that start in n bytes
    start = 0
    for piece, text in zip(pieces, data, strict=True):
        end = start + len(text)
        first = n_started[start]
        if text:
            first = n_started[start + 1] - 1
        yield piece, first, n_started[end]
        start = end


def _text_of(vocabulary: Vocabulary, piece: str) -> bytes:
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
