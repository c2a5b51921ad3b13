"""A file of text and both sides → processor seconds from file to ids, new and warm, with one thread each.

new: the first call of a new encoder; the compiled code has run before, on another text
warm: the second call of the same encoder

Seconds are those of the processor, which another program beside it does not change. Both sides take turns. Libraries
that want lines read the file and cut it within the call, as VOLT does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import volt
from experiments.real_tokenizers.comparing import Pair
from experiments.real_tokenizers.finding import Found
from experiments.real_tokenizers.originals import Encode, load

N_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds, medians of some rounds; n_bytes: of the text."""

    text_name: str
    n_bytes: int
    theirs_new: float
    ours_new: float
    theirs_warm: float
    ours_warm: float

    @property
    def ratios(self) -> tuple[float, float]:
        """How many times faster VOLT is, new and warm."""
        return self.theirs_new / self.ours_new, self.theirs_warm / self.ours_warm


def measure(found: Found, pair: Pair, path: Path, name: str, *, n_rounds: int = N_ROUNDS) -> Speed:
    """Both sides on one file of text."""
    _ours(volt.Encoder(pair.vocabulary), path)()
    theirs, ours = [], []
    for _ in range(n_rounds):
        theirs.append(_twice(_theirs(load(found).encode, path)))
        ours.append(_twice(_ours(volt.Encoder(pair.vocabulary), path)))
    medians = [statistics.median(rows) for side in (theirs, ours) for rows in zip(*side, strict=True)]
    return Speed(name, path.stat().st_size, medians[0], medians[2], medians[1], medians[3])


def _twice(call: Callable[[], object]) -> tuple[float, float]:
    """The seconds of two calls."""
    times = []
    for _ in range(2):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return times[0], times[1]


def _theirs(encode: Encode, path: Path) -> Callable[[], object]:
    return lambda: encode(path.read_bytes().decode().split("\n")[:-1])


def _ours(encoder: volt.Encoder, path: Path) -> Callable[[], object]:
    return lambda: encoder.encode_file(path, n_threads=1, max_line=None)
