"""Group rows of similar length into batches of at most `max_tokens`, one for each rank in a step.

A row is a sample; its lengths are the numbers of tokens of its sides, such as source and target.
The cost of a batch is its number of rows times the padded width of its longest side. For example,
rows of lengths [3, 9, 2, 8] and max_tokens=18 become the batches [2, 0], of 2 rows × 3 tokens, and
[3, 1], of 2 rows × 9 tokens. The stages of `token_batches`:

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
from volt.array_types import Longs
from volt.batches.argument_checks import MOST, WIDEST, check_lengths, check_seeds, refuse_long
from volt.display import counted
from volt.errors import ConfigError
from volt.stream.reading.epoch_order import permutation
from volt.stream.reading.ranks import check_rank
from volt.stream.transforms.line_batch import LineRng

_RADIX = 1 << 16  # NumPy sorts numbers below this in linear time


class Groups:
    """Consecutive groups of rows: group i ends at ends[i], where group i + 1 starts."""

    __slots__ = ()
    ends: Longs

    def __len__(self) -> int:
        return len(self.ends)

    def _slice(self, number: int) -> slice:
        number = range(len(self))[number]
        start = self.ends[number - 1] if number else 0
        return slice(start, self.ends[number])


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatches(Groups):
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

    def __getitem__(self, number: int) -> Longs:
        """Return the rows of a batch."""
        return self.order[self._slice(number)]

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
    sides = check_lengths(lengths)
    seeds = check_seeds(seed, epoch, window)
    max_tokens = arguments.whole(max_tokens, "max_tokens", low=1, high=MOST)
    multiple_of = arguments.whole(pad_to_multiple, "pad_to_multiple", low=1, high=WIDEST)
    widths_of_buckets = _check_buckets(buckets, max_tokens, multiple_of)
    limit = limit_of(max_tokens, max_length, widths_of_buckets, multiple_of)
    longest = _longest_sides(sides)
    too_long, fitting, too_short = _select_fitting(longest, min_length, limit, on_long)
    sides = _round_up_to_buckets(sides, widths_of_buckets)
    longest = _longest_sides(sides)
    rows = fitting[order_of(len(fitting), shuffle, "batches", "rows", *seeds)]
    if _check_noise(noise, sort, shuffle):
        rows = _sort_with_noise(rows, longest, noise, seeds)
    else:
        rows = _sort(rows, sides, longest, sort)
    widths = (longest + -longest % multiple_of)[rows]
    step_ends = _cut_into_steps(widths, max_tokens, max_sentences, multiple, world)
    step_order = order_of(len(step_ends), shuffle, "batches", "steps", *seeds)
    order, ends, batch_widths = _deal_to_ranks(rows, widths, step_ends, step_order, world)
    left = np.sort(rows[len(order) :])
    return TokenBatches(order, ends, batch_widths, too_long, too_short, left, world)


def limit_of(
    max_tokens: int, max_length: int | None, buckets: Sequence[int] | None, pad_to_multiple: int
) -> tuple[str, int]:
    """Return the name and value of the option that limits the length of a row."""
    fitting = max_tokens - max_tokens % pad_to_multiple
    if not fitting:
        raise ConfigError(
            f"pad_to_multiple is {pad_to_multiple:,}, more than max_tokens, {max_tokens:,}: "
            "no row fits; lower it"
        )
    name = "max_tokens" if fitting == max_tokens else f"max_tokens with {pad_to_multiple=}"
    limits = {name: fitting}
    if buckets:
        limits["the last of buckets"] = buckets[-1]
    if max_length is not None:
        limits["max_length"] = arguments.whole(max_length, "max_length", low=1)
    return min(limits.items(), key=itemgetter(1))


def _check_buckets(buckets: Iterable[int] | None, max_tokens: int, multiple_of: int) -> list[int]:
    """Return the widths of buckets; [] for None."""
    if buckets is None:
        return []
    widths = arguments.wholes(buckets, "buckets")
    if not widths:
        raise ConfigError("buckets is empty; give rising lengths, or None")
    for index, (before, width) in enumerate(pairwise([0, *widths])):
        if width <= before:
            raise ConfigError(
                f"buckets[{index}] is {width:,}, after {before:,}; give rising lengths, from 1 on"
            )
    last = widths[-1]
    padded = last + -last % multiple_of
    if padded > max_tokens:
        fault = f"the last of buckets is {last:,}"
        if padded > last:
            fault += f", padded to {padded:,}"
        raise ConfigError(f"{fault}, more than max_tokens, {max_tokens:,}; remove it")
    return widths


def _select_fitting(
    longest: Longs, min_length: int, limit: tuple[str, int], on_long: str
) -> tuple[Longs, Longs, Longs]:
    """Return the rows that are too long, the rows that fit, and the rows that are too short."""
    name, max_length = limit
    if arguments.whole(min_length, "min_length", low=1) > max_length:
        raise ConfigError(
            f"min_length is {min_length}, more than {name}, {max_length}; "
            "no row can be long enough; lower it"
        )
    is_long = longest > max_length
    is_short = longest < min_length
    too_long = np.flatnonzero(is_long)
    refuse_long(too_long, longest, limit=limit, on_long=on_long, choices=("raise", "report"))
    return too_long, np.flatnonzero(~is_long & ~is_short), np.flatnonzero(is_short)


def order_of(n: int, shuffle: bool, *seeds: str | int) -> Longs:
    """Return 0 … n - 1, in a random order if `shuffle`."""
    return permutation(n, *seeds) if shuffle else np.arange(n)


def stable_order(values: Longs) -> NDArray[np.intp]:
    """Return the indices that sort values in ascending order; equal values keep their order."""
    if values.max(initial=0) < _RADIX:
        return np.argsort(values.astype(np.uint16), kind="stable")
    return np.argsort(values, kind="stable")


def _round_up_to_buckets(sides: Longs, widths: list[int]) -> Longs:
    if not widths:
        return sides
    rounded: Longs = np.array(widths)[np.searchsorted(widths[:-1], sides)]
    return rounded


def _longest_sides(sides: Longs) -> Longs:
    # NumPy's max over an axis is slow for many short rows.
    result: Longs = reduce(np.maximum, sides.T)
    return result


def _check_noise(noise: float, sort: str, shuffle: bool) -> float:
    arguments.choice(sort, "sort", ("length", "sides"))
    if not 0 <= arguments.number(noise, "noise") <= 1:
        raise ConfigError(f"noise is {noise:g}; give a number from 0 to 1")
    if noise and sort == "sides":
        raise ConfigError(
            f"noise is {noise:g} but sort='sides' takes no noise; set noise to 0 or sort to length"
        )
    if noise and not shuffle:
        raise ConfigError(
            f"noise is {noise:g} but shuffle is False; noise is random: set it to 0, or shuffle"
        )
    return noise


def _sort_with_noise(rows: Longs, longest: Longs, noise: float, seeds: tuple[int, ...]) -> Longs:
    draws = LineRng.of("batches", "noise", *seeds).uniform(rows)
    blurred = longest[rows] * (1 + noise * (2 * draws - 1))
    return rows[np.argsort(blurred, kind="stable")]


def _sort(rows: Longs, sides: Longs, longest: Longs, sort: str) -> Longs:
    """Return rows sorted by length or by sides. A stable sort by the last key comes first."""
    if sort == "sides":
        keys = [*reversed(sides.T)]
    else:
        difference = sides[:, 0] - sides[:, -1]
        tie_breaker = np.where(longest % 2 == 0, difference, -difference)
        keys = [tie_breaker + longest.max(initial=0), longest]  # not negative
    for key in keys:
        rows = rows[stable_order(key[rows])]
    return rows


def _cut_into_steps(
    widths: Longs, max_tokens: int, max_sentences: int | None, multiple: int, world: int
) -> Longs:
    """Return where each step ends among rows of these padded widths."""
    from volt.kernels.batching import cut_steps

    n_rows = len(widths)
    max_rows = max(1, n_rows)
    if max_sentences is not None:
        max_rows = min(max_rows, arguments.whole(max_sentences, "max_sentences", low=1))
    multiple = arguments.whole(multiple, "multiple", low=1)
    world = arguments.whole(world, "world", low=1, high=1 << 31)
    ends = np.empty(n_rows // world, np.int64)
    too_many = n_rows + 1  # larger numbers mean the same, but might overflow
    n_steps = cut_steps(
        widths, max_tokens, max_rows, min(multiple, too_many), min(world, too_many), ends
    )
    return ends[:n_steps]


def _deal_to_ranks(
    rows: Longs, widths: Longs, step_ends: Longs, step_order: Longs, world: int
) -> tuple[Longs, Longs, Longs]:
    """Return the rows of all batches, where each batch ends among them, and its padded width.

    step_ends: where each step ends in `rows`
    step_order: the order of the steps
    """
    from volt.kernels.batching import deal_rows

    order = np.empty(step_ends.max(initial=0), np.int64)
    ends = np.empty(len(step_ends) * world, np.int64)
    deal_rows(rows, step_ends, step_order, world, order, ends)

    step_starts = step_ends - np.diff(step_ends, prepend=0)
    step_widths = np.maximum.reduceat(widths[: len(order)], step_starts)
    return order, ends, np.repeat(step_widths[step_order], world)


def padding_share(batches: TokenBatches, lengths: ArrayLike, *, to_longest: bool = False) -> float:
    """Return the share of padding in the arrays of batches.

    batches: the result of `token_batches`
    lengths: the lengths that `token_batches` was called with
    to_longest: True if all sides are padded to the batch's longest row; False if each side is
        padded to its own longest row

    >>> round(padding_share(token_batches([3, 9, 2, 8], max_tokens=18), [3, 9, 2, 8]), 3)
    0.083
    """
    sides = check_lengths(lengths)
    remedy = "give the result of token_batches"
    if not len(arguments.instance(batches, TokenBatches, "batches", remedy=remedy)):
        return 0.0
    last_row = int(batches.order.max())
    if last_row >= len(sides):
        raise ConfigError(
            f"batches have row {last_row}, but lengths has {counted(len(sides), 'row')}; "
            "give their lengths"
        )

    lengths_in_batches = sides[batches.order]
    widths = np.maximum.reduceat(lengths_in_batches, batches.ends - batches.sizes)
    if to_longest:
        widths = np.broadcast_to(batches.longest[:, None], widths.shape)
    n_positions = (widths * batches.sizes[:, None]).sum()
    return float((n_positions - lengths_in_batches.sum()) / n_positions)
