"""Natural text → byte-level vocabulary, timed: VOLT's whole search (30 sizes) beside programs that learn one size.

    VOLT_DATA=DIR python experiments/bench/search_bytes.py [--mb 250] [--size 32_000] [--repeats 3] [--json OUT]
    python experiments/bench/search_bytes.py --corpus FILE

The text is Multi30k's training sentences, all of TED and the Bible corpus, repeated: counting is measured at its full
length, learning at the distinct words of 32 MB. Rows are whole processes, as in search.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from measure import Job, parser, publish, run_rounds
from search import HF, HUGGING_FACE, PACKAGES, peer_job, volt_job
from texts import Text, natural, temporary_folder

GIGATOKEN = """
import sys
from pathlib import Path
from gigatoken import train_bpe
corpus, size = sys.argv[1:]
train_bpe(Path(corpus), int(size), [])
"""


def jobs(text: Text, size: int, *, folder: Path) -> Iterator[Job]:
    yield volt_job("text", text.path, size, folder=folder, level="bytes", warm_up=True)
    yield peer_job("gigatoken train_bpe", "text", size, GIGATOKEN, text.path, size)
    yield peer_job(HF, "text", size, HUGGING_FACE, text.path, folder / "hf.json", size, "bytes")


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--corpus", type=Path, help="a text file")
    made.add_argument(
        "--mb", type=float, default=250.0, help="length of the text to make (default 250)"
    )
    made.add_argument("--size", type=int, default=32_000, help="tokens, or merges (default 32,000)")
    options = made.parse_args()
    with temporary_folder() as folder:
        text = (
            Text(options.corpus.name, options.corpus)
            if options.corpus
            else natural(folder, mb=options.mb)
        )
        todo = [
            replace(job, case=f"bytes, {job.case}")
            for job in jobs(text, options.size, folder=folder)
        ]
        rows = run_rounds(todo, repeats=options.repeats)
        publish(f"{text.name}, {text.mb:,.0f} MB", rows, packages=PACKAGES, path=options.json)


if __name__ == "__main__":
    main()
