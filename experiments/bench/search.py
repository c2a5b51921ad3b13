"""Corpus → vocabulary, timed: VOLT's whole search (30 sizes) beside peers that learn one size, on the same file.

    VOLT_DATA=DIR python experiments/bench/search.py [--words 40_000_000] [--repeats 3] [--json OUT] [--markdown OUT]
    python experiments/bench/search.py --corpus FILE

Every row is a whole process, start-up included, with the file in the page cache; figures are medians. The repeats of
all rows are interleaved, so that what else the machine does strikes all alike. Each VOLT command runs once more
beforehand, uncounted, so that its compiled loops are on disk; the first use on a machine is a row of its own. Rows that
start from a word-count table leave out the time that making the table takes.

The running text of --words is drawn from the word-count tables in $VOLT_DATA/wordfreq (seed 0) and kept in the
temporary folder.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from measure import BUSY, Run, Summary, describe, machine, markdown_table, run, write_json

import volt

TABLES = ("lt", "is", "ka")
SIZES = (32_000, 100_000)
N_STEPS = 30
SLOW_WORDS = 100_000  # distinct words beyond which subword-nmt takes more than some minutes
CHUNK_LINES = 100_000
PACKAGES = ("volt-vocab", "numba", "polars", "tokenizers", "sentencepiece", "subword-nmt")

HUGGING_FACE = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
corpus, output, size = sys.argv[1:]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer.train([corpus], trainers.BpeTrainer(vocab_size=int(size), show_progress=False))
tokenizer.save(output)
"""
SENTENCEPIECE = """
import os, sys
from sentencepiece import SentencePieceTrainer
corpus, output, size, form = sys.argv[1:]
SentencePieceTrainer.train(
    input=corpus, input_format=form, model_prefix=output, model_type="bpe", vocab_size=int(size),
    character_coverage=1.0, normalization_rule_name="identity", num_threads=os.cpu_count(), minloglevel=2,
    input_sentence_size=0, train_extremely_large_corpus=False,
)
"""
SUBWORD_NMT = """
import sys
from subword_nmt.learn_bpe import learn_bpe
corpus, output, size = sys.argv[1:]
with open(corpus, encoding="utf-8", newline="\\n") as words, open(output, "w", encoding="utf-8") as codes:
    learn_bpe(words, codes, int(size), is_dict=True)
"""


@dataclass(frozen=True, slots=True)
class Text:
    """A corpus as every program wants it: running text, and its words with a tab or a space before their counts."""

    lines: Path
    tabbed: Path
    spaced: Path
    counts: volt.WordCounts

    @property
    def signature(self) -> str:
        """What was measured."""
        size, counts = f"{self.lines.stat().st_size / 1e6:,.0f} MB", self.counts
        words = f"{counts.total:,} words, {counts.n_words:,} distinct"
        return f"{self.lines.name}, {size}, {words}, fingerprint {counts.fingerprint}"


@dataclass(frozen=True, slots=True)
class Job:
    """A row: what is run, on which form of the corpus, for which size."""

    name: str
    source: str
    size: int
    command: Sequence[str] = ()
    env: dict[str, str] = field(default_factory=dict)
    max_runs: int = sys.maxsize
    warm_up: bool = False
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A job's summary. ratio: to HF tokenizers at the same size, in wall seconds;  phases: seconds, as VOLT reports."""

    job: Job
    summary: Summary | None = None
    ratio: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    error: str = ""
    runs: tuple[Run, ...] = ()


def read_tables(paths: Sequence[Path]) -> Counter[str]:
    """The sum of word-count tables, a word, a space and a count per line."""
    counts = Counter[str]()
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for word, count in (line.rsplit(" ", 1) for line in file):
                counts[word] += int(count)
    return counts


def expanded(counts: Counter[str], n_words: int, *, seed: int = 0) -> Iterator[str]:
    """Running text, in chunks: words drawn one by one by their counts, 5 to 39 a line (the last may be shorter).

    >>> "".join(expanded(Counter(a=1), 4))
    'a a a a\\n'
    """
    rng = np.random.default_rng(seed)
    inner, last = (np.array([word + end for word in counts], dtype=object) for end in " \n")
    shares = np.array(list(counts.values()), dtype=float)
    edges = np.cumsum(shares / shares.sum())
    while n_words:
        ends = np.cumsum(rng.integers(5, 40, size=CHUNK_LINES))
        size = min(n_words, int(ends[-1]))
        drawn = np.minimum(np.searchsorted(edges, rng.random(size), side="right"), len(edges) - 1)
        final = np.zeros(size, bool)
        final[ends[ends <= size] - 1] = final[-1] = True
        yield "".join(np.where(final, last[drawn], inner[drawn]))
        n_words -= size


def running_text(n_words: int, *, data: Path, folder: Path) -> Path:
    """The expanded word-count tables, from the folder if they are there already."""
    paths = [data / "wordfreq" / f"{name}.txt.gz" for name in TABLES]
    digest = blake2b(b"".join(path.read_bytes() for path in paths), digest_size=4).hexdigest()
    target = folder / f"{'-'.join(TABLES)}.{n_words}.{digest}.txt"
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}")
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(expanded(read_tables(paths), n_words))
        partial.replace(target)
    return target


def prepare(lines: Path, *, folder: Path) -> Text:
    """Count the words, and write the tables that some programs start from."""
    counts = volt.count_words(lines)
    text = Text(lines, folder / "words.tsv", folder / "words.txt", counts)
    for path, separator in ((text.tabbed, "\t"), (text.spaced, " ")):
        rows = (f"{word}{separator}{count}\n" for word, count in counts.table.iter_rows())
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(rows)
    return text


def size_steps(n_candidates: int) -> str:
    """Thirty steps that end a little below the candidates, as START:STOP:STEP.

    >>> size_steps(100_000), size_steps(32_000)
    ('3300:99000:3300', '1050:31500:1050')
    """
    step = n_candidates * 99 // 100 // N_STEPS // 50 * 50
    return f"{step}:{step * N_STEPS}:{step}"


def volt_job(source: str, path: Path, size: int, *, folder: Path, level: str = "characters", **more: Any) -> Job:
    """A whole search, as a user types it."""
    program = Path(sys.executable).with_name("volt")
    table = ["--word-counts"] if source == "word counts" else []
    options = ["--candidates", str(size), "--sizes", size_steps(size), "--level", level, "--json", "-q", *table]
    command = [str(program), "search", str(path), "-o", str(folder / "volt.volt"), *options]
    return Job(more.pop("name", f"volt search, {N_STEPS} sizes"), source, size, command, **more)


def peer_job(name: str, source: str, size: int, script: str, *arguments: str) -> Job:
    """A peer's training, as a small script for this interpreter."""
    return Job(name, source, size, [sys.executable, "-c", script, *arguments])


def subword_nmt_job(text: Text, size: int, *, folder: Path, slow: bool) -> Job:
    """learn-bpe, unless it would take too long."""
    if text.counts.n_words > SLOW_WORDS and not slow:
        reason = f"skipped: minutes to hours with more than {SLOW_WORDS:,} distinct words; pass --slow"
        return Job("subword-nmt learn-bpe", "word counts", size, skipped=reason)
    arguments = str(text.spaced), str(folder / "subword-nmt.codes"), str(size)
    return peer_job("subword-nmt learn-bpe", "word counts", size, SUBWORD_NMT, *arguments)


def jobs(text: Text, *, folder: Path, slow: bool) -> Iterator[Job]:
    """All rows."""
    small, large = SIZES
    lines, hf, sp = str(text.lines), str(folder / "hf.json"), str(folder / "sp")
    for size in SIZES:
        yield volt_job("text", text.lines, size, folder=folder, warm_up=True)
    yield volt_job("word counts", text.spaced, small, folder=folder, warm_up=True)
    fresh = {"NUMBA_CACHE_DIR": str(folder / "numba")}
    name = "volt search, first use: compiles"
    yield volt_job("text", text.lines, small, folder=folder, name=name, env=fresh, max_runs=1)
    yield peer_job("HF tokenizers BPE", "text", small, HUGGING_FACE, lines, hf, str(small))
    yield peer_job("HF tokenizers BPE", "text", large, HUGGING_FACE, lines, hf, str(large))
    yield peer_job("sentencepiece BPE", "text", small, SENTENCEPIECE, lines, sp, str(small), "text")
    yield peer_job("sentencepiece BPE", "word counts", small, SENTENCEPIECE, str(text.tabbed), sp, str(small), "tsv")
    yield subword_nmt_job(text, small, folder=folder, slow=slow)


def warm(path: Path) -> None:
    """Bring a file into the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def run_all(todo: Sequence[Job], *, text: Text, n_repeats: int) -> list[list[Run]]:
    """The runs of every job, round by round; a job that fails is not tried again."""
    runs = [list[Run]() for _ in todo]
    for job in todo:
        if job.warm_up:
            run_once(job, text=text, label="uncounted")
    for repeat in range(n_repeats):
        for job, done in zip(todo, runs, strict=True):
            if not job.skipped and repeat < job.max_runs and not any(one.error for one in done):
                done.append(run_once(job, text=text, label=f"{repeat + 1}/{n_repeats}"))
    return runs


def run_once(job: Job, *, text: Text, label: str) -> Run:
    """One run, with the corpus in the page cache."""
    warm(text.lines)
    one = run(job.command, env=job.env)
    say(f"{label:>9}  {job.name}, {job.source}, {job.size:,}: {one.wall:.2f} s {one.error}")
    return one


def phases(runs: Sequence[Run]) -> dict[str, float]:
    """VOLT's own account of its median run, with what it does not see: loading Python and packages, and ending."""
    middle = sorted(runs, key=lambda one: one.wall)[(len(runs) - 1) // 2]
    if not middle.stdout.startswith("{"):
        return {}
    seconds: dict[str, float] = json.loads(middle.stdout)["seconds"]
    return {**seconds, "rest": middle.wall - sum(seconds.values())}


def rows(todo: Sequence[Job], runs: Sequence[list[Run]]) -> list[Row]:
    """Summaries, with the ratio to HF tokenizers of the same size."""
    table = [row(job, done) for job, done in zip(todo, runs, strict=True)]
    walls = {one.job.size: one.summary.wall for one in table if one.summary and one.job.name.startswith("HF")}
    return [
        replace(one, ratio=one.summary.wall / walls[one.job.size]) if one.summary and one.job.size in walls else one
        for one in table
    ]


def row(job: Job, runs: Sequence[Run]) -> Row:
    """A job's row, still without the ratio."""
    error = next((one.error for one in runs if one.error), "")
    if error or not runs:
        return Row(job, error=error)
    return Row(job, Summary.of(runs), phases=phases(runs), runs=tuple(replace(one, stdout="") for one in runs))


def label(job: Job) -> list[str]:
    """The first cells of a row."""
    return [job.name, job.source, f"{job.size:,}"]


def cells(one: Row) -> list[str]:
    """A row of the table."""
    figures = one.summary
    if figures is None:
        return [*label(one.job), *["–"] * 5]
    spread = f"{figures.fastest:.2f}–{figures.slowest:.2f}" if figures.n_runs > 1 else "one run"
    ratio = f"{one.ratio:.2f}" if one.ratio else "–"
    return [
        *label(one.job),
        f"{figures.wall:.2f}{figures.mark}",
        spread,
        f"{figures.cpu:.2f}",
        f"{figures.peak:,.0f}",
        ratio,
    ]


def phase_table(table: Sequence[Row]) -> str:
    """What VOLT's rows spent their time on."""
    timed = [one for one in table if one.phases]
    if not timed:
        return "No phases: no search ended."
    names = list(dict.fromkeys(name for one in timed for name in one.phases))
    spent = [[*label(one.job), *(f"{one.phases.get(name, 0):.2f}" for name in names)] for one in timed]
    return markdown_table(["seconds", "from", "size", *names], spent, n_text=2)


def as_markdown(table: Sequence[Row], *, signature: str, facts: dict[str, Any]) -> str:
    """The tables, what was left out or failed, and the signature."""
    header = ["program", "from", "size", "wall s", "range", "CPU s", "peak MB", "÷ HF"]
    missing = [f"- {', '.join(label(one.job))}: {one.job.skipped or one.error}" for one in table if not one.summary]
    lines = [
        f"Corpus: {signature}  ",
        f"Machine: {describe(facts)}",
        "",
        markdown_table(header, map(cells, table), n_text=2),
        "",
        *missing,
        f"- Medians of whole processes. \\* Other processes kept more than {BUSY} cores busy meanwhile.",
        "- From word counts: the time to make the table is left out.",
        f"- The peers learn one size. VOLT also solves {N_STEPS} sizes, picks one and writes its vocabulary.",
        "- Phases are those of the median run; rest is loading Python and packages, and ending.",
        "",
        phase_table(table),
    ]
    return "\n".join(lines) + "\n"


def as_data(table: Sequence[Row], *, signature: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The same as JSON values."""
    return {"corpus": signature, "machine": facts, "rows": [asdict(row) for row in table]}


def say(message: str) -> None:
    """Tell people, not pipes."""
    print(message, file=sys.stderr, flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    corpus = parser.add_mutually_exclusive_group()
    corpus.add_argument("--corpus", type=Path, help="a text file")
    corpus.add_argument("--words", type=int, default=4_000_000, help="length of the text to make (default 4 million)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--slow", action="store_true", help="run subword-nmt however long it takes")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    parser.add_argument("--markdown", type=Path, help="also write the tables here")
    options = parser.parse_args()
    if options.corpus is None and "VOLT_DATA" not in os.environ:
        parser.error("give --corpus FILE, or set VOLT_DATA to the folder that holds wordfreq/")
    report(options)


def report(options: argparse.Namespace) -> None:
    """Prepare the corpus, run everything, print and write."""
    facts = machine(*PACKAGES)
    kept = Path(tempfile.gettempdir(), "volt-bench")
    kept.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="volt-bench-"))
    try:
        lines = options.corpus or running_text(options.words, data=Path(os.environ["VOLT_DATA"]), folder=kept)
        start = time.perf_counter()
        text = prepare(lines, folder=folder)
        say(f"{text.signature}; counted and written as tables in {time.perf_counter() - start:.1f} s")
        todo = list(jobs(text, folder=folder, slow=options.slow))
        table = rows(todo, run_all(todo, text=text, n_repeats=options.repeats))
    finally:
        shutil.rmtree(folder)
    markdown = as_markdown(table, signature=text.signature, facts=facts)
    print(markdown)
    if options.markdown:
        options.markdown.write_text(markdown, encoding="utf-8")
    if options.json:
        write_json(options.json, as_data(table, signature=text.signature, facts=facts))


if __name__ == "__main__":
    main()
