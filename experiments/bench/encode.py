"""Encoding, timed: VOLT beside gigatoken, HF tokenizers, sentencepiece, tiktoken and subword-nmt, in one run.

    VOLT_DATA=DIR python experiments/bench/encode.py [--cases ids text zipf dropout list linear word] [--json OUT]

ids      a file → ids within a process: first call, first call of a new encoder (cold), further calls (warm)
text     a file → a file of pieces, whole processes
zipf     the same as ids on a text of many distinct words, and what --cache-words does to time and memory
dropout  BPE-dropout, a list of lines → ids           list    a Python list of lines → ids
linear   texts of 10 MB to 200 MB (--large: 1 GB)     word    a single word of 100,000 characters

Equal work: gigatoken, HF and tiktoken encode with VOLT's byte-level vocabulary and sentencepiece with its prefix
vocabulary, exported, and the rows that they are compared with use the same one; `equal` says how many lines have the
same ids (or pieces). `volt` alone uses VOLT's default vocabulary, which cuts at white space and marks where words end.
Every run is a fresh process; those of all programs are interleaved. A row whose --repeats would take more than --budget
seconds has fewer runs (the table says how many; give 60 for 5 runs of all). Programs that are slow are measured on a
sample, and so is VOLT, for comparison.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from measure import run
from peers import Task, equal_lines
from rounds import Job, as_data, find, publish, run_rounds, say
from rows import Claim, Row
from texts import Models, Text, long_words, models, multi30k, multi30k_of, ted, temporary_folder, write, zipf

PACKAGES = ("volt-vocab", "numba", "gigatoken", "tokenizers", "sentencepiece", "tiktoken", "subword-nmt")
CASES = ("ids", "text", "zipf", "dropout", "list", "linear", "word")
PEERS = Path(__file__).with_name("peers.py")
VOLT = str(Path(sys.executable).with_name("volt"))
SUBWORD_NMT = str(Path(sys.executable).with_name("subword-nmt"))
DROPOUT = 0.1
CACHES = (1 << 14, 1 << 17, 1 << 20)
SLOW_MB = 20.0  # of text for whole processes of slow programs
LONG_WORD = 100_000
# No wheel of sentencepiece holds spm_encode. This does what it does with --output_format=piece, in batches, in threads.
SPM_ENCODE = """
import sys
from itertools import islice
from sentencepiece import SentencePieceProcessor
model, source, target, threads = sys.argv[1:]
processor = SentencePieceProcessor(model_file=model)
with open(source, encoding="utf-8", newline="\\n") as lines, open(target, "w", encoding="utf-8", newline="\\n") as out:
    while batch := [line.rstrip("\\n") for line in islice(lines, 50_000)]:
        found = processor.Encode(batch, out_type=str, num_threads=int(threads))
        out.writelines(" ".join(pieces) + "\\n" for pieces in found)
"""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--budget", type=float, default=3.0, help="seconds for all runs of a row, one at least (default 3)"
    )
    parser.add_argument("--times", type=int, default=10, help="how many times Multi30k (default 10)")
    parser.add_argument("--every", type=int, default=4, help="each which line of TED slow programs get (default 4)")
    parser.add_argument("--mb", type=float, default=200.0, help="of text for whole processes (default 200)")
    parser.add_argument("--slow-mb", type=float, default=SLOW_MB, help="the same for slow programs (default 20)")
    parser.add_argument("--zipf", type=Path, help="a text with many distinct words; default: drawn from word counts")
    parser.add_argument(
        "--zipf-words", type=int, default=5_000_000, help="length of the text drawn (default 5 million)"
    )
    parser.add_argument("--size", type=int, default=8_000, help="of vocabularies (default 8,000)")
    parser.add_argument("--large", action="store_true", help="linear: up to 1 GB")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    rows: list[Row] = []
    with temporary_folder() as folder:
        compile_all(folder, options)
        for case in options.cases:
            made = list(JOBS[case](folder, options))
            rows += run_rounds(made, n_repeats=options.repeats, budget=options.budget)
            clean(folder)
    publish(as_data("encode", rows, list(claims(rows)), packages=PACKAGES), options.json)


def compile_all(folder: Path, options: argparse.Namespace) -> None:
    """Use everything once, so that all compiled code is on disk."""
    text = write(folder, "few lines", ["a few lines, äöü, to the last\n".encode() * 50])
    found = models(folder, multi30k(folder, times=1), size=options.size)
    for kind, dropout in (("words", 0.0), ("bytes", 0.0), ("words", DROPOUT)):
        job = child(Task("volt", str(text.path), found.volt(kind), 2, dropout=dropout), "compile", text)
        say(run(job.command).error or f"compiled: {kind}, dropout {dropout}")
    say(run(command_job(text, found.volt("words"), folder, 2, separator="@@").command).error or "compiled: text")


def clean(folder: Path) -> None:
    """Remove what runs left, but not texts and models."""
    for path in folder.glob("out*"):
        path.unlink()


def child(task: Task, case: str, text: Text, *, name: str = "", against: str = "", **more: Any) -> Job:
    """A row of one task within a process."""
    command = [sys.executable, str(PEERS), json.dumps(asdict(task))]
    return Job(case, text.name, name or task.program, command, text.mb, task.threads, against, **more)


def pair(
    case: str, text: Text, programs: Iterable[tuple[str, str]], ours: str, *, folder: Path, threads: int, **more: Any
) -> Iterator[Job]:
    """VOLT with one vocabulary and peers with the same one, whose ids are compared with VOLT's.

    programs: names and models;  ours: VOLT's model.
    """
    kind = Path(ours).stem
    stem = folder / f"out-{text.path.stem}-{threads}"
    task = partial(Task, text=str(text.path), threads=threads, **more)
    saved = Path(f"{stem}-volt-{kind}.npz")
    yield child(task("volt", model=ours, n_warm=5, save=str(saved)), case, text, name=f"volt, {kind}")
    for program, model in programs:
        theirs = Path(f"{stem}-{program}.npz")
        n_warm, cold = (5, True) if program == "gigatoken" else (1, False)  # the others remember little or nothing
        job = child(
            task(program, model=model, n_warm=n_warm, cold=cold, save=str(theirs)), case, text, against=f"volt, {kind}"
        )
        yield job if more.get("dropout") else replace(job, check=partial(equal_lines, theirs, saved))


def alone(case: str, text: Text, model: str, *, threads: int, **more: Any) -> Job:
    """VOLT with its default vocabulary."""
    return child(Task("volt", str(text.path), model, threads, n_warm=5, **more), case, text)


def programs(found: Models, *, slow: bool) -> list[tuple[str, str]]:
    """Those that share the byte-level vocabulary."""
    some = [("gigatoken", found.file("hf/tokenizer.json"))]
    others = [("huggingface", found.file("hf/tokenizer.json")), ("tiktoken", found.file("bytes.tiktoken"))]
    return some + others * slow


def ids_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """Natural text, whole for the fast programs and a sample for all; 1 and 2 threads."""
    whole = multi30k(folder, times=options.times), ted(folder)
    samples = multi30k(folder, times=1), ted(folder, every=options.every)
    for text, sample in zip(whole, samples, strict=True):
        found = models(folder, sample, size=options.size)
        for one, threads in ((one, threads) for one in (text, sample) for threads in (1, 2)):
            slow = one is sample
            yield alone("ids", one, found.volt("words"), threads=threads)
            yield from pair("ids", one, programs(found, slow=slow), found.volt("bytes"), folder=folder, threads=threads)
            if slow:
                theirs = [("sentencepiece", found.file("prefix.model"))]
                yield from pair("ids", one, theirs, found.volt("prefix"), folder=folder, threads=threads)


def text_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """Whole processes, file to file; the peers on a sample, where VOLT is measured too and results are compared."""
    text, sample = multi30k_of(folder, mb=options.mb), multi30k_of(folder, mb=min(options.mb, options.slow_mb))
    found = models(folder, multi30k(folder, times=1), size=options.size, kinds=("words", "prefix"))
    for one in dict.fromkeys((text, sample)):
        for threads in (1, 2):
            yield command_job(one, found.volt("words"), folder, threads, separator="@@")
            yield command_job(one, found.volt("prefix"), folder, threads)
    for threads in (1, 2):
        out = folder / f"out-{sample.path.stem}-{threads}"
        codes, source = found.file("words.codes"), str(sample.path)
        theirs = [
            SUBWORD_NMT,
            "apply-bpe",
            "-c",
            codes,
            "-i",
            source,
            "-o",
            f"{out}-nmt",
            "--num-workers",
            str(threads),
        ]
        row = command_row(sample, "subword-nmt apply-bpe", theirs, threads, Path(f"{out}-nmt"), Path(f"{out}-words"))
        yield replace(row, against_text=text.name, note=f"compared with VOLT on {text.name}; pieces are compared here")
        theirs = [sys.executable, "-c", SPM_ENCODE, found.file("prefix.model"), source, f"{out}-spm", str(threads)]
        row = command_row(sample, "sentencepiece script", theirs, threads, Path(f"{out}-spm"), Path(f"{out}-prefix"))
        note = "compared likewise; no wheel holds spm_encode, so a script of ten lines does the same, in threads"
        yield replace(row, against_text=text.name, note=note)


def command_job(text: Text, model: str, folder: Path, threads: int, *, separator: str = "") -> Job:
    """`volt encode`, file to file."""
    kind = Path(model).stem
    out = folder / f"out-{text.path.stem}-{threads}-{kind}"
    marks = ["--separator", separator] if separator else []
    command = [VOLT, "encode", "-m", model, str(text.path), "-o", str(out), "--threads", str(threads), "-q", *marks]
    return Job("text", text.name, f"volt encode, {kind}", command, text.mb, threads, phased=False)


def command_row(text: Text, name: str, command: list[str], threads: int, out: Path, ours: Path) -> Job:
    """A peer's command, with its output compared to VOLT's."""
    against = f"volt encode, {ours.name.rpartition('-')[2]}"
    check = partial(equal_pieces, out, ours)
    return Job("text", text.name, name, command, text.mb, threads, against, phased=False, check=check)


def equal_pieces(one: Path, other: Path) -> str:
    """How many lines of two files are equal, as a percentage."""
    n = n_equal = 0
    with one.open("rb") as first, other.open("rb") as second:
        for line, same in zip(first, second, strict=True):
            n, n_equal = n + 1, n_equal + (line == same)
    return "all" if n == n_equal else f"{100 * n_equal / n:.2f} % of lines"


def zipf_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """Many distinct words. HF makes one call per process."""
    text = Text(options.zipf.stem, options.zipf) if options.zipf else zipf(folder, n_words=options.zipf_words)
    found = models(folder, text, size=options.size, kinds=("words", "bytes"))
    for threads in (1, 2):
        yield alone("zipf", text, found.volt("words"), threads=threads)
        yield from pair("zipf", text, programs(found, slow=False), found.volt("bytes"), folder=folder, threads=threads)
    model = found.file("hf/tokenizer.json")
    saved, theirs = (folder / f"out-{text.path.stem}-2-{name}.npz" for name in ("volt-bytes", "huggingface"))
    task = Task("huggingface", str(text.path), model, 2, n_warm=0, cold=False, save=str(theirs))
    job = child(task, "zipf", text, against="volt, bytes", check=partial(equal_lines, theirs, saved))
    yield replace(job, max_runs=1 if text.mb > 30 else options.repeats)
    for n in CACHES:
        command = [VOLT, "encode", "-m", found.volt("words"), str(text.path), "-o", str(folder / "out"), "-q"]
        command += ["--form", "npy", "--cache-words", str(n)]
        yield Job("zipf", text.name, f"volt encode --cache-words {n:,}", command, text.mb, 2, phased=False)


def dropout_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """Both draw at random, so their ids differ."""
    text = multi30k(folder, times=1)
    found = models(folder, text, size=options.size)
    theirs = [("huggingface", found.file("hf/tokenizer.json"))]
    for threads in (1, 2):
        more: dict[str, Any] = {"threads": threads, "form": "list", "dropout": DROPOUT}
        yield alone("dropout", text, found.volt("words"), **more)
        yield from pair("dropout", text, theirs, found.volt("bytes"), folder=folder, **more)


def list_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """A Python list of lines."""
    text = multi30k(folder, times=1)
    found = models(folder, text, size=options.size)
    for threads in (1, 2):
        yield alone("list", text, found.volt("words"), threads=threads, form="list")
        some = [*programs(found, slow=False), ("huggingface", found.file("hf/tokenizer.json"))]
        yield from pair("list", text, some, found.volt("bytes"), folder=folder, threads=threads, form="list")


def linear_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """The same text, more and more of it."""
    found = models(folder, multi30k(folder, times=1), size=options.size, kinds=("words",))
    sizes = [options.mb * part for part in (0.05, 0.15, 0.5, 1.0)] + [1_000.0] * options.large
    for mb in sizes:
        text = multi30k_of(folder, mb=mb)
        yield child(Task("volt", str(text.path), found.volt("words"), 2, cold=False, n_warm=3), "linear", text)


def word_jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """Seconds, not MB/s, since there is one word."""
    found = models(folder, multi30k(folder, times=1), size=options.size)
    for text in long_words(folder, length=LONG_WORD):
        job = child(Task("volt", str(text.path), found.volt("words")), "word", text)
        yield replace(job, mb=0.0)


JOBS: dict[str, Callable[[Path, argparse.Namespace], Iterator[Job]]] = {
    "ids": ids_jobs,
    "text": text_jobs,
    "zipf": zipf_jobs,
    "dropout": dropout_jobs,
    "list": list_jobs,
    "linear": linear_jobs,
    "word": word_jobs,
}


def claims(rows: list[Row]) -> Iterator[Claim]:
    """What was aimed at, on 2 threads; where several texts were measured, on each."""
    for row in rows:
        yield from (Claim(f"{row.case}, {row.text}, {phase}: {row.program}", *aim) for phase, aim in aims(row))
        one = find(rows, case=row.case, program=row.program, text=row.text, threads=1)
        if row.case == "ids" and row.threads == 2 and row.program.startswith("volt") and one and row.mb > 50:
            name = f"1 → 2 threads, {row.text}, {row.program}, warm"
            yield Claim(name, 1.7, one.seconds["warm"] / row.seconds["warm"])
        if row.case == "word" and not row.error:
            yield Claim(f"{row.text}, {row.program}, cold", 0.1, row.seconds["cold"], at_least=False, unit="s")
    yield from linear_claims([row for row in rows if row.case == "linear" and not row.error])


def aims(row: Row) -> Iterator[tuple[str, tuple[float, float]]]:
    """Phases of a peer's row, each with the wanted and the found ratio."""
    wanted = {
        ("ids", "gigatoken"): {"warm": 1.2, "cold": 2.0, "first": 2.0},
        ("ids", "huggingface"): {"warm": 40.0},
        ("ids", "sentencepiece"): {"warm": 30.0},
        ("text", "subword-nmt apply-bpe"): {"wall": 15.0},
        ("text", "sentencepiece script"): {"wall": 10.0},
        ("zipf", "huggingface"): {"first": 10.0},
        ("dropout", "huggingface"): {"warm": 5.0},
        ("list", "huggingface"): {"warm": 8.0},
    }
    for phase, ratio in wanted.get((row.case, row.program), {}).items():
        if row.threads == 2 and phase in row.ratios:
            yield phase, (ratio, row.ratios[phase])


def linear_claims(rows: list[Row]) -> Iterator[Claim]:
    """Seconds per MB of the longest text ÷ those of the shortest."""
    for program in dict.fromkeys(row.program for row in rows):
        short, *_, long = (row for row in rows if row.program == program)
        ratio = long.seconds["warm"] / long.mb / (short.seconds["warm"] / short.mb)
        yield Claim(f"seconds per MB, {long.mb:,.0f} MB ÷ {short.mb:,.0f} MB, {program}", 1.25, ratio, at_least=False)


if __name__ == "__main__":
    main()
