"""Seconds, rates and memory of streams with many sources, many shards, or many lines.

    python experiments/bench/stream_scale.py [--repeats 3] [--links 200] [--lines 1_000_000] [--cases one many]

    one      150,000 lines of Multi30k in one file
    many     the same lines as 150 sources of 1,000 lines
    shards   one source of 2,000 files of 1,000 lines
    long     one source of --links hard links to one file of a million short lines, so that the disk suffices

VOLT_DATA names the folder of Multi30k. Each run is a process: a first one with an empty cache of indices, then others
with a full cache. Rates are those of lines after the first block, in the reading thread.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from measure import describe, machine, markdown_table, parser, run
from texts import data_folder, temporary_folder

CASES = ("one", "many", "shards", "long")
FIGURES = ("open", "first", "CPU open", "lines/s", "lines/CPU s", "MB")
N_SOURCES, N_SHARDS, N_LINES = 150, 2_000, 1_000


def write(folder: Path, lines: Sequence[bytes], counts: Sequence[int]) -> list[str]:
    """Write files of these numbers of lines, which start at different lines; return their paths."""
    folder.mkdir()
    paths = [folder / f"{number:05}.txt" for number in range(len(counts))]
    for number, (path, count) in enumerate(zip(paths, counts, strict=True)):
        first = number * N_LINES % (len(lines) - count + 1)
        path.write_bytes(b"\n".join([*lines[first : first + count], b""]))
    return list(map(str, paths))


def make(folder: Path, n_links: int) -> dict[str, list[list[str]]]:
    """Write the files of all cases; return the paths of each source."""
    texts = [
        gzip.decompress((data_folder() / f"multi30k/train.{one}.gz").read_bytes())
        for one in ("de", "en", "fr", "cs", "de", "en")
    ]
    lines = b"".join(texts).split(b"\n")[: N_SOURCES * N_LINES]
    many = write(folder / "many", lines, [N_LINES] * N_SOURCES)
    [long] = write(folder / "long", [b"%d line" % number for number in range(10**6)], [10**6])
    links = [f"{long}.{number:05}" for number in range(n_links)]
    for link in links:
        os.link(long, link)
    return {
        "one": [write(folder / "one", lines, [len(lines)])],
        "many": [[path] for path in many],
        "shards": [write(folder / "shards", lines, [N_LINES] * N_SHARDS)],
        "long": [links],
    }


def measure(sources: Sequence[Sequence[str]], cache: str, n_lines: int) -> dict[str, float]:
    from volt.stream import Source, Stream

    start, cpu = time.perf_counter(), time.process_time()
    stream = Stream([Source(paths[0], tuple(paths)) for paths in sources], seed=1, cache=cache)
    opened, cpu = time.perf_counter(), time.process_time() - cpu
    next(stream.blocks(limit=1))
    first = time.perf_counter()
    next(blocks := stream.blocks(limit=n_lines))
    begun, used, before = time.perf_counter(), time.process_time(), stream.n
    for _ in blocks:
        pass
    n, used = stream.n - before, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return dict(
        zip(
            FIGURES,
            (
                opened - start,
                first - opened,
                cpu,
                n / (time.perf_counter() - begun),
                n / used,
                peak,
            ),
            strict=True,
        )
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    arguments.add_argument("--links", type=int, default=200, help="files of a million lines")
    arguments.add_argument("--lines", type=int, default=1_000_000, help="to read in each run")
    given, rows = arguments.parse_args(), dict[str, list[list[float]]]()
    with temporary_folder() as folder:
        for case, sources in make(folder, given.links).items():
            (folder / f"{case}.json").write_text(json.dumps(sources))
        for repeat in range(given.repeats + 1):
            for case in given.cases:
                command = [
                    sys.executable,
                    __file__,
                    "measure",
                    str(folder / f"{case}.json"),
                    str(folder / "cache"),
                ]
                done = run([*command, str(given.lines)])
                if done.error:
                    sys.exit(f"{case}: {done.error}")
                name = f"{case}, empty cache" if repeat == 0 else case
                rows.setdefault(name, []).append(
                    [json.loads(done.stdout)[figure] for figure in FIGURES]
                )
    cells = [
        [
            name,
            *(
                f"{median(one):,.3g}" if median(one) < 100 else f"{median(one):,.0f}"
                for one in zip(*runs, strict=True)
            ),
        ]
        for name, runs in rows.items()
    ]
    print(
        describe(machine("volt-vocab", "numpy", "numba")),
        markdown_table(["case", *FIGURES], cells),
        sep="\n\n",
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(
            json.dumps(
                measure(json.loads(Path(sys.argv[2]).read_text()), sys.argv[3], int(sys.argv[4]))
            )
        )
    else:
        main()
