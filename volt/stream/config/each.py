"""Sources by pattern: `each: {path: "data/*.tsv.gz", …}` → a source for each file that matches.

A source is called what `*` stands for in its path. Its share of the weight follows from its number of lines, so files
are indexed, as they are when the stream is opened, which finds the index in the cache. Where `mix` makes the weights of
all sources, that is left to it.

>>> filled({"tag": "<2{name}>"}, "de")
{'tag': '<2de>'}
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.errors import ConfigError, VoltError, shown_path
from volt.stream.config.mixing import is_by_size
from volt.stream.config.sources import Sources
from volt.stream.config.yaml import Place
from volt.stream.mixing.sampling import shares
from volt.stream.reading.shards import open_shard
from volt.stream.reading.source import Source

if TYPE_CHECKING:
    from volt.stream.config.models import EachOptions, SourceOptions
    from volt.stream.config.stream_models import StreamOptions

NAME = "{name}"
_OTHERS = re.compile(r"[?\[\]]")


def names_of(pattern: str) -> list[str]:
    """What `*` stands for in the paths of the files that match, sorted. Raises ConfigError if none does.

    >>> names_of("/nowhere/*.tsv")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: /nowhere/*.tsv: no file matches this pattern; check the path
    """
    check_pattern(pattern)
    before, behind = pattern.split("*")
    found = sorted(path[len(before) : len(path) - len(behind)] for path in glob.glob(pattern))
    if not found:
        raise ConfigError(f"{pattern}: no file matches this pattern; check the path")
    return found


def check_pattern(pattern: str) -> None:
    """Raise ConfigError unless a pattern holds one `*`, and no other sign that stands for characters.

    >>> check_pattern("data/*.tsv")
    """
    if pattern.count("*") != 1 or _OTHERS.search(pattern):
        raise ConfigError(f"{pattern}: holds not one *; put it where the names of the sources differ")


def filled(value: Any, name: str) -> Any:
    """A value with a name in place of {name}, wherever text holds it.

    >>> filled([{"tag": "<2{name}>"}, 1], "de")
    [{'tag': '<2de>'}, 1]
    """
    if isinstance(value, str):
        return value.replace(NAME, name)
    if isinstance(value, Mapping):
        return {key: filled(item, name) for key, item in value.items()}
    return [filled(item, name) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Each:
    """Makes the sources of a pattern. cache: the folder for line indices; None for that of the user."""

    maker: Sources
    cache: Path | None

    def made(self, options: StreamOptions) -> Iterator[Source | None]:
        """The sources of the files that match a pattern."""
        if options.each is None or not (patterns := self._patterns(options.each)):
            return
        try:
            names = names_of(patterns[0])
        except VoltError as error:
            self.maker.notes.add(("each", "path" if options.each.pair is None else "pair"), error)
            return
        paths = [patterns[0].replace("*", name) for name in names]
        weights = [1.0] * len(names) if is_by_size(options) else self._weights(options.each, paths)
        for name, weight in zip(names, weights, strict=True):
            if name in options.sources:
                self.maker.notes.add(
                    ("each",), f"the source {name!r} is among sources, too; rename that, or match less"
                )
            yield self.maker.made(name, self._one(options.each, name, weight), options.transforms, ("each",))

    def _patterns(self, each: EachOptions) -> list[str]:
        """The pattern of the path, or those of the pair; none if something is wrong with one."""
        told = each.pair or ({"path": each.path} if each.path else {})
        place: Place = ("each", "pair") if each.pair else ("each",)
        if bool(each.path) == bool(each.pair):
            self.maker.notes.add(("each",), "give a path with one *, or a pair of such")
            return []
        n_problems = len(self.maker.notes.found)
        patterns = {name: self._pattern(path, (*place, name)) for name, path in told.items()}
        return list(patterns.values()) if len(self.maker.notes.found) == n_problems else []

    def _pattern(self, told: str | list[str], place: Place) -> str:
        if isinstance(told, list):
            self.maker.notes.add(place, "should be one pattern, not a list")
            return ""
        pattern = self.maker.file(told, place)
        try:
            check_pattern(pattern)
        except VoltError as error:
            self.maker.notes.add(place, error)
        return pattern

    def _weights(self, each: EachOptions, paths: list[str]) -> list[float]:
        """The share of each source, by the lines of its file."""
        sizes = list[int]()
        for path in paths:
            try:
                shard = open_shard(
                    path,
                    split_lines=each.split_lines,
                    fields=each.columns,
                    cache=self.cache,
                    max_line=each.max_line or None,
                )
            except VoltError as error:
                self.maker.notes.add(("each", "path" if each.pair is None else "pair"), error)
            else:
                sizes.append(shard.n_lines)
        if len(sizes) < len(paths):
            return [1.0] * len(paths)
        found = shares(sizes, temperature=each.temperature)
        if 0.0 in found:
            left = f"{each.temperature:g} leaves nothing to {shown_path(paths[found.index(0.0)])}; give a higher one"
            self.maker.notes.add(("each", "temperature"), left)
        return found

    def _one(self, each: EachOptions, name: str, share: float) -> SourceOptions:
        """The options of the source with a name."""
        path = None if each.path is None else str(each.path).replace("*", name)
        pair = None if each.pair is None else {field: str(file).replace("*", name) for field, file in each.pair.items()}
        weight = each.weight
        if isinstance(weight, float):
            weight = weight * share
        else:
            weight = weight.model_copy(update={"points": [(sample, value * share) for sample, value in weight.points]})
        told = {"path": path, "pair": pair, "weight": weight, "transforms": filled(each.transforms, name)}
        return each.model_copy(update=told)
