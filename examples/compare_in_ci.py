"""Fail a job of continuous integration if the committed vocabulary no longer fits the text.

    pip install volt-vocab
    volt search train.txt -o committed.volt           # once, then commit it
    python compare_in_ci.py committed.volt train.txt heldout.txt --at-most 5

A fresh search on the training text stands beside the committed file, both measured on held-out text. The program prints
one line, and ends with status 1 if the committed vocabulary needs over N % more pieces than a fresh one; report.html
tells the rest. A vocabulary with more ids needs fewer pieces: the fresh search is asked for as many tokens
as the committed one has (and may drop a few).

As a step of a workflow:

    - run: python compare_in_ci.py committed.volt train.txt heldout.txt --at-most 5
    - if: always()
      uses: actions/upload-artifact@v4
      with: {name: vocabulary, path: report.html}
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import volt
from volt.comparison.page.page import write_page


def compared(committed: Path, train: Path, heldout: Path) -> volt.Comparison:
    """The committed vocabulary beside a fresh one with as many tokens."""
    n_tokens = len(volt.read_vocabulary(committed).tokens)
    return volt.compare(str(train), heldout=str(heldout), systems=[str(committed)], select=f"fixed:{n_tokens}")


def more_pieces(comparison: volt.Comparison) -> float:
    """By how many percent the committed vocabulary's pieces of the held-out text are above those of the fresh one."""
    fresh = next(system for system in comparison.systems if system.name == comparison.chosen)
    [committed] = (system for system in comparison.systems if system.family == "file")
    return 100 * (committed.heldout.n_pieces / fresh.heldout.n_pieces - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("committed", type=Path, help="the vocabulary in the repository")
    parser.add_argument("train", type=Path, help="text for the fresh search")
    parser.add_argument("heldout", type=Path, help="text that both are measured on")
    parser.add_argument("--at-most", type=float, default=5.0, metavar="N", help="percent more pieces that are fine")
    parser.add_argument("--report", type=Path, default=Path("report.html"), help="where the page goes")
    told = parser.parse_args()
    try:
        comparison = compared(told.committed, told.train, told.heldout)
        write_page(comparison, told.report)
    except volt.VoltError as error:
        print(error, file=sys.stderr)
        return 2
    found = more_pieces(comparison)
    verdict = "too many" if found > told.at_most else "fine"
    print(f"{told.committed}: {found:+.1f} % pieces beside a fresh vocabulary, at most {told.at_most:+g} %: {verdict}")
    return int(found > told.at_most)


if __name__ == "__main__":
    sys.exit(main())
