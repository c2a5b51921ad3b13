"""The benchmark's pipelines for sotastream 1.0.1, as its users write them: generators over lines.

sotastream loads what is called `*_pipeline.py` in the folder that it runs in, so a run has a copy of this file there,
and of user_steps.py. What each pipeline does, in which order, is what the configuration of the same name in
stream_rows.py does. Typos cost a random number for each line and three for each typo, not one for each character.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sotastream.augmentors import Mixer, SPMEncoder, Tagger, UTF8File
from sotastream.data import Line
from sotastream.filters import SkipBlanks
from sotastream.pipelines import Pipeline, pipeline
from user_steps import recased, tidy

Lines = Iterator[Line]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def within_length(stream: Lines, most: int) -> Lines:
    """Drop lines with a side of more words."""
    for line in stream:
        if len(line[0].split()) <= most and len(line[1].split()) <= most:
            yield line


def within_ratio(stream: Lines, most: float) -> Lines:
    """Drop lines whose longer side has more than so many times the words of the shorter."""
    for line in stream:
        source, target = len(line[0].split()), len(line[1].split())
        if source <= most * target and target <= most * source:
            yield line


def lowered(stream: Lines) -> Lines:
    """The source side in lower case."""
    for line in stream:
        line[0] = line[0].lower()
        yield line


def titled(stream: Lines) -> Lines:
    """Both sides in title case."""
    for line in stream:
        line[0] = line[0].title()
        line[1] = line[1].title()
        yield line


def misspelt(stream: Lines, rate: float) -> Lines:
    """A share of the characters of the source side swapped with the next, left out, doubled or replaced."""
    for line in stream:
        text = line[0]
        n = int(len(text) * rate + random.random())
        if n:
            line[0] = _with_typos(text, n)
        yield line


def _with_typos(text: str, n: int) -> str:
    for _ in range(n):
        place, kind = int(random.random() * len(text)), int(random.random() * 4)
        before, at, after = text[:place], text[place : place + 1], text[place + 1 :]
        if kind == 0:
            text = before + after[:1] + at + after[1:]
        elif kind == 1:
            text = before + after
        elif kind == 2:
            text = before + at + at + after
        else:
            text = before + LETTERS[int(random.random() * 26)] + after
    return text


def user(stream: Lines, function: Callable[[list[str]], list[str]]) -> Lines:
    """A function of the user's."""
    for line in stream:
        line.fields = function(line.fields)
        yield line


def read_filtered(path: str, tag: str = "") -> Iterable[Line]:
    """P1: a shard through three filters, case noise and typos, and tagged if a tag is given."""
    stream = within_ratio(within_length(SkipBlanks(UTF8File(path)), 100), 3)
    stream = misspelt(Mixer([stream, lowered(stream), titled(stream)], [0.95, 0.04, 0.01]), 0.01)
    return Tagger(stream, f"{tag} ") if tag else stream


def read_tagged(path: str, tag: str) -> Iterable[Line]:
    """P3: a shard with the tag of its language."""
    return Tagger(UTF8File(path), f"{tag} ")


def read_changed(path: str, function: Callable[[list[str]], list[str]]) -> Iterable[Line]:
    """A shard through a function of the user's."""
    return user(UTF8File(path), function)


class OneSource(Pipeline):
    """A pipeline that is told one folder."""

    @classmethod
    def get_data_sources_for_argparse(cls) -> list[tuple[str, str]]:
        """What the command line takes."""
        return [("data", "folder with .gz files")]


@pipeline("p1-filters")
class Filters(Pipeline):
    """P1: two sources."""

    def __init__(self, parallel: str, back: str, **options: Any) -> None:
        super().__init__(**options)
        sources = [
            self.create_data_stream(parallel, processor=read_filtered),
            self.create_data_stream(back, processor=partial(read_filtered, tag="[BT]")),
        ]
        self.stream = Mixer(sources, self.mix_weights)

    @classmethod
    def get_data_sources_for_argparse(cls) -> list[tuple[str, str]]:
        """What the command line takes."""
        return [("parallel", "folder with .gz files"), ("back", "the same, back-translated")]

    @classmethod
    def get_data_sources_default_weights(cls) -> list[float]:
        """Equal."""
        return [0.5, 0.5]


@pipeline("p3-languages")
class Languages(Pipeline):
    """P3: any number of sources, whose folders are called `…-LANGUAGE`, each with its tag."""

    def __init__(self, paths: list[str], mix_weights: list[float], **options: Any) -> None:
        options.pop("data_sources", None)  # would hold the list inside a list
        super().__init__(mix_weights=mix_weights, data_sources=paths, **options)
        sources = [
            self.create_data_stream(path, processor=partial(read_tagged, tag=f"<2{Path(path).name.split('-')[-1]}>"))
            for path in paths
        ]
        self.stream = Mixer(sources, self.mix_weights)

    @classmethod
    def get_data_sources_for_argparse(cls) -> list[tuple[str, str, str]]:
        """What the command line takes."""
        return [("paths", "folders with .gz files", "+")]

    @classmethod
    def get_data_sources_default_weights(cls) -> list[Any]:
        """One for each folder, of which the number is not known here."""
        return ["+"]


@pipeline("p4-ids")
class Ids(OneSource):
    """P4, as far as it goes: pieces of a SentencePiece model by sotastream's own augmentor."""

    def __init__(self, data: str, **options: Any) -> None:
        super().__init__(**options)
        self.stream = SPMEncoder(self.create_data_stream(data), self.spm_model)


@pipeline("user")
class User(OneSource):
    """A function of the user's for each line."""

    def __init__(self, data: str, **options: Any) -> None:
        super().__init__(**options)
        self.stream = self.create_data_stream(data, processor=partial(read_changed, function=tidy))


@pipeline("user-light")
class LightUser(OneSource):
    """A function that does next to nothing, for each line."""

    def __init__(self, data: str, **options: Any) -> None:
        super().__init__(**options)
        self.stream = self.create_data_stream(data, processor=partial(read_changed, function=recased))
