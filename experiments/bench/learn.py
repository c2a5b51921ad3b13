"""Corpus → vocabulary, timed: VOLT's whole search (30 sizes) beside programs that learn one size from the same file.

    VOLT_DATA=DIR python experiments/bench/learn.py [--words 40_000_000] [--repeats 3] [--json OUT]
    VOLT_DATA=DIR python experiments/bench/learn.py --level bytes [--mb 250] [--sizes 32_000]
    python experiments/bench/learn.py --corpus FILE

Every figure is that of a whole process, start-up included, with the file in the page cache; the stages are those that
`volt search --json` reports. Each VOLT command runs once more beforehand, uncounted, so that its compiled loops are on
disk; the first use on a machine has its own row. Rows from word counts leave out the time that counting takes.

Characters are measured on words drawn from word-count tables, bytes on Multi30k's training sentences, all of TED and the
Bible corpus, repeated: counting is measured at the full length, learning at the distinct words of 32 MB.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import Job, figures, parser, publish, run_rounds, say
from texts import Text, drawn, natural, temporary_folder

import volt

N_STEPS = 30
PACKAGES = ("volt-vocab", "numba", "polars", "tokenizers", "sentencepiece", "gigatoken")
HUGGING_FACE = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
corpus, output, size, cut = sys.argv[1:]
tokenizer = Tokenizer(models.BPE())
level = pre_tokenizers.ByteLevel
tokenizer.pre_tokenizer = level(add_prefix_space=False) if cut == "bytes" else pre_tokenizers.WhitespaceSplit()
alphabet = level.alphabet() if cut == "bytes" else []
tokenizer.train([corpus], trainers.BpeTrainer(vocab_size=int(size), initial_alphabet=alphabet, show_progress=False))
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
GIGATOKEN = """
import sys
from pathlib import Path
from gigatoken import train_bpe
corpus, size = sys.argv[1:]
train_bpe(Path(corpus), int(size), [])
"""


def size_steps(n_candidates: int) -> str:
    """Return thirty steps that end a little below the candidates, such as 1050:31500:1050 for 32,000."""
    step = n_candidates * 99 // 100 // N_STEPS // 50 * 50
    return f"{step}:{step * N_STEPS}:{step}"


class Rows:
    """The rows of one source of words, one level and one size. mb: of the text, 0 for word counts"""

    def __init__(self, source: str, level: str, size: int, *, mb: float, folder: Path) -> None:
        self.case = f"learn {size:,} {level}"
        self.source, self.level, self.size = source, level, size
        self.mb, self.folder = mb, folder

    def volt(self, path: Path, name: str = "volt search, 30 sizes", **more: object) -> Job:
        options = ["--candidates", str(self.size), "--sizes", size_steps(self.size)]
        options += ["--level", self.level, "--json", "-q"]
        if self.source == "word counts":
            options.append("--word-counts")
        command = [str(Path(sys.executable).with_name("volt")), "search", str(path)]
        command += ["-o", str(self.folder / "out.volt"), *options]
        return self.job(name, command, warm_up="env" not in more, **more)

    def peer(self, name: str, script: str, *arguments: object, python: str = "") -> Job:
        """Make the row of a peer's training, as a small script for this interpreter or another."""
        command = [python or sys.executable, "-c", script, *map(str, arguments)]
        return self.job(name, command)

    def job(self, name: str, command: Sequence[str], **more: Any) -> Job:
        return Job(self.case, self.source, name, command, self.mb, **more)


def byte_jobs(text: Text, size: int, *, folder: Path, gigatoken: str = "") -> Iterator[Job]:
    """Make the rows of a byte-level vocabulary. gigatoken: the interpreter that has it, by default this one"""
    rows = Rows("text", "bytes", size, mb=text.mb, folder=folder)
    yield rows.volt(text.path)
    yield rows.peer("gigatoken train_bpe", GIGATOKEN, text.path, size, python=gigatoken)
    yield rows.peer("tokenizers", HUGGING_FACE, text.path, folder / "hf.json", size, "bytes")


def jobs(text: Text, sizes: Sequence[int], *, folder: Path) -> Iterator[Job]:
    counts = volt.count_words(text.path)
    say(f"{counts.total:,} words, {counts.n_words:,} distinct, fingerprint {counts.fingerprint}")
    tabbed, spaced = folder / "words.tsv", folder / "words.txt"
    for path, separator in ((tabbed, "\t"), (spaced, " ")):
        lines = (f"{word}{separator}{count}\n" for word, count in counts.table.iter_rows())
        path.write_text("".join(lines), encoding="utf-8", newline="\n")
    hf, sp = folder / "hf.json", folder / "sp"
    for size in sizes:
        rows = Rows("text", "characters", size, mb=text.mb, folder=folder)
        yield rows.volt(text.path)
        yield rows.peer("tokenizers", HUGGING_FACE, text.path, hf, size, "words")
        yield rows.peer("sentencepiece", SENTENCEPIECE, text.path, sp, size, "text")
    rows = Rows("word counts", "characters", sizes[0], mb=0.0, folder=folder)
    yield rows.volt(spaced)
    yield rows.peer("sentencepiece", SENTENCEPIECE, tabbed, sp, sizes[0], "tsv")
    first: Mapping[str, str] = {"NUMBA_CACHE_DIR": str(folder / "numba")}
    rows = Rows("text, first use", "characters", sizes[0], mb=text.mb, folder=folder)
    yield rows.volt(text.path, env=first, max_runs=1)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--corpus", type=Path, help="a text file")
    made.add_argument("--level", choices=("characters", "bytes"), default="characters")
    made.add_argument("--words", type=int, default=4_000_000, help="words to draw (default 4 M)")
    made.add_argument("--mb", type=float, default=250.0, help="length of the text for bytes")
    made.add_argument("--sizes", type=int, nargs="+", default=[32_000, 100_000], help="tokens")
    options = made.parse_args()
    is_bytes = options.level == "bytes"
    with temporary_folder() as folder:
        if options.corpus:
            text = Text(options.corpus.name, options.corpus)
        else:
            is_drawn = not is_bytes
            text = (
                drawn(folder, n_words=options.words) if is_drawn else natural(folder, mb=options.mb)
            )
        if is_bytes:
            todo = list(byte_jobs(text, options.sizes[0], folder=folder))
        else:
            todo = list(jobs(text, options.sizes, folder=folder))
        found = figures(run_rounds(todo, repeats=options.repeats))
        publish(f"{text.name}, {text.mb:,.0f} MB", found, packages=PACKAGES, path=options.json)


if __name__ == "__main__":
    main()
