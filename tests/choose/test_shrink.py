"""Laws of shrinking a vocabulary: the same text, the ids of the map, so many ids, exact counts, and a greedy choice."""

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


def smallest(vocabulary: Vocabulary, words: Counter[str], **how: bool) -> int:
    """The fewest ids, as the error tells them that asks for more."""
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
def test_what_is_left_says_the_same(old, given_words, others, closed, keep_atoms, draw):
    """So many ids are left, in their order. Words whose pieces are left have them at the ids of the map; others are
    spelled the same. Counts are those of the words encoded by definition."""
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
def test_pieces_are_those_of_the_text(tmp_path, pretokenizer, marker, how):
    """Including a "</w>" after a user token, several byte tokens for a character, and one piece for fused unknowns."""
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
def test_one_token_less_is_the_one_that_adds_least(old, given_words):
    """Of all single tokens that may go, none adds fewer pieces, while all merges stay and no words are looked up."""
    old, words = replace(old, whole_words=False, tokens=_made(old)), Counter(given_words)
    if not set(old.tokens) - set(old.atoms):
        return
    found = volt.shrink(old, words, to=len(old.ids) - 1, keep_atoms=True)

    def n_pieces(dropped: str) -> int:
        less = replace(old, tokens=tuple(token for token in old.tokens if token != dropped))
        return sum(len(encoded(word, less)) for word in given_words)

    [dropped] = set(old.tokens) - set(found.vocabulary.tokens)
    assert n_pieces(dropped) == min(
        n_pieces(token) for token in old.tokens if token not in old.atoms
    )


def _made(vocabulary: Vocabulary) -> tuple[str, ...]:
    """The tokens that merges make, and all atoms."""
    return tuple(token for token in vocabulary.tokens if token not in vocabulary.unmade)


def test_what_others_are_made_of_becomes_scaffolding_or_stays():
    """A rare token in the middle of a common one is split back from then on; with `closed` another one goes."""
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
    """Where two merges make a token, what each of them joins becomes scaffolding; with `closed`, the token goes."""
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


def test_what_joins_in_fact_stays_where_ranks_belong_to_results():
    """By ranks, "abc" is joined of "ab" and "c" whatever its merge says, so "ab" is still made when it is dropped."""
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


def test_numbered_ids_close_their_holes():
    """Where ids are given one by one, what is left keeps its order and no id is unused."""
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


def test_special_tokens_and_the_bytes_of_the_alphabet_stay():
    """User, control and byte tokens are never dropped, nor the atoms of bytes, whatever is asked."""
    special = SpecialTokens(user=("<u>",), control=("<c>",))
    old = replace(OLD, special=special, byte_fallback=True)
    assert smallest(old, Counter(["low"]), keep_atoms=False) == 4 + 2 + 256 + 3
    assert smallest(replace(OLD, pretokenizer="bytes"), Counter(["low"]), keep_atoms=False) == 4 + 5


def test_atoms_that_the_corpus_lacks_go_if_asked():
    """With keep_atoms=False, a character that no word holds goes once nothing is made of it."""
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
def test_what_cannot_shrink_is_reported(call, error, message):
    """Each error says what was found and what to do."""
    with pytest.raises(error, match=message):
        call()
