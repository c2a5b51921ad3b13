r"""The pipelines of stream.py: their configurations, their data, and the commands that run them in sotastream.

| pipeline | what it does |
| --- | --- |
| default | the shuffled lines of one source |
| case-noise | Figure 2 of the paper: two sources, one tagged, 4 % in lower and 1 % in title case |
| filters | case-noise with bitext, length and ratio filters, and typos in 1 % of the source side's characters |
| languages | five sources, each with the tag of its language, weights at temperature 5 |
| user-light, user | a light and a heavy Python function for each line (user_steps.py) |
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, cycle, islice
from pathlib import Path

SHARD_LINES = 100_000
N_LANGUAGES, TEMPERATURE = 5, 5
HERE = Path(__file__).parent
_CASES = (
    "choice: [{weight: 0.95}, {weight: 0.04, transforms: [lower: {fields: [1]}]}, {weight: 0.01, transforms: [title]}]"
)
_NOISE = (_CASES, "keep_fields: [1, 2]")
_FILTERS = ("bitext", "length: {max: 100, unit: words}", "ratio: 3", _CASES, "typos: {rate: 0.01, fields: [1]}")


def source(name: str, transforms: Iterable[str] = (), *, path: str = "shards", more: str = "") -> str:
    steps = "".join(f"\n      - {step}" for step in transforms)
    head = f"  {name}:\n    path: {path}\n    block_lines: {SHARD_LINES}\n{more}"
    return f"{head}    transforms:{steps}\n" if steps else head


def two(transforms: Sequence[str]) -> str:
    return source("parallel", transforms) + source("back", [*transforms, 'tag: "[BT]"'])


PIPELINES = {
    "default": source("lines"),
    "case-noise": two(_NOISE),
    "filters": two(_FILTERS),
    "languages": "",  # depends on the sizes
    "user-light": source("lines", ["user: {file: user_steps.py, function: recased}"]),
    "user": source("lines", ["user: {file: user_steps.py, function: tidy}"]),
}
PEERS = {  # sotastream's name of a pipeline, and its folders
    "default": ("default", ["shards"]),
    "case-noise": ("example", ["shards", "shards"]),
    "filters": ("filters", ["shards", "shards"]),
    "languages": ("languages", ["languages/*"]),
    "user": ("user", ["shards"]),
    "user-light": ("user-light", ["shards"]),
}


def make_data(
    folder: Path, names: Sequence[str], *, texts: Sequence[Path], languages: Sequence[Path], n_shards: int
) -> None:
    """Write shards, configurations and user code for pipelines.

    texts: parallel, one for each field;  languages: parallel, from which pairs are made
    """
    write_shards(read_rows(texts), folder / "shards", n_lines=n_shards * SHARD_LINES)
    configs = {name: PIPELINES[name] for name in names}
    if "languages" in names:
        configs["languages"] = languages_config(make_languages(folder / "languages", languages, n_shards=n_shards))
    for file in ("user_steps.py", "sotastream_pipelines.py"):
        shutil.copy(HERE / file, folder / file.replace("pipelines", "pipeline"))
    for name, config in configs.items():
        (folder / f"{name}.yaml").write_text(f"sources:\n{config}")


def read_rows(sources: Sequence[Path]) -> list[tuple[str, ...]]:
    columns = []
    for path in sources:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            text = file.read().decode().removesuffix("\n")
        columns.append([line.replace("\t", " ") for line in text.split("\n")])
    return list(zip(*columns, strict=True))


def write_shards(rows: Sequence[tuple[str, ...]], folder: Path, *, n_lines: int) -> None:
    """Write .gz shards of n_lines lines, repeated as often as needed."""
    lines = ["\t".join(row).encode() + b"\n" for row in rows]
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, n_lines, SHARD_LINES)):
        chosen = (lines[i % len(lines)] for i in range(start, start + SHARD_LINES))
        (folder / f"{number:03}.gz").write_bytes(gzip.compress(b"".join(chosen), 6))


def make_languages(folder: Path, texts: Sequence[Path], *, n_shards: int) -> dict[str, int]:
    """Write folders of language pairs, each smaller than the one before: name → lines.

    texts: parallel, named `….LANGUAGE` or `….LANGUAGE.gz`
    """
    columns = {path.name.removesuffix(".gz").rpartition(".")[2]: path for path in texts}
    pairs = [*combinations(columns, 2), *combinations(reversed(columns), 2)]
    sizes = {}
    for number, (left, right) in enumerate(islice(cycle(pairs), N_LANGUAGES), 1):
        name, n_lines = f"{number}-{left}-{right}", max(1, n_shards // number) * SHARD_LINES
        write_shards(read_rows([columns[left], columns[right]]), folder / name, n_lines=n_lines)
        sizes[name] = n_lines
    return sizes


def weights_of(n_languages: Mapping[str, int]) -> dict[str, str]:
    """Return weights in proportion to size^(1/T), as text.

    >>> weights_of({"a": 32, "b": 1})
    {'a': '2', 'b': '1'}
    """
    return {name: f"{size ** (1 / TEMPERATURE):.6g}" for name, size in n_languages.items()}


def languages_config(n_languages: Mapping[str, int]) -> str:
    """Write the sources of `languages`. n_languages: lines of each, by a name that ends with the target language."""
    return "".join(
        source(name, [f'tag: "<2{name.split("-")[-1]}>"'], path=f"languages/{name}", more=f"    weight: {weight}\n")
        for name, weight in weights_of(n_languages).items()
    )


def peer_command(venv: Path, folder: Path, name: str, *, n_processes: int) -> list[str]:
    """Return the command that runs sotastream's pipeline in the folder of the data."""
    pipeline, patterns = PEERS[name]
    folders = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    weights = []
    if name == "languages":
        sizes = {path.name: SHARD_LINES * len(list(path.glob("*.gz"))) for path in folders}
        weights = ["--mix-weights", *weights_of(sizes).values()]
    options = ["--quiet", "--seed", "1", "-n", str(n_processes), "--buffer-size", str(SHARD_LINES)]
    return [str(venv / "bin" / "python"), "-m", "sotastream", *options, pipeline, *map(str, folders), *weights]
