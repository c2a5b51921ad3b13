"""`read_steps`: a configuration file with a section `batches` → the stream, samples, rule and layout of its steps.

>>> import tempfile
>>> from pathlib import Path
>>> from volt import Vocabulary
>>> text = "sources: {one: {path: a.tsv}}\\nbatches: {fields: {src: v.volt}, max_tokens: 64, window: 9, pad: </s>}\\n"
>>> with tempfile.TemporaryDirectory() as folder:
...     Vocabulary((("l", "o"),), ("l", "o", "lo")).save(Path(folder, "v.volt"))
...     for name, content in {"a.tsv": "lo\\n", "stream.yaml": text}.items():
...         _ = Path(folder, name).write_text(content)
...     parts = read_steps(Path(folder, "stream.yaml"))
>>> parts.samples, parts.batches.max_tokens, parts.window, parts.layout.pad
(<SampleFormat: src, with EOS>, 64, 9, {'src': 2})
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from volt import arguments
from volt.batches.batch_sampler import ByPacks, ByTokens
from volt.batches.collation import Layout
from volt.batches.numbering import Numbering, numbering_of
from volt.batches.samples import SampleFormat
from volt.errors import ConfigError, quoted, shown_path
from volt.stream.config.batches import Batches
from volt.stream.config.build import load_config
from volt.stream.reading.sampler import check_rank
from volt.stream.running.stream import Stream
from volt.stream.tasks.task import Split

_REMEDY = "add it, as in batches: {fields: {src: joint.volt, tgt: joint.volt}, max_tokens: 4096}"


class ReadSteps(NamedTuple):
    """The arguments of `Steps` that a configuration gives, and the paths of its vocabularies."""

    stream: Stream
    samples: SampleFormat
    batches: ByTokens | ByPacks
    window: int | Literal["epoch"]
    layout: Layout
    vocabularies: tuple[str, ...]


def read_steps(
    path: str | os.PathLike[str], *, rank: int = 0, world: int = 1, user_code: bool = True,
    values: Mapping[str, object] | None = None, split: Split = "train", tasks: Sequence[str] | None = None,
    **options: Any,
) -> ReadSteps:  # fmt: skip
    """Read the stream and the batches of a configuration file.

    path: of the file
    rank, world: which batch of each step to give; they are checked before anything is read
    user_code, values, split, tasks: as in `Stream.from_config`
    options: of `Stream`, which override those of the file

    Raises ConfigError, with the line of each mistake; also for tokens that a vocabulary lacks.
    """
    check_rank(rank, world)
    where = Path(arguments.path(path, remedy="give the path of a YAML file"))
    data = load_config(where, user_code=user_code, values=values, split=split, tasks=tasks)
    if data.batches is None:
        raise ConfigError(f"{shown_path(where)}: key 'batches' is missing; {_REMEDY}")
    samples, rule = _samples(data.batches), _rule(data.batches)
    layout = _layout(data.batches, samples)
    with data.batches.naming("pad_to_multiple"):
        rule.check(layout.pad_to_multiple)
    options = {**data.options, **options}
    stream = Stream(options.pop("sources"), **options)
    return ReadSteps(stream, samples, rule, data.batches.window, layout, tuple(data.batches.vocabularies.values()))


def _samples(values: Batches) -> SampleFormat:
    """Return the format of samples. Each field is checked by itself, so that an error has its line."""
    loaded = dict[str, Numbering]()
    for name, path in values.vocabularies.items():
        with values.naming("fields", name, "vocabulary"):
            loaded[path] = loaded.get(path) or numbering_of(path, name)
        with values.naming("fields", name):
            prefix = {key: tokens for key, tokens in values.prefix.items() if key == name}
            SampleFormat({name: loaded[path]}, prefix=prefix, **values.samples)
    vocabularies = {name: loaded[path] for name, path in values.vocabularies.items()}
    return SampleFormat(vocabularies, prefix=values.prefix, **values.samples)


def _rule(values: Batches) -> ByTokens | ByPacks:
    with values.naming():
        return ByPacks(**values.by_packs or {}) if values.by_tokens is None else ByTokens(**values.by_tokens)


def _layout(values: Batches, samples: SampleFormat) -> Layout:
    pad = _pad(values, samples)
    with values.naming("fields"):
        layout = Layout(pad=pad, **values.layout)
        layout.of(samples, packed=values.by_packs is not None)
    return layout


def _pad(values: Batches, samples: SampleFormat) -> dict[str, int]:
    pads = dict[str, int]()
    with values.naming("pad"):
        for name, numbering in samples.vocabularies.items():
            number = numbering.pad if values.pad == "<pad>" else numbering.ids.get(values.pad)
            if number is None:
                raise ConfigError(f"no token {quoted(values.pad)} in the vocabulary of {name}; name another, or add it")
            pads[name] = number
    return pads
