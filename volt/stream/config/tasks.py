"""The tasks of a configuration → tasks with their sources; the sources of a split, or of selected tasks.

Training mixes the sources and the tasks of the split `train`. Validation reads the tasks of the split `valid`: every
line once, in order, without noise. A task selected by name can be read in that way, too.

>>> from volt.stream.config.build import parse_config
>>> text = "tasks: {de_en: {type: para, inputs: {wmt: {src: a.de, tgt: a.en}}, src_lang: de, tgt_lang: en}}"
>>> config = parse_config(text, path="data/stream.yaml")
>>> config.tasks[0].src_lang, config.sources[0].paths
('de', ('data/a.de', 'data/a.en'))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

from volt import arguments
from volt.errors import VoltError
from volt.files.paths import expand
from volt.stream.config.document import Notes, Place, near
from volt.stream.config.sources import Sources, TaskWeights
from volt.stream.reading.shards import bin_of
from volt.stream.reading.source import Source
from volt.stream.tasks.shard_folder import read_manifest
from volt.stream.tasks.task import SIDES, Input, Split, Task
from volt.stream.transforms.transform import deterministic

if TYPE_CHECKING:
    from volt.stream.config.models import InputOptions, StreamOptions, TaskOptions


_NAMES = "give a list of names of tasks"


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected part of a configuration.

    split: "train" or "valid".
    names: of tasks; None for all of the split, and the sources that are not tasks.
    """

    split: Split = "train"
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, split: Split, names: Sequence[str] | None) -> Self:
        """Return the choice. Raises ConfigError or TypeError if it is not valid."""
        arguments.choice(split, "split", get_args(Split))
        message = None if names is None else arguments.texts(names, "tasks", one=_NAMES, remedy=_NAMES)
        return cls(split, None if message is None else tuple(message))

    def takes(self, task: Task) -> bool:
        """Check whether a task is wanted.

        >>> Selection("train").takes(Task("dev", "mono", (), split="valid"))
        False
        """
        return task.split == self.split if self.names is None else task.name in self.names


def chosen(
    tasks: Sequence[tuple[Task, Source]], others: Sequence[Source], choice: Selection, notes: Notes
) -> list[Source]:
    """Return the sources that are wanted; what cannot be had is noted.

    tasks: all tasks, and the sources that they are
    others: the sources that are not tasks
    """
    if not notes.found:
        _check([task for task, _ in tasks], [source.name for source in others], choice, notes)
    picked = [source for task, source in tasks if choice.takes(task)]
    if choice.split == "valid":
        result = [as_validation(source) for source in picked]
    else:
        result = [*(others if choice.names is None else ()), *picked]
    if not result and not notes.found:
        remedy = "name a task, or give one of that split" if choice.split == "valid" else "give one, or sources"
        notes.add(("tasks",), f"none is of split {choice.split}; {remedy}")
    return result


def _check(tasks: Sequence[Task], others: Sequence[str], choice: Selection, notes: Notes) -> None:
    """others: the names of the sources that are not tasks"""
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
    """Return a source whose every line comes once, in order, and without noise.

    >>> as_validation(Source("dev", ("dev.tsv",), weight=0.0)).epochs
    1
    """
    return replace(source, transforms=deterministic(source.transforms), shuffle="none", epochs=1, weight=1.0)


NAMES = ("src", "tgt")  # of the fields, as options of transforms may call them
LANGUAGES = ("src_lang", "tgt_lang", "extra_prefix")


@dataclass(frozen=True, slots=True)
class Tasks:
    """Makes the tasks of a configuration.

    maker: makes their sources.
    options: of the whole configuration.
    shards: the folder that tasks are read from; None if they are read from their inputs.
    """

    maker: Sources
    options: StreamOptions
    shards: Path | None = None

    def made(self) -> list[tuple[Task, Source]]:
        """Return the tasks with their sources; those that something is wrong with are left out."""
        defaults = defaults_of(self.options.defaults, self.maker)
        weights = TaskWeights(self.maker.notes, self.options.schedule)
        inputs = {name: tuple(self._inputs(name, task)) for name, task in self.options.tasks.items()}
        result = list[tuple[Task, Source]]()
        for name, task in self.options.tasks.items():
            self._check(name, task)
            source = self._source(name, task, weights, defaults)
            if source is not None:
                output = _task(name, task, inputs[name], source)
                result.append((output, source))
        known = {task.name: task for task, _ in result}
        read = [(task, self._reading(known.get(task.shares or task.name, task), source)) for task, source in result]
        return [(task, source) for task, source in read if source is not None]

    # what a task says

    def _check(self, name: str, task: TaskOptions) -> None:
        place: Place = ("tasks", name)
        if name in self.options.sources:
            self.maker.notes.add(place, "a source has the same name; rename one of them")
        if task.share_inputs is not None:
            self._check_sharing(name, task, task.share_inputs)
        elif not task.inputs:
            sides = ", ".join(f"{side}: FILE" for side in SIDES[task.type])
            self.maker.notes.add(place, f"has no inputs; give inputs: {{NAME: {{{sides}}}}}, or share_inputs: TASK")
        if task.split == "valid" and "weight" in task.model_fields_set:
            message = "has no meaning in split valid, of which every line comes once; leave it out"
            self.maker.notes.add((*place, "weight"), message)

    def _check_sharing(self, name: str, task: TaskOptions, shared: str) -> None:
        place: Place = ("tasks", name, "share_inputs")
        other = self.options.tasks.get(shared)
        if task.inputs:
            self.maker.notes.add(("tasks", name, "inputs"), "does not go with share_inputs; leave one of them out")
        if task.n_shards is not None:
            message = f"does not go with share_inputs; {shared} has the shards"
            self.maker.notes.add(("tasks", name, "n_shards"), message)
        if shared == name:
            self.maker.notes.add(place, "names the task itself; name another, or give inputs")
        elif other is None:
            self.maker.notes.add(place, f"no task {shared!r}; {near(shared, [*self.options.tasks])}")
        elif other.share_inputs is not None:
            message = f"{shared} has no inputs of its own, but shares the inputs of {other.share_inputs}"
            self.maker.notes.add(place, f"{message}; name the task that has them")
        elif other.type != task.type:
            self.maker.notes.add(
                place, f"{shared} is of type {other.type}, this task of type {task.type}; make both one"
            )

    def _inputs(self, name: str, task: TaskOptions) -> Iterator[Input]:
        for key, message in task.inputs.items():
            files = tuple(self._files(task.type, message, ("tasks", name, "inputs", key)))
            if files:
                yield Input(key, files)

    def _files(self, kind: str, message: InputOptions, place: Place) -> Iterator[tuple[str, str]]:
        """Yield (side, path) pairs: of the first files, then of the second ones, and so on."""
        sides: dict[str, Any] = {side: files for side, files in message if files is not None}
        others, gone = sides.keys() - set(SIDES[kind]), [side for side in SIDES[kind] if side not in sides]
        for side in sorted(others):
            self.maker.notes.add((*place, side), f"does not go with type {kind}; give {' and '.join(SIDES[kind])}")
        if gone and not others:
            self.maker.notes.add(place, f"key {gone[0]!r} is missing; type {kind} needs {' and '.join(SIDES[kind])}")
        elif sides.keys() == set(SIDES[kind]):
            if kind == "mono":
                yield from (("mono", path) for path in self._mono(sides["mono"], (*place, "mono")))
            else:
                paths = self._maker_for_inputs().groups({side: sides[side] for side in SIDES[kind]}, place)
                yield from zip(SIDES[kind] * (len(paths) // 2), paths, strict=True)

    def _maker_for_inputs(self) -> Sources:
        return self.maker if self.shards is None else replace(self.maker, check_files=False)

    def _mono(self, message: str | list[str], place: Place) -> list[str]:
        """Return the paths of lines with one side, with those that a pattern or a folder stands for."""
        maker, result = self._maker_for_inputs(), list[str]()
        for index, path in enumerate([message] if isinstance(message, str) else message):
            at = place if isinstance(message, str) else (*place, index)
            current = maker.file(path, at)
            try:
                result += expand(bin_of(current)) if maker.check_files else [current]
            except VoltError as error:
                maker.notes.add(at, error)
        return result

    # what a task is in the stream

    def _source(self, name: str, task: TaskOptions, weights: TaskWeights, defaults: Mapping[str, Any]) -> Source | None:
        place: Place = ("tasks", name)
        known = {key: value for key in LANGUAGES if (value := getattr(task, key)) is not None}
        steps = replace(self.maker.steps(NAMES), task=known, defaults=defaults)
        own = steps.of(task.transforms, (*place, "transforms"))
        if task.type == "mono" and "max_fields" not in task.model_fields_set and task.min_fields < 2:
            task = task.model_copy(update={"max_fields": 1})  # a tab would make two fields of one
        transforms = own + steps.of(self.options.transforms, ("transforms",))
        weight = weights.of(task.weight, (*place, "weight"))
        return self.maker.built(place, task, name=name, paths=("",), transforms=transforms, weight=weight)

    def _reading(self, owner: Task, source: Source) -> Source | None:
        """Return the source of a task, with its paths. owner: the task whose inputs, and shards, it reads."""
        if self.shards is not None and self.maker.check_files:
            try:
                manifest = read_manifest(self.shards, owner)
            except VoltError as error:
                self.maker.notes.add(("tasks", source.name), error)
                return None
            return replace(source, paths=manifest.paths, names=manifest.names)
        paths = tuple(path for one in owner.inputs for path in one.paths)
        return replace(source, paths=paths, names=owner.names) if paths else None


def _task(name: str, values: TaskOptions, inputs: tuple[Input, ...], source: Source) -> Task:
    return Task(
        name, values.type, inputs, values.split, source.weight, source.transforms,
        src_lang=values.src_lang, tgt_lang=values.tgt_lang, extra_prefix=values.extra_prefix, n_shards=values.n_shards,
        shares=values.share_inputs,
    )  # fmt: skip


def defaults_of(defaults: Mapping[str, Any], maker: Sources) -> dict[str, dict[str, Any]]:
    """Options of transforms for all tasks, those that are right."""
    steps = maker.steps(NAMES)
    return {name: steps.default(name, options, ("defaults", name)) for name, options in defaults.items()}
