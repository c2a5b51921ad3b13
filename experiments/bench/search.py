"""Corpus → vocabulary, timed: VOLT's whole search (30 sizes) beside programs that learn one size from the same file.

    VOLT_DATA=DIR python experiments/bench/search.py [--words 40_000_000] [--repeats 3] [--json OUT]
    python experiments/bench/search.py --corpus FILE

Every row is a whole process, start-up included, with the file in the page cache; figures are medians, ratios are to HF
tokenizers. VOLT's rows show the phases that `volt search --json` reports. Each VOLT command runs once more beforehand,
uncounted, so that its compiled loops are on disk; the first use on a machine has its own row. Rows from word counts
leave out the time that counting takes. search_bytes.py measures the byte level.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import Job, parser, publish, run_rounds, say
from texts import Text, drawn, temporary_folder

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
HF = "HF tokenizers BPE"


def size_steps(n_candidates: int) -> str:
    """Return thirty steps that end a little below the candidates, such as 1050:31500:1050 for 32,000."""
    step = n_candidates * 99 // 100 // N_STEPS // 50 * 50
    return f"{step}:{step * N_STEPS}:{step}"


def volt_job(
    source: str, path: Path, size: int, *, folder: Path, level: str = "characters", **more: Any
) -> Job:
    options = [
        "--candidates",
        str(size),
        "--sizes",
        size_steps(size),
        "--level",
        level,
        "--json",
        "-q",
    ]
    options += ["--word-counts"] if source == "word counts" else []
    command = [
        str(Path(sys.executable).with_name("volt")),
        "search",
        str(path),
        "-o",
        str(folder / "out.volt"),
    ]
    name = more.pop("name", f"volt search, {N_STEPS} sizes")
    return Job(f"{size:,} tokens", source, name, [*command, *options], against=HF, **more)


def peer_job(name: str, source: str, size: int, script: str, *arguments: object) -> Job:
    """Make the row of a peer's training, as a small script for this interpreter."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return Job(f"{size:,} tokens", source, name, command, against=HF)


def jobs(text: Text, *, folder: Path) -> Iterator[Job]:
    counts = volt.count_words(text.path)
    say(f"{counts.total:,} words, {counts.n_words:,} distinct, fingerprint {counts.fingerprint}")
    tabbed, spaced = folder / "words.tsv", folder / "words.txt"
    for path, separator in ((tabbed, "\t"), (spaced, " ")):
        rows = (f"{word}{separator}{count}\n" for word, count in counts.table.iter_rows())
        path.write_text("".join(rows), encoding="utf-8", newline="\n")
    lines, hf, sp = text.path, folder / "hf.json", folder / "sp"
    small = 32_000
    yield volt_job("text", lines, small, folder=folder, warm_up=True)
    yield volt_job("word counts", spaced, small, folder=folder, warm_up=True)
    fresh = {"NUMBA_CACHE_DIR": str(folder / "numba")}
    yield volt_job(
        "text", lines, small, folder=folder, name="volt search, first use", env=fresh, max_runs=1
    )
    yield peer_job(HF, "text", small, HUGGING_FACE, lines, hf, small, "words")
    yield peer_job("sentencepiece BPE", "text", small, SENTENCEPIECE, lines, sp, small, "text")
    yield peer_job(
        "sentencepiece BPE", "word counts", small, SENTENCEPIECE, tabbed, sp, small, "tsv"
    )
    yield volt_job("text", lines, 100_000, folder=folder, warm_up=True)
    yield peer_job(HF, "text", 100_000, HUGGING_FACE, lines, hf, 100_000, "words")


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--corpus", type=Path, help="a text file")
    made.add_argument(
        "--words",
        type=int,
        default=4_000_000,
        help="length of the text to draw (default 4 million)",
    )
    options = made.parse_args()
    with temporary_folder() as folder:
        text = (
            Text(options.corpus.name, options.corpus)
            if options.corpus
            else drawn(folder, n_words=options.words)
        )
        rows = run_rounds(list(jobs(text, folder=folder)), repeats=options.repeats)
        publish(f"{text.name}, {text.mb:,.0f} MB", rows, packages=PACKAGES, path=options.json)


if __name__ == "__main__":
    main()
