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

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from volt.errors import VoltError
from volt.files.distinct import check_distinct
from volt.files.paths import expand
from volt.stream.config.each import check_pattern, filled, names_of, shares
from volt.stream.config.problems import Notes, as_error
from volt.stream.config.steps import Steps
from volt.stream.config.yaml import Document, Place, parse, read
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import Schedule
from volt.stream.reading.checks import Checks
from volt.stream.reading.faults import Policy, check_quarantine
from volt.stream.reading.probable_pairs import probable_pairs
from volt.stream.reading.shards import open_shard
from volt.stream.reading.source import Source
from volt.stream.transforms.opening import LoadedFiles

if TYPE_CHECKING:
    from volt.stream.config.schema import EachOptions, SourceOptions, StreamOptions

Ends = Literal["stop", "drop"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a configuration file says: the arguments of a `Stream`, by their names."""

    sources: tuple[Source, ...]
    seed: int
    ends: Ends
    n_workers: int
    time_limit: float | None
    policy: Policy
    cache: Path | None
    files: LoadedFiles
    """What the transforms' files hold: they were loaded to be checked, and the stream goes on with them."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may be meant otherwise: files of one source that are probably translations of one another.

        >>> parse_config("sources: {wmt: {path: [a.tsv, b.tsv]}}").warnings
        ()
        """
        return warnings_of(self.sources)


def warnings_of(sources: Iterable[Source]) -> tuple[str, ...]:
    """What may be meant otherwise in sources; see `Configuration.warnings`."""
    mixed = [(source.name, pair) for source in sources if not source.names for pair in probable_pairs(_found(source))]
    return tuple(_warning(name, *pair) for name, pair in mixed)


def _warning(name: str, first: str, second: str) -> str:
    found = f"{first} and {second} differ only in their language, and their lines are mixed"
    return f"source {name!r}: {found}; for lines side by side write pair: {{src: {first}, tgt: {second}}}"


def _found(source: Source) -> Sequence[str]:
    try:
        return expand(source.paths)
    except VoltError:
        return source.paths


def load_config(path: str | Path, *, user_code: bool = True) -> Configuration:
    """Read and check a configuration file. Raises ConfigError that names the line of every fault.

    user_code: whether it may name Python files, which are run to be checked; if not, a `user` transform is a fault
    """
    return _Builder(read(path), Path(path).parent, check_files=True, user_code=user_code).configuration()


def parse_config(text: str, *, path: str = "stream.yaml", user_code: bool = True) -> Configuration:
    """Check a configuration given as text; `path` is what errors call it and relative paths are relative to.

    Source files are not looked for.

    >>> parse_config("sources: {s: {path: a, transforms: [user: {file: f.py, function: f}]}}", user_code=False)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: stream.yaml:1: sources.s.transforms[1].user: would run the code in f.py; read it, then say
    user_code=True
    """
    return _Builder(parse(text, path=path), Path(path).parent, user_code=user_code).configuration()


def built_config(value: dict[str, Any], *, path: str) -> Configuration:
    """Check a configuration given as values, without code of users; source files are looked for, from here.

    path: what errors call it
    Raises ConfigError that names every fault.

    >>> built_config({"sources": {"wmt": {"path": "/nowhere/a.tsv"}}}, path="default")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: default: sources.wmt.path[1]: /nowhere/a.tsv: no such file; check the path
    """
    return _Builder(Document(path, value, {}), Path(), check_files=True, user_code=False).configuration()


class _Builder:
    """Builds what a document declares, and collects what is wrong with it."""

    def __init__(self, document: Document, folder: Path, *, check_files: bool = False, user_code: bool = True) -> None:
        self._document, self._folder, self._check_files, self._user_code = document, folder, check_files, user_code
        self._notes, self._files = Notes(document), LoadedFiles()

    def configuration(self) -> Configuration:
        """All of it. Raises ConfigError if anything is wrong."""
        from volt.stream.config.schema import StreamOptions

        options = cast("StreamOptions | None", self._notes.checked(StreamOptions, self._document.value, ()))
        self._check_sources(self._document.value)
        if options is None:
            self._steps_of(self._document.value)
            raise as_error(self._notes.found, self._document)
        cache = None if options.cache is None else Path(self._file(options.cache, ("cache",)))
        sources = [*self._listed(options), *self._each(options, cache)]
        policy, opened = self._policy(options), tuple(source for source in sources if source)
        if not self._notes.found:
            self._check_together(opened, policy)
        if self._notes.found or policy is None:
            raise as_error(self._notes.found, self._document)
        return Configuration(
            opened, options.seed, options.ends, options.workers, options.time_limit, policy, cache, self._files
        )

    def _check_together(self, sources: Sequence[Source], policy: Policy | None) -> None:
        """Check what depends on more than one part: shares, and files that are read and would be written."""
        place: Place = ("sources",) if ("sources",) in self._document.lines else ("each",)
        try:
            Mixture([source.weight for source in sources]).shares()
        except VoltError as error:
            self._notes.add(place, error)
        if policy is None or policy.quarantine is None or not self._check_files:
            return
        try:
            check_distinct([policy.quarantine], [path for source in sources for path in _found(source)])
        except VoltError as error:
            self._notes.add(("errors", "quarantine"), error)

    def _check_sources(self, value: object) -> None:
        if isinstance(value, dict) and not value.get("each"):
            if "sources" not in value:
                self._notes.add((), "key 'sources' is missing; give it")
            elif not value["sources"]:
                self._notes.add(("sources",), "is empty; give at least one")

    def _steps_of(self, value: object) -> None:
        """Check the transforms even where something else is wrong, so that all mistakes are reported at once."""
        if not isinstance(value, dict):
            return
        told = value.get("sources")
        places: dict[Place, object] = (
            {("sources", name): source for name, source in told.items()} if isinstance(told, dict) else {}
        )
        for place, source in {**places, ("each",): value.get("each")}.items():
            if isinstance(source, dict):
                named = source.get("pair") or source.get("columns")
                steps = self._steps(tuple(named) if isinstance(named, dict) else ())
                steps.of(source.get("transforms"), (*place, "transforms"))
                steps.of(value.get("transforms"), ("transforms",))

    def _steps(self, names: tuple[str, ...]) -> Steps:
        return Steps(self._notes, self._folder, self._files, user_code=self._user_code, names=names)

    def _file(self, told: str, place: Place) -> str:
        return self._notes.file(self._folder, told, place)

    def _policy(self, options: StreamOptions) -> Policy | None:
        told = options.errors.model_dump()
        if told["quarantine"] is not None:
            told["quarantine"] = self._file(told["quarantine"], ("errors", "quarantine"))
        policy = cast("Policy | None", self._notes.made(Policy, ("errors",), **told))
        if self._check_files and policy is not None and policy.quarantine is not None:
            try:
                check_quarantine(policy.quarantine)
            except VoltError as error:
                self._notes.add(("errors", "quarantine"), error)
        return policy

    # sources

    def _listed(self, options: StreamOptions) -> Iterator[Source | None]:
        """The sources that have a name of their own."""
        for name, source in options.sources.items():
            yield self._source(name, source, options.transforms, ("sources", name))

    def _source(self, name: str, options: SourceOptions, common: list[Any], place: Place) -> Source | None:
        told = options.model_dump(exclude={"path", "pair", "columns", "weight", "transforms", "temperature"})
        if not name or any(sign < " " for sign in name):
            self._notes.add(place, f"{name!r} is no name of a source; give one without tabs and line breaks")
        checks = {key: told.pop(key) for key in ("min_fields", "max_fields", "max_chars", "blank")}
        names, keys = tuple(options.pair or options.columns or ()), tuple((options.columns or {}).values())
        steps = self._steps(names)
        if not isinstance(weight := options.weight, float):
            points = tuple((sample, value) for sample, value in weight.points)
            weight = self._notes.made(Schedule, (*place, "weight"), points=points, kind=weight.kind) or 1.0
        return cast(
            "Source | None",
            self._notes.made(
                Source,
                place,
                name=name,
                paths=self._paths(options, place),
                weight=weight,
                transforms=steps.of(options.transforms, (*place, "transforms")) + steps.of(common, ("transforms",)),
                checks=self._notes.made(Checks, place, **checks) or Checks(),
                names=names,
                keys=keys,
                **told,
            ),
        )

    def _paths(self, options: SourceOptions, place: Place) -> tuple[str, ...]:
        """The paths of a source, from here."""
        if (options.path is None) == (options.pair is None):
            if options.pair:
                self._notes.add(place, "path and pair are both given; leave one out")
            else:
                told = (*place, "path") if (*place, "path") in self._notes.document.lines else place
                self._notes.add(told, "key 'path' is missing; give it, or pair")
            return ("",)
        if options.columns is not None and (options.pair is not None or not options.columns):
            self._notes.add((*place, "columns"), "goes with path, and names one field at least; mend it")
        if options.pair is not None:
            return self._pair(options.pair, (*place, "pair"))
        named = [options.path] if isinstance(options.path, str) else options.path or []
        paths = [self._file(path, (*place, "path", index)) for index, path in enumerate(named)]
        for index, path in enumerate(paths):
            self._look_for(path, (*place, "path", index))
        return tuple(paths)

    def _pair(self, told: dict[str, str], place: Place) -> tuple[str, ...]:
        """The paths of files that belong together, in the order of their fields."""
        if len(told) < 2:
            self._notes.add(place, "has fewer than two files; write path for one, or {src: FILE, tgt: FILE}")
        paths = {name: self._file(path, (*place, name)) for name, path in told.items()}
        for name, path in paths.items():
            if not name.isidentifier():
                self._notes.add((*place, name), f"{name!r} is no name for a field; give a word, such as src")
            if glob.has_magic(path) and not Path(path).exists():
                self._notes.add((*place, name), f"{path}: one file belongs to a field; name it, or use `each` for many")
            else:
                self._look_for(path, (*place, name))
        return tuple(paths.values()) or ("",)

    def _look_for(self, path: str, place: Place) -> None:
        try:
            if self._check_files:
                expand(path)
        except VoltError as error:
            self._notes.add(place, error)

    # sources by pattern

    def _each(self, options: StreamOptions, cache: Path | None) -> Iterator[Source | None]:
        """The sources of the files that match a pattern."""
        if options.each is None or not (patterns := self._patterns(options.each)):
            return
        try:
            names = names_of(patterns[0])
        except VoltError as error:
            self._notes.add(("each", "path" if options.each.pair is None else "pair"), error)
            return
        weights = self._weights(options.each, [patterns[0].replace("*", name) for name in names], cache)
        for name, weight in zip(names, weights, strict=True):
            if name in options.sources:
                self._notes.add(("each",), f"the source {name!r} is among sources, too; rename that, or match less")
            yield self._source(name, self._one(options.each, name, weight), options.transforms, ("each",))

    def _patterns(self, each: EachOptions) -> list[str]:
        """The pattern of the path, or those of the pair; none if something is wrong with one."""
        if isinstance(each.path, list):
            self._notes.add(("each", "path"), "should be one pattern, not a list")
            return []
        told = each.pair or ({"path": each.path} if each.path else {})
        place: Place = ("each", "pair") if each.pair else ("each",)
        if bool(each.path) == bool(each.pair):
            self._notes.add(("each",), "give a path with one *, or a pair of such")
            return []
        n_problems = len(self._notes.found)
        patterns = {name: self._file(path, (*place, name)) for name, path in told.items()}
        for name, pattern in patterns.items():
            try:
                check_pattern(pattern)
            except VoltError as error:
                self._notes.add((*place, name), error)
        return list(patterns.values()) if len(self._notes.found) == n_problems else []

    def _weights(self, each: EachOptions, paths: list[str], cache: Path | None) -> list[float]:
        """The share of each source, by the lines of its file."""
        sizes = list[int]()
        for path in paths:
            try:
                shard = open_shard(
                    path, split_lines=each.split_lines, fields=each.columns, cache=cache, max_line=each.max_line or None
                )
            except VoltError as error:
                self._notes.add(("each", "path" if each.pair is None else "pair"), error)
            else:
                sizes.append(shard.n_lines)
        return shares(sizes, temperature=each.temperature) if len(sizes) == len(paths) else [1.0] * len(paths)

    def _one(self, each: EachOptions, name: str, share: float) -> SourceOptions:
        """The options of the source with a name."""
        path = None if each.path is None else str(each.path).replace("*", name)
        pair = None if each.pair is None else {field: file.replace("*", name) for field, file in each.pair.items()}
        weight = each.weight
        if isinstance(weight, float):
            weight = weight * share
        else:
            weight = weight.model_copy(update={"points": [(sample, value * share) for sample, value in weight.points]})
        told = {"path": path, "pair": pair, "weight": weight, "transforms": filled(each.transforms, name)}
        return each.model_copy(update=told)
