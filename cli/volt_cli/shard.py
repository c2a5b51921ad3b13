"""`volt shard`: the inputs of tasks → evenly mixed shards, and counts of their words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from volt.arguments import MAX_LINE
from volt.display import counted
from volt.errors import ConfigError, shown_path
from volt_cli.console import Phases, loading, prepare_kernels, say
from volt_cli.io import check_places, is_stdout
from volt_cli.options import MOST_WORKERS, MaxLine, Quiet, option
from volt_cli.stream.opening import ConfigOptions

if TYPE_CHECKING:
    from volt.stream.config.configuration import Configuration
    from volt.stream.tasks.manifest import Manifest


def _named(message: str) -> Path:
    if not message.strip():
        raise typer.BadParameter("is empty; name a folder")
    return Path(message)


def shard(
    source: ConfigOptions,
    out: Annotated[
        Path | None,
        option(
            "FOLDER",
            "Where to write; default: `shards` in CONFIG.",
            "-o",
            "--output",
            parser=_named,
        ),
    ] = None,
    task: Annotated[
        list[str] | None, option("NAME", "Only this task; may be repeated. Default: all.")
    ] = None,
    lines: Annotated[
        int, option("N", "Maximum lines of a shard, for tasks without n_shards.", min=1)
    ] = 100_000,
    compress: Annotated[
        Literal["zstd", "gz", "none"], typer.Option(help="Compression of shards.")
    ] = "zstd",
    workers: Annotated[
        int | None,
        option("N", "Number of threads; default: one for each core.", min=1, max=MOST_WORKERS),
    ] = None,
    max_line: MaxLine = MAX_LINE,
    quiet: Quiet = False,
) -> None:
    """Write the inputs of each task as shards, evenly mixed, and count their words.

    FOLDER/TASK contains 00000.src.zst, 00000.tgt.zst and so on, words.src.tsv for `volt search --word-counts`, and
    manifest.json, which is written last. If a run is stopped, the next run continues there. Up-to-date shards are
    not rewritten, and old shards stay until all new shards are complete. If a configuration sets `shards: FOLDER`, its
    tasks are read from this folder.
    """
    with loading():
        from volt.stream.config.configuration import load_config
        from volt.stream.tasks.shard_writing import shard
        from volt.stream.transforms.user_file import protect_stdout

    config, phases = source.config, Phases(quiet=quiet)
    check_places([out], [config])
    protect_stdout()
    result = load_config(
        config, user_code=source.trust, values=source.values, use_shards=False, check_files=not task
    )
    if not result.tasks:
        raise ConfigError(
            f"{shown_path(config)}: has no tasks; only tasks are sharded; add `tasks`"
        )
    folder = out or result.shards
    if folder is None:
        raise ConfigError(
            f"{shown_path(config)}: has no `shards`, the folder to write to; give -o FOLDER"
        )
    if is_stdout(folder):
        raise ConfigError("-o -: shards are many files, but stdout takes only one; name a folder")
    check_places([folder], [config])
    prepare_kernels(phases, "stream")
    with (
        phases.phase("count lines", unit="lines") as counting,
        phases.phase("shard", unit="lines") as sharding,
    ):
        bars = {"count lines": counting, "shard": sharding}
        output = shard(
            result.tasks,
            folder,
            lines=lines,
            compress=compress,
            names=task or (),
            workers=workers,
            max_line=max_line,
            progress=lambda step, done, total: bars[step](done, total),
        )
    for manifest in () if quiet else output:
        _tell(manifest, result)


def _tell(output: Manifest, result: Configuration) -> None:
    n_shards = len(output.shards)
    say(
        f"{shown_path(output.folder)}: {counted(n_shards, 'shard')}, {counted(output.n_lines, 'line')}"
    )
    requested = next((task.n_shards for task in result.tasks if task.name == output.task), None)
    if requested is not None and requested > n_shards:
        say(
            f"task {output.task!r} requests {requested:,} shards, but has lines for only {n_shards:,}",
            mark="note",
        )
    if n_bad := output.n_bad_lines:
        first = f"; the first is {output.first_bad}" if output.first_bad else ""
        message = f"{counted(n_bad, 'line')} of task {output.task!r} {'is' if n_bad == 1 else 'are'} not UTF-8{first}"
        say(
            f"{message}; shards contain such lines unchanged, but their words are not counted",
            mark="note",
        )
    most = {source.name: source.checks.max_fields for source in result.sources}
    has_one_field = (
        len(output.sides) > 1 or most.get(output.task) == 1
    )  # each side of a pair has one
    if output.first_tab and has_one_field:
        message = f"{output.first_tab}: contains a tab, which separates fields"
        say(f"{message}; a stream treats such lines of task {output.task!r} as unfit", mark="note")
