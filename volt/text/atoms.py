"""Words ⇄ atoms, the symbols that merging starts from: characters, one of which may carry the word marker.

    suffix   the last character of a word carries "</w>": low → l o w</w>, as in subword-nmt 0.2
    prefix   "▁" starts a word: low → ▁ l o w, as in sentencepiece
    none     characters alone, for pre-tokens that hold their spaces

Compiled code sees an atom as a number: 2 · code point, + 1 if it carries the end-of-word marker.

>>> codes, ends = atom_codes(["low", "a"], marker="suffix")
>>> [atom_text(code) for code in codes.tolist()], ends.tolist()
(['l', 'o', 'w</w>', 'a</w>'], [3, 4])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volt.text.markers import PREFIX, SUFFIX, Marker


def atom_codes(words: Sequence[str], *, marker: Marker) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes of all atoms of the words (none of them empty), word after word, and where each word ends."""
    return text_codes("".join(words), np.fromiter(map(len, words), np.int64, len(words)), marker=marker)


def text_codes(text: str, lengths: NDArray[np.int64], *, marker: Marker) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same for words that are given as one text and their lengths in characters, (n_words,).

    >>> codes, ends = text_codes("lowa", np.array([3, 1]), marker="prefix")
    >>> [atom_text(code) for code in codes.tolist()], ends.tolist()
    (['▁', 'l', 'o', 'w', '▁', 'a'], [4, 6])
    """
    codes = 2 * np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)
    ends = np.cumsum(lengths)
    if marker == "prefix":
        codes = np.insert(codes, ends - lengths, 2 * ord(PREFIX))
        ends += np.arange(1, len(ends) + 1)
    if marker == "suffix":
        codes[ends - 1] += 1
    return codes, ends


def atom_text(code: int) -> str:
    """The string of an atom.

    >>> atom_text(2 * ord("w") + 1)
    'w</w>'
    """
    return chr(code >> 1) + SUFFIX * (code & 1)


def atom_code(atom: str, *, marker: Marker) -> int | None:
    """The code of an atom's string, or None if the string is no atom.

    >>> atom_code("w</w>", marker="suffix") == 2 * ord("w") + 1, atom_code("wo", marker="suffix")
    (True, None)
    """
    carries = marker == "suffix" and atom.endswith(SUFFIX) and atom != SUFFIX
    character = atom.removesuffix(SUFFIX) if carries else atom
    return 2 * ord(character) + carries if len(character) == 1 else None


def token_lengths(tokens: Sequence[str], *, marker: Marker) -> NDArray[np.int64]:
    """(n_tokens,) int64 characters of each token, without the marker. A token that is only the marker has 1.

    Without an end marker a "▁" stands for a space and is counted as a marker is, so that lengths can be compared.

    >>> token_lengths(["low</w>", "lo"], marker="suffix"), token_lengths(["▁low", "▁"], marker="prefix")
    (array([3, 2]), array([3, 1]))
    """
    if marker == "suffix":
        lengths = (max(1, len(token.removesuffix(SUFFIX))) for token in tokens)
    else:
        lengths = (max(1, len(token) - token.count(PREFIX)) for token in tokens)
    return np.fromiter(lengths, np.int64, len(tokens))
