"""Make the tasks of a configuration and their sources, and select sources by split or task.

Training mixes the sources and the tasks of the split `train`. Validation reads the tasks of the
split `valid`: every line once, in order, without noise. Validation can also read a task of the
split `train`, selected by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from volt.display import counted
from volt.errors import VoltError
from volt.files.paths import expand
from volt.stream.config.problems import Notes, near
from volt.stream.config.pydantic_models import (
    InputOptions,
    ScheduleOptions,
    StreamOptions,
    TaskOptions,
    TaskScheduleOptions,
)
from volt.stream.config.sources import SourceBuilder, weight_of
from volt.stream.config.yaml_document import Place
from volt.stream.mixing.schedule import FOREVER, Schedule, Weight
from volt.stream.reading.id_shard import bin_of
from volt.stream.reading.source_definition import Source
from volt.stream.tasks.manifest import read_manifest
from volt.stream.tasks.task import SIDES, Input, Split, Task
from volt.stream.transforms.transform import make_deterministic

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
    if names is None:
        result = [source for task, source in tasks if task.split == split]
    else:
        result = [source for _, source in tasks if source.name in names]
        splits = {task.name: task.split for task, _ in tasks}
        for name in () if notes.problems else names:
            remedy = near(name, [*splits]) if splits else "the file has no tasks"
            if any(source.name == name for source in others):
                notes.add(("sources", name), f"is a source, not a task; {remedy}")
            elif name not in splits:
                notes.add(("tasks",), f"no task {name!r}; {remedy}")
            elif split == "train" and splits[name] == "valid":
                fault = "is of split valid, not train; choose the split valid"
                notes.add(("tasks", name), fault)
    if split == "valid":
        result = [
            replace(
                source,
                transforms=make_deterministic(source.transforms),
                shuffle="none",
                epochs=1,
                weight=1.0,
            )
            for source in result
        ]
    elif names is None:
        result = [*others, *result]
    if not result and not notes.problems:
        remedy = "add a task, or sources"
        if split == "valid":
            remedy = "name a task, or add a task of that split"
        notes.add(("tasks",), f"no task is of split {split}; {remedy}")
    return result


def defaults_of(defaults: Mapping[str, Any], builder: SourceBuilder) -> dict[str, dict[str, Any]]:
    """Return the default options of transforms; invalid options are noted and omitted."""
    builder = replace(builder, names=NAMES)
    return {
        name: builder.default(name, options, ("defaults", name))
        for name, options in defaults.items()
    }


def tasks_with_sources(
    builder: SourceBuilder, options: StreamOptions, shards: Path | None
) -> list[tuple[Task, Source]]:
    """Return the tasks, each with its source. shards: the folder to read tasks from; None to read
    their inputs"""
    notes = builder.notes
    points = None if options.schedule is None else _sample_points(options.schedule, notes)
    defaults = defaults_of(options.defaults, builder)
    if not builder.check_files:
        shards = None
    of_inputs = replace(builder, check_files=builder.check_files and shards is None)
    tasks = dict[str, tuple[Task, Source]]()
    for name, task in options.tasks.items():
        _check(name, task, options, notes)
        inputs = list[Input]()
        for key, corpus in task.inputs.items():
            place = ("tasks", name, "inputs", key)
            files = tuple(_files(of_inputs, task.type, corpus, place))
            if files:
                inputs.append(Input(key, files))

        languages = {key: getattr(task, key) for key in LANGUAGES}
        used = {key: language for key, language in languages.items() if language is not None}
        of_task = replace(builder, names=NAMES, task=used, defaults=defaults)
        source = _source(of_task, name, task, options, points)
        if source is not None:
            tasks[name] = (
                Task(
                    name,
                    task.type,
                    tuple(inputs),
                    task.split,
                    source.weight,
                    source.transforms,
                    **languages,
                    n_shards=task.n_shards,
                    shares=task.share_inputs,
                ),
                source,
            )

    result = list[tuple[Task, Source]]()
    for new, source in tasks.values():
        owner, _ = tasks.get(new.shares or new.name, (new, source))
        if shards is None:
            paths = tuple(path for inputs in owner.inputs for path in inputs.paths)
            if paths:
                source = replace(source, paths=paths, names=owner.names)
                result.append((new, source))
        else:
            with notes.catching(("tasks", new.name)):
                manifest = read_manifest(shards, owner)
                source = replace(source, paths=manifest.paths, names=manifest.names)
                result.append((new, source))
    return result


def _check(name: str, task: TaskOptions, options: StreamOptions, notes: Notes) -> None:
    add = notes.at("tasks", name)
    if name in options.sources:
        add("a source has the same name; rename one of them")
    if task.split == "valid" and "weight" in task.model_fields_set:
        fault = "has no effect in split valid, whose lines are read once each; remove it"
        add(fault, "weight")
    shared = task.share_inputs
    if shared is None:
        if not task.inputs:
            sides = ", ".join(f"{side}: FILE" for side in SIDES[task.type])
            add(f"has no inputs; give inputs: {{NAME: {{{sides}}}}}, or share_inputs: TASK")
        return

    if task.inputs:
        add("cannot be used with share_inputs; remove one of them", "inputs")
    if task.n_shards is not None:
        add(f"cannot be used with share_inputs; set it in task {shared}", "n_shards")
    other = options.tasks.get(shared)
    if shared == name:
        fault = "names the task itself; name another, or give inputs"
    elif other is None:
        fault = f"no task {shared!r}; {near(shared, [*options.tasks])}"
    elif other.share_inputs is not None:
        remedy = f"name the task whose inputs it shares, {other.share_inputs}"
        fault = f"{shared} has no inputs of its own; {remedy}"
    elif other.type != task.type:
        types = f"{shared} is of type {other.type}, this task of type {task.type}"
        fault = f"{types}; give both one type"
    else:
        return
    add(fault, "share_inputs")


def _source(
    builder: SourceBuilder,
    name: str,
    task: TaskOptions,
    options: StreamOptions,
    points: Sequence[int] | None,
) -> Source | None:
    place: Place = ("tasks", name)
    own = builder.transforms(task.transforms, (*place, "transforms"))
    transforms = own + builder.transforms(options.transforms, ("transforms",))
    weight_place = (*place, "weight")
    weight = _weight(task.weight, options.schedule, points, builder.notes, weight_place)
    sets_most = "max_fields" in task.model_fields_set
    if task.type == "mono" and not sets_most and task.min_fields < 2:
        task = task.model_copy(update={"max_fields": 1})  # so that a line with a tab is unfit
    return builder.source_at(
        place, task, name=name, paths=("",), transforms=transforms, weight=weight
    )


def _weight(
    weights: float | list[float] | ScheduleOptions,
    schedule: TaskScheduleOptions | None,
    points: Sequence[int] | None,
    notes: Notes,
    place: Place,
) -> Weight:
    if not isinstance(weights, list):
        return weight_of(weights, notes, place)
    if schedule is None:
        remedy = "give one number, or schedule: {points: [SAMPLE, …]}"
        notes.add(place, f"a list of weights needs a schedule; {remedy}")
        return 1.0
    wanted = len(schedule.points) + 1
    if len(weights) != wanted:
        n_points = counted(wanted - 1, "point")
        fault = f"{counted(len(weights), 'weight')}, and the schedule has {n_points}"
        remedy = f"give {wanted}: one for the start, and one for each point"
        notes.add(place, f"{fault}; {remedy}")
    elif points is not None:
        pairs = tuple(zip((0, *points), weights, strict=True))
        return notes.build(Schedule, place, points=pairs, kind=schedule.kind) or 1.0
    return 1.0


def _files(
    builder: SourceBuilder, kind: str, options: InputOptions, place: Place
) -> Iterator[tuple[str, str]]:
    """Yield (side, path) pairs, the sides in turn: src[0], tgt[0], src[1], tgt[1], …"""
    add = builder.notes.at(*place)
    needed = SIDES[kind]
    sides = {side: files for side, files in options if files is not None}
    others = sides.keys() - {*needed}
    for side in others:
        add(f"cannot be used with type {kind}; give {' and '.join(needed)}", side)
    missing = [side for side in needed if side not in sides]
    if others:
        return
    if missing:
        add(f"key {missing[0]!r} is missing; type {kind} needs {' and '.join(needed)}")
    elif kind == "mono":
        for path in builder.files_at(sides["mono"], (*place, "mono")):
            with suppress(VoltError):  # noted already
                members = expand(bin_of(path)) if builder.check_files else [path]
                yield from (("mono", member) for member in members)
    else:
        paths = builder.groups({side: sides[side] for side in needed}, place)
        yield from zip(needed * (len(paths) // 2), paths, strict=True)


def _sample_points(options: TaskScheduleOptions, notes: Notes) -> tuple[int, ...] | None:
    """Return the sample numbers at which weights change: point · batch_samples · update_batches;
    None if invalid."""
    add = notes.at("schedule")
    n_problems = len(notes.problems)
    unit = options.unit
    if unit != "samples" and options.batch_samples is None:
        add(f"the size of {unit} is unknown; give batch_samples, the samples in a batch", "unit")
    units_of = {"batch_samples": ("batches", "updates"), "update_batches": ("updates",)}
    for key, units in units_of.items():
        if getattr(options, key) is not None and unit not in units:
            add(f"has no effect if points count {unit}; remove it, or give another unit", key)

    size = (options.batch_samples or 1) * (options.update_batches or 1)
    before = 0
    for index, point in enumerate(options.points):
        if point <= before:
            fault = f"{point} is not above {before}"
            if index:
                fault += ", the point before it"
            add(f"{fault}; give rising points", "points", index)
        elif point * size >= FOREVER:
            fault = f"{point * size:,} samples are too many to count; give a smaller point"
            add(fault, "points", index)
        before = point
    if len(notes.problems) > n_problems:
        return None
    return tuple(point * size for point in options.points)
