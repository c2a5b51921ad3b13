"""Read a configuration file with a section `batches`: the arguments of `Steps`.

    {sources: …, batches: {fields: {src: a.volt, tgt: b.volt}, max_tokens: 4096}}
    → a stream, the format of samples with fields src and tgt, ByTokens(max_tokens=4096), a layout

Errors name the line of the file.
"""

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
    user_code: bool = True,
    values: Mapping[str, object] | None = None,
    split: Split = "train",
    tasks: Sequence[str] | None = None,
    **options: Any,
) -> ReadSteps:
    """Read the stream and the batches of a configuration file.

    The arguments are those of `Steps.from_config`.
    """
    where = Path(arguments.path(path, remedy="give the path of a YAML file"))
    data = load_config(where, user_code=user_code, values=values, split=split, tasks=tasks)
    if data.batches is None:
        raise ConfigError(f"{shown_path(where)}: key 'batches' is missing; {_REMEDY}")
    section = data.batches
    samples = _read_sample_format(section)
    options_of_file = dict(section.options)
    options_of_file["pad"] = _pad_ids(section, samples)
    pack = section.options.pack
    rule: ByTokens | ByPacks
    with section.naming():
        if pack is not None:
            rule = ByPacks(**pack.model_dump(), shuffle=section.options.shuffle)
        else:
            lengths = {
                "max_length": options_of_file["longest"],
                "min_length": options_of_file["shortest"],
            }
            rule = ByTokens(**_select_fields(ByTokens, options_of_file | lengths))
    with section.naming("fields"):
        layout = Layout(**_select_fields(Layout, options_of_file))
        layout.of(samples, packed=pack is not None)
    with section.naming("pad_to_multiple"):
        rule.check(layout.pad_to_multiple)
    options = {**data.options, **options}
    stream = Stream(options.pop("sources"), **options)
    vocabularies = tuple(section.vocabularies.values())
    return ReadSteps(stream, samples, rule, section.options.window, layout, vocabularies)


def _select_fields(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values whose names are fields of a dataclass."""
    names = [field.name for field in fields(kind)]
    return {name: values[name] for name in names if name in values}


def _read_sample_format(section: Batches) -> SampleFormat:
    """Return the format of samples.

    Check fields one by one, so that an error names the line of its field.
    """
    options = _select_fields(SampleFormat, dict(section.options))
    prefixes = {name: field.prefix for name, field in section.options.fields.items()}
    loaded = dict[str, Numbering]()
    for name, path in section.vocabularies.items():
        with section.naming("fields", name, "vocabulary"):
            loaded[path] = loaded.get(path) or numbering_of(path, name)
        with section.naming("fields", name):
            SampleFormat({name: loaded[path]}, prefix={name: prefixes[name]}, **options)
    vocabularies = {name: loaded[path] for name, path in section.vocabularies.items()}
    return SampleFormat(vocabularies, prefix=prefixes, **options)


def _pad_ids(section: Batches, samples: SampleFormat) -> dict[str, int]:
    """Return the id of the padding token in each field's vocabulary."""
    ids = dict[str, int]()
    token = section.options.pad
    with section.naming("pad"):
        for name, numbering in samples.vocabularies.items():
            id_ = numbering.pad if token == "<pad>" else numbering.ids.get(token)
            if id_ is None:
                raise ConfigError(
                    f"no token {quoted(token)} in the vocabulary of {name}; name another, or add it"
                )
            ids[name] = id_
    return ids
