"""The sources of a configuration: their files, weights, schedules, patterns, and how they are mixed.

`each: {path: "data/*.tsv.gz", …}` makes one source of each file that matches, named after the text of `*`. Its
share of the weight follows from its number of lines. A list of weights becomes a schedule in samples:

    sample of a point = point · batch_samples · update_batches

>>> from volt.stream.config.models import SourceOptions
>>> from volt.stream.config.document import Document
>>> maker = Sources(Notes(Document("stream.yaml", {}, {})), Path("data"), LoadedFiles())
>>> made = maker.made("wmt", SourceOptions(pair={"src": "a.de", "tgt": "a.en"}), [], ("sources", "wmt"))
>>> made.paths if made else None
('data/a.de', 'data/a.en')
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from volt.display import counted
from volt.errors import ConfigError, VoltError, shown_path
from volt.files.paths import expand, stands_for_several
from volt.stream.config.document import Notes, Place
from volt.stream.config.transforms import TransformBuilder
from volt.stream.mixing.mixture import Sampling, shares
from volt.stream.mixing.schedule import FOREVER, Schedule, Weight
from volt.stream.reading.shards import bin_of, open_shard
from volt.stream.reading.source import Checks, Source
from volt.stream.transforms.ordering import check_order
from volt.stream.transforms.transform import LoadedFiles

if TYPE_CHECKING:
    from volt.stream.config.models import (
        EachOptions,
        Model,
        ReadingOptions,
        ScheduleOptions,
        SourceOptions,
        StreamOptions,
        TaskScheduleOptions,
    )


_WEIGHT = "does not go with mix, which makes the weights of the lines; leave it out, or say mix: {by: weights}"
_EPOCHS = "does not go with mix, whose sources have no end; leave it out, or say mix: {by: weights}"


def is_by_size(options: StreamOptions) -> bool:
    """Check whether weights follow from the numbers of lines.

    >>> from volt.stream.config.models import StreamOptions
    >>> is_by_size(StreamOptions())
    False
    """
    return options.mix is not None and options.mix.by != "weights"


def sampling_of(options: StreamOptions, notes: Notes) -> Sampling | None:
    """Return how sources are mixed by size; None if by their weights. What does not go with that is noted."""
    mix = options.mix
    if mix is not None and mix.by != "temperature" and "temperature" in mix.model_fields_set:
        message = f"has no meaning where sources are mixed by {mix.by}; leave it out, or say by: temperature"
        notes.add(("mix", "temperature"), message)
    if mix is None or mix.by == "weights":
        return None
    for place, message in _mistakes(options):
        notes.add(place, message)
    line = f":{notes.document.line(('mix',))}" if notes.document.lines else ""
    return Sampling(mix.by, mix.temperature, where=f"{notes.document.path}{line}: mix")


def _mistakes(options: StreamOptions) -> Iterator[tuple[Place, str]]:
    """Note options that contradict how sources are mixed, and how often they are read."""
    for place, one in _mixed(options):
        for key, message in (("weight", _WEIGHT), ("temperature", _WEIGHT), ("epochs", _EPOCHS)):
            if key in one.model_fields_set and getattr(one, key) is not None:
                yield (*place, key), message
    if options.schedule is not None:
        yield ("schedule",), _WEIGHT


def _mixed(options: StreamOptions) -> Iterator[tuple[Place, Model]]:
    """Whatever is mixed: sources, those by pattern, and tasks of the split `train`."""
    yield from ((("sources", name), one) for name, one in options.sources.items())
    yield from ((("each",), one) for one in [options.each] if one is not None)
    yield from ((("tasks", name), one) for name, one in options.tasks.items() if one.split == "train")


_PLACE = ("schedule",)


@dataclass(frozen=True, slots=True)
class TaskWeights:
    """Makes the weights of tasks.

    notes: takes what is wrong.
    schedule: when the weights change; None if they do not.
    points: the samples at which they change; None if something is wrong with the schedule.
    """

    notes: Notes
    schedule: TaskScheduleOptions | None
    points: tuple[int, ...] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        points = None if self.schedule is None else sample_points(self.schedule, self.notes)
        object.__setattr__(self, "points", points)  # what follows from the fields of a frozen dataclass

    def of(self, weights: float | list[float] | ScheduleOptions, place: Place) -> Weight:
        """Return the weight of a task; 1 if something is wrong with it, which is noted."""
        if isinstance(weights, float):
            return weights
        if not isinstance(weights, list):
            return schedule_of(weights, self.notes, place)
        if self.schedule is None:
            remedy = "give one number, or schedule: {points: [SAMPLE, …]}"
            self.notes.add(place, f"a list of weights, and no schedule says when they change; {remedy}")
            return 1.0
        wanted = len(self.schedule.points) + 1
        if len(weights) != wanted:
            result = f"{counted(len(weights), 'weight')}, and the schedule has {counted(wanted - 1, 'point')}"
            self.notes.add(place, f"{result}; give {wanted}: the first counts from the start, one more from each point")
        elif self.points is not None:
            points = tuple(zip((0, *self.points), weights, strict=True))
            return self.notes.made(Schedule, place, points=points, kind=self.schedule.kind) or 1.0
        return 1.0


def schedule_of(options: ScheduleOptions, notes: Notes, place: Place) -> Weight:
    """Return a schedule that gives its own points; 1 if something is wrong with it, which is noted."""
    return notes.made(Schedule, place, points=tuple(options.points), kind=options.kind) or 1.0


def sample_points(options: TaskScheduleOptions, notes: Notes) -> tuple[int, ...] | None:
    """Return the samples at which weights change; None if something is wrong, which is noted."""
    n_problems, unit = len(notes.found), options.unit
    if unit != "samples" and options.batch_samples is None:
        notes.add((*_PLACE, "unit"), f"{unit} have no size; give batch_samples, the samples of a batch")
    for key, units in (("batch_samples", ("batches", "updates")), ("update_batches", ("updates",))):
        if getattr(options, key) is not None and unit not in units:
            notes.add((*_PLACE, key), f"has no meaning where points count {unit}; leave it out, or give another unit")
    size = (
        1
        if unit == "samples"
        else (options.batch_samples or 1) * ((options.update_batches or 1) if unit == "updates" else 1)
    )
    points = tuple(point * size for point in options.points)
    for index, (before, point) in enumerate(pairwise((0, *points))):
        if point <= before:
            which = f"not above {options.points[index - 1]}, which it follows" if index else "not above 0"
            notes.add((*_PLACE, "points", index), f"{options.points[index]} is {which}; let points rise")
        elif point >= FOREVER:
            notes.add(
                (*_PLACE, "points", index), f"{point:,} samples are more than can be counted; give a smaller point"
            )
    return points if len(notes.found) == n_problems else None


_CHECKS = {field.name for field in fields(Checks)}
_READING = _CHECKS | {field.name for field in fields(Source)} - {"name", "paths", "weight", "transforms"}


@dataclass(frozen=True, slots=True)
class Sources:
    """Makes sources of what a configuration says of them.

    notes: takes what is wrong.
    folder: what relative paths are relative to.
    files: what the transforms' files hold.
    check_files: whether files are looked for.
    user_code: whether a transform may name a Python file to run.
    """

    notes: Notes
    folder: Path
    files: LoadedFiles
    check_files: bool = False
    user_code: bool = True

    def steps(self, names: tuple[str, ...]) -> TransformBuilder:
        """Return a builder of transforms, for lines whose fields have these names."""
        return TransformBuilder(self.notes, self.folder, self.files, user_code=self.user_code, names=names)

    def file(self, path: str, place: Place) -> str:
        """Return a path of the configuration, from here."""
        return self.notes.file(self.folder, path, place)

    def made(self, name: str, options: SourceOptions, common: list[Any], place: Place) -> Source | None:
        """Return a source; None if its options are wrong.

        common: the transforms of all sources
        """
        names, keys = tuple(options.pair or options.columns or ()), tuple((options.columns or {}).values())
        steps, message = self.steps(names), options.weight
        weight = message if isinstance(message, float) else schedule_of(message, self.notes, (*place, "weight"))
        paths = self._paths(options, place)
        transforms = steps.of(options.transforms, (*place, "transforms")) + steps.of(common, ("transforms",))
        return self.built(
            place, options, name=name, paths=paths, weight=weight, transforms=transforms, names=names, keys=keys
        )

    def built(self, place: Place, options: ReadingOptions, **more: Any) -> Source | None:
        """Return a source; None if its options are wrong. more: what the options do not hold."""
        name = str(more["name"])
        if not name or any(sign < " " for sign in name):
            self.notes.add(place, f"{name!r} is not a name of a source; give one without tabs and line breaks")
        values = {key: getattr(options, key) for key in type(options).model_fields.keys() & _READING}
        checks = {key: values.pop(key) for key in _CHECKS}
        output = self.notes.made(Checks, place, **checks) or Checks()
        try:
            check_order(more["transforms"], self.files)
        except VoltError as error:
            self.notes.note(error, (*place, "transforms"))
        return cast("Source | None", self.notes.made(Source, place, checks=output, **values, **more))

    def _paths(self, options: SourceOptions, place: Place) -> tuple[str, ...]:
        if (options.path is None) == (options.pair is None):
            if options.pair:
                self.notes.add(place, "path and pair are both given; leave one out")
            else:
                message = (*place, "path") if (*place, "path") in self.notes.document.lines else place
                self.notes.add(message, "key 'path' is missing; give it, or pair")
            return ("",)
        if options.columns is not None and (options.pair is not None or not options.columns):
            self.notes.add((*place, "columns"), "needs path, and one field at least; fix it")
        if options.pair is not None:
            return self._pair(options.pair, (*place, "pair"))
        named = [options.path] if isinstance(options.path, str) else options.path or []
        paths = [self.file(path, (*place, "path", index)) for index, path in enumerate(named)]
        for index, path in enumerate(paths):
            self.look_for(path, (*place, "path", index))
        return tuple(paths)

    def _pair(self, message: Mapping[str, str | list[str]], place: Place) -> tuple[str, ...]:
        """Return the paths of files that belong together, in the order of their fields; those of the first pair
        first.
        """
        if len(message) < 2:
            self.notes.add(place, "has fewer than two files; write path for one, or {src: FILE, tgt: FILE}")
        for name in message:
            if not name.isidentifier():
                self.notes.add((*place, name), f"{name!r} is not a name for a field; give a word, such as src")
        return self.groups(message, place) or ("",)

    def groups(self, pair: Mapping[str, str | list[str]], place: Place) -> tuple[str, ...]:
        """Return the paths of line-aligned files: the first file of each name, the second of each, and so on."""
        columns = {name: self._column(files, (*place, name)) for name, files in pair.items()}
        for name, paths in columns.items():
            first, least = next(iter(columns.items()))
            if len(paths) != len(least):
                counts = f"{first} has {counted(len(least), 'file')} and {name} {counted(len(paths), 'file')}"
                self.notes.add((*place, name), f"{counts}; give as many, in the same order")
                return ()
        return tuple(path for group in zip(*columns.values(), strict=True) for path in group)

    def _column(self, message: str | list[str], place: Place) -> list[str]:
        named = message if isinstance(message, list) else [message]
        places = [(*place, index) if isinstance(message, list) else place for index in range(len(named))]
        paths = [self.file(path, at) for path, at in zip(named, places, strict=True)]
        for path, at in zip(paths, places, strict=True):
            if stands_for_several(path):
                self.notes.add(at, f"{path}: one file belongs to a field; name it, or use `each` for many")
            else:
                self.look_for(path, at)
        return paths

    def look_for(self, path: str, place: Place) -> None:
        """Note a path that leads to no file."""
        try:
            if self.check_files:
                expand(bin_of(path))
        except VoltError as error:
            self.notes.add(place, error)


NAME = "{name}"
_OTHERS = re.compile(r"[?\[\]]")


def names_of(pattern: str) -> list[str]:
    """Return the texts that `*` matches in the paths of files, sorted. Raises ConfigError if none does.

    >>> names_of("/nowhere/*.tsv")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: /nowhere/*.tsv: no file matches this pattern; check the path
    """
    check_pattern(pattern)
    before, after = pattern.split("*")
    result = sorted(path[len(before) : len(path) - len(after)] for path in glob.glob(pattern))
    if not result:
        raise ConfigError(f"{pattern}: no file matches this pattern; check the path")
    return result


def check_pattern(pattern: str) -> None:
    """Raise ConfigError unless a pattern holds one `*`, and no other sign that stands for characters.

    >>> check_pattern("data/*.tsv")
    """
    if pattern.count("*") != 1 or _OTHERS.search(pattern):
        raise ConfigError(f"{pattern}: holds not one *; put it where the names of the sources differ")


def filled(value: Any, name: str) -> Any:
    """Return a value with a name in place of {name}, wherever text holds it.

    >>> filled([{"tag": "<2{name}>"}, 1], "de")
    [{'tag': '<2de>'}, 1]
    """
    if isinstance(value, str):
        return value.replace(NAME, name)
    if isinstance(value, Mapping):
        return {key: filled(item, name) for key, item in value.items()}
    return [filled(item, name) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Each:
    """The maker of a pattern's sources. cache: the folder for line indices; None for the user's."""

    maker: Sources
    cache: Path | None

    def made(self, options: StreamOptions) -> Iterator[Source | None]:
        """Yield the sources of the files that match a pattern."""
        if options.each is None or not (patterns := self._patterns(options.each)):
            return
        try:
            names = names_of(patterns[0])
        except VoltError as error:
            self.maker.notes.add(("each", "path" if options.each.pair is None else "pair"), error)
            return
        paths = [patterns[0].replace("*", name) for name in names]
        weights = [1.0] * len(names) if is_by_size(options) else self._weights(options.each, paths)
        for name, weight in zip(names, weights, strict=True):
            if name in options.sources:
                self.maker.notes.add(
                    ("each",), f"the source {name!r} is among sources, too; rename that, or match less"
                )
            yield self.maker.made(name, self._one(options.each, name, weight), options.transforms, ("each",))

    def _patterns(self, each: EachOptions) -> list[str]:
        """Return the pattern of the path, or those of the pair; none if something is wrong with one."""
        values = each.pair or ({"path": each.path} if each.path else {})
        place: Place = ("each", "pair") if each.pair else ("each",)
        if bool(each.path) == bool(each.pair):
            self.maker.notes.add(("each",), "give a path with one *, or a pair of such")
            return []
        n_problems = len(self.maker.notes.found)
        patterns = {name: self._pattern(path, (*place, name)) for name, path in values.items()}
        return list(patterns.values()) if len(self.maker.notes.found) == n_problems else []

    def _pattern(self, message: str | list[str], place: Place) -> str:
        if isinstance(message, list):
            self.maker.notes.add(place, "should be one pattern, not a list")
            return ""
        pattern = self.maker.file(message, place)
        try:
            check_pattern(pattern)
        except VoltError as error:
            self.maker.notes.add(place, error)
        return pattern

    def _weights(self, each: EachOptions, paths: list[str]) -> list[float]:
        sizes = list[int]()
        for path in paths:
            try:
                shard = open_shard(
                    path,
                    split_lines=each.split_lines,
                    fields=each.columns,
                    cache=self.cache,
                    max_line=each.max_line or None,
                )
            except VoltError as error:
                self.maker.notes.add(("each", "path" if each.pair is None else "pair"), error)
            else:
                sizes.append(shard.n_lines)
        if len(sizes) < len(paths):
            return [1.0] * len(paths)
        result = shares(sizes, temperature=each.temperature)
        if 0.0 in result:
            left = f"{each.temperature:g} leaves nothing to {shown_path(paths[result.index(0.0)])}; give a higher one"
            self.maker.notes.add(("each", "temperature"), left)
        return result

    def _one(self, each: EachOptions, name: str, share: float) -> SourceOptions:
        path = None if each.path is None else str(each.path).replace("*", name)
        pair = None if each.pair is None else {field: str(file).replace("*", name) for field, file in each.pair.items()}
        weight = each.weight
        if isinstance(weight, float):
            weight = weight * share
        else:
            weight = weight.model_copy(update={"points": [(sample, value * share) for sample, value in weight.points]})
        values = {"path": path, "pair": pair, "weight": weight, "transforms": filled(each.transforms, name)}
        return each.model_copy(update=values)
