"""Byte-level merges equal those of HF tokenizers but for ties: a learner by definition can follow either rule.

Where several pairs occur most often, VOLT takes the greatest text, as subword-nmt does, and HF tokenizers the smallest
ids.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import naive
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tokenizers")

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

import volt

Pair = tuple[str, str]
Ids = dict[str, int]


def greatest_text(pair: Pair, ids: Ids) -> Any:
    return tuple(tuple(-ord(character) for character in [*token, "\0"]) for token in pair)


def smallest_ids(pair: Pair, ids: Ids) -> Any:
    """Order ties as HF tokenizers does: smaller ids come first."""
    return ids[pair[0]], ids[pair[1]]


def learn(
    counts: Mapping[str, int], n_merges: int, order: Callable[[Pair, Ids], Any]
) -> list[Pair]:
    """Learn merges by definition: merge the most frequent pair, and write the words anew."""
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
            changes.subtract(
                {old: n * weights[number] for old, n in Counter(pairwise(words[number])).items()}
            )
            words[number] = naive.replace(words[number], pair)
            for new in pairwise(words[number]):
                changes[new] += weights[number]
                places[new].add(number)
        for changed, n in changes.items():
            if n:
                totals[changed] += n
                heapq.heappush(queue, (-totals[changed], order(changed, ids), changed))
    return merges


def of_hugging_face(lines: Iterable[str], n_merges: int) -> list[Pair]:
    tokenizer, alphabet = Tokenizer(BPE()), ByteLevel.alphabet()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    size = len(alphabet) + n_merges
    trainer = BpeTrainer(
        vocab_size=size, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def assert_by_definition(lines: list[str], counts: volt.WordCounts, n_merges: int) -> None:
    """Both sides learn exactly the merges of the definition under their rule for ties."""
    words = dict(counts.table.rows())
    assert volt.learn_bpe(counts, n_merges).merges == learn(words, n_merges, greatest_text)
    assert of_hugging_face(lines, n_merges) == learn(words, n_merges, smallest_ids)


@given(
    st.dictionaries(st.text("aabc", min_size=1, max_size=9), st.integers(1, 5), min_size=1),
    st.integers(0, 9),
)
def test_both_sides_learn_what_the_definition_says(words: dict[str, int], n_merges: int) -> None:
    """Drawn words, in which most pairs occur as often as others."""
    lines = [word for word, count in words.items() for _ in range(count)]
    assert_by_definition(lines, volt.WordCounts.from_pairs(words, pretokenizer="bytes"), n_merges)


@pytest.mark.parametrize(
    "name", ["multi30k/train.en.gz", "ted/Finnish.txt.gz", "ted/Georgian.txt.gz"]
)
def test_they_do_on_corpora(
    lines: Callable[[str, int], list[str]], name: str, tmp_path: Path
) -> None:
    """Words as VOLT counts them from a file, and as HF tokenizers cuts the lines."""
    text, path = lines(name, 8_000), tmp_path / "text.txt"
    path.write_text("\n".join(text), encoding="utf-8", newline="\n")
    assert_by_definition(text, volt.count_words(path, pretokenizer="bytes"), 1_000)


def test_counts_beyond_32_bits_are_exact() -> None:
    """A table of words that occur up to 2^60 times: sums of pairs are beyond what 32 bits hold."""
    words = {"ab": 2**33, "cd": 2**33 + 1, "abcd": 2**40, "bc": 3, "cdb": 2**60}
    expected = learn(words, 20, greatest_text)
    assert (
        volt.learn_bpe(volt.WordCounts.from_pairs(words, pretokenizer="bytes"), 20).merges
        == expected
    )
