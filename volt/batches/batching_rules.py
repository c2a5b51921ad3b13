"""Turn the samples of a window into steps of one batch for each rank, by a rule: `ByTokens` or
`ByPacks`.

A rule is a pure function of lengths, number of ranks, seed and window number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from volt import arguments
from volt.batches.argument_checks import MOST, Longs, check_option
from volt.batches.collation import Arrays, collate, collate_packed
from volt.batches.packing import LONGEST, Packs, cut_samples, pack
from volt.batches.samples import Samples
from volt.batches.token_batching import TokenBatches, limit_of, token_batches


@dataclass(frozen=True, slots=True, eq=False)
class WindowPlan:
    """The steps of a window.

    batches: batches of rows or of packs; batch s · world + r is for rank r in step s.
        `batches.left` (for the next window), `batches.too_long` and `batches.too_short` are always
        rows
    packs: the packs; None if batches contain rows
    """

    batches: TokenBatches
    packs: Packs | None = None

    @property
    def n_steps(self) -> int:
        return len(self.batches) // self.batches.world

    def rows_of(self, n_steps: int) -> Longs:
        """Return the rows of the first `n_steps` steps."""
        ends = np.append(0, self.batches.ends)
        placed: Longs = self.batches.order[: ends[n_steps * self.batches.world]]
        if self.packs is None:
            return placed
        is_placed = np.isin(np.arange(len(self.packs)), placed)
        n_segments = np.diff(self.packs.ends, prepend=0)
        rows: Longs = self.packs.segments.rows[np.repeat(is_placed, n_segments)]
        return rows

    def rest(self, n_steps: int) -> Longs:
        """Return, in order, the rows that are not in the first `n_steps` steps."""
        rows = np.union1d(self.batches.left, self.rows_of(self.n_steps))
        return np.setdiff1d(rows, self.rows_of(n_steps))


@dataclass(frozen=True, slots=True)
class ByTokens:
    """A rule for batches whose number of rows × padded width is at most `max_tokens`.

    `token_batches` explains the options.

    >>> samples = Samples.of({"src": [[5] * n for n in (3, 9, 2, 8)]})
    >>> ByTokens(max_tokens=18).planned(samples, world=2).n_steps
    1
    """

    name: ClassVar[str] = "tokens"
    max_tokens: int
    max_sentences: int | None = None
    multiple: int = 8
    sort: Literal["length", "sides"] = "length"
    noise: float = 0.0
    max_length: int | None = None
    min_length: int = 1
    buckets: tuple[int, ...] | None = None
    on_long: Literal["raise", "report"] = "raise"
    shuffle: bool = True

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_sentences", "multiple", "max_length", "min_length"):
            check_option(self, name, arguments.whole, can_lack=True, low=1, high=MOST)
        if self.buckets is not None:
            object.__setattr__(self, "buckets", tuple(arguments.wholes(self.buckets, "buckets")))
        check_option(self, "noise", arguments.number)
        check_option(self, "on_long", arguments.choice, choices=("raise", "report"))
        self.check()

    def check(self, pad_to_multiple: int = 1) -> None:
        """Raise ConfigError if an option is out of range, or `pad_to_multiple` leaves no room."""
        token_batches([], pad_to_multiple=pad_to_multiple, **self._options)

    @property
    def _options(self) -> Arrays:
        return {**asdict(self), "on_long": "report"}

    def prepared(self, samples: Samples) -> Samples:
        return samples

    def planned(
        self,
        samples: Samples,
        *,
        world: int,
        seed: int = 0,
        window: int = 0,
        n_old: int = 0,
        is_last: bool = True,
        pad_to_multiple: int = 1,
    ) -> WindowPlan:
        """Return the steps of a window.

        n_old: number of samples left over from earlier windows; they come first
        is_last: whether this is the stream's last window. If not, the rows of the last step go to
            the next window, so that even the last window has rows for all ranks
        pad_to_multiple: the layout's `pad_to_multiple`
        """
        batches = token_batches(
            samples.lengths,
            world=world,
            seed=seed,
            window=window,
            pad_to_multiple=pad_to_multiple,
            **self._options,
        )
        if not is_last and world > 1 and len(batches) > world:
            n_batches = len(batches) - world
            end = int(batches.ends[n_batches - 1])
            batches = replace(
                batches,
                order=batches.order[:end],
                ends=batches.ends[:n_batches],
                longest=batches.longest[:n_batches],
                left=np.union1d(batches.left, batches.order[end:]),
            )
        return WindowPlan(batches)

    def limit(self, pad_to_multiple: int = 1) -> tuple[str, int]:
        return limit_of(self.max_tokens, self.max_length, self.buckets, pad_to_multiple)

    def arrays(
        self, planned: WindowPlan, samples: Samples, number: int, layout: Mapping[str, Any]
    ) -> Arrays:
        """Return the arrays of a batch. number: the number of the batch in the window"""
        width = None
        if self.buckets:
            width = int(planned.batches.longest[number])
        return collate(samples, planned.batches[number], width=width, **layout)


@dataclass(frozen=True, slots=True)
class ByPacks:
    """A rule for language models: batches of `rows` rows, each `length` ids long and filled with
    whole samples.

    on_long: action for a sample longer than a row: "raise" an error, "report" and drop it, or
        "split" it
    shuffle: whether the order of packs is random

    >>> ByPacks(length=1024, rows=8).on_long
    'raise'
    """

    name: ClassVar[str] = "packs"
    length: int
    rows: int
    on_long: Literal["raise", "report", "split"] = "raise"
    shuffle: bool = True

    def __post_init__(self) -> None:
        check_option(self, "length", arguments.whole, low=1, high=LONGEST)
        check_option(self, "rows", arguments.whole, low=1, high=MOST // self.length)
        pack([], self.length, on_long=self.on_long)  # checks on_long

    def prepared(self, samples: Samples) -> Samples:
        """Return the samples, split if on_long is "split"."""
        if self.on_long == "split":
            return cut_samples(samples, self.length)
        return samples

    def planned(
        self,
        samples: Samples,
        *,
        world: int,
        seed: int = 0,
        window: int = 0,
        n_old: int = 0,
        is_last: bool = True,
        pad_to_multiple: int = 1,
    ) -> WindowPlan:
        """Return the steps of a window.

        All steps are full, except in the last window; the emptiest packs are left over.
        """
        packs = pack(
            samples.lengths[:, 0],
            self.length,
            on_long="report",
            shuffle=self.shuffle,
            seed=seed,
            window=window,
        )
        chosen = np.arange(len(packs))
        if not is_last:
            chosen = self._fullest(packs, world, n_old)
        batches = token_batches(
            np.full(len(chosen), self.length),
            max_tokens=self.rows * self.length,
            multiple=1,
            world=world,
            shuffle=False,
        )
        batches = replace(
            batches,
            order=chosen[batches.order],
            too_long=packs.too_long,
            too_short=packs.empty,
        )

        plan = WindowPlan(batches, packs)
        is_left = np.ones(len(samples), bool)
        is_left[packs.too_long] = False
        is_left[packs.empty] = False
        is_left[plan.rows_of(plan.n_steps)] = False
        batches = replace(batches, left=np.flatnonzero(is_left))
        return WindowPlan(batches, packs)

    def _fullest(self, packs: Packs, world: int, n_old: int) -> Longs:
        """Choose packs for whole steps: first packs with rows of earlier windows, then the fullest.

        After a best fit, any two packs together contain more ids than one pack can hold. So
        2 · world - 1 leftover packs contain enough ids to give each rank a pack in the last window.
        """
        packs_per_step = self.rows * world
        n_available = max(0, len(packs) - 2 * world + 1)
        n_chosen = n_available // packs_per_step * packs_per_step

        starts = packs.ends - np.diff(packs.ends, prepend=0)
        n_ids = np.add.reduceat(packs.segments.sizes, starts)
        is_new = np.minimum.reduceat(packs.segments.rows, starts) >= n_old
        order = np.lexsort((-n_ids, is_new))
        return np.sort(order[:n_chosen])

    def check(self, pad_to_multiple: int = 1) -> None:
        """Accept any multiple, as all rows have the same length."""

    def limit(self, pad_to_multiple: int = 1) -> tuple[str, int]:
        return "length", self.length

    def arrays(
        self, planned: WindowPlan, samples: Samples, number: int, layout: Mapping[str, Any]
    ) -> Arrays:
        """Return the arrays of a batch. number: the number of the batch in the window"""
        assert planned.packs is not None
        packs = [planned.packs.rows_of(pack) for pack in planned.batches[number].tolist()]
        return collate_packed(samples, packs, length=self.length, **layout)
