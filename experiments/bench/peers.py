"""One program, one text, in its own process → seconds of its phases, as JSON.

    python experiments/bench/peers.py '{"program": "volt", "text": "a.txt", "model": "a.volt", "threads": 2}'

A call turns the file into ids: libraries that take a list of lines read the file and split it within the call, those
that read files take its name. encode.py describes the phases.
"""

from __future__ import annotations

import json
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Task:
    """Options of a measurement. n_warm: warm calls;  cold: whether to make a second encoder;  save: the file of ids."""

    program: str
    text: str
    model: str
    threads: int = 1
    n_warm: int = 1
    cold: bool = True
    save: str = ""


Call = Callable[[Any], Any]
Flat = tuple[np.ndarray, np.ndarray]


def volt_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    import volt

    encoder = volt.Encoder(volt.Vocabulary.load(task.model))
    call = partial(encoder.encode_file, n_threads=task.threads)
    return call, lambda encoded: (encoded.ids, encoded.offsets)


def gigatoken_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    """Make the calls of gigatoken: `encode_files`; empty lines have no row."""
    import awkward
    import gigatoken

    tokenizer = gigatoken.Tokenizer(task.model)

    def flat(encoded: Any) -> Flat:
        sizes = awkward.to_numpy(awkward.num(encoded))
        return awkward.to_numpy(awkward.flatten(encoded)).astype(np.int32), _offsets(sizes)

    return lambda path: tokenizer.encode_files(
        gigatoken.TextFileSource([path], separator="\n")
    ), flat


def huggingface_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    """Make the calls of HF tokenizers: `encode_batch_fast`; ids stay within its objects until they are compared."""
    from tokenizers import Tokenizer

    encode = partial(Tokenizer.from_file(task.model).encode_batch_fast, add_special_tokens=False)
    return lambda path: encode(read_lines(path)), lambda encoded: _flat(
        [one.ids for one in encoded]
    )


def sentencepiece_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    from sentencepiece import SentencePieceProcessor

    encode = partial(SentencePieceProcessor(model_file=task.model).Encode, num_threads=task.threads)
    return lambda path: encode(read_lines(path)), _flat


def tiktoken_encoder(task: Task) -> tuple[Call, Callable[[Any], Flat]]:
    """Make the calls of tiktoken: `encode_ordinary_batch`, with the pattern of VOLT's byte level."""
    import tiktoken

    from volt.formats.tiktoken import GPT2_PATTERN

    rows = (line.split() for line in Path(task.model).read_bytes().splitlines())
    ranks = {b64decode(token): int(rank) for token, rank in rows}
    encoding = tiktoken.Encoding(
        "bench", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={}
    )
    return lambda path: encoding.encode_ordinary_batch(
        read_lines(path), num_threads=task.threads
    ), _flat


ENCODERS = {
    "volt": volt_encoder,
    "gigatoken": gigatoken_encoder,
    "huggingface": huggingface_encoder,
    "sentencepiece": sentencepiece_encoder,
    "tiktoken": tiktoken_encoder,
}


def read_lines(path: str) -> list[str]:
    lines = Path(path).read_bytes().decode().split("\n")
    return lines if lines[-1] else lines[:-1]


def _flat(encoded: Sequence[Sequence[int]]) -> Flat:
    ids = np.fromiter((number for line in encoded for number in line), np.int32)
    return ids, _offsets(np.array([len(line) for line in encoded]))


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def equal_lines(one: Path, other: Path) -> str:
    """Return the share of lines that have the same ids in two saved files; empty lines do not count."""
    rows = [row for path in (one, other) for row in [_rows_of(path)]]
    if len(rows[0]) != len(rows[1]):
        return f"{len(rows[0]):,} and {len(rows[1]):,} lines"
    n_equal = sum(first == second for first, second in zip(*rows, strict=True))
    return "all" if n_equal == len(rows[0]) else f"{100 * n_equal / len(rows[0]):.2f} % of lines"


def _rows_of(path: Path) -> list[bytes]:
    with np.load(path) as saved:
        ids, offsets = saved["ids"].tobytes(), (4 * saved["offsets"]).tolist()
    return [ids[start:end] for start, end in pairwise(offsets) if end > start]


def run_task(task: Task) -> dict[str, Any]:
    start = time.perf_counter()
    call, flat = ENCODERS[task.program](task)
    seconds: dict[str, Any] = {"make": time.perf_counter() - start}
    encoded, seconds["first"] = timed(call, task.text)
    if task.save and not Path(task.save).exists():
        ids, offsets = flat(encoded)
        np.savez(task.save, ids=ids.astype(np.int32), offsets=offsets)
    del encoded
    if task.cold:
        call, _ = ENCODERS[task.program](task)
        _, seconds["cold"] = timed(call, task.text)
    seconds["warm"] = [timed(call, task.text)[1] for _ in range(task.n_warm)]
    return {"seconds": seconds}


def timed(call: Call, text: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call(text)
    return result, time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(run_task(Task(**json.loads(sys.argv[1])))))
