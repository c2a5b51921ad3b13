"""Laws of `shrink`: text stays, ids follow the map, counts are exact, the cheapest token goes
first.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from re import search as matched

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.merging_modes import LETTERS, encoded, vocabularies

import volt
from volt.errors import CorpusError, VocabularyError
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

MANY = settings(max_examples=examples(40), deadline=None)
word_lists = st.lists(st.text(LETTERS + "x", min_size=1, max_size=9), min_size=1, max_size=7)
OLD = Vocabulary(
    (("l", "o"), ("lo", "w"), ("a", "b")),
    ("l", "o", "w", "a", "b", "lo", "low", "ab"),
    marker="none",
)


def shrunk(vocabulary, words, to, **options):
    return volt.shrink(vocabulary, words, to=to, **options).vocabulary


def smallest(vocabulary, words, **options):
    """Return the fewest ids that the vocabulary can have, from the error for one id."""
    with suppress(VocabularyError):
        return len(shrunk(vocabulary, words, 1, **options))
    with pytest.raises(VocabularyError) as error:
        shrunk(vocabulary, words, 1, **options)
    number = matched(r"at least ([\d,]+) ids? must remain", str(error.value))
    return int(number[1].replace(",", ""))


@MANY
@given(
    vocabularies(longest=6),
    word_lists,
    word_lists,
    st.fixed_dictionaries({"closed": st.booleans(), "keep_atoms": st.booleans()}),
    st.integers(0, 10**6),
)
def test_a_shrunk_vocabulary_encodes_the_same_text(old, words, others, options, draw):
    """`shrink` leaves the requested number of ids, in their order, and words are spelled as before.

    A word whose pieces all remain keeps these pieces. Counts are those of encoded words."""
    least = smallest(old, Counter(words), **options)
    to = least + draw % (len(old.ids) - least + 1)
    result = volt.shrink(old, Counter(words), to=to, **options)
    new = result.vocabulary
    assert len(new) == len(new.ids) == to == (result.new_ids >= 0).sum()
    ids = zip(old.pieces, result.new_ids, strict=True)
    assert [piece for piece, number in ids if number >= 0] == list(new.pieces)
    for name in ("special", "merging", "whole_words"):
        assert getattr(new, name) == getattr(old, name)
    assert set(new.scaffolding) >= set(old.scaffolding)
    assert not options["closed"] or new.scaffolding == old.scaffolding

    for word in [*words, *others]:
        before = encoded(word, old)
        after = encoded(word, new)
        assert "".join(after) == "".join(before)
        remain = all(piece in new.ids or piece not in old.ids for piece in before)
        assert after == before or not (remain and options["keep_atoms"])
    pieces = Counter(piece for word in words for piece in encoded(word, new))
    assert list(new.counts) == [pieces[token] for token in new.tokens]
    assert result.n_pieces == pieces.total()
    assert result.n_pieces_before == sum(len(encoded(word, old)) for word in words)


@pytest.mark.parametrize("options", [{}, {"byte_fallback": True}, {"fuse_unk": True}], ids=str)
@pytest.mark.parametrize(
    ("pretokenizer", "marker"),
    [
        ("whitespace", "suffix"),
        ("whitespace", "prefix"),
        ("gpt2", "suffix"),
        ("unicode", "none"),
        ("bytes", "suffix"),
    ],
)
def test_pieces_are_counted_as_in_the_text(tmp_path, pretokenizer, marker, options):
    """`shrink` counts the pieces that the encoder gives, with byte tokens and fused unknown
    pieces.
    """
    text = "low lower <u> a<u>b c<u> <u>low éé日本x 日日"
    user = SpecialTokens(user=("<u>",))
    (tmp_path / "a.txt").write_text(text)
    counts = volt.count_words(tmp_path / "a.txt", pretokenizer=pretokenizer, special=user)
    old = Vocabulary(
        (("l", "o"), ("o", "w")),
        ("l", "o", "w", "e", "a", "b", "lo", "ow"),
        special=user,
        pretokenizer=counts.pretokenizer,
        marker=marker,
        **options,
    )
    result = volt.shrink(old, counts, to=len(old) - 1)
    assert result.n_pieces_before == len(volt.Encoder(old).encode(text))
    assert result.n_pieces == len(volt.Encoder(result.vocabulary).encode(text))


@MANY
@given(vocabularies(longest=6), word_lists)
def test_the_dropped_token_adds_the_fewest_pieces(old, words):
    """If `shrink` drops one token, no other token that may go would add fewer pieces."""
    tokens = tuple(token for token in old.tokens if token not in old.unmade)
    old = replace(old, whole_words=False, tokens=tokens)
    droppable = set(tokens) - set(old.atoms)
    if not droppable:
        return

    def n_pieces(dropped):
        less = replace(old, tokens=tuple(token for token in tokens if token != dropped))
        return sum(len(encoded(word, less)) for word in words)

    [dropped] = set(tokens) - set(shrunk(old, Counter(words), len(old.ids) - 1).tokens)
    assert n_pieces(dropped) == min(map(n_pieces, droppable))


def test_parts_of_other_tokens_become_scaffolding_or_stay():
    """A dropped part of a frequent token becomes scaffolding; with `closed`, another token is
    dropped.
    """
    words = {"low": 9, "lo": 1, "ab": 3}
    new = shrunk(OLD, words, 11)
    assert (new.tokens[5:], new.scaffolding) == (("low", "ab"), ("lo",))
    assert new.merges == OLD.merges
    closed = shrunk(OLD, words, 11, closed=True)
    assert (closed.tokens[5:], closed.merges) == (("lo", "low"), OLD.merges[:2])


def test_the_cost_of_a_token_rises_if_its_parts_are_dropped():
    """After "lo" is dropped, "low" costs 18 pieces instead of 9, so "ab", which costs 12, is
    next.
    """
    assert shrunk(OLD, {"low": 9, "lo": 3, "ab": 12}, 10).tokens[5:] == ("low",)


def test_a_token_needs_the_parts_of_all_its_merges():
    """If two merges make a token, the parts of both become scaffolding; with `closed`, the token
    goes.
    """
    merges = (("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc"))
    for order in (merges, (*merges[:2], *merges[:1:-1])):
        old = Vocabulary(order, ("a", "b", "c", "ab", "bc", "abc"), marker="none")
        new = shrunk(old, {"abc": 9}, 8)
        assert (new.tokens, set(new.scaffolding)) == (("a", "b", "c", "abc"), {"ab", "bc"})
        assert new.merges == order
        closed = shrunk(old, {"abc": 9}, 9, closed=True)
        assert (closed.tokens, closed.merges) == (("a", "b", "c", "ab", "bc"), merges[:2])


def test_the_pairs_that_join_by_ranks_stay():
    """With merging "ranks", the pair that encoding joins into a token becomes scaffolding and
    stays.
    """
    old = Vocabulary(
        (("a", "b"), ("b", "c"), ("a", "bc")),
        ("a", "b", "c", "ab", "bc", "abc"),
        marker="none",
        merging="ranks",
    )
    new = shrunk(old, {"abc": 9}, 8)
    assert (new.tokens, new.scaffolding) == (("a", "b", "c", "abc"), ("ab", "bc"))
    assert new.counts[-1] == 9


def test_ids_have_no_holes():
    """`shrink` removes holes between ids; the remaining ids keep their order."""
    order = ("low", "", "<s>", "l", "lo", "o", "w", "<unk>", "a", "b", "ab", "</s>", "<pad>", "")
    old = replace(OLD, tokens=("low", "l", "lo", "o", "w", "a", "b", "ab"), order=order)
    result = volt.shrink(old, {"low": 9, "lo": 3}, to=11)
    assert result.vocabulary.order == tuple(piece for piece in order if piece not in ("", "ab"))
    assert result.new_ids.tolist() == [0, -1, 1, 2, 3, 4, 5, 6, 7, 8, -1, 9, 10, -1]


def test_atoms_and_special_tokens_stay():
    """`shrink` never drops user, control and byte tokens, or the atoms of bytes.

    With keep_atoms=False, it drops a character that no word and no token contains."""
    words = Counter(["low"])
    special = SpecialTokens(user=("<u>",), control=("<c>",))
    old = replace(OLD, special=special, byte_fallback=True)
    assert smallest(old, words, keep_atoms=False) == 4 + 2 + 256 + 3
    assert smallest(replace(OLD, pretokenizer="bytes"), words, keep_atoms=False) == 4 + 5
    new = shrunk(OLD, words, 8, keep_atoms=False)
    assert (new.tokens, new.merges) == (("l", "o", "w", "low"), OLD.merges[:2])


@pytest.mark.parametrize(
    ("words", "to", "error", "message"),
    [
        ({"low": 1}, 13, VocabularyError, "to is 13, but the vocabulary has 12 ids"),
        (
            {"low": 1},
            8,
            VocabularyError,
            "at least 9 ids must remain: 4 special tokens, 5 atoms; give 9 or more, or pass keep_",
        ),
        ({}, 9, CorpusError, "no words"),
        (
            volt.WordCounts.from_pairs({"a": 1}, normalizer="nfc"),
            9,
            CorpusError,
            "normalizer 'nfc', and the vocabulary has 'none'",
        ),
    ],
)
def test_errors_say_why_a_vocabulary_cannot_shrink(words, to, error, message):
    """`shrink` raises an error for too many or too few ids, no words, or words with other
    settings.
    """
    with pytest.raises(error, match=message):
        shrunk(OLD, words, to)


@MANY
@given(
    st.lists(st.text("lowx", min_size=2, max_size=4), min_size=1, max_size=8, unique=True),
    st.lists(st.text("lowx", min_size=1, max_size=7), min_size=1, max_size=7),
    st.randoms(use_true_random=False),
)
def test_a_unigram_model_loses_the_cheapest_token_first(longer, words, rng):
    """`shrink` drops the token without which the words' log probability falls the least, if its
    occurrences are spelled by other tokens; scores stay, and counts are those of encoded words."""
    tokens = (*"lowx", *longer)
    scores = tuple(-1.0 - rng.randrange(64) / 8 for _ in tokens)
    old = Vocabulary((), tokens, scores=scores, marker="none")
    result = volt.shrink(old, Counter(words), to=len(old.ids) - 1)
    new = result.vocabulary
    assert (
        dict(zip(new.tokens, new.scores, strict=True)).items()
        < dict(zip(tokens, scores, strict=True)).items()
    )

    counts = Counter(piece for word in words for piece in best_path(word, old))
    score_of = dict(zip(tokens, scores, strict=True))

    def loss(token):
        others = [number for number, other in enumerate(tokens) if other != token]
        fewer = replace(
            old,
            tokens=tuple(tokens[number] for number in others),
            scores=tuple(scores[number] for number in others),
        )
        parts = best_path(token, fewer)
        return counts[token] * (score_of[token] - sum(score_of[part] for part in parts))

    [dropped] = set(tokens) - set(new.tokens)
    assert loss(dropped) == pytest.approx(min(map(loss, longer)))
    pieces = Counter(piece for word in words for piece in best_path(word, new))
    assert list(new.counts) == [pieces[token] for token in new.tokens]
    assert result.n_pieces == pieces.total()


def best_path(word, vocabulary):
    return volt.Encoder(vocabulary).encode_words([word])[0]
