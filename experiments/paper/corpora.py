"""$VOLT_DATA → the corpora of the tables by name, and how a table is printed and written.

Multi30k stands for the paper's bilingual corpora (joint vocabularies of English and another language), TED for its TED
languages, one at a time since the English side is not there, and the Bible for small corpora.

>>> print(markdown_table(["corpus", "size"], [["en+de", "3,000"]]))
| corpus | size |
|:--|--:|
| en+de | 3,000 |
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import volt

N_MERGES = 30_000
MULTI30K = ("de", "fr", "cs")
TED = ("Finnish", "Estonian", "Latvian", "Catalan", "Georgian", "Marathi", "Urdu", "Cantonese")
BIBLE = ("uk", "lv", "et", "hy", "sw", "eu")
FILES: dict[str, tuple[str, ...]] = {
    **{f"Multi30k en+{name}": ("multi30k/train.en.gz", f"multi30k/train.{name}.gz") for name in MULTI30K},
    **{f"TED {name}": (f"ted/{name}.txt.gz",) for name in TED},
    **{f"Bible {name}": (f"bible/{name}.tsv.gz",) for name in BIBLE},
}


def parser(description: str, *, corpora: Sequence[str] = tuple(FILES)) -> argparse.ArgumentParser:
    """The options that all tables share. corpora: those that the table shows unless told otherwise."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--corpora", nargs="+", choices=FILES, default=list(corpora), metavar="CORPUS")
    made.add_argument("--json", type=Path, help="also write the rows here")
    made.add_argument("--data", type=Path, default=os.environ.get("VOLT_DATA"), help="default: $VOLT_DATA")
    return made


def checked(made: argparse.ArgumentParser) -> argparse.Namespace:
    """The options as given; ends the program if there is no folder of corpora."""
    options = made.parse_args()
    if options.data is None:
        made.error("set VOLT_DATA to the folder that holds multi30k/, ted/ and bible/, or give --data")
    options.data = Path(options.data)
    return options


def count(name: str, *, data: Path, **options: Any) -> volt.WordCounts:
    """The words of a corpus; of the Bible's two columns the text."""
    fields = 2 if name.startswith("Bible") else None
    return volt.count_words([data / path for path in FILES[name]], fields=fields, **options)


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first column text, the others figures."""
    return "\n".join(_lines(headings, rows))


def _lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|:--|" + "--:|" * (len(headings) - 1)
    yield from (f"| {' | '.join(row)} |" for row in rows)


def write_json(path: Path | None, data: Any) -> None:
    """Write it, if there is a place to write it to."""
    if path is not None:
        path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
