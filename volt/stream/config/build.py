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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from volt.errors import VoltError
from volt.files.paths import expand
from volt.stream.config.each import Each
from volt.stream.config.problems import Notes, as_error
from volt.stream.config.sources import Sources
from volt.stream.config.yaml import Document, Place, parse, read
from volt.stream.reading.faults import Policy, check_quarantine
from volt.stream.reading.probable_pairs import probable_pairs
from volt.stream.reading.source import Source
from volt.stream.transforms.opening import LoadedFiles

if TYPE_CHECKING:
    from volt.stream.config.models import StreamOptions

Ends = Literal["stop", "drop"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a configuration file says: the arguments of a `Stream`, by their names."""

    sources: tuple[Source, ...]
    seed: int
    ends: Ends
    n_workers: int
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
        self._document, self._check_files = document, check_files
        self._notes, self._files = Notes(document), LoadedFiles()
        self._maker = Sources(self._notes, folder, self._files, check_files=check_files, user_code=user_code)

    def configuration(self) -> Configuration:
        """All of it. Raises ConfigError if anything is wrong."""
        from volt.stream.config.models import StreamOptions

        options = cast("StreamOptions | None", self._notes.checked(StreamOptions, self._document.value, ()))
        self._check_sources(self._document.value)
        if options is None:
            self._steps_of(self._document.value)
            raise as_error(self._notes.found, self._document)
        cache = None if options.cache is None else Path(self._maker.file(options.cache, ("cache",)))
        sources = [*self._listed(options), *Each(self._maker, cache).made(options)]
        policy = self._policy(options)
        if self._notes.found or policy is None:
            raise as_error(self._notes.found, self._document)
        opened = tuple(source for source in sources if source)
        return Configuration(opened, options.seed, options.ends, options.workers, policy, cache, self._files)

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
                steps = self._maker.steps(tuple(named) if isinstance(named, dict) else ())
                steps.of(source.get("transforms"), (*place, "transforms"))
                steps.of(value.get("transforms"), ("transforms",))

    def _policy(self, options: StreamOptions) -> Policy | None:
        told = options.errors.model_dump()
        if told["quarantine"] is not None:
            told["quarantine"] = self._maker.file(told["quarantine"], ("errors", "quarantine"))
        policy = cast("Policy | None", self._notes.made(Policy, ("errors",), **told))
        if self._check_files and policy is not None and policy.quarantine is not None:
            try:
                check_quarantine(policy.quarantine)
            except VoltError as error:
                self._notes.add(("errors", "quarantine"), error)
        return policy

    def _listed(self, options: StreamOptions) -> Iterator[Source | None]:
        """The sources that have a name of their own."""
        for name, source in options.sources.items():
            yield self._maker.made(name, source, options.transforms, ("sources", name))
