"""A configuration file with a section `batches` → the stream, samples, rule and layout of its
steps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from volt import arguments
from volt.batches.batching_rules import ByPacks, ByTokens
from volt.batches.collation import Layout
from volt.batches.numbering import Numbering, numbering_of
from volt.batches.samples import SampleFormat
from volt.errors import ConfigError, quoted, shown_path
from volt.stream.config.batches import Batches
from volt.stream.config.configuration import load_config
from volt.stream.reading.ranks import check_rank
from volt.stream.running.stream import Stream
from volt.stream.tasks.task import Split

_REMEDY = "add it, as in batches: {fields: {src: joint.volt, tgt: joint.volt}, max_tokens: 4096}"


class ReadSteps(NamedTuple):
    """The arguments of `Steps` that a configuration defines, and the paths of its vocabularies."""

    stream: Stream
    samples: SampleFormat
    batches: ByTokens | ByPacks
    window: int | Literal["epoch"]
    layout: Layout
    vocabularies: tuple[str, ...]


def read_steps(
    path: str | os.PathLike[str],
    *,
    rank: int = 0,
    world: int = 1,
    user_code: bool = True,
    values: Mapping[str, object] | None = None,
    split: Split = "train",
    tasks: Sequence[str] | None = None,
    **options: Any,
) -> ReadSteps:
    """Read the stream and the batches of a configuration file."""
    check_rank(rank, world)
    where = Path(arguments.path(path, remedy="give the path of a YAML file"))
    data = load_config(where, user_code=user_code, values=values, split=split, tasks=tasks)
    if data.batches is None:
        raise ConfigError(f"{shown_path(where)}: key 'batches' is missing; {_REMEDY}")
    section = data.batches
    samples = _samples(section)
    values = dict(section.options)
    pack = section.options.pack
    rule: ByTokens | ByPacks
    with section.naming():
        if pack is not None:
            rule = ByPacks(**pack.model_dump(), shuffle=section.options.shuffle)
        else:
            lengths = {"max_length": values["longest"], "min_length": values["shortest"]}
            rule = ByTokens(**_options_of(ByTokens, values | lengths))
    values["pad"] = _pads(section, samples)
    with section.naming("fields"):
        layout = Layout(**_options_of(Layout, values))
        layout.of(samples, packed=pack is not None)
    with section.naming("pad_to_multiple"):
        rule.check(layout.pad_to_multiple)
    options = {**data.options, **options}
    stream = Stream(options.pop("sources"), **options)
    vocabularies = tuple(section.vocabularies.values())
    return ReadSteps(stream, samples, rule, section.options.window, layout, vocabularies)


def _options_of(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a dataclass's fields."""
    names = [field.name for field in fields(kind)]
    return {name: values[name] for name in names if name in values}


def _samples(section: Batches) -> SampleFormat:
    """Return the format of samples.

    Check fields one by one, so that an error names the line of its field.
    """
    options = _options_of(SampleFormat, dict(section.options))
    prefixes = {name: field.prefix for name, field in section.options.fields.items()}
    loaded = dict[str, Numbering]()
    for name, path in section.vocabularies.items():
        with section.naming("fields", name, "vocabulary"):
            loaded[path] = loaded.get(path) or numbering_of(path, name)
        with section.naming("fields", name):
            SampleFormat({name: loaded[path]}, prefix={name: prefixes[name]}, **options)
    vocabularies = {name: loaded[path] for name, path in section.vocabularies.items()}
    return SampleFormat(vocabularies, prefix=prefixes, **options)


def _pads(section: Batches, samples: SampleFormat) -> dict[str, int]:
    pads = dict[str, int]()
    token = section.options.pad
    with section.naming("pad"):
        for name, numbering in samples.vocabularies.items():
            number = numbering.pad if token == "<pad>" else numbering.ids.get(token)
            if number is None:
                fault = f"no token {quoted(token)} in the vocabulary of {name}"
                raise ConfigError(f"{fault}; name another, or add it")
            pads[name] = number
    return pads
