r"""The pipelines of stream.py: their configurations, their data, and the commands that run them in sotastream.

| pipeline | what it does |
| --- | --- |
| default | the shuffled lines of one source |
| case-noise | Figure 2 of the paper: two sources, one tagged, 4 % in lower and 1 % in title case |
| filters | case-noise with bitext, length and ratio filters, and typos in 1 % of the source side's characters |
| user-light, user | a light and a heavy Python function for each line (user_steps.py) |
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

SHARD_LINES = 100_000
HERE = Path(__file__).parent
_CASES = "choice: [{weight: 0.95}, {weight: 0.04, transforms: [lower: {fields: [1]}]}, {weight: 0.01, transforms: [title]}]"
_NOISE = (_CASES, "keep_fields: [1, 2]")
_FILTERS = (
    "bitext",
    "length: {max: 100, unit: words}",
    "ratio: 3",
    _CASES,
    "typos: {rate: 0.01, fields: [1]}",
)


def source(name: str, transforms: Iterable[str] = ()) -> str:
    steps = "".join(f"\n      - {step}" for step in transforms)
    head = f"  {name}:\n    path: shards\n    block_lines: {SHARD_LINES}\n"
    return f"{head}    transforms:{steps}\n" if steps else head


def two(transforms: Sequence[str]) -> str:
    return source("parallel", transforms) + source("back", [*transforms, 'tag: "[BT]"'])


PIPELINES = {
    "default": source("lines"),
    "case-noise": two(_NOISE),
    "filters": two(_FILTERS),
    "user-light": source("lines", ["user: {file: user_steps.py, function: recased}"]),
    "user": source("lines", ["user: {file: user_steps.py, function: tidy}"]),
}
PEERS = {  # sotastream's name of a pipeline, and its sources
    "default": ("default", 1),
    "case-noise": ("example", 2),
    "filters": ("filters", 2),
    "user": ("user", 1),
    "user-light": ("user-light", 1),
}


def make_data(folder: Path, names: Sequence[str], *, texts: Sequence[Path], n_shards: int) -> None:
    """Write shards, configurations and user code. texts: parallel, one for each field"""
    write_shards(read_rows(texts), folder / "shards", n_lines=n_shards * SHARD_LINES)
    for file in ("user_steps.py", "sotastream_pipelines.py"):
        shutil.copy(HERE / file, folder / file.replace("pipelines", "pipeline"))
    for name in names:
        (folder / f"{name}.yaml").write_text(f"sources:\n{PIPELINES[name]}")


def read_rows(sources: Sequence[Path]) -> list[tuple[str, ...]]:
    columns = []
    for path in sources:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            text = file.read().decode().removesuffix("\n")
        columns.append([line.replace("\t", " ") for line in text.split("\n")])
    return list(zip(*columns, strict=True))


def write_shards(rows: Sequence[tuple[str, ...]], folder: Path, *, n_lines: int) -> None:
    lines = ["\t".join(row).encode() + b"\n" for row in rows]
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, n_lines, SHARD_LINES)):
        chosen = (lines[i % len(lines)] for i in range(start, start + SHARD_LINES))
        (folder / f"{number:03}.gz").write_bytes(gzip.compress(b"".join(chosen), 6))


def peer_command(venv: Path, folder: Path, name: str, *, n_processes: int) -> list[str]:
    """Return the command that runs sotastream's pipeline in the folder of the data."""
    pipeline, n_sources = PEERS[name]
    options = ["--quiet", "--seed", "1", "-n", str(n_processes), "--buffer-size", str(SHARD_LINES)]
    command = [str(venv / "bin" / "python"), "-m", "sotastream", *options, pipeline]
    return [*command, *[str(folder / "shards")] * n_sources]
