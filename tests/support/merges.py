"""Strategies for words whose pairs tie and overlap, and for merges that nobody learned; checks of
exact counts.
"""

from collections import Counter

import naive
from hypothesis import settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.count.word_counts import WordCounts
from volt.learn.bpe import learn_bpe

FEW = settings(deadline=None, max_examples=examples(60))
LINES = """the quick brown fox jumps over the lazy dog and the other dogs
Donaudampfschifffahrtsgesellschaftskapitän Donau Dampfschiff Gesellschaft Kapitän
aaa aaaa aaaaa baaab abababab banana bananas ananas
tässä lisäksi asioiden asioista muiden muita , . ! ? -- " ' ( )
ერთი ორი სამი 一二三 一二 二三 😀😀 😀 naïve cafe\u0301""".splitlines()
LATE = [
    ("b", "c"),
    ("a", "b"),
    ("ab", "c"),
    ("abc", "d"),
    ("a", "bc"),
]  # in "abcd" the fourth follows the fifth
MARKERS = ["suffix", "prefix", "none"]
ALPHABETS = ["a", "ab", "aab", "abc", "abc<>/w", "</w>", "a▁"]
MIXED = ["</w>", "a</w>", "<", "/w", "w>", "a", "b", "▁"]

counts_ = st.integers(1, 4) | st.just(1) | st.integers(2**49, 2**50)
markers = st.sampled_from(MARKERS)


@st.composite
def word_counts(draw, alphabets=ALPHABETS):
    """A few words over a small alphabet, so that pairs overlap, repeat and tie; some hold "</w>" as
    text.
    """
    letters = st.sampled_from(draw(st.sampled_from(alphabets)))
    word = st.text(letters, min_size=1, max_size=10)
    if alphabets is ALPHABETS:
        word |= st.lists(st.sampled_from(MIXED), min_size=1, max_size=4).map("".join)
    return draw(st.dictionaries(word, counts_, min_size=1, max_size=7))


@st.composite
def merge_lists(draw):
    """Words and merges that nobody learned: unreachable and repeated ones, and several that spell
    the same.
    """
    words = draw(word_counts(alphabets=["ab", "abc", "aab"]))
    marker = draw(markers)
    tokens = sorted({atom for word in words for atom in naive.atoms(word, marker)} | {"a", "b"})
    merges = []
    if draw(st.booleans()):
        merges = shuffled_cuts(
            draw(st.sampled_from(sorted(words))), draw(st.randoms(use_true_random=False))
        )
        tokens += ["".join(merge) for merge in merges]
    for _ in range(draw(st.integers(0, 9))):
        pair = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        merges.append(pair)
        tokens.append("".join(pair))
    return words, merges, marker


def learned(words, n_merges=100, *, marker="suffix", min_pair_count=1):
    """Learn merges from words and their counts, however rare the pairs."""
    return learn_bpe(
        WordCounts.from_pairs(words), n_merges, marker=marker, min_pair_count=min_pair_count
    )


def counts_of(candidates, size):
    """Return the tokens of a size that occur, with their counts."""
    counts = candidates.counts_at(size)
    assert len(counts) == size == len(candidates.tokens_at(size))
    assert counts.min(initial=0) >= 0
    return +Counter(dict(zip(candidates.tokens_at(size), counts.tolist(), strict=True)))


def assert_exact_at_every_size(candidates, words):
    """Assert that the counts equal those of the naive twin at every size."""
    for size in range(candidates.n_atoms, candidates.n_tokens + 1):
        merges = candidates.merges[: candidates.merges_at(size)]
        assert counts_of(candidates, size) == naive.token_counts(
            words, merges, candidates.marker
        ), size


def shuffled_cuts(word, rng):
    """Draw the ways to join substrings of a word from two parts, in random order."""
    parts = {word[i:j] for i in range(len(word)) for j in range(i + 2, min(i + 5, len(word) + 1))}
    cuts = sorted((part[:i], part[i:]) for part in parts for i in range(1, len(part)))
    made = set(word)
    merges = []
    for cut in rng.sample(cuts, len(cuts)) * 3:
        if cut not in merges and made.issuperset(cut):
            merges.append(cut)
            made.add("".join(cut))
    return merges
