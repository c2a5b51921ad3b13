"""A seed → text in which new words never stop coming, so that Heaps' law can hold at every size.

Each word is drawn by its rank K, of which there is no end, independently of the others:

    P(K ≥ k) = ((q + 1) / (k + q + 1))^(1/β - 1)        Zipf's law with Mandelbrot's shift q; p(k) falls as k^(-1/β)

Of n such words about Γ(1 - β) (c n)^β are distinct, c = (1/β - 1) (q + 1)^(1/β - 1), once n is large: β is the exponent
of Heaps' law. A rank is spelled in syllables, the digits of a number of base 100, so common words are short.

>>> spelled(np.array([0, 7, 100, 12_345]), np.array([32, 32, 10, 10], np.uint8))
b'ba ci beba\\nbegoma\\n'
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volt.files.atomic import write_atomic

SHIFT = 2.7  # q, as is usual for natural text
LINE = 16  # words on average
SPACE, LINE_END = 32, 10
_DRAWN = 1 << 18  # words at a time
_LAST = 2**62  # ranks from here on are one word; of a billion words about three come so far at β = 0.7
_POWERS = 100 ** np.arange(9, -1, -1)  # of the syllables of the longest words
_SYLLABLES = np.frombuffer("".join(a + b for a in "bcdfghjklmnprstvwxyz" for b in "aeiou").encode(), np.uint8)


def write_open_text(path: Path, n_bytes: int, *, seed: int, beta: float) -> None:
    """Write lines of at least so many bytes, of which the last line is whole. beta: above 0 and below 1."""
    with write_atomic(path) as file:
        left = n_bytes
        for text in texts(seed=seed, beta=beta):
            end = text.find(b"\n", max(0, left - 1)) + 1
            left -= file.write(text[:end] if end else text)
            if end:
                return


def texts(*, seed: int, beta: float) -> Iterator[bytes]:
    """Pieces of a text without end, of whole words."""
    random = np.random.default_rng(seed)
    while True:
        drawn = ranks(random.random(_DRAWN), beta=beta)
        yield spelled(drawn, np.where(random.random(_DRAWN) < 1 / LINE, LINE_END, SPACE).astype(np.uint8))


def ranks(chances: NDArray[np.float64], *, beta: float) -> NDArray[np.int64]:
    """The rank behind each number in [0, 1), such that numbers drawn evenly give the law. (n,) → (n,)

    >>> ranks(np.array([0, 0.5, 0.999]), beta=0.5)
    array([   0,    3, 3696])
    """
    with np.errstate(over="ignore"):
        found = (SHIFT + 1) * ((1 - chances) ** (-beta / (1 - beta)) - 1)
    return np.minimum(found, _LAST).astype(np.int64)


def spelled(drawn: NDArray[np.int64], ends: NDArray[np.uint8]) -> bytes:
    """Ranks as words, and what stands behind each. (n,), (n,)"""
    digits = drawn[:, None] // _POWERS % 100
    shown = np.repeat(drawn[:, None] >= _POWERS, 2, axis=1)
    shown[:, -2:] = True  # rank 0 has a syllable too
    letters = _SYLLABLES.reshape(-1, 2)[digits].reshape(len(drawn), -1)
    column = np.ones((len(drawn), 1), bool)
    return np.hstack([letters, ends[:, None]])[np.hstack([shown, column])].tobytes()
