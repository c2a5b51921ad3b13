"""A YAML configuration → the sources, transforms and options of a stream.

    seed: 1
    sources:
      parallel:
        path: parallel.tsv.gz
        weight: 1
        transforms:
          - skip_blank
          - choice:
              - {weight: 0.95}
              - {weight: 0.04, transforms: [lower: {fields: [1]}]}

Everything is checked before anything runs. All mistakes are reported at once, each with its line. Relative paths are
relative to the file.

>>> configuration = parse_config("sources: {wmt: {path: a.tsv, transforms: [lower: [1]]}}", path="stream.yaml")
>>> configuration.sources[0].transforms
(Lower(fields=(1,), if_cased=None),)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from volt.errors import VoltError
from volt.files.atomic import check_distinct
from volt.files.paths import expand
from volt.stream.config.batches import Batches, batches_of
from volt.stream.config.document import Document, Notes, Place, as_error
from volt.stream.config.sources import Each, Sources, sampling_of
from volt.stream.config.tasks import LANGUAGES, NAMES, Selection, Tasks, chosen, defaults_of
from volt.stream.config.templates import parse_template, read
from volt.stream.mixing.mixture import Mixture, Sampling
from volt.stream.reading.error_policy import ErrorPolicy, check_quarantine
from volt.stream.reading.shards import probable_pairs
from volt.stream.reading.source import Source
from volt.stream.tasks.task import Split, Task
from volt.stream.transforms.transform import LoadedFiles
from volt.stream.transforms.transform import files as files_of

if TYPE_CHECKING:
    from volt.stream.config.models import StreamOptions

Ends = Literal["stop", "drop"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration file: the arguments of a `Stream`, by their names, and the tasks.

    tasks: all tasks of the file, of both splits.
    shards: the folder of their shards, if the file names one.
    named: the files and globs that all sources, tasks, transforms and batches of the file name, chosen or not.
    batches: what a trainer gets, if the file says so.
    """

    sources: tuple[Source, ...]
    seed: int
    ends: Ends
    n_workers: int
    time_limit: float | None
    policy: ErrorPolicy
    cache: Path | None
    files: LoadedFiles
    """The files of transforms, loaded to be checked; the stream uses them, too."""
    tasks: tuple[Task, ...] = ()
    shards: Path | None = None
    named: tuple[str, ...] = ()
    mix: Sampling | None = None
    """The mixture by numbers of lines; None if the sources have weights."""
    batches: Batches | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a `Stream`, by their names.

        >>> sorted(parse_config("sources: {wmt: {path: a.tsv}}").options)
        ['cache', 'ends', 'files', 'mix', 'n_workers', 'policy', 'seed', 'sources', 'time_limit']
        """
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in ("tasks", "shards", "named", "batches")
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings: files of one source that are probably translations of one another.

        >>> parse_config("sources: {wmt: {path: [a.tsv, b.tsv]}}").warnings
        ()
        """
        return warnings_of(self.sources)


def warnings_of(sources: Iterable[Source]) -> tuple[str, ...]:
    """Yield warnings of sources; see `Configuration.warnings`."""
    mixed = [(source.name, pair) for source in sources if not source.names for pair in probable_pairs(_found(source))]
    return tuple(_warning(name, *pair) for name, pair in mixed)


def _named(sources: Iterable[Source], tasks: Iterable[Task]) -> tuple[str, ...]:
    paths = [path for source in sources for path in source.paths]
    paths += [path for task in tasks for inputs in task.inputs for path in inputs.paths]
    steps = [step for kind in (sources, tasks) for one in kind for step in one.transforms]
    return tuple(dict.fromkeys([*paths, *map(str, files_of(steps))]))


def _warning(name: str, first: str, second: str) -> str:
    result = f"{first} and {second} differ only in their language, and their lines are mixed"
    return f"source {name!r}: {result}; for lines side by side write pair: {{src: {first}, tgt: {second}}}"


def _found(source: Source) -> Sequence[str]:
    try:
        return expand(source.paths)
    except VoltError:
        return source.paths


def load_config(
    path: str | Path, *, user_code: bool = True, values: Mapping[str, object] | None = None, split: Split = "train",
    tasks: Sequence[str] | None = None, use_shards: bool = True, check_files: bool = True,
) -> Configuration:  # fmt: skip
    """Read and check a configuration file. Raises ConfigError that names the line of every fault.

    user_code: whether it may name Python files, which are run to be checked; if not, a `user` transform is a fault
    values: what fills the places of a template, by their keys
    split: "train" for what is mixed in training; "valid" for the tasks of that split, each line once, without noise
    tasks: the names of those tasks that are wanted alone; for "valid", they may be of any split
    use_shards: whether tasks are read from the folder that `shards` names; `volt shard`, which writes it, does not
    check_files: whether files of sources, tasks and shards are looked for, which are not read where text is translated
    """
    choice = Selection.of(split, tasks)
    document = read(path, values=values)
    return _Builder(
        document, Path(path).parent, choice, check_files=check_files, user_code=user_code, use_shards=use_shards
    ).configuration()


def parse_config(
    text: str, *, path: str = "stream.yaml", user_code: bool = True, values: Mapping[str, object] | None = None,
    split: Split = "train", tasks: Sequence[str] | None = None,
) -> Configuration:  # fmt: skip
    """Check a configuration given as text; `path` is what errors call it and relative paths are relative to.

    Files of sources, tasks and shards are not looked for. The options are those of `load_config`.

    >>> parse_config("sources: {s: {path: a, transforms: [user: {file: f.py, function: f}]}}", user_code=False)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: stream.yaml:1: sources.s.transforms[1].user: would run the code in f.py; read it, then
    trust it (user_code)
    """
    choice, document = Selection.of(split, tasks), parse_template(text, path=path, values=values)
    return _Builder(document, Path(path).parent, choice, user_code=user_code).configuration()


def built_config(value: dict[str, Any], *, path: str) -> Configuration:
    """Check a configuration given as values, without code of users; source files are looked for, from here.

    path: what errors call it
    Raises ConfigError that names every fault.

    >>> built_config({"sources": {"wmt": {"path": "/nowhere/a.tsv"}}}, path="default")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: default: sources.wmt.path[1]: /nowhere/a.tsv: no such file; check the path
    """
    return _Builder(Document(path, value, {}), Path(), Selection(), check_files=True, user_code=False).configuration()


class _Builder:
    """Builds what a document declares, and collects what is wrong with it."""

    def __init__(
        self, document: Document, folder: Path, choice: Selection, *, check_files: bool = False, user_code: bool = True,
        use_shards: bool = True,
    ) -> None:  # fmt: skip
        self._document, self._choice, self._check_files, self._use_shards = document, choice, check_files, use_shards
        self._notes, self._files = Notes(document), LoadedFiles()
        self._maker = Sources(self._notes, folder, self._files, check_files=check_files, user_code=user_code)

    def configuration(self) -> Configuration:
        """Return all of it. Raises ConfigError if anything is wrong."""
        from volt.stream.config.models import StreamOptions

        options = cast("StreamOptions | None", self._notes.checked(StreamOptions, self._document.value, ()))
        self._check_sources(self._document.value)
        if options is None:
            self._steps_of(self._document.value)
            raise as_error(self._notes.found, self._document)
        cache, shards = self._folder(options.cache, "cache"), self._folder(options.shards, "shards")
        others = [*self._listed(options), *Each(self._maker, cache).made(options)]
        tasks = Tasks(self._maker, options, shards if self._use_shards else None).made()
        sources = chosen(tasks, [source for source in others if source], self._choice, self._notes)
        batches = None if options.batches is None else batches_of(options.batches, self._maker, sources)
        policy, mix = self._policy(options), sampling_of(options, self._notes)
        if not self._notes.found:
            self._check_together(sources, policy)
        if self._notes.found or policy is None:
            raise as_error(self._notes.found, self._document)
        ends: Ends = "drop" if self._choice.split == "valid" else options.ends
        names = tuple(task for task, _ in tasks)
        named = _named([*filter(None, others), *(source for _, source in tasks if source)], names)
        if batches is not None:
            named = tuple(dict.fromkeys([*named, *batches.vocabularies.values()]))
        return Configuration(
            tuple(sources), options.seed, ends, options.workers, options.time_limit, policy, cache, self._files, names,
            shards, named, mix if self._choice.split == "train" else None, batches,
        )  # fmt: skip

    def _check_together(self, sources: Sequence[Source], policy: ErrorPolicy | None) -> None:
        """Check what depends on more than one part: shares, and files that are read and would be written."""
        named = [(key,) for key in ("sources", "each", "tasks") if (key,) in self._document.lines]
        try:
            Mixture([source.weight for source in sources]).shares()
        except VoltError as error:
            self._notes.add(named[0] if named else (), error)
        if policy is None or policy.quarantine is None or not self._check_files:
            return
        try:
            check_distinct([policy.quarantine], [path for source in sources for path in _found(source)])
        except VoltError as error:
            self._notes.add(("errors", "quarantine"), error)

    def _folder(self, message: str | None, key: str) -> Path | None:
        return None if message is None else Path(self._maker.file(message, (key,)))

    def _check_sources(self, value: object) -> None:
        if isinstance(value, dict) and not value.get("each") and not value.get("tasks"):
            inputs = next((key for key in ("sources", "tasks") if key in value), None)
            if inputs is None:
                self._notes.add((), "key 'sources' is missing; give it, or tasks")
            elif not value[inputs]:
                self._notes.add((inputs,), "is empty; give at least one")

    def _steps_of(self, value: object) -> None:
        """Check the transforms even where something else is wrong, so that all mistakes are reported at once."""
        if not isinstance(value, dict):
            return
        message = value.get("defaults")
        defaults = defaults_of(message, self._maker) if isinstance(message, dict) else {}
        for place, names, source in _raw_sources(value):
            steps = self._maker.steps(names)
            if place[0] == "tasks":
                task = {key: source[key] for key in LANGUAGES if isinstance(source.get(key), str)}
                steps = replace(steps, task=task, defaults=defaults)
            steps.of(source.get("transforms"), (*place, "transforms"))
            steps.of(value.get("transforms"), ("transforms",))

    def _policy(self, options: StreamOptions) -> ErrorPolicy | None:
        values = options.errors.model_dump()
        if values["quarantine"] is not None:
            values["quarantine"] = self._maker.file(values["quarantine"], ("errors", "quarantine"))
        policy = cast("ErrorPolicy | None", self._notes.made(ErrorPolicy, ("errors",), **values))
        if self._check_files and policy is not None and policy.quarantine is not None:
            try:
                check_quarantine(policy.quarantine)
            except VoltError as error:
                self._notes.add(("errors", "quarantine"), error)
        return policy

    def _listed(self, options: StreamOptions) -> Iterator[Source | None]:
        for name, source in options.sources.items():
            yield self._maker.made(name, source, options.transforms, ("sources", name))


def _raw_sources(value: dict[str, Any]) -> Iterator[tuple[Place, tuple[str, ...], dict[str, Any]]]:
    """Yield the sources and tasks of a configuration in which something is wrong, with the names of their fields."""
    listed = [(key, value[key]) for key in ("sources", "tasks") if isinstance(value.get(key), dict)]
    result = [((key, name), source) for key, values in listed for name, source in values.items()]
    for place, source in [*result, (("each",), value.get("each"))]:
        if isinstance(source, dict):
            named = source.get("pair") or source.get("columns")
            names = NAMES if place[0] == "tasks" else tuple(named) if isinstance(named, dict) else ()
            yield place, names, source
