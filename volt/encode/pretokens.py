"""Lines → pre-tokens: user tokens hidden, normalised, cut.

Where there are user tokens, a private character of a line itself stands behind a mark (volt.text.stand_ins).

>>> split_lines(Vocabulary(merges=(), tokens=("a",)), ["a  b", ""])
[['a', 'b'], []]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volt.forks import about_to_use_polars
from volt.text.normalizer import check_text
from volt.text.stand_ins import StandIns, stand_ins
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl

    from volt.text.patterns.words import WordCutter


def split_lines(vocabulary: Vocabulary, lines: Sequence[str]) -> list[list[str]]:
    """The pre-tokens of each line. Raises CorpusError if a line holds a lone surrogate."""
    texts = [check_text(line) for line in lines]
    if (cutter := _lone_cutter(vocabulary)) is not None:
        return [words.split(" ") if words else [] for words in cutter.cut_texts(texts)]
    own = own_characters(vocabulary, texts)
    words: list[list[str]] = _pretokens(vocabulary, own.put(texts)).to_list()
    return own.restored(words, is_bytes=vocabulary.pretokenizer.is_bytes) if own.of_text else words


def own_characters(vocabulary: Vocabulary, texts: Sequence[str]) -> StandIns:
    """What stands in for private characters of the texts while they are cut: none, where there are no user tokens."""
    return stand_ins(texts) if vocabulary.special.user else StandIns({})


def cutter_of(vocabulary: Vocabulary) -> WordCutter | None:
    """What cuts the texts of a vocabulary by a pattern, user tokens apart if it has any; None if Polars cuts them."""
    cutter = vocabulary.pretokenizer.cutter
    return cutter if cutter is None or vocabulary.special.user else cutter.without_user_tokens


def _lone_cutter(vocabulary: Vocabulary) -> WordCutter | None:
    """What cuts the texts of a vocabulary as they are; None if Polars has work to do."""
    is_plain = vocabulary.normalizer.name == "none" and not vocabulary.special.user
    return cutter_of(vocabulary) if is_plain else None


def joined_words(vocabulary: Vocabulary, lines: Sequence[str]) -> list[str]:
    """The pre-tokens of each line with a space between two. No pre-token holds a space.

    >>> joined_words(Vocabulary(merges=(), tokens=("a",)), ["a  b", ""])
    ['a b', '']
    """
    if (cutter := _lone_cutter(vocabulary)) is not None:
        return cutter.cut_texts(lines)
    if own_characters(vocabulary, lines).of_text:
        return list(map(" ".join, split_lines(vocabulary, lines)))
    if (cutter := cutter_of(vocabulary)) is not None:
        return cutter.cut_texts(_normal(vocabulary, lines).to_list())
    return _pretokens(vocabulary, lines).list.join(" ").to_list()


def joined_lines(vocabulary: Vocabulary, text: bytes, *, separator: int, strips_return: bool = False) -> memoryview:
    """The same for the lines of UTF-8 text, with the byte 0xFF behind each.

    separator: the byte behind each line; the last line may lack it
    strips_return: whether a "\\r" at the end of a line is no part of it
    Raises UnicodeDecodeError if a line is not UTF-8.

    >>> bytes(joined_lines(Vocabulary(merges=(), tokens=("a",)), b"a  b\\n\\nc", separator=10))
    b'a b\\xff\\xffc\\xff'
    """
    mark = bytes([separator])
    if (cutter := _lone_cutter(vocabulary)) is not None:
        text.replace(mark, b"\n").decode()
        return cutter.cut_lines(text, separator=separator, strips_return=strips_return).data
    lines = text.split(mark)
    lines = lines if lines[-1] else lines[:-1]
    texts = [(line.removesuffix(b"\r") if strips_return else line).decode() for line in lines]
    return memoryview(b"".join(words.encode() + b"\xff" for words in joined_words(vocabulary, texts)))


def _pretokens(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    import polars as pl

    words = vocabulary.pretokenizer.extract(pl.col("text"), hidden=bool(vocabulary.special.user))
    return _normal(vocabulary, lines).to_frame().select(words).to_series()


def _normal(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    """Column text: the lines with user tokens hidden, normalised."""
    import polars as pl

    about_to_use_polars()
    texts = pl.DataFrame({"text": lines}, schema={"text": pl.String})
    return texts.select(vocabulary.normalizer.apply(vocabulary.special.hide(pl.col("text")))).to_series()
