"""$VOLT_DATA → the texts and vocabularies of the benchmarks, in a folder that is removed afterwards.

Natural text is Multi30k's training sentences, English, German, French and Czech one after the other, and all of TED;
each also cut to a sample for programs that are slow. The Zipf text is drawn from word-count tables, so it has many
distinct words. Vocabularies are learnt on the text that they encode, or on its sample.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rounds import say

import volt
from volt.formats.registry import write_vocabulary
from volt.vocabulary import Vocabulary

LANGUAGES = ("en", "de", "fr", "cs")
KINDS = {"words": ("whitespace", "suffix"), "prefix": ("whitespace", "prefix"), "bytes": ("bytes", "none")}
EXPORTS = {
    "bytes": (("huggingface", "hf"), ("tiktoken", "bytes.tiktoken")),
    "words": (("subword-nmt", "words.codes"),),
    "prefix": (("sentencepiece", "prefix.model"),),
}


@dataclass(frozen=True, slots=True)
class Text:
    """A text on disk."""

    name: str
    path: Path

    @property
    def mb(self) -> float:
        """Its length in MB."""
        return self.path.stat().st_size / 1e6


@dataclass(frozen=True, slots=True)
class Models:
    """One vocabulary in three kinds, each as VOLT's file and as those of other libraries."""

    folder: Path

    def volt(self, kind: str) -> str:
        """VOLT's file: words (white space, suffix), prefix, or bytes."""
        return str(self.folder / f"{kind}.volt")

    def file(self, name: str) -> str:
        """Another library's file: hf/tokenizer.json, bytes.tiktoken, words.codes or prefix.model."""
        return str(self.folder / name)


def data_folder() -> Path:
    """Where the corpora are. Ends the program if nothing says so."""
    if "VOLT_DATA" not in os.environ:
        raise SystemExit("set VOLT_DATA to the folder that holds multi30k/, ted/ and wordfreq/")
    return Path(os.environ["VOLT_DATA"])


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is gone afterwards, whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="volt-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def multi30k(folder: Path, *, times: int) -> Text:
    """Multi30k, again and again."""
    parts = [gzip.decompress((data_folder() / f"multi30k/train.{one}.gz").read_bytes()) for one in LANGUAGES]
    return write(folder, f"Multi30k ×{times}", (part for _ in range(times) for part in parts))


def multi30k_of(folder: Path, *, mb: float) -> Text:
    """Multi30k, again and again, cut at a line end before that many MB."""
    whole = multi30k(folder, times=1).path.read_bytes()
    size = int(mb * 1e6)
    n, rest = divmod(size, len(whole))
    tail = whole[: whole.rfind(b"\n", 0, rest) + 1]
    return write(folder, f"Multi30k, {mb:g} MB", [whole] * n + [tail])


def ted(folder: Path, *, every: int = 1) -> Text:
    """All languages of TED; or every n-th line."""
    paths = sorted((data_folder() / "ted").glob("*.gz"))
    name = "TED" if every == 1 else f"TED, every {every}th line"
    return write(folder, name, (line for path in paths for line in islice(_lines(path), 0, None, every)))


def zipf(folder: Path, *, n_words: int) -> Text:
    """Words drawn from the tables of word counts."""
    from search import TABLES, expanded, read_tables

    counts = read_tables([data_folder() / f"wordfreq/{name}.txt.gz" for name in TABLES])
    return write(folder, f"Zipf, {n_words / 1e6:g} M words", (part.encode() for part in expanded(counts, n_words)))


def long_words(folder: Path, *, length: int) -> list[Text]:
    """Single words of that many characters: one letter, letters at random, and a text without its spaces."""
    rng = random.Random(0)
    glued = gzip.decompress((data_folder() / "multi30k/train.de.gz").read_bytes()).decode()
    made = {
        "one letter": "e" * length,
        "random letters": "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=length)),
        "text without spaces": "".join(glued[: 2 * length].split())[:length],
    }
    return [write(folder, f"{length:,} × {name}", [word.encode() + b"\n"]) for name, word in made.items()]


def write(folder: Path, name: str, parts: Iterable[bytes]) -> Text:
    """A text of parts, made once."""
    path = folder / ("".join(char if char.isalnum() else "-" for char in name) + ".txt")
    if not path.exists():
        with path.open("wb") as file:
            file.writelines(parts)
        say(f"{name}: {path.stat().st_size / 1e6:.1f} MB")
    return Text(name, path)


def _lines(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as file:
        yield from file


def models(folder: Path, text: Text, *, size: int, kinds: Sequence[str] = tuple(KINDS)) -> Models:
    """Vocabularies of that size, learnt on the text, with what other libraries need to encode alike."""
    home = folder / f"{text.path.stem}-models"
    home.mkdir(exist_ok=True)
    for kind in kinds:
        if (home / f"{kind}.volt").exists():
            continue
        vocabulary = learned(text, kind=kind, size=size)
        vocabulary.save(home / f"{kind}.volt")
        for format, name in EXPORTS[kind]:
            write_vocabulary(vocabulary, home / name, to=format)
        say(f"{text.name}: {len(vocabulary.tokens):,} tokens, {kind}")
    return Models(home)


def learned(text: Text, *, kind: str, size: int) -> Vocabulary:
    """A vocabulary with its scaffolding kept, numbered as all libraries can."""
    pretokenizer, marker = KINDS[kind]
    counts = volt.count_words(text.path, pretokenizer=pretokenizer)
    found = volt.learn_bpe(counts, 2 * size, marker=marker)
    result = volt.search(found, sizes=[size], select=f"fixed:{size}", parameters=volt.Parameters(min_share=0.0))
    return result.vocabulary.closed(order="merges")
