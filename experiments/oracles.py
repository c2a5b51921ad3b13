"""Real corpora → agreement with the reference learners: subword-nmt for characters, HF tokenizers for bytes.

    VOLT_DATA=DIR python -m experiments.oracles characters [multi30k finnish georgian cantonese]
    VOLT_DATA=DIR python -m experiments.oracles bytes [TEXT.gz …] [--merges 8000]

characters: word counts, merges (30,000 or as many as exist), counts at four sizes and the pieces of every line equal
subword-nmt's, which cuts words at U+0020 and lines at "\\n" alone. Learning with it takes minutes, so its codes are
kept in the temporary folder, by the corpus's fingerprint.

bytes: where several pairs occur most often, VOLT takes the greatest text, as subword-nmt does, and HF tokenizers the
smallest ids. A learner by definition (merge the most frequent pair, write the words anew) must learn exactly the merges
of either side under its rule for ties.

The exit status is 1 if a check fails; its row shows the first difference.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import io
import json
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import volt
from volt.files.atomic import write_atomic

N_MERGES = 30_000
MARKER = "</w>"
SEPARATOR = "\ue000"  # in no corpus here; "@@" occurs in one and would make the peer's vocabulary ambiguous
CORPORA = {  # texts to learn from, and to encode
    "multi30k": (("multi30k/train.en.gz", "multi30k/train.de.gz"), "multi30k/*.gz"),
    "finnish": (("ted/Finnish.txt.gz",), "ted/*.txt.gz"),
    "georgian": (("ted/Georgian.txt.gz",), "ted/*.txt.gz"),
    "cantonese": (("ted/Cantonese.txt.gz",), "ted/*.txt.gz"),
}
BYTES = (
    "multi30k/train.en.gz",
    "multi30k/train.de.gz",
    "ted/Finnish.txt.gz",
    "ted/Georgian.txt.gz",
    "ted/Cantonese.txt.gz",
)
Pair = tuple[str, str]
Ids = dict[str, int]
Check = tuple[str, int, str]  # name, size, and the first difference


def read_lines(path: Path) -> list[str]:
    """Return the lines of a gzipped file, cut at "\\n" alone."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.removesuffix("\n") for line in file]


def codes_file(merges: Iterable[Pair]) -> io.StringIO:
    """Write merges as subword-nmt's codes."""
    return io.StringIO("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges))


def peer_merges(lines: Iterable[str], *, fingerprint: str) -> list[Pair]:
    """Learn with subword-nmt, or read what it learned before."""
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
    return next((f"{key!r}: {ours.get(key)!r}, subword-nmt {theirs.get(key)!r}" for key in keys), "")


def recount(counts: volt.WordCounts, merges: list[Pair]) -> Counter[str]:
    """Count the tokens of a corpus as subword-nmt encodes it."""
    from subword_nmt.apply_bpe import BPE

    bpe, found = BPE(codes_file(merges), separator=""), Counter[str]()
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
    return " ".join(piece.removesuffix(MARKER) if piece.endswith(MARKER) else piece + SEPARATOR for piece in pieces)


def check_pieces(candidates: volt.Candidates, paths: list[Path], *, threshold: int) -> Check:
    """Compare the pieces of every line; a threshold leaves out the tokens that occur less often."""
    from subword_nmt.apply_bpe import BPE

    tokens, counts = candidates.tokens_at(candidates.n_tokens), candidates.counts_at(candidates.n_tokens)
    kept = tuple(token for token, count in zip(tokens, counts.tolist(), strict=True) if count >= threshold)
    vocabulary = volt.Vocabulary(tuple(candidates.merges), kept, pretokenizer=candidates.counts.pretokenizer)
    known = {as_applied([token]) for token in kept} if threshold else None
    encoder, bpe = volt.Encoder(vocabulary), BPE(codes_file(candidates.merges), separator=SEPARATOR, vocab=known)
    n = 0
    for path in paths:
        lines = read_lines(path)
        for line, pieces in zip(lines, encoder.encode_lines(lines), strict=True):
            n += 1
            if as_applied(pieces) != bpe.segment(line):
                return f"pieces, seen {threshold} times", n, f"{path.name}: {line!r}: {pieces}"
    return f"pieces, seen {threshold} times", n, ""


def character_checks(name: str, data: Path) -> Iterator[Check]:
    """Run all checks of a corpus."""
    from subword_nmt.learn_bpe import get_vocabulary

    names, encoded = CORPORA[name]
    learned = [data / path for path in names]
    counts = volt.count_words(learned, pretokenizer="regex:[^ ]+")
    lines = [line for path in learned for line in read_lines(path)]
    words = dict(zip(counts.words, counts.counts.tolist(), strict=True))
    yield "words", len(words), difference(words, get_vocabulary(lines))
    candidates = volt.learn_bpe(counts, N_MERGES)
    theirs = peer_merges(lines, fingerprint=counts.fingerprint)
    yield "merges", len(theirs), difference(dict(enumerate(candidates.merges)), dict(enumerate(theirs)))
    yield from check_counts(candidates)
    for threshold in (0, 50):
        yield check_pieces(candidates, sorted(data.glob(encoded)), threshold=threshold)


def greatest_text(pair: Pair, ids: Ids) -> Any:
    """Order ties as VOLT does: a greater text comes first."""
    return tuple(tuple(-ord(character) for character in [*token, "\0"]) for token in pair)


def smallest_ids(pair: Pair, ids: Ids) -> Any:
    """Order ties as HF tokenizers does: smaller ids come first."""
    return ids[pair[0]], ids[pair[1]]


def merged(symbols: list[str], pair: Pair) -> list[str]:
    """Merge a pair in a word.

    >>> merged(["a", "a", "a"], ("a", "a"))
    ['aa', 'a']
    """
    found, place = list[str](), 0
    while place < len(symbols):
        hit = tuple(symbols[place : place + 2]) == pair
        found.append("".join(pair) if hit else symbols[place])
        place += 1 + hit
    return found


def learn(counts: Mapping[str, int], n_merges: int, order: Callable[[Pair, Ids], Any]) -> list[Pair]:
    """Learn merges by definition.

    >>> learn({"abc": 2, "xbc": 1}, 2, smallest_ids)
    [('b', 'c'), ('a', 'bc')]
    """
    from tokenizers.pre_tokenizers import ByteLevel

    words, weights = [list(word) for word in counts], list(counts.values())
    ids = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    totals, places = Counter[Pair](), defaultdict[Pair, set[int]](set)
    for number, word in enumerate(words):
        for pair in pairwise(word):
            totals[pair] += weights[number]
            places[pair].add(number)
    queue = [(-count, order(pair, ids), pair) for pair, count in totals.items()]
    heapq.heapify(queue)
    merges = list[Pair]()
    while queue and len(merges) < n_merges:
        count, _, pair = heapq.heappop(queue)
        if totals[pair] != -count or count > -2:
            continue
        merges.append(pair)
        ids.setdefault("".join(pair), len(ids))
        changes = Counter[Pair]()
        for number in places.pop(pair, ()):
            changes.subtract({old: n * weights[number] for old, n in Counter(pairwise(words[number])).items()})
            words[number] = merged(words[number], pair)
            for new in pairwise(words[number]):
                changes[new] += weights[number]
                places[new].add(number)
        for changed, n in changes.items():
            if n:
                totals[changed] += n
                heapq.heappush(queue, (-totals[changed], order(changed, ids), changed))
    return merges


def of_hugging_face(lines: Iterable[str], n_merges: int) -> list[Pair]:
    """Learn with the trainer of HF tokenizers."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    tokenizer, alphabet = Tokenizer(BPE()), ByteLevel.alphabet()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    size = len(alphabet) + n_merges
    trainer = BpeTrainer(vocab_size=size, min_frequency=2, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def compare_bytes(lines: list[str], counts: volt.WordCounts, n_merges: int) -> Iterator[Check]:
    """Compare the merges of both sides with the definition."""
    words = dict(counts.table.rows())
    sides = {"VOLT": (volt.learn_bpe(counts, n_merges).merges, greatest_text)}
    sides["HF tokenizers"] = of_hugging_face(lines, n_merges), smallest_ids
    for name, (merges, order) in sides.items():
        expected = learn(words, n_merges, order)
        yield f"merges of {name}", len(merges), "" if merges == expected else "not the merges of the definition"


def main() -> int:
    """Run the checks, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("level", choices=("characters", "bytes"))
    parser.add_argument("texts", nargs="*", help="names of corpora, or files below VOLT_DATA")
    parser.add_argument("--merges", type=int, default=8_000, help="of bytes")
    given, failed = parser.parse_args(), False
    data = Path(os.environ.get("VOLT_DATA", "."))
    for name in given.texts or (CORPORA if given.level == "characters" else BYTES):
        if given.level == "characters":
            checks = character_checks(name, data)
        else:
            counts = volt.count_words(data / name, pretokenizer="bytes")
            checks = compare_bytes(read_lines(data / name), counts, given.merges)
        for what, n, wrong in checks:
            failed |= bool(wrong)
            print(f"{name}: {what}, {n:,}: {wrong or 'equal'}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
