"""Real corpora → agreement with subword-nmt, the reference implementation: words, merges, counts, pieces; exact or not.

    VOLT_DATA=DIR python experiments/oracles.py [--corpora multi30k finnish …] [--json OUT]

    words    the word counts equal subword-nmt's
    merges   the merges equal those of its learn-bpe, 30,000 or as many as it finds
    counts   `counts_at(size)` equals a recount of the corpus encoded by its BPE class, at four sizes
    pieces   every encoded line of every test file equals its apply-bpe's, for all tokens and for those seen 50 times

It cuts words at U+0020 and lines at "\\n" alone, and so does everything here. Learning with it takes minutes (longest:
Cantonese, which writes no spaces), so its codes are kept in the temporary folder, by the corpus's fingerprint.
A check that fails shows its first difference; the exit status is then 1.
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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import get_vocabulary
from subword_nmt.learn_bpe import learn_bpe as peer_learn_bpe

import volt

N_MERGES = 30_000
N_SIZES = 4
THRESHOLD = 50  # occurrences that keep a token, in the check with a vocabulary
PRETOKENIZER = "regex:[^ ]+"
MARKER = "</w>"
SEPARATOR = "\ue000"  # in no corpus here; "@@" occurs in one and would make the peer's vocabulary ambiguous


@dataclass(frozen=True, slots=True)
class Corpus:
    """What to learn from, and what to encode; both relative to $VOLT_DATA."""

    learned: tuple[str, ...]
    encoded: str


CORPORA = {
    "multi30k": Corpus(("multi30k/train.en.gz", "multi30k/train.de.gz"), "multi30k/*.gz"),
    "finnish": Corpus(("ted/Finnish.txt.gz",), "ted/*.txt.gz"),
    "georgian": Corpus(("ted/Georgian.txt.gz",), "ted/*.txt.gz"),
    "cantonese": Corpus(("ted/Cantonese.txt.gz",), "ted/*.txt.gz"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """n_equal of n things (merges, sizes, lines …) agree; difference: the first that does not, or nothing."""

    corpus: str
    name: str
    n: int
    n_equal: int
    unit: str
    difference: str = ""

    @property
    def agrees(self) -> bool:
        """Whether all agree."""
        return self.n_equal == self.n and not self.difference


def read_lines(path: Path) -> list[str]:
    """The lines of a gzipped file, cut at "\\n" alone."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.removesuffix("\n") for line in file]


def codes_file(merges: Iterable[tuple[str, str]]) -> io.StringIO:
    """Merges as the peer's codes file."""
    return io.StringIO("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges))


def peer_merges(lines: Iterable[str], *, fingerprint: str, folder: Path) -> list[tuple[str, str]]:
    """What the peer learns from these lines, from the folder if it is there already."""
    path = folder / f"{fingerprint}.{N_MERGES}.codes"
    if not path.exists():
        codes = io.StringIO()
        peer_learn_bpe(lines, codes, N_MERGES)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(codes.getvalue(), encoding="utf-8", newline="\n")
        partial.replace(path)
    rows = path.read_text(encoding="utf-8").split("\n")[1:-1]
    return [(left, right) for left, right in (row.split(" ") for row in rows)]


def first_difference(ours: Mapping[object, object], theirs: Mapping[object, object]) -> str:
    """Where two mappings first differ, in the order of their keys; nothing if they are equal."""
    keys = (key for key in (*ours, *theirs) if ours.get(key) != theirs.get(key))
    return next((f"{key!r}: {ours.get(key)!r}, subword-nmt {theirs.get(key)!r}" for key in keys), "")


def check_words(counts: volt.WordCounts, lines: Iterable[str], *, corpus: str) -> Check:
    """Words and how often they occur."""
    ours = dict(zip(counts.words, counts.counts.tolist(), strict=True))
    theirs = get_vocabulary(lines)
    n_equal = sum(theirs.get(word) == count for word, count in ours.items())
    return Check(corpus, "words", len(theirs), n_equal, "words", first_difference(ours, theirs))


def check_merges(ours: list[tuple[str, str]], theirs: list[tuple[str, str]], *, corpus: str) -> Check:
    """Merges by rank."""
    n_equal = sum(left == right for left, right in zip(ours, theirs, strict=False))
    difference = first_difference(dict(enumerate(ours)), dict(enumerate(theirs)))
    return Check(corpus, "merges", len(theirs), n_equal, "merges", difference and f"rank {difference}")


def recount(counts: volt.WordCounts, merges: list[tuple[str, str]]) -> Counter[str]:
    """How often each token occurs in the corpus as the peer encodes it."""
    bpe, found = BPE(codes_file(merges), separator=""), Counter[str]()
    for word, count in zip(counts.words, counts.counts.tolist(), strict=True):
        *inner, last = bpe.segment_tokens([word])
        for token in (*inner, last + MARKER):
            found[token] += count
    return found


def check_counts(candidates: volt.Candidates, *, corpus: str) -> Check:
    """Counts of all tokens after a quarter, a half, three quarters and all of the merges."""
    merges, difference, n_equal = candidates.merges, "", 0
    for part in range(1, N_SIZES + 1):
        size = int(candidates.sizes_after()[candidates.n_merges * part // N_SIZES])
        counted = zip(candidates.tokens_at(size), candidates.counts_at(size).tolist(), strict=True)
        ours = {token: count for token, count in counted if count}
        found = first_difference(ours, recount(candidates.counts, merges[: candidates.merges_at(size)]))
        n_equal += not found
        difference = difference or (found and f"size {size}, {found}")
    return Check(corpus, "counts", N_SIZES, n_equal, "sizes", difference)


def as_applied(pieces: Iterable[str]) -> str:
    """Our pieces as apply-bpe writes them.

    >>> as_applied(["lo", "w</w>"]).replace(SEPARATOR, "@@")
    'lo@@ w'
    """
    return " ".join(piece.removesuffix(MARKER) if piece.endswith(MARKER) else piece + SEPARATOR for piece in pieces)


def check_pieces(candidates: volt.Candidates, paths: list[Path], *, corpus: str, threshold: int = 0) -> Check:
    """Every line of the files, encoded; a threshold leaves out the tokens that occur less often."""
    tokens, counts = candidates.tokens_at(candidates.n_tokens), candidates.counts_at(candidates.n_tokens)
    kept = [token for token, count in zip(tokens, counts.tolist(), strict=True) if count >= threshold]
    encoder = volt.Encoder(
        volt.Vocabulary(tuple(candidates.merges), tuple(kept), pretokenizer=candidates.counts.pretokenizer)
    )
    bpe = BPE(
        codes_file(candidates.merges),
        separator=SEPARATOR,
        vocab={as_applied([token]) for token in kept} if threshold else None,
    )
    n, n_equal, difference = 0, 0, ""
    for path in paths:
        lines = read_lines(path)
        for number, (line, pieces) in enumerate(zip(lines, encoder.encode_lines(lines), strict=True), 1):
            ours, theirs = as_applied(pieces), bpe.segment(line)
            n, n_equal = n + 1, n_equal + (ours == theirs)
            if ours != theirs:
                difference = difference or f"{path.name}:{number}: {ours!r}, subword-nmt {theirs!r}"
    return Check(corpus, f"pieces, seen {threshold} times" if threshold else "pieces", n, n_equal, "lines", difference)


def checks(name: str, *, data: Path, folder: Path) -> Iterator[Check]:
    """All checks of one corpus, as they are done."""
    corpus = CORPORA[name]
    learned, encoded = [data / path for path in corpus.learned], sorted(data.glob(corpus.encoded))
    counts = volt.count_words(learned, pretokenizer=PRETOKENIZER)
    lines = [line for path in learned for line in read_lines(path)]
    yield check_words(counts, lines, corpus=name)
    candidates = volt.learn_bpe(counts, N_MERGES)
    yield check_merges(
        candidates.merges, peer_merges(lines, fingerprint=counts.fingerprint, folder=folder), corpus=name
    )
    yield check_counts(candidates, corpus=name)
    yield check_pieces(candidates, encoded, corpus=name)
    yield check_pieces(candidates, encoded, corpus=name, threshold=THRESHOLD)


def timed(results: Iterator[Check], show: Callable[[Check, float], None]) -> list[Check]:
    """Show each check, with its seconds, as soon as it is done."""
    done, start = list[Check](), time.perf_counter()
    for check in results:
        show(check, time.perf_counter() - start)
        done.append(check)
        start = time.perf_counter()
    return done


def show(check: Check, seconds: float) -> None:
    """One row of the table."""
    agreement = "equal" if check.agrees else f"DIFFERENT: {check.difference}"
    print(f"{check.corpus:<10} {check.name:<22} {check.n_equal:>9,} of {check.n:>9,} {check.unit:<7}", end="")
    print(f"{seconds:>7.1f} s  {agreement}", flush=True)


def main() -> int:
    """Run the checks that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--json", type=Path, help="also write the checks here")
    options = parser.parse_args()
    if "VOLT_DATA" not in os.environ:
        parser.error("set VOLT_DATA to the folder that holds multi30k/ and ted/")
    folder = Path(tempfile.gettempdir(), "volt-oracles")
    folder.mkdir(exist_ok=True)
    done = list[Check]()
    for name in options.corpora:
        done += timed(checks(name, data=Path(os.environ["VOLT_DATA"]), folder=folder), show)
    if options.json:
        rows = [{**asdict(check), "agrees": check.agrees} for check in done]
        options.json.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return not all(check.agrees for check in done)


if __name__ == "__main__":
    sys.exit(main())
