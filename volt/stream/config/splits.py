"""All sources of a configuration → those of a split, or of some tasks.

Training mixes the sources and the tasks of the split `train`. Validation reads the tasks of the split `valid`: every
line once, in order, without noise. A task that is asked for by name can be looked at in that way, too.

>>> Choice.of("valid", ["de_en"])
Choice(split='valid', names=('de_en',))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, get_args

from volt import arguments
from volt.stream.config.problems import Notes, near
from volt.stream.reading.source import Source
from volt.stream.tasks.task import Split, Task
from volt.stream.transforms.transform import settled

_NAMES = "give a list of names of tasks"


@dataclass(frozen=True, slots=True)
class Choice:
    """What is wanted of a configuration.

    split: "train" or "valid".
    names: of tasks; None for all of the split, and the sources that are no tasks.
    """

    split: Split = "train"
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, split: Split, names: Sequence[str] | None) -> Self:
        """The choice. Raises ConfigError or TypeError if it is none."""
        arguments.choice(split, "split", get_args(Split))
        told = None if names is None else arguments.texts(names, "tasks", one=_NAMES, remedy=_NAMES)
        return cls(split, None if told is None else tuple(told))

    def takes(self, task: Task) -> bool:
        """Whether a task is wanted.

        >>> Choice("train").takes(Task("dev", "mono", (), split="valid"))
        False
        """
        return task.split == self.split if self.names is None else task.name in self.names


def chosen(
    tasks: Sequence[tuple[Task, Source]], others: Sequence[Source], choice: Choice, notes: Notes
) -> list[Source]:
    """The sources that are wanted; what cannot be had is noted.

    tasks: all tasks, and the sources that they are
    others: the sources that are no tasks
    """
    if not notes.found:
        _check([task for task, _ in tasks], [source.name for source in others], choice, notes)
    picked = [source for task, source in tasks if choice.takes(task)]
    if choice.split == "valid":
        found = [as_validation(source) for source in picked]
    else:
        found = [*(others if choice.names is None else ()), *picked]
    if not found and not notes.found:
        remedy = "name a task, or give one of that split" if choice.split == "valid" else "give one, or sources"
        notes.add(("tasks",), f"none is of split {choice.split}; {remedy}")
    return found


def _check(tasks: Sequence[Task], others: Sequence[str], choice: Choice, notes: Notes) -> None:
    """others: the names of the sources that are no tasks"""
    known = {task.name: task for task in tasks}
    for name in choice.names or ():
        if name in others:
            remedy = near(name, [*known]) if known else "the file has none"
            notes.add(("sources", name), f"is a source, and no task {name!r}; {remedy}")
        elif name not in known:
            notes.add(("tasks",), f"no task {name!r}; {near(name, [*known]) if known else 'the file has none'}")
        elif choice.split == "train" and known[name].split == "valid":
            notes.add(("tasks", name), "is of split valid, not train; say split='valid'")


def as_validation(source: Source) -> Source:
    """A source whose every line comes once, in order, and without noise.

    >>> as_validation(Source("dev", ("dev.tsv",), weight=0.0)).epochs
    1
    """
    return replace(source, transforms=settled(source.transforms), shuffle="none", epochs=1, weight=1.0)
