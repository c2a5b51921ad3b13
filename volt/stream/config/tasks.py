"""Make the tasks of a configuration and their sources, and select sources by split or task.

Training mixes the sources and the tasks of the split `train`. Validation reads the tasks of the
split `valid`: every line once, in order, without noise. Validation can also read a task of the
split `train`, selected by name.

A task's list of weights needs the section `schedule`. With `schedule: {points: [1000]}` and
`weight: [1, 5]`, the weight is 1 up to sample 1,000, and then 5.
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
from volt.stream.config.problems import Problems, suggest_name
from volt.stream.config.pydantic_models import (
    InputOptions,
    ScheduleOptions,
    StreamOptions,
    TaskOptions,
    TaskScheduleOptions,
)
from volt.stream.config.sources import SourceBuilder, make_weight
from volt.stream.config.transform_lists import TransformBuilder
from volt.stream.config.yaml_document import Place
from volt.stream.mixing.schedule import FOREVER, Schedule, Weight
from volt.stream.reading.id_shard import bin_of
from volt.stream.reading.source_definition import Source
from volt.stream.tasks.manifest import read_manifest
from volt.stream.tasks.task import SIDES, Input, Split, Task
from volt.stream.transforms.transform import make_deterministic

FIELD_NAMES = ("src", "tgt")  # in options of a task's transforms
TASK_OPTIONS = ("src_lang", "tgt_lang", "extra_prefix")  # which a task passes to its transforms
# The factors of a point's unit → the units of `schedule` that have this factor
_UNITS_WITH = {"batch_samples": ("batches", "updates"), "update_batches": ("updates",)}


def select_sources(
    tasks: Sequence[tuple[Task, Source]],
    others: Sequence[Source],
    problems: Problems,
    *,
    split: Split,
    names: Sequence[str] | None,
) -> list[Source]:
    """Return the selected sources. Names that cannot be selected are problems.

    others: the sources without a task
    names: the names of the selected tasks; None for all tasks of the split
    """
    if names is None:
        result = [source for task, source in tasks if task.split == split]
    else:
        result = [source for _, source in tasks if source.name in names]
        if not problems.entries:
            _check_task_names(names, tasks, others, problems, split=split)
    if split == "valid":
        result = list(map(_make_valid, result))
    elif names is None:
        result = [*others, *result]
    if not result and not problems.entries:
        remedy = "add a task, or sources"
        if split == "valid":
            remedy = "name a task, or add a task of that split"
        problems.add(("tasks",), f"no task is of split {split}; {remedy}")
    return result


def _check_task_names(
    names: Sequence[str],
    tasks: Sequence[tuple[Task, Source]],
    others: Sequence[Source],
    problems: Problems,
    *,
    split: Split,
) -> None:
    split_of = {task.name: task.split for task, _ in tasks}
    for name in names:
        remedy = suggest_name(name, list(split_of)) if split_of else "the file has no tasks"
        if any(source.name == name for source in others):
            problems.add(("sources", name), f"is a source, not a task; {remedy}")
        elif name not in split_of:
            problems.add(("tasks",), f"no task {name!r}; {remedy}")
        elif split == "train" and split_of[name] == "valid":
            fault = "is of split valid, not train; choose the split valid"
            problems.add(("tasks", name), fault)


def _make_valid(source: Source) -> Source:
    """Return a source for validation: every line once, in order, without noise."""
    return replace(
        source,
        transforms=make_deterministic(source.transforms),
        shuffle="none",
        epochs=1,
        weight=1.0,
    )


def check_defaults(
    defaults: Mapping[str, Any], builder: TransformBuilder
) -> dict[str, dict[str, Any]]:
    """Return transform name → its default options, without invalid ones."""
    builder = replace(builder, field_names=FIELD_NAMES)
    return {
        name: builder.check_defaults(name, options, ("defaults", name))
        for name, options in defaults.items()
    }


def build_tasks(
    builder: SourceBuilder, options: StreamOptions, shards: Path | None
) -> list[tuple[Task, Source]]:
    """Return the tasks, each with its source.

    shards: the folder from which tasks are read; None to read their inputs
    """
    problems = builder.problems
    points = None
    if options.schedule is not None:
        points = _count_samples_to_points(options.schedule, problems)
    defaults = check_defaults(options.defaults, builder.transform_builder)
    if not builder.check_files:
        shards = None
    input_builder = replace(builder, check_files=builder.check_files and shards is None)
    tasks = dict[str, tuple[Task, Source]]()
    for name, task in options.tasks.items():
        _check_task(name, task, options, problems)
        inputs = list[Input]()
        for key, corpus in task.inputs.items():
            files = tuple(
                _list_files(input_builder, task.type, corpus, ("tasks", name, "inputs", key))
            )
            if files:
                inputs.append(Input(key, files))

        task_options = {key: getattr(task, key) for key in TASK_OPTIONS}
        given_options = {key: value for key, value in task_options.items() if value is not None}
        transform_builder = replace(
            builder.transform_builder,
            field_names=FIELD_NAMES,
            task_options=given_options,
            defaults=defaults,
        )
        task_builder = replace(builder, transform_builder=transform_builder)
        source = _build_source(task_builder, name, task, options, points)
        if source is not None:
            tasks[name] = (
                Task(
                    name,
                    task.type,
                    tuple(inputs),
                    task.split,
                    source.weight,
                    source.transforms,
                    **task_options,
                    n_shards=task.n_shards,
                    shares=task.share_inputs,
                ),
                source,
            )
    return list(_add_paths(tasks, shards, problems))


def _add_paths(
    tasks: Mapping[str, tuple[Task, Source]], shards: Path | None, problems: Problems
) -> Iterator[tuple[Task, Source]]:
    """Yield tasks with sources that read the task's shards or inputs, or another task's, if the
    task shares them. Tasks without files are omitted."""
    for task, source in tasks.values():
        owner, _ = tasks.get(task.shares or task.name, (task, source))
        if shards is None:
            paths = tuple(path for inputs in owner.inputs for path in inputs.paths)
            if paths:
                yield task, replace(source, paths=paths, names=owner.names)
        else:
            with problems.catch_errors(("tasks", task.name)):
                manifest = read_manifest(shards, owner)
                yield task, replace(source, paths=manifest.paths, names=manifest.names)


def _check_task(name: str, task: TaskOptions, options: StreamOptions, problems: Problems) -> None:
    add = problems.make_adder("tasks", name)
    if name in options.sources:
        add("a source has the same name; rename one of them")
    if task.split == "valid" and "weight" in task.model_fields_set:
        fault = "has no effect in split valid, whose lines are read once each; remove it"
        add(fault, "weight")
    if task.share_inputs is None:
        if not task.inputs:
            sides = ", ".join(f"{side}: FILE" for side in SIDES[task.type])
            add(f"has no inputs; give inputs: {{NAME: {{{sides}}}}}, or share_inputs: TASK")
    else:
        _check_shared_inputs(name, task, options, problems)


def _check_shared_inputs(
    name: str, task: TaskOptions, options: StreamOptions, problems: Problems
) -> None:
    add = problems.make_adder("tasks", name)
    shared = task.share_inputs or ""
    if task.inputs:
        add("cannot be used with share_inputs; remove one of them", "inputs")
    if task.n_shards is not None:
        add(f"cannot be used with share_inputs; set it in task {shared}", "n_shards")
    other = options.tasks.get(shared)
    if shared == name:
        fault = "names the task itself; name another, or give inputs"
    elif other is None:
        fault = f"no task {shared!r}; {suggest_name(shared, [*options.tasks])}"
    elif other.share_inputs is not None:
        remedy = f"name the task whose inputs it shares, {other.share_inputs}"
        fault = f"{shared} has no inputs of its own; {remedy}"
    elif other.type != task.type:
        types = f"{shared} is of type {other.type}, this task of type {task.type}"
        fault = f"{types}; give both one type"
    else:
        return
    add(fault, "share_inputs")


def _build_source(
    builder: SourceBuilder,
    name: str,
    task: TaskOptions,
    options: StreamOptions,
    points: Sequence[int] | None,
) -> Source | None:
    """Return a task's source without paths. points: the samples at which weights change"""
    place: Place = ("tasks", name)
    build_list = builder.transform_builder.build_list
    transforms = build_list(task.transforms, (*place, "transforms"))
    transforms += build_list(options.transforms, ("transforms",))
    weight_place = (*place, "weight")
    weight = _make_weight(task.weight, options, points, builder.problems, weight_place)
    sets_max_fields = "max_fields" in task.model_fields_set
    if task.type == "mono" and not sets_max_fields and task.min_fields < 2:
        task = task.model_copy(update={"max_fields": 1})  # so that a line with a tab is unfit
    return builder.build_from(
        task, place, name=name, paths=("",), transforms=transforms, weight=weight
    )


def _make_weight(
    weights: float | list[float] | ScheduleOptions,
    options: StreamOptions,
    points: Sequence[int] | None,
    problems: Problems,
    place: Place,
) -> Weight:
    """Return the weight of a task; 1 if its list of weights is invalid.

    points: the result of `_count_samples_to_points`; None if the section `schedule` is invalid
    """
    if not isinstance(weights, list):
        return make_weight(weights, problems, place)
    schedule = options.schedule
    if schedule is None:
        remedy = "give one number, or schedule: {points: [SAMPLE, …]}"
        problems.add(place, f"a list of weights needs a schedule; {remedy}")
        return 1.0
    n_wanted = len(schedule.points) + 1
    if len(weights) != n_wanted:
        n_points = counted(n_wanted - 1, "point")
        fault = f"{counted(len(weights), 'weight')}, and the schedule has {n_points}"
        remedy = f"give {n_wanted}: one for the start, and one for each point"
        problems.add(place, f"{fault}; {remedy}")
    elif points is not None:
        pairs = tuple(zip((0, *points), weights, strict=True))
        return problems.build(Schedule, place, points=pairs, kind=schedule.kind) or 1.0
    return 1.0


def _count_samples_to_points(
    schedule: TaskScheduleOptions, problems: Problems
) -> tuple[int, ...] | None:
    """Return the samples at which weights change; None if the section `schedule` is invalid.

    A point of 10 updates of 4 batches of 64 samples is at sample 10 · 4 · 64 = 2,560.
    """
    add = problems.make_adder("schedule")
    n_problems = len(problems.entries)
    unit = schedule.unit
    if unit != "samples" and schedule.batch_samples is None:
        add(f"the size of {unit} is unknown; give batch_samples, the samples in a batch", "unit")
    for key, units in _UNITS_WITH.items():
        if getattr(schedule, key) is not None and unit not in units:
            add(f"has no effect if points count {unit}; remove it, or give another unit", key)

    unit_samples = (schedule.batch_samples or 1) * (schedule.update_batches or 1)
    previous = 0
    for index, point in enumerate(schedule.points):
        if point <= previous:
            fault = f"{point} is not above {previous}"
            if index:
                fault += ", the point before it"
            add(f"{fault}; give rising points", "points", index)
        elif point * unit_samples >= FOREVER:
            fault = f"{point * unit_samples:,} samples are too many to count; give a smaller point"
            add(fault, "points", index)
        previous = point
    if len(problems.entries) > n_problems:
        return None
    return tuple(point * unit_samples for point in schedule.points)


def _list_files(
    builder: SourceBuilder, task_type: str, options: InputOptions, place: Place
) -> Iterator[tuple[str, str]]:
    """Yield (side, path) pairs: ("src", a.de), ("tgt", a.en), ("src", b.de), ("tgt", b.en)."""
    add = builder.problems.make_adder(*place)
    needed = SIDES[task_type]
    files_of = {side: files for side, files in options if files is not None}
    others = files_of.keys() - {*needed}
    for side in others:
        add(f"cannot be used with type {task_type}; give {' and '.join(needed)}", side)
    missing = [side for side in needed if side not in files_of]
    if others:
        return
    if missing:
        add(f"key {missing[0]!r} is missing; type {task_type} needs {' and '.join(needed)}")
    elif task_type == "mono":
        for path in builder.resolve_paths(files_of["mono"], (*place, "mono")):
            with suppress(VoltError):  # collected already
                members = expand(bin_of(path)) if builder.check_files else [path]
                yield from (("mono", member) for member in members)
    else:
        paths = builder.interleave_paths({side: files_of[side] for side in needed}, place)
        yield from zip(needed * (len(paths) // len(needed)), paths, strict=True)
