"""Commands around streams: `volt stream cache`, `merge-states`, `vocabulary` and others."""

from __future__ import annotations

import json
import math
from itertools import groupby
from pathlib import Path
from typing import Annotated

from volt.display import counted
from volt.errors import ConfigError
from volt_cli.console import Phases, loading, prepare_kernels, print_json, say, warn
from volt_cli.io import (
    check_destinations,
    check_distinct_files,
    is_stdout,
    report_written,
    write_bytes,
)
from volt_cli.options import (
    Config,
    Json,
    Output,
    Quiet,
    Seed,
    Trust,
    Workers,
    argument,
    flag,
    option,
    parse_settings,
    readable,
)
from volt_cli.stream.opening import Settings, StreamOptions, TaskOptions

UNUSED_DAYS = 30.0  # default of --days


def import_dynamicdata(
    config: Annotated[
        Path, argument("CONFIG", "The YAML file of dynamicdata.", callback=readable(ConfigError))
    ],
    out: Output,
    batch_samples: Annotated[
        int | None, option("N", "Samples per minibatch; its schedule counts minibatches.", min=1)
    ] = None,
    settings: Settings = None,
    quiet: Quiet = False,
) -> None:
    """Read a configuration of OpenNMT-py's dynamicdata loader, and write it as VOLT's.

    In dynamicdata's file, inputs must be at the top level, and name their tasks: inputs: {NAME:
    {src: FILE, tgt: FILE,
    task: TASK}}. Reports on stderr, and in comments of the new file, which keys have another
        meaning or no counterpart.
    """
    from volt.files.small_files import read_text
    from volt.stream.config.dynamicdata import imported

    check_destinations({"output": out}, [config])
    folder = "" if is_stdout(out) else out.parent
    result = imported(
        read_text(config, kind=ConfigError),
        path=str(config),
        values=parse_settings(settings),
        folder=folder,
        batch_samples=batch_samples,
        check_files=True,
    )
    write_bytes(result.text.encode(), out)
    if not quiet:
        for note in result.notes:
            warn(note, mark="note")
        report_written(out, "" if is_stdout(out) else f"next: volt stream preview {out}")


def vocabulary(
    source: StreamOptions,
    out: Output = Path("-"),
    lines: Annotated[
        int, option("N", "Number of lines of the stream to count.", min=1)
    ] = 1_000_000,
    top: Annotated[
        int | None, option("N", "Number of tokens to keep, including special ones.", min=1)
    ] = None,
    workers: Workers = None,
    trust: Trust = False,
    quiet: Quiet = False,
) -> None:
    """Count the subwords of a mixture of tasks, on both sides, and write a line `count<TAB>subword` for each.

    The most frequent subwords come first. Tokens that transforms add, such as language tags, are
    all listed, even with count 0. `volt import --merges` and the transforms switchout, insertion
    and wb_noise read such files.
    """
    check_destinations({"output": out}, source.files)
    with loading():
        from volt.stream.checking.joint_vocabulary import count_subwords

    phases = Phases(quiet=quiet)
    prepare_kernels(phases, "stream")
    with source.open(user_code=trust, rank=0, world=1, n_workers=workers) as stream:
        check_distinct_files([out], stream.files)
        with phases.phase("count subwords", total=lines, unit="lines") as advance:
            result = count_subwords(stream, n_lines=lines, progress=advance)
    if top is not None:
        result = result.top(top)
    write_bytes(result.to_bytes(), out)
    if not quiet and not is_stdout(out):
        report_written(
            out, f"{counted(result.table.height, 'token')} of {counted(result.n_lines, 'line')}"
        )


def cache(
    folder: Annotated[
        Path | None, argument("FOLDER", "The cache; default: volt/stream in your cache folder.")
    ] = None,
    prune: Annotated[bool, flag("Remove unused files.", "--prune")] = False,
    days: Annotated[
        float | None, option("N", "With --prune: days until a file counts as unused; default: 30.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Report the size of the cache: indices of sources, and copies of compressed files and tables.

    --prune removes files not used for --days, and files of sources that are gone or have changed.
    Nothing is lost: a removed file that is needed again is created again.
    """
    from volt.stream.reading import index_cache

    if days is not None and not (prune and days >= 0 and math.isfinite(days)):
        raise ConfigError(f"--days {days:g}: needs --prune, and 0 or more days")
    place = folder or index_cache.default_cache()
    freed = 0
    if prune:
        freed = index_cache.prune(place, days=UNUSED_DAYS if days is None else days)
    size = index_cache.cache_size(place)
    if as_json:
        print_json({"folder": str(place), "bytes": size, "freed": freed})
        return
    report = f"{place}: {size / 1e6:,.1f} MB"
    if prune:
        report += f", and {freed / 1e6:,.1f} MB were removed"
    say(report)


def skip(
    config: Config,
    from_state: Annotated[Path, argument("STATE", "A saved state of lines or steps.")],
    span: Annotated[str, argument("START:STOP", "The next line or step, and where to continue.")],
    choice: TaskOptions,
    out: Output,
    seed: Seed = None,
    trust: Trust = False,
) -> None:
    """Leave out the lines or steps that follow a saved state, as after a loss spike.

    120:130 skips steps 120 to 129 of a state of steps (of `volt stream batches`, Steps or
    StreamDataset), or these lines of a state of `volt stream run`. The number of ranks is the
    state's. A run from the new state, with any number of ranks, continues with step 130. All later
    states record the skipped lines, for `volt stream trace --state`.
    """
    from volt.batches.steps import Steps
    from volt.ext.loader_state import Position
    from volt.stream.running.checkpoint import read_state
    from volt.stream.running.state import FORMAT, State
    from volt.stream.running.state_validation import whole
    from volt.stream.running.stream import Stream

    check_distinct_files([out], [config])
    start, _, stop = span.partition(":")
    if not (start.isdigit() and stop.isdigit()):
        raise ConfigError(f"{span!r} is not a range; give one such as 120:130")
    stored = read_state(from_state)
    options = choice.stream_options(seed=seed, user_code=trust)
    reader: Stream | Steps
    if stored.get("format") == FORMAT:
        ranks = {"rank": 0, "world": 1, **State.from_json(stored).configuration}
        reader = Stream.from_config(config, rank=ranks["rank"], world=ranks["world"], **options)
        reader.restore(stored)
    else:
        position = Position.from_json(stored)
        world = whole(stored.get("world"), "world", low=1)
        reader = Steps.from_config(config, world=world, ahead=False, **options)
        if position.steps is not None:
            reader.restore(position.steps)
        reader.skip(position.skip)
    with reader:
        reader.skip_range(int(start), int(stop))
        write_bytes((json.dumps(reader.state()) + "\n").encode(), out)
    report_written(out, f"continues at {stop}")


def merge_states(
    states: Annotated[list[Path], argument("STATE", "The states of all ranks of a run.")],
    out: Annotated[Path, option("FILE", "Where to write the merged state.", "-o", "--output")],
    world: Annotated[
        int | None, option("N", "Print the line at which each of N new ranks continues.", min=1)
    ] = None,
) -> None:
    """Merge the states of all ranks into one, to continue a run with another number of ranks.

    No line is repeated or lost. Give the merged state to every new rank, with --from-state. The old
    ranks' lines are divided among the new ranks; each new rank numbers its lines from the end of
    its share. --world N prints these numbers, from which consumers count for --ack.
    """
    from volt.stream.running.checkpoint import load_state, save_state
    from volt.stream.running.merging_states import merge_states, take_rank_share
    from volt.stream.running.state import State

    check_distinct_files([out], states)
    merged = merge_states([load_state(state) for state in states])
    if is_stdout(out):
        print_json(merged)
    else:
        save_state(merged, out)
        say(f"wrote {out}: {counted(len(states), 'state')}, {counted(merged['n'], 'line')}")
    n_ranks = world or 0
    state = State.from_json(merged)
    for n, group in groupby(
        range(n_ranks), key=lambda rank: take_rank_share(state, rank, n_ranks).n
    ):
        ranks = list(group)
        who = f"rank {ranks[0]}"
        if len(ranks) > 1:
            who = f"ranks {ranks[0]} to {ranks[-1]}"
        say(f"{who} of {world}: continue from line {n:,}; count from {n} for --ack")
