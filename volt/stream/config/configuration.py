"""A YAML configuration → the sources, transforms and options of a stream.

    seed: 1
    sources:
      parallel:
        path: parallel.tsv.gz
        transforms: [skip_blank, lower: {fields: [1]}]

Everything is checked before anything runs, and all mistakes are reported at once, each with its
line. Relative paths are relative to the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from volt import arguments
from volt.errors import VoltError
from volt.files.atomic import check_distinct
from volt.files.paths import expand
from volt.stream.config.batches import Batches, batches_of
from volt.stream.config.problems import Notes
from volt.stream.config.pydantic_models import StreamOptions
from volt.stream.config.sources import SourceBuilder, sampling_of, sources_by_pattern
from volt.stream.config.tasks import LANGUAGES, NAMES, defaults_of, selected, tasks_with_sources
from volt.stream.config.template_rendering import parse_template, read
from volt.stream.config.yaml_document import Document, Place, Values
from volt.stream.mixing.mixture import Mixture, Sampling
from volt.stream.reading.error_policy import ErrorPolicy, check_quarantine
from volt.stream.reading.source_definition import Source
from volt.stream.tasks.task import Split, Task
from volt.stream.transforms.loaded_files import LoadedFiles
from volt.stream.transforms.transform import find_files

Ends = Literal["stop", "drop"]
_NAMES = "give a list of names of tasks"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of a configuration file: the arguments of a `Stream`, and the tasks.

    files: the files that transforms have loaded.
    tasks: the tasks of both splits; shards: the folder of their shards.
    named: the files and globs of all sources, tasks, transforms and batches, selected or not.
    mix: how to derive the weights from numbers of lines; None if the sources have weights.
    batches: the section `batches`.
    """

    sources: tuple[Source, ...]
    seed: int
    ends: Ends
    n_workers: int
    time_limit: float | None
    policy: ErrorPolicy
    cache: Path | None
    files: LoadedFiles
    mix: Sampling | None
    tasks: tuple[Task, ...]
    shards: Path | None
    named: tuple[str, ...]
    batches: Batches | None

    @property
    def options(self) -> Values:
        """The arguments of a `Stream`, by name."""
        others = ("tasks", "shards", "named", "batches")
        names = [field.name for field in fields(self) if field.name not in others]
        return {name: getattr(self, name) for name in names}


def files_at(paths: Sequence[str]) -> Sequence[str]:
    """Expand folders and globs; return the paths themselves if one of them cannot be read."""
    try:
        return expand(paths)
    except VoltError:
        return paths


def load_config(
    path: str | Path,
    *,
    user_code: bool = True,
    values: Mapping[str, object] | None = None,
    split: Split = "train",
    tasks: Sequence[str] | None = None,
    use_shards: bool = True,
    check_files: bool = True,
) -> Configuration:
    """Read and check a configuration file. Raises ConfigError with the line of every mistake.

    user_code: whether the file may name Python files; checking runs them
    values: placeholder → its value, if the file is a template
    split: "train" for training, or "valid" for validation, which reads each line once, without
        noise
    tasks: the names of tasks to read (for "valid", also of split train); by default all tasks of
        the split
    use_shards: whether tasks are read from the folder `shards`
    check_files: whether files of sources, tasks and shards must exist
    """
    document = read(path, values=values)
    return _configuration(
        document, split, tasks, check_files=check_files, user_code=user_code, use_shards=use_shards
    )


def parse_config(
    text: str,
    *,
    path: str = "stream.yaml",
    user_code: bool = True,
    values: Mapping[str, object] | None = None,
    split: Split = "train",
    tasks: Sequence[str] | None = None,
) -> Configuration:
    """Check a configuration given as text. Files of sources, tasks and shards need not exist.

    path: the file's path, for errors and relative paths; other options are as in `load_config`

    >>> configuration = parse_config("sources: {wmt: {path: a.tsv, transforms: [lower: [1]]}}", path="stream.yaml")
    >>> configuration.sources[0].transforms
    (Lower(fields=(1,), if_cased=None),)
    """
    document = parse_template(text, path=path, values=values)
    return _configuration(document, split, tasks, user_code=user_code)


def config_of_values(value: Values, *, path: str) -> Configuration:
    """Check a configuration in Python values, without running user code.

    Paths start at the current folder.

    path: the configuration's name in errors
    """
    return _configuration(Document(path, value, {}), check_files=True, user_code=False)


def _configuration(
    document: Document,
    split: Split = "train",
    names: Sequence[str] | None = None,
    *,
    check_files: bool = False,
    user_code: bool = True,
    use_shards: bool = True,
) -> Configuration:
    arguments.choice(split, "split", get_args(Split))
    if names is not None:
        names = arguments.texts(names, "tasks", one=_NAMES, remedy=_NAMES)
    notes = Notes(document)
    builder = SourceBuilder(notes, LoadedFiles(), check_files=check_files, user_code=user_code)
    options = notes.checked(TypeAdapter(StreamOptions), document.value, ())
    _check_that_lines_come(document.value, notes)
    if options is None:
        _check_transforms(document.value, builder)
        raise notes.error()

    cache = _folder(options, "cache", notes)
    shards = _folder(options, "shards", notes)
    common = options.transforms
    others = [
        builder.source(name, source, common, ("sources", name))
        for name, source in options.sources.items()
    ]
    others += sources_by_pattern(builder, options, cache)
    untasked = [source for source in others if source is not None]
    pairs = tasks_with_sources(builder, options, shards if use_shards else None)
    sources = selected(pairs, untasked, notes, split=split, names=names)
    batches = None
    if options.batches is not None:
        batches = batches_of(options.batches, notes, sources, check_files=check_files)
    policy = _policy(options, builder, sources)
    mix = sampling_of(options, notes)
    if not notes.problems:
        _check_weights(sources, notes)
    if notes.problems or policy is None:
        raise notes.error()

    is_valid = split == "valid"
    return Configuration(
        tuple(sources),
        options.seed,
        "drop" if is_valid else options.ends,
        options.workers,
        options.time_limit,
        policy,
        cache,
        builder.files,
        None if is_valid else mix,
        tuple(task for task, _ in pairs),
        shards,
        _named(untasked, pairs, batches),
        batches,
    )


def _folder(options: StreamOptions, key: str, notes: Notes) -> Path | None:
    path = getattr(options, key)
    return None if path is None else Path(notes.file(path, (key,)))


def _check_that_lines_come(value: object, notes: Notes) -> None:
    if not isinstance(value, dict) or value.get("each") or value.get("tasks"):
        return
    empty = [key for key in ("sources", "tasks") if key in value]
    if not empty:
        notes.add((), "key 'sources' is missing; give it, or tasks")
    elif not value[empty[0]]:
        notes.add((empty[0],), "is empty; give at least one")


def _check_transforms(value: Any, builder: SourceBuilder) -> None:
    """Check the transforms of a configuration that is invalid elsewhere, to report all mistakes at
    once."""
    defaults = defaults_of(_mapping(value, "defaults"), builder)
    by_place: dict[Place, Any] = {("each",): _mapping(value, "each")}
    for key in ("sources", "tasks"):
        for name in _mapping(value, key):
            by_place[key, name] = _mapping(_mapping(value, key), name)
    for place, source in by_place.items():
        if place[0] == "tasks":
            task = {key: source[key] for key in LANGUAGES if isinstance(source.get(key), str)}
            of_source = replace(builder, names=NAMES, task=task, defaults=defaults)
        else:
            names = tuple(_mapping(source, "pair") or _mapping(source, "columns"))
            of_source = replace(builder, names=names)
        if source:
            of_source.transforms(source.get("transforms"), (*place, "transforms"))
            of_source.transforms(value.get("transforms"), ("transforms",))


def _mapping(value: object, key: str) -> Values:
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _policy(
    options: StreamOptions, builder: SourceBuilder, sources: Sequence[Source]
) -> ErrorPolicy | None:
    notes = builder.notes
    place = ("errors", "quarantine")
    values = options.errors.model_dump()
    quarantine = options.errors.quarantine
    if quarantine is not None:
        quarantine = values["quarantine"] = notes.file(quarantine, place)
        if builder.check_files:
            paths = [path for source in sources for path in files_at(source.paths)]
            with notes.catching(place):
                check_quarantine(quarantine)
                check_distinct([quarantine], paths)
    return notes.build(ErrorPolicy, ("errors",), **values)


def _check_weights(sources: Sequence[Source], notes: Notes) -> None:
    lines = notes.document.lines
    keys = [(key,) for key in ("sources", "each", "tasks")]
    places = [place for place in keys if place in lines]
    with notes.catching(*places, ()):
        Mixture([source.weight for source in sources]).shares()


def _named(
    others: Sequence[Source], pairs: Sequence[tuple[Task, Source]], batches: Batches | None
) -> tuple[str, ...]:
    sources = [*others, *(source for _, source in pairs)]
    paths = [path for source in sources for path in source.paths]
    for task, _ in pairs:
        for inputs in task.inputs:
            paths += inputs.paths
    paths += map(str, find_files([source.transforms for source in sources]))
    if batches is not None:
        paths += batches.vocabularies.values()
    return tuple(dict.fromkeys(paths))
