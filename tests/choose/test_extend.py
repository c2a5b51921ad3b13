"""Laws of `extend_bpe`: ids stay, words change only by new merges, and counts are exact."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.merging_modes import LETTERS, encoded, vocabularies

import volt
from volt.choose.extend import extend_bpe
from volt.choose.vocabulary_at import vocabulary_at
from volt.errors import CandidateError, ConfigError, CorpusError
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

MANY = settings(max_examples=examples(40), deadline=None)
word_counts = st.dictionaries(
    st.text(LETTERS + "x", min_size=1, max_size=9), st.integers(1, 5), min_size=1, max_size=7
)
OLD = Vocabulary((("l", "o"),), ("l", "o", "w</w>", "lo"))


def counts_of(vocabulary, words):
    """Count each token by encoding all words with the definition."""
    pieces = Counter()
    for word, count in words.items():
        for piece in encoded(word, vocabulary):
            pieces[piece] += count
    return Counter({piece: n for piece, n in pieces.items() if piece in vocabulary.tokens})


def used(vocabulary):
    """Return the vocabulary's tokens that occur, with their counts."""
    return +Counter(dict(zip(vocabulary.tokens, vocabulary.counts, strict=True)))


@MANY
@given(vocabularies(longest=6), word_counts, st.booleans())
def test_ids_stay_and_counts_are_exact(old, words, new_atoms):
    """An extended vocabulary of any size keeps the old ids, and its counts are those of encoded
    words.
    """
    candidates = extend_bpe(old, words, min_pair_count=1, new_atoms=new_atoms)
    assert candidates.merges[: len(old.merges)] == list(old.merges)
    low = candidates.smallest
    high = candidates.n_tokens
    for size in {low, (low + high) // 2, high}:
        new = vocabulary_at(candidates, size)
        assert new.pieces[: len(old.pieces)] == old.pieces
        assert new.scaffolding == old.scaffolding
        assert old.ids.items() <= new.ids.items()
        assert used(new) == counts_of(new, words)


def test_steps_count_pieces_as_encoding_does():
    """A search counts the pieces of an extended, pruned vocabulary as the encoder gives them."""
    old = Vocabulary((("l", "o"), ("lo", "w</w>")), ("l", "o", "w</w>", "low</w>"))
    words = {"low": 5, "loss": 3, "boss": 2}
    candidates = extend_bpe(old, words)
    for step in volt.search(candidates, sizes=[candidates.smallest, candidates.n_tokens]).steps:
        assert step.n_pieces == counts_of(vocabulary_at(candidates, step.size), words).total()


@MANY
@given(
    vocabularies(longest=6),
    word_counts,
    st.lists(st.text(LETTERS + "x", min_size=1, max_size=12), max_size=9),
)
def test_words_without_a_new_merge_are_cut_as_before(old, words, others):
    """A word's pieces change only if a new merge joins two symbols that the old merges leave."""
    candidates = extend_bpe(old, words, min_pair_count=1, new_atoms=False)
    new = vocabulary_at(candidates, candidates.n_tokens)
    added = candidates.merges[len(old.merges) :]
    joined = {"".join(pair) for pair in added} if old.merging == "ranks" else ()
    for word in {*words, *others}:
        pairs = pairwise(merged(word, old))
        if not any(pair in added or "".join(pair) in joined for pair in pairs):
            assert encoded(word, new) == encoded(word, old)


def merged(word, vocabulary):
    """Return a word's symbols after all merges, before scaffolding is split back."""
    whole = "".join(naive.atoms(word, vocabulary.marker))
    if vocabulary.whole_words and whole in vocabulary.tokens:
        return [whole]
    results = map("".join, vocabulary.merges)
    unpruned = SimpleNamespace(
        merges=vocabulary.merges,
        tokens=(*dict.fromkeys((*vocabulary.tokens, *results)),),
        marker=vocabulary.marker,
        merging=vocabulary.merging,
        whole_words=False,
    )
    return encoded(word, unpruned)


@settings(max_examples=8, deadline=None)
@given(word_counts, word_counts)
def test_extending_with_the_same_words_continues_learning(first, second):
    """`learn_bpe` of some merges, then `extend_bpe` with the same words, gives all merges of
    `learn_bpe`.
    """
    whole = volt.learn_bpe(first, min_pair_count=1)
    n_pieces = whole.counts_at(whole.n_tokens).sum()
    for n in range(0, whole.n_merges + 1, 3):
        candidates = volt.learn_bpe(first, n, min_pair_count=1)
        old = vocabulary_at(candidates, int(whole.sizes_after()[n]))
        again = extend_bpe(old, first, min_pair_count=1)
        assert again.merges == whole.merges
        assert again.counts_at(again.n_tokens).sum() == n_pieces
    assert extend_bpe(old, second, 1).n_merges <= whole.n_merges + 1


@pytest.mark.parametrize(
    ("merging", "pieces"),
    [("pairs", {"abc": 9, "abcd": 3}), ("steps", {"abc": 5, "abcd": 3, "abca": 2, "bc": 2})],
)
def test_a_new_merge_may_make_an_old_token(merging, pieces):
    """If a new merge makes an old token, the token keeps its id, and old merges of it follow.

    With merging "steps", merges of lower rank come first."""
    merges = (("b", "c"), ("a", "b"), ("ab", "c"), ("abc", "d"), ("abc", "a"))
    tokens = ("a", "b", "c", "d", "bc", "ab", "abc", "abcd", "abca")
    old = Vocabulary(merges, tokens, marker="none", merging=merging)
    words = {"abc": 5, "abcd": 3, "abcabc": 2}
    new = vocabulary_at(extend_bpe(old, words, 1), old.size)
    assert (new.pieces, new.merges) == (old.pieces, (*merges, ("a", "bc")))
    assert used(new) == pieces == counts_of(new, words)


@pytest.mark.parametrize("tokens", [("a", "b", "c"), ("a", "b", "c", "bcaa")])
def test_new_tokens_may_join_into_an_old_one_by_ranks(tokens):
    """With merging "ranks", counts are exact if a new token joins its neighbour into an old
    token.
    """
    merges = (("ca", "a"), ("b", "c"), ("c", "a"), ("a", "b"), ("b", "caa"))
    old = Vocabulary(merges, tokens, marker="none", merging="ranks")
    words = {"bcaaa": 5, "aab": 2}
    candidates = extend_bpe(old, words, 1)
    new = vocabulary_at(candidates, candidates.n_tokens)
    assert ("a", "a") in candidates.merges
    assert used(new) == counts_of(new, words)


def test_new_ids_follow_the_last_old_id():
    """In an extended vocabulary whose ids have holes, the holes stay, and new ids follow the last
    id.
    """
    order = ("lo", "", "l", "o", "<s>", "w</w>", "</s>", "<unk>", "<pad>", "")
    old = replace(OLD, tokens=("lo", "l", "o", "w</w>"), order=order)
    result = volt.search(extend_bpe(old, {"low": 5, "slow": 2}), select=7)
    assert result.vocabulary.order == (*order, "s", "low</w>", "slow</w>")


def test_scaffolding_stays_and_may_be_merged():
    """Scaffolding of the extended vocabulary gets no id, but new merges may join it."""
    old = Vocabulary((("l", "o"),), ("l", "o", "w</w>"))
    new = volt.search(extend_bpe(old, {"low": 5}), select=5).vocabulary
    assert (new.tokens, new.scaffolding) == (("l", "o", "w</w>", "low</w>"), ("lo",))


def test_new_atoms_are_optional_with_byte_fallback():
    """Unknown characters become atoms by default, but with byte fallback only if `new_atoms` is
    set.

    With new_atoms=False, they split words.
    """
    words = {"ölö": 3}
    with_bytes = replace(OLD, byte_fallback=True)
    assert extend_bpe(OLD, words).tokens[3:5] == ("ö", "ö</w>")
    assert extend_bpe(with_bytes, words).tokens == ("l", "o", "w</w>", "lo")
    assert "ölö</w>" in extend_bpe(with_bytes, words, new_atoms=True).tokens
    assert extend_bpe(OLD, words, new_atoms=False).n_merges == 1


def test_user_tokens_are_not_merged():
    """`extend_bpe` splits words at user tokens, which do not become atoms."""
    old = replace(OLD, special=SpecialTokens(user=("<u>",)))
    candidates = extend_bpe(old, {old.special.hide_text("lo<u>low"): 5})
    assert candidates.tokens == ("l", "o", "w</w>", "lo", "low</w>")
    vocabulary = volt.search(candidates, select=5).vocabulary
    assert volt.Encoder(vocabulary).encode("lo<u>low") == ["lo", "<u>", "low</w>"]


def test_rules_count_only_new_types():
    """For an extension, `median500` and `balanced` consider the median count of new tokens only."""
    candidates = extend_bpe(OLD, {"low": 900, "wow": 800, "ow": 3, "lot": 2})
    picks = volt.search(candidates).picks
    assert picks["median500"].size == picks["balanced"].size
    counts = candidates.counts_at(picks["median500"].size)[candidates.smallest :]
    counts = sorted(counts[counts > 0])
    assert counts[len(counts) // 2] >= 500


def test_errors_say_why_a_vocabulary_cannot_be_extended():
    """Errors name missing words, other settings, sizes below the old one, and options that must not
    change.
    """
    with pytest.raises(CorpusError, match="no words"):
        extend_bpe(OLD, {})
    counts = volt.WordCounts.from_pairs({"a": 1}, pretokenizer="bytes")
    message = "vocabulary has 'whitespace'; count with pretokenizer=vocabulary"
    with pytest.raises(CorpusError, match=message):
        extend_bpe(OLD, counts)
    with pytest.raises(CandidateError, match="n_merges"):
        extend_bpe(OLD, {"low": 2}, -1)
    candidates = extend_bpe(OLD, {"low": 2})
    with pytest.raises(CandidateError, match="the 4 tokens that are extended"):
        volt.search(candidates, sizes=[3])
    with pytest.raises(ConfigError, match="keeps its own; remove it"):
        volt.search(candidates, special=SpecialTokens())
    with pytest.raises(CandidateError, match=r"give 4 \(the extended tokens\)"):
        candidates.counts_at(3)
