"""Natural text → byte-level vocabulary, timed: VOLT's whole search (30 sizes) beside trainers of one size.

    VOLT_DATA=DIR python experiments/bench/search_bytes.py [--mb 250] [--size 32_000] [--repeats 3] [--json OUT]
    python experiments/bench/search_bytes.py --corpus FILE

The text is Multi30k's training sentences, all of TED and of the Bible corpus, one after the other and again and again.
So its distinct words are those of 32 MB: counting is measured at its full length, and learning at that of 32 MB.
Rows are whole processes, as in search.py; the ratio is to the trainer of HF tokenizers.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import machine, write_json
from search import Job, Text, as_data, as_markdown, peer_job, prepare, rows, run_all, say, volt_job
from texts import data_folder, write

PACKAGES = ("volt-vocab", "numba", "polars", "tokenizers", "gigatoken")
FOLDERS = ("multi30k/train", "ted/", "bible/")
GIGATOKEN = """
import sys
from pathlib import Path
from gigatoken import train_bpe
corpus, size = sys.argv[1:]
train_bpe(Path(corpus), int(size), [])
"""
HUGGING_FACE = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
corpus, output, size = sys.argv[1:]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=int(size), initial_alphabet=alphabet, show_progress=False)
tokenizer.train([corpus], trainer)
tokenizer.save(output)
"""


def natural_parts() -> Iterator[bytes]:
    """The texts of all corpora; of a line of the Bible, what stands behind the number of the verse."""
    for path in sorted(data_folder().rglob("*.gz")):
        name = path.relative_to(data_folder()).as_posix()
        if name.startswith(FOLDERS):
            lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
            yield b"".join(line.partition(b"\t")[2] if name.startswith("bible/") else line for line in lines)


def natural(folder: Path, *, mb: float) -> Path:
    """All of it, as often as it takes to have about so many MB."""
    whole = b"".join(natural_parts())
    return write(folder, f"natural, {mb:g} MB", [whole] * max(1, round(mb * 1e6 / len(whole)))).path


def jobs(text: Text, size: int, *, folder: Path) -> Iterator[Job]:
    """All rows."""
    lines, hf = str(text.lines), str(folder / "hf.json")
    yield volt_job("text", text.lines, size, folder=folder, level="bytes", warm_up=True)
    yield peer_job("gigatoken train_bpe", "text", size, GIGATOKEN, lines, str(size))
    yield peer_job("HF tokenizers BPE, ByteLevel", "text", size, HUGGING_FACE, lines, hf, str(size))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a text file")
    parser.add_argument("--mb", type=float, default=250.0, help="length of the text to make (default 250)")
    parser.add_argument("--size", type=int, default=32_000, help="tokens, or merges (default 32,000)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    facts, folder = machine(*PACKAGES), Path(tempfile.mkdtemp(prefix="volt-bench-"))
    try:
        text = prepare(options.corpus or natural(folder, mb=options.mb), folder=folder)
        say(text.signature)
        todo = list(jobs(text, options.size, folder=folder))
        table, signature = rows(todo, run_all(todo, text=text, n_repeats=options.repeats)), text.signature
    finally:
        shutil.rmtree(folder)
    print(as_markdown(table, signature=signature, facts=facts))
    if options.json:
        write_json(options.json, as_data(table, signature=signature, facts=facts))


if __name__ == "__main__":
    main()
