"""Encoding of words that an encoder has not met: CPU seconds of VOLT and of other libraries, in one run.

    VOLT_DATA=DIR python experiments/bench/new_words.py [--size 8000] [--json OUT]

words: half of the words of the lt, is and ka word lists, each once; vocabularies are learned on the other half.
TED: all of it; vocabularies are learned on every 4th line.

make: a second encoder of a process;  new: its first call, on a file;  warm: its second call. Processes of all programs
take turns. gigatoken takes part if it is installed. Ratios are to VOLT with the same vocabulary. For published files of
ranks, `experiments.real_tokenizers` measures the same.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from measure import describe, environment, machine, markdown_table, parser, say, write_json
from peers import ENCODERS, Task
from texts import TABLES, Text, data_folder, models, ted, temporary_folder, write

PACKAGES = ("volt-vocab", "numba", "gigatoken", "tokenizers", "sentencepiece", "tiktoken")
FILES = {  # by the kind of vocabulary: the programs and their files
    "bytes": {
        "volt": "bytes.volt",
        "gigatoken": "hf/tokenizer.json",
        "huggingface": "hf/tokenizer.json",
        "tiktoken": "bytes.tiktoken",
    },
    "prefix": {"volt": "prefix.volt", "sentencepiece": "prefix.model"},
}


def halves(folder: Path) -> tuple[Text, Text]:
    """Return two texts, each with half of the words of the word lists."""
    found = dict[str, None]()
    for name in TABLES:
        with gzip.open(
            data_folder() / f"wordfreq/{name}.txt.gz", "rt", encoding="utf-8", newline="\n"
        ) as file:
            found.update((line.rsplit(" ", 1)[0], None) for line in file)
    words = random.Random(0).sample(list(found), len(found))
    lines = [f"{' '.join(words[i : i + 20])}\n".encode() for i in range(0, len(words), 20)]
    return write(folder, "words", lines[::2]), write(folder, "other words", lines[1::2])


def cases(folder: Path, *, size: int) -> Iterator[tuple[Text, str, dict[str, Path]]]:
    """Yield each text with a kind of vocabulary and the file of each program."""
    words, others = halves(folder)
    for text, sample in ((words, others), (ted(folder), ted(folder, every=4))):
        home = models(folder, sample, size=size, kinds=tuple(FILES))
        for kind, files in FILES.items():
            yield (
                text,
                kind,
                {
                    one: home / name
                    for one, name in files.items()
                    if one != "gigatoken" or find_spec(one)
                },
            )


def run_child(program: str, text: Text, model: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", program, str(text.path), str(model)]
    done = subprocess.run(
        command, env={**os.environ, **environment(1)}, stdout=subprocess.PIPE, check=True
    )
    return dict(json.loads(done.stdout))


def child(program: str, path: str, model: str) -> dict[str, float]:
    make = partial(ENCODERS[program], Task(program, path, model))
    make()[0](path)  # loads compiled code
    (call, _), seconds = timed(make)
    return {
        "make": seconds,
        "new": timed(partial(call, path))[1],
        "warm": timed(partial(call, path))[1],
    }


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def main() -> None:
    made = parser(__doc__, repeats=5)
    made.add_argument("--size", type=int, default=8_000, help="of vocabularies (default 8,000)")
    options, rows, facts = made.parse_args(), list[list[str]](), machine(*PACKAGES)
    with temporary_folder() as folder:
        for text, kind, files in cases(folder, size=options.size):
            runs = [
                {one: run_child(one, text, path) for one, path in files.items()}
                for _ in range(options.repeats)
            ]
            for one in files:
                make, new, warm = (
                    median(run[one][phase] for run in runs) for phase in ("make", "new", "warm")
                )
                ratio = median(run[one]["new"] / run["volt"]["new"] for run in runs)
                figures = [
                    f"{make:.3f}",
                    f"{text.mb / new:,.1f}",
                    f"{text.mb / warm:,.1f}",
                    f"{ratio:.2f}",
                ]
                rows.append([text.name, kind, one, *figures])
                say(" · ".join(rows[-1]))
    header = [
        "text",
        "vocabulary",
        "program",
        "make, s",
        "new, MB/s",
        "warm, MB/s",
        "new, times VOLT's seconds",
    ]
    print(f"{describe(facts)}; CPU seconds\n\n{markdown_table(header, rows, n_text=3)}")
    if options.json:
        write_json(options.json, {"machine": facts, "rows": [header, *rows]})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(*sys.argv[2:])))
    else:
        main()
