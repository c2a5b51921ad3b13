"""GPT-2's pattern, said once, and its variants for other engines and for text whose spaces are "▁".

    ORIGINAL       as GPT-2's own files have it; its engine looks ahead
    GROUPED        the same matches, as later files spell them
    MARKED         the same for text whose spaces are "▁"
    CUT_MARKED     the same for an engine that cannot look ahead: what MARKED_RUN matches is parted first, by a space

The part `\\s+(?!\\S)` leaves the last of a run of white space to what follows. An engine without this look ahead needs
a real space put there, which cannot occur in text whose spaces are "▁".

>>> MARKED_RUN.replace(SPACE, "_"), CONTRACTIONS
('([\\\\s_])([\\\\s_][^\\\\s_])', "'s|'t|'re|'ve|'m|'ll|'d")
"""

from __future__ import annotations

from volt.text.markers import SPACE

CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
GROUPED_CONTRACTIONS = "'(?:[sdmt]|ll|ve|re)"  # the same in fewer steps, as later files have it
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
