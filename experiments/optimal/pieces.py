"""How many pieces do BPE, its tokens with fewest pieces, and optimal tokens need, beside the bound?

    python -m experiments.optimal.pieces run --data $VOLT_DATA
    python -m experiments.optimal.pieces report

`run` writes vocabularies (vocabularies.py) into the folder of each corpus's texts, and appends
the numbers to pieces.jsonl, unless they are there already. Tokens are chosen on train.txt; held out are dev.txt and
test.txt. `report` prints the table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.lm.data import prepared
from experiments.optimal.vocabularies import (
    PRETOKENIZER,
    SYSTEMS,
    Found,
    count_pieces,
    find_vocabularies,
)
from volt.count.corpus import count_words
from volt.errors import CandidateError
from volt.trial.results import Results, parse
from volt.trial.texts import Texts

FILE = Path(__file__).parent / "pieces.jsonl"
CORPORA = ("multi30k-en", "multi30k-de", "bible-uk", "ted-ka", "ted-fi")
SIZES = (1_000, 2_000, 4_000, 8_000, 16_000)


def path_of(texts: Texts, size: int, system: str) -> Path:
    """Return the path of a vocabulary."""
    return texts.folder / f"{size}-{system}.json"


def measure(texts: Texts, size: int) -> dict[str, Any]:
    """Write the vocabularies of a size. Return the pieces of each in training and held-out text.

    Raises CandidateError if the text does not give so many tokens.
    """
    began = time.process_time()
    counts = count_words([str(texts.path("train"))], pretokenizer=PRETOKENIZER)
    found = find_vocabularies(counts, size)
    seconds = time.process_time() - began
    lines = {name: texts.path(name).read_text().splitlines() for name in texts.characters}
    trained = {}
    held_out = {}
    for system, vocabulary in found.vocabularies.items():
        vocabulary.save(path_of(texts, size, system))
        trained[system] = count_pieces(vocabulary, lines["train"])
        held_out[system] = count_pieces(vocabulary, lines["dev"] + lines["test"])
    check_pieces(found, trained)
    return {
        "n_atoms": found.n_atoms,
        "n_candidates": found.n_candidates,
        "n_sweeps": found.n_sweeps,
        "bound": found.bound,
        "steps": found.n_pieces,
        "train": trained,
        "held_out": held_out,
        "seconds": round(seconds, 1),
    }


def check_pieces(found: Found, counted: dict[str, int]) -> None:
    """Check that VOLT's encoder makes as many pieces as the search for tokens counted."""
    for system in ("fewest", "optimal"):
        assert counted[system] == found.n_pieces[system], system
    assert min(counted.values()) >= found.bound


def run(given: argparse.Namespace) -> None:
    with Results.open(FILE) as results:
        for size in given.sizes:
            for corpus in given.corpora:
                texts = prepared(given.data, corpus, given.work)
                key = f"{corpus}|text:{texts.fingerprint}|size:{size}"
                has_files = all(path_of(texts, size, system).exists() for system in SYSTEMS)
                if key in results and has_files:
                    continue
                try:
                    row = measure(texts, size)
                except CandidateError as error:
                    print(f"{corpus}: {error}", flush=True)
                    continue
                if key not in results:
                    results.add({"key": key, "corpus": corpus, "size": size, **row})
                print(f"{corpus} {size:,}: {row}", flush=True)


def report() -> None:
    """Print a table: what each system needs more than the bound, or held out, than BPE, in per cent."""
    rows = parse(FILE.read_bytes(), FILE)
    print("| corpus | size | bound |", " | ".join(SYSTEMS), "| held out: ranked |", end=" ")
    print(" | ".join(SYSTEMS[1:]), "|")
    print(f"| --- {'| --: ' * (3 + 2 * len(SYSTEMS) - 1)}|")
    for row in sorted(rows, key=lambda row: (row["corpus"], row["size"])):
        cells = [row["corpus"], f"{row['size']:,}", f"{row['bound']:,}"]
        for system in SYSTEMS:
            cells.append(f"+{100 * (row['train'][system] / row['bound'] - 1):.2f}")
        ranked = row["held_out"]["ranked"]
        cells.append(f"{ranked:,}")
        for system in SYSTEMS[1:]:
            cells.append(f"{100 * (row['held_out'][system] / ranked - 1):+.2f}".replace("-", "−"))
        print("|", " | ".join(cells), "|")


def parse_arguments(
    description: str | None, corpora: Sequence[str], sizes: Sequence[int]
) -> argparse.Namespace:
    """Return the arguments of `run` and `report`. corpora, sizes: the defaults of `run`"""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="find vocabularies, and count their pieces")
    running.add_argument("--data", type=Path, required=True, help="holds multi30k, ted and bible")
    running.add_argument(
        "--work", type=Path, default=Path("build/trials"), help="holds the texts of each corpus"
    )
    running.add_argument("--corpora", nargs="+", default=corpora)
    running.add_argument("--sizes", nargs="+", type=int, default=sizes)
    commands.add_parser("report", help="print the table")
    return parser.parse_args()


def main() -> None:
    given = parse_arguments(__doc__, CORPORA, SIZES)
    if given.command == "run":
        run(given)
    else:
        report()


if __name__ == "__main__":
    main()
