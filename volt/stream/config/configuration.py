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
from volt.stream.config.batches import Batches, check_batches
from volt.stream.config.problems import Problems
from volt.stream.config.pydantic_models import Model, StreamOptions
from volt.stream.config.sources import SourceBuilder, build_sources
from volt.stream.config.tasks import (
    FIELD_NAMES,
    TASK_OPTIONS,
    build_tasks,
    check_defaults,
    select_sources,
)
from volt.stream.config.template_rendering import parse_template, read_template
from volt.stream.config.transform_lists import TransformBuilder
from volt.stream.config.yaml_document import Document, Place, Values
from volt.stream.mixing.mixture import Mixture, Sampling
from volt.stream.reading.error_policy import ErrorPolicy, check_quarantine
from volt.stream.reading.source_definition import Source
from volt.stream.tasks.task import Split, Task
from volt.stream.transforms.transform import LoadedFiles, find_files

Ends = Literal["stop", "drop"]
_TASK_NAMES = "give a list of names of tasks"
_BY_WEIGHTS = "remove it, or write mix: {by: weights}"
_WEIGHT_FAULT = f"cannot be used with mix, which derives the weights from the lines; {_BY_WEIGHTS}"
_EPOCHS_FAULT = f"cannot be used with mix, whose sources have no end; {_BY_WEIGHTS}"
_NOT_WITH_MIX = {
    "weight": _WEIGHT_FAULT,
    "temperature": _WEIGHT_FAULT,
    "epochs": _EPOCHS_FAULT,
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of a configuration file: the arguments of a `Stream`, and the tasks.

    files: the files that transforms have loaded.
    tasks: the tasks of both splits; shards: the folder of their shards.
    named: the files and globs of all sources, tasks, transforms and batches, selected or not.
    mix: the rule that derives weights from numbers of lines; None if the sources have weights.
    batches: the section `batches`; None without it.
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
    path: str | Path, *, values: Mapping[str, object] | None = None, **options: Any
) -> Configuration:
    """Read and check a configuration file. Raises ConfigError with the line of every mistake.

    values: placeholder → its value, if the file is a template
    options: arguments of `check_configuration`
    """
    document = parse_template(read_template(path), path=str(path), values=values)
    return check_configuration(document, **options)


def check_configuration(
    document: Document,
    *,
    split: Split = "train",
    tasks: Sequence[str] | None = None,
    user_code: bool = True,
    use_shards: bool = True,
    check_files: bool = True,
) -> Configuration:
    """Return the configuration in a document. Raises ConfigError with the line of every mistake.

    split: "train", or "valid" for validation, which reads each line once, without noise
    tasks: the names of tasks to read (for "valid", also of split train); by default all of `split`
    user_code: whether the document may name Python files; checking runs them
    use_shards: whether tasks are read from the folder `shards`
    check_files: whether files of sources, tasks and shards must exist

    >>> document = parse_template("sources: {a: {path: a.tsv, transforms: [lower: [1]]}}", path="stream.yaml")
    >>> check_configuration(document, check_files=False).sources[0].transforms
    (Lower(fields=(1,), if_cased=None),)
    """
    arguments.choice(split, "split", get_args(Split))
    if tasks is not None:
        tasks = arguments.texts(tasks, "tasks", one=_TASK_NAMES, remedy=_TASK_NAMES)
    problems = Problems(document)
    transform_builder = TransformBuilder(problems, LoadedFiles(), user_code=user_code)
    builder = SourceBuilder(transform_builder, check_files=check_files)
    options = _validate_options(document, transform_builder)

    cache = _resolve_folder(options, "cache", problems)
    shards = _resolve_folder(options, "shards", problems)
    others = build_sources(builder, options, cache)
    all_tasks = build_tasks(builder, options, shards if use_shards else None)
    sources = select_sources(all_tasks, others, problems, split=split, names=tasks)
    batches = None
    if options.batches is not None:
        batches = check_batches(options.batches, problems, sources, check_files=check_files)
    policy = _make_policy(options, builder, sources)
    mix = _make_sampling(options, problems)
    if not problems.entries:
        _check_weights(sources, problems)
    if problems.entries or policy is None:
        raise problems.to_error()

    is_valid = split == "valid"
    return Configuration(
        sources=tuple(sources),
        seed=options.seed,
        ends="drop" if is_valid else options.ends,
        n_workers=options.workers,
        time_limit=options.time_limit,
        policy=policy,
        cache=cache,
        files=transform_builder.files,
        mix=None if is_valid else mix,
        tasks=tuple(task for task, _ in all_tasks),
        shards=shards,
        named=_list_files(others, all_tasks, batches),
        batches=batches,
    )


def _validate_options(document: Document, builder: TransformBuilder) -> StreamOptions:
    """Return the options in a document. If one is invalid, also check the transforms, to report all
    mistakes at once."""
    problems = builder.problems
    options = problems.validate(TypeAdapter(StreamOptions), document.value, ())
    _check_sections(document.value, problems)
    if options is None:
        _check_transforms(document.value, builder)
        raise problems.to_error()
    return options


def _resolve_folder(options: StreamOptions, key: str, problems: Problems) -> Path | None:
    path = getattr(options, key)
    return None if path is None else Path(problems.resolve_path(path, (key,)))


def _check_sections(value: object, problems: Problems) -> None:
    """Check that a configuration has at least one section that names lines."""
    if not isinstance(value, dict) or value.get("each") or value.get("tasks"):
        return
    empty = [key for key in ("sources", "tasks") if key in value]
    if not empty:
        problems.add((), "key 'sources' is missing; give it, or tasks")
    elif not value[empty[0]]:
        problems.add((empty[0],), "is empty; give at least one")


def _check_transforms(value: Any, builder: TransformBuilder) -> None:
    """Check the transforms of a configuration that is invalid elsewhere."""
    defaults = check_defaults(_get_mapping(value, "defaults"), builder)
    sources: dict[Place, Any] = {("each",): _get_mapping(value, "each")}
    for section in ("sources", "tasks"):
        for name in _get_mapping(value, section):
            sources[section, name] = _get_mapping(_get_mapping(value, section), name)
    for place, source in sources.items():
        if place[0] == "tasks":
            texts = {key: source[key] for key in TASK_OPTIONS if isinstance(source.get(key), str)}
            source_builder = replace(
                builder, field_names=FIELD_NAMES, task_options=texts, defaults=defaults
            )
        else:
            names = tuple(_get_mapping(source, "pair") or _get_mapping(source, "columns"))
            source_builder = replace(builder, field_names=names)
        if source:
            source_builder.build_list(source.get("transforms"), (*place, "transforms"))
            source_builder.build_list(value.get("transforms"), ("transforms",))


def _get_mapping(value: object, key: str) -> Values:
    """Return the mapping at a key; {} if there is none."""
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _make_policy(
    options: StreamOptions, builder: SourceBuilder, sources: Sequence[Source]
) -> ErrorPolicy | None:
    problems = builder.problems
    place = ("errors", "quarantine")
    values = options.errors.model_dump()
    quarantine = options.errors.quarantine
    if quarantine is not None:
        quarantine = values["quarantine"] = problems.resolve_path(quarantine, place)
        if builder.check_files:
            paths = [path for source in sources for path in files_at(source.paths)]
            with problems.catch_errors(place):
                check_quarantine(quarantine)
                check_distinct([quarantine], paths)
    return problems.build(ErrorPolicy, ("errors",), **values)


def _make_sampling(options: StreamOptions, problems: Problems) -> Sampling | None:
    """Return the rule by which `mix` derives weights; None if sources set their own.

    Options that contradict `mix` are problems.
    """
    mix = options.mix
    if mix is None:
        return None
    if mix.by != "temperature" and "temperature" in mix.model_fields_set:
        fault = f"has no effect with by: {mix.by}; remove it, or write by: temperature"
        problems.add(("mix", "temperature"), fault)
    if mix.by == "weights":
        return None

    mixed = dict[Place, Model]()
    for name, source in options.sources.items():
        mixed["sources", name] = source
    for name, task in options.tasks.items():
        if task.split == "train":
            mixed["tasks", name] = task
    if options.each is not None:
        mixed["each",] = options.each
    for place, model in mixed.items():
        for key, fault in _NOT_WITH_MIX.items():
            if key in model.model_fields_set and getattr(model, key) is not None:
                problems.add((*place, key), fault)
    if options.schedule is not None:
        problems.add(("schedule",), _WEIGHT_FAULT)
    where = problems.document.describe(("mix",))
    return Sampling(mix.by, mix.temperature, where=where)


def _check_weights(sources: Sequence[Source], problems: Problems) -> None:
    keys: list[Place] = [(key,) for key in ("sources", "each", "tasks")]
    places = [place for place in keys if place in problems.document.lines]
    with problems.catch_errors(*places, ()):
        Mixture([source.weight for source in sources]).shares()


def _list_files(
    others: Sequence[Source], tasks: Sequence[tuple[Task, Source]], batches: Batches | None
) -> tuple[str, ...]:
    """Return the files of all sources, inputs, transforms and batches, each once."""
    sources = [*others, *(source for _, source in tasks)]
    paths = [path for source in sources for path in source.paths]
    for task, _ in tasks:
        for inputs in task.inputs:
            paths += inputs.paths
    paths += map(str, find_files([source.transforms for source in sources]))
    if batches is not None:
        paths += batches.vocabularies.values()
    return tuple(dict.fromkeys(paths))
