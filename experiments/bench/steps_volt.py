"""The data of `steps.py`, and VOLT's loaders."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

EOS = 2  # as VOLT numbers them
PAD = 3
N_SHARDS = 4
WINDOW = 1 << 14  # pairs that are shuffled or sorted together, where a side does not hold all
FACTS = "data.json"


class Counted(NamedTuple):
    """The contents of a batch: rows, tokens of both sides without padding, and places of both sides with padding."""

    rows: int
    tokens: int
    places: int


@dataclass(frozen=True, slots=True)
class Data:
    """The folder of all files, the pairs of an epoch, and the most tokens of a batch.

    pairs-0.tsv pairs-0.jsonl …    shards of pairs, a tab between source and target
    ids.src.bin .idx  ids.tgt.…    the same pairs as ids, each sentence ending in EOS: volt binarize
    joint.volt  hf/                one vocabulary of both languages, also for transformers
    """

    folder: Path
    n_rows: int
    max_tokens: int

    def shards(self, ending: str) -> list[str]:
        return sorted(map(str, self.folder.glob(f"pairs-*.{ending}")))


def make_data(folder: Path, *, languages: Sequence[str], size: int, max_tokens: int) -> Data:
    """Write Multi30k's training pairs of two languages, and a vocabulary, for all sides."""
    from texts import data_folder, learned, write

    from volt.formats.registry import write_vocabulary

    sides = []
    for language in languages:  # single spaces between words, which all libraries read alike
        text = gzip.decompress(
            (data_folder() / f"multi30k/train.{language}.gz").read_bytes()
        ).decode()
        sides.append([" ".join(line.split()) for line in text.split("\n")[:-1]])
    joint = write(folder, "joint", ("\n".join([*side, ""]).encode() for side in sides))
    vocabulary = learned(joint, kind="prefix", size=size)
    vocabulary.save(folder / "joint.volt")
    write_vocabulary(vocabulary, folder / "hf", to="huggingface")
    pairs = list(zip(*sides, strict=True))
    for number in range(N_SHARDS):
        part = pairs[number::N_SHARDS]
        place = folder / f"pairs-{number}"
        place.with_suffix(".tsv").write_text(
            "".join(f"{source}\t{target}\n" for source, target in part)
        )
        rows = (
            json.dumps({"src": source, "tgt": target}, ensure_ascii=False)
            for source, target in part
        )
        place.with_suffix(".jsonl").write_text("\n".join([*rows, ""]))
    for name, lines in zip(("src", "tgt"), sides, strict=True):
        text = write(folder, name, ["\n".join([*lines, ""]).encode()])
        binarize = [
            sys.executable,
            "-m",
            "volt_cli",
            "binarize",
            "-q",
            "-m",
            str(folder / "joint.volt"),
        ]
        subprocess.run([*binarize, str(text.path), "-o", str(folder / f"ids.{name}")], check=True)
    (folder / FACTS).write_text(json.dumps({"n_rows": len(pairs), "max_tokens": max_tokens}))
    return Data(folder, len(pairs), max_tokens)


def volt_text(data: Data, n_workers: int, *, ahead: bool = True) -> Iterator[Any]:
    return volt_steps(data, n_workers, data.shards("tsv"), ahead=ahead, holds="text")


def volt_ids(data: Data, n_workers: int, *, ahead: bool = True) -> Iterator[Any]:
    return volt_ids_steps(data, n_workers, ("src", "tgt"), ahead=ahead)


def volt_ids_steps(
    data: Data, n_workers: int, sides: tuple[str, ...], rule: Any = None, *, ahead: bool = True
) -> Iterator[Any]:
    paths = [str(data.folder / f"ids.{side}.bin") for side in sides]
    names = sides if len(sides) > 1 else ()
    return volt_steps(
        data, n_workers, paths, names=names, sides=sides, rule=rule, ahead=ahead, eos=False
    )


def volt_steps(
    data: Data,
    n_workers: int,
    paths: list[str],
    *,
    names: tuple[str, ...] = (),
    sides: tuple[str, ...] = ("src", "tgt"),
    rule: Any = None,
    ahead: bool = True,
    **form: Any,
) -> Iterator[Any]:
    from volt.batches import ByTokens, SampleFormat, Steps, to_torch
    from volt.stream import Source, Stream

    source = Source("pairs", tuple(paths), names=names)
    stream = Stream([source], seed=1, n_workers=n_workers, cache=data.folder / "cache")
    samples = SampleFormat(dict.fromkeys(sides, str(data.folder / "joint.volt")), **form)
    rule = rule or ByTokens(max_tokens=data.max_tokens)
    return map(to_torch, Steps(stream, samples, rule, window=WINDOW, ahead=ahead))
