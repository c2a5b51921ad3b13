"""Laws of merges of bytes: they equal those of HF tokenizers, except for ties.

If several pairs are most frequent, VOLT merges the one with the greatest text, as subword-nmt does, and HF tokenizers
the one with the smallest ids. A learner by definition follows either rule.
"""

import heapq
import json
from collections import Counter, defaultdict
from itertools import pairwise

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


def greatest_text(pair, ids):
    return tuple(tuple(-ord(character) for character in [*token, "\0"]) for token in pair)


def smallest_ids(pair, ids):
    """Order ties as HF tokenizers does: smaller ids first."""
    return ids[pair[0]], ids[pair[1]]


def learn(counts, n_merges, order):
    """Learn merges by definition: merge the most frequent pair in all words that contain it, and count pairs again."""
    words = [list(word) for word in counts]
    weights = list(counts.values())
    ids = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    totals = Counter()
    places = defaultdict(set)
    for number, word in enumerate(words):
        for pair in pairwise(word):
            totals[pair] += weights[number]
            places[pair].add(number)
    queue = [(-count, order(pair, ids), pair) for pair, count in totals.items()]
    heapq.heapify(queue)
    merges = []
    while queue and len(merges) < n_merges:
        count, _, pair = heapq.heappop(queue)
        if totals[pair] != -count or count > -2:
            continue
        merges.append(pair)
        ids.setdefault("".join(pair), len(ids))
        changes = Counter()
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


def of_hugging_face(lines, n_merges):
    tokenizer = Tokenizer(BPE())
    alphabet = ByteLevel.alphabet()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    size = len(alphabet) + n_merges
    trainer = BpeTrainer(
        vocab_size=size, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def assert_by_definition(lines, counts, n_merges):
    """Check that both libraries learn the merges of the definition with their rule for ties."""
    words = dict(counts.table.rows())
    assert volt.learn_bpe(counts, n_merges).merges == learn(words, n_merges, greatest_text)
    assert of_hugging_face(lines, n_merges) == learn(words, n_merges, smallest_ids)


@given(
    st.dictionaries(st.text("aabc", min_size=1, max_size=9), st.integers(1, 5), min_size=1),
    st.integers(0, 9),
)
def test_volt_and_tokenizers_learn_byte_merges_by_the_definition(words, n_merges):
    """On random words, in which most pairs tie, VOLT and HF tokenizers learn the merges of the
    definition, each with its own rule for ties."""
    lines = [word for word, count in words.items() for _ in range(count)]
    assert_by_definition(lines, volt.WordCounts.from_pairs(words, pretokenizer="bytes"), n_merges)


@pytest.mark.parametrize(
    "name", ["multi30k/train.en.gz", "ted/Finnish.txt.gz", "ted/Georgian.txt.gz"]
)
def test_volt_and_tokenizers_learn_byte_merges_of_corpora_by_the_definition(lines, name, tmp_path):
    """On corpora, VOLT, which counts words of a file, and HF tokenizers, which splits the lines,
    learn the merges of the definition."""
    text, path = lines(name, 8_000), tmp_path / "text.txt"
    path.write_text("\n".join(text), encoding="utf-8", newline="\n")
    assert_by_definition(text, volt.count_words(path, pretokenizer="bytes"), 1_000)
