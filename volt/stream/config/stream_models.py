"""What a whole configuration may hold: the model that checks it.

>>> StreamOptions().ends
'stop'
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from volt.files.threads import MOST_WORKERS
from volt.stream.config.batch_models import BatchesOptions
from volt.stream.config.models import EachOptions, ErrorOptions, MixOptions, Model, SourceOptions, Steps
from volt.stream.config.task_models import TaskOptions, TaskScheduleOptions


class StreamOptions(Model):
    """A stream: sources, each with its transforms, mixed by weight."""

    sources: dict[str, SourceOptions] = Field({})
    """The sources by name; at least one, unless there are `each` or `tasks`."""
    each: EachOptions | None = None
    """Sources by pattern: one for each file, or pair of files, that matches."""
    tasks: dict[str, TaskOptions] = Field({})
    """The tasks by name, each of which is a source of that name; beside sources, or instead of them."""
    mix: MixOptions | None = None
    """How sources and tasks are mixed by their numbers of lines, instead of by their weights."""
    schedule: TaskScheduleOptions | None = None
    """When the weights of tasks change."""
    defaults: dict[str, Any] = Field({})
    """Options of transforms, by the transform's name, for every task whose steps do not say otherwise."""
    shards: str | None = None
    """The folder that tasks are read from, once `volt shard` has written it; without it, tasks are read from their
    inputs."""
    seed: int = Field(0, ge=0)
    """All that is random follows from it; 0 or more."""
    ends: Literal["stop", "drop"] = "stop"
    """When a source with `epochs` ends: stop the stream, or drop the source and go on with the others."""
    workers: int = Field(0, ge=0, le=MOST_WORKERS)
    """How many compute ahead, 256 at most; 0: none but the stream itself. Their number does not change the output."""
    time_limit: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Seconds that a block of lines may take where a transform is Python code, beyond which the run ends with an error;
    any time by default. With a limit such code runs in a process of its own, also with 0 workers."""
    transforms: Steps = Field([])
    """What to do with the lines of every source, after its own transforms."""
    errors: ErrorOptions = ErrorOptions()
    """What to do with unfit lines."""
    cache: str | None = None
    """The folder for line indices and split files; by default in the user's cache folder."""
    batches: BatchesOptions | None = None
    """What samples and batches a trainer gets, for `volt stream batches` and `volt.batches.Steps`."""
