"""Atoms, from which merging starts: the characters of a word, with a marker of the word's end or start.

    marker   atoms of "low"
    suffix   l o w</w>   the last character carries the marker, as in subword-nmt 0.2
    prefix   ▁ l o w     the marker is an atom before the word, as in sentencepiece
    none     l o w       no marker, for pre-tokens that contain their spaces

An atom's code is 2 · code point, plus 1 if it carries the end-of-word marker: w is 238, w</w> is 239.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from volt import arguments

if TYPE_CHECKING:
    from volt.array_types import Longs

SPACE = "▁"  # U+2581 stands for a space inside pre-tokens that keep spaces
PREFIX = SPACE  # the start-of-word marker is the space in front of the word, as in sentencepiece
SUFFIX = "</w>"  # the end-of-word marker
Marker = Literal["suffix", "prefix", "none"]


def check_marker(marker: str) -> None:
    """Raise ConfigError for an unknown marker."""
    arguments.choice(marker, "marker", get_args(Marker))


def atom_codes(words: Sequence[str], *, marker: Marker) -> tuple[Longs, Longs]:
    """Return the codes of the atoms of words, and where each word's codes end. No word is empty.

    >>> codes, ends = atom_codes(["lo", "w"], marker="suffix")
    >>> codes.tolist(), ends.tolist()
    ([216, 223, 239], [2, 3])
    """
    import numpy as np

    lengths = np.fromiter(map(len, words), np.int64, len(words))
    return text_codes("".join(words), lengths, marker=marker)


def text_codes(text: str, lengths: Longs, *, marker: Marker) -> tuple[Longs, Longs]:
    """Do the same as `atom_codes` for concatenated words.

    text: the words, concatenated;  lengths: (n_words,) int64, the characters of each word
    """
    import numpy as np

    codes = 2 * np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)
    ends = np.cumsum(lengths)
    if marker == "prefix":
        codes = np.insert(codes, ends - lengths, 2 * ord(PREFIX))
        ends += np.arange(1, len(ends) + 1)
    if marker == "suffix":
        codes[ends - 1] += 1
    return codes, ends


def atom_text(code: int) -> str:
    character = chr(code >> 1)
    if code & 1:
        return character + SUFFIX
    return character


def atom_code(atom: str, *, marker: Marker) -> int | None:
    """Return the code of an atom's string; None if the string is not an atom."""
    if len(atom) == 1:
        return 2 * ord(atom)
    if marker == "suffix" and atom[1:] == SUFFIX:
        return 2 * ord(atom[0]) + 1
    return None


def token_lengths(tokens: Sequence[str], *, marker: Marker) -> Longs:
    """Return (n_tokens,) int64, the characters of each token without its marker, but at least 1.

    Unless the marker is a suffix, every "▁" counts as a marker.
    """
    import numpy as np

    if marker == "suffix":
        bare = [token.removesuffix(SUFFIX) for token in tokens]
    else:
        bare = [token.replace(PREFIX, "") for token in tokens]
    return np.maximum(np.fromiter(map(len, bare), np.int64, len(tokens)), 1)
