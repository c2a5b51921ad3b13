"""Corpus → its first bytes in growing sizes, and what counting, adding, learning and encoding them cost.

Each size is measured in a fresh process, because the peak of memory never falls. Seconds are those of the processor;
the loops are loaded before they are timed.

    python -m experiments.scale.sample PATH MERGES MIN_COUNT LEVEL        what `measured` runs: one size, as JSON
"""

from __future__ import annotations

import io
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import volt
from experiments.bench.measure import run
from volt.choose.vocabulary_at import vocabulary_at
from volt.errors import CorpusError, VoltError

WARM = "a few words to load what is compiled, a few words\n" * 30_000  # long enough to be counted by units
ENCODED = 1 << 24  # bytes of text that are encoded
BUFFER = 1 << 24
LEVELS = {"characters": "whitespace", "bytes": "bytes"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """One size.

    n_bytes: of text
    n_words, n_kept: distinct words, and those that occur often enough to be learned from
    wire: bytes of the table of all words, as a compressed Arrow file
    count, add, learn: CPU seconds; `add` is of adding the table to itself, so of 2 n_words rows
    encode: CPU seconds per byte
    start, counted, learned: peak memory in bytes when nothing has been counted, after counting, after learning
    """

    n_bytes: int
    n_words: int
    n_kept: int
    wire: int
    count: float
    add: float
    learn: float
    encode: float
    start: int
    counted: int
    learned: int


def cut(source: Path, target: Path, n_bytes: int) -> int:
    """Write the first lines of a file, as many as n_bytes hold, and at least one; returns their bytes.

    Raises CorpusError if the file has fewer bytes than that.
    """
    check_length(source, n_bytes)
    with source.open("rb") as file, target.open("wb") as out:
        left = n_bytes
        while left > BUFFER:
            left -= out.write(file.read(BUFFER))
        block = file.read(left)
        end = block.rfind(b"\n") + 1
        out.write(block[:end] if end else block + file.readline())
    return target.stat().st_size


def check_length(source: Path, n_bytes: int) -> None:
    """Raise CorpusError if a file has fewer bytes than that."""
    if (size := source.stat().st_size) < n_bytes:
        raise CorpusError(f"{source}: {size:,} bytes, and {n_bytes:,} are asked for; give a longer corpus")


def measured(
    source: Path, folder: Path, *, sizes: Sequence[int], n_merges: int, min_count: int, level: str
) -> list[Point]:
    """The points of growing sizes of a corpus. level: a key of LEVELS;  folder: for files that are removed again.

    Raises CorpusError if the corpus is too short, cannot be read, or has lines that are too long for that.
    """
    points: list[Point] = []
    for size in sizes:
        path = folder / "sample.txt"
        n_bytes = cut(source, path, size)
        if points and n_bytes <= points[-1].n_bytes:
            raise CorpusError(
                f"{source}: its first {sizes[-1]:,} bytes have too few lines to be measured in {len(sizes)} sizes; "
                "give shorter lines or more bytes"
            )
        command = [sys.executable, "-m", "experiments.scale.sample", str(path), str(n_merges), str(min_count)]
        command.append(level)
        done = run(command)
        path.unlink()
        if done.error:
            raise fault(done.error, path, source, f"its first {size:,} bytes could not be measured")
        points.append(Point(**json.loads(done.stdout)))
    return points


def fault(error: str, path: Path, source: Path, what: str) -> CorpusError:
    """What to raise where a program failed on the copy of a part of a source, whose lines are those of the source.

    error: the last line that it said

    >>> fault("exit 1: /tmp/a.txt:7: no UTF-8", Path("/tmp/a.txt"), Path("b.txt"), "cannot be counted")
    CorpusError('b.txt:7: no UTF-8')
    >>> fault("exit -9: ", Path("/tmp/a.txt"), Path("b.txt"), "cannot be counted")
    CorpusError('b.txt: cannot be counted: exit -9')
    """
    status, _, said = error.replace(str(path), str(source)).partition(": ")
    said = said.removeprefix("error ").partition(" or pass ")[0].strip()  # nothing can be passed here
    return CorpusError(said if said.startswith(str(source)) else f"{source}: {what}: {said or status}")


def main(arguments: Sequence[str]) -> None:
    """Measure one size."""
    path, n_merges, min_count, level = arguments
    try:
        point = point_of(Path(path), n_merges=int(n_merges), min_count=int(min_count), level=level)
    except VoltError as error:
        raise SystemExit(str(error)) from None
    print(json.dumps(asdict(point)))


def point_of(path: Path, *, n_merges: int, min_count: int, level: str) -> Point:
    """Measure a file in this process."""
    _warm(path.with_suffix(".warm"), LEVELS[level])
    start = _peak()
    count, counts = _timed(lambda: volt.count_words(path, pretokenizer=LEVELS[level]))
    counted = _peak()
    wire = io.BytesIO()
    counts.table.write_ipc(wire, compression="zstd")
    kept = counts.min_count(min_count)
    learn, candidates = _timed(lambda: volt.learn_bpe(kept, n_merges))
    learned = _peak()
    add, _ = _timed(lambda: counts + counts)
    encoder = volt.Encoder(vocabulary_at(candidates, candidates.n_tokens))
    with path.open("rb") as file:
        text = file.read(ENCODED)
    encode, _ = _timed(lambda: encoder.encode_bytes(text, n_threads=1))
    return Point(
        n_bytes=path.stat().st_size, n_words=counts.n_words, n_kept=kept.n_words, wire=wire.tell(), count=count,
        add=add, learn=learn, encode=encode / len(text), start=start, counted=counted, learned=learned,
    )  # fmt: skip


def _warm(path: Path, pretokenizer: str) -> None:
    path.write_text(WARM)
    counts = volt.count_words(path, pretokenizer=pretokenizer)
    path.unlink()
    candidates = volt.learn_bpe(counts + counts, 5)
    volt.Encoder(vocabulary_at(candidates, candidates.n_tokens)).encode_bytes(WARM.encode())


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of all threads of this process, and what came of it."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def _peak() -> int:
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main(sys.argv[1:])
