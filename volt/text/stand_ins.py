"""Private characters that a text holds itself, kept apart from those that stand for user tokens.

A user token is cut as a private character (volt.text.special_tokens), from a range that a text may use, too. So before
a text is cut, each character of that range gives way to its stand-in: another private character, which the text lacks.
In a pre-token it is itself again, behind a `MARK`, which no user token is hidden behind; bytes of characters need none.

>>> own = stand_ins(["a", "b\\U0010f000"])
>>> texts = own.put(["a", "b\\U0010f000"])
>>> texts[1] == "b\\U00100000", own.restored([["a"], [texts[1]]])[1] == [f"b{MARK}\\U0010f000"]
(True, True)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from volt.text.byte_alphabet import ALPHABET, to_bytes, to_characters
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

MARK = chr(LAST_HIDDEN)
_HIDDEN = re.compile(f"[{chr(FIRST_HIDDEN)}-{MARK}]")
_HIDDEN_START = chr(FIRST_HIDDEN).encode()[:2]  # of the UTF-8 of each of them, and of two characters more
_OTHERS = range(0x100000, FIRST_HIDDEN), range(0xF0000, 0xFFFFE)  # the private characters that may stand in
_NONE_LEFT = 0xFFFD  # stands in where there is no other
_LEADS = ALPHABET[0xF4], ALPHABET[0xF3]  # what their bytes begin with


@dataclass(frozen=True, slots=True)
class StandIns:
    """What stands in for the private characters of texts.

    of_text: place of a text → (character → its stand-in), for those texts that hold any
    """

    of_text: Mapping[int, Mapping[int, int]]

    def put(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts with stand-ins, each as long as before."""
        if not self.of_text:
            return texts
        return [text.translate(self.of_text.get(place, {})) for place, text in enumerate(texts)]

    def restored(self, words: Sequence[Sequence[str]], *, is_bytes: bool = False) -> list[list[str]]:
        """The pre-tokens of the texts, with their own private characters again.

        words: those of each text
        is_bytes: whether pre-tokens are bytes, spelled with GPT-2's alphabet
        """
        found = list(map(list, words))
        for place, others in self.of_text.items():
            pairs = ((code, other) for code, other in others.items() if other != _NONE_LEFT)
            own = {other: chr(code) if is_bytes else MARK + chr(code) for code, other in pairs}
            found[place] = [_restored(word, own, is_bytes=is_bytes) for word in found[place]]
        return found


def stand_ins(texts: Sequence[str]) -> StandIns:
    """What stands in for those private characters of texts that stand for user tokens elsewhere.

    A text that holds more than 122,000 different private characters may have none left: U+FFFD stands in then.
    """
    if _HIDDEN_START not in "".join(texts).encode():
        return StandIns({})
    return StandIns({place: _others(text) for place, text in enumerate(texts) if _HIDDEN.search(text)})


def marked(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of the marks among the characters of pre-tokens. What is marked stands behind, and may be a mark itself.

    >>> marked(np.array([97, ord(MARK), 0x10F000, ord(MARK), ord(MARK)])).tolist()
    [1, 3]
    """
    places, behind = list[int](), -1
    for place in np.flatnonzero(codes == ord(MARK)).tolist():
        if place != behind:
            places.append(place)
            behind = place + 1
    return np.array(places, np.int64)


def with_marks(word: str) -> str:
    """A pre-token that is given as it stands, with a mark in front of each private character.

    >>> with_marks("a\\U0010f000") == f"a{MARK}\\U0010f000"
    True
    """
    return _HIDDEN.sub(lambda found: MARK + found[0], word)


def _others(text: str) -> dict[int, int]:
    """Character → its stand-in, for the private characters of a text."""
    met = set(map(ord, text))
    free = (code for code in chain(*_OTHERS) if code not in met)
    own = sorted(map(ord, set(_HIDDEN.findall(text))))
    return {code: next(free, _NONE_LEFT) for code in own}


def _restored(word: str, own: Mapping[int, str], *, is_bytes: bool) -> str:
    if not is_bytes:
        return word.translate(own)
    if not any(lead in word for lead in _LEADS):  # nothing of it is private, or it is a user token
        return word
    return to_characters(to_bytes(word).decode().translate(own).encode())
