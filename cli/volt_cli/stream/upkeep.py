"""`volt stream cache` and `volt stream merge-states`: what is left behind by runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from volt.display import counted
from volt.errors import ConfigError
from volt_cli.console import print_json, say
from volt_cli.options import Json
from volt_cli.places import check_places, is_stdout

_DAYS = 30.0


def cache(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="A cache; default: that in your own cache folder.")
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove what is of no use any more.")] = False,
    days: Annotated[
        float | None, typer.Option(metavar="N", help="Of no use is what was not used for so many days; default: 30.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how large the indices and split files of sources are.

    --prune removes those that were not used for --days, and those of files that are gone or have changed. Nothing is
    lost: what is needed again is made again.
    """
    from volt.stream.reading import shard_cache

    if days is not None and not (prune and days >= 0 and math.isfinite(days)):
        raise ConfigError(f"--days {days:g}: needs --prune, and 0 or more days")
    place = folder or shard_cache.default_cache()
    freed = shard_cache.prune(place, days=_DAYS if days is None else days) if prune else 0
    size = shard_cache.cache_size(place)
    if as_json:
        print_json({"folder": str(place), "bytes": size, "freed": freed})
    else:
        say(f"{place}: {size / 1e6:,.1f} MB" + f", and {freed / 1e6:,.1f} MB were removed" * prune)


def merge_states(
    states: Annotated[list[Path], typer.Argument(metavar="STATE", help="The states of all ranks of a run.")],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the merged state.")],
    world: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Say at which line each of so many new ranks goes on.")
    ] = None,
) -> None:
    """Make one state of those of all ranks, so that a run goes on with another number of ranks.

    What any rank has handed out is not handed out again, and all else is, once. Give the merged state to every new
    rank, with --from-state.

    A new rank's lines go on where the old ranks' lines, divided among the new ones, end: its consumer counts from that
    number for --ack. --world N says the number.
    """
    from volt.stream.running.merging import merge_states
    from volt.stream.running.state_file import load_state, save_state

    check_places([out], states)
    merged = merge_states([load_state(state) for state in states])
    if is_stdout(out):
        print_json(merged)
    else:
        save_state(merged, out)
        say(f"wrote {out}: {counted(len(states), 'state')}, {counted(merged['n'], 'line')}")
    for line in _begins(merged, world) if world else ():
        say(line)


def _begins(merged: dict[str, Any], world: int) -> Iterator[str]:
    """At which line each of the new ranks goes on; ranks that follow each other and go on at the same are one line."""
    from volt.stream.running.merging import rank_state
    from volt.stream.running.state import State

    state = State.from_json(merged)
    for n, group in groupby(range(world), key=lambda rank: rank_state(state, rank, world).n):
        ranks = list(group)
        who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
        yield f"{who} of {world}: on from line {n:,}; count from {n} for --ack"
