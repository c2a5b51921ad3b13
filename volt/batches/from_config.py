"""A configuration file with a section `batches` → the stream, samples, rule and layout of its steps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
    rule: ByTokens | ByPacks
    with section.naming():
        if section.by_tokens is not None:
            rule = ByTokens(**section.by_tokens)
        else:
            rule = ByPacks(**section.by_packs or {})
    pads = _pads(section, samples)
    with section.naming("fields"):
        layout = Layout(pad=pads, **section.layout)
        layout.of(samples, packed=section.by_packs is not None)
    with section.naming("pad_to_multiple"):
        rule.check(layout.pad_to_multiple)
    options = {**data.options, **options}
    stream = Stream(options.pop("sources"), **options)
    return ReadSteps(
        stream, samples, rule, section.window, layout, tuple(section.vocabularies.values())
    )


def _samples(values: Batches) -> SampleFormat:
    """Return the format of samples. Check fields one by one, so that an error names the line of its field."""
    loaded = dict[str, Numbering]()
    for name, path in values.vocabularies.items():
        with values.naming("fields", name, "vocabulary"):
            loaded[path] = loaded.get(path) or numbering_of(path, name)
        with values.naming("fields", name):
            prefix = {key: tokens for key, tokens in values.prefix.items() if key == name}
            SampleFormat({name: loaded[path]}, prefix=prefix, **values.samples)
    vocabularies = {name: loaded[path] for name, path in values.vocabularies.items()}
    return SampleFormat(vocabularies, prefix=values.prefix, **values.samples)


def _pads(values: Batches, samples: SampleFormat) -> dict[str, int]:
    pads = dict[str, int]()
    with values.naming("pad"):
        for name, numbering in samples.vocabularies.items():
            number = numbering.pad if values.pad == "<pad>" else numbering.ids.get(values.pad)
            if number is None:
                raise ConfigError(
                    f"no token {quoted(values.pad)} in the vocabulary of {name}; name another, or add it"
                )
            pads[name] = number
    return pads
