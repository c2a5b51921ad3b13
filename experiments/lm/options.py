"""Readers of command-line options, which refuse a wrong value in one line.

>>> at_least(1)("3"), within(0, 1)("0.5")
(3, 0.5)
>>> at_least(0, 19)("20")
Traceback (most recent call last):
    ...
argparse.ArgumentTypeError: 20: give a whole number from 0 to 19
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence

import torch

MOST_SEED = (1 << 63) - 1


def at_least(low: int, most: int = 1 << 40) -> Callable[[str], int]:
    """Read a whole number from `low` to `most`."""

    def read(text: str) -> int:
        try:
            if low <= (number := int(text)) <= most:
                return number
        except ValueError:
            pass
        raise ArgumentTypeError(f"{text}: give a whole number from {low} to {most}")

    return read


def within(low: float, high: float) -> Callable[[str], float]:
    """Read a number from `low` to below `high`."""

    def read(text: str) -> float:
        try:
            if low <= (number := float(text)) < high:
                return number
        except ValueError:
            pass
        raise ArgumentTypeError(f"{text}: give a number from {low:g} to below {high:g}")

    return read


def one_of(known: Sequence[str]) -> Callable[[str], str]:
    """Read one of some words."""

    def read(text: str) -> str:
        if text in known:
            return text
        raise ArgumentTypeError(f"{text}: give {' or '.join(known)}")

    return read


def device(text: str) -> str:
    """Read the name of a device of this machine.

    >>> device("cpu")
    'cpu'
    """
    if text != "cpu" and text not in ["cuda", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))]:
        raise ArgumentTypeError(f"{text}: give cpu, or cuda")
    if text != "cpu" and not torch.cuda.is_available():
        raise ArgumentTypeError(f"{text}: torch finds no such device; give cpu")
    return text
