"""Table 1's comparable columns: the size that is found, and the reduction against BPE-30K; BLEU is not measured.

    python experiments/paper/table1.py [--corpora CORPUS …] [--json TABLE1.json]

Searched as the paper does for one pair of languages, sizes 1,000 to 10,000 in steps of 1,000, and from there on to
30,000. The seconds are of learning, and of all transports, after the first use has compiled what is compiled.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from corpora import N_MERGES, checked, count, markdown_table, parser, write_json

import volt

STEP = 1_000
RULES = ("muv", "knee", "f95")
TOPS = (10_000, 30_000)
SHOWN = ("knee", 30_000)  # the rule and the range that the reduction is shown for


def row(counts: volt.WordCounts) -> dict[str, Any]:
    """A corpus: what BPE-30K holds, what each rule picks in each range, and what the pick changes."""
    start = time.perf_counter()
    candidates = volt.learn_bpe(counts, N_MERGES)
    learned = time.perf_counter()
    sizes = [size for size in range(STEP, TOPS[-1] + 1, STEP) if candidates.n_atoms <= size <= candidates.n_tokens]
    searches = {top: volt.search(candidates, sizes=_upto(sizes, top)) for top in TOPS}
    searched = time.perf_counter()
    found, full = searches[SHOWN[1]], candidates.counts_at(candidates.n_tokens)
    step = found.steps[found.picks[SHOWN[0]].index]
    return {
        "signature": found.signature, "words": counts.total, "atoms": candidates.n_atoms, "bpe_30k": len(full),
        "picks": {top: {rule: _pick(one, rule) for rule in RULES} for top, one in searches.items()},
        "kept": step.n_kept, "reduction": 1 - step.size / len(full), "pieces": step.n_pieces / int(full.sum()),
        "seconds": {"learn": learned - start, "search": searched - learned},
    }  # fmt: skip


def _upto(sizes: Sequence[int], top: int) -> list[int]:
    return [size for size in sizes if size <= top] or list(sizes[:1])


def _pick(found: volt.SearchResult, rule: str) -> dict[str, Any]:
    return {"size": found.picks[rule].size, "on_edge": found.picks[rule].on_edge}


def report(rows: dict[str, dict[str, Any]]) -> str:
    """The table. A star marks a pick on the edge of its range: the range decided."""
    picks = [f"{rule}, to {top // 1000}K" for top in TOPS for rule in RULES]
    rule, top = SHOWN
    headings = ["corpus", "words", "BPE-30K", *picks, f"reduction ({rule}, to {top // 1000}K)", "pieces", "s"]
    cells = [
        [name, f"{one['words']:,}", f"{one['bpe_30k']:,}",
         *(_size(one["picks"][top][rule]) for top in TOPS for rule in RULES),
         f"{one['reduction']:.0%}", f"{one['pieces'] - 1:+.0%}", f"{sum(one['seconds'].values()):.1f}"]
        for name, one in rows.items()
    ]  # fmt: skip
    return markdown_table(headings, cells)


def _size(pick: dict[str, Any]) -> str:
    return f"{pick['size']:,}{'*' * pick['on_edge']}"


def main() -> None:
    """Print the table."""
    options = checked(parser(__doc__))
    volt.search(volt.learn_bpe(volt.WordCounts.from_pairs({"low": 5, "lower": 2}), 3))  # compiles
    rows = {name: row(count(name, data=options.data)) for name in options.corpora}
    print(f"{report(rows)}\n\n* on the edge of the range. pieces: of the picked size against BPE-30K.")
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
