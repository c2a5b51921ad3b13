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

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from volt.errors import VoltError
from volt.files.paths import expand
from volt.stream.config.problems import Problem, as_error, near, problems_of
from volt.stream.config.yaml import Document, Place, parse, read
from volt.stream.mixing.schedule import Schedule
from volt.stream.reading.checks import Checks
from volt.stream.reading.faults import Policy, check_quarantine
from volt.stream.reading.source import Source
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.opening import LoadedFiles, opened
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import Transform
from volt.stream.transforms.user_code import User

if TYPE_CHECKING:
    from volt.stream.config.schema import SourceOptions, StreamOptions

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


class _Builder:
    """Builds what a document declares, and collects what is wrong with it."""

    def __init__(self, document: Document, folder: Path, *, check_files: bool = False, user_code: bool = True) -> None:
        self._document, self._folder, self._check_files, self._user_code = document, folder, check_files, user_code
        self._problems, self._files = list[Problem](), LoadedFiles()

    def configuration(self) -> Configuration:
        """All of it. Raises ConfigError if anything is wrong."""
        from volt.stream.config.schema import StreamOptions

        options = cast("StreamOptions | None", self._checked(StreamOptions, self._document.value, ()))
        if options is None:
            self._steps_of(self._document.value)
            raise as_error(self._problems, self._document)
        common = self._steps(options.transforms, ("transforms",))
        sources = [self._source(name, source, common) for name, source in options.sources.items()]
        policy = self._made(Policy, ("errors",), **self._policy(options))
        self._check_quarantine(policy)
        if self._problems or policy is None:
            raise as_error(self._problems, self._document)
        cache = None if options.cache is None else self._folder / options.cache
        opened = tuple(source for source in sources if source)
        return Configuration(opened, options.seed, options.ends, options.workers, policy, cache, self._files)

    def _steps_of(self, value: object) -> None:
        """Check the transforms even where something else is wrong, so that all mistakes are reported at once."""
        if isinstance(value, dict) and isinstance(sources := value.get("sources"), dict):
            for name, source in sources.items():
                if isinstance(source, dict):
                    self._steps(source.get("transforms"), ("sources", name, "transforms"))
            self._steps(value.get("transforms"), ("transforms",))

    def _checked(self, model: Any, value: object, place: Place) -> Any | None:
        """A value through pydantic, as JSON and strictly: "3" is no number and true is no 1."""
        from pydantic import TypeAdapter, ValidationError

        adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
        try:
            return adapter.validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            schema = adapter.json_schema()
            self._problems += problems_of(error, schema, at=place, document=self._document)
        except VoltError as error:
            self._note(error, place)
        return None

    def _note(self, error: VoltError, place: Place) -> None:
        """Note an error, at the option that its text starts with, if it does."""
        option, colon, rest = str(error).partition(": ")
        if colon and (*place, option) in self._document.lines:
            place, error = (*place, option), type(error)(rest)
        self._problems.append(Problem(place, str(error)))

    def _made(self, kind: Any, place: Place, /, **options: Any) -> Any | None:
        try:
            return kind(**options)
        except VoltError as error:
            self._note(error, place)
        return None

    def _policy(self, options: StreamOptions) -> dict[str, Any]:
        told = options.errors.model_dump()
        if told["quarantine"] is not None:
            told["quarantine"] = str(self._folder / told["quarantine"])
        return told

    def _check_quarantine(self, policy: Policy | None) -> None:
        if self._check_files and policy is not None and policy.quarantine is not None:
            try:
                check_quarantine(policy.quarantine)
            except VoltError as error:
                self._problems.append(Problem(("errors", "quarantine"), str(error)))

    def _source(self, name: str, options: SourceOptions, common: tuple[Transform, ...]) -> Source | None:
        place: Place = ("sources", name)
        told = options.model_dump(exclude={"path", "weight", "transforms"})
        checks = {key: told.pop(key) for key in ("min_fields", "max_fields", "max_chars", "blank")}
        paths = self._paths(options.path, (*place, "path"))
        if not isinstance(weight := options.weight, float):
            points = tuple((sample, value) for sample, value in weight.points)
            weight = self._made(Schedule, (*place, "weight"), points=points, kind=weight.kind) or 1.0
        return self._made(
            Source,
            place,
            name=name,
            paths=paths,
            weight=weight,
            transforms=self._steps(options.transforms, (*place, "transforms")) + common,
            checks=self._made(Checks, place, **checks) or Checks(),
            **told,
        )

    def _paths(self, told: str | list[str], place: Place) -> tuple[str, ...]:
        """The paths of a source, from here."""
        named = [told] if isinstance(told, str) else told
        for index, path in enumerate(named):
            try:
                if self._check_files:
                    expand(self._folder / path)
            except VoltError as error:
                self._problems.append(Problem((*place, index), str(error)))
        return tuple(str(self._folder / path) for path in named)

    def _steps(self, value: object, place: Place) -> tuple[Transform, ...]:
        """A list of transforms."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self._problems.append(Problem(place, "should be a list of transforms; put a dash before each"))
            return ()
        steps = [self._step(item, (*place, index)) for index, item in enumerate(value)]
        return tuple(step for step in steps if step is not None)

    def _step(self, item: object, place: Place) -> Transform | None:
        """`name`, or `name: options`."""
        pairs = [(item, {})] if isinstance(item, str) else list(item.items()) if isinstance(item, dict) else []
        if len(pairs) != 1:
            found = f"{len(pairs)} keys" if isinstance(item, dict) else repr(item)
            self._problems.append(Problem(place, f"a transform is a name, or a name with its options, not {found}"))
            return None
        name, options = pairs[0]
        if name not in TRANSFORMS:
            self._problems.append(Problem(place, f"unknown transform {name!r}; {near(name, list(TRANSFORMS))}"))
            return None
        here = (*place, name) if isinstance(item, dict) else place
        if TRANSFORMS[name] is User and not self._user_code:
            file = options.get("file") if isinstance(options, dict) else options
            file = self._folder / file if isinstance(file, str) else "its file"
            self._problems.append(Problem(here, f"would run the code in {file}; read it, then say user_code=True"))
            return None
        return self._transform(name, options, here)

    def _transform(self, name: str, options: object, place: Place) -> Transform | None:
        from volt.stream.config.schema import first_option, options_of

        if not isinstance(options, dict):
            options = {} if options is None else {first_option(name): options}
        made = self._checked(options_of(name), options, place)
        if made is None:
            return None
        return self._choice(made, place) if name == "choice" else self._located(made, place)

    def _choice(self, options: Any, place: Place) -> Transform | None:
        """The variants of a choice, which hold transforms in their turn."""
        within = (*place, "variants") if (*place, "variants") in self._document.lines else place
        variants = [
            self._made(
                Variant,
                (*within, index),
                weight=variant.weight,
                transforms=self._steps(variant.transforms, (*within, index, "transforms")),
            )
            for index, variant in enumerate(options.variants)
        ]
        if None in variants:
            return None
        return cast("Transform | None", self._made(Choice, place, variants=tuple(variants)))

    def _located(self, made: Any, place: Place) -> Transform | None:
        """A transform with its files found and loaded."""
        for option, path in _paths(made):
            found = self._folder / path
            if not found.is_file():
                self._note(VoltError(f"{option}: {found}: no such file; check the path"), place)
                return None
            made = replace(made, **{option: found})
        try:
            opened(made, self._files)
        except VoltError as error:
            self._note(error, place)
            return None
        return cast(Transform, made)


def _paths(made: Any) -> Iterator[tuple[str, Path]]:
    """The options of a transform that name files."""
    for field in fields(made):
        if isinstance(value := getattr(made, field.name), Path):
            yield field.name, value
