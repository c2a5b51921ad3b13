"""`volt stream cache` and `volt stream merge-states`: what is left behind by runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

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
) -> None:
    """Make one state of those of all ranks, so that a run goes on with another number of ranks.

    What any rank has handed out is not handed out again, and all else is, once. Give the merged state to every new
    rank, with --from-state.
    """
    from volt.stream.running.merging import merge_states
    from volt.stream.running.state_file import load_state, save_state

    check_places([out], states)
    merged = merge_states([load_state(state) for state in states])
    if is_stdout(out):
        print_json(merged)
        return
    save_state(merged, out)
    say(f"wrote {out}: {len(states)} states, {merged['n']:,} lines")
