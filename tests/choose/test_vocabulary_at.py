"""Laws of `vocabulary_at`: the counts of a vocabulary are those of the corpus that it encodes."""

from collections import Counter

import pytest
from choose.recounts import assert_counts_are_exact, recounted
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.merges import LINES, MARKERS, markers, word_counts

from volt.choose.rules import rules
from volt.choose.search import search
from volt.choose.size_steps import SearchParameters
from volt.learn.bpe import learn_bpe

WORDS = Counter(" ".join(LINES).split()) + Counter({"<unk>": 30, "</s>x": 20, "<0x41>": 9})


@given(word_counts(), markers, st.sampled_from(rules()), st.sampled_from([0.0, 0.001, 0.3]))
@settings(deadline=None, max_examples=examples(40))
def test_counts_equal_a_recount(words, marker, rule, min_share):
    """The count of each token equals the number of its pieces in the corpus, encoded with the
    vocabulary.
    """
    candidates = learn_bpe(words, 40, marker=marker, min_pair_count=1)
    assume(candidates.n_merges)
    result = search(candidates, select=rule, parameters=SearchParameters(min_share=min_share))
    assert_counts_are_exact(result)
    assert sum(result.vocabulary.counts) == recounted(result).total()


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("min_share", [0.001, 0.7])
def test_text_that_spells_special_tokens_is_split(marker, min_share):
    """A candidate spelled like a special token is left out, and its parts are counted."""
    candidates = learn_bpe(WORDS, 200, marker=marker, min_pair_count=1)
    parameters = SearchParameters(min_share=min_share)
    result = search(candidates, parameters=parameters, byte_fallback=True, select="tokens")
    assert not {"<unk>", "</s>", "<0x41>"} & set(result.vocabulary.tokens)
    assert_counts_are_exact(result)


def test_large_counts_are_exact():
    """The counts of a vocabulary are exact above 2⁵³, where floats are not."""
    words = {word: count * 2**40 + 1 for word, count in WORDS.items()}
    assert_counts_are_exact(search(learn_bpe(words, 100)))
