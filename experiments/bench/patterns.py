"""MB of text per processor second that are cut by named patterns, beside other engines; and how large the tables are.

    python experiments/bench/patterns.py [--mb 2] [--rounds 5] [--peers] [--json patterns.json]

Texts are TED and the Bible in several scripts where VOLT_DATA names a folder that has them, and the Python sources of
the standard library. Each line is a text of its own. Rounds go through all programs in turn, and the best one is told.
Peers run in one thread on a tenth of the text: `regex` (its matches), `tokenizers` (Split), and tiktoken with a
vocabulary of single bytes, whose encoding includes more than the cut. Where lines are cut otherwise than by `regex`,
this is told and the exit status is 1.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import regex
import tiktoken
from tokenizers import Regex, pre_tokenizers

from volt.kernels.pattern_cutting import cut_texts
from volt.text.patterns import NAMED, Splitter, named_splitter
from volt.text.patterns.character_sets import matched
from volt.text.patterns.splitter import _compiled

CORPORA = ("ted/Finnish", "ted/Georgian", "ted/Marathi", "ted/Urdu", "ted/Cantonese", "bible/uk")
Cut = Callable[[], object]


def texts(size: int) -> Iterator[tuple[str, bytes]]:
    """Name and content of each text, cut behind its last whole line."""
    folder = Path(os.environ.get("VOLT_DATA", ""))
    for name in CORPORA:
        for path in sorted(folder.glob(f"{name}.t*.gz")) if os.environ.get("VOLT_DATA") else ():
            with gzip.open(path) as file:
                data = file.read(size)
            yield name.split("/")[1], data[: data.rfind(b"\n") + 1]
    sources = b"".join(path.read_bytes() for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")))
    yield "Python", sources[: sources.rfind(b"\n", 0, size) + 1]


def ours(splitter: Splitter, data: bytes) -> Cut:
    """The loop, over all lines at once."""
    array = np.frombuffer(data, np.uint8)
    bounds = np.append(0, np.flatnonzero(array == 10) + 1)
    ends, spare, n_words = np.empty(len(data), np.int64), np.empty(len(data), np.int64), np.empty(len(bounds), np.int64)
    return lambda: cut_texts(array, bounds, splitter.tables, ends, spare, n_words)


def peers(name: str, lines: list[str]) -> Iterator[tuple[str, Cut]]:
    """The programs that can do the same, on text that is decoded already."""
    splits = NAMED[name]
    steps = [pre_tokenizers.Split(Regex(split.pattern), "isolated") for split in splits]
    sequence = pre_tokenizers.Sequence(steps)
    yield "tokenizers", lambda: [sequence.pre_tokenize_str(line) for line in lines]
    if len(splits) == 1 and not splits[0].from_end:
        find = regex.compile(splits[0].pattern)
        yield "regex", lambda: [find.findall(line) for line in lines]
        ranks = {bytes([byte]): byte for byte in range(256)}
        encoding = tiktoken.Encoding(name, pat_str=splits[0].pattern, mergeable_ranks=ranks, special_tokens={})
        yield "tiktoken", lambda: [encoding.encode_ordinary(line) for line in lines]


def seconds(run: Cut, rounds: int) -> float:
    """Processor seconds of this thread in the best round, after one to warm up."""
    run()
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        run()
        found.append(time.thread_time() - start)
    return min(found)


def compile_seconds(name: str) -> tuple[float, float]:
    """To compile a pattern, with nothing known, and with its properties of characters known."""
    matched.cache_clear()
    found = []
    for _ in range(2):
        _compiled.cache_clear()
        start = time.process_time()
        named_splitter(name)
        found.append(time.process_time() - start)
    return found[0], found[1]


def differing(name: str, lines: list[str]) -> int:
    """Lines that are cut otherwise than by the regex module."""
    (split,) = NAMED[name]
    find = regex.compile(split.pattern.replace("$|", r"\Z|"))
    splitter = named_splitter(name)
    return sum(splitter.split(line) != find.findall(line) for line in lines)


def main() -> int:
    """Print a row for each pattern and text. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=2.0, help="of each text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="time the other engines as well")
    parser.add_argument("--json", type=Path, help="a file for the rows")
    options, rows, n_differing = parser.parse_args(), list[dict[str, object]](), 0
    for name in NAMED:
        splitter, (cold, warm) = named_splitter(name), compile_seconds(name)
        print(
            f"{name}: {splitter.n_states} states, {splitter.tables.end} classes, {splitter.tables.moves.nbytes:,} bytes"
        )
        print(f"    compiled in {1e3 * cold:.0f} ms, {1e3 * warm:.0f} ms where its properties are known")
        for text, data in texts(int(options.mb * 1e6)):
            row: dict[str, object] = {"pattern": name, "text": text}
            row["volt"] = len(data) / seconds(ours(splitter, data), options.rounds) / 1e6
            few = data[: data.rfind(b"\n", 0, len(data) // 10) + 1]
            lines = few.decode().splitlines(keepends=True)
            if options.peers and not name.startswith("digits"):
                row |= {peer: len(few) / seconds(run, 1) / 1e6 for peer, run in peers(name, lines)}
            if len(splitter.splits) == 1 and "&&" not in splitter.splits[0].pattern and not name.startswith("digits"):
                n_differing += (found := differing(name, lines))
                row["lines"], row["differing"] = len(lines), found
            rows.append(row)
            print(
                "   ",
                *(f"{key} {value:.1f}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()),
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return n_differing > 0


if __name__ == "__main__":
    sys.exit(main())
