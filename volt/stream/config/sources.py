"""Make the sources of a configuration, with their weights and transforms.

`each: {path: "data/*.tsv.gz", …}` makes a source of each file, named after the text that `*` matches, and divides its
weight among these sources by their lines. A transform is `name`, or `name: options`; options may name fields.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from volt.display import counted
from volt.errors import VoltError, shown_path
from volt.files.paths import expand, is_file, stands_for_several
from volt.stream.config.problems import Notes, near
from volt.stream.config.yaml_document import Place
from volt.stream.mixing.mixture import Sampling, shares
from volt.stream.mixing.schedule import Schedule, Weight
from volt.stream.reading.open_shard import bin_of, open_shard
from volt.stream.reading.source_definition import Checks, Source
from volt.stream.transforms.ordering import check_order
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import LoadedFiles, Transform, loaded

if TYPE_CHECKING:
    from volt.stream.config.pydantic_models import (
        EachOptions,
        Model,
        ReadingOptions,
        ScheduleOptions,
        SourceOptions,
        StreamOptions,
    )


_WEIGHT = "cannot be used with mix, which derives the weights from the lines; remove it, or write mix: {by: weights}"
_EPOCHS = (
    "cannot be used with mix, whose sources have no end; remove it, or write mix: {by: weights}"
)


def sampling_of(options: StreamOptions, notes: Notes) -> Sampling | None:
    """Return how `mix` derives weights; None if sources set their own. Note options that contradict `mix`."""
    mix = options.mix
    if mix is not None and mix.by != "temperature" and "temperature" in mix.model_fields_set:
        notes.add(
            ("mix", "temperature"),
            f"has no effect with by: {mix.by}; remove it, or write by: temperature",
        )
    if mix is None or mix.by == "weights":
        return None
    mixed: dict[Place, Model] = {("sources", name): one for name, one in options.sources.items()}
    mixed |= {("each",): options.each} if options.each is not None else {}
    mixed |= {("tasks", name): one for name, one in options.tasks.items() if one.split == "train"}
    for place, one in mixed.items():
        for key, message in (("weight", _WEIGHT), ("temperature", _WEIGHT), ("epochs", _EPOCHS)):
            if key in one.model_fields_set and getattr(one, key) is not None:
                notes.add((*place, key), message)
    if options.schedule is not None:
        notes.add(("schedule",), _WEIGHT)
    return Sampling(mix.by, mix.temperature, where=notes.document.name_of(("mix",)))


def schedule_of(options: ScheduleOptions, notes: Notes, place: Place) -> Weight:
    """Return a schedule. If it is invalid, note the mistake and return the weight 1."""
    return notes.build(Schedule, place, points=tuple(options.points), kind=options.kind) or 1.0


_CHECKS = {field.name for field in fields(Checks)}
_READING = _CHECKS | {field.name for field in fields(Source)} - {
    "name",
    "paths",
    "weight",
    "transforms",
}


@dataclass(frozen=True, slots=True)
class Sources:
    """Makes sources from their options.

    check_files: whether files must exist.
    user_code: whether a transform may name a Python file to run.
    """

    notes: Notes
    files: LoadedFiles
    check_files: bool = False
    user_code: bool = True

    def steps(self, names: tuple[str, ...]) -> TransformBuilder:
        return TransformBuilder(self.notes, self.files, user_code=self.user_code, names=names)

    def source(
        self, name: str, options: SourceOptions, common: list[Any], place: Place
    ) -> Source | None:
        """Return a source, or None if its options are invalid. common: the transforms of all sources"""
        names, keys = (
            tuple(options.pair or options.columns or ()),
            tuple((options.columns or {}).values()),
        )
        steps, weight = self.steps(names), options.weight
        return self.source_at(
            place,
            options,
            name=name,
            names=names,
            keys=keys,
            weight=weight
            if isinstance(weight, float)
            else schedule_of(weight, self.notes, (*place, "weight")),
            paths=self._paths(options, place),
            transforms=steps.of(options.transforms, (*place, "transforms"))
            + steps.of(common, ("transforms",)),
        )

    def source_at(self, place: Place, options: ReadingOptions, **more: Any) -> Source | None:
        """Return a source, or None if its options are invalid. more: fields of `Source` that `options` lacks"""
        name = str(more["name"])
        if not name or any(sign < " " for sign in name):
            self.notes.add(
                place, f"{name!r} is not a name of a source; give one without tabs and line breaks"
            )
        values = {
            key: getattr(options, key) for key in type(options).model_fields.keys() & _READING
        }
        checks = (
            self.notes.build(Checks, place, **{key: values.pop(key) for key in _CHECKS}) or Checks()
        )
        with self.notes.catching((*place, "transforms")):
            check_order(more["transforms"], self.files)
        return cast(
            "Source | None", self.notes.build(Source, place, checks=checks, **values, **more)
        )

    def _paths(self, options: SourceOptions, place: Place) -> tuple[str, ...]:
        if options.path is None and options.pair is None:
            self.notes.add(
                self.notes.document.nearest((*place, "path")),
                "key 'path' is missing; give it, or pair",
            )
        if options.path is not None and options.pair is not None:
            self.notes.add(place, "path and pair are both given; remove one of them")
        if options.columns is not None and (options.pair is not None or not options.columns):
            self.notes.add((*place, "columns"), "needs path and at least one field; add them")
        if options.pair is not None:
            place = (*place, "pair")
            if len(options.pair) < 2:
                self.notes.add(
                    place, "has fewer than two files; write path for one, or {src: FILE, tgt: FILE}"
                )
            self.notes.check_names(options.pair, place)
            return self.groups(options.pair, place) or ("",)
        return tuple(self.files_at(options.path or (), (*place, "path"))) or ("",)

    def groups(self, pair: Mapping[str, list[str]], place: Place) -> tuple[str, ...]:
        """Return the paths of line-aligned files in turn: src[0], tgt[0], src[1], tgt[1], …"""
        columns = {
            name: [*self.files_at(files, (*place, name), is_column=True)]
            for name, files in pair.items()
        }
        for name, paths in columns.items():
            first, least = next(iter(columns.items()))
            if len(paths) != len(least):
                counts = f"{counted(len(paths), 'file')}, but {first} has {len(least)}"
                self.notes.add(
                    (*place, name), f"has {counts}; give equally many files, in the same order"
                )
                return ()
        return tuple(path for group in zip(*columns.values(), strict=True) for path in group)

    def files_at(
        self, paths: Sequence[str], place: Place, *, is_column: bool = False
    ) -> Iterator[str]:
        """Yield paths relative to the current folder; note missing files and, if `is_column`, globs and folders."""
        for index, name in enumerate(paths):
            at = self.notes.document.nearest((*place, index))
            path = self.notes.file(name, at)
            if is_column and stands_for_several(path):
                self.notes.add(
                    at, f"{path}: a field takes one file; name it, or use `each` for many"
                )
            elif self.check_files:
                with self.notes.catching(at):
                    expand(bin_of(path))
            yield path


def sources_by_pattern(
    maker: Sources, options: StreamOptions, cache: Path | None
) -> Iterator[Source | None]:
    """Yield a source for each file, or pair of files, that the pattern of `each` matches."""
    each, notes = options.each, maker.notes
    if each is None:
        return
    if bool(each.path) == bool(each.pair):
        notes.add(("each",), "give a path with one *, or a pair of such paths")
        return
    n_problems, place = len(notes.problems), ("each", "pair" if each.pair else "path")
    patterns = [_pattern(notes, path, (*place, name)) for name, path in (each.pair or {}).items()]
    pattern, *_ = patterns or [_pattern(notes, each.path or [""], place)]
    if len(notes.problems) > n_problems:
        return
    before, after = pattern.split("*")
    names = sorted(path[len(before) : len(path) - len(after)] for path in glob.glob(pattern))
    if not names:
        notes.add(place, f"{pattern}: no file matches this pattern; check the path")
    paths = [pattern.replace("*", name) for name in names]
    is_by_size = options.mix is not None and options.mix.by != "weights"
    weights = [1.0] * len(names) if is_by_size else _weights(each, paths, cache, notes, place)
    for name, weight in zip(names, weights, strict=True):
        if name in options.sources:
            notes.add(
                ("each",),
                f"source {name!r} is among sources, too; rename it there, or match fewer files",
            )
        yield maker.source(name, _options_of(each, name, weight), options.transforms, ("each",))


def _pattern(notes: Notes, paths: list[str], place: Place) -> str:
    pattern = notes.file(paths[0], place)
    if len(paths) > 1:
        notes.add(place, "should be one pattern, not a list")
    if pattern.count("*") != 1 or re.search(r"[?\[\]]", pattern):
        notes.add(
            place,
            f"{pattern}: does not contain exactly one *; put one where the names of the sources differ",
        )
    return pattern


def _weights(
    each: EachOptions, paths: list[str], cache: Path | None, notes: Notes, place: Place
) -> list[float]:
    options: dict[str, Any] = {
        "split_lines": each.split_lines,
        "fields": each.columns,
        "max_line": each.max_line or None,
    }
    with notes.catching(place):
        sizes = [open_shard(path, cache=cache, **options).n_lines for path in paths]
        result = shares(sizes, temperature=each.temperature)
        for path in (path for path, share in zip(paths, result, strict=True) if not share):
            notes.add(
                ("each", "temperature"),
                f"{each.temperature:g} leaves nothing to {shown_path(path)}; raise it",
            )
        return result
    return [1.0] * len(paths)


def _options_of(each: EachOptions, name: str, share: float) -> SourceOptions:
    weight = each.weight
    if isinstance(weight, float):
        weight = weight * share
    else:
        weight = weight.model_copy(
            update={"points": [(sample, value * share) for sample, value in weight.points]}
        )
    values = {
        "path": each.path and [each.path[0].replace("*", name)],
        "pair": each.pair
        and {field: [files[0].replace("*", name)] for field, files in each.pair.items()},
        "weight": weight,
        "transforms": _filled(each.transforms, name),
    }
    return each.model_copy(update=values)


def _filled(value: Any, name: str) -> Any:
    """Replace {name} by a name in all texts of a value.

    >>> _filled([{"tag": "<2{name}>"}, 1], "de")
    [{'tag': '<2de>'}, 1]
    """
    if isinstance(value, str):
        return value.replace("{name}", name)
    if isinstance(value, Mapping):
        return {key: _filled(item, name) for key, item in value.items()}
    return [_filled(item, name) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class TransformBuilder:
    """Makes the transforms of a source.

    names: the source's field names.
    task: a task's languages and prefix, for transforms that use them.
    defaults: transform name → its default options.

    >>> from volt.stream.config.yaml_document import parse
    >>> document = parse("[skip_blank, lower: [tgt]]", path="stream.yaml")
    >>> TransformBuilder(Notes(document), LoadedFiles(), names=("src", "tgt")).of(document.value, ())
    (SkipBlank(fields=None), Lower(fields=(2,), if_cased=None))
    """

    notes: Notes
    files: LoadedFiles
    user_code: bool = True
    names: tuple[str, ...] = ()
    task: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, value: object, place: Place) -> tuple[Transform, ...]:
        """Return the valid transforms of a list, and note mistakes."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self.notes.add(place, "should be a list of transforms; put a dash before each")
            return ()
        steps = [self._step(item, (*place, index)) for index, item in enumerate(value)]
        return tuple(step for step in steps if step is not None)

    def _step(self, item: object, place: Place) -> Transform | None:
        step = {item: {}} if isinstance(item, str) else item
        if not isinstance(step, dict) or len(step) != 1:
            value = f"{len(step)} keys" if isinstance(step, dict) else repr(item)
            self.notes.add(
                place, f"expected a name, or one name with its indented options, not {value}"
            )
            return None
        [(name, options)] = step.items()
        if not self._is_known(name, place):
            return None
        current = (*place, name) if isinstance(item, dict) else place
        if name == "user" and not self.user_code:
            file = options.get("file") if isinstance(options, dict) else options
            shown = self.notes.document.folder / file if isinstance(file, str) else "its file"
            self.notes.add(
                current, f"would run the code in {shown}; read it, then trust it (user_code)"
            )
            return None
        return self._transform(name, options, current)

    def _is_known(self, name: str, place: Place) -> bool:
        if name not in TRANSFORMS:
            self.notes.add(place, f"unknown transform {name!r}; {near(name, list(TRANSFORMS))}")
        return name in TRANSFORMS

    def default(self, name: str, options: object, place: Place) -> dict[str, Any]:
        from volt.stream.config.json_schema import options_of

        if not self._is_known(name, place):
            return {}
        n_problems = len(self.notes.problems)
        named = _by_name(name, options)
        self.notes.checked(
            options_of(name), self._numbered(name, named, place), place, is_part=True
        )
        return named if len(self.notes.problems) == n_problems else {}

    def _transform(self, name: str, options: object, place: Place) -> Transform | None:
        from volt.stream.config.json_schema import options_of

        known = {
            key: self.task[key]
            for key in getattr(TRANSFORMS[name], "from_task", ())
            if key in self.task
        }
        values = {**self.defaults.get(name, {}), **known, **_by_name(name, options)}
        n_problems = len(self.notes.problems)
        numbered = self._numbered(name, values, place)
        if len(self.notes.problems) > n_problems:
            return None
        if (checked := self.notes.checked(options_of(name), numbered, place)) is None:
            return None
        return self._choice(checked, place) if name == "choice" else self._loaded(checked, place)

    def _numbered(self, name: str, options: dict[str, Any], place: Place) -> dict[str, Any]:
        """Replace field names by numbers in a transform's options; `where` gets the names for its conditions."""
        from volt.stream.config.json_schema import field_options

        if self.names and name == "where":
            options = {"names": list(self.names)} | options
        by_field = {key: options[key] for key in field_options(name) if key in options}
        return options | {
            key: self._numbers(value, (*place, key)) for key, value in by_field.items()
        }

    def _numbers(self, value: object, place: Place) -> object:
        if isinstance(value, list):
            return [self._numbers(item, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, str) or (not self.names and not value.isidentifier()):
            return value
        if value in self.names:
            return self.names.index(value) + 1
        remedy = (
            near(value, self.names)
            if self.names
            else "give a number, or name the fields by `pair` or `columns`"
        )
        self.notes.add(place, f"no field is called {value!r}; {remedy}")
        return value

    def _choice(self, options: Any, place: Place) -> Transform | None:
        from volt.stream.transforms.choice import Choice, Variant

        within = (
            (*place, "variants") if (*place, "variants") in self.notes.document.lines else place
        )
        variants = list[Variant | None]()
        for index, variant in enumerate(options.variants):
            steps = self.of(variant.transforms, (*within, index, "transforms"))
            variants.append(
                self.notes.build(Variant, (*within, index), weight=variant.weight, transforms=steps)
            )
        if None in variants:
            return None
        return cast("Transform | None", self.notes.build(Choice, place, variants=tuple(variants)))

    def _loaded(self, transform: Any, place: Place) -> Transform | None:
        """Return a transform with paths relative to the current folder, and load its files."""
        with self.notes.catching(place):
            for option in fields(transform):
                if isinstance(path := getattr(transform, option.name), Path):
                    file = Path(self.notes.file(str(path), place))
                    if not is_file(file):
                        raise VoltError(f"{option.name}: {file}: no such file; check the path")
                    transform = replace(transform, **{option.name: file})
            loaded(transform, self.files)
            return cast(Transform, transform)
        return None


def _by_name(name: str, options: object) -> dict[str, Any]:
    """Return the options of a transform by their names; a single value belongs to the first option.

    >>> _by_name("multiply", 3)
    {'n': 3}
    """
    from volt.stream.config.json_schema import first_option

    if isinstance(options, dict):
        return options
    return {} if options is None else {first_option(name) or str(options): options}
