"""Token strings as compiled code sees them: one array of code points and where each token starts in it.

Ties between merges are broken by strings, so the learner must join and compare strings without leaving compiled code.

>>> import numpy as np
>>> texts = Texts(np.array([97, 98, 97], np.int32), np.array([0, 1, 3], np.int64))
>>> compare_texts(texts, 0, 1)
-1
"""

from typing import NamedTuple

from volt.kernels.arrays import IntArray, LongArray, copy_into, grown_ints
from volt.kernels.compiling import compiled


class Texts(NamedTuple):
    """The strings of tokens.

    chars: (room,) int32, code points
    starts: (room + 1,) int64, token t is chars[starts[t]:starts[t + 1]]
    """

    chars: IntArray
    starts: LongArray


@compiled
def compare_texts(texts: Texts, a: int, b: int) -> int:
    """−1, 0 or 1 as token a's string sorts before, with, or after token b's, by code point."""
    i, a_end = texts.starts[a], texts.starts[a + 1]
    j, b_end = texts.starts[b], texts.starts[b + 1]
    while i < a_end and j < b_end:
        if texts.chars[i] != texts.chars[j]:
            return 1 if texts.chars[i] > texts.chars[j] else -1
        i += 1
        j += 1
    return int(i < a_end) - int(j < b_end)


@compiled
def append_text(texts: Texts, token: int, left: int, right: int) -> Texts:
    """The texts, grown if need be, with the joined strings of `left` and `right` as that of the new last `token`."""
    starts, chars = texts.starts, texts.chars
    start = starts[token]
    middle = start + starts[left + 1] - starts[left]
    end = middle + starts[right + 1] - starts[right]
    if end > len(chars):
        chars = grown_ints(chars, 2 * end)
    copy_into(chars, start, chars, starts[left], starts[left + 1])
    copy_into(chars, middle, chars, starts[right], starts[right + 1])
    starts[token + 1] = end
    return Texts(chars, starts)


@compiled
def ends_with(texts: Texts, token: int, ending: IntArray) -> bool:
    """Whether a token's string ends with these code points (never, if there are none)."""
    offset = texts.starts[token + 1] - len(ending)
    if len(ending) == 0 or offset < texts.starts[token]:
        return False
    for i in range(len(ending)):
        if texts.chars[offset + i] != ending[i]:
            return False
    return True
