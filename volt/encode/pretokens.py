"""Lines → words (pre-tokens): hide user tokens, normalise the text, and split it.

    "See <url>"   →   "see", and the private character of <url>   (in lower case, at white space)

A user token is hidden by a private character, so that it is neither normalised nor split. A private
character of the text itself is replaced by a placeholder meanwhile, and comes back with a mark
before it (see volt.text.special_tokens).

The ways to split give equal words and differ in speed: Python's `str.split`, the compiled loop of a
pattern (a `WordCutter`), and Polars. Importing Polars takes longer than splitting a short text, so
it is the last choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from volt.encode.chunks import Chunk
from volt.fork_guard import about_to_use_polars
from volt.text.normalizer import check_text
from volt.text.special_tokens import HIDDEN, Placeholders, stand_ins
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl

    from volt.text.patterns.word_cutter import WordCutter

_SHORT = 10_000  # characters; for longer lines, an automaton of all user tokens is worth building


def split_lines(
    vocabulary: Vocabulary, lines: Sequence[str], *, is_normal: bool = False
) -> list[list[str]]:
    """Return the words of each line. Raises CorpusError if a line contains a lone surrogate.

    is_normal: whether the lines are normalised already, and no user tokens are found in them
    """
    for line in lines:
        check_text(line)
    if is_normal:
        return _extract_words(vocabulary, lines)
    if splits_as_python(vocabulary):
        return [line.split() for line in lines]
    rows = _join_words(vocabulary, lines)
    return [words.split(" ") if words else [] for words in rows]


def _extract_words(vocabulary: Vocabulary, lines: Sequence[str]) -> list[list[str]]:
    import polars as pl

    about_to_use_polars()
    words = vocabulary.pretokenizer.extract(pl.col("text"), hidden=False)
    frame = pl.DataFrame({"text": lines}, schema={"text": pl.String})
    return frame.select(words).to_series().to_list()


def word_lines(vocabulary: Vocabulary, chunk: Chunk, *, is_normal: bool = False) -> memoryview:
    r"""Return the words of a chunk's lines, separated by spaces, with 0xFF after each line.

    is_normal: see `split_lines`
    Raises UnicodeDecodeError if the text is not UTF-8.

    >>> bytes(word_lines(Vocabulary(merges=(), tokens=("a",)), Chunk(b"a  b\n\nc")))
    b'a b\xff\xffc\xff'
    """
    cutter = _find_cutter(vocabulary)
    if cutter is not None and (is_normal or _is_plain(vocabulary)):
        text = bytes(chunk.text)
        text.replace(bytes([chunk.separator]), b"\n").decode()
        separator = chunk.separator
        return cutter.cut_lines(text, separator=separator, strips_return=chunk.strips_return).data

    lines = chunk.decode()
    if is_normal:
        words = list(map(" ".join, _extract_words(vocabulary, lines)))
    else:
        words = _join_words(vocabulary, lines)
    return memoryview(b"".join(line.encode() + b"\xff" for line in words))


def splits_as_python(vocabulary: Vocabulary) -> bool:
    """Check whether `str.split` finds the vocabulary's words."""
    return vocabulary.pretokenizer.name == "whitespace" and _is_plain(vocabulary)


def find_own_characters(vocabulary: Vocabulary, texts: Sequence[str]) -> Placeholders:
    """Return placeholders for the texts' own private characters; none without user tokens."""
    if vocabulary.special.user:
        return stand_ins(texts)
    return Placeholders({})


def _is_plain(vocabulary: Vocabulary) -> bool:
    return vocabulary.normalizer.name == "none" and not vocabulary.special.user


def _find_cutter(vocabulary: Vocabulary) -> WordCutter | None:
    """Return the compiled splitter of a vocabulary's lines; None if Polars splits them."""
    cutter = vocabulary.pretokenizer.cutter
    if cutter is None or vocabulary.special.user:
        return cutter
    return cutter.without_user_tokens


def _join_words(vocabulary: Vocabulary, lines: Sequence[str]) -> list[str]:
    """Return each line as its words with single spaces between them."""
    cutter = _find_cutter(vocabulary)
    if cutter is not None and _is_plain(vocabulary):
        return cutter.cut_texts(lines)

    own = find_own_characters(vocabulary, lines)
    if own.of_text:
        words = _split_with_polars(vocabulary, own.put(lines)).to_list()
        restored = own.restored(words, is_bytes=vocabulary.pretokenizer.is_bytes)
        return list(map(" ".join, restored))

    if cutter is None:
        return _split_with_polars(vocabulary, lines).list.join(" ").to_list()
    if vocabulary.normalizer.name == "none" and are_short(lines):
        return cutter.cut_texts(list(map(vocabulary.special.hide_text, lines)))
    return cutter.cut_texts(normalize_hidden(vocabulary, lines).to_list())


def _split_with_polars(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    import polars as pl

    words = vocabulary.pretokenizer.extract(pl.col("text"), hidden=bool(vocabulary.special.user))
    return normalize_hidden(vocabulary, lines).to_frame().select(words).to_series()


def normalize_hidden(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    """Return the lines, normalised, with user tokens hidden, as a series with the name "text".

    lines: without private characters of their own
    """
    import polars as pl

    about_to_use_polars()
    text = pl.col("text")
    if are_short(lines):
        lines = list(map(vocabulary.special.hide_text, lines))
    else:
        text = vocabulary.special.hide(text)
    frame = pl.DataFrame({"text": lines}, schema={"text": pl.String})
    if not (vocabulary.normalizer.steps and vocabulary.special.user):
        return frame.select(vocabulary.normalizer.apply(text)).to_series()

    # Each segment, the text between user tokens, is normalised alone.
    parts_of_lines = list(map(HIDDEN.split, frame.select(text).to_series().to_list()))
    segments = list(chain.from_iterable(parts[::2] for parts in parts_of_lines))
    normal = iter(vocabulary.normalizer.apply_series(pl.Series(segments, dtype=pl.String)))
    for parts in parts_of_lines:
        parts[::2] = [next(normal) for _ in parts[::2]]
    return pl.Series("text", list(map("".join, parts_of_lines)), dtype=pl.String)


def are_short(lines: Sequence[str]) -> bool:
    """Check whether lines are split faster without Polars' automaton of all user tokens."""
    return sum(map(len, lines)) < _SHORT
