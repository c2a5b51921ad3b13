"""GPT-2's pattern, said once, and its variants for other engines and for text whose spaces are "▁".

    ORIGINAL       as GPT-2's own files have it; its engine looks ahead
    GROUPED        the same matches, as later files spell them
    MARKED         the same for text whose spaces are "▁"
    CUT_MARKED     the same for an engine that cannot look ahead: what MARKED_RUN matches is parted first, by a space
    CUT_BYTES      the same, where hidden user tokens stand alone; it belongs to BYTES_RUN

The part `\\s+(?!\\S)` leaves the last of a run of white space to what follows. An engine without this look ahead needs
a real space put there, which cannot occur in text whose spaces are "▁".

>>> MARKED_RUN.replace(SPACE, "_"), CONTRACTIONS
('([\\\\s_])([\\\\s_][^\\\\s_])', "'s|'t|'re|'ve|'m|'ll|'d")
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence

from volt.text.markers import SPACE
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
GROUPED_CONTRACTIONS = "'(?:[sdmt]|ll|ve|re)"  # the same in fewer steps, as later files have it
HIDDEN = rf"\x{{{FIRST_HIDDEN:X}}}-\x{{{LAST_HIDDEN:X}}}"  # the characters that stand for user tokens
_PLAIN, _WHITE = r"\s", rf"\s{SPACE}"  # white space where spaces are spaces, and where they are "▁"


def _words(space: str, *, contractions: str = CONTRACTIONS, others: str) -> str:
    """Contractions, and runs of letters, of numbers, and of what is neither nor among `others`, behind a space or none.

    >>> _words(" ", contractions="'s", others=r"\\s")
    "'s| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+"
    """
    return rf"{contractions}|{space}?\p{{L}}+|{space}?\p{{N}}+|{space}?[^{others}\p{{L}}\p{{N}}]+"


_TRAILING = r"\s+(?!\S)|\s+"
ORIGINAL = rf"{_words(' ', others=_PLAIN)}|{_TRAILING}"
GROUPED = rf"{_words(' ', contractions=GROUPED_CONTRACTIONS, others=_PLAIN)}|{_TRAILING}"
MARKED = rf"{_words(SPACE, others=_WHITE)}|[{_WHITE}]+(?![^{_WHITE}])|[{_WHITE}]+"
MARKED_RUN = rf"([{_WHITE}])([{_WHITE}][^{_WHITE}])"
CUT_MARKED = rf"{_words(SPACE, others=_WHITE)}|[{_WHITE}--[ ]]+"
BYTES_RUN = rf"([{_WHITE}])([{_WHITE}][^{_WHITE}{HIDDEN}])"
CUT_BYTES = rf"[{HIDDEN}]|{_words(SPACE, others=_WHITE + HIDDEN)}|[{_WHITE}--[ ]]+"


_PART = rf"^(?: ?\p{{L}}+| ?\p{{N}}+| ?[^{_PLAIN}\p{{L}}\p{{N}}]+|{_PLAIN}+|'(?:[stmdrvl]|re|ve|ll)| ?)$"
_INNER = rf"^(?:\p{{L}}*|\p{{N}}*|[^{_PLAIN}\p{{L}}\p{{N}}]*|{_PLAIN}*)$"  # the same behind a part of a character


def cut_tokens(tokens: Sequence[bytes]) -> list[bytes]:
    """The tokens that are no part of any match of the pattern, so that text which it cuts never holds them.

    A token may begin and end inside a character, which may then be of any class. Bytes that are in no text are not
    counted.

    >>> cut_tokens([b"low", b" low", b"\\n ", b"'v", b"!low", b"4 2", "é".encode()[1:] + b"a", b"'LL"])
    [b'!low', b'4 2', b"'LL"]
    """
    import polars as pl

    texts = [whole_characters(token) for token in tokens]
    series = pl.Series(texts, dtype=pl.String)
    inner = pl.Series([token[:1] >= b"\x80" and token[:1] < b"\xc0" for token in tokens], dtype=pl.Boolean)
    fits = series.str.contains(_INNER) | (~inner & series.str.contains(_PART))
    return [token for token, fit in zip(tokens, fits.to_list(), strict=True) if fit is False]


def whole_characters(token: bytes) -> str | None:
    """A token without the parts of characters that it begins and ends with; None if the rest is no text.

    >>> whole_characters("é".encode()[1:] + b"a" + "中".encode()[:2]), whole_characters(b"\\xc3a")
    ('a', None)
    """
    start = next((i for i, byte in enumerate(token) if byte & 0xC0 != 0x80), len(token))
    decoder = getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(token[start:])
    except UnicodeDecodeError:
        return None
