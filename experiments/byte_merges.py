"""Byte-level merges beside those of HF tokenizers: the same but for ties, shown by a learner that takes either side's.

    python -m experiments.byte_merges TEXT.gz… [--merges 8000]

Where several pairs occur most often, VOLT takes the greatest as text, as subword-nmt does, and HF tokenizers the one
whose tokens have the smallest ids. The learner here is BPE as it is defined: the pair that occurs most often is merged,
words are written out again, and nothing is kept but how often each pair occurs in which words. Given VOLT's words and
either rule of ties, it must learn the very merges of that side. A row's exit status is 1 if it does not.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

import volt

Pair = tuple[str, str]
Ids = dict[str, int]


def greatest_text(pair: Pair, ids: Ids) -> Any:
    """VOLT's order of pairs that occur equally often: a greater text goes first."""
    return tuple(tuple(-ord(character) for character in [*token, "\0"]) for token in pair)


def smallest_ids(pair: Pair, ids: Ids) -> Any:
    """The order of HF tokenizers: smaller ids go first."""
    return ids[pair[0]], ids[pair[1]]


def merged(symbols: list[str], pair: Pair) -> list[str]:
    """A word's symbols after a merge.

    >>> merged(["a", "a", "a"], ("a", "a"))
    ['aa', 'a']
    """
    found, place = list[str](), 0
    while place < len(symbols):
        hit = tuple(symbols[place : place + 2]) == pair
        found.append("".join(pair) if hit else symbols[place])
        place += 1 + hit
    return found


def learn(counts: Mapping[str, int], n_merges: int, order: Callable[[Pair, Ids], Any]) -> tuple[list[Pair], int]:
    """Merges by definition, and how many of them another pair could have been taken for.

    >>> learn({"abc": 2, "xbc": 1}, 2, smallest_ids)
    ([('b', 'c'), ('a', 'bc')], 0)
    """
    words, weights = [list(word) for word in counts], list(counts.values())
    ids = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    totals, places = Counter[Pair](), defaultdict[Pair, set[int]](set)
    for number, word in enumerate(words):
        for pair in pairwise(word):
            totals[pair] += weights[number]
            places[pair].add(number)
    queue = [(-count, order(pair, ids), pair) for pair, count in totals.items()]
    heapq.heapify(queue)
    merges, n_ties = list[Pair](), 0
    while queue and len(merges) < n_merges:
        count, _, pair = heapq.heappop(queue)
        if totals[pair] != -count or count > -2:
            continue
        while queue and queue[0][0] == count and (queue[0][2] == pair or totals[queue[0][2]] != -count):
            heapq.heappop(queue)
        n_ties += bool(queue) and queue[0][0] == count
        merges.append(pair)
        ids.setdefault("".join(pair), len(ids))
        changes = Counter[Pair]()
        for number in places.pop(pair):
            changes.subtract({old: n * weights[number] for old, n in Counter(pairwise(words[number])).items()})
            words[number] = merged(words[number], pair)
            for new in pairwise(words[number]):
                changes[new] += weights[number]
                places[new].add(number)
        for changed, difference in changes.items():
            if difference:
                totals[changed] += difference
                heapq.heappush(queue, (-totals[changed], order(changed, ids), changed))
    return merges, n_ties


def of_hugging_face(lines: Iterable[str], n_merges: int) -> list[Pair]:
    """What the library's trainer learns."""
    tokenizer, alphabet = Tokenizer(BPE()), ByteLevel.alphabet()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=len(alphabet) + n_merges, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def compare(lines: list[str], counts: volt.WordCounts, n_merges: int) -> tuple[bool, str]:
    """Whether both sides learn what the definition says, and a row that tells it."""
    ours, theirs = volt.learn_bpe(counts, n_merges).merges, of_hugging_face(lines, n_merges)
    words = dict(counts.table.rows())
    (by_text, n_ties), (by_ids, _) = (learn(words, n_merges, order) for order in (greatest_text, smallest_ids))
    equal = ours == by_text, theirs == by_ids
    verdicts = ["equal" if is_equal else "DIFFERENT" for is_equal in equal]
    row = (
        f"{len(ours):>6,} merges, {n_ties:>5,} at a tie; VOLT {verdicts[0]}, HF {verdicts[1]}; "
        f"both have {len(set(ours) & set(theirs)):,}"
    )
    return all(equal), row


def main() -> int:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, nargs="+", metavar="TEXT.gz")
    parser.add_argument("--merges", type=int, default=8_000)
    options = parser.parse_args()
    failed = False
    for path in options.texts:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            lines = [line.removesuffix("\n") for line in file]
        is_equal, row = compare(lines, volt.count_words(path, pretokenizer="bytes"), options.merges)
        failed |= not is_equal
        print(f"{path.name:<20} {row}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
