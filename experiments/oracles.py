"""Compare words, merges, counts and pieces of real corpora with subword-nmt, the reference implementation.

    VOLT_DATA=DIR python experiments/oracles.py [multi30k finnish georgian cantonese]

words    the word counts equal those of subword-nmt
merges   the merges equal those of its learn-bpe, 30,000 or as many as exist
counts   counts_at(size) equals a recount of the corpus encoded by its BPE class, at four sizes
pieces   every line of every test file equals the output of its apply-bpe, for all tokens and for those seen 50 times

It cuts words at U+0020 and lines at "\\n" alone, and so does this script. Learning with it takes minutes, so its codes
are kept in the temporary folder, by the corpus's fingerprint. A row of a failed check shows the first difference, and
the exit status is 1. tests/learn/test_byte_merges.py compares byte-level merges with those of HF tokenizers.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import volt
from volt.files.atomic import write_atomic

N_MERGES = 30_000
MARKER = "</w>"
# in no corpus here; "@@" occurs in one and would make the peer's vocabulary ambiguous
SEPARATOR = "\ue000"
CORPORA = {  # texts to learn from, and to encode
    "multi30k": (("multi30k/train.en.gz", "multi30k/train.de.gz"), "multi30k/*.gz"),
    "finnish": (("ted/Finnish.txt.gz",), "ted/*.txt.gz"),
    "georgian": (("ted/Georgian.txt.gz",), "ted/*.txt.gz"),
    "cantonese": (("ted/Cantonese.txt.gz",), "ted/*.txt.gz"),
}
Pair = tuple[str, str]
Check = tuple[str, int, str]  # name, size, and the first difference


def read_lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.removesuffix("\n") for line in file]


def peer_encoder(merges: Iterable[Pair], **options: Any) -> Any:
    from subword_nmt.apply_bpe import BPE

    return BPE(
        io.StringIO("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)),
        **options,
    )


def peer_merges(lines: Iterable[str], *, fingerprint: str) -> list[Pair]:
    from subword_nmt.learn_bpe import learn_bpe

    path = Path(tempfile.gettempdir(), f"volt-oracles.{fingerprint}.{N_MERGES}.codes")
    if not path.exists():
        codes = io.StringIO()
        learn_bpe(lines, codes, N_MERGES)
        with write_atomic(path) as file:
            file.write(codes.getvalue().encode())
    rows = path.read_text(encoding="utf-8").split("\n")[1:-1]
    return [(left, right) for left, right in (row.split(" ") for row in rows)]


def difference(ours: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> str:
    """Describe the first difference of two mappings; empty if they are equal."""
    keys = (key for key in (*ours, *theirs) if ours.get(key) != theirs.get(key))
    return next(
        (f"{key!r}: {ours.get(key)!r}, subword-nmt {theirs.get(key)!r}" for key in keys), ""
    )


def recount(counts: volt.WordCounts, merges: list[Pair]) -> Counter[str]:
    bpe, found = peer_encoder(merges, separator=""), Counter[str]()
    for word, count in zip(counts.words, counts.counts.tolist(), strict=True):
        *inner, last = bpe.segment_tokens([word])
        for token in (*inner, last + MARKER):
            found[token] += count
    return found


def check_counts(candidates: volt.Candidates) -> Iterator[Check]:
    """Compare token counts after a quarter, a half, three quarters and all of the merges."""
    for part in range(1, 5):
        size = int(candidates.sizes_after()[candidates.n_merges * part // 4])
        counted = zip(candidates.tokens_at(size), candidates.counts_at(size).tolist(), strict=True)
        ours = {token: count for token, count in counted if count}
        theirs = recount(candidates.counts, candidates.merges[: candidates.merges_at(size)])
        yield "counts", size, difference(ours, theirs)


def as_applied(pieces: Iterable[str]) -> str:
    """Format our pieces as apply-bpe does.

    >>> as_applied(["lo", "w</w>"]).replace(SEPARATOR, "@@")
    'lo@@ w'
    """
    return " ".join(
        piece.removesuffix(MARKER) if piece.endswith(MARKER) else piece + SEPARATOR
        for piece in pieces
    )


def check_pieces(candidates: volt.Candidates, paths: list[Path], *, threshold: int) -> Check:
    """Compare the pieces of every line; a threshold leaves out the tokens that occur less often."""
    tokens, counts = (
        candidates.tokens_at(candidates.n_tokens),
        candidates.counts_at(candidates.n_tokens),
    )
    kept = tuple(
        token for token, count in zip(tokens, counts.tolist(), strict=True) if count >= threshold
    )
    vocabulary = volt.Vocabulary(
        tuple(candidates.merges), kept, pretokenizer=candidates.counts.pretokenizer
    )
    known = {as_applied([token]) for token in kept} if threshold else None
    encoder, bpe = (
        volt.Encoder(vocabulary),
        peer_encoder(candidates.merges, separator=SEPARATOR, vocab=known),
    )
    n = 0
    for path in paths:
        lines = read_lines(path)
        for line, pieces in zip(lines, encoder.encode_lines(lines), strict=True):
            n += 1
            if as_applied(pieces) != bpe.segment(line):
                return f"pieces, seen {threshold} times", n, f"{path.name}: {line!r}: {pieces}"
    return f"pieces, seen {threshold} times", n, ""


def checks(name: str, data: Path) -> Iterator[Check]:
    from subword_nmt.learn_bpe import get_vocabulary

    names, encoded = CORPORA[name]
    learned = [data / path for path in names]
    counts = volt.count_words(learned, pretokenizer="regex:[^ ]+")
    lines = [line for path in learned for line in read_lines(path)]
    words = dict(zip(counts.words, counts.counts.tolist(), strict=True))
    yield "words", len(words), difference(words, get_vocabulary(lines))
    candidates = volt.learn_bpe(counts, N_MERGES)
    theirs = peer_merges(lines, fingerprint=counts.fingerprint)
    yield (
        "merges",
        len(theirs),
        difference(dict(enumerate(candidates.merges)), dict(enumerate(theirs))),
    )
    yield from check_counts(candidates)
    for threshold in (0, 50):
        yield check_pieces(candidates, sorted(data.glob(encoded)), threshold=threshold)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "corpora", nargs="*", default=list(CORPORA), metavar="CORPUS", help=", ".join(CORPORA)
    )
    given, failed = parser.parse_args(), False
    if "VOLT_DATA" not in os.environ:
        parser.error("set VOLT_DATA to the folder that holds multi30k/ and ted/")
    for name in given.corpora:
        for what, n, wrong in checks(name, Path(os.environ["VOLT_DATA"])):
            failed |= bool(wrong)
            print(f"{name}: {what}, {n:,}: {wrong or 'equal'}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
