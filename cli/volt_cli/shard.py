"""`volt shard`: the inputs of tasks → evenly mixed shards (files), and counts of their words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from volt.arguments import MAX_LINE
from volt.display import counted
from volt.errors import ConfigError, shown_path
from volt_cli.console import Phases, loading, prepare_kernels, say
from volt_cli.io import check_distinct_files, is_stdout
from volt_cli.options import MOST_WORKERS, MaxLine, Quiet, option
from volt_cli.stream.opening import ConfigOptions

if TYPE_CHECKING:
    from volt.stream.config.configuration import Configuration
    from volt.stream.tasks.manifest import Manifest


def _parse_folder(name: str) -> Path:
    if not name.strip():
        raise typer.BadParameter("is empty; name a folder")
    return Path(name)


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    source: ConfigOptions
    out: Annotated[
        Path | None,
        option(
            "FOLDER",
            "Where to write; default: `shards` in CONFIG.",
            "-o",
            "--output",
            parser=_parse_folder,
        ),
    ] = None
    task: Annotated[
        list[str] | None, option("NAME", "Only this task; may be repeated. Default: all.")
    ] = None
    lines: Annotated[
        int, option("N", "Maximum lines of a shard, for tasks without n_shards.", min=1)
    ] = 100_000
    compress: Annotated[
        Literal["zstd", "gz", "none"], typer.Option(help="Compression of shards.")
    ] = "zstd"
    workers: Annotated[
        int | None,
        option("N", "Number of threads; default: one for each core.", min=1, max=MOST_WORKERS),
    ] = None
    max_line: MaxLine = MAX_LINE
    quiet: Quiet = False


def shard(options: ShardOptions) -> None:
    """Write the inputs of each task as shards, evenly mixed, and count their words.

    FOLDER/TASK contains 00000.src.zst, 00000.tgt.zst and so on, words.src.tsv for `volt search
    --word-counts`, and manifest.json, which is written last. If a run is stopped, the next run
    continues there. Up-to-date shards are not rewritten, and old shards stay until all new shards
    are complete. If a configuration sets `shards: FOLDER`, its tasks are read from this folder.
    """
    from volt.stream.transforms.user_file import protect_stdout

    with loading():
        from volt.stream.config.configuration import load_config
        from volt.stream.tasks.shard_writing import shard

    source = options.source
    config = shown_path(source.config)
    phases = Phases(quiet=options.quiet)
    check_distinct_files([options.out], [source.config])
    protect_stdout()
    configuration = load_config(
        source.config,
        user_code=source.trust,
        values=source.template_values,
        use_shards=False,
        check_files=not options.task,
    )
    if not configuration.tasks:
        raise ConfigError(f"{config}: has no tasks; only tasks are sharded; add `tasks`")
    folder = options.out or configuration.shards
    if folder is None:
        raise ConfigError(f"{config}: has no `shards`, the folder to write to; give -o FOLDER")
    if is_stdout(folder):
        raise ConfigError("-o -: shards are many files, but stdout takes only one; name a folder")
    check_distinct_files([folder], [source.config])
    prepare_kernels(phases, "stream")
    with (
        phases.phase("count lines", unit="lines") as counting,
        phases.phase("shard", unit="lines") as sharding,
    ):
        bars = {"count lines": counting, "shard": sharding}
        manifests = shard(
            configuration.tasks,
            folder,
            lines=options.lines,
            compress=options.compress,
            names=options.task or (),
            workers=options.workers,
            max_line=options.max_line,
            progress=lambda step, done, total: bars[step](done, total),
        )
    if not options.quiet:
        for manifest in manifests:
            _report(manifest, configuration)


def _report(manifest: Manifest, configuration: Configuration) -> None:
    """Report the shards of a task, and note what a reader of them may not expect."""
    task = manifest.task
    n_shards = len(manifest.shards)
    sizes = f"{counted(n_shards, 'shard')}, {counted(manifest.n_lines, 'line')}"
    say(f"{shown_path(manifest.folder)}: {sizes}")
    for other in configuration.tasks:
        if other.name == task and other.n_shards is not None and other.n_shards > n_shards:
            requested = f"task {task!r} requests {other.n_shards:,} shards"
            say(f"{requested}, but has lines for only {n_shards:,}", mark="note")
    if manifest.n_bad_lines:
        verb = "is" if manifest.n_bad_lines == 1 else "are"
        fault = f"{counted(manifest.n_bad_lines, 'line')} of task {task!r} {verb} not UTF-8"
        if manifest.first_bad:
            fault += f"; the first is {manifest.first_bad}"
        say(
            f"{fault}; shards contain such lines unchanged, but their words are not counted",
            mark="note",
        )
    max_fields = {source.name: source.checks.max_fields for source in configuration.sources}
    is_pair = len(manifest.sides) > 1  # each side is then one field
    if manifest.first_tab and (is_pair or max_fields.get(task) == 1):
        say(
            f"{manifest.first_tab}: contains a tab, which separates fields; a stream treats such "
            f"lines of task {task!r} as unfit",
            mark="note",
        )
