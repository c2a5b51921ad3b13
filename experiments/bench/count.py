"""Counting words, timed: `volt.count_words`, the same by Polars as it counts small texts, and collections.Counter.

    VOLT_DATA=DIR python experiments/bench/count.py [--times 10] [--distinct 10_000_000] [--cases …] [--json OUT]

natural    Multi30k again and again, as plain text, .gz, .zst, JSON lines and Parquet; and by several pre-tokenisers
distinct   plain text of many distinct words, most of which occur once or twice
zipf       plain text drawn from word-count tables

Large plain texts are counted by units (volt.count.by_units); JSON lines and Parquet by Polars in any case. Every
run is a fresh process; `first` is its first count and `warm` a second one. `equal` compares words and counts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from rounds import Job, as_data, find, publish, run_rounds
from rows import Claim, Row
from texts import Text, multi30k, temporary_folder, write, zipf

CASES = ("natural", "distinct", "zipf")
PACKAGES = ("volt-vocab", "polars", "numba", "zstandard")
COLUMN = "text"
BLOCK_SIZE = 1 << 22
ROWS = 1 << 18  # of Parquet at a time
PRETOKENIZERS = ("bytes", "gpt2", "unicode", "metaspace")


@dataclass(frozen=True, slots=True)
class Task:
    """What a child counts. save: where the fingerprint of words and counts goes, if it is not there yet;  phases:
    first, or first and warm."""

    program: str
    path: str
    threads: int
    save: str
    pretokenizer: str = "whitespace"
    phases: Sequence[str] = ("first", "warm")


def main() -> None:
    """Measure what the command line asks for, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budget", type=float, default=12.0, help="seconds for the repeats of one row (default 12)")
    parser.add_argument("--times", type=int, default=5, help="how many times Multi30k (default 5)")
    parser.add_argument("--distinct", type=int, default=10_000_000, help="distinct words (default 10 million)")
    parser.add_argument("--zipf", type=Path, help="a text with many distinct words; default: drawn from word counts")
    parser.add_argument("--zipf-words", type=int, default=5_000_000, help="its length (default 5 million)")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run_task(Task(**json.loads(options.child)))))
        return
    rows: list[Row] = []
    with temporary_folder() as folder:
        for case in options.cases:
            made = list(JOBS[case](folder, options))
            rows += run_rounds(made, n_repeats=options.repeats, budget=options.budget)
    publish(as_data("count", rows, list(claims(rows)), packages=PACKAGES), options.json)


def natural_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """The same text in five forms."""
    text = multi30k(folder, times=options.times)
    for form, make in FORMS.items():
        path = text.path if form == ".txt" else text.path.with_suffix(form)
        make(text.path, path)
        yield from jobs("natural", replace(text, name=f"{text.name}, {form[1:]}", path=path), text.mb, folder)
    for name in PRETOKENIZERS:
        yield from jobs("natural", replace(text, name=f"{text.name}, {name}"), text.mb, folder, pretokenizer=name)


def distinct_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """Many words: half as many again as there are distinct ones."""
    text = write(folder, f"{options.distinct:,} distinct words", distinct_words(options.distinct))
    yield from jobs("distinct", text, text.mb, folder)


def zipf_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """Words as frequent as in subtitles."""
    text = Text(options.zipf.stem, options.zipf) if options.zipf else zipf(folder, n_words=options.zipf_words)
    yield from jobs("zipf", text, text.mb, folder)


JOBS: dict[str, Callable[[Path, argparse.Namespace], Iterator[Job]]] = {
    "natural": natural_jobs,
    "distinct": distinct_jobs,
    "zipf": zipf_jobs,
}


def jobs(case: str, text: Text, mb: float, folder: Path, *, pretokenizer: str = "whitespace") -> Iterator[Job]:
    """The rows of one file. mb: of its text."""
    programs = [("volt", 2), ("volt", 1), ("polars", 2), ("polars", 1), ("Counter", 1)]
    for program, threads in programs if pretokenizer == "whitespace" else programs[:-1]:
        saved = folder / f"{text.path.name}-{pretokenizer}-{program}-{threads}.fingerprint"
        phases = ("first",) if case == "distinct" else ("first", "warm")  # there a count takes long
        task = Task(program, str(text.path), threads, str(saved), pretokenizer, phases)
        command = [sys.executable, __file__, "--child", json.dumps(asdict(task))]
        ours = folder / f"{text.path.name}-{pretokenizer}-volt-2.fingerprint"
        check = partial(equal_counts, saved, ours) if program != "volt" else None
        yield Job(case, text.name, program, command, mb, threads, "" if program == "volt" else "volt", check=check)


def equal_counts(one: Path, other: Path) -> str:
    """Whether two fingerprints are equal."""
    return "all" if one.read_text() == other.read_text() else "NO"


def distinct_words(n: int) -> Iterator[bytes]:
    """Lines of 20 words, each of the n words once, and half of them again."""
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    rng, size = np.random.default_rng(0), 200_000
    for start in chain(range(0, n, size), range(0, n // 2, size)):
        numbers = np.arange(start, min(start + size, n)).astype(np.uint64)
        rng.shuffle(numbers)
        mixed = numbers * np.uint64(2654435761) % np.uint64(26**7)  # one to one while n is below 26⁷
        digits = mixed[:, None] // (np.uint64(26) ** np.arange(7, dtype=np.uint64)) % np.uint64(26)
        words = np.full((len(numbers), 8), ord(" "), np.uint8)
        words[:, :7] = letters[digits.astype(np.int64)]
        words[19::20, 7] = words[-1, 7] = ord("\n")
        yield words.tobytes()


def make_gz(source: Path, target: Path) -> None:
    """As gzip does, at its fastest."""
    with gzip.open(target, "wb", compresslevel=1) as file:
        file.write(source.read_bytes())


def make_zst(source: Path, target: Path) -> None:
    """As zstd does."""
    import zstandard

    target.write_bytes(zstandard.compress(source.read_bytes()))


def make_jsonl(source: Path, target: Path) -> None:
    """An object per line."""
    with source.open(encoding="utf-8", newline="\n") as lines, target.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": i, COLUMN: line[:-1]}) + "\n" for i, line in enumerate(lines))


def make_parquet(source: Path, target: Path) -> None:
    """A row per line."""
    import polars as pl

    pl.scan_lines(source, name=COLUMN).collect().write_parquet(target)


FORMS: dict[str, Callable[[Path, Path], None]] = {
    ".txt": lambda source, target: None,
    ".gz": make_gz,
    ".zst": make_zst,
    ".jsonl": make_jsonl,
    ".parquet": make_parquet,
}


def run_task(task: Task) -> dict[str, Any]:
    """Count twice; say what the counts are."""
    start = time.perf_counter()
    import_module("collections" if task.program == "Counter" else "volt.count.corpus")
    seconds = {"make": time.perf_counter() - start}
    for phase in task.phases:
        start = time.perf_counter()
        found = COUNTERS[task.program](task)
        seconds[phase] = time.perf_counter() - start
        if not Path(task.save).exists():
            Path(task.save).write_text(fingerprint(found))
        del found
    return {"seconds": seconds}


def fingerprint(found: Any) -> str:
    """That of words and counts."""
    import polars as pl

    from volt.count.word_counts import WordCounts

    if isinstance(found, Counter):
        found = pl.DataFrame({"word": list(found), "count": list(found.values())}).sort("word")
    return (found if isinstance(found, WordCounts) else WordCounts(found)).fingerprint


def count_volt(task: Task) -> Any:
    """What VOLT does."""
    import volt

    return volt.count_words(task.path, column=column_of(task.path), pretokenizer=task.pretokenizer)


def count_polars(task: Task) -> Any:
    """The same as VOLT counts small texts."""
    from volt.count import counting

    counting._LARGE = sys.maxsize
    return count_volt(task)


def count_python(task: Task) -> Counter[str]:
    """What a Python programmer does, block by block since that is faster than line by line."""
    counts = Counter[str]()
    for block in python_blocks(task.path):
        counts.update(block.split())
    return counts


def python_blocks(path: str) -> Iterator[str]:
    """Text in blocks of whole lines, read with what Python has (for .zst and Parquet, with what everybody uses)."""
    if path.endswith(".parquet"):
        import polars as pl

        yield from ("\n".join(part[COLUMN].to_list()) for part in pl.read_parquet(path).iter_slices(ROWS))
        return
    with opened(path) as file:
        while lines := file.readlines(BLOCK_SIZE):
            yield (
                "\n".join(json.loads(line)[COLUMN] for line in lines)
                if path.endswith("l")
                else b"".join(lines).decode()
            )


def opened(path: str) -> Any:
    """A binary file, decompressed."""
    if path.endswith(".zst"):
        import io

        import zstandard

        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(open(path, "rb")), 1 << 20)
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")


def column_of(path: str) -> str | None:
    """The text column, where there are columns."""
    return COLUMN if path.endswith((".jsonl", ".parquet")) else None


COUNTERS: dict[str, Callable[[Task], Any]] = {"volt": count_volt, "polars": count_polars, "Counter": count_python}


def claims(rows: list[Row]) -> Iterator[Claim]:
    """How much faster than Counter and Polars VOLT is with 2 threads."""
    for row in rows:
        ours = find(rows, case=row.case, program="volt", text=row.text, threads=2)
        if ours and not row.error and (row.program, row.threads) in (("Counter", 1), ("polars", 2)):
            phase = "warm" if "warm" in row.seconds else "first"
            yield Claim(f"{row.text}: {row.program} ÷ volt, {phase}", 1.0, row.seconds[phase] / ours.seconds[phase])


if __name__ == "__main__":
    main()
