"""The benchmark's pipelines for sotastream 1.0.1, as its users write them: generators over lines.

sotastream loads files named `*_pipeline.py` in its working folder, so a run has a copy of this file there, and of
user_steps.py. Each pipeline does what the configuration of the same name in stream_rows.py does. Typos cost a random
number for each line and three for each typo, not one for each character.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from sotastream.augmentors import Mixer, Tagger, UTF8File
from sotastream.data import Line
from sotastream.filters import SkipBlanks
from sotastream.pipelines import Pipeline, pipeline
from user_steps import recased, tidy

Lines = Iterator[Line]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def fitting(stream: Lines, *, most: int, ratio: float) -> Lines:
    """Drop lines with too many words on a side, or sides of too different lengths."""
    for line in stream:
        n, m = len(line[0].split()), len(line[1].split())
        if max(n, m) <= most and n <= ratio * m and m <= ratio * n:
            yield line


def cased(stream: Lines, change: Callable[[str], str], sides: tuple[int, ...]) -> Lines:
    for line in stream:
        for side in sides:
            line[side] = change(line[side])
        yield line


def misspelt(stream: Lines, rate: float) -> Lines:
    """Swap, drop, double or replace a share of the characters of the source side."""
    for line in stream:
        text = line[0]
        for _ in range(int(len(text) * rate + random.random())):
            place, kind = int(random.random() * len(text)), int(random.random() * 4)
            before, at, after = text[:place], text[place : place + 1], text[place + 1 :]
            letter = LETTERS[int(random.random() * 26)]
            text = (
                before + (after[:1] + at + after[1:], after, at + at + after, letter + after)[kind]
            )
        line[0] = text
        yield line


def changed(stream: Lines, function: Callable[[list[str]], list[str]]) -> Lines:
    for line in stream:
        line.fields = function(line.fields)
        yield line


def read_filtered(path: str, tag: str = "") -> Iterable[Line]:
    stream = fitting(SkipBlanks(UTF8File(path)), most=100, ratio=3)
    noisy = [stream, cased(stream, str.lower, (0,)), cased(stream, str.title, (0, 1))]
    stream = misspelt(Mixer(noisy, [0.95, 0.04, 0.01]), 0.01)
    return Tagger(stream, f"{tag} ") if tag else stream


def read_changed(path: str, function: Callable[[list[str]], list[str]]) -> Iterable[Line]:
    return changed(UTF8File(path), function)


@pipeline("filters")
class Filters(Pipeline):
    """Two sources with filters and noise."""

    def __init__(self, parallel: str, back: str, **options: Any) -> None:
        super().__init__(**options)
        tagged = partial(read_filtered, tag="[BT]")
        sources = [
            self.create_data_stream(parallel, processor=read_filtered),
            self.create_data_stream(back, processor=tagged),
        ]
        self.stream = Mixer(sources, self.mix_weights)

    @classmethod
    def get_data_sources_for_argparse(cls) -> list[tuple[str, str]]:
        return [("parallel", "folder with .gz files"), ("back", "the same, back-translated")]

    @classmethod
    def get_data_sources_default_weights(cls) -> list[float]:
        return [0.5, 0.5]


@pipeline("user")
class User(Pipeline):
    """A heavy Python function for each line."""

    function = staticmethod(tidy)

    def __init__(self, data: str, **options: Any) -> None:
        super().__init__(**options)
        self.stream = self.create_data_stream(
            data, processor=partial(read_changed, function=self.function)
        )

    @classmethod
    def get_data_sources_for_argparse(cls) -> list[tuple[str, str]]:
        return [("data", "folder with .gz files")]


@pipeline("user-light")
class LightUser(User):
    """A light Python function for each line."""

    function = staticmethod(recased)
