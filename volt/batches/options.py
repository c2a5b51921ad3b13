"""Options that all functions of batches have: ranks, and the place that what is random follows from."""

from __future__ import annotations

from volt import arguments

WIDEST = 1 << 16  # multiple that rows are padded to


def check_place(seed: int, epoch: int, window: int) -> tuple[int, int, int]:
    """What all that is random follows from. Raises ConfigError.

    >>> check_place(1, 0, 2)
    (1, 0, 2)
    """
    return arguments.whole(seed, "seed"), arguments.whole(epoch, "epoch"), arguments.whole(window, "window")


def check_world(world: int) -> int:
    """How many ranks there are. Raises ConfigError.

    >>> check_world(2)
    2
    """
    return arguments.whole(world, "world", low=1, high=1 << 31)
