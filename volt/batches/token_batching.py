"""Group rows of similar length into batches of at most `max_tokens`, and deal the batches to ranks.

The cost of a batch is its number of rows times the padded width of its longest side. The stages of
`token_batches`:

    order    permute rows, then sort by the longest side; ties by the first side minus the last,
             ascending for even lengths and descending for odd ones. With noise ρ, sort by
             length + U(−ρ, ρ) · length only. With sort="sides", sort by the first side, ties by the
             second side, …
    split    of the k rows that fit, a step takes m · ⌊k / m⌋, where m is `multiple`; the last step,
             or a step with k < m, takes all k rows
    buckets  the length of each side is rounded up to the smallest bucket that it fits into
    deal     w ranks share a step of w batches: in the stage `split`, m is `multiple` · w or, if
             fewer rows fit, w. If fewer than w rows would remain for the last step, the step before
             it gives up some rows.
    shuffle  permute the steps
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import itemgetter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volt import arguments
from volt.batches.argument_checks import MOST, WIDEST, Longs, check_place, refuse_long, table
from volt.display import counted
from volt.errors import ConfigError
from volt.stream.reading.epoch_order import permutation
from volt.stream.reading.ranks import check_rank
from volt.stream.transforms.line_rng import LineRng

_RADIX = 1 << 16  # NumPy sorts numbers below this in linear time


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatches:
    """The batches of an epoch or a window.

    order: (n_kept,) int64, rows, batch after batch
    ends: (n_batches,) int64, where each batch ends in `order`
    longest: (n_batches,) int64, the padded width of each batch, equal within a step
    too_long, too_short: int64, rows that are too long or too short for any batch
    left: int64, leftover rows, too few for a step
    world: the number of batches of a step: batch i is for rank i % world

    >>> batches = token_batches([3, 9, 2, 8], max_tokens=18, shuffle=False)
    >>> batches.sizes.tolist(), batches.longest.tolist(), batches.costs.tolist(), batches[0].tolist()
    ([2, 2], [3, 9], [6, 18], [2, 0])
    """

    order: Longs
    ends: Longs
    longest: Longs
    too_long: Longs
    too_short: Longs
    left: Longs
    world: int = 1

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> Longs:
        """Return the rows of a batch."""
        number = range(len(self))[number]
        start = self.ends[number - 1] if number else 0
        return self.order[start : self.ends[number]]

    def __iter__(self) -> Iterator[Longs]:
        """Iterate over the rows of each batch."""
        return map(self.__getitem__, range(len(self)))

    @property
    def sizes(self) -> Longs:
        """(n_batches,) int64, the number of rows of each batch."""
        return np.diff(self.ends, prepend=0)

    @property
    def costs(self) -> Longs:
        """(n_batches,) int64, rows times the longest side."""
        return self.sizes * self.longest

    def of_rank(self, rank: int) -> TokenBatches:
        """Return the batches of one rank, one of each step.

        rank: the number of the rank, from 0
        """
        rank, world = check_rank(rank, self.world)
        batches = list(self)[rank::world]
        return replace(
            self,
            order=np.concatenate([*batches, np.empty(0, np.int64)]),
            ends=np.cumsum([len(rows) for rows in batches], dtype=np.int64),
            longest=self.longest[rank::world],
            world=1,
        )


def token_batches(
    lengths: ArrayLike,
    *,
    max_tokens: int,
    max_sentences: int | None = None,
    multiple: int = 8,
    pad_to_multiple: int = 1,
    sort: Literal["length", "sides"] = "length",
    noise: float = 0.0,
    buckets: Iterable[int] | None = None,
    max_length: int | None = None,
    min_length: int = 1,
    on_long: Literal["raise", "report"] = "raise",
    world: int = 1,
    shuffle: bool = True,
    seed: int = 0,
    epoch: int = 0,
    window: int = 0,
) -> TokenBatches:
    """Return batches whose number of rows × padded width is at most `max_tokens`; see the module.

    lengths: (n,) or (n, sides), tokens; the length of a row is the length of its longest side
    max_tokens: upper limit of rows × padded width of a batch
    max_sentences: maximum number of rows of a batch
    multiple: the number of rows of a batch is a multiple of this, if that many fit
    pad_to_multiple: widths are rounded up to a multiple of this
    sort: "length" leaves less padding; "sides" is fairseq's order
    noise: ρ, from 0 to 1: how far lengths are blurred before sorting
    buckets: ascending lengths, at most `max_tokens`; the width of every batch is one of them
    min_length, max_length: limits of a row's length; by default, 1 and as many tokens as fit
    on_long: action for rows that are too long: "raise" StreamError, or "report" them in `too_long`
    world: the number of ranks; all get equally many batches, of equally many rows
    shuffle: whether the order of steps, and of equally long rows, is random
    seed, epoch, window: seeds of all randomness

    >>> batches = token_batches([[3, 4], [9, 7], [2, 2], [8, 9]], max_tokens=18, seed=1)
    >>> sorted(sorted(rows.tolist()) for rows in batches)
    [[0, 2], [1, 3]]
    """
    sides = table(lengths)
    place = check_place(seed, epoch, window)
    max_tokens = arguments.whole(max_tokens, "max_tokens", low=1, high=MOST)
    padded = arguments.whole(pad_to_multiple, "pad_to_multiple", low=1, high=WIDEST)
    buckets = _checked_buckets(buckets, max_tokens, padded)
    limit = limit_of(max_tokens, max_length, buckets, padded)
    longest = _longest(sides)
    too_long, retained, too_short = _by_fit(longest, min_length, limit, on_long)
    if buckets:
        sides = np.array(buckets)[np.searchsorted(buckets[:-1], sides)]
        longest = _longest(sides)

    order = retained[turns(len(retained), shuffle, "batches", "rows", *place)]
    order = _sorted(order, sides, longest[order], sort, noise, shuffle, place)
    widths = longest + -longest % padded
    steps = _steps(widths[order], max_tokens, max_sentences, multiple, world)
    shuffled = turns(len(steps), shuffle, "batches", "steps", *place)
    left = np.sort(order[steps.max(initial=0) :])
    return TokenBatches(
        *_dealt(order, steps, shuffled, world, widths), too_long, too_short, left, world
    )


def limit_of(
    max_tokens: int, max_length: int | None, buckets: Sequence[int] | None, pad_to_multiple: int
) -> tuple[str, int]:
    """Return the name and value of the option that limits the length of a row."""
    fitting = max_tokens - max_tokens % pad_to_multiple
    if not fitting:
        fault = f"pad_to_multiple is {pad_to_multiple:,}, more than max_tokens, {max_tokens:,}"
        raise ConfigError(f"{fault}: no row fits; lower it")
    name = "max_tokens" if fitting == max_tokens else f"max_tokens with {pad_to_multiple=}"
    limits = {name: fitting}
    if buckets:
        limits["the last of buckets"] = buckets[-1]
    if max_length is not None:
        limits["max_length"] = arguments.whole(max_length, "max_length", low=1)
    return min(limits.items(), key=itemgetter(1))


def _checked_buckets(buckets: Iterable[int] | None, max_tokens: int, padded: int) -> list[int]:
    if buckets is None:
        return []
    widths = arguments.wholes(buckets, "buckets")
    if not widths:
        raise ConfigError("buckets is empty; give rising lengths, or None")
    for place, (before, width) in enumerate(pairwise([0, *widths])):
        if width <= before:
            fault = f"buckets[{place}] is {width:,}, after {before:,}"
            raise ConfigError(f"{fault}; give rising lengths, from 1 on")
    last = widths[-1]
    padded_last = last + -last % padded
    if padded_last > max_tokens:
        fault = f"the last of buckets is {last:,}"
        if padded_last > last:
            fault += f", padded to {padded_last:,}"
        raise ConfigError(f"{fault}, more than max_tokens, {max_tokens:,}; remove it")
    return widths


def _by_fit(
    longest: Longs, min_length: int, limit: tuple[str, int], on_long: str
) -> tuple[Longs, Longs, Longs]:
    """Return the rows that are too long, that fit, and that are too short."""
    name, most = limit
    if arguments.whole(min_length, "min_length", low=1) > most:
        fault = f"min_length is {min_length}, more than {name}, {most}"
        raise ConfigError(f"{fault}; no row can be long enough; lower it")
    too_long = np.flatnonzero(longest > most)
    refuse_long(too_long, longest, most, name, on_long=on_long, ways=("raise", "report"))
    is_short = longest < min_length
    fits = (longest <= most) & ~is_short
    return too_long, np.flatnonzero(fits), np.flatnonzero(is_short)


def turns(n: int, shuffle: bool, *place: str | int) -> Longs:
    """Return 0 … n - 1; with `shuffle`, in a random order. place: seeds of the order"""
    return permutation(n, *place) if shuffle else np.arange(n)


def stable_order(values: Longs) -> NDArray[np.intp]:
    if values.max(initial=0) < _RADIX:
        return np.argsort(values.astype(np.uint16), kind="stable")
    return np.argsort(values, kind="stable")


def _longest(sides: Longs) -> Longs:
    # NumPy's max over an axis is slow for many short rows.
    result: Longs = reduce(np.maximum, sides.T)
    return result


def _sorted(
    order: Longs,
    sides: Longs,
    longest: Longs,
    sort: str,
    noise: float,
    shuffle: bool,
    place: tuple[int, ...],
) -> Longs:
    """Sort rows, in a random order, by length. longest: the length of each row of `order`"""
    noise = arguments.number(noise, "noise")
    arguments.choice(sort, "sort", ("length", "sides"))
    if not 0 <= noise <= 1:
        raise ConfigError(f"noise is {noise:g}; give a number from 0 to 1")
    if noise and sort == "sides":
        fault = f"noise is {noise:g} but sort='sides' takes no noise"
        raise ConfigError(f"{fault}; set noise to 0 or sort to length")
    if noise and not shuffle:
        fault = f"noise is {noise:g} but shuffle is False; noise is random"
        raise ConfigError(f"{fault}: set it to 0, or shuffle")
    if sort == "sides":
        for side in reversed(sides.T):
            order = order[stable_order(side[order])]
        return order
    if noise:
        drawn = LineRng.of("batches", "noise", *place).uniform(order)
        blurred = longest * (1 + noise * (2 * drawn - 1))
        return order[np.argsort(blurred, kind="stable")]
    difference = (sides[:, 0] - sides[:, -1])[order]
    tie_breaker = np.where(longest % 2 == 0, difference, -difference) + longest.max(initial=0)
    first = stable_order(tie_breaker)
    return order[first][stable_order(longest[first])]


def _steps(
    widths: Longs, max_tokens: int, max_sentences: int | None, multiple: int, world: int
) -> Longs:
    """Return the end of each step among rows of these padded widths."""
    from volt.kernels.batching import cut_steps

    most_rows = max(1, len(widths))
    if max_sentences is not None:
        most_rows = min(most_rows, arguments.whole(max_sentences, "max_sentences", low=1))
    most = len(widths) + 1  # larger numbers of rows do not fit
    multiple = min(most, arguments.whole(multiple, "multiple", low=1))
    world = arguments.whole(world, "world", low=1, high=1 << 31)
    ends = np.empty(len(widths) // world, np.int64)
    world = min(most, world)
    n_steps = cut_steps(widths, max_tokens, most_rows, multiple, world, ends)
    return ends[:n_steps]


def _dealt(
    rows: Longs, step_ends: Longs, step_order: Longs, world: int, widths: Longs
) -> tuple[Longs, Longs, Longs]:
    """Return `order`, `ends` and `longest` of `TokenBatches`. widths: the padded width of each row"""
    from volt.kernels.batching import deal_rows

    order = np.empty(step_ends.max(initial=0), np.int64)
    ends = np.empty(len(step_ends) * world, np.int64)
    deal_rows(rows, step_ends, step_order, world, order, ends)

    step_starts = step_ends - np.diff(step_ends, prepend=0)
    longest = np.maximum.reduceat(widths[rows[: len(order)]], step_starts)
    return order, ends, np.repeat(longest[step_order], world)


def padding_share(batches: TokenBatches, lengths: ArrayLike, *, to_longest: bool = False) -> float:
    """Return the share of padding in the arrays of batches.

    batches: the result of `token_batches`
    lengths: the lengths that `token_batches` was called with
    to_longest: whether every side has the width of its batch; otherwise, it has the length of its
        longest row

    >>> round(padding_share(token_batches([3, 9, 2, 8], max_tokens=18), [3, 9, 2, 8]), 3)
    0.083
    """
    sides = table(lengths)
    remedy = "give the result of token_batches"
    if not len(arguments.instance(batches, TokenBatches, "batches", remedy=remedy)):
        return 0.0
    last = int(batches.order.max())
    if last >= len(sides):
        n_rows = counted(len(sides), "row")
        raise ConfigError(f"batches have row {last}, but lengths has {n_rows}; give their lengths")

    rows = sides[batches.order]
    widths = np.maximum.reduceat(rows, batches.ends - batches.sizes)
    if to_longest:
        widths = np.broadcast_to(batches.longest[:, None], widths.shape)
    laid_out = (widths * batches.sizes[:, None]).sum()
    return float((laid_out - rows.sum()) / laid_out)
