"""What a configuration may say of tasks: the models that check it. Their docstrings are its documentation.

>>> TaskOptions(type="mono", inputs={"ted": InputOptions(mono="ted.en")}).split
'train'
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from volt.stream.config.models import Model, Paths, ReadingOptions, ScheduleOptions, Steps


def _kind_of_weight(value: object) -> str:
    return "list" if isinstance(value, list) else "schedule" if isinstance(value, dict) else "number"


TaskWeight = Annotated[
    Annotated[float, Tag("number")]
    | Annotated[list[float], Field(min_length=1), Tag("list")]
    | Annotated[ScheduleOptions, Tag("schedule")],
    Discriminator(_kind_of_weight),
]


class TaskScheduleOptions(Model):
    """When the weights of tasks change. A task whose weight is a list has one weight more than there are points: the
    first counts from the start, the next from the first point on, and so on.
    """

    points: list[int] = Field(min_length=1)
    """After how many samples, batches or updates: rising whole numbers above 0."""
    unit: Literal["samples", "batches", "updates"] = "samples"
    """What the points count: samples, which are lines of the stream; batches; or updates, which are several batches."""
    kind: Literal["steps", "linear"] = "steps"
    """steps: hold a weight until the next point; linear: let the shares of the stream move in a straight line between
    the points. They are shares that move, not weights: where a task goes from 1 to 9 beside one of 1, its share goes
    from 0.5 to 0.9, and is 0.7 half-way."""
    batch_samples: int | None = Field(None, gt=0)
    """For batches and updates: how many samples a batch has."""
    update_batches: int | None = Field(None, gt=0)
    """For updates: after how many batches one comes; 1 by default."""


class InputOptions(Model):
    """One corpus of a task: src and tgt, line by line, or mono. Each is a file, or a list of such."""

    src: Paths | None = None
    """The source side of parallel lines."""
    tgt: Paths | None = None
    """The target side of parallel lines."""
    mono: Paths | None = None
    """Lines that have one side; globs and folders are allowed, too."""


class _TaskOptions(Model):
    type: Literal["para", "mono"]
    """para: lines have a source and a target side; mono: they have one."""
    split: Literal["train", "valid"] = "train"
    """train: mixed with the other tasks by weight; valid: read by itself, without noise, where it is asked for."""
    inputs: dict[str, InputOptions] = Field({})
    """Its corpora by name."""
    share_inputs: str | None = None
    """Instead of inputs: another task, whose inputs and shards it reads."""
    weight: TaskWeight = 1.0
    """Its share of the stream, relative to the weights of the other tasks: a number; a list, one longer than the
    schedule's points; or a schedule of its own, as sources have it. Where it moves (kind: linear), the shares of the
    stream move in a straight line between the points: from 1 to 9 beside 1, the share is 0.7 half-way."""
    src_lang: str | None = None
    """The language of the source side, for transforms that want to know it."""
    tgt_lang: str | None = None
    """The language of the target side."""
    extra_prefix: str | None = None
    """A further tag, such as <BT>, for transforms that write tags."""
    n_shards: int | None = Field(None, gt=0)
    """How many shards `volt shard` makes of it; by default that follows from its lines."""
    transforms: Steps = Field([])
    """What to do with its lines, in this order. Fields are called src and tgt."""


class TaskOptions(ReadingOptions, _TaskOptions):
    """Lines that are all treated in the same way. Further keys are those of a source, from shuffle on."""
