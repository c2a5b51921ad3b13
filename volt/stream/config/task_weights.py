"""A list of weights, and when they change → a schedule in samples.

    sample of a point = point · batch_samples · update_batches        (of what its unit counts)

>>> from volt.stream.config.task_models import TaskScheduleOptions
>>> from volt.stream.config.yaml import Document
>>> told = TaskScheduleOptions(points=[100], unit="updates", batch_samples=64, update_batches=4)
>>> TaskWeights(Notes(Document("stream.yaml", {}, {})), told).of([1.0, 3.0], ())
Schedule(points=((0, 1.0), (25600, 3.0)), kind='steps')
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from volt.display import counted
from volt.stream.config.problems import Notes
from volt.stream.config.yaml import Place
from volt.stream.mixing.schedule import FOREVER, Schedule, Weight

if TYPE_CHECKING:
    from volt.stream.config.models import ScheduleOptions
    from volt.stream.config.task_models import TaskScheduleOptions

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

    def of(self, told: float | list[float] | ScheduleOptions, place: Place) -> Weight:
        """The weight of a task; 1 if something is wrong with it, which is noted."""
        if isinstance(told, float):
            return told
        if not isinstance(told, list):
            return schedule_of(told, self.notes, place)
        if self.schedule is None:
            remedy = "give one number, or schedule: {points: [SAMPLE, …]}"
            self.notes.add(place, f"a list of weights, and no schedule says when they change; {remedy}")
            return 1.0
        wanted = len(self.schedule.points) + 1
        if len(told) != wanted:
            found = f"{counted(len(told), 'weight')}, and the schedule has {counted(wanted - 1, 'point')}"
            self.notes.add(place, f"{found}; give {wanted}: the first counts from the start, one more from each point")
        elif self.points is not None:
            points = tuple(zip((0, *self.points), told, strict=True))
            return self.notes.made(Schedule, place, points=points, kind=self.schedule.kind) or 1.0
        return 1.0


def schedule_of(told: ScheduleOptions, notes: Notes, place: Place) -> Weight:
    """A schedule that gives its own points; 1 if something is wrong with it, which is noted."""
    return notes.made(Schedule, place, points=tuple(told.points), kind=told.kind) or 1.0


def sample_points(told: TaskScheduleOptions, notes: Notes) -> tuple[int, ...] | None:
    """The samples at which weights change; None if something is wrong, which is noted."""
    n_problems, unit = len(notes.found), told.unit
    if unit != "samples" and told.batch_samples is None:
        notes.add((*_PLACE, "unit"), f"{unit} have no size; give batch_samples, the samples of a batch")
    for key, units in (("batch_samples", ("batches", "updates")), ("update_batches", ("updates",))):
        if getattr(told, key) is not None and unit not in units:
            notes.add((*_PLACE, key), f"has no meaning where points count {unit}; leave it out, or give another unit")
    size = (
        1 if unit == "samples" else (told.batch_samples or 1) * ((told.update_batches or 1) if unit == "updates" else 1)
    )
    points = tuple(point * size for point in told.points)
    for index, (before, point) in enumerate(pairwise((0, *points))):
        if point <= before:
            which = f"not above {told.points[index - 1]}, which it follows" if index else "not above 0"
            notes.add((*_PLACE, "points", index), f"{told.points[index]} is {which}; let points rise")
        elif point >= FOREVER:
            notes.add(
                (*_PLACE, "points", index), f"{point:,} samples are more than can be counted; give a smaller point"
            )
    return points if len(notes.found) == n_problems else None
