"""Encoding, one table: VOLT beside every library that is installed, on the same text in the same run, ids compared.

    VOLT_DATA=DIR python experiments/bench/encode.py [--works load "one string" …] [--json OUT]
    python experiments/bench/encode.py --model deepseek=tokenizer.json --with tokenizers,gigatoken=OTHER/bin/python

The tokenizers are a byte-level and a suffix vocabulary that are learned, and those of --model: tokenizer.json or .model of
sentencepiece, or both, if they give the same ids; VOLT reads the first. --with adds sides from other environments, so that
two versions of a library can take part. A row is a work with one tokenizer:

    load          CPU seconds and memory of a process up to the first ids; VOLT also with an empty cache of arrays
    one string    µs of calls for a string of 10, 73 and 500 characters: ids, pieces, number of ids, and ids → text
    document      held-out text (TED in all languages) as one string, in two halves: for the first time, and again
    lines         the same text as a list of lines
    code          Python's own source code as one document, with 1 and 2 threads
    spans         lines with the span of each piece
    spaces        a document with one of U+00A0, U+3000, U+2028, U+0085 before a space
    decode        lists of ids → text
    sampling      lines, with paths drawn from a unigram model: alpha 0.1, from all paths and from the best 16

Speeds are MB of UTF-8 a CPU second on one thread, or a second of wall time with two. Each process counts once; the best
of --repeats processes counts. peers.py is what a process runs. Where a library cannot do a work, its cell is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import Figure, Job, Row, add_environments, figures, parser, publish, run_rounds, say
from peers import LIBRARIES, WORKS
from texts import models, multi30k, ted, temporary_folder, write

import volt
from volt.errors import VoltError
from volt.formats.registry import write_vocabulary
from volt.text.patterns.published import NAMED

PACKAGES = ("volt-vocab", "numba")
LEARNED = {"bytes": "bytes", "suffix": "words"}  # by name: the kind of vocabulary
HERE = str(Path(__file__).with_name("peers.py"))
# Works that share a process; words that one work has met would no longer be new to the next.
PROCESSES = (
    ("load", "one string", "spans", "spaces", "decode"),
    ("document",),
    ("lines",),
    ("code",),
    ("sampling",),
)


@dataclass(frozen=True, slots=True)
class Side:
    """A library in an environment. label: its name and version."""

    library: str
    python: str
    label: str


def find_sides(others: Sequence[str]) -> tuple[list[Side], list[str]]:
    """Return the sides of this environment and of NAME,NAME=PYTHON, and the libraries that are missing everywhere."""
    wanted = [(list(LIBRARIES), sys.executable)]
    for other in others:
        names, _, python = other.partition("=")
        wanted.append(([name for name in names.split(",") if name in LIBRARIES], python))
    sides = []
    for names, python in wanted:
        if not names:
            continue
        command = [python, HERE, "versions"]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        sides += [Side(name, python, f"{name} {found[name]}") for name in names if name in found]
    present = {side.library for side in sides}
    return sides, [name for name in LIBRARIES if name not in present]


def make_texts(folder: Path, *, mb: float) -> dict[str, str]:
    """Write the texts of all works; return their paths by the names that peers.py uses."""
    lines = ted(folder).path.read_bytes().splitlines(keepends=True)
    # lines of all languages in turn: every n-th, from two places
    step = max(2, round(sum(map(len, lines)) / (mb * 1e6)))
    halves = {
        "first half": write(folder, f"first half of {mb:g} MB", lines[::step]),
        "second half": write(folder, f"second half of {mb:g} MB", lines[1::step]),
    }
    library = Path(sysconfig.get_path("stdlib"))
    sources = sorted(path for path in library.glob("*.py") if path.stat().st_size)
    texts = {
        **halves,
        "sample": write(folder, "sample", lines[:: max(2, 5 * step)]),
        "code": write(folder, "code", (path.read_bytes() for path in sources)),
    }
    return {name: str(text.path) for name, text in texts.items()}


def learned_models(folder: Path, names: Sequence[str], *, size: int) -> dict[str, str]:
    """Learn a byte-level vocabulary on other lines, and a suffix vocabulary on Multi30k; return their tokenizer.json."""
    result = {}
    for name in names:
        kind = LEARNED[name]
        text = ted(folder, every=7) if name == "bytes" else multi30k(folder, times=1)
        home = models(folder, text, size=size, kinds=(kind,))
        vocabulary = volt.Vocabulary.load(home / f"{kind}.volt")
        write_vocabulary(vocabulary, home / f"{kind}-hf", to="huggingface")
        result[name] = str(home / f"{kind}-hf" / "tokenizer.json")
    return result


def files_of(
    name: str, vocabulary: volt.Vocabulary, paths: Sequence[str], folder: Path
) -> dict[str, dict[str, str]]:
    """Return the options of each kind of library. Write the tokenizer for libraries that read none of the files, where it
    fits them.
    """
    result = {"any": {"model": paths[0]}}
    result |= {kind_of(path): {"model": path} for path in paths}
    pattern = single_pattern(vocabulary)
    exports = {"json": "huggingface", "model": "sentencepiece"}
    if pattern:
        exports["tiktoken"] = "tiktoken"
    for kind, form in exports.items():
        if kind in result:
            continue
        file = folder / f"{name}.{kind}"
        try:
            write_vocabulary(vocabulary, file, to=form)
        except VoltError as error:
            say(f"{name}: not for {form}: {error}")
        else:
            result[kind] = {"model": str(file), "pattern": pattern}
    return result


def kind_of(path: str) -> str:
    return "model" if path.endswith(".model") else "json"


def single_pattern(vocabulary: volt.Vocabulary) -> str:
    """Return the pattern that cuts the words of a byte-level vocabulary, or nothing if it is not a single one."""
    pretokenizer = vocabulary.pretokenizer
    splits = NAMED["gpt2"] if pretokenizer.name == "bytes" else pretokenizer.splits or ()
    return splits[0].pattern if len(splits) == 1 else ""


def jobs(
    sides: Sequence[Side],
    tokenizers: Mapping[str, str],
    texts: Mapping[str, str],
    *,
    works: Sequence[str],
    folder: Path,
) -> Iterator[Job]:
    for name, given in tokenizers.items():
        paths = given.split(",")
        vocabulary = volt.read_vocabulary(paths[0])
        files = files_of(name, vocabulary, paths, folder)
        possible = set(works) if vocabulary.is_unigram else {*works} - {"sampling"}
        for process in PROCESSES:
            chosen = [work for work in process if work in possible]
            for threads in (1, 2) if chosen == ["code"] else (1,):
                for side in sides if chosen else ():
                    kind = LIBRARIES[side.library][2]
                    if kind in files:
                        task = {"texts": texts, "works": chosen, "threads": threads, **files[kind]}
                        is_first = name == next(iter(tokenizers))
                        yield job(side, name, task, folder, warm_up=is_first)


def job(side: Side, name: str, task: Mapping[str, Any], folder: Path, *, warm_up: bool) -> Job:
    """Make a process. warm_up: let VOLT compile its loops, which is once for all tokenizers."""
    given = json.dumps({"library": side.library, **task})
    env = {"XDG_CACHE_HOME": str(folder / "cache")}
    command = [side.python, HERE, given]
    return Job(
        f"encode, {name}",
        "",
        side.label,
        command,
        threads=task["threads"],
        env=env,
        phased=True,
        warm_up=warm_up and side.library == "volt",
    )


def measured(
    options: argparse.Namespace, folder: Path, *, repeats: int, works: Sequence[str]
) -> list[Figure]:
    """Run all sides in turn; return their figures, and a row with the libraries that are missing."""
    sides, missing = find_sides(options.others)
    texts = make_texts(folder, mb=options.mb)
    tokenizers = learned_models(folder, options.learned, size=options.size)
    tokenizers |= dict(model.split("=", 1) for model in options.model)
    todo = list(jobs(sides, tokenizers, texts, works=works, folder=folder))
    first = first_loads(todo) if "load" in works else []
    rows = run_rounds(todo, repeats=repeats)
    absent = [Figure("encode", "", name, None, note="not installed") for name in missing]
    return [*figures(first), *figures(rows), *absent]


def first_loads(todo: Sequence[Job]) -> list[Row]:
    """Load each tokenizer once with VOLT while the cache of arrays is empty; loops are compiled."""
    ours = [one for one in todo if one.program.startswith("volt") and '"load"' in one.command[-1]]
    jobs = []
    for one in ours:
        task = {**json.loads(one.command[-1]), "works": ["load"]}
        command = [*one.command[:-1], json.dumps(task)]
        case = f"{one.case}, empty cache"
        jobs.append(Job(case, "", one.program, command, threads=1, env=one.env, phased=True))
    return run_rounds(jobs, repeats=1)


def add_options(made: argparse.ArgumentParser) -> None:
    add_environments(made)
    made.add_argument(
        "--model", nargs="+", default=[], metavar="NAME=FILE[,FILE]", help="tokenizer.json, .model"
    )
    made.add_argument("--learned", nargs="*", choices=LEARNED, default=list(LEARNED))
    made.add_argument("--mb", type=float, default=2.0, help="length of a half (default 2)")
    made.add_argument("--size", type=int, default=8_000, help="of learned vocabularies")


def main() -> None:
    made = parser(__doc__)
    add_options(made)
    made.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    options = made.parse_args()
    with temporary_folder() as folder:
        found = measured(options, folder, repeats=options.repeats, works=options.works)
        publish("Encoding", found, packages=PACKAGES, path=options.json)


if __name__ == "__main__":
    main()
