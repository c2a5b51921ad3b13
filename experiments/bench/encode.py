"""Encoding, timed: a file → ids with VOLT, gigatoken, HF tokenizers, sentencepiece and tiktoken, in one run.

    VOLT_DATA=DIR python experiments/bench/encode.py [--texts multi30k ted] [--budget 60] [--json OUT]

make: loading library and model;  first: the first call of the process;  cold: the first call of a new encoder;  warm:
further calls. gigatoken, HF and tiktoken use VOLT's byte-level vocabulary and sentencepiece its prefix vocabulary,
exported; ratios are to VOLT with the same vocabulary, and `equal` is the share of lines with the same ids. "volt,
words" is VOLT's default vocabulary. The slow programs get a sample (Multi30k once, every n-th line of TED), and so does
VOLT. A row whose repeats would take more than --budget seconds has fewer runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from measure import Job, parser, publish, run_rounds
from peers import Task, equal_lines
from texts import Text, models, multi30k, ted, temporary_folder

PACKAGES = ("volt-vocab", "numba", "gigatoken", "tokenizers", "sentencepiece", "tiktoken")
FILES = {  # by the vocabulary of the programs: their names and files
    "words": {},
    "bytes": {
        "gigatoken": "hf/tokenizer.json",
        "huggingface": "hf/tokenizer.json",
        "tiktoken": "bytes.tiktoken",
    },
    "prefix": {"sentencepiece": "prefix.model"},
}
FAST = "gigatoken"


def jobs(text: Text, home: Path, threads: int, *, slow: bool) -> Iterator[Job]:
    """Make the rows of VOLT with each kind of vocabulary and of the programs that share it. slow: all programs."""

    def job(program: str, model: str, kind: str, **how: Any) -> Job:
        saved = {
            name: home / f"out-{text.path.stem}-{threads}-{name}-{kind}.npz"
            for name in ("volt", program)
        }
        task = Task(
            program, str(text.path), str(home / model), threads, save=str(saved[program]), **how
        )
        command = [
            sys.executable,
            str(Path(__file__).with_name("peers.py")),
            json.dumps(asdict(task)),
        ]
        ours, is_ours = f"volt, {kind}", program == "volt"
        check = None if is_ours else partial(equal_lines, saved[program], saved["volt"])
        return Job(
            "ids",
            text.name,
            ours if is_ours else program,
            command,
            text.mb,
            threads,
            "" if is_ours else ours,
            phased=True,
            check=check,
            warm_up=is_ours and threads == 1,
        )

    for kind, peers in FILES.items():
        chosen = {name: file for name, file in peers.items() if slow or name == FAST}
        if chosen or not peers:
            yield job("volt", f"{kind}.volt", kind, n_warm=5)
        for (
            name,
            file,
        ) in chosen.items():  # the slow ones remember little or nothing from call to call
            yield job(name, file, kind, n_warm=5 if name == FAST else 1, cold=name == FAST)


def main() -> None:
    made = parser(__doc__, repeats=5)
    made.add_argument(
        "--texts", nargs="+", choices=("multi30k", "ted"), default=["multi30k", "ted"]
    )
    made.add_argument(
        "--budget",
        type=float,
        default=3.0,
        help="seconds of all runs of a row, at least one (default 3)",
    )
    made.add_argument("--times", type=int, default=10, help="repetitions of Multi30k (default 10)")
    made.add_argument(
        "--every", type=int, default=4, help="slow programs get every n-th line of TED (default 4)"
    )
    made.add_argument("--size", type=int, default=8_000, help="of vocabularies (default 8,000)")
    options, todo = made.parse_args(), list[Job]()
    with temporary_folder() as folder:
        for name in options.texts:
            is_ted = name == "ted"
            text = ted(folder) if is_ted else multi30k(folder, times=options.times)
            sample = ted(folder, every=options.every) if is_ted else multi30k(folder, times=1)
            home = models(folder, sample, size=options.size)
            for one in dict.fromkeys((text, sample)):
                todo += [
                    job
                    for threads in (1, 2)
                    for job in jobs(one, home, threads, slow=one == sample)
                ]
        rows = run_rounds(todo, repeats=options.repeats, budget=options.budget)
        publish("Encoding a file", rows, packages=PACKAGES, path=options.json)


if __name__ == "__main__":
    main()
