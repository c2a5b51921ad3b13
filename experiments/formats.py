"""Every format × vocabulary × corpus → how many lines the real library cuts as VOLT does, pieces and ids.

    VOLT_DATA=DIR python experiments/formats.py [--lines N] [--every N] [--formats F …] [--json OUT]

Vocabularies are found on Multi30k, English and German, 8,000 tokens, for suffix, prefix, metaspace and bytes, with two
user tokens; full (all candidates kept), pruned (MIN_SHARE of the transport) and closed. Corpora are all files under
multi30k, ted and bible, and 2,000 lines with user tokens added, alone and glued to the words around them; --lines reads
the first N of each file, --every each Nth line. For tiktoken the closed vocabulary is in the order of its merges. Lists
of tokens have no library that cuts text: our pieces are looked up in them by readers that follow the libraries' sources
(PyYAML for Marian), and ids compared.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np

import volt
from volt.errors import VoltError
from volt.formats.check import check
from volt.formats.registry import FORMATS, peer_loader, write_vocabulary
from volt.vocabulary import Vocabulary

SIZE = 8_000
MIN_SHARE = 0.1
USER = ("<url>", "<num>")
KINDS = {
    "suffix": ("whitespace", "suffix"),
    "prefix": ("whitespace", "prefix"),
    "metaspace": ("metaspace", "none"),
    "bytes": ("bytes", "none"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the table. equal_ids: None where the library has no ids of its own; reason: why there is no 100 %."""

    format: str
    vocabulary: str
    corpus: str
    n_lines: int = 0
    equal_pieces: int | None = None
    equal_ids: int | None = None
    reason: str = ""
    example: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lines", type=int)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--formats", nargs="*", default=list(FORMATS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    start, data = time.perf_counter(), Path(os.environ["VOLT_DATA"])
    corpora = {
        name: list(read_corpus(data / name, options.lines))[:: options.every] for name in ("multi30k", "ted", "bible")
    }
    some = corpora["multi30k"][:2_000]
    corpora["user tokens alone"] = [f"{line} {USER[0]} {line} {USER[1]}" for line in some]
    corpora["user tokens before text"] = [f"{USER[0]}{line} {USER[1]}, {USER[1]}{USER[0]}" for line in some]
    corpora["user tokens behind text"] = [f"{line}{USER[0]} ({USER[1]}" for line in some]
    rows = [
        row
        for name, vocabulary in vocabularies(data)
        for format in options.formats
        for row in compared(format, name, vocabulary, corpora)
    ]
    print(as_markdown(rows))
    print(f"\n{time.perf_counter() - start:.0f} s", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=1) + "\n")
    return 0


def read_corpus(folder: Path, n: int | None) -> Iterator[str]:
    """The lines of all files of a folder; of tables, the last field."""
    for path in sorted(folder.glob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in islice(file, n):
                yield line.rstrip("\n").rpartition("\t")[2] if ".tsv" in path.name else line.rstrip("\n")


def vocabularies(data: Path) -> Iterator[tuple[str, Vocabulary]]:
    special = volt.SpecialTokens(user=USER)
    for kind, (pretokenizer, marker) in KINDS.items():
        files = [data / f"multi30k/train.{language}.gz" for language in ("en", "de")]
        counts = volt.count_words(files, pretokenizer=pretokenizer, special=special)
        found = volt.learn_bpe(counts, 2 * SIZE, marker=marker)
        for name, share in (("full", 0.0), ("pruned", MIN_SHARE)):
            select, parameters = f"fixed:{SIZE}", volt.Parameters(min_share=share)
            result = volt.search(found, sizes=[SIZE], select=select, parameters=parameters, special=special)
            yield f"{kind} {name}", result.vocabulary
        yield f"{kind} closed", result.vocabulary.closed()


def compared(format: str, name: str, vocabulary: Vocabulary, corpora: dict[str, list[str]]) -> Iterator[Row]:
    """A row for each corpus; one row if the format refuses the vocabulary."""
    if format == "tiktoken" and name.endswith("closed"):
        vocabulary = vocabulary.closed(order="merges")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, {"marian": "out.yml", "sentencepiece": "out.model"}.get(format, "out"))
        try:
            notes = write_vocabulary(vocabulary, path, to=format)
        except VoltError as error:
            yield Row(format, name, "—", reason=str(error).removeprefix(f"{path}: "))
            return
        for corpus, lines in corpora.items():
            if peer_loader(format):
                found = check(vocabulary, path, format, lines)
                first = found.differences[0] if found.differences else None
                yield Row(
                    format, name, corpus, len(lines), found.n_equal_pieces, found.n_equal_ids,
                    "" if found.is_complete else "; ".join(notes),
                    "" if first is None else f"{first.line}: {first.ours} | {first.theirs}"[:600],
                )  # fmt: skip
            else:
                yield Row(format, name, corpus, len(lines), None, equal_ids(vocabulary, path, format, lines))


def equal_ids(vocabulary: Vocabulary, path: Path, format: str, lines: list[str]) -> int:
    """Lines whose every piece has, in the list, the id that we give it, shifted by what is before the list."""
    ids, shift = READERS[format](path.read_bytes().decode())
    joined = format != "tokens" and vocabulary.marker == "suffix"
    reserved = set(vocabulary.pieces) - set(vocabulary.tokens)
    spelled = [_spelled(piece) if joined and piece not in reserved else piece for piece in vocabulary.pieces]
    known = {*spelled, *map(_spelled, reserved)}  # a user token may have more of its word behind it
    if set(ids) - known:  # else the list might know what we do not
        return 0
    differs = np.array([ids.get(piece, -1) != number - shift for number, piece in enumerate(spelled)])
    differs[0] = False
    encoded = volt.Encoder(vocabulary).encode_batch(lines)
    n_different = np.append(0, np.cumsum(differs[encoded.ids]))[encoded.offsets]
    return int((np.diff(n_different) == 0).sum())


def _spelled(piece: str) -> str:
    return piece[:-4] if piece.endswith("</w>") else f"{piece}@@"


def fairseq(text: str) -> tuple[dict[str, int], int]:
    return {line.rstrip().rsplit(" ", 1)[0]: n for n, line in enumerate(io.StringIO(text, newline=None), 4)}, 0


def marian(text: str) -> tuple[dict[str, int], int]:
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), 2


def opennmt(text: str) -> tuple[dict[str, int], int]:
    return {line.split("\t")[1]: number for number, line in enumerate(text.split("\n")[:-1])}, 4


def tokens(text: str) -> tuple[dict[str, int], int]:
    return {line: number for number, line in enumerate(text.split("\n")[:-1])}, 4


READERS = {"fairseq": fairseq, "marian": marian, "opennmt": opennmt, "tokens": tokens}


def as_markdown(rows: list[Row]) -> str:
    head = [
        "| format | vocabulary | corpus | lines | equal pieces | equal ids | why |",
        "|---|---|---|--:|--:|--:|---|",
    ]
    return "\n".join([*head, *(
        f"| {row.format} | {row.vocabulary} | {row.corpus} | {row.n_lines:,} | {share(row.equal_pieces, row.n_lines)} "
        f"| {share(row.equal_ids, row.n_lines)} | {row.reason.replace('|', '/')} |" for row in rows
    )])  # fmt: skip


def share(n: int | None, total: int) -> str:
    """A count of lines as a share, never rounded up to 100 %."""
    if n is None or not total:
        return "—"
    return "100 %" if n == total else f"{int(1e4 * n / total) / 100:.2f} % ({total - n:,} differ)"


if __name__ == "__main__":
    sys.exit(main())
