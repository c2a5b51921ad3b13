"""The table of tokens and the sample cuts equal what encoders of every size give."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.choose.search import search
from volt.choose.superwords import learn_superwords
from volt.choose.vocabulary_at import vocabulary_at
from volt.comparison.page_data import cut_samples, token_table
from volt.count.corpus import count_words
from volt.encode.encoder import Encoder
from volt.learn.bpe import learn_bpe

word_counts_ = st.dictionaries(
    st.text("abc", min_size=2, max_size=8), st.integers(1, 30), min_size=2, max_size=20
)


def searched(words, *, marker="suffix"):
    """Search five sizes on these words."""
    candidates = learn_bpe(words, 40, marker=marker)
    if not candidates.n_merges:
        assume(False)
    sizes = np.unique(np.linspace(candidates.n_atoms, candidates.n_tokens, 5).astype(int))
    return search(candidates, sizes=sizes)


@given(word_counts_)
@settings(deadline=None, max_examples=examples(25))
def test_the_token_table_equals_looking_at_every_size(word_counts):
    """`token_table` has the first size, the peak and the scaffolding that follow from each size,
    and the counts and ranks of the vocabulary."""
    result = searched(word_counts)
    candidates = result.candidates
    table = token_table(result)
    counts_at = {}
    for size in range(candidates.n_atoms, candidates.n_tokens + 1):
        counts = candidates.counts_at(size).tolist()
        counts_at[size] = dict(zip(candidates.tokens_at(size), counts, strict=True))
    chosen = dict(zip(result.vocabulary.tokens, result.vocabulary.counts, strict=True))
    ordered = sorted(chosen.values(), reverse=True)
    assert table["token"].to_list() == list(candidates.tokens)
    for number, row in enumerate(table.iter_rows(named=True)):
        token = row["token"]
        counts = {size: at[token] for size, at in counts_at.items() if token in at}
        peak = max(counts.values())
        assert row["length"] == candidates.lengths[number]
        assert row["appears"] == min(counts)
        assert row["peak_count"] == peak
        assert row["peak"] == min(size for size, count in counts.items() if count == peak)
        steps = [step for step in result.steps if number < step.size and not step.kept[number]]
        assert row["scaffolding"] == min((step.size for step in steps), default=None)
        assert row["count"] == chosen.get(token)
        assert (row["rank"] is None) == (token not in chosen)
        assert token not in chosen or ordered[row["rank"] - 1] == chosen[token]
    assert sorted(table["rank"].drop_nulls()) == list(range(1, len(chosen) + 1))


@given(
    word_counts_,
    st.lists(st.text("abcd ", max_size=20), max_size=4),
    st.sampled_from(["suffix", "prefix", "none"]),
)
@settings(deadline=None, max_examples=examples(25))
def test_samples_are_split_by_each_sizes_vocabulary(word_counts, lines, marker):
    """`cut_samples` has the pieces and counts of an encoder with all merges and tokens of each
    size."""
    result = searched(word_counts, marker=marker)
    samples = cut_samples(result, [("en", line) for line in lines])
    tokens = result.candidates.tokens
    for step, cuts, counts in zip(result.steps, samples.cuts, samples.counts, strict=True):
        vocabulary = vocabulary_at(result.candidates, step.size, kept=step.kept)
        encoder = Encoder(vocabulary)
        used = set()
        for line, words in zip(lines, cuts, strict=True):
            for word, pieces in zip(line.split(), words, strict=True):
                used.update(piece for piece in pieces if isinstance(piece, int))
                spelled = [tokens[piece] if piece in used else piece for piece in pieces]
                assert [spelled] == [list(cut) for cut in encoder.encode_words([word])]
        assert used <= set(map(int, counts))
        exact = dict.fromkeys(vocabulary.tokens, 0)
        for word, count in result.candidates.counts.table.rows():
            for piece in encoder.encode_words([word])[0]:
                exact[piece] += count
        assert counts == {number: exact[tokens[int(number)]] for number in counts}


def test_samples_with_superwords_are_split_as_they_are_encoded():
    """`cut_samples` splits lines into words up to the transition, and into stretches above it."""
    lines = ["in the sea, in the sun", "on the sea -- 12 in the sea"] * 3
    words = learn_bpe(count_words(texts=lines, level="bytes"), n_merges=9)
    candidates = learn_superwords(words, n_superwords=6, texts=lines)
    result = search(candidates, sizes=[260, words.n_tokens, candidates.n_tokens])
    samples = cut_samples(result, [("en", line) for line in lines])
    for step, cuts in zip(result.steps, samples.cuts, strict=True):
        encoder = Encoder(vocabulary_at(candidates, step.size, kept=step.kept))
        for line, words_of_line in zip(lines, cuts, strict=True):
            pieces = [candidates.tokens[piece] for word in words_of_line for piece in word]
            assert pieces == encoder.encode(line)
    assert len(samples.cuts[-1][0]) < len(samples.cuts[0][0])


def test_a_long_word_is_cut():
    """`cut_samples` splits a word of 21,000 characters into pieces that spell it."""
    result = searched({"abab": 9, "abc": 5, "cab": 3})
    line = "abc" * 7_000
    pieces = cut_samples(result, [("en", line)]).cuts[-1][0][0]
    assert "".join(result.candidates.tokens[piece] for piece in pieces) == line + "</w>"


@pytest.mark.parametrize("lines", [[], ["", "   "]])
def test_empty_samples_have_no_pieces(lines):
    """`cut_samples` stores lines without words, without pieces."""
    samples = cut_samples(searched({"abab": 9, "abc": 5}), [("en", line) for line in lines])
    assert all(cuts == ((),) * len(lines) for cuts in samples.cuts)
