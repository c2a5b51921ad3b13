"""What the tests of datasets share: small steps that workers can open, and the lines that batches hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from streams import numbered

from volt.batches import ByTokens, SampleFormat, Steps
from volt.stream import Source, Stream

TOKENS = ["<pad>", "</s>", "<unk>", "a", "b"]
N_LINES = 40


def small_steps(
    folder: Path, *, rank: int = 0, world: int = 1, epochs: int | None = 1, window: int = 16, tokens: int = 12,
    vocabulary: list[str] | None = None, n_workers: int = 0,
) -> Steps:  # fmt: skip
    """Steps of few batches, for a folder where `write_lines` was called."""
    paths = sorted(map(str, folder.glob("lines.*.tsv")))
    stream = Stream(
        [Source("lines", tuple(paths), epochs=epochs, block_lines=8)], seed=3, cache=folder / "cache", n_workers=n_workers
    )
    format = SampleFormat({"text": vocabulary or TOKENS}, unknown="replace")
    return Steps(stream, format, ByTokens(max_tokens=tokens, multiple=1), window=window, rank=rank, world=world)


def write_small(folder: Path, n: int = N_LINES) -> Path:
    """Lines of one to four tokens."""
    from streams import write_lines

    write_lines(folder / "lines.0.tsv", [" ".join("ab"[(i >> k) & 1] for k in range(1 + i % 4)) for i in range(n)])
    return folder


def ids(batches: Iterable[Mapping[str, Any]]) -> list[list[int]]:
    """The numbers of the lines of each batch."""
    return [batch["id"].tolist() for batch in batches]


def plain(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A batch as lists."""
    return {
        name: plain(value) if isinstance(value, Mapping) else getattr(value, "tolist", lambda value=value: value)()
        for name, value in batch.items()
    }


def lost_and_repeated(given: Iterable[list[int]], n: int = N_LINES) -> tuple[int, int]:
    """How many of the lines 0 … n − 1 are in no batch, and how many batches hold a line that another holds."""
    counts = Counter(number for numbers in given for number in numbers)
    return sum(number not in counts for number in range(n)), sum(count - 1 for count in counts.values())
