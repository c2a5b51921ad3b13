"""Which merges are worth keeping: the transport's choice and its rivals, at the same number of kept tokens.

    python -m experiments.trimming [--size 4000 8000] [--corpora "Multi30k en" …] [-o experiments/trimming/TABLE.md]

BPE keeps all that its merges make. VOLT's transport, Picky BPE and Scaffold-BPE remove some, so that more merges fit
into the same size; what is removed is split back in encoding. Words are what stands between white space, held-out text
is Multi30k's validation set or every tenth line. VOLT_DATA names the folder that holds multi30k/ and ted/.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import date
from pathlib import Path

from experiments.trimming.figures import Row, overlap, study
from experiments.trimming.texts import texts

HEADINGS = (
    "method", "kept", "merges", "removed", "pieces, train", "against BPE", "pieces, held out", "against BPE",
    "rare types", "F95", "Rényi", "s",
)  # fmt: skip
SHORT = ("transport, min_share 0.001", "transport, min_share 0.5", "picky, τ 0.9", "picky, τ 0.6", "scaffold",
         "scaffold, for good", "picky as published, τ 0.9", "picky as published, τ 0.6")  # fmt: skip


def cells(row: Row, bpe: Row) -> list[str]:
    """A row of the table."""
    return [
        row.method, f"{row.n_kept:,}", f"{row.n_merges:,}", f"{len(row.removed):,}",
        f"{row.train:,}", f"{row.train / bpe.train - 1:+.2%}",
        f"{row.heldout:,}", f"{row.heldout / bpe.heldout - 1:+.2%}",
        f"{row.rare:.1%}", f"{row.f95:,.0f}", f"{row.renyi:.4f}", f"{row.seconds:.1f}",
    ]  # fmt: skip


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first column text, the others figures.

    >>> print(table(["a", "n"], [["x", "1"]]))
    | a | n |
    |:--|--:|
    | x | 1 |
    """
    lines = [headings, [":--", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| :-- |", "|:--|").replace(" --: |", "--:|")


def overlaps(rows: Sequence[Row]) -> str:
    """How far methods remove the same: Jaccard's index of what each pair removes."""
    named = {row.method: row.removed for row in rows if row.method in SHORT}
    numbered = [f"{number}" for number, _ in enumerate(named, 1)]
    lines = [
        [f"{number} {name}", *(f"{overlap(gone, other):.2f}" for other in named.values())]
        for number, (name, gone) in zip(numbered, named.items(), strict=True)
    ]
    return table(["Jaccard of what is removed", *numbered], lines)


def distances(rows: Sequence[Row]) -> str:
    """How far Picky BPE on the unchanged course is from Picky BPE as published: Jaccard of what each keeps."""
    named, lines = {row.method: row for row in rows}, []
    for name, ours in named.items():
        if name.startswith("picky,"):
            theirs = named[name.replace("picky,", "picky as published,")]
            kept, removed = overlap(ours.kept, theirs.kept), overlap(ours.removed, theirs.removed)
            lines.append([name, f"{kept:.3f}", f"{removed:.3f}", f"{ours.train / theirs.train - 1:+.2%}"])
    return table(["against as published", "kept alike", "removed alike", "pieces, train"], lines)


def sections(sizes: Sequence[int], corpora: Sequence[str] | None, data: Path | None) -> Iterator[str]:
    """The parts of TABLE.md."""
    for name, (train, heldout) in texts(data).items():
        if corpora and name not in corpora:
            continue
        for size in sizes:
            print(f"{name}, {size:,} tokens …", file=sys.stderr, flush=True)
            rows = study(train, heldout, size)
            if not rows or rows[0].method != "BPE":
                yield f"## {name}, {size:,} kept tokens\n\nThe text has too few merges for this size."
                continue
            words = f"{train.total():,} words, {len(train):,} distinct; held out {heldout.total():,}"
            parts = [table(HEADINGS, (cells(row, rows[0]) for row in rows)), overlaps(rows), distances(rows)]
            yield f"## {name}, {size:,} kept tokens\n\n{words}.\n\n" + "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="+", default=[4_000, 8_000], help="kept tokens, characters included")
    parser.add_argument("--corpora", nargs="+", help="names of corpora; by default all")
    parser.add_argument("--data", type=Path, default=os.environ.get("VOLT_DATA"), help="default: $VOLT_DATA")
    parser.add_argument("-o", "--output", type=Path, help="write here instead of to stdout")
    given = parser.parse_args(arguments)
    data = Path(given.data) if given.data else None
    sizes = " ".join(map(str, given.size))
    head = (
        "# Which merges are worth keeping\n\n"
        f"{date.today()}, {os.cpu_count()} cores, `python -m experiments.trimming --size {sizes}`. Methods: "
        "experiments/trimming/removal.py; as published: experiments/trimming/picky.py. All keep the same number of "
        "tokens, characters included, or the nearest that they can. Rare types occur fewer than 100 times in the "
        "training text. Seconds are of choosing, or, as published, of learning in plain Python."
    )
    with given.output.open("w", encoding="utf-8") if given.output else nullcontext(sys.stdout) as file:
        print(head, file=file, flush=True)
        for section in sections(given.size, given.corpora, data):
            print(f"\n{section}", file=file, flush=True)


if __name__ == "__main__":
    main()
