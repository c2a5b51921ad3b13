"""Plan the steps of a window by a rule: `ByTokens` (batches of rows) or `ByPacks` (batches of
packs).

    lengths of a window's samples → rule → WindowPlan: the samples of each batch, and the samples left over

A step consists of one batch for each rank. A rule is a pure function of lengths, number of ranks,
seed and window number, so every rank computes the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.batches.argument_checks import MOST, check_option
from volt.batches.collation import Arrays, collate, collate_packed
from volt.batches.packing import LONGEST, Packs, cut_samples, pack
from volt.batches.samples import Samples
from volt.batches.token_batching import TokenBatches, limit_of, token_batches


@dataclass(frozen=True, slots=True)
class WindowContext:
    """The facts besides the samples of a window on which its plan depends.

    world: the number of ranks
    window: the number of the window
    n_old: number of samples left over from earlier windows; they come first
    is_last: whether the stream ends with the window
    pad_to_multiple: the layout's `pad_to_multiple`
    """

    world: int
    seed: int = 0
    window: int = 0
    n_old: int = 0
    is_last: bool = True
    pad_to_multiple: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class WindowPlan:
    """The steps of a window. A row is the index of a sample in the window.

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

    def used_rows(self, n_steps: int) -> Longs:
        """Return the rows of the first `n_steps` steps."""
        ends = np.append(0, self.batches.ends)
        used: Longs = self.batches.order[: ends[n_steps * self.batches.world]]
        if self.packs is None:
            return used
        is_used_pack = np.isin(np.arange(len(self.packs)), used)
        n_segments = np.diff(self.packs.ends, prepend=0)
        rows: Longs = self.packs.segments.rows[np.repeat(is_used_pack, n_segments)]
        return rows

    def unused_rows(self, n_steps: int) -> Longs:
        """Return the rows after the first `n_steps` steps, and those left over, in ascending
        order."""
        rows = np.union1d(self.batches.left, self.used_rows(self.n_steps))
        return np.setdiff1d(rows, self.used_rows(n_steps))


@dataclass(frozen=True, slots=True)
class ByTokens:
    """A rule for batches whose number of rows × padded width is at most `max_tokens`.

    `token_batches` explains the options.

    >>> samples = Samples.of({"src": [[5] * n for n in (3, 9, 2, 8)]})
    >>> ByTokens(max_tokens=18).plan(samples, WindowContext(world=2)).n_steps
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
        """Raise ConfigError if an option is out of range, or no row fits when widths are padded."""
        self._batch([], pad_to_multiple=pad_to_multiple)

    def _batch(self, lengths: Any, **context: Any) -> TokenBatches:
        options = {**asdict(self), "on_long": "report"}
        return token_batches(lengths, **options, **context)

    def prepare(self, samples: Samples) -> Samples:
        """Return the samples unchanged."""
        return samples

    def plan(self, samples: Samples, context: WindowContext) -> WindowPlan:
        """Return the steps of a window.

        If another window follows, the rows of the last step go to it, so that even the last window
        has rows for all ranks.
        """
        world = context.world
        batches = self._batch(
            samples.lengths,
            world=world,
            seed=context.seed,
            window=context.window,
            pad_to_multiple=context.pad_to_multiple,
        )
        if not context.is_last and world > 1 and len(batches) > world:
            n_batches = len(batches) - world
            n_rows = int(batches.ends[n_batches - 1])
            batches = replace(
                batches,
                order=batches.order[:n_rows],
                ends=batches.ends[:n_batches],
                longest=batches.longest[:n_batches],
                left=np.union1d(batches.left, batches.order[n_rows:]),
            )
        return WindowPlan(batches)

    def limit(self, pad_to_multiple: int = 1) -> tuple[str, int]:
        """Return the name and value of the option that limits the length of a row."""
        return limit_of(self.max_tokens, self.max_length, self.buckets, pad_to_multiple)

    def make_arrays(
        self, plan: WindowPlan, samples: Samples, batch: int, layout: Mapping[str, Any]
    ) -> Arrays:
        """Return the arrays of the batch with this number.

        layout: arguments of `collate`
        """
        width = None
        if self.buckets:
            width = int(plan.batches.longest[batch])
        return collate(samples, plan.batches[batch], width=width, **layout)


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

    def check(self, pad_to_multiple: int = 1) -> None:
        """Accept any multiple, as all rows have the same length."""

    def prepare(self, samples: Samples) -> Samples:
        """Return the samples, split if on_long is "split"."""
        if self.on_long == "split":
            return cut_samples(samples, self.length)
        return samples

    def plan(self, samples: Samples, context: WindowContext) -> WindowPlan:
        """Return the steps of a window.

        If another window follows, all steps are full, and samples of the emptiest packs go to it.
        """
        packs = pack(
            samples.lengths[:, 0],
            self.length,
            on_long="report",
            shuffle=self.shuffle,
            seed=context.seed,
            window=context.window,
        )
        chosen_packs = np.arange(len(packs))
        if not context.is_last:
            chosen_packs = self._choose_full_packs(packs, context)
        batches = token_batches(  # for which each pack is a row
            np.full(len(chosen_packs), self.length),
            max_tokens=self.rows * self.length,
            multiple=1,
            world=context.world,
            shuffle=False,
        )
        order = chosen_packs[batches.order]
        plan = WindowPlan(replace(batches, order=order), packs)

        is_left = np.ones(len(samples), bool)
        for rows in (packs.too_long, packs.empty, plan.used_rows(plan.n_steps)):
            is_left[rows] = False
        batches = replace(
            batches,
            order=order,
            too_long=packs.too_long,
            too_short=packs.empty,
            left=np.flatnonzero(is_left),
        )
        return WindowPlan(batches, packs)

    def _choose_full_packs(self, packs: Packs, context: WindowContext) -> Longs:
        """Choose packs for whole steps: first packs with rows of earlier windows, then the fullest.

        After a best fit, any two packs together contain more ids than one pack can hold. So
        2 · world - 1 leftover packs contain enough ids to give each rank a pack in the last window.
        """
        packs_per_step = self.rows * context.world
        n_available = max(0, len(packs) - (2 * context.world - 1))
        n_chosen = n_available // packs_per_step * packs_per_step

        pack_starts = packs.ends - np.diff(packs.ends, prepend=0)
        n_ids = np.add.reduceat(packs.segments.sizes, pack_starts)
        is_new = np.minimum.reduceat(packs.segments.rows, pack_starts) >= context.n_old
        order = np.lexsort((-n_ids, is_new))
        return np.sort(order[:n_chosen])

    def limit(self, pad_to_multiple: int = 1) -> tuple[str, int]:
        """Return the name and value of the option that limits the length of a row."""
        return "length", self.length

    def make_arrays(
        self, plan: WindowPlan, samples: Samples, batch: int, layout: Mapping[str, Any]
    ) -> Arrays:
        """Return the arrays of the batch with this number.

        layout: arguments of `collate_packed`
        """
        assert plan.packs is not None
        packs = [plan.packs.rows_of(number) for number in plan.batches[batch].tolist()]
        return collate_packed(samples, packs, length=self.length, **layout)
