"""Laws of shrinking a vocabulary: the text stays, ids follow the map, counts are exact, the choice
is greedy.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from re import search as found_in

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from merging_modes import LETTERS, encoded, vocabularies

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


def smallest(vocabulary, words, **how):
    """Return the fewest ids, as the error for fewer states them."""
    with suppress(VocabularyError):
        return len(volt.shrink(vocabulary, words, to=1, **how).vocabulary)
    with pytest.raises(VocabularyError) as message:
        volt.shrink(vocabulary, words, to=1, **how)
    found = found_in(r"at least ([\d,]+) ids? must remain", str(message.value))
    return int(found[1].replace(",", "")) if found else 0


@MANY
@given(
    vocabularies(longest=6),
    word_lists,
    word_lists,
    st.booleans(),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_a_shrunk_vocabulary_encodes_the_same_text(
    old, given_words, others, closed, keep_atoms, draw
):
    """The vocabulary has the requested number of ids, in their order, and spells every word as
    before. Words whose pieces all remain have these pieces. Counts are those of encoded words.
    """
    words, how = Counter(given_words), {"closed": closed, "keep_atoms": keep_atoms}
    least = smallest(old, words, **how)
    to = least + draw % (len(old.ids) - least + 1)
    found = volt.shrink(old, words, to=to, **how)
    new = found.vocabulary
    assert len(new) == len(new.ids) == to == int((found.new_ids >= 0).sum())
    left = [piece for piece, place in zip(old.pieces, found.new_ids, strict=True) if place >= 0]
    assert left == list(new.pieces)
    assert (new.special, new.merging, new.whole_words) == (
        old.special,
        old.merging,
        old.whole_words,
    )
    assert set(new.scaffolding) >= set(old.scaffolding)
    assert not closed or new.scaffolding == old.scaffolding
    for word in [*words, *others]:
        before, after = encoded(word, old), encoded(word, new)
        assert "".join(after) == "".join(before)
        if keep_atoms and all(piece in new.ids or piece not in old.ids for piece in before):
            assert after == before
    pieces = Counter(piece for word in given_words for piece in encoded(word, new))
    assert dict(zip(new.tokens, new.counts, strict=True)) == {
        token: pieces[token] for token in new.tokens
    }
    assert found.n_pieces == pieces.total()
    assert found.n_pieces_before == sum(len(encoded(word, old)) for word in given_words)


@pytest.mark.parametrize("how", [{}, {"byte_fallback": True}, {"fuse_unk": True}], ids=str)
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
def test_pieces_are_counted_as_in_the_text(tmp_path, pretokenizer, marker, how):
    """Counts include a "</w>" after a user token, several byte tokens per character, and fused
    unknown pieces.
    """
    text, user = "low lower <u> a<u>b c<u> <u>low éé日本x 日日", SpecialTokens(user=("<u>",))
    (tmp_path / "a.txt").write_text(text)
    counts = volt.count_words(tmp_path / "a.txt", pretokenizer=pretokenizer, special=user)
    merges, cut = (("l", "o"), ("o", "w")), {"pretokenizer": counts.pretokenizer, "marker": marker}
    old = Vocabulary(merges, ("l", "o", "w", "e", "a", "b", "lo", "ow"), special=user, **cut, **how)
    found = volt.shrink(old, counts, to=len(old) - 1)
    assert found.n_pieces_before == len(volt.Encoder(old).encode(text))
    assert found.n_pieces == len(volt.Encoder(found.vocabulary).encode(text))


@MANY
@given(vocabularies(longest=6), word_lists)
def test_the_dropped_token_adds_the_fewest_pieces(old, given_words):
    """Of all single tokens that may be dropped, none adds fewer pieces."""
    old, words = replace(old, whole_words=False, tokens=_made(old)), Counter(given_words)
    if not set(old.tokens) - set(old.atoms):
        return
    found = volt.shrink(old, words, to=len(old.ids) - 1, keep_atoms=True)

    def n_pieces(dropped):
        less = replace(old, tokens=tuple(token for token in old.tokens if token != dropped))
        return sum(len(encoded(word, less)) for word in given_words)

    [dropped] = set(old.tokens) - set(found.vocabulary.tokens)
    assert n_pieces(dropped) == min(
        n_pieces(token) for token in old.tokens if token not in old.atoms
    )


def _made(vocabulary):
    """Return the tokens that merges make, and all atoms."""
    return tuple(token for token in vocabulary.tokens if token not in vocabulary.unmade)


def test_parts_of_other_tokens_become_scaffolding_or_stay():
    """A dropped part of a frequent token becomes scaffolding; with `closed`, another token is
    dropped.
    """
    words = {"low": 9, "lo": 1, "ab": 3}
    found = volt.shrink(OLD, words, to=11).vocabulary
    assert (found.tokens[5:], found.scaffolding, found.merges) == (
        ("low", "ab"),
        ("lo",),
        OLD.merges,
    )
    closed = volt.shrink(OLD, words, to=11, closed=True).vocabulary
    assert (closed.tokens[5:], closed.merges) == (("lo", "low"), OLD.merges[:2])


def test_a_token_needs_the_parts_of_all_its_merges():
    """If two merges make a token, the parts of both become scaffolding; with `closed`, the token is
    dropped.
    """
    merges = (("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc"))
    for order in (merges, (*merges[:2], *merges[:1:-1])):
        old = Vocabulary(order, ("a", "b", "c", "ab", "bc", "abc"), marker="none")
        new = volt.shrink(old, {"abc": 9}, to=8).vocabulary
        assert (new.tokens, set(new.scaffolding), new.merges) == (
            ("a", "b", "c", "abc"),
            {"ab", "bc"},
            order,
        )
        closed = volt.shrink(old, {"abc": 9}, to=9, closed=True).vocabulary
        assert (closed.tokens, closed.merges) == (("a", "b", "c", "ab", "bc"), merges[:2])


def test_the_pairs_that_join_by_ranks_stay():
    """With merging "ranks", the pair that encoding joins stays, even if the merge names another
    pair.
    """
    old = Vocabulary(
        (("a", "b"), ("b", "c"), ("a", "bc")),
        ("a", "b", "c", "ab", "bc", "abc"),
        marker="none",
        merging="ranks",
    )
    new = volt.shrink(old, {"abc": 9}, to=8).vocabulary
    assert (new.tokens, new.scaffolding, new.counts[-1]) == (
        ("a", "b", "c", "abc"),
        ("ab", "bc"),
        9,
    )


def test_ids_have_no_holes():
    """In a vocabulary with holes between its ids, the remaining ids keep their order, without
    holes.
    """
    order = ("low", "", "<s>", "l", "lo", "o", "w", "<unk>", "a", "b", "ab", "</s>", "<pad>", "")
    old = replace(OLD, tokens=("low", "l", "lo", "o", "w", "a", "b", "ab"), order=order)
    found = volt.shrink(old, {"low": 9, "lo": 3}, to=11)
    assert found.vocabulary.order == (
        "low",
        "<s>",
        "l",
        "lo",
        "o",
        "w",
        "<unk>",
        "a",
        "b",
        "</s>",
        "<pad>",
    )
    assert found.new_ids.tolist() == [0, -1, 1, 2, 3, 4, 5, 6, 7, 8, -1, 9, 10, -1]


def test_special_tokens_and_byte_atoms_stay():
    """User, control and byte tokens, and the atoms of bytes, are never dropped."""
    special = SpecialTokens(user=("<u>",), control=("<c>",))
    old = replace(OLD, special=special, byte_fallback=True)
    assert smallest(old, Counter(["low"]), keep_atoms=False) == 4 + 2 + 256 + 3
    assert smallest(replace(OLD, pretokenizer="bytes"), Counter(["low"]), keep_atoms=False) == 4 + 5


def test_unused_atoms_are_dropped_on_request():
    """With keep_atoms=False, a character that no word and no token contains is dropped."""
    found = volt.shrink(OLD, {"low": 1}, to=8, keep_atoms=False).vocabulary
    assert (found.tokens, found.merges) == (("l", "o", "w", "low"), OLD.merges[:2])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: volt.shrink(OLD, {"low": 1}, to=13),
            VocabularyError,
            "to is 13, but the vocabulary has 12 ids",
        ),
        (
            lambda: volt.shrink(OLD, {"low": 1}, to=8),
            VocabularyError,
            "at least 9 ids must remain: 4 special tokens, 5 atoms; give 9 or more, or pass keep_",
        ),
        (lambda: volt.shrink(OLD, {}, to=9), CorpusError, "no words"),
        (
            lambda: volt.shrink(OLD, volt.WordCounts.from_pairs({"a": 1}, normalizer="nfc"), to=9),
            CorpusError,
            "normalizer 'nfc', and the vocabulary has 'none'",
        ),
    ],
)
def test_errors_say_why_a_vocabulary_cannot_shrink(call, error, message):
    """Each error says what is wrong and what to do."""
    with pytest.raises(error, match=message):
        call()
