"""Make the tasks of a configuration and their sources, and select sources by split or task.

Training mixes the sources and the tasks of the split `train`. Validation reads the tasks of the split `valid`: every
line once, in order, without noise. Validation can also read a task of the split `train`, selected by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.display import counted
from volt.errors import VoltError
from volt.files.paths import expand
from volt.stream.config.problems import Notes, near
from volt.stream.config.sources import Sources, schedule_of
from volt.stream.config.yaml_document import Place
from volt.stream.mixing.schedule import FOREVER, Schedule, Weight
from volt.stream.reading.open_shard import bin_of
from volt.stream.reading.source_definition import Source
from volt.stream.tasks.manifest import read_manifest
from volt.stream.tasks.task import SIDES, Input, Split, Task
from volt.stream.transforms.transform import deterministic

if TYPE_CHECKING:
    from volt.stream.config.pydantic_models import (
        InputOptions,
        ScheduleOptions,
        StreamOptions,
        TaskOptions,
        TaskScheduleOptions,
    )


NAMES = ("src", "tgt")  # names of fields in options of transforms
LANGUAGES = ("src_lang", "tgt_lang", "extra_prefix")


def selected(
    tasks: Sequence[tuple[Task, Source]],
    others: Sequence[Source],
    notes: Notes,
    *,
    split: Split,
    names: Sequence[str] | None,
) -> list[Source]:
    """Return the selected sources; note names that cannot be selected.

    others: the sources without a task
    names: the names of the selected tasks; None for all tasks of the split
    """
    known = {task.name: task for task, _ in tasks}
    for name in names or () if not notes.problems else ():
        remedy = near(name, [*known]) if known else "the file has no tasks"
        if any(source.name == name for source in others):
            notes.add(("sources", name), f"is a source, not a task; {remedy}")
        elif name not in known:
            notes.add(("tasks",), f"no task {name!r}; {remedy}")
        elif split == "train" and known[name].split == "valid":
            notes.add(("tasks", name), "is of split valid, not train; choose the split valid")
    picked = [
        source
        for task, source in tasks
        if (task.split == split if names is None else task.name in names)
    ]
    if split == "valid":
        result = [
            replace(
                source,
                transforms=deterministic(source.transforms),
                shuffle="none",
                epochs=1,
                weight=1.0,
            )
            for source in picked
        ]
    else:
        result = [*(others if names is None else ()), *picked]
    if not result and not notes.problems:
        remedy = (
            "name a task, or add a task of that split"
            if split == "valid"
            else "add a task, or sources"
        )
        notes.add(("tasks",), f"no task is of split {split}; {remedy}")
    return result


def defaults_of(defaults: Mapping[str, Any], maker: Sources) -> dict[str, dict[str, Any]]:
    """Return the default options of transforms; invalid options are noted and omitted."""
    return {
        name: maker.steps(NAMES).default(name, options, ("defaults", name))
        for name, options in defaults.items()
    }


@dataclass(frozen=True, slots=True)
class Tasks:
    """Makes tasks. shards: the folder to read tasks from; None to read their inputs"""

    maker: Sources
    options: StreamOptions
    shards: Path | None

    def with_sources(self) -> list[tuple[Task, Source]]:
        options = self.options
        defaults = defaults_of(options.defaults, self.maker)
        points = (
            None if options.schedule is None else _sample_points(options.schedule, self.maker.notes)
        )
        inputs = {name: tuple(self._inputs(name, task)) for name, task in options.tasks.items()}
        result = list[tuple[Task, Source]]()
        for name, task in options.tasks.items():
            self._check(name, task)
            if (source := self._source(name, task, points, defaults)) is not None:
                new = Task(
                    name,
                    task.type,
                    inputs[name],
                    task.split,
                    source.weight,
                    source.transforms,
                    task.src_lang,
                    task.tgt_lang,
                    task.extra_prefix,
                    task.n_shards,
                    task.share_inputs,
                )
                result.append((new, source))
        known = {task.name: task for task, _ in result}
        read = [
            (task, self._reading(known.get(task.shares or task.name, task), source))
            for task, source in result
        ]
        return [(task, source) for task, source in read if source is not None]

    def _check(self, name: str, task: TaskOptions) -> None:
        notes, place = self.maker.notes, ("tasks", name)
        if name in self.options.sources:
            notes.add(place, "a source has the same name; rename one of them")
        if task.share_inputs is not None:
            self._check_sharing(task, task.share_inputs, name)
        elif not task.inputs:
            sides = ", ".join(f"{side}: FILE" for side in SIDES[task.type])
            notes.add(
                place, f"has no inputs; give inputs: {{NAME: {{{sides}}}}}, or share_inputs: TASK"
            )
        if task.split == "valid" and "weight" in task.model_fields_set:
            notes.add(
                (*place, "weight"),
                "has no effect in split valid, whose lines are read once each; remove it",
            )

    def _check_sharing(self, task: TaskOptions, shared: str, name: str) -> None:
        notes, place = self.maker.notes, ("tasks", name, "share_inputs")
        other = self.options.tasks.get(shared)
        if task.inputs:
            notes.add(
                ("tasks", name, "inputs"), "cannot be used with share_inputs; remove one of them"
            )
        if task.n_shards is not None:
            notes.add(
                ("tasks", name, "n_shards"),
                f"cannot be used with share_inputs; set it in task {shared}",
            )
        if shared == name:
            notes.add(place, "names the task itself; name another, or give inputs")
        elif other is None:
            notes.add(place, f"no task {shared!r}; {near(shared, [*self.options.tasks])}")
        elif (owner := other.share_inputs) is not None:
            notes.add(
                place,
                f"{shared} has no inputs of its own; name the task whose inputs it shares, {owner}",
            )
        elif other.type != task.type:
            notes.add(
                place,
                f"{shared} is of type {other.type}, this task of type {task.type}; give both one type",
            )

    def _inputs(self, name: str, task: TaskOptions) -> Iterator[Input]:
        maker = self.maker if self.shards is None else replace(self.maker, check_files=False)
        for key, one in task.inputs.items():
            if files := tuple(_files(maker, task.type, one, ("tasks", name, "inputs", key))):
                yield Input(key, files)

    def _source(
        self,
        name: str,
        task: TaskOptions,
        points: Sequence[int] | None,
        defaults: Mapping[str, Any],
    ) -> Source | None:
        place: Place = ("tasks", name)
        known = {key: value for key in LANGUAGES if (value := getattr(task, key)) is not None}
        steps = replace(self.maker.steps(NAMES), task=known, defaults=defaults)
        own = steps.of(task.transforms, (*place, "transforms"))
        if (
            task.type == "mono"
            and "max_fields" not in task.model_fields_set
            and task.min_fields < 2
        ):
            task = task.model_copy(update={"max_fields": 1})  # so that a line with a tab is unfit
        transforms = own + steps.of(self.options.transforms, ("transforms",))
        weight = self._weight(task.weight, points, (*place, "weight"))
        return self.maker.source_at(
            place, task, name=name, paths=("",), transforms=transforms, weight=weight
        )

    def _weight(
        self,
        weights: float | list[float] | ScheduleOptions,
        points: Sequence[int] | None,
        place: Place,
    ) -> Weight:
        notes, schedule = self.maker.notes, self.options.schedule
        if isinstance(weights, float):
            return weights
        if not isinstance(weights, list):
            return schedule_of(weights, notes, place)
        if schedule is None:
            notes.add(
                place,
                "a list of weights needs a schedule; give one number, or schedule: {points: [SAMPLE, …]}",
            )
        elif len(weights) != (wanted := len(schedule.points) + 1):
            message = f"{counted(len(weights), 'weight')}, and the schedule has {counted(wanted - 1, 'point')}"
            notes.add(place, f"{message}; give {wanted}: one for the start, and one for each point")
        elif points is not None:
            pairs = tuple(zip((0, *points), weights, strict=True))
            return notes.build(Schedule, place, points=pairs, kind=schedule.kind) or 1.0
        return 1.0

    def _reading(self, owner: Task, source: Source) -> Source | None:
        """Return a task's source with the paths to read: the inputs or the shards of the task `owner`."""
        if self.shards is not None and self.maker.check_files:
            with self.maker.notes.catching(("tasks", source.name)):
                manifest = read_manifest(self.shards, owner)
                return replace(source, paths=manifest.paths, names=manifest.names)
            return None
        paths = tuple(path for one in owner.inputs for path in one.paths)
        return replace(source, paths=paths, names=owner.names) if paths else None


def _files(
    maker: Sources, kind: str, options: InputOptions, place: Place
) -> Iterator[tuple[str, str]]:
    """Yield (side, path) pairs, the sides in turn: src[0], tgt[0], src[1], tgt[1], …"""
    sides: dict[str, Any] = {side: files for side, files in options if files is not None}
    others, missing = (
        sides.keys() - set(SIDES[kind]),
        [side for side in SIDES[kind] if side not in sides],
    )
    for side in sorted(others):
        maker.notes.add(
            (*place, side), f"cannot be used with type {kind}; give {' and '.join(SIDES[kind])}"
        )
    if missing and not others:
        maker.notes.add(
            place, f"key {missing[0]!r} is missing; type {kind} needs {' and '.join(SIDES[kind])}"
        )
    elif others:
        return
    elif kind == "mono":
        for file in maker.files_at(sides["mono"], (*place, "mono")):
            with suppress(VoltError):  # noted above
                yield from (
                    ("mono", path)
                    for path in (expand(bin_of(file)) if maker.check_files else [file])
                )
    else:
        paths = maker.groups({side: sides[side] for side in SIDES[kind]}, place)
        yield from zip(SIDES[kind] * (len(paths) // 2), paths, strict=True)


def _sample_points(options: TaskScheduleOptions, notes: Notes) -> tuple[int, ...] | None:
    """Return the sample numbers at which weights change: point · batch_samples · update_batches; None if invalid."""
    n_problems, unit, place = len(notes.problems), options.unit, ("schedule",)
    if unit != "samples" and options.batch_samples is None:
        notes.add(
            (*place, "unit"),
            f"the size of {unit} is unknown; give batch_samples, the samples in a batch",
        )
    for key, units in (("batch_samples", ("batches", "updates")), ("update_batches", ("updates",))):
        if getattr(options, key) is not None and unit not in units:
            notes.add(
                (*place, key),
                f"has no effect if points count {unit}; remove it, or give another unit",
            )
    size = (options.batch_samples or 1) * (options.update_batches or 1)
    points = tuple(point * size for point in options.points)
    for index, (before, point) in enumerate(pairwise((0, *points))):
        if point <= before:
            which = (
                f"not above {options.points[index - 1]}, the point before it"
                if index
                else "not above 0"
            )
            notes.add(
                (*place, "points", index), f"{options.points[index]} is {which}; give rising points"
            )
        elif point >= FOREVER:
            notes.add(
                (*place, "points", index),
                f"{point:,} samples are too many to count; give a smaller point",
            )
    return points if len(notes.problems) == n_problems else None
