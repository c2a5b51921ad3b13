"""Check the options, lengths, ranks and seeds that the functions of `volt.batches` take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.display import counted
from volt.errors import ConfigError, StreamError

MOST = 1 << 53  # maximum number of tokens in a batch
WIDEST = 1 << 16  # maximum multiple that rows are padded to


def check_option(
    options: object, name: str, check: Callable[..., Any], *, can_lack: bool = False, **limits: Any
) -> None:
    """Replace an option of a frozen dataclass by the result of its check.

    can_lack: whether None is allowed
    limits: keyword arguments of `check`
    """
    if not can_lack or getattr(options, name) is not None:
        object.__setattr__(options, name, check(getattr(options, name), name, **limits))


def check_seeds(seed: int, epoch: int, window: int) -> tuple[int, int, int]:
    return (
        arguments.whole(seed, "seed"),
        arguments.whole(epoch, "epoch"),
        arguments.whole(window, "window"),
    )


def check_lengths(lengths: Any) -> Longs:
    """Return lengths as (n, n_sides) int64; an (n,) array has one side.

    Raises ConfigError if a length is not a whole number from 0 to 2⁵³.
    """
    remedy = "give whole numbers of shape (n,) or (n, sides)"
    try:
        array = np.asarray(lengths)
    except (ValueError, TypeError):  # for example, rows of unequal size
        raise ConfigError(f"lengths is not a table of numbers; {remedy}") from None
    if array.ndim == 0:
        raise arguments.refusal(lengths, "lengths", remedy)
    if array.shape == (0,):  # NumPy makes an empty list an array of floats
        return np.empty((0, 1), np.int64)
    if array.dtype.kind not in "iu" or array.ndim > 2 or array.shape[1:] == (0,):
        raise ConfigError(f"lengths is an array of {array.dtype} and shape {array.shape}; {remedy}")
    result: Longs = array[:, None] if array.ndim == 1 else array
    if result.size and (result.min() < 0 or result.max() > MOST):
        is_wrong = (result < 0) | (result > MOST)
        row = int(np.argmax(is_wrong.any(axis=1)))
        raise ConfigError(
            f"lengths[{row}] is {array[row].tolist()}; give whole numbers from 0 to {MOST:,}"
        )
    return result.astype(np.int64, copy=False)


def refuse_long(
    too_long: Longs,
    longest: Longs,
    *,
    limit: tuple[str, int],
    on_long: str,
    choices: tuple[str, ...],
) -> None:
    """Raise StreamError, which names the first row that is too long, if `on_long` is "raise".

    too_long: the rows that are too long
    longest: the length of each row
    limit: name and value of the option that limits lengths
    choices: the valid values of `on_long`
    """
    if arguments.choice(on_long, "on_long", choices) == "raise" and len(too_long):
        name, max_length = limit
        row = too_long[0]
        fault = f"row {row} of {len(longest):,} has {longest[row]:,} tokens"
        if len(too_long) > 1:
            fault += f", and {counted(len(too_long) - 1, 'row')} more"
        remedy = f"raise it, shorten such rows, or set on_long to {' or '.join(choices[1:])}"
        raise StreamError(f"{fault}; {name} is {max_length:,}; {remedy}")
