"""Every format × pre-tokeniser × marker × what is kept → the lines that the real library cuts as VOLT does, and ids.

    VOLT_DATA=DIR python experiments/formats.py [--lines N] [--every N] [--formats F …] [--cuts C …] [--json OUT]

Vocabularies are found on Multi30k, English and German, SIZE tokens, MIN_SHARE of the transport, for every pre-tokeniser
and marker; each pruned and closed, with and without two user tokens, with and without byte fallback. Text is the first
N lines (10) of all files under multi30k, ted and bible, of these each Nth; lines with user tokens, alone and glued to
the words around them; and lines of odd pieces strung together. For tiktoken the closed vocabulary is in the order of
its merges. Lists of tokens have no library that cuts text: our pieces are looked up in them by readers that follow the
libraries' sources (PyYAML for Marian), and ids compared; pieces of text that is cut with "@@" must be listed, too.

Printed: a table for each format, and what refuses or differs, with the reasons. A cell is "=" where all lines agree,
"–" where the format refuses the vocabulary, and otherwise the lines that differ: of text, with user tokens, odd ones.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from pathlib import Path

import numpy as np

import volt
from volt.errors import VoltError
from volt.formats.check import check
from volt.formats.registry import FORMATS, peer_loader, write_vocabulary
from volt.text.markers import Marker
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

SIZE = 2_000
MIN_SHARE = 0.1
USER = ("<url>", "<num>")
MARKERS: tuple[Marker, ...] = ("suffix", "prefix", "none")
CUTS = {name: PreTokenizer(name) for name in ("whitespace", "metaspace", "unicode", "gpt2", "bytes")}
CUTS |= {"split": PreTokenizer.of_pattern("cl100k"), "bytes+split": PreTokenizer.of_pattern("cl100k", level="bytes")}
KEPT = ("closed", "pruned")
EXTRAS = ("", "user tokens", "byte fallback", "both")
ODD = (
    "a", "the", " ", "  ", "\t", "\u00a0", "\u3000", "\u2028", "▁", "</w>", "<s>", "<unk>", "é", "e\u0301", "😀",
    "中文", "12345", "'s", "!?", "\u200b", "\U0010ffff", "<0x41>", "Ġ", "@@", "\x1c", "\x0b", "Σ", "man", "Man",
)  # fmt: skip
N_ODD = 500


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of a table.

    cut, marker, kept, extra: the vocabulary
    n_lines, n_different: by text, those of prose, with user tokens, and odd ones; none if the format refuses it
    reason: why it does, or what the notes say
    example: a line that differs
    """

    format: str
    cut: str
    marker: str
    kept: str
    extra: str
    n_lines: tuple[int, ...] = ()
    n_different: tuple[int, ...] = ()
    reason: str = ""
    example: str = ""

    @property
    def cell(self) -> str:
        if not self.n_lines:
            return "–"
        return "/".join(f"{n:,}" for n in self.n_different) if any(self.n_different) else "="


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lines", type=int, default=10)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--formats", nargs="*", default=list(FORMATS))
    parser.add_argument("--cuts", nargs="*", default=list(CUTS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    start, data = time.perf_counter(), Path(os.environ["VOLT_DATA"])
    prose = [
        line
        for name in ("multi30k", "ted", "bible")
        for line in list(read_corpus(data / name, options.lines))[:: options.every]
    ]
    rows = [
        row
        for cut, marker in product(options.cuts, MARKERS)
        for kept, extra, vocabulary in vocabularies(data, cut, marker)
        for row in compared(options.formats, (cut, marker, kept, extra), vocabulary, prose)
    ]
    for format in options.formats:
        print(as_markdown(format, [row for row in rows if row.format == format]))
    print(f"\n{len(prose):,} lines of text, {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=1) + "\n")
    return 0


def read_corpus(folder: Path, n: int | None) -> Iterator[str]:
    """The lines of all files of a folder; of tables, the last field."""
    for path in sorted(folder.glob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in islice(file, n):
                yield line.rstrip("\n").rpartition("\t")[2] if ".tsv" in path.name else line.rstrip("\n")


def user_lines(prose: list[str]) -> list[str]:
    """Lines with user tokens: alone, before text, behind text, with nothing else."""
    some = prose[:: max(1, len(prose) // 100)]
    alone = [f"{line} {USER[0]} {line} {USER[1]}" for line in some]
    before = [f"{USER[0]}{line} {USER[1]}, {USER[1]}{USER[0]}" for line in some]
    return [*alone, *before, *(f"{line}{USER[0]} ({USER[1]}" for line in some), *USER]


def odd_lines(parts: tuple[str, ...]) -> list[str]:
    """Lines of odd parts, the same in every run."""
    draw = random.Random(0)
    return ["".join(draw.choices(parts, k=draw.randint(1, 8))) for _ in range(N_ODD)]


def vocabularies(data: Path, cut: str, marker: Marker) -> Iterator[tuple[str, str, Vocabulary]]:
    """What is kept, what is added, and the vocabulary."""
    files = [data / f"multi30k/train.{language}.gz" for language in ("en", "de")]
    found = volt.learn_bpe(volt.count_words(files, pretokenizer=CUTS[cut]), 2 * SIZE, marker=marker)
    parameters = volt.Parameters(min_share=MIN_SHARE)
    pruned = volt.search(found, sizes=[SIZE], select=f"fixed:{SIZE}", parameters=parameters).vocabulary
    for kept, extra in product(KEPT, EXTRAS):
        vocabulary = pruned.closed() if kept == "closed" else pruned
        user = USER if extra in ("user tokens", "both") else ()
        fallback = extra in ("byte fallback", "both")
        yield kept, extra, replace(vocabulary, special=volt.SpecialTokens(user=user), byte_fallback=fallback)


def compared(
    formats: list[str], kind: tuple[str, str, str, str], vocabulary: Vocabulary, prose: list[str]
) -> Iterator[Row]:
    """A row for each format."""
    user = vocabulary.special.user
    texts = [prose, user_lines(prose) if user else [], odd_lines(ODD + user)]
    for format in formats:
        written = vocabulary
        if format == "tiktoken" and kind[2] == "closed":
            written = vocabulary.closed(order="merges")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, {"marian": "out.yml", "sentencepiece": "out.model"}.get(format, "out"))
            try:
                notes = write_vocabulary(written, path, to=format)
            except VoltError as error:
                yield Row(format, *kind, reason=str(error).removeprefix(f"{path}: "))
                continue
            found = [different(written, path, format, lines) for lines in texts]
        numbers = tuple(n for n, _ in found)
        example = next((example for n, example in found if n), "")
        reason = "; ".join(notes) if any(numbers) else ""
        yield Row(format, *kind, tuple(map(len, texts)), numbers, reason, example)


def different(vocabulary: Vocabulary, path: Path, format: str, lines: list[str]) -> tuple[int, str]:
    """How many lines differ, and the first."""
    if not lines:
        return 0, ""
    if not peer_loader(format):
        return len(lines) - equal_ids(vocabulary, path, format, lines), ""
    found = check(vocabulary, path, format, lines)
    equal = min(found.n_equal_pieces, found.n_lines if found.n_equal_ids is None else found.n_equal_ids)
    first = found.differences[0] if found.differences else None
    return found.n_lines - equal, "" if first is None else f"{lines[first.line - 1]!r}: {first.ours} | {first.theirs}"


def equal_ids(vocabulary: Vocabulary, path: Path, format: str, lines: list[str]) -> int:
    """Lines whose every piece has, in the list, the id that we give it, shifted by what is before the list; in text cut
    with "@@", where that goes with the list, every piece that we know must have one."""
    ids, shift = READERS[format](path.read_bytes().decode())
    joined = format != "tokens" and vocabulary.marker == "suffix"
    reserved = set(vocabulary.pieces) - set(vocabulary.tokens)
    spelled = [_spelled(piece) if joined and piece not in reserved else piece for piece in vocabulary.pieces]
    known = {*spelled, *map(_spelled, reserved)}  # a user token may have more of its word behind it
    if set(ids) - known:  # else the list might know what we do not
        return 0
    differs = np.array([ids.get(piece, -1) != number - shift for number, piece in enumerate(spelled)])
    differs[0] = False
    encoder = volt.Encoder(vocabulary)
    encoded = encoder.encode_batch(lines)
    n_different = np.append(0, np.cumsum(differs[encoded.ids]))[encoded.offsets]
    equal = np.diff(n_different) == 0
    if joined:
        texts = (encoder.encode_text(re.sub("[\r\n]", " ", line).encode(), separator="@@") for line in lines)
        equal &= [not (set(text.decode().split()) & known) - set(ids) for text in texts]
    return int(equal.sum())


def _spelled(piece: str) -> str:
    return piece[:-4] if piece.endswith("</w>") else f"{piece}@@"


def fairseq(text: str) -> tuple[dict[str, int], int]:
    return {line.rstrip().rsplit(" ", 1)[0]: n for n, line in enumerate(io.StringIO(text, newline=None), 4)}, 0


def marian(text: str) -> tuple[dict[str, int], int]:
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), 2


def opennmt(text: str) -> tuple[dict[str, int], int]:
    return {line.split("\t")[0]: number for number, line in enumerate(text.split("\n")[:-1])}, 4


def tokens(text: str) -> tuple[dict[str, int], int]:
    return {line: number for number, line in enumerate(text.split("\n")[:-1])}, 4


READERS = {"fairseq": fairseq, "marian": marian, "opennmt": opennmt, "tokens": tokens}


def as_markdown(format: str, rows: list[Row]) -> str:
    """A format's table, and what its cells that are not "=" come from."""
    columns = [", ".join(filter(None, pair)) for pair in product(KEPT, EXTRAS)]
    lines = [f"\n{format}\n", f"| cut | marker | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for cut, marker in dict.fromkeys((row.cut, row.marker) for row in rows):
        cells = [row.cell for row in rows if (row.cut, row.marker) == (cut, marker)]
        lines.append(f"| {cut} | {marker} | {' | '.join(cells)} |")
    reasons: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.reason or row.cell != "=":
            what = "refused" if row.cell == "–" else f"differs ({row.extra})" if row.extra else "differs"
            reasons.setdefault((what, _general(row.reason)), []).append(row)
    for (what, _), found in reasons.items():
        where = "; ".join(dict.fromkeys(f"{row.cut} {row.marker}" for row in found))
        lines += [f"\n{what}: {where}", f"    {found[0].reason}"]
        lines += [f"    such as {found[0].example[:600]}"] * bool(found[0].example)
    return "\n".join(lines)


def _general(reason: str) -> str:
    """A reason without what differs from one vocabulary to the next."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|[\d,.]+|/\S+", "…", reason)


if __name__ == "__main__":
    sys.exit(main())
