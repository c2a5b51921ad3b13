"""The section `mix` of a configuration → how sources and tasks are mixed by their numbers of lines.

>>> from volt.stream.config.build import parse_config
>>> str(parse_config("{mix: {temperature: 5}, sources: {de: {path: de.tsv}, lb: {path: lb.tsv}}}").mix)
'temperature 5'
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from volt.stream.config.problems import Notes
from volt.stream.config.yaml import Place
from volt.stream.mixing.sampling import Sampling

if TYPE_CHECKING:
    from volt.stream.config.models import Model
    from volt.stream.config.stream_models import StreamOptions

_WEIGHT = "goes not with mix, which makes the weights of the lines; leave it out, or say mix: {by: weights}"
_EPOCHS = "goes not with mix, whose sources have no end; leave it out, or say mix: {by: weights}"


def is_by_size(options: StreamOptions) -> bool:
    """Whether weights follow from the numbers of lines.

    >>> from volt.stream.config.stream_models import StreamOptions
    >>> is_by_size(StreamOptions())
    False
    """
    return options.mix is not None and options.mix.by != "weights"


def sampling_of(options: StreamOptions, notes: Notes) -> Sampling | None:
    """How sources are mixed by size; None if by their weights. What goes not with that is noted."""
    mix = options.mix
    if mix is not None and mix.by != "temperature" and "temperature" in mix.model_fields_set:
        told = f"has no meaning where sources are mixed by {mix.by}; leave it out, or say by: temperature"
        notes.add(("mix", "temperature"), told)
    if mix is None or mix.by == "weights":
        return None
    for place, told in _mistakes(options):
        notes.add(place, told)
    line = f":{notes.document.line(('mix',))}" if notes.document.lines else ""
    return Sampling(mix.by, mix.temperature, where=f"{notes.document.path}{line}: mix")


def _mistakes(options: StreamOptions) -> Iterator[tuple[Place, str]]:
    """What says otherwise how sources are mixed, and how often they are read."""
    for place, one in _mixed(options):
        for key, told in (("weight", _WEIGHT), ("temperature", _WEIGHT), ("epochs", _EPOCHS)):
            if key in one.model_fields_set and getattr(one, key) is not None:
                yield (*place, key), told
    if options.schedule is not None:
        yield ("schedule",), _WEIGHT


def _mixed(options: StreamOptions) -> Iterator[tuple[Place, Model]]:
    """Whatever is mixed: sources, those by pattern, and tasks of the split `train`."""
    yield from ((("sources", name), one) for name, one in options.sources.items())
    yield from ((("each",), one) for one in [options.each] if one is not None)
    yield from ((("tasks", name), one) for name, one in options.tasks.items() if one.split == "train")
