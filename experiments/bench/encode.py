"""Encoding, timed: VOLT beside gigatoken, HF tokenizers, sentencepiece, tiktoken and subword-nmt, in one run.

    VOLT_DATA=DIR python experiments/bench/encode.py [--cases ids text dropout list] [--json OUT]

ids      a file → ids within a process: first call, first call of a new encoder (cold), further calls (warm)
text     a file → a file of pieces, whole processes
dropout  BPE-dropout, a list of lines → ids           list    a Python list of lines → ids

Equal work: gigatoken, HF and tiktoken encode with VOLT's byte-level vocabulary and sentencepiece with its prefix
vocabulary, exported; ratios are to VOLT with the same vocabulary, and `equal` is the share of lines with the same ids
(or pieces). "volt, words" uses VOLT's default vocabulary, which cuts at white space. Slow programs get a sample, and so
does VOLT, for comparison. A row whose repeats would take more than --budget seconds has fewer runs.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from measure import Job, parser, publish, run_rounds
from peers import Task, equal_lines
from texts import Text, models, multi30k, ted, temporary_folder

PACKAGES = ("volt-vocab", "numba", "gigatoken", "tokenizers", "sentencepiece", "tiktoken", "subword-nmt")
HERE = Path(__file__).parent
DROPOUT = 0.1
FILES = {  # by the vocabulary of the programs: their names and files
    "bytes": {"gigatoken": "hf/tokenizer.json", "huggingface": "hf/tokenizer.json", "tiktoken": "bytes.tiktoken"},
    "prefix": {"sentencepiece": "prefix.model"},
}
FAST = "gigatoken"
# No wheel of sentencepiece holds spm_encode; this script does what it does with --output_format=piece, in threads.
SPM_ENCODE = """
import sys
from itertools import islice
from sentencepiece import SentencePieceProcessor
model, source, target, threads = sys.argv[1:]
processor = SentencePieceProcessor(model_file=model)
with open(source, encoding="utf-8", newline="\\n") as lines, open(target, "w", encoding="utf-8", newline="\\n") as out:
    while batch := [line.rstrip("\\n") for line in islice(lines, 50_000)]:
        encoded = processor.Encode(batch, out_type=str, num_threads=int(threads))
        out.writelines(" ".join(pieces) + "\\n" for pieces in encoded)
"""


def rows(case: str, text: Text, home: Path, threads: int, *, slow: bool, **more: Any) -> Iterator[Job]:
    """Make the rows of VOLT with each kind of vocabulary and of the programs that share it. slow: all programs."""

    def job(program: str, model: str, kind: str, **how: Any) -> Job:
        save = home / f"out-{text.path.stem}-{case}-{threads}-{program}-{kind}.npz"
        task = Task(program, str(text.path), str(home / model), threads, save=str(save), **more, **how)
        command = [sys.executable, str(HERE / "peers.py"), json.dumps(asdict(task))]
        ours = home / f"out-{text.path.stem}-{case}-{threads}-volt-{kind}.npz"
        check = partial(equal_lines, save, ours) if program != "volt" and not more.get("dropout") else None
        name, against = (f"volt, {kind}", "") if program == "volt" else (program, f"volt, {kind}")
        return Job(case, text.name, name, command, text.mb, threads, against, phased=True, check=check)

    yield job("volt", "words.volt", "words", n_warm=5)
    for kind, peers in FILES.items():
        chosen = {name: file for name, file in peers.items() if slow or name == FAST}
        if chosen:
            yield job("volt", f"{kind}.volt", kind, n_warm=5)
        for name, file in chosen.items():  # the others remember little or nothing from call to call
            yield job(name, file, kind, n_warm=5 if name == FAST else 1, cold=name == FAST)


def ids_jobs(folder: Path, options: Namespace) -> Iterator[Job]:
    """Natural text, whole for the fast programs and a sample for all."""
    whole = multi30k(folder, times=options.times), ted(folder)
    samples = multi30k(folder, times=1), ted(folder, every=options.every)
    for text, sample in zip(whole, samples, strict=True):
        home = models(folder, sample, size=options.size)
        for one in dict.fromkeys((text, sample)):
            for threads in (1, 2):
                yield from rows("ids", one, home, threads, slow=one == sample)


def dropout_jobs(folder: Path, options: Namespace) -> Iterator[Job]:
    """Both programs draw at random, so ids differ."""
    text = multi30k(folder, times=1)
    home = models(folder, text, size=options.size)
    for threads in (1, 2):
        for job in rows("dropout", text, home, threads, slow=True, form="list", dropout=DROPOUT):
            if job.program in ("volt, words", "volt, bytes", "huggingface"):
                yield job


def list_jobs(folder: Path, options: Namespace) -> Iterator[Job]:
    """A Python list of lines."""
    text = multi30k(folder, times=1)
    home = models(folder, text, size=options.size)
    for threads in (1, 2):
        yield from rows("list", text, home, threads, slow=True, form="list")


def text_jobs(folder: Path, options: Namespace) -> Iterator[Job]:
    """Whole processes, file to file; ratios are of seconds per MB to VOLT on the same text."""
    text = multi30k(folder, times=max(1, options.times // 4))
    home = models(folder, multi30k(folder, times=1), size=options.size)
    volt, nmt = (str(Path(sys.executable).with_name(name)) for name in ("volt", "subword-nmt"))
    source = str(text.path)
    for threads in (1, 2):
        out = str(folder / f"out-{threads}-")
        ours = {"words": ["--separator", "@@"], "prefix": []}
        for kind, marks in ours.items():
            model = str(home / f"{kind}.volt")
            command = [volt, "encode", "-m", model, source, "-o", out + kind, "--threads", str(threads), "-q", *marks]
            yield Job("text", text.name, f"volt encode, {kind}", command, text.mb, threads)
        codes, model = str(home / "words.codes"), str(home / "prefix.model")
        apply_bpe = [nmt, "apply-bpe", "-c", codes, "-i", source, "-o", out + "nmt", "--num-workers", str(threads)]
        spm = [sys.executable, "-c", SPM_ENCODE, model, source, out + "spm", str(threads)]
        for name, command, kind, file in (
            ("subword-nmt apply-bpe", apply_bpe, "words", "nmt"), ("sentencepiece script", spm, "prefix", "spm"),
        ):  # fmt: skip
            check = partial(equal_pieces, Path(out + file), Path(out + kind))
            yield Job("text", text.name, name, command, text.mb, threads, f"volt encode, {kind}", check=check)


def equal_pieces(one: Path, other: Path) -> str:
    """Return the share of equal lines of two files."""
    with one.open("rb") as first, other.open("rb") as second:
        equal = [line == same for line, same in zip(first, second, strict=True)]
    return "all" if all(equal) else f"{100 * sum(equal) / len(equal):.2f} % of lines"


JOBS: dict[str, Callable[[Path, Namespace], Iterator[Job]]] = {
    "ids": ids_jobs,
    "text": text_jobs,
    "dropout": dropout_jobs,
    "list": list_jobs,
}


def main() -> None:
    """Measure what the command line asks for."""
    made = parser(__doc__, repeats=5)
    made.add_argument("--cases", nargs="+", choices=JOBS, default=list(JOBS))
    made.add_argument(
        "--budget", type=float, default=3.0, help="seconds of all runs of a row, at least one (default 3)"
    )
    made.add_argument("--times", type=int, default=10, help="repetitions of Multi30k (default 10)")
    made.add_argument("--every", type=int, default=4, help="slow programs get every n-th line of TED (default 4)")
    made.add_argument("--size", type=int, default=8_000, help="of vocabularies (default 8,000)")
    options = made.parse_args()
    measured = []
    with temporary_folder() as folder:
        for case in options.cases:
            todo = list(JOBS[case](folder, options))
            warm = {job.program: job for job in todo if job.program.startswith("volt")}  # compiles what is missing
            todo = [replace(job, warm_up=job is warm.get(job.program)) for job in todo]
            measured += run_rounds(todo, repeats=options.repeats, budget=options.budget)
        publish("Encoding", measured, packages=PACKAGES, path=options.json)


if __name__ == "__main__":
    main()
