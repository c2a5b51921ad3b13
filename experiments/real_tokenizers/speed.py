"""A tokenizer's file and a file of text → processor seconds of VOLT and of the original, with one thread each.

load: from the tokenizer's file to the ids of a line of one word, so that all tables are made
new: from a file of text to its ids, which is the first text but for that line
warm: the same text once more

Seconds are those of the processor, which another program beside it does not change much. Both sides take turns, and
the compiled code of both has run before. Libraries that want lines read the file and cut it within the call, as VOLT
does.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import volt
from experiments.real_tokenizers.comparing import Pair, read_with_volt
from experiments.real_tokenizers.finding import Found
from experiments.real_tokenizers.originals import load

N_ROUNDS = 3
Encode = Callable[[Path], object]  # a file of text → its ids


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one side, medians of some rounds."""

    load: float
    new: float
    warm: float


@dataclass(frozen=True, slots=True)
class Speed:
    """Times of both sides. n_bytes: the size of the text"""

    text_name: str
    n_bytes: int
    theirs: Times
    ours: Times


def measure(found: Found, pair: Pair, path: Path, name: str, *, n_rounds: int = N_ROUNDS) -> Speed:
    """Both sides on one file of text."""
    volt.Encoder(pair.vocabulary).encode_file(path, n_threads=1, max_line=None)
    rows = [
        (_timed(lambda: _theirs(found), path), _timed(lambda: _ours(found, pair), path))
        for _ in range(n_rounds)
    ]
    theirs, ours = (_medians([row[side] for row in rows]) for side in (0, 1))
    return Speed(name, path.stat().st_size, theirs, ours)


def _medians(rounds: list[Times]) -> Times:
    """The median of each time.

    >>> _medians([Times(1, 5, 2), Times(3, 4, 0), Times(2, 6, 1)])
    Times(load=2, new=5, warm=1)
    """
    names = ("load", "new", "warm")
    return Times(*(statistics.median(getattr(times, name) for times in rounds) for name in names))


def _timed(make: Callable[[], Encode], path: Path) -> Times:
    """The seconds of one side, which `make` loads."""
    with tempfile.NamedTemporaryFile() as word:
        Path(word.name).write_text("word\n")
        loaded: list[Encode] = []
        load_time = _seconds(lambda: loaded.append(_tried(make(), Path(word.name))))
    return Times(load_time, *(_seconds(lambda: loaded[0](path)) for _ in range(2)))


def _tried(encode: Encode, path: Path) -> Encode:
    """The same encoder, used once."""
    encode(path)
    return encode


def _seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _theirs(found: Found) -> Encode:
    encode = load(found).encode
    return lambda path: encode(path.read_bytes().decode().split("\n")[:-1])


def _ours(found: Found, pair: Pair) -> Encode:
    encoder = volt.Encoder(read_with_volt(found.path, pair.original.pattern))
    return lambda path: encoder.encode_file(path, n_threads=1, max_line=None)
