"""Answering, timed: how long after a line its answer comes, through pipes that stay open; and how fast many lines go.

    VOLT_DATA=DIR python experiments/bench/latency.py [--lines 500] [--mb 60] [--repeats 3] [--json OUT]

A program is started on two pipes. After its first answer, and as many lines as are measured to warm up, each line is
written when the answer to the one before has come: `median` and `p99` are of the seconds between. Then the same process
is given --mb MB as fast as it takes them, and the pipe is closed: `bulk` is the seconds until the last answer.
subword-nmt encodes with the same merges. Programs take turns, in fresh processes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from select import select
from statistics import median
from threading import Thread
from typing import BinaryIO

from measure import describe, machine, markdown_table, write_json
from rounds import as_data, say
from rows import Claim, Row
from texts import Text, models, multi30k_of, temporary_folder

PACKAGES = ("volt-vocab", "numba", "subword-nmt")
AIM = 0.05  # seconds, 99th percentile
DEADLINE = 60  # seconds for an answer
PEER_MB = 2.0  # of text for programs in plain Python
VOLT = (sys.executable, "-m", "volt_cli")


@dataclass(frozen=True, slots=True)
class Program:
    """How a program is started, and what it is given, line by line and in bulk."""

    command: Sequence[str]
    text: Text


@dataclass(frozen=True, slots=True)
class Turn:
    """Seconds of one process: to the first answer, to each further one, and for all lines at once."""

    first: float
    answers: list[float]
    bulk: float


def programs(folder: Path, mb: float, size: int) -> Mapping[str, Program]:
    """All that is measured, by name."""
    text, short = multi30k_of(folder, mb=mb), multi30k_of(folder, mb=min(mb, PEER_MB))
    found = models(folder, short, size=size, kinds=("words",))
    model = ("-m", found.volt("words"))
    encoders = {
        "volt encode": (*VOLT, "encode", *model),
        "volt encode --form ids": (*VOLT, "encode", *model, "--form", "ids"),
        "volt encode --dropout 0.1": (*VOLT, "encode", *model, "--dropout", "0.1", "--seed", "1"),
    }
    peer = (sys.executable, "-m", "subword_nmt.apply_bpe", "-c", found.file("words.codes"))
    decoders = {
        "volt decode": ((*VOLT, "decode", *model), encoded(encoders["volt encode"], short, folder / "pieces")),
        "volt decode --form ids": (
            (*VOLT, "decode", *model, "--form", "ids"),
            encoded(encoders["volt encode --form ids"], text, folder / "ids"),
        ),
    }
    return {
        **{name: Program(command, text) for name, command in encoders.items()},
        "subword-nmt apply-bpe": Program(peer, short),
        **{name: Program(command, given) for name, (command, given) in decoders.items()},
    }


def encoded(command: Sequence[str], text: Text, path: Path) -> Text:
    """What a program makes of a text, as a text of its own."""
    with path.open("wb") as file:
        subprocess.run([*command, str(text.path)], stdout=file, check=True)
    return Text(path.name, path)


def measured(program: Program, n_lines: int) -> Turn:
    """Start a program and ask it."""
    data = program.text.path.read_bytes()
    lines = iter(data.splitlines(keepends=True)[: 2 * n_lines + 1])
    start = time.perf_counter()
    process = subprocess.Popen(program.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdin
    assert process.stdout
    try:
        ask(process.stdin, process.stdout, next(lines))
        first = time.perf_counter() - start
        answers = [ask(process.stdin, process.stdout, line) for line in lines][n_lines:]
        return Turn(first, answers, all_at_once(process.stdin, process.stdout, data))
    finally:
        process.stdout.close()
        process.kill()
        process.wait()


def ask(requests: BinaryIO, answers: BinaryIO, line: bytes) -> float:
    """Seconds from a line to the end of its answer."""
    start, answer = time.perf_counter(), b""
    requests.write(line)
    while not answer.endswith(b"\n"):
        if not select([answers], [], [], DEADLINE)[0]:
            raise TimeoutError(f"no answer within {DEADLINE} s")
        answer += os.read(answers.fileno(), 1 << 16)
    return time.perf_counter() - start


def all_at_once(requests: BinaryIO, answers: BinaryIO, data: bytes) -> float:
    """Seconds from the first byte of a text to the end of all answers."""

    def write() -> None:
        with requests:
            for start in range(0, len(data), 1 << 16):
                requests.write(data[start : start + (1 << 16)])

    start, writer = time.perf_counter(), Thread(target=write)
    writer.start()
    while os.read(answers.fileno(), 1 << 20):
        pass
    writer.join()
    return time.perf_counter() - start


def rows(found: Mapping[str, Program], *, n_lines: int, n_repeats: int) -> Iterator[Row]:
    """A row for each program; those that cannot be measured say why."""
    turns, errors = {name: list[Turn]() for name in found}, dict[str, str]()
    for repeat in range(n_repeats):
        for name, program in found.items():
            try:
                turns[name] += [] if name in errors else [measured(program, n_lines)]
            except OSError as error:
                errors[name] = str(error)
        say(f"round {repeat + 1} of {n_repeats}")
    for name, program in found.items():
        if name in errors or not turns[name]:
            yield Row("answers", program.text.name, name, error=errors.get(name, "not measured"))
        else:
            yield row(name, program, turns[name])


def row(name: str, program: Program, turns: Sequence[Turn]) -> Row:
    """Medians over processes; the answers of all of them are one sample."""
    answers = sorted(seconds for turn in turns for seconds in turn.answers)
    seconds = {
        "first": median(turn.first for turn in turns),
        "median": median(answers),
        "p99": answers[len(answers) * 99 // 100],
        "bulk": median(turn.bulk for turn in turns),
    }
    spread = {"answers": [answers[0], answers[-1]], "bulk": [f(turn.bulk for turn in turns) for f in (min, max)]}
    return Row("answers", program.text.name, name, program.text.mb, seconds=seconds, spread=spread, n_runs=len(turns))


def claims(found: Sequence[Row]) -> Iterator[Claim]:
    """What was aimed at."""
    for one in found:
        if one.program.startswith("volt"):
            yield Claim(f"{one.program}, 99 of 100 answers", AIM, one.seconds.get("p99"), at_least=False, unit="s")


def as_markdown(found: Sequence[Row]) -> str:
    """The machine and the table."""
    header = ["program", "first answer s", "median ms", "99 % ms", "longest ms", "all at once MB/s", "runs"]
    return f"Machine: {describe(machine(*PACKAGES))}\n\n{markdown_table(header, map(_cells, found))}"


def _cells(one: Row) -> list[str]:
    if one.error:
        return [one.program, one.error, *[""] * 5]
    answers = (1000 * seconds for seconds in (one.seconds["median"], one.seconds["p99"], one.spread["answers"][1]))
    speed = one.mb / one.seconds["bulk"]
    return [
        one.program,
        f"{one.seconds['first']:.2f}",
        *(f"{ms:.2f}" for ms in answers),
        f"{speed:.1f}",
        str(one.n_runs),
    ]


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=500, help="that are measured one by one in each process")
    parser.add_argument("--mb", type=float, default=60.0, help="that are given at once")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--size", type=int, default=8_000, help="of the vocabulary (default 8,000)")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    with temporary_folder() as folder:
        asked = programs(folder, options.mb, options.size)
        found = list(rows(asked, n_lines=options.lines, n_repeats=options.repeats))
    print(as_markdown(found))
    if options.json:
        write_json(options.json, as_data("latency", found, list(claims(found)), packages=PACKAGES))


if __name__ == "__main__":
    main()
