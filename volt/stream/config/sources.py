"""Make the sources of a configuration, with their weights and transforms.

`each: {path: "data/*.tsv.gz", …}` makes a source of each file, named after the text that `*`
matches, and divides its weight among these sources by their lines. A transform is `name`, or `name:
options`; options may name fields.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from volt.display import counted
from volt.errors import VoltError, shown_path
from volt.files.paths import expand, is_file, stands_for_several
from volt.stream.config.json_schema import field_options, first_option, options_of
from volt.stream.config.problems import Notes, near
from volt.stream.config.pydantic_models import (
    EachOptions,
    Model,
    ReadingOptions,
    ScheduleOptions,
    SourceOptions,
    StreamOptions,
)
from volt.stream.config.yaml_document import Place, Values
from volt.stream.mixing.mixture import Sampling, temperature_shares
from volt.stream.mixing.schedule import Schedule, Weight
from volt.stream.reading.id_shard import bin_of
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.source_definition import Checks, Source
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.loaded_files import LoadedFiles
from volt.stream.transforms.ordering import check_order
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import Transform, open_transform

_BY_WEIGHTS = "remove it, or write mix: {by: weights}"
_WEIGHT = f"cannot be used with mix, which derives the weights from the lines; {_BY_WEIGHTS}"
_EPOCHS = f"cannot be used with mix, whose sources have no end; {_BY_WEIGHTS}"
_NOT_WITH_MIX = {"weight": _WEIGHT, "temperature": _WEIGHT, "epochs": _EPOCHS}


def sampling_of(options: StreamOptions, notes: Notes) -> Sampling | None:
    """Return how `mix` derives weights; None if sources set their own.

    Note options that contradict `mix`.
    """
    mix = options.mix
    if mix is None:
        return None
    if mix.by != "temperature" and "temperature" in mix.model_fields_set:
        fault = f"has no effect with by: {mix.by}; remove it, or write by: temperature"
        notes.add(("mix", "temperature"), fault)
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
                notes.add((*place, key), fault)
    if options.schedule is not None:
        notes.add(("schedule",), _WEIGHT)
    where = notes.document.name_of(("mix",))
    return Sampling(mix.by, mix.temperature, where=where)


def weight_of(weight: float | ScheduleOptions, notes: Notes, place: Place) -> Weight:
    """Return a weight. If a schedule is invalid, note the mistake and return the weight 1."""
    if isinstance(weight, float):
        return weight
    points = tuple(weight.points)
    return notes.build(Schedule, place, points=points, kind=weight.kind) or 1.0


@dataclass(frozen=True, slots=True)
class SourceBuilder:
    """Makes sources, and their transforms, from options. It notes mistakes.

    files: the files that transforms have loaded.
    check_files: whether files must exist.
    user_code: whether a transform may name a Python file to run.
    names: the names of the fields that transforms process.
    task: a task's languages and prefix, for transforms that use them.
    defaults: transform name → its default options.

    >>> from volt.stream.config.yaml_document import parse
    >>> document = parse("[skip_blank, lower: [tgt]]", path="stream.yaml")
    >>> builder = SourceBuilder(Notes(document), LoadedFiles(), names=("src", "tgt"))
    >>> builder.transforms(document.value, ())
    (SkipBlank(fields=None), Lower(fields=(2,), if_cased=None))
    """

    notes: Notes
    files: LoadedFiles
    check_files: bool = False
    user_code: bool = True
    names: tuple[str, ...] = ()
    task: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def source(
        self, name: str, options: SourceOptions, common: list[Any], place: Place
    ) -> Source | None:
        """Return a source, or None if its options are invalid. common: the transforms of all
        sources"""
        columns = options.columns or {}
        names = tuple(options.pair or columns)
        named = replace(self, names=names)
        own = named.transforms(options.transforms, (*place, "transforms"))
        return self.source_at(
            place,
            options,
            name=name,
            names=names,
            keys=tuple(columns.values()),
            weight=weight_of(options.weight, self.notes, (*place, "weight")),
            paths=self._paths(options, place),
            transforms=own + named.transforms(common, ("transforms",)),
        )

    def source_at(self, place: Place, options: ReadingOptions, **more: Any) -> Source | None:
        """Return a source, or None if its options are invalid. more: fields of `Source` that
        `options` lacks"""
        name = str(more["name"])
        if not name or min(name) < " ":
            fault = f"{name!r} is not a name of a source; give one without tabs and line breaks"
            self.notes.add(place, fault)
        values = {key: getattr(options, key) for key in ReadingOptions.model_fields}
        names = [option.name for option in fields(Checks)]
        limits = {key: values.pop(key) for key in names}
        checks = self.notes.build(Checks, place, **limits) or Checks()
        with self.notes.catching((*place, "transforms")):
            check_order(more["transforms"], self.files)
        return self.notes.build(Source, place, checks=checks, **values, **more)

    def _paths(self, options: SourceOptions, place: Place) -> tuple[str, ...]:
        path, pair, columns = options.path, options.pair, options.columns
        add = self.notes.add
        if path is None and pair is None:
            missing = self.notes.document.nearest((*place, "path"))
            add(missing, "key 'path' is missing; give it, or pair")
        if path is not None and pair is not None:
            add(place, "path and pair are both given; remove one of them")
        if columns is not None and (pair is not None or not columns):
            add((*place, "columns"), "needs path and at least one field; add them")
        if pair is None:
            return tuple(self.files_at(path or (), (*place, "path"))) or ("",)

        place = (*place, "pair")
        if len(pair) < 2:
            fault = "has fewer than two files; write path for one, or {src: FILE, tgt: FILE}"
            add(place, fault)
        self.notes.check_names(pair, place)
        return self.groups(pair, place) or ("",)

    def groups(self, pair: Mapping[str, list[str]], place: Place) -> tuple[str, ...]:
        """Return the paths of line-aligned files in turn: src[0], tgt[0], src[1], tgt[1], …"""
        columns = list[list[str]]()
        for name, files in pair.items():
            column = self.files_at(files, (*place, name), is_column=True)
            columns.append([*column])
        first, *names = pair
        for name in names:
            if len(pair[name]) != len(pair[first]):
                counts = f"{counted(len(pair[name]), 'file')}, but {first} has {len(pair[first])}"
                fault = f"has {counts}; give equally many files, in the same order"
                self.notes.add((*place, name), fault)
                return ()
        groups = zip(*columns, strict=True)
        return tuple(chain.from_iterable(groups))

    def files_at(
        self, paths: Sequence[str], place: Place, *, is_column: bool = False
    ) -> Iterator[str]:
        """Yield paths relative to the current folder; note missing files and, if `is_column`, globs
        and folders."""
        for index, name in enumerate(paths):
            at = self.notes.document.nearest((*place, index))
            path = self.notes.file(name, at)
            if is_column and stands_for_several(path):
                fault = f"{path}: a field takes one file; name it, or use `each` for many"
                self.notes.add(at, fault)
            elif self.check_files:
                with self.notes.catching(at):
                    expand(bin_of(path))
            yield path

    def transforms(self, value: object, place: Place) -> tuple[Transform, ...]:
        """Return the valid transforms of a list, and note mistakes."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self.notes.add(place, "should be a list of transforms; put a dash before each")
            return ()
        result = list[Transform]()
        for index, item in enumerate(value):
            step = self._step(item, (*place, index))
            if step is not None:
                result.append(step)
        return tuple(result)

    def _step(self, item: object, place: Place) -> Transform | None:
        if isinstance(item, str):
            name, options = item, None
        elif isinstance(item, dict) and len(item) == 1:
            [(name, options)] = item.items()
        else:
            value = repr(item)
            if isinstance(item, dict):
                value = f"{len(item)} keys"
            fault = f"expected a name, or one name with its indented options, not {value}"
            self.notes.add(place, fault)
            return None
        if not self._is_known(name, place):
            return None
        if isinstance(item, dict):
            place = (*place, name)
        if name != "user" or self.user_code:
            return self._transform(name, options, place)
        file = _by_name(name, options).get("file")
        shown: object = "its file"
        if isinstance(file, str):
            shown = self.notes.document.folder / file
        fault = f"would run the code in {shown}; read it, then trust it (user_code)"
        self.notes.add(place, fault)
        return None

    def _is_known(self, name: str, place: Place) -> bool:
        if name not in TRANSFORMS:
            self.notes.add(place, f"unknown transform {name!r}; {near(name, list(TRANSFORMS))}")
        return name in TRANSFORMS

    def default(self, name: str, options: object, place: Place) -> Values:
        """Return the valid default options of a transform, by name."""
        if not self._is_known(name, place):
            return {}
        n_problems = len(self.notes.problems)
        values = _by_name(name, options)
        numbered = self._numbered(name, values, place)
        self.notes.checked(options_of(name), numbered, place, is_part=True)
        return values if len(self.notes.problems) == n_problems else {}

    def _transform(self, name: str, options: object, place: Place) -> Transform | None:
        values = dict(self.defaults.get(name, {}))
        for key in getattr(TRANSFORMS[name], "from_task", ()):
            if key in self.task:
                values[key] = self.task[key]
        values |= _by_name(name, options)

        n_problems = len(self.notes.problems)
        numbered = self._numbered(name, values, place)
        if len(self.notes.problems) > n_problems:
            return None
        checked = self.notes.checked(options_of(name), numbered, place)
        if checked is None:
            return None
        if name == "choice":
            return self._choice(checked, place)
        return self._loaded(checked, place)

    def _numbered(self, name: str, options: Values, place: Place) -> Values:
        """Replace field names by numbers in a transform's options; `where` gets the names for its
        conditions."""
        result = dict(options)
        for key in field_options(name):
            if key in options:
                result[key] = self._numbers(options[key], (*place, key))
        if self.names and name == "where":
            result.setdefault("names", list(self.names))
        return result

    def _numbers(self, value: object, place: Place) -> object:
        if isinstance(value, list):
            return [self._numbers(item, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, str) or not (self.names or value.isidentifier()):
            return value
        if value in self.names:
            return self.names.index(value) + 1
        remedy = "give a number, or name the fields by `pair` or `columns`"
        if self.names:
            remedy = near(value, self.names)
        self.notes.add(place, f"no field is called {value!r}; {remedy}")
        return value

    def _choice(self, options: Any, place: Place) -> Transform | None:
        within = self.notes.in_file(("variants",), place)
        variants = list[Variant | None]()
        for index, variant in enumerate(options.variants):
            at = (*within, index)
            steps = self.transforms(variant.transforms, (*at, "transforms"))
            variants.append(self.notes.build(Variant, at, weight=variant.weight, transforms=steps))
        if None in variants:
            return None
        return self.notes.build(Choice, place, variants=tuple(variants))

    def _loaded(self, transform: Any, place: Place) -> Transform | None:
        """Return a transform with paths relative to the current folder, and load its files."""
        with self.notes.catching(place):
            for option in fields(transform):
                path = getattr(transform, option.name)
                if isinstance(path, Path):
                    file = Path(self.notes.file(str(path), place))
                    if not is_file(file):
                        raise VoltError(f"{option.name}: {file}: no such file; check the path")
                    transform = replace(transform, **{option.name: file})
            open_transform(transform, self.files)
            return cast(Transform, transform)
        return None


def sources_by_pattern(
    builder: SourceBuilder, options: StreamOptions, cache: Path | None
) -> Iterator[Source | None]:
    """Yield a source for each file, or pair of files, that the pattern of `each` matches."""
    each = options.each
    notes = builder.notes
    if each is None:
        return
    if bool(each.path) == bool(each.pair):
        notes.add(("each",), "give a path with one *, or a pair of such paths")
        return
    n_problems = len(notes.problems)
    place: Place = ("each", "path")
    if each.pair:
        place = ("each", "pair")
        patterns = [_pattern(notes, paths, (*place, name)) for name, paths in each.pair.items()]
    else:
        patterns = [_pattern(notes, each.path or [""], place)]
    if len(notes.problems) > n_problems:
        return

    pattern = patterns[0]
    before, after = pattern.split("*")
    paths = glob.glob(pattern)
    names = sorted(path[len(before) : len(path) - len(after)] for path in paths)
    if not names:
        notes.add(place, f"{pattern}: no file matches this pattern; check the path")
    weights = [1.0] * len(names)
    if options.mix is None or options.mix.by == "weights":
        reading: Values = {
            "split_lines": each.split_lines,
            "fields": each.columns,
            "max_line": each.max_line or None,
        }
        with notes.catching(place):
            shards = [
                open_shard(pattern.replace("*", name), cache=cache, **reading) for name in names
            ]
            weights = temperature_shares(
                [shard.n_lines for shard in shards], temperature=each.temperature
            )
    for name, weight in zip(names, weights, strict=True):
        if not weight:
            path = shown_path(pattern.replace("*", name))
            fault = f"{each.temperature:g} leaves nothing to {path}; raise it"
            notes.add(("each", "temperature"), fault)
        if name in options.sources:
            fault = f"source {name!r} is among sources, too; rename it there, or match fewer files"
            notes.add(("each",), fault)
        own = _options_of(each, name, weight)
        yield builder.source(name, own, options.transforms, ("each",))


def _pattern(notes: Notes, paths: list[str], place: Place) -> str:
    pattern = notes.file(paths[0], place)
    if len(paths) > 1:
        notes.add(place, "should be one pattern, not a list")
    if pattern.count("*") != 1 or re.search(r"[?\[\]]", pattern):
        fault = "does not contain exactly one *; put one where the names of the sources differ"
        notes.add(place, f"{pattern}: {fault}")
    return pattern


def _options_of(each: EachOptions, name: str, share: float) -> SourceOptions:
    """Return the options of one of the sources."""
    weight = each.weight
    if isinstance(weight, float):
        weight *= share
    else:
        points = [(sample, value * share) for sample, value in weight.points]
        weight = weight.model_copy(update={"points": points})
    values: Values = {
        "weight": weight,
        "transforms": _filled(each.transforms, "{name}", name),
        "path": _filled(each.path, "*", name),
        "pair": _filled(each.pair, "*", name),
    }
    return each.model_copy(update=values)


def _filled(value: Any, placeholder: str, name: str) -> Any:
    """Replace a placeholder by a name in all texts of a value.

    >>> _filled([{"tag": "<2{name}>"}, 1], "{name}", "de")
    [{'tag': '<2de>'}, 1]
    """
    if isinstance(value, str):
        return value.replace(placeholder, name)
    if isinstance(value, Mapping):
        return {key: _filled(item, placeholder, name) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, placeholder, name) for item in value]
    return value


def _by_name(name: str, options: object) -> Values:
    """Return the options of a transform by their names; a single value belongs to the first option.

    >>> _by_name("multiply", 3)
    {'n': 3}
    """
    if isinstance(options, dict):
        return options
    if options is None:
        return {}
    return {first_option(name) or str(options): options}
