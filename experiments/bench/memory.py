"""Peak memory: VOLT's commands on texts of growing size, the resident memory of the largest process.

    VOLT_DATA=DIR python experiments/bench/memory.py [--mb 10 50 200] [--zipf FILE] [--json OUT]

Multi30k again and again has the same words however long it is, so memory should not grow with it; the Zipf text has
more distinct words the longer it is, and memory follows these.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from rounds import Job, as_data, publish, run_rounds
from rows import Claim, Row
from texts import Text, models, multi30k, multi30k_of, temporary_folder, zipf

PACKAGES = ("volt-vocab", "numba", "polars")
VOLT = str(Path(sys.executable).with_name("volt"))
COUNT = "import sys, volt; print(volt.count_words(sys.argv[1]).n_words)"
ENCODE_FILE = "import sys, volt; print(len(volt.Encoder(volt.Vocabulary.load(sys.argv[1])).encode_file(sys.argv[2])))"


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, nargs="+", default=[10.0, 50.0, 200.0], help="of natural text")
    parser.add_argument("--zipf-words", type=int, nargs="+", default=[1_000_000, 4_000_000], help="lengths drawn")
    parser.add_argument("--zipf", type=Path, help="another text of many distinct words")
    parser.add_argument("--size", type=int, default=8_000, help="of vocabularies (default 8,000)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    with temporary_folder() as folder:
        rows = run_rounds(list(jobs(folder, options)), n_repeats=options.repeats, budget=15)
    publish(as_data("memory", rows, list(claims(rows)), packages=PACKAGES), options.json)


def jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """All rows."""
    model = models(folder, multi30k(folder, times=1), size=options.size, kinds=("words",)).volt("words")
    texts = [multi30k_of(folder, mb=mb) for mb in options.mb]
    texts += [zipf(folder, n_words=n) for n in options.zipf_words]
    texts += [Text(options.zipf.stem, options.zipf)] if options.zipf else []
    for text in texts:
        path, out = str(text.path), str(folder / "out")
        commands = {
            "count_words": [sys.executable, "-c", COUNT, path],
            "volt search": [VOLT, "search", path, "-o", str(folder / "out.volt"), "-q"],
            "volt encode, pieces": [VOLT, "encode", "-m", model, path, "-o", out, "-q"],
            "volt encode, npy": [VOLT, "encode", "-m", model, path, "-o", out, "-q", "--form", "npy"],
            "encode_file": [sys.executable, "-c", ENCODE_FILE, model, path],
        }
        for name, command in commands.items():
            yield Job("memory", text.name, name, command, text.mb, 2, phased=False)


def claims(rows: list[Row]) -> Iterator[Claim]:
    """Memory on the longest natural text ÷ that on the shortest, where the text streams through."""
    for program in ("volt search", "volt encode, pieces", "volt encode, npy"):
        found = [row for row in rows if row.program == program and row.text.startswith("Multi30k") and not row.error]
        if len(found) > 1:
            name = f"peak MB of {program}, {found[-1].mb:,.0f} MB of text ÷ {found[0].mb:,.0f} MB"
            yield Claim(name, 2.0, found[-1].peak / found[0].peak, at_least=False)


if __name__ == "__main__":
    main()
