"""Convert a configuration of OpenNMT-py's dynamicdata loader (the original) into a configuration of
VOLT's streams.

    original                                              converted
    meta: {train: {drop_temperature: 3}}                  defaults: {drop: {temperature: 3}}
    tasks: {a: {type: mono, transforms: [drop]}}          tasks: {a: {type: mono, inputs: {i: {mono: a.en}},
    inputs: {i: {mono: a.en, task: a}}                            transforms: [drop]}}

`OldOptions` checks the original's keys. Keys whose meaning differs get a remark, which the new file
contains as a comment.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import TypeAdapter, create_model

from volt.display import counted
from volt.errors import ConfigError, shown_path
from volt.files.paths import exists, expand_user
from volt.stream.config.problems import Problems, suggest_name
from volt.stream.config.pydantic_models import Model
from volt.stream.config.template_rendering import parse_template
from volt.stream.config.yaml_document import Values
from volt.stream.tasks.task import SIDES
from volt.urls import url_of

_GUESSED_BATCH = 64  # samples in a minibatch of the original, if the caller does not know
_MORFESSOR = ("morfessor_em", "morfessor_em_taboo", "morfessor_em_taboo_reordered")
_SAMPLERS = ("sentencepiece", *_MORFESSOR)
# Parameter of the original → VOLT's transform that takes it → the transform's option
PARAMETERS: dict[str, dict[str, str]] = {
    "drop_temperature": {"drop": "temperature"},
    "reorder_max_dist": {"reorder": "max_dist"},
    "switchout_temperature": {"switchout": "temperature"},
    "wb_noise_temperature": {"wb_noise": "temperature"},
    "insertion_temperature": {"insertion": "temperature"},
    "max_len": {"filter_too_long": "max_len"},
    "seg_n_samples": {"sentencepiece": "nbest", **dict.fromkeys(_MORFESSOR, "n_samples")},
    "seg_theta": dict.fromkeys(_SAMPLERS, "theta"),
    "segmentation_model": {
        **dict.fromkeys(_SAMPLERS, "model"),
        "deterministic_segmentation": "table",
    },
    "vocab_path": dict.fromkeys(("switchout", "wb_noise", "insertion"), "vocabulary"),
}
_TRANSFORM_NAMES = sorted({"duplicate_mono", "lang_prefix_both"}.union(*PARAMETERS.values()))
_PATH_PARAMETERS = ("segmentation_model", "vocab_path")
# Keys that VOLT lacks, or that mean something else in VOLT → a remark
_SHARD_REMARKS = {
    "rootdir": "VOLT needs no shards, and does not read the original's; to write shards, add `shards: FOLDER`, and run "
    "volt shard",
    "share_vocab": "VOLT counts the words of each task; choose which sides share a vocabulary when you make one",
    "shard_size": "VOLT derives the number of lines of a shard from n_shards",
    "initial_shards": "VOLT derives the number of shards from the lines, unless the task has n_shards",
    "compress": "it is an option of the command volt shard",
    "pretokenize": "VOLT does not run pyonmttok; tokenise the inputs, and the text to translate, beforehand",
    "predetokenize": "VOLT does not undo pyonmttok; detokenise the inputs beforehand",
}
_TRAIN_REMARKS = {
    "name": "VOLT does not save transforms, so they need no name",
    "vocab_path": "noise draws tokens from this vocabulary; check that VOLT can read the file",
    "reverse": "the files of src and tgt are swapped; check src_lang and tgt_lang, which are unchanged",
}


class Imported(NamedTuple):
    """A converted configuration.

    text: the new file
    notes: remarks, one for each key whose meaning differs; also comments of the text
    """

    text: str
    notes: tuple[str, ...]


def imported(
    text: str,
    *,
    path: str,
    values: Mapping[str, object] | None = None,
    folder: str | Path = "",
    batch_samples: int | None = None,
    check_files: bool = False,
) -> Imported:
    """Convert a configuration of dynamicdata. Raises ConfigError with the line of every mistake.

    path: the original's name in errors
    values: placeholder → text or a number, if the original is a template
    folder: the new file's folder; paths relative to the current folder become relative to it
    batch_samples: the number of samples in a minibatch; the original's schedule counts minibatches
    check_files: whether to note missing input files

    >>> old = "tasks: {a: {type: mono, transforms: [drop]}}\\ninputs: {i: {mono: a.en, task: a}}\\n"
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
    """
    document = parse_template(text, path=path, values=values)
    problems = Problems(document)
    options = problems.validate(TypeAdapter(OldOptions), document.value, ())
    if options is None:
        for index, (place, _) in enumerate(problems.entries):
            if place[:1] == ("tasks",) and place[2:] == ("inputs",):
                entry = f"{{NAME: {{src: FILE, tgt: FILE, task: {place[1]}}}}}"
                fault = f"inputs belong at the top level, as in inputs: {entry}; move them there"
                problems.entries[index] = (place, fault)
        raise problems.to_error()
    converter = _Converter(options, problems, Path(folder), batch_samples, check_files)
    new_options = _drop_empty(converter.convert())
    if problems.entries:
        raise problems.to_error()
    comments = "".join(f"# {remark}\n" for remark in converter.remarks)
    new_text = yaml.safe_dump(
        new_options, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120
    )
    return Imported(comments + new_text, tuple(converter.remarks))


def _make_model(name: str, /, **types: Any) -> Any:
    """Return a pydantic model whose keys are all optional. types: key → the type of its value"""
    fields = {key: (value_type | None, None) for key, value_type in types.items()}
    return create_model(name, __base__=Model, **fields)  # type: ignore[call-overload]


OldShard = _make_model(
    "OldShard",
    rootdir=str,
    share_vocab=bool,
    shard_size=int,
    initial_shards=int,
    compress=bool,
    pretokenize=bool,
    predetokenize=bool,
)
OldTrain = _make_model(
    "OldTrain",
    name=str,
    vocab_path=str,
    segmentation_model=str,
    mixing_weight_schedule=int | list[int],
    reverse=bool,
    drop_temperature=float,
    reorder_max_dist=float,
    switchout_temperature=float,
    wb_noise_temperature=float,
    insertion_temperature=float,
    seg_n_samples=int,
    seg_theta=float,
    max_len=int,
)
OldTaskMeta = _make_model("OldTaskMeta", src_lang=str, trg_lang=str, tgt_lang=str, extra_prefix=str)


class OldMeta(Model):
    shard: OldShard = OldShard()  # type: ignore[valid-type]
    train: OldTrain = OldTrain()  # type: ignore[valid-type]


class OldTask(Model):
    type: Literal["para", "mono"]
    split: Literal["train", "valid"] = "train"
    weight: float | list[float] | None = None
    transforms: list[str] | None = None
    n_shards: int | None = None
    share_inputs: str | None = None
    meta: OldTaskMeta | None = None  # type: ignore[valid-type]


class OldInput(Model):
    src: str | None = None
    tgt: str | None = None
    trg: str | None = None
    mono: str | None = None
    task: str
    size: int | Literal["auto"] | None = "auto"


class OldOptions(Model):
    meta: OldMeta = OldMeta()
    tasks: dict[str, OldTask]
    inputs: dict[str, OldInput]


def _drop_empty(values: Values) -> Values:
    return {key: value for key, value in values.items() if value not in (None, {}, [])}


def _simplify_number(value: Any) -> Any:
    """Return a float that is a whole number as int, so that it is written as 3, not as 3.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(slots=True)
class _Converter:
    """Converts the original's options.

    options: the checked `OldOptions`
    problems: collects mistakes in the original
    folder, batch_samples, check_files: the arguments of `imported`
    remarks: collects the keys whose meaning differs
    """

    options: Any
    problems: Problems
    folder: Path
    batch_samples: int | None
    check_files: bool
    remarks: list[str] = field(default_factory=list)

    def convert(self) -> Values:
        meta = self.options.meta
        self._add_remarks("meta.shard", _SHARD_REMARKS, meta.shard)
        self._add_remarks("meta.train", _TRAIN_REMARKS, meta.train)
        result: Values = {"defaults": self._convert_defaults()}
        if self._points:
            size = self.batch_samples or _GUESSED_BATCH
            unit = f"minibatches of {counted(size, 'sample')}"
            if not self.batch_samples:
                unit += ", which is a guess: set batch_samples to the size of yours"
            self.remarks.append(f"meta.train.mixing_weight_schedule: its points count {unit}")
            result["schedule"] = {"points": self._points, "unit": "batches", "batch_samples": size}
        tasks = self.options.tasks
        result["tasks"] = {}
        for name, task in tasks.items():
            result["tasks"][name] = self._convert_task(name, task)
        for name, inputs in self.options.inputs.items():
            if inputs.task not in tasks:
                fault = f"no task {inputs.task!r}; {suggest_name(inputs.task, [*tasks])}"
                self.problems.add(("inputs", name, "task"), fault)
        return result

    def _add_remarks(self, place: str, remarks: dict[str, str], values: object) -> None:
        for key, remark in remarks.items():
            if getattr(values, key) not in (None, False):
                self.remarks.append(f"{place}.{key}: {remark}")

    def _convert_path(self, path: str) -> str:
        """Return a path relative to the new file's folder, if it was relative to the current one."""
        if url_of(path) or os.path.isabs(path):
            return path
        if path.startswith(("~", "$")) or self.folder == Path():
            return path
        return os.path.relpath(path, self.folder)

    def _convert_defaults(self) -> dict[str, Values]:
        """Return the parameters in `meta.train` as default options of the transforms in use."""
        used = set[str]()
        for task in self.options.tasks.values():
            used.update(task.transforms or ())
        result = dict[str, Values]()
        missing = list[str]()
        for key, takers in PARAMETERS.items():
            value = getattr(self.options.meta.train, key)
            names = sorted(used & takers.keys())
            if value is not None:
                if not names:
                    fault = "no transform of a task uses this parameter; it is omitted"
                    self.remarks.append(f"meta.train.{key}: {fault}")
                if key in _PATH_PARAMETERS:
                    value = self._convert_path(value)
                else:
                    value = _simplify_number(value)
                for name in names:
                    result.setdefault(name, {})[takers[name]] = value
            elif key in _PATH_PARAMETERS:
                for name in names:
                    remedy = f"add defaults: {{{name}: {{{takers[name]}: FILE}}}}"
                    missing.append(f"meta.train.{key}: is missing, but {name} needs it; {remedy}")
        self.remarks += missing
        return result

    @property
    def _points(self) -> list[int]:
        """The minibatches at which weights change."""
        points = self.options.meta.train.mixing_weight_schedule or []
        return [points] if isinstance(points, int) else points

    def _convert_task(self, name: str, task: OldTask) -> Values:
        add = self.problems.make_adder("tasks", name)
        inputs = {
            key: self._convert_input(key, corpus, task)
            for key, corpus in self.options.inputs.items()
            if corpus.task == name
        }
        shared = task.share_inputs
        if shared is None and not inputs:
            add("has no inputs; make it the task of an input, or give share_inputs")
        if shared is not None and (inputs or shared not in self.options.tasks):
            fault = f"no task {shared!r}"
            if inputs:
                fault = "cannot be used with the task's own inputs"
            add(f"{fault}; name a task that has inputs, or remove it", "share_inputs")
        for index, step in enumerate(task.transforms or ()):
            if step not in _TRANSFORM_NAMES:
                fault = f"unknown transform {step!r}; {suggest_name(step, _TRANSFORM_NAMES)}"
                add(fault, "transforms", index)
        meta: Any = task.meta or OldTaskMeta()
        if meta.trg_lang is not None and meta.tgt_lang is not None:
            add("trg_lang and tgt_lang mean the same; remove one of them", "meta")
        n_shards = task.n_shards
        if n_shards is not None and shared is not None:
            fault = f"the shards belong to {shared}; n_shards is omitted"
            self.remarks.append(f"tasks.{name}.n_shards: {fault}")
            n_shards = None
        values = {
            "type": task.type,
            "split": None if task.split == "train" else task.split,
            "inputs": inputs,
            "share_inputs": shared,
            "weight": self._convert_weight(name, task),
            "src_lang": meta.src_lang,
            "tgt_lang": meta.trg_lang or meta.tgt_lang,
            "extra_prefix": meta.extra_prefix,
            "n_shards": n_shards,
            "transforms": task.transforms,
        }
        return _drop_empty(values)

    def _convert_weight(self, name: str, task: OldTask) -> Any:
        """Return a task's number, list of a number for each part of the schedule, or None."""
        weight = task.weight
        if weight is None:
            return None
        if task.split == "valid":
            remark = "VOLT reads every line of a valid task once; it is omitted"
            self.remarks.append(f"tasks.{name}.weight: {remark}")
            return None
        if not isinstance(weight, list):
            return _simplify_number(weight)
        points = self._points
        if len(weight) != len(points) + 1:
            counts = f"{counted(len(weight), 'weight')} for {counted(len(points), 'point')}"
            fault = f"{counts} of mixing_weight_schedule; give one more weight"
            self.problems.add(("tasks", name, "weight"), fault)
        weights = [_simplify_number(value) for value in weight]
        return weights if points else weights[0]

    def _convert_input(self, name: str, inputs: OldInput, task: OldTask) -> dict[str, str]:
        """Return side → file of a corpus."""
        paths = {
            "src": inputs.src,
            "tgt": inputs.tgt or inputs.trg,
            "mono": inputs.mono,
        }
        sides = SIDES[task.type]
        used = {side for side, path in paths.items() if path is not None}
        if used != {*sides} or (inputs.tgt and inputs.trg):
            fault = f"task {inputs.task} is of type {task.type}; give only {' and '.join(sides)}"
            self.problems.add(("inputs", name), fault)
        if inputs.size not in ("auto", None):
            self.remarks.append(f"inputs.{name}.size: VOLT counts the lines; the size is omitted")
        if self.options.meta.train.reverse and task.type == "para":
            paths["src"], paths["tgt"] = paths["tgt"], paths["src"]
        result = dict[str, str]()
        for side in sides:
            path = paths[side]
            if path is not None:
                result[side] = self._convert_path(path)
                if self.check_files and not _is_file(path):
                    fault = f"{shown_path(path)}: no such file; fix the path"
                    self.remarks.append(f"inputs.{name}.{side}: {fault}")
        return result


def _is_file(path: str) -> bool:
    with suppress(ConfigError):  # the path contains a variable without a value
        return glob.has_magic(path) or exists(expand_user(path))
    return False
