"""Decoding, timed: VOLT beside HF tokenizers, tiktoken and sentencepiece, in one run.

    VOLT_DATA=DIR python experiments/bench/decode.py [--repeats 5] [--json OUT]

Text is encoded by VOLT; then every program is given the same ids, VOLT as flat arrays, the others as lists of lists,
made beforehand, and makes a Python string of every line; "volt bytes" makes one text of all lines, as `volt decode
--form ids` does, and "volt, line by line" is `decode` on the pieces of each line. HF and tiktoken decode with VOLT's
byte-level vocabulary and sentencepiece with its prefix vocabulary, exported; `equal` says how many lines are VOLT's.
first: the first call of the process;  warm: five further calls. Every run is a fresh process; those of all programs are
interleaved.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from encode import equal_pieces
from rounds import Job, as_data, publish, run_rounds
from texts import Models, Text, models, multi30k, ted, temporary_folder

PACKAGES = ("volt-vocab", "numba", "tokenizers", "sentencepiece", "tiktoken")
PEERS = {  # by the vocabulary that they decode with: names and files
    "words": {},
    "prefix": {"sentencepiece": "prefix.model"},
    "bytes": {"huggingface": "hf/tokenizer.json", "tiktoken": "bytes.tiktoken"},
}
Rows = list[list[int]]
Decode = Callable[[], Any]


def volt_decoder(program: str, model: str, ids: np.ndarray, offsets: np.ndarray) -> Decode:
    """VOLT: `Decoder.decode_lines`, `Decoder.decode_bytes`, or `decode` on each line's pieces."""
    import volt
    from volt.encode.decoder import Decoder, decode

    vocabulary = volt.Vocabulary.load(model)
    if program == "volt, line by line":
        rows, pieces = rows_of(ids, offsets), vocabulary.pieces
        return lambda: [decode(vocabulary, [pieces[number] for number in row]) for row in rows]
    decoder = Decoder.of(vocabulary)
    return partial(decoder.decode_lines if program == "volt" else decoder.decode_bytes, ids, offsets)


def huggingface_decoder(model: str, rows: Rows, threads: int) -> Decode:
    """HF tokenizers: `decode_batch`."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(model)
    return lambda: tokenizer.decode_batch(rows, skip_special_tokens=False)


def tiktoken_decoder(model: str, rows: Rows, threads: int) -> Decode:
    """tiktoken: `decode` of each line, which is many times as fast as its `decode_batch`; in one thread."""
    import tiktoken

    from volt.formats.tiktoken import GPT2_PATTERN

    ranked = (line.split() for line in Path(model).read_bytes().splitlines())
    ranks = {b64decode(token): int(rank) for token, rank in ranked}
    encoding = tiktoken.Encoding("bench", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda: list(map(encoding.decode, rows))


def sentencepiece_decoder(model: str, rows: Rows, threads: int) -> Decode:
    """sentencepiece: `Decode`."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=model)
    return lambda: processor.Decode(rows, num_threads=threads)


DECODERS = {"huggingface": huggingface_decoder, "tiktoken": tiktoken_decoder, "sentencepiece": sentencepiece_decoder}


def rows_of(ids: np.ndarray, offsets: np.ndarray) -> Rows:
    """Flat ids as a list for every line."""
    numbers = ids.tolist()
    return [numbers[start:end] for start, end in pairwise(offsets.tolist())]


def run_child(program: str, model: str, ids: str, threads: str, save: str) -> dict[str, Any]:
    """Time the calls of one program; save its text."""
    with np.load(ids) as saved:
        flat = saved["ids"], saved["offsets"]
    made = DECODERS.get(program)
    decode = made(model, rows_of(*flat), int(threads)) if made else volt_decoder(program, model, *flat)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        lines = decode()
        times.append(time.perf_counter() - start)
    Path(save).write_bytes(lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode())
    return {"seconds": {"first": times[0], "warm": times[1:]}}


def jobs(folder: Path, text: Text, found: Models) -> Iterator[Job]:
    """VOLT with each kind of vocabulary, then the peers, on 1 and 2 threads; VOLT makes strings on one."""
    import volt

    for kind, peers in PEERS.items():
        encoded = volt.Encoder(volt.Vocabulary.load(found.volt(kind))).encode_file(text.path)
        ids = folder / f"{text.path.stem}-{kind}.npz"
        np.savez(ids, ids=encoded.ids, offsets=encoded.offsets)
        files = dict.fromkeys(("volt", "volt bytes", "volt, line by line"), found.volt(kind))
        files |= {name: found.file(file) for name, file in peers.items()}
        for threads in (1, 2):
            reference = folder / f"out-{ids.stem}-{threads}-volt"
            for program, model in files.items():
                save = folder / f"out-{ids.stem}-{threads}-{program.replace(', ', '-').replace(' ', '-')}"
                command = [sys.executable, __file__, "child", program, model, str(ids), str(threads), str(save)]
                name = program if program in peers else f"{program}, {kind}"
                job = Job("ids to text", text.name, name, command, text.mb, threads, against=f"volt, {kind}")
                yield job if program == "volt" else replace(job, check=partial(equal_pieces, save, reference))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for all runs of a row, one at least")
    parser.add_argument("--every", type=int, default=16, help="each which line of TED is decoded (default 16)")
    parser.add_argument("--size", type=int, default=8_000, help="of vocabularies (default 8,000)")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    with temporary_folder() as folder:
        texts = multi30k(folder, times=1), ted(folder, every=options.every)
        made = [job for text in texts for job in jobs(folder, text, models(folder, text, size=options.size))]
        rows = run_rounds(made, n_repeats=options.repeats, budget=options.budget)
    publish(as_data("decode", rows, [], packages=PACKAGES), options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(run_child(*sys.argv[2:])))
    else:
        main()
