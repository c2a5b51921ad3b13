"""Laws of the token table and the sample cuts: each number is what asking every size one by one gives."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.choose.search import search
from volt.choose.vocabulary_at import vocabulary_at
from volt.comparison.muv_study import cut_samples, token_table
from volt.encode.encoder import Encoder
from volt.learn.bpe import learn_bpe

word_counts_ = st.dictionaries(
    st.text("abc", min_size=2, max_size=8), st.integers(1, 30), min_size=2, max_size=20
)


def searched(word_counts, *, marker="suffix"):
    candidates = learn_bpe(word_counts, 40, marker=marker)
    if not candidates.n_merges:
        return None
    return search(
        candidates,
        sizes=np.unique(np.linspace(candidates.n_atoms, candidates.n_tokens, 5).astype(int)),
    )


@given(word_counts_)
@settings(deadline=None, max_examples=examples(25))
def test_every_entry_equals_asking_every_size(word_counts):
    """Appearance, peak and scaffolding by looking at each size in turn; counts and ranks by the chosen vocabulary."""
    result = searched(word_counts)
    if result is None:
        return
    table, candidates = token_table(result), result.candidates
    sizes = range(candidates.n_atoms, candidates.n_tokens + 1)
    at = {
        size: dict(
            zip(candidates.tokens_at(size), candidates.counts_at(size).tolist(), strict=True)
        )
        for size in sizes
    }
    chosen = dict(zip(result.vocabulary.tokens, result.vocabulary.counts, strict=True))
    ordered = sorted(chosen.values(), reverse=True)
    assert table["token"].to_list() == list(candidates.tokens)
    for number, row in enumerate(table.iter_rows(named=True)):
        token = row["token"]
        assert row["length"] == candidates.lengths[number]
        assert row["appears"] == min(size for size in sizes if token in at[size])
        assert row["peak_count"] == max(at[size].get(token, 0) for size in sizes)
        assert row["peak"] == min(s for s in sizes if at[s].get(token, -1) == row["peak_count"])
        dropping = [
            step.size for step in result.steps if number < step.size and not step.kept[number]
        ]
        assert row["scaffolding"] == min(dropping, default=None)
        assert row["count"] == chosen.get(token)
        assert (row["rank"] is None) == (token not in chosen)
        if token in chosen:
            assert ordered[row["rank"] - 1] == chosen[token]
    assert sorted(table["rank"].drop_nulls()) == list(range(1, len(chosen) + 1))


@given(
    word_counts_,
    st.lists(st.text("abcd ", max_size=20), max_size=4),
    st.sampled_from(["suffix", "prefix", "none"]),
)
@settings(deadline=None, max_examples=examples(25))
def test_samples_are_cut_as_each_sizes_vocabulary_cuts_them(word_counts, lines, marker):
    """At every size, the pieces are those of an encoder with all of that size's merges and kept tokens."""
    result = searched(word_counts, marker=marker)
    if result is None:
        return
    found = cut_samples(result, [("en", line) for line in lines])
    tokens = result.candidates.tokens
    for step, cuts, counts in zip(result.steps, found.cuts, found.counts, strict=True):
        vocabulary = vocabulary_at(result.candidates, step.size, kept=step.kept)
        encoder = Encoder(vocabulary)
        for line, words in zip(lines, cuts, strict=True):
            spelled = [
                tuple(tokens[p] if isinstance(p, int) else p for p in word) for word in words
            ]
            assert spelled == encoder.encode_words(line.split())
            assert {piece for word in words for piece in word if isinstance(piece, int)} <= set(
                map(int, counts)
            )
        exact = dict.fromkeys(vocabulary.tokens, 0)
        for word, count in result.candidates.counts.table.rows():
            for piece in encoder.encode_words([word])[0]:
                exact[piece] += count
        assert counts == {number: exact[tokens[int(number)]] for number in counts}


def test_a_long_sample_without_spaces_is_cut_quickly():
    """A line of 20,000 characters is one word; its cuts still join to the line."""
    result = searched({"abab": 9, "abc": 5, "cab": 3})
    line = "abc" * 7_000
    pieces = cut_samples(result, [("en", line)]).cuts[-1][0][0]
    assert "".join(result.candidates.tokens[piece] for piece in pieces) == line + "</w>"


@pytest.mark.parametrize("lines", [[], ["", "   "]])
def test_no_words_make_no_cuts(lines):
    """Empty samples are kept as they are, with nothing in them."""
    found = cut_samples(searched({"abab": 9, "abc": 5}), [("en", line) for line in lines])
    assert all(cuts == ((),) * len(lines) for cuts in found.cuts)
