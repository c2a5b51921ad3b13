r"""Convert a configuration of OpenNMT-py's dynamicdata loader into one of a stream with tasks, and note differences.

`OldOptions` checks the keys of the original; `PARAMETERS` maps its parameters to the options of transforms.

>>> old = "tasks: {a: {type: mono, transforms: [drop]}}\ninputs: {i: {mono: a.en, task: a}}\n"
>>> print(imported(old + "meta: {train: {drop_temperature: 3}}", path="old.yaml").text)
defaults:
  drop: {temperature: 3}
tasks:
  a:
    type: mono
    inputs:
      i: {mono: a.en}
    transforms: [drop]
<BLANKLINE>

The keys of a configuration of OpenNMT-py's dynamicdata loader: the models that check it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from volt.display import counted
from volt.errors import ConfigError, shown_path
from volt.files.paths import exists, expand_user
from volt.stream.config.document import Notes, Place, Problem, as_error, near
from volt.stream.config.models import Model
from volt.stream.config.templates import parse_template
from volt.stream.tasks.task import SIDES
from volt.urls import url_of


class OldShard(Model):
    """Options of shards."""

    rootdir: str | None = None
    share_vocab: bool | None = None
    shard_size: int | None = None
    initial_shards: int | None = None
    compress: bool | None = None
    pretokenize: bool | None = None
    predetokenize: bool | None = None


class OldTrain(Model):
    """Options of all tasks in training."""

    name: str | None = None
    vocab_path: str | None = None
    segmentation_model: str | None = None
    mixing_weight_schedule: int | list[int] | None = None
    reverse: bool | None = None
    drop_temperature: float | None = None
    reorder_max_dist: float | None = None
    switchout_temperature: float | None = None
    wb_noise_temperature: float | None = None
    insertion_temperature: float | None = None
    seg_n_samples: int | None = None
    seg_theta: float | None = None
    max_len: int | None = None


class OldMeta(Model):
    """Options that belong to no single task."""

    shard: OldShard = OldShard()
    train: OldTrain = OldTrain()


class OldTaskMeta(Model):
    """The languages of a task."""

    src_lang: str | None = None
    trg_lang: str | None = None
    tgt_lang: str | None = None
    extra_prefix: str | None = None


class OldTask(Model):
    """A task."""

    type: Literal["para", "mono"]
    split: Literal["train", "valid"] = "train"
    weight: float | list[float] | None = None
    transforms: list[str] | None = None
    n_shards: int | None = None
    share_inputs: str | None = None
    meta: OldTaskMeta | None = None


class OldInput(Model):
    """A corpus."""

    src: str | None = None
    tgt: str | None = None
    trg: str | None = None
    mono: str | None = None
    task: str
    size: int | Literal["auto"] | None = "auto"


class OldOptions(Model):
    """A whole configuration."""

    meta: OldMeta = OldMeta()
    tasks: dict[str, OldTask]
    inputs: dict[str, OldInput]


_MORFESSOR = ("morfessor_em", "morfessor_em_taboo", "morfessor_em_taboo_reordered")
_SAMPLERS = ("sentencepiece", *_MORFESSOR)
_TAKES_VOCABULARY = ("switchout", "wb_noise", "insertion")
_NAMES = (
    "duplicate_mono", "reorder", "drop", *_TAKES_VOCABULARY, "lang_prefix_both", "deterministic_segmentation",
    "filter_too_long", *_SAMPLERS,
)  # fmt: skip
# A parameter of the original → the transforms that take it here, and what it is called there.
PARAMETERS: dict[str, dict[str, str]] = {
    "drop_temperature": {"drop": "temperature"},
    "reorder_max_dist": {"reorder": "max_dist"},
    "switchout_temperature": {"switchout": "temperature"},
    "wb_noise_temperature": {"wb_noise": "temperature"},
    "insertion_temperature": {"insertion": "temperature"},
    "max_len": {"filter_too_long": "max_len"},
    "seg_n_samples": {"sentencepiece": "nbest", **dict.fromkeys(_MORFESSOR, "n_samples")},
    "seg_theta": dict.fromkeys(_SAMPLERS, "theta"),
    "segmentation_model": {**dict.fromkeys(_SAMPLERS, "model"), "deterministic_segmentation": "table"},
    "vocab_path": dict.fromkeys(_TAKES_VOCABULARY, "vocabulary"),
}
_PATHS = ("segmentation_model", "vocab_path")
# Keys without a counterpart, or with another meaning.
_SHARD_NOTES = {
    "rootdir": "shards are not needed here, and the original's are not read; for shards add `shards: FOLDER`, and run "
    "volt shard",
    "share_vocab": "words are counted task by task here; which sides share a vocabulary is said where it is made",
    "shard_size": "how many lines a shard has follows from n_shards here",
    "initial_shards": "the number of shards follows from the lines here; n_shards of a task sets it",
    "compress": "how shards are packed is said to volt shard",
    "pretokenize": "nothing here runs pyonmttok; tokenise the inputs before, and whatever is to be translated",
    "predetokenize": "nothing here undoes pyonmttok; detokenise the inputs before",
}
_TRAIN_NOTES = {
    "name": "transforms are not saved here, so that nothing needs a name",
    "vocab_path": "the file is the vocabulary that noise draws tokens from; see that it is one that VOLT reads",
    "reverse": "the files of src and tgt are swapped here; look at src_lang and tgt_lang, which are as they were",
}


class Imported(NamedTuple):
    """A converted configuration.

    text: the new configuration, with the notes as comments.
    notes: one sentence for each key that means something else here, or has no counterpart.
    """

    text: str
    notes: tuple[str, ...]


def imported(
    text: str, *, path: str, values: Mapping[str, object] | None = None, folder: str | Path = "",
    batch_samples: int | None = None, check_files: bool = False,
) -> Imported:  # fmt: skip
    """Read a configuration of the original.

    path: its name in errors
    values: text or a number for each key, if it is a template
    folder: where the new file is to be, from here; relative paths, which the original takes from here, lead from there
    batch_samples: the samples of a minibatch, which the original's schedule counts
    check_files: look for the inputs' files, from here; missing ones get a note

    Raises ConfigError, with its line, for every key that is unknown and for what does not fit together.
    """

    document = parse_template(text, path=path, values=values)
    notes = Notes(document)
    options = notes.checked(OldOptions, document.value, ())
    if options is None:
        raise as_error(map(_of_inputs, notes.found), document)
    reader = _Reader(options, notes, Path(folder), batch_samples, check_files)
    data = {key: value for key, value in reader.converted() if value}
    if notes.found:
        raise as_error(notes.found, document)
    return Imported(_written(data, reader.remarks), tuple(reader.remarks))


def _is_there(path: str) -> bool:
    try:
        return glob.has_magic(path) or exists(expand_user(path))
    except ConfigError:
        return False


def _of_inputs(problem: Problem) -> Problem:
    """Explain where the original has inputs, for a task that holds some."""
    if problem.place[:1] != ("tasks",) or problem.place[2:] != ("inputs",):
        return problem
    message = (
        "inputs stand at the top level: inputs: {NAME: {src: FILE, tgt: FILE, task: " + f"{problem.place[1]}" + "}}"
    )
    return replace(problem, message=f"{message}; move them there")


def _written(message: Mapping[str, Any], remarks: list[str]) -> str:
    comments = "".join(f"# {remark}\n" for remark in remarks)
    return comments + yaml.safe_dump(message, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


def _plain(value: Any) -> Any:
    """Return a number without a point that says nothing.

    >>> _plain(3.0), _plain(2.5)
    (3, 2.5)
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(slots=True)
class _Reader:
    """Reads a configuration of the original. remarks: what is different here."""

    options: OldOptions
    notes: Notes
    folder: Path
    batch_samples: int | None
    check_files: bool
    remarks: list[str] = field(default_factory=list)

    def converted(self) -> Iterator[tuple[str, Any]]:
        """Yield the keys of the new configuration, and their values."""
        shard, train = self.options.meta.shard, self.options.meta.train
        self._remark("meta.shard", _SHARD_NOTES, dict(shard))
        self._remark("meta.train", _TRAIN_NOTES, dict(train))
        yield "defaults", self._defaults()
        yield "schedule", self._schedule()
        yield "tasks", {name: self._task(name, task) for name, task in self.options.tasks.items()}
        for name, one in self.options.inputs.items():
            if one.task not in self.options.tasks:
                known = near(one.task, [*self.options.tasks])
                self.notes.add(("inputs", name, "task"), f"no task {one.task!r}; {known}")

    def _remark(self, where: str, notes: Mapping[str, str], inputs: Mapping[str, object]) -> None:
        """Say what is different about the keys that are given, and are not switched off."""
        for key, note in notes.items():
            if inputs.get(key) not in (None, False):
                self.remarks.append(f"{where}.{key}: {note}")

    def _path(self, message: str) -> str:
        """Return a path that leads from the new file to where the old one led from here."""
        if url_of(message) or os.path.isabs(message) or message.startswith(("~", "$")) or self.folder == Path():
            return message
        return os.path.relpath(message, self.folder)

    def _defaults(self) -> dict[str, dict[str, Any]]:
        used = {name for task in self.options.tasks.values() for name in task.transforms or ()}
        result: dict[str, dict[str, Any]] = {}
        for key, takers in PARAMETERS.items():
            value = getattr(self.options.meta.train, key)
            for name in sorted(used & takers.keys()) if value is not None else ():
                result.setdefault(name, {})[takers[name]] = self._path(value) if key in _PATHS else _plain(value)
            if value is not None and not used & takers.keys():
                self.remarks.append(f"meta.train.{key}: no task has a transform that takes it; it is left out")
        for key in _PATHS:
            for name in sorted(used & PARAMETERS[key].keys()) if getattr(self.options.meta.train, key) is None else ():
                option = PARAMETERS[key][name]
                message = f"is missing; {name} takes it as {option}, and cannot do without"
                self.remarks.append(f"meta.train.{key}: {message}: add defaults: {{{name}: {{{option}: FILE}}}}")
        return result

    @property
    def _points(self) -> list[int]:
        message = self.options.meta.train.mixing_weight_schedule
        return [] if message is None else [message] if isinstance(message, int) else message

    def _schedule(self) -> dict[str, Any]:
        if not self._points:
            return {}
        size = self.batch_samples or 64
        message = f"its points count minibatches, of {counted(size, 'sample')} each"
        guess = "" if self.batch_samples else ", which is a guess: set batch_samples to what yours have"
        self.remarks.append(f"meta.train.mixing_weight_schedule: {message}{guess}")
        return {"points": self._points, "unit": "batches", "batch_samples": size}

    # tasks

    def _task(self, name: str, task: OldTask) -> dict[str, Any]:
        place: Place = ("tasks", name)
        inputs = {key: self._files(key, one, task) for key, one in self.options.inputs.items() if one.task == name}
        if not inputs and task.share_inputs is None:
            self.notes.add(place, "has no inputs; name it as the task of one, or give share_inputs")
        if task.share_inputs is not None and (inputs or task.share_inputs not in self.options.tasks):
            result = "does not go with inputs of its own" if inputs else f"no task {task.share_inputs!r}"
            self.notes.add((*place, "share_inputs"), f"{result}; name a task that has inputs, or leave it out")
        for index, step in enumerate(task.transforms or ()):
            if step not in _NAMES:
                self.notes.add((*place, "transforms", index), f"unknown transform {step!r}; {near(step, _NAMES)}")
        values = {
            "type": task.type, "split": task.split if task.split != "train" else None, "inputs": inputs,
            "share_inputs": task.share_inputs, "weight": self._weight(name, task), **self._languages(name, task),
            "n_shards": self._n_shards(name, task), "transforms": task.transforms,
        }  # fmt: skip
        return {key: value for key, value in values.items() if value not in (None, {}, [])}

    def _weight(self, name: str, task: OldTask) -> Any:
        if task.split == "valid":
            if task.weight is not None:
                self.remarks.append(f"tasks.{name}.weight: every line of a valid task comes once here; it is left out")
            return None
        if not isinstance(task.weight, list):
            return _plain(task.weight)
        if len(task.weight) != len(self._points) + 1:
            n_points = counted(len(self._points), "point")
            result = f"{counted(len(task.weight), 'weight')}, and mixing_weight_schedule has {n_points}"
            self.notes.add(("tasks", name, "weight"), f"{result}; give one weight more than points")
        weights = [_plain(weight) for weight in task.weight]
        return weights if self._points else weights[0]

    def _n_shards(self, name: str, task: OldTask) -> int | None:
        if task.n_shards is not None and task.share_inputs is not None:
            self.remarks.append(f"tasks.{name}.n_shards: {task.share_inputs} has the shards; it is left out")
            return None
        return task.n_shards

    def _languages(self, name: str, task: OldTask) -> dict[str, str | None]:
        meta = task.meta
        if meta is None:
            return {}
        if meta.trg_lang is not None and meta.tgt_lang is not None:
            self.notes.add(("tasks", name, "meta"), "trg_lang and tgt_lang are one; leave one of them out")
        return {
            "src_lang": meta.src_lang, "tgt_lang": meta.trg_lang or meta.tgt_lang, "extra_prefix": meta.extra_prefix
        }  # fmt: skip

    def _files(self, name: str, one: OldInput, task: OldTask) -> dict[str, str]:
        inputs = {"src": one.src, "tgt": one.tgt or one.trg, "mono": one.mono}
        wanted = SIDES[task.type]
        if {side for side, path in inputs.items() if path is not None} != set(wanted) or (one.tgt and one.trg):
            message = f"task {one.task} is of type {task.type}; give {' and '.join(wanted)}, and no other file"
            self.notes.add(("inputs", name), message)
        if one.size not in ("auto", None):
            self.remarks.append(f"inputs.{name}.size: lines are counted here; it is left out")
        if self.options.meta.train.reverse and task.type == "para":
            inputs["src"], inputs["tgt"] = inputs["tgt"], inputs["src"]
        result = {side: path for side in wanted if (path := inputs[side]) is not None}
        for side, path in result.items() if self.check_files else ():
            if not _is_there(path):
                self.remarks.append(f"inputs.{name}.{side}: {shown_path(path)}: no such file; fix the path")
        return {side: self._path(path) for side, path in result.items()}
