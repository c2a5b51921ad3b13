"""Figure 1's curve: entropy and marginal utility over the size of BPE vocabularies, without the BLEU.

    python experiments/paper/figure1.py [--corpora CORPUS …] [--json FIGURE1.json] [--plots FOLDER]

The paper's "star" is the size with the greatest MUV. BLEU needs trained translation models and is not measured here.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from corpora import N_MERGES, checked, count, markdown_table, parser, write_json

import volt
from volt.comparison.muv_study import muv_study
from volt.comparison.named_texts import NamedText

SIZES = (*range(1_000, 10_001, 1_000), 15_000, 20_000, 25_000, 30_000)
SHOWN = ("Multi30k en+de", "TED Finnish", "TED Georgian", "Bible uk")


def curve(counts: volt.WordCounts) -> dict[str, Any]:
    """Entropy and MUV at the sizes that the corpus reaches; both definitions of the mean length."""
    candidates = volt.learn_bpe(counts, N_MERGES)
    sizes = [size for size in SIZES if candidates.n_atoms <= size <= candidates.n_tokens]
    found = volt.search(candidates, sizes=sizes)
    study = muv_study(found, grid=sizes)
    return {
        "signature": found.signature, "atoms": candidates.n_atoms, "tokens": candidates.n_tokens,
        "rows": [asdict(row) for row in study.grid], "argmaxes": [asdict(one) for one in study.argmaxes],
        "curve": asdict(study.curve), "knee": found.picks["knee"].size,
    }  # fmt: skip


def star(data: dict[str, Any], *, length: str = "type", over: str = "grid") -> int | None:
    """The size with the greatest MUV."""
    found = [one["size"] for one in data["argmaxes"] if (one["over"], one["length"]) == (over, length)]
    return found[0] if found else None


def report(name: str, data: dict[str, Any]) -> str:
    """The curve as a table; MUV in nats per character and million tokens, against the row above."""
    stars = {star(data, length="type"): "★", data["knee"]: "knee"}
    if star(data) == data["knee"]:
        stars = {data["knee"]: "★ knee"}
    rows = [
        [f"{row['size']:,} {stars.get(row['size'], '')}".strip(), f"{row['entropy']:.4f}", _millionths(row["muv"]),
         f"{row['occurrence_entropy']:.4f}", _millionths(row["occurrence_muv"]), f"{row['transport_entropy']:.4f}",
         _millionths(row["transport_muv"])] for row in data["rows"]
    ]  # fmt: skip
    headings = ["size", "H", "MUV", "H, by occurrence", "MUV", "H after the transport", "MUV"]
    at_every = star(data, over="every size")
    said = f"{data['atoms']} atoms, {data['tokens']:,} tokens; over every size Eq. 1 is greatest at {at_every:,}."
    return f"### {name}\n\n{markdown_table(headings, rows)}\n\n{said}\n"


def _millionths(muv: float | None) -> str:
    return "–" if muv is None else f"{muv * 1e6:.1f}"


def main() -> None:
    """Print the curves that the command line asks for."""
    made = parser(__doc__, corpora=SHOWN)
    made.add_argument("--plots", help="also write the charts of every corpus into folders here")
    options, found = checked(made), {}
    for name in options.corpora:
        counts = count(name, data=options.data)
        found[name] = curve(counts)
        print(report(name, found[name]), flush=True)
        if options.plots:
            from volt.comparison.page.page import write_plots

            write_plots(volt.compare([NamedText(name, counts)], systems=()), f"{options.plots}/{name}")
    write_json(options.json, found)


if __name__ == "__main__":
    main()
