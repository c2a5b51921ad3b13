"""One program, one text, in a process of its own → seconds of its phases, as JSON.

    python experiments/bench/peers.py '{"program": "volt", "text": "a.txt", "model": "a.volt", "threads": 2}'

make: importing the library and loading the model;  first: the first call of the process;  cold: the first call of a
new encoder, when the library's code is loaded;  warm: further calls with the same encoder. A call turns the file into
ids. Libraries that want a list of lines read the file and split it within the call; those that read files are given its
name. With "form": "list" all of them are given the same list of lines, made beforehand.
"""

from __future__ import annotations

import json
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked for. threads: of those libraries that are told so by a call;  n_warm: warm calls;  cold: whether to
    make a second encoder;  dropout: with seed 1;  save: where ids and offsets go, if they are not there yet."""

    program: str
    text: str
    model: str
    threads: int = 1
    form: str = "file"
    n_warm: int = 1
    cold: bool = True
    dropout: float = 0.0
    save: str = ""


Call = Callable[[Any], Any]
Flat = tuple[np.ndarray, np.ndarray]


def volt_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    """VOLT: `encode_file`, `encode_batch`."""
    import volt

    encoder = volt.Encoder(volt.Vocabulary.load(task.model))
    options: dict[str, Any] = {"n_threads": task.threads}
    if task.dropout:
        options |= {"dropout": task.dropout, "seed": 1}
    encode = encoder.encode_file if task.form == "file" else encoder.encode_batch
    return lambda text: encode(text, **options), lambda found: (found.ids, found.offsets)


def gigatoken_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    """gigatoken: `encode_files`, `encode_batch`; an awkward array. Empty lines have no row."""
    import awkward
    import gigatoken

    tokenizer = gigatoken.Tokenizer(task.model)

    def flat(found: Any) -> Flat:
        sizes = awkward.to_numpy(awkward.num(found))
        return awkward.to_numpy(awkward.flatten(found)).astype(np.int32), _offsets(sizes)

    if task.form == "list":
        return tokenizer.encode_batch, flat
    return lambda path: tokenizer.encode_files(gigatoken.TextFileSource([path], separator="\n")), flat


def huggingface_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    """HF tokenizers: `encode_batch_fast`; the ids stay within its objects until they are compared."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(task.model)
    if task.dropout:
        tokenizer.model.dropout = task.dropout
    lines = _reader(task)
    return (
        lambda text: tokenizer.encode_batch_fast(lines(text), add_special_tokens=False),
        lambda found: _flat([one.ids for one in found]),
    )


def sentencepiece_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    """sentencepiece: `Encode` of a list."""
    from sentencepiece import SentencePieceProcessor

    processor, lines = SentencePieceProcessor(model_file=task.model), _reader(task)
    return lambda text: processor.Encode(lines(text), num_threads=task.threads), _flat


def tiktoken_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    """tiktoken: `encode_ordinary_batch`, with the pattern that VOLT's byte-level pre-tokens follow."""
    import tiktoken

    from volt.formats.tiktoken import GPT2_PATTERN

    rows = (line.split() for line in Path(task.model).read_bytes().splitlines())
    ranks = {b64decode(token): int(rank) for token, rank in rows}
    encoding = tiktoken.Encoding("bench", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})
    lines = _reader(task)
    return lambda text: encoding.encode_ordinary_batch(lines(text), num_threads=task.threads), _flat


ENCODERS = {
    "volt": volt_encoder,
    "gigatoken": gigatoken_encoder,
    "huggingface": huggingface_encoder,
    "sentencepiece": sentencepiece_encoder,
    "tiktoken": tiktoken_encoder,
}


def _reader(task: Task) -> Callable[[Any], list[str]]:
    return read_lines if task.form == "file" else lambda lines: lines


def read_lines(path: str) -> list[str]:
    """The lines of a file, without their ends."""
    lines = Path(path).read_bytes().decode().split("\n")
    return lines if lines[-1] else lines[:-1]


def _flat(found: Sequence[Sequence[int]]) -> Flat:
    ids = np.fromiter((number for line in found for number in line), np.int32)
    return ids, _offsets(np.array([len(line) for line in found]))


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def equal_lines(one: Path, other: Path) -> str:
    """How many lines that are not empty have the same ids in two saved files, as a percentage."""
    (ids, offsets), (ids2, offsets2) = map(_without_empty, (one, other))
    if len(offsets) != len(offsets2):
        return f"{len(offsets) - 1:,} against {len(offsets2) - 1:,} lines"
    same_sizes = np.diff(offsets) == np.diff(offsets2)
    rows = np.flatnonzero(same_sizes)
    first, second = (_rows(values, starts, rows) for values, starts in ((ids, offsets), (ids2, offsets2)))
    owners = np.repeat(rows, np.diff(offsets)[rows])
    n_equal = len(rows) - len(np.unique(owners[first != second]))
    n = len(offsets) - 1
    return "all" if n_equal == n else f"{100 * n_equal / n:.2f} % of lines"


def _rows(values: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The values of some rows, one after the other."""
    sizes = np.diff(offsets)[rows]
    starts = np.repeat(offsets[rows] - (np.cumsum(sizes) - sizes), sizes)
    return values[starts + np.arange(sizes.sum())]


def _without_empty(path: Path) -> Flat:
    with np.load(path) as saved:
        sizes = np.diff(saved["offsets"])
        return saved["ids"], _offsets(sizes[sizes > 0])


def run_task(task: Task) -> dict[str, Any]:
    """Run the phases."""
    start = time.perf_counter()
    call, flat = ENCODERS[task.program](task)
    seconds: dict[str, Any] = {"make": time.perf_counter() - start}
    text = task.text if task.form == "file" else read_lines(task.text)
    found, seconds["first"] = timed(call, text)
    if task.save and not Path(task.save).exists():
        ids, offsets = flat(found)
        np.savez(task.save, ids=ids, offsets=offsets)
    del found
    if task.cold:
        call, _ = ENCODERS[task.program](task)
        _, seconds["cold"] = timed(call, text)
    if task.n_warm:
        seconds["warm"] = [timed(call, text)[1] for _ in range(task.n_warm)]
    return {"seconds": seconds}


def timed(call: Call, text: Any) -> tuple[Any, float]:
    """What a call returns, and its seconds."""
    start = time.perf_counter()
    found = call(text)
    return found, time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(run_task(Task(**json.loads(sys.argv[1])))))
