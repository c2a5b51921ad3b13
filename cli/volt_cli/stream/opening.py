"""Open the stream that the arguments of a `volt stream` command describe.

A stream is either a configuration file (stream.yaml), or a pipeline: a ready-made stream with a
name, to which the user gives the sources. A file that is named like a pipeline is read as a
configuration.

    volt stream run stream.yaml --set lang=de --split valid
    volt stream run multistream de.tsv.gz fr.tsv.gz --weights 2,1
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from volt.errors import ConfigError
from volt_cli.options import (
    Config,
    Trust,
    argument,
    expand_inputs,
    option,
    parse_settings,
    readable,
)

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream


Settings = Annotated[
    list[str] | None, option("KEY=VALUE", "Replace {{KEY}} in the file; may be repeated.", "--set")
]


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """A configuration file, for commands that take no pipeline."""

    config: Config
    settings: Settings = None
    trust: Trust = False

    @property
    def template_values(self) -> dict[str, str]:
        return parse_settings(self.settings)


@dataclass(frozen=True)
class TaskOptions:
    """The part of a configuration file that is read."""

    PANEL = "Tasks and templates"

    settings: Settings = None
    split: Annotated[
        Literal["train", "valid"],
        typer.Option(help="valid: the validation tasks, each line once, in order, without noise."),
    ] = "train"
    task: Annotated[
        list[str] | None,
        option("NAME", "Only this task; may be repeated. With --split valid: any."),
    ] = None

    def stream_options(self, **others: Any) -> dict[str, Any]:
        """Return arguments of `Stream.from_config`.

        others: further arguments; one that is None keeps its default
        """
        options = {name: value for name, value in others.items() if value is not None}
        options["values"] = parse_settings(self.settings)
        return {**options, "split": self.split, "tasks": self.task or None}


@dataclass(frozen=True)
class PipelineOptions:
    PANEL = "Pipelines"

    weights: Annotated[
        str, option("N,N", "One weight for each source, such as 2,1; default: equal.")
    ] = ""
    langs: Annotated[
        str, option("L1-L2", "The languages of mtdata's data sets, such as deu-eng.")
    ] = ""


def is_pipeline(name: str | Path) -> bool:
    """Check whether a name is a pipeline, and not a configuration file of that name."""
    from volt.stream.config.presets import PIPELINES

    return str(name) in PIPELINES and (os.path.isdir(name) or not os.path.lexists(name))


def _check_config_or_pipeline(name: Path) -> Path | None:
    """Check that a name is a pipeline or a readable file, and return it.

    Raises ConfigError, which suggests a pipeline of a similar name.
    """
    if is_pipeline(name):
        return name
    try:
        return readable(ConfigError)(name)
    except ConfigError as error:
        from difflib import get_close_matches

        from volt.stream.config.presets import PIPELINES

        for pipeline in get_close_matches(str(name), PIPELINES, n=1):
            raise ConfigError(f"{error}, or did you mean the pipeline {pipeline}?") from None
        raise


@dataclass(frozen=True)
class StreamOptions:
    """A configuration file or a pipeline, and the options of either."""

    config: Annotated[
        Path,
        argument(
            "CONFIG|NAME",
            "A YAML file (see `volt stream schema`), or a pipeline: default, example, multistream or mtdata.",
            callback=_check_config_or_pipeline,
        ),
    ]
    choice: TaskOptions
    pipeline: PipelineOptions
    sources: Annotated[
        list[str] | None, argument("SOURCE", "Files, folders or globs; for mtdata, data sets.")
    ] = None

    def __post_init__(self) -> None:
        """Check the sources. Raises ConfigError if a file has a pipeline's options."""
        from volt.stream.config.presets import PIPELINES

        name = str(self.config)
        sources = self.sources or []
        if is_pipeline(name):
            if sources and name != "mtdata":
                expand_inputs(sources)
            return
        surplus = [*sources, *filter(None, (self.pipeline.weights, self.pipeline.langs))]
        if surplus and not os.path.isdir(name):
            remedy = f"remove {surplus[0]}"
            if name in PIPELINES:
                remedy += f"; to run the pipeline {name}, move the file"
            raise ConfigError(f"{name}: is a file with its own sources; {remedy}")

    @property
    def files(self) -> list[Path]:
        """The configuration file; empty for a pipeline."""
        return [] if is_pipeline(self.config) else [self.config]

    def open(self, *, rank: int | None = None, world: int | None = None, **options: Any) -> Stream:
        """Open the stream.

        rank, world: this process among all; if both are None, torchrun, MPI or Slurm set them
        options: arguments of `Stream`; an option that is None keeps its default
        """
        from volt.stream.reading.ranks import from_environment
        from volt.stream.running.stream import Stream
        from volt.stream.transforms.user_file import protect_stdout

        if (rank is None) != (world is None):
            raise ConfigError("--rank and --world work only together; give both or neither")
        if rank is None or world is None:
            rank, world = from_environment()
        protect_stdout()
        stream_options = {name: value for name, value in options.items() if value is not None}
        stream_options |= {"rank": rank, "world": world}
        if is_pipeline(self.config):
            return self._open_pipeline(stream_options)
        return Stream.from_config(self.config, **self.choice.stream_options(**stream_options))

    def _open_pipeline(self, stream_options: dict[str, Any]) -> Stream:
        from volt.stream.config.presets import parse_weights, pipeline_config
        from volt.stream.running.stream import Stream

        choice = self.choice
        if choice.settings or choice.task or choice.split != "train":
            raise ConfigError(
                f"{self.config}: a pipeline has no tasks; remove --set, --split and --task"
            )
        weights = self.pipeline.weights
        configuration = pipeline_config(
            str(self.config),
            self.sources or (),
            weights=parse_weights(weights) if weights else (),
            langs=self.pipeline.langs,
        )
        stream_options.pop("user_code", None)  # pipelines have no user code
        return Stream(
            configuration.sources,
            policy=configuration.policy,
            files=configuration.files,
            **stream_options,
        )
