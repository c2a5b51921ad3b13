"""Options of `volt stream`: a configuration file or a named pipeline; template values, a split, some tasks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from volt.errors import ConfigError
from volt_cli.options import Config, Trust, argument, input_paths, option, readable, values_of

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream


Settings = Annotated[
    list[str] | None, option("KEY=VALUE", "Replace {{KEY}} in the file; may be repeated.", "--set")
]


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    config: Config
    settings: Settings = None
    trust: Trust = False

    @property
    def values(self) -> dict[str, str]:
        return values_of(self.settings)


@dataclass(frozen=True)
class TaskChoice:
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

    @property
    def options(self) -> dict[str, Any]:
        return {"values": values_of(self.settings), "split": self.split, "tasks": self.task or None}


def _is_pipeline(name: str | Path) -> bool:
    from volt.stream.config.presets import PIPELINES

    return str(name) in PIPELINES and (os.path.isdir(name) or not os.path.lexists(name))


def _readable(config: Path) -> Path | None:
    if _is_pipeline(config):
        return config
    try:
        return readable(ConfigError)(config)
    except ConfigError as error:
        from difflib import get_close_matches

        from volt.stream.config.presets import PIPELINES

        for name in get_close_matches(str(config), PIPELINES, n=1):
            raise ConfigError(f"{error}, or did you mean the pipeline {name}?") from None
        raise


@dataclass(frozen=True)
class PipelineOptions:
    PANEL = "Pipelines"

    weights: Annotated[
        str, option("N,N", "One weight for each source, such as 2,1; default: equal.")
    ] = ""
    langs: Annotated[
        str, option("L1-L2", "The languages of mtdata's data sets, such as deu-eng.")
    ] = ""


@dataclass(frozen=True)
class StreamOptions:
    """A configuration file, or a pipeline and its options."""

    config: Annotated[
        Path,
        argument(
            "CONFIG|NAME",
            "A YAML file (see `volt stream schema`), or a pipeline: default, example, multistream or mtdata.",
            callback=_readable,
        ),
    ]
    choice: TaskChoice
    pipeline: PipelineOptions
    sources: Annotated[
        list[str] | None, argument("SOURCE", "Files, folders or globs; for mtdata, data sets.")
    ] = None

    def __post_init__(self) -> None:
        from volt.stream.config.presets import PIPELINES

        sources = self.sources or []
        weights = self.pipeline.weights
        extra = [*sources[:1], *filter(None, (weights, self.pipeline.langs))]
        if not self.is_pipeline and extra and not os.path.isdir(self.config):
            remedy = f"remove {extra[0]}"
            if str(self.config) in PIPELINES:
                remedy += f"; to run the pipeline {self.config}, move the file"
            raise ConfigError(f"{self.config}: is a file with its own sources; {remedy}")
        if self.is_pipeline and sources and str(self.config) != "mtdata":
            input_paths(sources)

    @property
    def is_pipeline(self) -> bool:
        return _is_pipeline(self.config)

    @property
    def files(self) -> list[Path]:
        return [] if self.is_pipeline else [self.config]

    def open(self, *, rank: int | None = None, world: int | None = None, **options: Any) -> Stream:
        """Return the stream. An option that is None keeps its default."""
        from volt.stream.config.presets import parsed_weights, pipeline_config
        from volt.stream.reading.ranks import from_environment
        from volt.stream.running.stream import Stream
        from volt.stream.transforms.user_file import protect_stdout

        if (rank is None) != (world is None):
            raise ConfigError("--rank and --world work only together; give both or neither")
        if rank is None or world is None:
            rank, world = from_environment()
        protect_stdout()
        inputs = {name: value for name, value in options.items() if value is not None}
        inputs |= {"rank": rank, "world": world}
        if self.is_pipeline:
            if self.choice.settings or self.choice.task or self.choice.split != "train":
                raise ConfigError(
                    f"{self.config}: a pipeline has no tasks; remove --set, --split and --task"
                )
            weights = parsed_weights(self.pipeline.weights) if self.pipeline.weights else ()
            values = pipeline_config(
                str(self.config), self.sources or (), weights=weights, langs=self.pipeline.langs
            )
            inputs.pop("user_code", None)
            return Stream(values.sources, policy=values.policy, files=values.files, **inputs)
        return Stream.from_config(self.config, **inputs, **self.choice.options)
