"""Fail a CI job if the committed vocabulary no longer fits the text.

    pip install volt-vocab
    volt search train.txt -o committed.volt           # once, then commit it
    python compare_in_ci.py committed.volt train.txt heldout.txt --at-most 5

The program searches the training text for a fresh vocabulary, and measures both vocabularies on held-out text. It
prints one line, and exits with status 1 if the committed vocabulary needs over N % more pieces than the fresh one;
report.html has the details. A vocabulary with more ids needs fewer pieces, so the fresh search uses the committed
vocabulary's number of tokens (and may drop a few).

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
    """Compare the committed vocabulary with a fresh one of the same size."""
    n_tokens = len(volt.read_vocabulary(committed).tokens)
    return volt.compare(
        str(train), heldout=str(heldout), systems=[str(committed)], select=f"fixed:{n_tokens}"
    )


def more_pieces(comparison: volt.Comparison) -> float:
    """Return by how many percent the committed vocabulary needs more pieces of held-out text than the fresh one."""
    fresh = next(system for system in comparison.systems if system.name == comparison.chosen)
    [committed] = (system for system in comparison.systems if system.family == "file")
    return 100 * (committed.heldout.n_pieces / fresh.heldout.n_pieces - 1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("committed", type=Path, help="the vocabulary in the repository")
    parser.add_argument("train", type=Path, help="text for the fresh search")
    parser.add_argument("heldout", type=Path, help="text on which both are measured")
    parser.add_argument(
        "--at-most",
        type=float,
        default=5.0,
        metavar="N",
        help="accepted excess of pieces in percent",
    )
    parser.add_argument("--report", type=Path, default=Path("report.html"), help="path of the page")
    args = parser.parse_args()
    try:
        comparison = compared(args.committed, args.train, args.heldout)
        write_page(comparison, args.report)
    except volt.VoltError as error:
        print(error, file=sys.stderr)
        return 2
    found = more_pieces(comparison)
    verdict = "too many" if found > args.at_most else "fine"
    print(
        f"{args.committed}: {found:+.1f} % pieces against a fresh vocabulary, at most {args.at_most:+g} %: {verdict}"
    )
    return int(found > args.at_most)


if __name__ == "__main__":
    sys.exit(main())
