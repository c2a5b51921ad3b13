"""Make the weights of sources and tasks: numbers, schedules, or a rule that derives them from lines.

A task's list of weights needs the section `schedule`. With `schedule: {points: [1000]}` and
`weight: [1, 5]`, the weight is 1 up to sample 1,000, and then 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from volt.display import counted
from volt.stream.config.problems import Problems
from volt.stream.config.pydantic_models import (
    Model,
    ScheduleOptions,
    StreamOptions,
    TaskScheduleOptions,
)
from volt.stream.config.yaml_document import Place
from volt.stream.mixing.mixture import Sampling
from volt.stream.mixing.schedule import FOREVER, Schedule, Weight

_BY_WEIGHTS = "remove it, or write mix: {by: weights}"
_WEIGHT_FAULT = f"cannot be used with mix, which derives the weights from the lines; {_BY_WEIGHTS}"
_EPOCHS_FAULT = f"cannot be used with mix, whose sources have no end; {_BY_WEIGHTS}"
_NOT_WITH_MIX = {
    "weight": _WEIGHT_FAULT,
    "temperature": _WEIGHT_FAULT,
    "epochs": _EPOCHS_FAULT,
}
# The factors of a point's unit → the units of `schedule` that have this factor
_UNITS_WITH = {"batch_samples": ("batches", "updates"), "update_batches": ("updates",)}


def make_sampling(options: StreamOptions, problems: Problems) -> Sampling | None:
    """Return the rule by which `mix` derives weights; None if sources set their own.

    Options that contradict `mix` are problems.
    """
    mix = options.mix
    if mix is None:
        return None
    if mix.by != "temperature" and "temperature" in mix.model_fields_set:
        fault = f"has no effect with by: {mix.by}; remove it, or write by: temperature"
        problems.add(("mix", "temperature"), fault)
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
                problems.add((*place, key), fault)
    if options.schedule is not None:
        problems.add(("schedule",), _WEIGHT_FAULT)
    where = problems.document.describe(("mix",))
    return Sampling(mix.by, mix.temperature, where=where)


def make_weight(weight: float | ScheduleOptions, problems: Problems, place: Place) -> Weight:
    """Return a weight; 1 in place of an invalid schedule."""
    if isinstance(weight, float):
        return weight
    points = tuple(weight.points)
    return problems.build(Schedule, place, points=points, kind=weight.kind) or 1.0


def make_task_weight(
    weights: float | list[float] | ScheduleOptions,
    options: StreamOptions,
    points: Sequence[int] | None,
    problems: Problems,
    place: Place,
) -> Weight:
    """Return the weight of a task; 1 if its list of weights is invalid.

    points: the result of `count_samples_to_points`; None if the section `schedule` is invalid
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


def count_samples_to_points(
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
