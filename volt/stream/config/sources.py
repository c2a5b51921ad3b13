"""Make the sources of the sections `sources` and `each`: their files, weights and transforms.

`each: {path: "data/*.tsv.gz", …}` makes a source of each file, named after the text that `*`
matches, and divides its weight among these sources by their lines.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

from volt.display import counted
from volt.errors import shown_path
from volt.files.paths import expand, stands_for_several
from volt.stream.config.problems import Problems
from volt.stream.config.pydantic_models import (
    EachOptions,
    ReadingOptions,
    ScheduleOptions,
    SourceOptions,
    StreamOptions,
)
from volt.stream.config.transform_lists import TransformBuilder
from volt.stream.config.yaml_document import Place, Values
from volt.stream.mixing.mixture import temperature_shares
from volt.stream.mixing.schedule import Schedule, Weight
from volt.stream.reading.id_shard import bin_of
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.source_definition import Checks, Source
from volt.stream.transforms.ordering import check_order


@dataclass(frozen=True, slots=True)
class SourceBuilder:
    """Makes sources from options, and collects problems.

    transform_builder: makes the sources' transforms
    check_files: whether files must exist
    """

    transform_builder: TransformBuilder
    check_files: bool = False

    @property
    def problems(self) -> Problems:
        return self.transform_builder.problems

    def build_source(
        self, name: str, options: SourceOptions, common: list[Any], place: Place
    ) -> Source | None:
        """Return a source of the section `sources` or `each`, or None if its options are invalid.

        common: the transforms of all sources
        """
        columns = options.columns or {}
        field_names = tuple(options.pair or columns)
        builder = replace(self.transform_builder, field_names=field_names)
        transforms = builder.build_list(options.transforms, (*place, "transforms"))
        return self.build_from(
            options,
            place,
            name=name,
            names=field_names,
            keys=tuple(columns.values()),
            weight=make_weight(options.weight, self.problems, (*place, "weight")),
            paths=self._list_paths(options, place),
            transforms=transforms + builder.build_list(common, ("transforms",)),
        )

    def build_from(self, options: ReadingOptions, place: Place, **more: Any) -> Source | None:
        """Return a source, or None if its options are invalid.

        options: the options of reading
        more: the other fields of `Source`
        """
        name = str(more["name"])
        if not name or min(name) < " ":
            fault = f"{name!r} is not a name of a source; give one without tabs and line breaks"
            self.problems.add(place, fault)
        values = {key: getattr(options, key) for key in ReadingOptions.model_fields}
        limits = {check.name: values.pop(check.name) for check in fields(Checks)}
        checks = self.problems.build(Checks, place, **limits) or Checks()
        with self.problems.catch_errors((*place, "transforms")):
            check_order(more["transforms"], self.transform_builder.files)
        return self.problems.build(Source, place, checks=checks, **values, **more)

    def _list_paths(self, options: SourceOptions, place: Place) -> tuple[str, ...]:
        add = self.problems.add
        if options.path is None and options.pair is None:
            missing = self.problems.document.find_enclosing((*place, "path"))
            add(missing, "key 'path' is missing; give it, or pair")
        if options.path is not None and options.pair is not None:
            add(place, "path and pair are both given; remove one of them")
        if options.columns is not None and (options.pair is not None or not options.columns):
            add((*place, "columns"), "needs path and at least one field; add them")
        if options.pair is None:
            return tuple(self.resolve_paths(options.path or (), (*place, "path"))) or ("",)

        place = (*place, "pair")
        if len(options.pair) < 2:
            fault = "has fewer than two files; write path for one, or {src: FILE, tgt: FILE}"
            add(place, fault)
        self.problems.check_field_names(options.pair, place)
        return self.interleave_paths(options.pair, place) or ("",)

    def interleave_paths(self, pair: Mapping[str, list[str]], place: Place) -> tuple[str, ...]:
        """Return the paths of line-aligned files, group by group: the first file of each field, the
        second file of each field, …; () if fields have different numbers of files.

        {src: [a.de, b.de], tgt: [a.en, b.en]}  →  a.de, a.en, b.de, b.en
        """
        columns = list[list[str]]()
        for name, files in pair.items():
            paths = self.resolve_paths(files, (*place, name), is_column=True)
            columns.append(list(paths))
        first, *others = pair
        for name in others:
            if len(pair[name]) != len(pair[first]):
                counts = f"{counted(len(pair[name]), 'file')}, but {first} has {len(pair[first])}"
                fault = f"has {counts}; give equally many files, in the same order"
                self.problems.add((*place, name), fault)
                return ()
        return tuple(chain.from_iterable(zip(*columns, strict=True)))

    def resolve_paths(
        self, paths: Sequence[str], place: Place, *, is_column: bool = False
    ) -> Iterator[str]:
        """Yield paths relative to the current folder. Missing files are problems.

        is_column: whether each path must be one file, not a glob or folder
        """
        for index, name in enumerate(paths):
            path_place = self.problems.document.find_enclosing((*place, index))
            path = self.problems.resolve_path(name, path_place)
            if is_column and stands_for_several(path):
                fault = f"{path}: a field takes one file; name it, or use `each` for many"
                self.problems.add(path_place, fault)
            elif self.check_files:
                with self.problems.catch_errors(path_place):
                    expand(bin_of(path))
            yield path


def make_weight(weight: float | ScheduleOptions, problems: Problems, place: Place) -> Weight:
    """Return a weight; 1 in place of an invalid schedule."""
    if isinstance(weight, float):
        return weight
    points = tuple(weight.points)
    return problems.build(Schedule, place, points=points, kind=weight.kind) or 1.0


def build_sources(
    builder: SourceBuilder, options: StreamOptions, cache: Path | None
) -> list[Source]:
    """Return the valid sources of the sections `sources` and `each`.

    cache: the folder of line indices, from which the lines of `each` are counted
    """
    sources = [
        builder.build_source(name, source, options.transforms, ("sources", name))
        for name, source in options.sources.items()
    ]
    sources += _build_each_source(builder, options, cache)
    return [source for source in sources if source is not None]


def _build_each_source(
    builder: SourceBuilder, options: StreamOptions, cache: Path | None
) -> Iterator[Source | None]:
    """Yield a source for each file, or pair of files, that the pattern of `each` matches."""
    each = options.each
    problems = builder.problems
    if each is None:
        return
    if bool(each.path) == bool(each.pair):
        problems.add(("each",), "give a path with one *, or a pair of such paths")
        return
    n_problems = len(problems.entries)
    if each.pair:
        place: Place = ("each", "pair")
        patterns = [
            _resolve_pattern(problems, paths, (*place, name)) for name, paths in each.pair.items()
        ]
    else:
        place = ("each", "path")
        patterns = [_resolve_pattern(problems, each.path or [""], place)]
    if len(problems.entries) > n_problems:
        return

    pattern = patterns[0]
    before, after = pattern.split("*")
    names = sorted(path[len(before) : len(path) - len(after)] for path in glob.glob(pattern))
    if not names:
        problems.add(place, f"{pattern}: no file matches this pattern; check the path")
    weights = [1.0] * len(names)
    if options.mix is None or options.mix.by == "weights":
        reading: Values = {
            "split_lines": each.split_lines,
            "fields": each.columns,
            "max_line": each.max_line or None,
        }
        with problems.catch_errors(place):
            paths = [pattern.replace("*", name) for name in names]
            n_lines = [open_shard(path, cache=cache, **reading).n_lines for path in paths]
            weights = temperature_shares(n_lines, temperature=each.temperature)
    for name, weight in zip(names, weights, strict=True):
        if not weight:
            path = shown_path(pattern.replace("*", name))
            fault = f"{each.temperature:g} leaves nothing to {path}; raise it"
            problems.add(("each", "temperature"), fault)
        if name in options.sources:
            fault = f"source {name!r} is among sources, too; rename it there, or match fewer files"
            problems.add(("each",), fault)
        source_options = _make_options(each, name, weight)
        yield builder.build_source(name, source_options, options.transforms, ("each",))


def _resolve_pattern(problems: Problems, paths: list[str], place: Place) -> str:
    pattern = problems.resolve_path(paths[0], place)
    if len(paths) > 1:
        problems.add(place, "should be one pattern, not a list")
    if pattern.count("*") != 1 or re.search(r"[?\[\]]", pattern):
        fault = "does not contain exactly one *; put one where the names of the sources differ"
        problems.add(place, f"{pattern}: {fault}")
    return pattern


def _make_options(each: EachOptions, name: str, share: float) -> SourceOptions:
    """Return the options of one source of `each`. share: its share of the weight of `each`"""
    weight = each.weight
    if isinstance(weight, float):
        weight *= share
    else:
        points = [(sample, value * share) for sample, value in weight.points]
        weight = weight.model_copy(update={"points": points})
    values: Values = {
        "weight": weight,
        "transforms": _fill_in(each.transforms, "{name}", name),
        "path": _fill_in(each.path, "*", name),
        "pair": _fill_in(each.pair, "*", name),
    }
    return each.model_copy(update=values)


def _fill_in(value: Any, placeholder: str, name: str) -> Any:
    """Replace a placeholder by a name in all texts of a value.

    >>> _fill_in([{"tag": "<2{name}>"}, 1], "{name}", "de")
    [{'tag': '<2de>'}, 1]
    """
    if isinstance(value, str):
        return value.replace(placeholder, name)
    if isinstance(value, Mapping):
        return {key: _fill_in(item, placeholder, name) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_in(item, placeholder, name) for item in value]
    return value
