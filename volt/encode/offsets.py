"""Pieces → their spans in the original line, in characters, in linear time.

original line → line with user tokens hidden → normalised line → pre-tokens → pieces
                                            `align`         `pretoken_spans`

Each step maps spans back to the previous form.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from volt.encode.pretokens import own_characters
from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE, SUFFIX
from volt.text.byte_alphabet import BYTE_TOKENS, to_bytes
from volt.text.normalizer import Normalizer, check_text
from volt.text.pretokenizer import PreTokenizer
from volt.text.white_space import SPLIT_CLASS
from volt.vocabulary import Vocabulary

# A character and all that may combine with it: marks, Hangul vowels and finals, and what NFKC turns into them.
_SEGMENT = (
    r"(?s).[\p{M}\x{1160}-\x{11FF}\x{E33}\x{EB3}\x{3133}\x{3135}\x{3136}\x{313A}-\x{313F}\x{314F}-\x{3164}"
    r"\x{3167}-\x{316D}\x{316F}\x{3170}\x{3182}\x{3183}\x{3187}-\x{318E}\x{FF9E}-\x{FFA0}\x{FFA3}\x{FFA5}"
    r"\x{FFA6}\x{FFAA}-\x{FFAF}\x{FFC2}-\x{FFC7}\x{FFCA}-\x{FFCF}\x{FFD2}-\x{FFD7}\x{FFDA}-\x{FFDC}]*"
)
_WORD_OR_GAP = rf"[^{SPLIT_CLASS}]+|[{SPLIT_CLASS}]+"
_LINE = r"(?s)^.*$"


def align(normalizer: Normalizer, line: str) -> tuple[str, NDArray[np.int64]]:
    """Normalise one line. Return its text, and for each character the span of the line that it came from.

    spans: (n_characters, 2) int64, starts and ends; several characters may share a span
    """
    import polars as pl

    text, whole = normalizer.normalize(line), pl.Series([line], dtype=pl.String)
    for pattern in (_SEGMENT, _WORD_OR_GAP, _LINE):
        before = whole.str.extract_all(pattern).explode().drop_nulls()
        after = normalizer.apply_series(before)
        if "".join(after).replace("ς", "σ") == text.replace(
            "ς", "σ"
        ):  # a sigma's form depends on its context
            break
    n_before, n_after = (
        series.str.len_chars().to_numpy().astype(np.int64) for series in (before, after)
    )
    starts, offsets = (np.repeat(np.cumsum(n) - n, n_after) for n in (n_before, n_after))
    same = np.repeat(
        (before == after).to_numpy(), n_after
    )  # these segments map character by character
    starts = starts + same * (np.arange(len(starts)) - offsets)
    return text, np.stack(
        [starts, starts + np.where(same, 1, np.repeat(n_before, n_after))], axis=1
    )


def pretoken_spans(
    pretokenizer: PreTokenizer, text: str, *, hidden: bool = True
) -> list[tuple[str, int, int]]:
    """Return each pre-token with its start and end in a normalised text, in characters. An added "▁" has no width.

    hidden: whether private characters stand for user tokens
    """
    words = pretokenizer.split(text, hidden=hidden)
    is_regex = pretokenizer.name.startswith("regex:")
    spans = (
        _match_spans(pretokenizer, text)
        if is_regex
        else _word_spans(pretokenizer, text, words, hidden=hidden)
    )
    return [(word, *span) for word, span in zip(words, spans, strict=True)]


def _word_spans(
    pretokenizer: PreTokenizer, text: str, words: Sequence[str], *, hidden: bool
) -> Iterator[tuple[int, int]]:
    places = pretokenizer.dummy_places(text, hidden=hidden)
    source = (
        SPACE.join(text[start:end] for start, end in pairwise([0, *places, len(text)]))
        if places
        else text
    )
    shown, end = (
        SPACE if pretokenizer.is_bytes or not pretokenizer.keeps_spaces else " ",
        0,
    )  # what "▁" stands for
    source = source.replace(SPACE, shown)
    dummies = [place + number for number, place in enumerate(places)]  # where they are in `source`
    for word in words:
        plain = to_bytes(word).decode() if pretokenizer.is_bytes else word
        start = source.index(plain.replace(SPACE, shown), end)
        end = start + len(plain)
        yield start - bisect_left(dummies, start), end - bisect_left(dummies, end)


def _match_spans(pretokenizer: PreTokenizer, text: str) -> Iterator[tuple[int, int]]:
    import polars as pl

    about_to_use_polars()
    used = set(text)
    left, right = islice(
        (mark for mark in map(chr, range(0xE000, 0x110000)) if mark not in used), 2
    )
    source = text.replace(SPACE, " ") if pretokenizer.keeps_spaces else text
    bracketed = pl.Series([source], dtype=pl.String).str.replace_all(
        pretokenizer.pattern, f"{left}${{0}}{right}"
    )
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
    """Yield each piece with its start and end in the original line, and the number of its pre-token."""
    starts_visible = np.ones(len(check_text(line)) + 1, bool)
    for start, end in vocabulary.special.spans(line):
        starts_visible[start + 1 : end] = False
    edges = np.flatnonzero(
        starts_visible
    )  # where characters start or end once user tokens are hidden
    own = own_characters(vocabulary, [line])
    [stood_in] = own.put([line])
    normal, from_hidden = align(vocabulary.normalizer, vocabulary.special.hide_text(stood_in))
    starts = np.append(edges[from_hidden[:, 0]], len(line)).tolist()
    ends = np.append(0, edges[from_hidden[:, 1]]).tolist()
    cut = pretoken_spans(vocabulary.pretokenizer, normal, hidden=bool(vocabulary.special.user))
    [words] = own.restored([[word for word, *_ in cut]], is_bytes=vocabulary.pretokenizer.is_bytes)
    for number, ((_, start, end), pieces) in enumerate(zip(cut, encode_words(words), strict=True)):
        spans = list(_within_word(vocabulary, pieces))
        unseen = spans[-1][2] - (end - start)  # characters of an added "▁"
        for piece, first, last in spans:
            i, j = start + max(0, first - unseen), start + max(0, last - unseen)
            yield piece, starts[i], ends[j] if j > i else starts[i], number


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The ids of many lines and where they come from, flat, as numpy arrays.

    ids: (n_ids,) int32, equal to the ids of `Encoder.encode_batch`
    starts, ends: (n_ids,) int64, the span of each id in its line, in characters
    words: (n_ids,) int64, the number of the pre-token in its line
    offsets: (n_lines + 1,) int64; line i has ids[offsets[i]:offsets[i + 1]]

    >>> from volt.encode.encoder import Encoder
    >>> spans = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>"))).encode_spans(["low lo"])
    >>> spans.ids.tolist(), spans.starts.tolist(), spans.ends.tolist(), spans.words.tolist()
    ([6, 7, 4, 0], [0, 2, 4, 5], [2, 3, 5, 6], [0, 0, 1, 1])
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    words: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, lines: Sequence[str], *, encode_words: EncodeWords
    ) -> Spans:
        """Encode lines with spans. An unknown piece gets the id of `unk`; without `unk`, it is left out.

        vocabulary: the vocabulary
        lines: texts
        encode_words: returns the pieces of each pre-token
        """
        numbers, unk, rows, offsets = (
            vocabulary.ids,
            vocabulary.unk_id,
            list[tuple[int, int, int, int]](),
            [0],
        )
        for line in lines:
            for piece, start, end, word in encode_offsets(
                vocabulary, line, encode_words=encode_words
            ):
                if (number := numbers.get(piece, unk)) is not None:
                    rows.append((number, start, end, word))
            offsets.append(len(rows))
        ids, starts, ends, words = np.array(rows, np.int64).reshape(-1, 4).T.copy()
        return cls(ids.astype(np.int32), starts, ends, words, np.array(offsets, np.int64))


def _within_word(vocabulary: Vocabulary, pieces: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield each piece with its span in its word; the bytes of a character share its span."""
    data = [_within_text(vocabulary, piece) for piece in pieces]
    starts_character = np.frombuffer(b"".join(data), np.uint8) & 0xC0 != 0x80
    numbers, start = (
        [0, *np.cumsum(starts_character).tolist()],
        0,
    )  # the characters that start in the bytes so far
    for piece, text in zip(pieces, data, strict=True):
        end = start + len(text)
        yield piece, numbers[min(start + 1, end)] - (end > start), numbers[end]
        start = end


def _within_text(vocabulary: Vocabulary, piece: str) -> bytes:
    """Return the UTF-8 text of a piece without its marker; a user token counts as one character."""
    is_bytes = vocabulary.pretokenizer.is_bytes
    if piece in vocabulary.special.user:
        return b"x"
    if vocabulary.byte_fallback and not is_bytes and piece in BYTE_TOKENS:
        return bytes([int(piece[3:5], 16)])
    text = piece.removesuffix(SUFFIX) if vocabulary.marker == "suffix" else piece
    return to_bytes(text) if is_bytes else text.encode()
