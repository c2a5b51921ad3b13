"""Options that say what a command of `volt stream` opens: a configuration file or a named pipeline; template values, a
split, some tasks.

>>> TaskChoice(settings=["src=de", "n=3"]).values
{'src': 'de', 'n': '3'}
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from volt.errors import ConfigError, CorpusError
from volt_cli.console import say
from volt_cli.options import input_paths, readable

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream


Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Write this where the configuration has {{KEY}}; repeatable."),
]


@dataclass(frozen=True)
class TaskChoice:
    """The parts of a configuration to use."""

    PANEL = "Tasks and templates"

    settings: Settings = None
    split: Annotated[
        Literal["train", "valid"],
        typer.Option(help="valid: the tasks of that split, every line once, in order, without noise."),
    ] = "train"
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="This task alone; repeatable. With --split valid, one of any split."),
    ] = None

    @property
    def values(self) -> dict[str, str]:
        """The values of a template by their keys. Raises ConfigError if one is given twice, or without a key."""
        return values_of(self.settings)

    @property
    def options(self) -> dict[str, Any]:
        """The options of `Stream.from_config`."""
        return {"values": self.values, "split": self.split, "tasks": self.task or None}

    def refuse(self, name: object) -> None:
        """Raise ConfigError if anything is wanted of what has no tasks and no places."""
        if self.settings or self.task or self.split != "train":
            raise ConfigError(f"{name}: a pipeline is no configuration file; leave --set, --split and --task out")


def values_of(settings: list[str] | None) -> dict[str, str]:
    """Return the values of a template by their keys, from KEY=VALUE.

    >>> values_of(["src"])
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: --set src: gives no value; write --set src=VALUE
    """
    result = dict[str, str]()
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: gives no value; write --set {setting}=VALUE")
        if not key.isidentifier():
            raise ConfigError(f"--set {setting}: {key!r} is no key; give a word before =, such as src=de")
        if key in result:
            raise ConfigError(f"--set {setting}: {key} is given twice; leave one out")
        result[key] = value
    return result


_PIPELINES = "default, example, multistream and mtdata"


def _is_pipeline(name: str | Path) -> bool:
    """Check whether this is the name of a pipeline, and of no file here."""
    from volt.stream.config.pipelines import PIPELINES

    return str(name) in PIPELINES and (os.path.isdir(name) or not os.path.lexists(name))


def _readable(config: Path) -> Path | None:
    """Return the same file, or the name of a pipeline. Raises ConfigError if it is neither."""
    if _is_pipeline(config):
        return config
    try:
        return readable(ConfigError)(config)
    except ConfigError as error:
        raise _hinted(error, str(config)) from None


def _hinted(error: ConfigError, name: str) -> ConfigError:
    """Return an error that also says which pipeline a name may stand for, if it is near to one."""
    from difflib import get_close_matches

    from volt.stream.config.pipelines import PIPELINES

    meant = get_close_matches(name, PIPELINES, n=1)
    return ConfigError(f"{error}, or did you mean the pipeline {meant[0]}?") if meant else error


ConfigOrPipeline = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG|NAME",
        callback=_readable,
        help=f"A YAML file (`volt stream schema` documents every key), or a pipeline: {_PIPELINES}.",
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Argument(metavar="SOURCE", help="Of a pipeline: files, folders or globs; of mtdata, names of data sets."),
]


@dataclass(frozen=True)
class PipelineOptions:
    """Options of a pipeline, besides its sources."""

    PANEL = "Pipelines"

    weights: Annotated[
        str, typer.Option(metavar="N,N", help="One weight for each source, as in 2,1; default: all the same.")
    ] = ""
    langs: Annotated[str, typer.Option(metavar="L1-L2", help="The languages of mtdata's data sets, as in deu-eng.")] = (
        ""
    )


@dataclass(frozen=True, slots=True)
class Opening:
    """A configuration file, or a pipeline and its options."""

    config: Path
    sources: Sequence[str] = ()
    options: PipelineOptions = PipelineOptions()

    def __post_init__(self) -> None:
        if not self.is_pipeline:
            self._refuse_sources()
        elif str(self.config) != "mtdata":
            self._look_for_sources()

    @property
    def is_pipeline(self) -> bool:
        """True if a pipeline is to be opened."""
        return _is_pipeline(self.config)

    @property
    def files(self) -> list[Path]:
        """The file that says what the stream is, if there is one."""
        return [] if self.is_pipeline else [self.config]

    def _refuse_sources(self) -> None:
        """Raise ConfigError if a configuration, which has sources of its own, is given some."""
        inputs = [*self.sources[:1], *filter(None, (self.options.weights, self.options.langs))]
        if inputs and not os.path.isdir(self.config):
            from volt.stream.config.pipelines import PIPELINES

            also = f"; to have the pipeline {self.config}, move the file" * (str(self.config) in PIPELINES)
            raise ConfigError(f"{self.config}: a file that names its own sources; leave {inputs[0]} out{also}")

    def _look_for_sources(self) -> None:
        """Raise CorpusError if a source is missing, and say so if it looks like a weight."""
        try:
            if self.sources:
                input_paths([*self.sources])
        except CorpusError as error:
            lost = [source for source in self.sources if source.replace(".", "").isdecimal()]
            if self.options.weights and lost:
                message = ",".join([self.options.weights, *lost])
                raise ConfigError(f"--weights takes one word; write --weights {message}") from None
            raise error

    def stream(self, **options: Any) -> Stream:
        """Return the stream, with these options instead of the configuration's."""
        from volt.stream.running.stream import Stream

        if not self.is_pipeline:
            return Stream.from_config(self.config, **options)
        from volt.stream.config.pipelines import parsed_weights, pipeline_config

        weights = parsed_weights(self.options.weights) if self.options.weights else ()
        values = pipeline_config(str(self.config), self.sources, weights=weights, langs=self.options.langs)
        options.pop("user_code", None)
        return Stream(values.sources, policy=values.policy, files=values.files, **options)


def open_stream(
    opening: Opening, choice: TaskChoice, *, rank: int | None = None, world: int | None = None,
    quiet: bool = False, **options: Any,
) -> Stream:  # fmt: skip
    """Return the stream of a configuration or pipeline; options that are None are its own, or the environment's.

    choice: what of a configuration is wanted
    quiet: whether warnings are left out
    """
    from volt.stream.reading.sampler import from_environment
    from volt.stream.transforms.user_file import lead_descriptor

    if (rank is None) != (world is None):
        raise ConfigError("--rank and --world go together; give both or none")
    stored = from_environment() if rank is None or world is None else (rank, world)
    inputs = {name: value for name, value in options.items() if value is not None}
    if opening.is_pipeline:
        choice.refuse(opening.config)
    else:
        inputs |= choice.options
    lead_descriptor()
    stream = opening.stream(rank=stored[0], world=stored[1], **inputs)
    if not quiet:
        say_warnings(stream)
    return stream


def say_warnings(stream: Stream) -> None:
    """Say what may be meant otherwise in the sources of a stream."""
    from volt.stream.config.build import warnings_of

    for warning in warnings_of(source.source for source in stream.sources):
        say(warning, mark="warning", style="bold yellow")
