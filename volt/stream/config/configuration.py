"""A YAML configuration → the sources, transforms and options of a stream.

    seed: 1
    sources:
      parallel:
        path: parallel.tsv.gz
        transforms: [skip_blank, lower: {fields: [1]}]

Everything is checked before anything runs, and all mistakes are reported at once, each with its line. Relative paths
are relative to the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from volt import arguments
from volt.errors import VoltError
from volt.files.atomic import check_distinct
from volt.files.paths import expand
from volt.stream.config.batches import Batches, batches_of
from volt.stream.config.problems import Notes
from volt.stream.config.sources import Sources, sampling_of, sources_by_pattern
from volt.stream.config.tasks import LANGUAGES, NAMES, Tasks, defaults_of, selected
from volt.stream.config.template_rendering import parse_template, read
from volt.stream.config.yaml_document import Document
from volt.stream.mixing.mixture import Mixture, Sampling
from volt.stream.reading.error_policy import ErrorPolicy, check_quarantine
from volt.stream.reading.source_definition import Source
from volt.stream.tasks.task import Split, Task
from volt.stream.transforms.transform import LoadedFiles
from volt.stream.transforms.transform import files as files_of

if TYPE_CHECKING:
    from volt.stream.config.pydantic_models import StreamOptions

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
    tasks: tuple[Task, ...] = ()
    shards: Path | None = None
    named: tuple[str, ...] = ()
    mix: Sampling | None = None
    batches: Batches | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a `Stream`, by name."""
        others = ("tasks", "shards", "named", "batches")
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in others
        }


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
    split: "train" for training, or "valid" for validation, which reads each line once, without noise
    tasks: the names of tasks to read (for "valid", also of split train); by default all tasks of the split
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
    return _configuration(
        parse_template(text, path=path, values=values), split, tasks, user_code=user_code
    )


def config_of_values(value: dict[str, Any], *, path: str) -> Configuration:
    """Check a configuration in Python values, without running user code. Paths start at the current folder.

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
    from volt.stream.config.pydantic_models import StreamOptions

    arguments.choice(split, "split", get_args(Split))
    if names is not None:
        names = arguments.texts(names, "tasks", one=_NAMES, remedy=_NAMES)
    notes = Notes(document)
    files = LoadedFiles()
    maker = Sources(notes, files, check_files=check_files, user_code=user_code)
    options = cast("StreamOptions | None", notes.checked(StreamOptions, document.value, ()))
    _check_that_lines_come(document.value, notes)
    if options is None:
        _check_transforms(document.value, maker)
        raise notes.error()
    cache = None if options.cache is None else Path(maker.notes.file(options.cache, ("cache",)))
    shards = None if options.shards is None else Path(maker.notes.file(options.shards, ("shards",)))
    named = options.sources.items()
    others = [
        maker.source(name, source, options.transforms, ("sources", name)) for name, source in named
    ]
    others += sources_by_pattern(maker, options, cache)
    pairs = Tasks(maker, options, shards if use_shards else None).with_sources()
    sources = selected(pairs, [*filter(None, others)], notes, split=split, names=names)
    batches = None if options.batches is None else batches_of(options.batches, maker, sources)
    policy = _policy(options, maker)
    mix = sampling_of(options, notes)
    if not notes.problems:
        _check_together(sources, policy, maker)
    if notes.problems or policy is None:
        raise notes.error()
    tasks = tuple(task for task, _ in pairs)
    paths = _named([*filter(None, others), *(source for _, source in pairs)], tasks, batches)
    ends: Ends = "drop" if split == "valid" else options.ends
    return Configuration(
        tuple(sources),
        options.seed,
        ends,
        options.workers,
        options.time_limit,
        policy,
        cache,
        files,
        tasks,
        shards,
        paths,
        mix if split == "train" else None,
        batches,
    )


def _check_that_lines_come(value: object, notes: Notes) -> None:
    if isinstance(value, dict) and not value.get("each") and not value.get("tasks"):
        key = next((key for key in ("sources", "tasks") if key in value), None)
        if key is None:
            notes.add((), "key 'sources' is missing; give it, or tasks")
        elif not value[key]:
            notes.add((key,), "is empty; give at least one")


def _check_transforms(value: object, maker: Sources) -> None:
    """Check the transforms of a configuration that is invalid elsewhere, to report all mistakes at once."""
    if not isinstance(value, dict):
        return
    defaults = (
        defaults_of(value["defaults"], maker) if isinstance(value.get("defaults"), dict) else {}
    )
    listed = [(key, value[key]) for key in ("sources", "tasks") if isinstance(value.get(key), dict)]
    places = [((key, name), source) for key, values in listed for name, source in values.items()]
    for place, source in [*places, (("each",), value.get("each"))]:
        if not isinstance(source, dict):
            continue
        if place[0] == "tasks":
            task = {key: source[key] for key in LANGUAGES if isinstance(source.get(key), str)}
            steps = replace(maker.steps(NAMES), task=task, defaults=defaults)
        else:
            columns = source.get("pair") or source.get("columns")
            steps = maker.steps(tuple(columns) if isinstance(columns, dict) else ())
        steps.of(source.get("transforms"), (*place, "transforms"))
        steps.of(value.get("transforms"), ("transforms",))


def _policy(options: StreamOptions, maker: Sources) -> ErrorPolicy | None:
    values = options.errors.model_dump()
    place = ("errors", "quarantine")
    if values["quarantine"] is not None:
        values["quarantine"] = maker.notes.file(values["quarantine"], place)
    policy = cast("ErrorPolicy | None", maker.notes.build(ErrorPolicy, ("errors",), **values))
    if maker.check_files and policy is not None and policy.quarantine is not None:
        with maker.notes.catching(place):
            check_quarantine(policy.quarantine)
    return policy


def _check_together(sources: Sequence[Source], policy: ErrorPolicy | None, maker: Sources) -> None:
    keys = ("sources", "each", "tasks")
    with maker.notes.catching(
        next(((key,) for key in keys if (key,) in maker.notes.document.lines), ())
    ):
        Mixture([source.weight for source in sources]).shares()
    if policy is not None and policy.quarantine is not None and maker.check_files:
        with maker.notes.catching(("errors", "quarantine")):
            check_distinct(
                [policy.quarantine], [path for source in sources for path in files_at(source.paths)]
            )


def _named(
    sources: Sequence[Source], tasks: Sequence[Task], batches: Batches | None
) -> tuple[str, ...]:
    paths = [path for source in sources for path in source.paths]
    paths += [path for task in tasks for inputs in task.inputs for path in inputs.paths]
    paths += map(
        str,
        files_of([step for kind in (sources, tasks) for one in kind for step in one.transforms]),
    )
    return tuple(dict.fromkeys([*paths, *(batches.vocabularies.values() if batches else ())]))
