"""Parallel text → what all sides of steps.py read: the same pairs and the same vocabulary, in each library's files.

pairs-0.tsv pairs-0.jsonl …    shards of pairs, a tab between source and target
ids.src.bin .idx  ids.tgt.…    the same pairs as ids, each sentence ending in EOS: volt binarize
joint.volt  joint.model  hf/   one vocabulary of pieces of both languages, also for sentencepiece and transformers
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from texts import data_folder, learned, write

from volt.formats.registry import write_vocabulary

EOS, PAD = 2, 3  # as VOLT numbers them
N_SHARDS = 4
WINDOW = 1 << 14  # pairs that are shuffled or sorted together, where a side does not hold all
FACTS = "data.json"


class Counted(NamedTuple):
    """What a batch holds: rows, tokens of both sides without padding, and places of both, padding among them."""

    rows: int
    tokens: int
    places: int


@dataclass(frozen=True, slots=True)
class Data:
    """The folder of all files, how many pairs an epoch has, and the most tokens of a batch."""

    folder: Path
    n_rows: int
    max_tokens: int

    def shards(self, ending: str) -> list[str]:
        """Those with an ending."""
        return sorted(map(str, self.folder.glob(f"pairs-*.{ending}")))

    @classmethod
    def of(cls, folder: Path) -> Data:
        """What `make_data` has made."""
        return cls(folder, **json.loads((folder / FACTS).read_text()))


def make_data(folder: Path, *, languages: Sequence[str], size: int, max_tokens: int) -> Data:
    """Multi30k's training pairs of two languages, and a vocabulary of that size."""
    sides = [read_lines(language) for language in languages]
    joint = write(folder, "joint", ("\n".join([*side, ""]).encode() for side in sides))
    vocabulary = learned(joint, kind="prefix", size=size)
    vocabulary.save(folder / "joint.volt")
    write_vocabulary(vocabulary, folder / "joint.model", to="sentencepiece")
    write_vocabulary(vocabulary, folder / "hf", to="huggingface")
    pairs = list(zip(*sides, strict=True))
    for number in range(N_SHARDS):
        part, place = pairs[number::N_SHARDS], folder / f"pairs-{number}"
        place.with_suffix(".tsv").write_text("".join(f"{source}\t{target}\n" for source, target in part))
        rows = (json.dumps({"src": source, "tgt": target}, ensure_ascii=False) for source, target in part)
        place.with_suffix(".jsonl").write_text("\n".join([*rows, ""]))
    for name, lines in zip(("src", "tgt"), sides, strict=True):
        text = write(folder, name, ["\n".join([*lines, ""]).encode()])
        binarize = [sys.executable, "-m", "volt_cli", "binarize", "-q", "-m", str(folder / "joint.volt")]
        subprocess.run([*binarize, str(text.path), "-o", str(folder / f"ids.{name}")], check=True)
    (folder / FACTS).write_text(json.dumps({"n_rows": len(pairs), "max_tokens": max_tokens}))
    return Data.of(folder)


def read_lines(language: str) -> list[str]:
    """Multi30k's training sentences, with single spaces between words, which all libraries read alike."""
    text = gzip.decompress((data_folder() / f"multi30k/train.{language}.gz").read_bytes()).decode()
    return [" ".join(line.split()) for line in text.split("\n")[:-1]]
