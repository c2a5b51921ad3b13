"""`volt stream vocabulary`: the tokens of a mixture of tasks, with their counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volt.display import counted
from volt_cli.console import Phases, loading, prepare_kernels
from volt_cli.options import Quiet, Trust, Workers
from volt_cli.places import check_place, check_places, is_stdout, say_written, write_bytes
from volt_cli.stream.choosing import TaskChoice
from volt_cli.stream.opening import ConfigOrPipeline, Opening, PipelineOptions, Sources, open_stream


def vocabulary(
    config: ConfigOrPipeline,
    choice: TaskChoice,
    pipeline: PipelineOptions,
    sources: Sources = None,
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write, or - for stdout.")
    ] = Path("-"),
    lines: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many lines of the stream are counted.")
    ] = 1_000_000,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many tokens to keep, special ones among them.")
    ] = None,
    workers: Workers = None,
    trust: Trust = False,
    quiet: Quiet = False,
) -> None:
    """Count the subwords of a mixture of tasks, on both sides, and write a line `count<TAB>subword` for each.

    The most frequent come first. Tokens that transforms add, such as language tags, are all there, even those that no
    line has had. `volt import --merges`, switchout, insertion and wb_noise read such files.
    """
    opening = Opening(config, sources or (), pipeline)
    check_places([out], opening.files)
    check_place(out)
    with loading():
        from volt.stream.checking.subword_counts import count_subwords

    phases = Phases(quiet=quiet)
    prepare_kernels(phases, "stream")
    with open_stream(opening, choice, user_code=trust, rank=0, world=1, n_workers=workers, quiet=quiet) as stream:
        check_places([out], stream.files)
        with phases.phase("count subwords", total=lines, unit="lines") as advance:
            found = count_subwords(stream, n_lines=lines, progress=advance)
    found = found if top is None else found.top(top)
    write_bytes(found.to_bytes(), out)
    if not quiet and not is_stdout(out):
        say_written(out, f"{counted(found.table.height, 'token')} of {counted(found.n_lines, 'line')}")
