"""What it costs that a file which replaces another is on the disk before it takes its name.

    python experiments/bench/sync.py [--folder .] [--repeats 30]

A file is written whole three ways by turns: as a new one, over an old one, and over an old one without waiting for the
disk. Milliseconds, median and the slowest of ten. What it costs is the disk's affair, so choose the folder.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from unittest.mock import patch

from volt.files.atomic import write_atomic

SIZES = {"1 kB, a stream's state": 1_000, "1 MB, a vocabulary": 1_000_000, "100 MB, encoded text": 100_000_000}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    print("| file | new | replaced | replaced, not waited for |\n|---|---|---|---|")
    with TemporaryDirectory(dir=options.folder) as folder:
        for name, size in SIZES.items():
            repeats = options.repeats if size < 10_000_000 else max(5, options.repeats // 6)
            print(f"| {name} | {' | '.join(measured(Path(folder, 'a'), os.urandom(size), repeats))} |")


def measured(path: Path, data: bytes, repeats: int) -> list[str]:
    """Each way's cell of the table."""
    ways: list[Callable[[], float]] = [
        lambda: new(path, data), lambda: written(path, data), lambda: not_waited_for(path, data)
    ]  # fmt: skip
    rounds = [[way() for way in ways] for _ in range(repeats)]
    columns = [[1000 * seconds for seconds in column] for column in zip(*rounds, strict=True)]
    return [f"{median(column):.2f} ({quantiles(column, n=10)[-1]:.2f})" for column in columns]


def written(path: Path, data: bytes) -> float:
    """Seconds to write a file."""
    start = time.perf_counter()
    with write_atomic(path) as file:
        file.write(data)
    return time.perf_counter() - start


def new(path: Path, data: bytes) -> float:
    """Seconds to write one that is not there."""
    path.unlink(missing_ok=True)
    return written(path, data)


def not_waited_for(path: Path, data: bytes) -> float:
    """Seconds to replace one as if the disk were always at hand."""
    with patch("os.fsync"):
        return written(path, data)


if __name__ == "__main__":
    main()
