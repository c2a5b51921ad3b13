"""Lines per second that a stream gives to a consumer that counts them, against sotastream, in one run.

    python experiments/bench/stream.py --lines train.de.gz train.en.gz --peers VENV -o stream.json
    python experiments/bench/stream.py --lines … --pipelines case-noise      of the three, this one alone
    python experiments/bench/stream.py --lines … --config mine.yaml          this configuration alone, without peers

Three pipelines: `default` reads one source; `case-noise` is Figure 2, which sotastream calls `example`; `pieces`
encodes all fields with a vocabulary of 8,000 tokens, for which there is no peer. Each text of --lines is a field.

Each program runs as a process of its own and writes lines to a pipe; this process reads the pipe and counts line ends.
The clock runs from the first line on for --seconds (what a trainer sees), so neither start-up nor the first block
count; the time to the first line is told beside it, and so is the one-time cost of indexing. What had been computed
ahead when the first line came is a few blocks, which so many seconds make small. Both programs read the same folder of
.gz shards without end and hold the same number of lines for shuffling. Rounds
go through all programs in turn, so that a change of the machine's load meets each; the median over rounds is told.
VENV is a virtual environment with sotastream 1.0.1 installed; without it only VOLT runs.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from measure import describe, machine, markdown_table, write_json

SHARD_LINES = 100_000
WORKERS = (1, 2)
_NOISE = """
    transforms:
      - choice:
          - {weight: 0.95}
          - {weight: 0.04, transforms: [lower: {fields: [1]}]}
          - {weight: 0.01, transforms: [title]}
      - keep_fields: [1, 2]
"""
CONFIGS = {
    "default": "sources: {lines: {path: shards, block_lines: 100000}}",
    "case-noise": f"""
sources:
  parallel:
    path: shards
    block_lines: 100000{_NOISE}
  back:
    path: shards
    block_lines: 100000{_NOISE}
      - tag: "[BT]"
""",
    "pieces": """
sources:
  lines:
    path: shards
    block_lines: 100000
    transforms: [encode: {vocabulary: vocab.volt}]
""",
}
PEER_PIPELINES = {"default": ("default", 1), "case-noise": ("example", 2)}  # sotastream's name, and how many sources


@dataclass(frozen=True, slots=True)
class Flow:
    """One run: lines counted, seconds from the first to the last, and to the first;  error: why it failed."""

    lines: int
    seconds: float
    first: float
    error: str = ""

    @property
    def rate(self) -> float:
        """Lines per second."""
        return self.lines / self.seconds if self.seconds else 0.0


def flow(command: Sequence[str], *, seconds: float) -> Flow:
    """Run a command for so many seconds from its first line on, and end it."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, start_new_session=True)
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.alarm(int(seconds) + 300)
        try:
            found = _count(process, seconds, start)
        finally:
            signal.alarm(0)
            _end(process)
        told.seek(0)
        error = told.read().decode(errors="replace").strip().rpartition("\n")[2]
    return found if found.seconds >= seconds else Flow(0, 0, 0, error=error or "it ended by itself")


def _count(process: subprocess.Popen[bytes], seconds: float, start: float) -> Flow:
    assert process.stdout
    pipe, lines = process.stdout.fileno(), 0
    data = os.read(pipe, 1 << 20)
    first = time.perf_counter()
    while time.perf_counter() < first + seconds and (data := os.read(pipe, 1 << 20)):
        lines += data.count(b"\n")
    return Flow(lines, time.perf_counter() - first, first - start)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started."""
    assert process.stdout
    process.stdout.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def feed(arguments: argparse.Namespace) -> None:
    """Write a stream to stdout: what the other process counts."""
    from volt.stream import Stream

    with Stream.from_config(arguments.config, n_workers=arguments.workers, cache=arguments.cache) as stream:
        for block in stream.blocks():
            sys.stdout.buffer.write(block)


def read_lines(sources: Sequence[Path]) -> list[bytes]:
    """The lines of parallel texts, a field for each."""
    columns = []
    for source in sources:
        with (gzip.open if source.suffix == ".gz" else open)(source, "rb") as file:
            columns.append([line.replace(b"\t", b" ") for line in file.read().removesuffix(b"\n").split(b"\n")])
    return [b"\t".join(row) + b"\n" for row in zip(*columns, strict=True)]


def make_shards(sources: Sequence[Path], folder: Path, *, n_lines: int) -> Path:
    """So many lines of the texts, repeated as often as needed, as .gz shards."""
    lines = read_lines(sources)
    folder.mkdir()
    for number, start in enumerate(range(0, n_lines, SHARD_LINES)):
        chosen = (lines[i % len(lines)] for i in range(start, start + SHARD_LINES))
        (folder / f"{number:03}.gz").write_bytes(gzip.compress(b"".join(chosen), 6))
    return folder


def make_configs(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The configurations of pipelines, and a vocabulary if one needs it: name → path."""
    import volt

    if "pieces" in names:
        candidates = volt.learn_bpe(volt.count_words(folder / "shards" / "000.gz"), n_merges=8_000)
        result = volt.search(candidates, sizes=[8_000], select="fixed:8000")
        result.vocabulary.save(folder / "vocab.volt")
    for name in names:
        (folder / f"{name}.yaml").write_text(CONFIGS[name])
    return {name: str(folder / f"{name}.yaml") for name in names}


def commands(arguments: argparse.Namespace, folder: Path, config: tuple[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Name and command of everything that is measured of a pipeline."""
    name, path = config
    for n in WORKERS:
        own = [sys.executable, __file__, "feed", "--config", path, "--cache", str(folder / "cache")]
        yield f"{name}: volt, {n} worker{'s' * (n > 1)}", [*own, "--workers", str(n)]
    for n in WORKERS if arguments.peers and name in PEER_PIPELINES else ():
        pipeline, n_sources = PEER_PIPELINES[name]
        script = str(Path(arguments.peers, "bin", "sotastream"))
        options = ["--quiet", "--seed", "1", "-n", str(n), "--buffer-size", str(SHARD_LINES)]
        sources = [str(folder / "shards")] * n_sources
        yield f"{name}: sotastream, {n} process{'es' * (n > 1)}", [script, *options, pipeline, *sources]


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure all, in rounds."""
    folder = Path(tempfile.mkdtemp(prefix="volt-stream-"))
    try:
        make_shards(arguments.lines, folder / "shards", n_lines=arguments.n_shards * SHARD_LINES)
        configs = {"given": arguments.config} if arguments.config else make_configs(folder, arguments.pipelines)
        todo = dict(part for config in configs.items() for part in commands(arguments, folder, config))
        before, facts = time.perf_counter(), machine("volt-vocab", "numpy")
        indexed = flow(next(iter(todo.values())), seconds=0)
        indexing = time.perf_counter() - before
        flows: dict[str, list[Flow]] = {name: [] for name in todo}
        for _ in range(arguments.rounds):
            for name, command in todo.items():
                flows[name].append(flow(command, seconds=arguments.seconds))
                print(name, flows[name][-1], file=sys.stderr)
    finally:
        shutil.rmtree(folder)
    rows = {name: _row(found) for name, found in flows.items()}
    first = {"seconds": round(indexing, 2), "error": indexed.error}
    size = {"shards": arguments.n_shards, "shard_lines": SHARD_LINES, "seconds": arguments.seconds}
    return {"machine": facts, **size, "first_start": first, "programs": rows}


def _row(found: Sequence[Flow]) -> dict[str, Any]:
    good = [one for one in found if not one.error]
    row: dict[str, Any] = {"runs": [asdict(one) for one in found]}
    if good:
        row["lines_per_second"] = round(median(one.rate for one in good))
        row["seconds_to_first_line"] = round(median(one.first for one in good), 2)
    return row


def table(result: dict[str, Any]) -> str:
    """The medians as Markdown."""
    rows = [
        [name, f"{row['lines_per_second']:,}", f"{row['seconds_to_first_line']}"]
        if "lines_per_second" in row
        else [name, row["runs"][-1]["error"], ""]
        for name, row in result["programs"].items()
    ]
    return markdown_table(["program", "lines/s", "s to the first line"], rows)


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", nargs="?", choices=["compare", "feed"], default="compare")
    parser.add_argument("--lines", type=Path, nargs="+", help="parallel texts, plain or .gz, of which shards are made")
    parser.add_argument("--cache", help="feed: the folder for indices")
    parser.add_argument("--workers", type=int, default=1, help="feed: worker processes")
    parser.add_argument("--config", help="a configuration instead of the pipelines; feed: what to read")
    parser.add_argument("--pipelines", nargs="+", choices=CONFIGS, default=list(CONFIGS))
    parser.add_argument("--peers", help="a virtual environment with sotastream")
    parser.add_argument("--n-shards", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=4, help="how long a run is measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    if arguments.job == "feed":
        feed(arguments)
        return
    if not arguments.lines:
        parser.error("name a text with --lines")
    result = compare(arguments)
    print(describe(result["machine"]), "", table(result), sep="\n")
    if arguments.output:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
