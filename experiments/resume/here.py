"""Ranks that are played within this process: a kill is that the object is dropped. For many rounds in little time.

A leg is as in `ranks`, with one difference: ranks are read one after the other, and what they leave is a value and no
file. States go through pickle all the same, so that nothing of a dropped object lives on.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import islice
from typing import Any

from experiments.resume.loaders import Loader, Place, Reading
from experiments.resume.ranks import Played, Trouble
from experiments.resume.rounds import Leg


def play_leg_here(
    loader: Loader, leg: Leg, places: Sequence[Place], states: Sequence[Any | None], *, every: int, limit: float
) -> Played:
    """Read each rank up to the state before the kill, or to its end. limit: of no use here. Raises Trouble."""
    at = None if leg.kill is None else leg.kill // every * every
    read = [_read(loader, place, state, at) for place, state in zip(places, states, strict=True)]
    consumed = [number for numbers, _ in read for number in numbers]
    return Played(consumed, [pickle.loads(state) for _, state in read] if at else ())


def _read(loader: Loader, place: Place, state: Any | None, at: int | None) -> tuple[list[int], bytes]:
    """What one rank hands out, and its state behind that."""
    numbers, given = list[int](), 0
    try:
        reading: Reading = loader.open(place, state)
        batches = iter(reading)
        for batch in islice(batches, at):
            numbers += batch
            given += 1
        saved = b"" if at is None else pickle.dumps(reading.state())
        for _ in islice(batches, 0 if at is None else 1):  # handed out behind the state: not consumed
            pass
    except Exception as error:
        kind = "error" if given or state is None else "refused"
        raise Trouble(kind, f"{type(error).__name__}: {error}") from error
    finally:
        close = getattr(locals().get("reading"), "close", None)
        if close:
            close()
    return numbers, saved
