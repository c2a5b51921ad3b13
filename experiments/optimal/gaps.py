"""How many pieces do BPE's tokens and those of `choose_tokens` need, beside the bound, and in unseen text?

    python -m experiments.optimal.gaps run --data $VOLT_DATA
    python -m experiments.optimal.gaps report

`run` appends a row for each text and size to gaps.jsonl, unless it is there already. Tokens are chosen on train.txt, with
as many ids as BPE's; held out are dev.txt and test.txt. `report` prints the table.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

from experiments.lm.data import prepared
from experiments.optimal.pieces import parse_arguments
from experiments.optimal.vocabularies import PRETOKENIZER, count_pieces
from volt.choose.certificate import certify
from volt.choose.search import search
from volt.choose.token_choice import choose_tokens
from volt.count.corpus import count_words
from volt.learn.bpe import learn_bpe
from volt.trial.results import Results, parse
from volt.trial.texts import Texts

FILE = Path(__file__).parent / "gaps.jsonl"
CORPORA = ("multi30k-de", "bible-uk", "ted-ka", "ted-fi")
SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
MOST_SWEEPS = 200  # of the bound


def measure(texts: Texts, size: int) -> dict[str, Any] | None:
    """Return the pieces of both vocabularies; None if the text does not give so many tokens."""
    counts = count_words([str(texts.path("train"))], pretokenizer=PRETOKENIZER)
    candidates = learn_bpe(counts, size)
    if candidates.n_tokens < size:
        return None
    began = time.process_time()
    result = search(candidates, sizes=[size], select=size)
    chosen = choose_tokens(result)
    seconds = time.process_time() - began
    certificate = certify(chosen.vocabulary, counts, max_sweeps=MOST_SWEEPS)
    lines = [line for name in ("dev", "test") for line in texts.path(name).read_text().splitlines()]
    return {
        "tokens": chosen.best.size,
        "atoms": candidates.n_atoms,
        "bound": certificate.bound,
        "train": {"bpe": result.best.n_pieces, "optimal": chosen.best.n_pieces},
        "held_out": {
            "bpe": count_pieces(result.vocabulary, lines),
            "optimal": count_pieces(chosen.vocabulary, lines),
        },
        "sweeps": certificate.n_sweeps,
        "seconds": round(seconds, 1),
        "seconds_of_bound": round(time.process_time() - began - seconds, 1),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def run(given: argparse.Namespace) -> None:
    with Results.open(FILE) as results:
        for size in given.sizes:
            for corpus in given.corpora:
                texts = prepared(given.data, corpus, given.work)
                key = f"{corpus}|text:{texts.fingerprint}|size:{size}|sweeps:{MOST_SWEEPS}"
                if key in results:
                    continue
                row = measure(texts, size)
                if row is None:
                    print(f"{corpus}: gives fewer than {size:,} tokens", flush=True)
                    continue
                results.add({"key": key, "corpus": corpus, "size": size, **row})
                print(f"{corpus} {size:,}: {row}", flush=True)


def report() -> None:
    """Print a table: what both need more than the bound, and what ours need less than BPE's held out."""
    print("| text | size | BPE above the bound | ours | held out, pieces against BPE | CPU s |")
    print("| --- | --: | --: | --: | --: | --: |")
    for row in sorted(parse(FILE.read_bytes(), FILE), key=lambda row: (row["corpus"], row["size"])):
        above = {name: 100 * (n / row["bound"] - 1) for name, n in row["train"].items()}
        saved = 100 * (row["held_out"]["optimal"] / row["held_out"]["bpe"] - 1)
        cells = [
            row["corpus"],
            f"{row['size']:,}",
            f"{above['bpe']:.1f} %",
            f"{above['optimal']:.1f} %",
            f"{saved:+.1f} %".replace("-", "−"),
            f"{row['seconds']:.0f}",
        ]
        print("|", " | ".join(cells), "|")


def main() -> None:
    given = parse_arguments(__doc__, CORPORA, SIZES)
    if given.command == "run":
        run(given)
    else:
        report()


if __name__ == "__main__":
    main()
