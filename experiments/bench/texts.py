"""$VOLT_DATA → the texts and vocabularies of the benchmarks, in a folder that is removed afterwards.

Multi30k's training sentences in English, German, French and Czech; all of TED; Bible verses; and running text drawn
from word-count tables, which has many distinct words.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from measure import say

import volt
from volt.formats.registry import write_vocabulary
from volt.vocabulary import Vocabulary

LANGUAGES = ("en", "de", "fr", "cs")
TABLES = ("lt", "is", "ka")
NATURAL = ("multi30k/train", "ted/", "bible/")
KINDS = {
    "words": ("whitespace", "suffix"),
    "prefix": ("whitespace", "prefix"),
    "bytes": ("bytes", "none"),
}
EXPORTS = {
    "bytes": (("huggingface", "hf"), ("tiktoken", "bytes.tiktoken")),
    "words": (("subword-nmt", "words.codes"),),
    "prefix": (("sentencepiece", "prefix.model"),),
}
CHUNK = 2_000_000  # words


@dataclass(frozen=True, slots=True)
class Text:
    """A text on disk."""

    name: str
    path: Path

    @property
    def mb(self) -> float:
        return self.path.stat().st_size / 1e6


def data_folder() -> Path:
    """Return the folder of the corpora; end the program if it is not set."""
    if "VOLT_DATA" not in os.environ:
        raise SystemExit(
            "set VOLT_DATA to the folder that holds multi30k/, ted/, bible/ and wordfreq/"
        )
    return Path(os.environ["VOLT_DATA"])


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for texts, models and outputs, and remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="volt-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def write(folder: Path, name: str, parts: Iterable[bytes]) -> Text:
    path = folder / ("".join(char if char.isalnum() else "-" for char in name) + ".txt")
    if not path.exists():
        with path.open("wb") as file:
            file.writelines(parts)
        say(f"{name}: {path.stat().st_size / 1e6:.1f} MB")
    return Text(name, path)


def multi30k(folder: Path, *, times: int) -> Text:
    parts = [
        gzip.decompress((data_folder() / f"multi30k/train.{one}.gz").read_bytes())
        for one in LANGUAGES
    ]
    return write(folder, f"Multi30k ×{times}", (part for _ in range(times) for part in parts))


def ted(folder: Path, *, every: int = 1) -> Text:
    paths = sorted((data_folder() / "ted").glob("*.gz"))
    name = "TED" if every == 1 else f"TED, every {every}th line"
    return write(
        folder, name, (line for path in paths for line in islice(gzip.open(path), 0, None, every))
    )


def natural(folder: Path, *, mb: float) -> Text:
    """Join Multi30k, TED and the verses of the Bible, and repeat them up to about so many MB."""
    parts = []
    for path in sorted(data_folder().rglob("*.gz")):
        if (name := path.relative_to(data_folder()).as_posix()).startswith(NATURAL):
            lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
            parts += [
                line.partition(b"\t")[2] if name.startswith("bible/") else line for line in lines
            ]
    whole = b"".join(parts)
    return write(folder, f"natural, {mb:g} MB", [whole] * max(1, round(mb * 1e6 / len(whole))))


def drawn(folder: Path, *, n_words: int) -> Text:
    """Draw words by their counts in the word-count tables (seed 0), 20 a line."""
    counts = Counter[str]()
    for name in TABLES:
        with gzip.open(
            data_folder() / f"wordfreq/{name}.txt.gz", "rt", encoding="utf-8", newline="\n"
        ) as file:
            for word, count in (line.rsplit(" ", 1) for line in file):
                counts[word] += int(count)
    words, shares = (
        np.array(list(counts), dtype=object),
        np.array(list(counts.values()), dtype=float),
    )
    edges, rng = np.cumsum(shares / shares.sum()), np.random.default_rng(0)

    def parts() -> Iterator[bytes]:
        for start in range(0, n_words, CHUNK):
            places = np.searchsorted(edges, rng.random(min(CHUNK, n_words - start)), side="right")
            chosen = words[np.minimum(places, len(words) - 1)]
            yield "".join(
                f"{' '.join(chosen[i : i + 20])}\n" for i in range(0, len(chosen), 20)
            ).encode()

    return write(folder, f"drawn, {n_words / 1e6:g} M words", parts())


def models(folder: Path, text: Text, *, size: int, kinds: Sequence[str] = tuple(KINDS)) -> Path:
    """Learn vocabularies on a text, with what other libraries need to encode alike; return their folder.

    It holds words.volt, prefix.volt and bytes.volt, and the files of EXPORTS.
    """
    home = folder / f"{text.path.stem}-models"
    home.mkdir(exist_ok=True)
    for kind in kinds:
        if not (home / f"{kind}.volt").exists():
            vocabulary = learned(text, kind=kind, size=size)
            vocabulary.save(home / f"{kind}.volt")
            for format, name in EXPORTS[kind]:
                write_vocabulary(vocabulary, home / name, to=format)
    return home


def learned(text: Text, *, kind: str, size: int) -> Vocabulary:
    """Learn a vocabulary that keeps its scaffolding, numbered as all libraries can."""
    pretokenizer, marker = KINDS[kind]
    found = volt.learn_bpe(
        volt.count_words(text.path, pretokenizer=pretokenizer), 2 * size, marker=marker
    )
    result = volt.search(
        found, sizes=[size], select=f"fixed:{size}", parameters=volt.SearchParameters(min_share=0.0)
    )
    return result.vocabulary.closed(order="merges")
