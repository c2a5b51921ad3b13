"""Loaders with faults that are known: does the count find each of them?

Exact      none: samples go round the ranks
Late       its state is one batch late, so that each rank repeats one
Early      its state is one batch early, so that each rank loses one
Refusing   it takes no state
Failing    it takes a state, and breaks behind the first batch
Hanging    it takes a state, and gives nothing
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from experiments.resume.loaders import Loader, Place, Reading, read_text


class _Round:
    """Samples rank, rank + world, …, which knows how many it has given."""

    def __init__(self, place: Place, given: int, late: int) -> None:
        numbers = [number for path in sorted(place.data.glob("*.txt")) for number in read_text(path)]
        self.numbers, self.batch, self.given, self.late = numbers[place.rank :: place.world], place.batch, given, late

    def __iter__(self) -> Iterator[list[int]]:
        while self.given < len(self.numbers):
            self.given += self.batch
            yield self.numbers[self.given - self.batch : self.given]

    def state(self) -> int:
        """How many have been given, almost."""
        return self.given - self.late * self.batch


class Exact(Loader):
    """With the same ranks, nothing is lost or repeated."""

    told = "planted: exact"
    changes = ("nothing",)
    late = 0

    def open(self, place: Place, state: Any | None) -> Reading:
        """Behind what the state says."""
        return _Round(place, state or 0, self.late)


class Late(Exact):
    """Each rank repeats a batch."""

    told = "planted: late"
    late = 1


class Early(Exact):
    """Each rank loses a batch."""

    told = "planted: early"
    late = -1


class Refusing(Exact):
    """No state will do."""

    told = "planted: refusing"

    def open(self, place: Place, state: Any | None) -> Reading:
        """Only the beginning."""
        if state is not None:
            raise ValueError("this state will not do")
        return super().open(place, state)


class _Breaking(_Round):
    def __iter__(self) -> Iterator[list[int]]:
        yield next(super().__iter__())
        raise OSError("the disk is gone")


class Failing(Exact):
    """Broken behind a state."""

    told = "planted: failing"

    def open(self, place: Place, state: Any | None) -> Reading:
        """It breaks later."""
        return super().open(place, state) if state is None else _Breaking(place, state, 0)


class Hanging(Exact):
    """Silent behind a state."""

    told = "planted: hanging"

    def open(self, place: Place, state: Any | None) -> Reading:
        """It never comes back."""
        if state is not None:
            time.sleep(3600)
        return super().open(place, state)
