r"""The pipelines of stream.py: their configurations, the data that they read, and what runs them here and elsewhere.

| pipeline | what it does | beside it |
| --- | --- | --- |
| default | the shuffled lines of one source | sotastream's `default` |
| case-noise | Figure 2: two sources, one tagged, 4 % in lower and 1 % in title case | sotastream's `example` |
| pieces | both sides encoded with a vocabulary of 8,000 tokens | – |
| p1-filters | Figure 2 with bitext, length and ratio filters and typos in 1 % of the source side's characters | own |
| p2-documents | lines of one document joined up to 250 words, then ids | – |
| p3-languages | five sources, each with the tag of its language, weights at temperature 5 | own |
| p4-ids | both sides to ids, with BPE-dropout on the source side | own, which fails |
| user | a Python function for each line, which takes most of the time itself | own |
| user-light | a light Python function for each line | own |

"own" stands in sotastream_pipelines.py, and what `user` and `user-light` call in user_steps.py.

>>> print(languages_config({"1-en-de": 32, "2-en-fr": 1}))
sources:
  1-en-de:
    path: languages/1-en-de
    weight: 2
    block_lines: 100000
    transforms: [tag: "<2de>"]
  2-en-fr:
    path: languages/2-en-fr
    weight: 1
    block_lines: 100000
    transforms: [tag: "<2fr>"]
"""

from __future__ import annotations

import gzip
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, cycle, islice
from pathlib import Path

import user_steps

SHARD_LINES = 100_000
N_LANGUAGES, TEMPERATURE = 5, 5
DOCUMENT_LINES, DOCUMENT_WORDS = 20, 250
N_TIMED = 20_000  # lines for which a user's function is timed
HERE = Path(__file__).parent
_CASES = """choice:
          - {weight: 0.95}
          - {weight: 0.04, transforms: [lower: {fields: [1]}]}
          - {weight: 0.01, transforms: [title]}"""
_NOISE = f"""
    transforms:
      - {_CASES}
      - keep_fields: [1, 2]
"""
_FILTERS = f"""
    transforms:
      - bitext
      - length: {{max: 100, unit: words}}
      - ratio: 3
      - {_CASES}
      - typos: {{rate: 0.01, fields: [1]}}
"""


def _one(*transforms: str, path: str = "shards", options: str = "") -> str:
    """A configuration of one source."""
    steps = "".join(f"\n      - {step}" for step in transforms)
    head = f"sources:\n  lines:\n    path: {path}\n    block_lines: {SHARD_LINES}\n{options}"
    return f"{head}    transforms:{steps}\n" if steps else head


def _two(steps: str) -> str:
    """A configuration of two equal sources, the second tagged."""
    source = f"path: shards\n    block_lines: {SHARD_LINES}{steps}"
    return f'sources:\n  parallel:\n    {source}  back:\n    {source}      - tag: "[BT]"\n'


CONFIGS = {
    "default": _one(),
    "case-noise": _two(_NOISE),
    "pieces": _one("encode: {vocabulary: vocab.volt}"),
    "p1-filters": _two(_FILTERS),
    "p2-documents": _one(
        f"documents: {{id_field: 3, max_tokens: {DOCUMENT_WORDS}}}",
        "keep_fields: [1, 2]",
        "encode: {vocabulary: vocab.volt, to: ids}",
        path="documents",
        options="    shuffle: outputs\n",
    ),
    "p3-languages": "",  # depends on the sizes: languages_config
    "p4-ids": _one(
        "encode: {vocabulary: vocab.volt, to: ids, dropout: 0.1, fields: [1]}",
        "encode: {vocabulary: vocab.volt, to: ids, fields: [2]}",
    ),
    "user": _one("user: {file: user_steps.py, function: tidy}"),
    "user-light": _one("user: {file: user_steps.py, function: recased}"),
}
FUNCTIONS = {"user": user_steps.tidy, "user-light": user_steps.recased}
PEERS = {  # sotastream's name for a pipeline, and the folders that it is told
    "default": ("default", ["shards"]),
    "case-noise": ("example", ["shards", "shards"]),
    "p1-filters": ("p1-filters", ["shards", "shards"]),
    "p3-languages": ("p3-languages", ["languages/*"]),
    "p4-ids": ("p4-ids", ["shards"]),
    "user": ("user", ["shards"]),
    "user-light": ("user-light", ["shards"]),
}


@dataclass(frozen=True, slots=True)
class Data:
    """What has been made for the pipelines.

    folder: holds shards/, and what else the pipelines need
    n_languages: lines of each source of `p3-languages`, by name
    lines_each: lines that were read for one that is written, by pipeline, where that is not one
    own_seconds: processor seconds that the user's function takes for a line, by pipeline, where there is one
    """

    folder: Path
    n_languages: Mapping[str, int]
    lines_each: Mapping[str, float]
    own_seconds: Mapping[str, float]


def make_data(
    folder: Path, names: Sequence[str], *, texts: Sequence[Path], languages: Sequence[Path], n_shards: int
) -> Data:
    """Shards, configurations, vocabularies and user code for pipelines, in a folder.

    texts: parallel, each of which is a field;  languages: parallel, of which pairs are made
    """
    rows = read_rows(texts)
    write_shards(rows, folder / "shards", n_lines=n_shards * SHARD_LINES)
    sizes, lines_each = dict[str, int](), dict[str, float]()
    if "p2-documents" in names:
        numbered = [(*row[:2], str(i // DOCUMENT_LINES)) for i, row in enumerate(rows)]
        write_shards(numbered, folder / "documents", n_lines=n_shards * SHARD_LINES)
        lines_each["p2-documents"] = len(numbered) / count_documents(numbered)
    if "p3-languages" in names:
        sizes = make_languages(folder / "languages", languages, n_shards=n_shards)
    if any("vocab.volt" in CONFIGS[name] for name in names):
        make_vocabularies(folder)
    for file in ("user_steps.py", "sotastream_pipelines.py"):
        shutil.copy(HERE / file, folder / file.replace("pipelines", "pipeline"))
    for name in names:
        config = languages_config(sizes) if name == "p3-languages" else CONFIGS[name]
        (folder / f"{name}.yaml").write_text(config)
    return Data(folder, sizes, lines_each, {name: _seconds_each(FUNCTIONS[name], rows) for name in FUNCTIONS})


def _seconds_each(function: Callable[[list[str]], list[str]], rows: Sequence[tuple[str, ...]]) -> float:
    """Processor seconds that a function takes for a row, the least of three times."""
    found = []
    for _ in range(3):
        given = [list(row) for row in rows[:N_TIMED]]
        start = time.process_time()
        for row in given:
            function(row)
        found.append((time.process_time() - start) / len(given))
    return min(found)


def read_rows(sources: Sequence[Path]) -> list[tuple[str, ...]]:
    """The lines of parallel texts, plain or .gz, a field for each."""
    columns = []
    for source in sources:
        with (gzip.open if source.suffix == ".gz" else open)(source, "rb") as file:
            text = file.read().decode().removesuffix("\n")
        columns.append([line.replace("\t", " ") for line in text.split("\n")])
    return list(zip(*columns, strict=True))


def write_shards(rows: Sequence[tuple[str, ...]], folder: Path, *, n_lines: int) -> None:
    """So many lines, repeated as often as needed, as .gz shards."""
    lines = ["\t".join(row).encode() + b"\n" for row in rows]
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, n_lines, SHARD_LINES)):
        chosen = (lines[i % len(lines)] for i in range(start, start + SHARD_LINES))
        (folder / f"{number:03}.gz").write_bytes(gzip.compress(b"".join(chosen), 6))


def make_languages(folder: Path, texts: Sequence[Path], *, n_shards: int) -> dict[str, int]:
    """Folders of shards of language pairs, each smaller than the one before: name → lines.

    texts: parallel, called `….LANGUAGE` or `….LANGUAGE.gz`
    """
    columns = {path.name.removesuffix(".gz").rpartition(".")[2]: path for path in texts}
    pairs = [*combinations(columns, 2), *combinations(reversed(columns), 2)]
    found = {}
    for number, (source, target) in enumerate(islice(cycle(pairs), N_LANGUAGES), 1):
        name, n_lines = f"{number}-{source}-{target}", max(1, n_shards // number) * SHARD_LINES
        write_shards(read_rows([columns[source], columns[target]]), folder / name, n_lines=n_lines)
        found[name] = n_lines
    return found


def weights_of(n_languages: Mapping[str, int]) -> dict[str, str]:
    """Weights in proportion to size^(1/T), as they are written.

    >>> weights_of({"a": 32, "b": 1})
    {'a': '2', 'b': '1'}
    """
    return {name: f"{size ** (1 / TEMPERATURE):.6g}" for name, size in n_languages.items()}


def languages_config(n_languages: Mapping[str, int]) -> str:
    """The configuration of `p3-languages`. n_languages: lines of each source, by name, which ends with the target."""
    sources = [
        f"  {name}:\n    path: languages/{name}\n    weight: {weight}\n    block_lines: {SHARD_LINES}\n"
        f'    transforms: [tag: "<2{name.split("-")[-1]}>"]'
        for name, weight in weights_of(n_languages).items()
    ]
    return "\n".join(["sources:", *sources])


def count_documents(rows: Sequence[tuple[str, ...]]) -> int:
    """How many documents the lines make: those of one id, as far as neither side has too many words.

    >>> count_documents([("a", "b", "0"), ("a", "b", "0"), ("a", "b", "1"), ("a " * 250, "b", "1")])
    3
    """
    n, before, totals = 0, "", [0, 0]
    for *sides, document in rows:
        lengths = [len(side.split()) for side in sides]
        grown = [total + length for total, length in zip(totals, lengths, strict=True)]
        joins = bool(n) and document == before and max(grown) <= DOCUMENT_WORDS
        n, before, totals = n + (not joins), document, grown if joins else lengths
    return n


def make_vocabularies(folder: Path) -> None:
    """vocab.volt, and a SentencePiece model of as many tokens, learnt on the first shard."""
    import volt
    from volt.formats.registry import write_vocabulary

    counts = volt.count_words(folder / "shards" / "000.gz")
    for marker in ("suffix", "prefix"):
        candidates = volt.learn_bpe(counts, n_merges=8_000, marker=marker)
        vocabulary = volt.search(candidates, sizes=[8_000], select="fixed:8000").vocabulary
        if marker == "suffix":
            vocabulary.save(folder / "vocab.volt")
        else:
            write_vocabulary(vocabulary, folder / "spm.model", to="sentencepiece")


def peer_command(venv: Path, data: Data, name: str, *, n_processes: int) -> list[str]:
    """What runs sotastream's pipeline, in the data's folder."""
    pipeline, patterns = PEERS[name]
    folders = [str(path) for pattern in patterns for path in sorted(data.folder.glob(pattern))]
    weights = ["--mix-weights", *weights_of(data.n_languages).values()] if name == "p3-languages" else []
    model = ["--spm", str(data.folder / "spm.model")] if name == "p4-ids" else []
    options = ["--quiet", "--seed", "1", "-n", str(n_processes), "--buffer-size", str(SHARD_LINES)]
    return [str(venv / "bin" / "python"), "-m", "sotastream", *options, pipeline, *folders, *weights, *model]


def peers_of(name: str) -> Iterator[int]:
    """With how many processes sotastream runs a pipeline: once where it fails."""
    if name in PEERS:
        yield from (1,) if name == "p4-ids" else (1, 2)
