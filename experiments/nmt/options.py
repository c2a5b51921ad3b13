"""What the options of a command may be: a fault is one line, told before anything is written.

>>> at_least(1)("3"), within(0, 1)("0.5")
(3, 0.5)
>>> at_least(1)("0")
Traceback (most recent call last):
    ...
argparse.ArgumentTypeError: 0: give a whole number, 1 or more
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence

import torch

MOST_SEED = (1 << 63) - 1
MOST_THREADS = 1024
_MOST = 1 << 40


def at_least(low: int, most: int = _MOST) -> Callable[[str], int]:
    """Reads whole numbers from `low` on, up to `most`.

    >>> at_least(0, 19)("20")
    Traceback (most recent call last):
        ...
    argparse.ArgumentTypeError: 20: give a whole number from 0 to 19
    """

    def read(text: str) -> int:
        try:
            if low <= (found := int(text)) <= most:
                return found
        except ValueError:
            found = low
        told = f", {low} or more" if most == _MOST and found <= most else f" from {low} to {most}"
        raise ArgumentTypeError(f"{text}: give a whole number{told}")

    return read


def within(low: float, high: float) -> Callable[[str], float]:
    """Reads numbers from `low` to below `high`."""

    def read(text: str) -> float:
        try:
            if low <= (found := float(text)) < high:
                return found
        except ValueError:
            pass
        raise ArgumentTypeError(f"{text}: give a number from {low:g} to below {high:g}")

    return read


def one_of(known: Sequence[str]) -> Callable[[str], str]:
    """Reads one of some words."""

    def read(text: str) -> str:
        if text in known:
            return text
        raise ArgumentTypeError(f"{text}: give {' or '.join(known)}")

    return read


def device(text: str) -> str:
    """Reads the name of a device that is there.

    >>> device("cpu")
    'cpu'
    """
    try:
        found = torch.device(text)
    except RuntimeError:
        raise ArgumentTypeError(f"{text}: no device; give cpu or cuda") from None
    if found.type not in ("cpu", "cuda"):
        raise ArgumentTypeError(f"{text}: give cpu or cuda")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ArgumentTypeError(f"{text}: torch finds no such device here; give cpu")
    return text
