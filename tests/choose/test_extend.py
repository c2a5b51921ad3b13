"""Laws of extending a vocabulary: ids stay, text without a new merge keeps its ids, and counts are exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import naive
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from merging_modes import LETTERS, encoded, vocabularies

import volt
from volt.choose.extend import extend_bpe
from volt.choose.vocabulary_at import vocabulary_at
from volt.errors import CandidateError, ConfigError, CorpusError
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

MANY, SOME = (
    settings(max_examples=examples(40), deadline=None),
    settings(max_examples=8, deadline=None),
)
word_counts = st.dictionaries(
    st.text(LETTERS + "x", min_size=1, max_size=9), st.integers(1, 5), min_size=1, max_size=7
)
OLD = Vocabulary((("l", "o"),), ("l", "o", "w</w>", "lo"))


def counts_of(vocabulary: Vocabulary, words: Mapping[str, int]) -> Counter[str]:
    """How often each token occurs, by definition."""
    pieces: Counter[str] = Counter()
    for word, count in words.items():
        pieces.update({piece: n * count for piece, n in Counter(encoded(word, vocabulary)).items()})
    return Counter({piece: n for piece, n in pieces.items() if piece in vocabulary.tokens})


@MANY
@given(vocabularies(longest=6), word_counts, st.booleans())
def test_ids_stay_and_counts_are_exact(
    old: Vocabulary, words: dict[str, int], new_atoms: bool
) -> None:
    """At every size, all pieces have their old ids, and the counts are those of the words encoded by definition."""
    candidates = extend_bpe(old, words, min_pair_count=1, new_atoms=new_atoms)
    assert candidates.merges[: len(old.merges)] == list(old.merges)
    for size in {
        candidates.smallest,
        (candidates.smallest + candidates.n_tokens) // 2,
        candidates.n_tokens,
    }:
        new = vocabulary_at(candidates, size)
        assert new.pieces[: len(old.pieces)] == old.pieces
        assert new.scaffolding == old.scaffolding
        assert {**old.ids, **new.ids} == new.ids
        assert +Counter(dict(zip(new.tokens, new.counts, strict=True))) == counts_of(new, words)


def test_steps_report_the_pieces_of_encoding() -> None:
    """A token that a pruned vocabulary only makes on the way counts as the pieces that encoding gives."""
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
def test_words_without_a_new_merge_are_cut_as_before(
    old: Vocabulary, words: dict[str, int], others: list[str]
) -> None:
    """A word has other pieces only if, merged as before, it holds neighbours that a new merge joins."""
    candidates = extend_bpe(old, words, min_pair_count=1, new_atoms=False)
    new = vocabulary_at(candidates, candidates.n_tokens)
    added = candidates.merges[len(old.merges) :]
    joined = {"".join(pair) for pair in added}
    for word in {*words, *others}:
        neighbours = list(pairwise(merged(word, old)))
        applies = any(
            pair in added or (old.merging == "ranks" and "".join(pair) in joined)
            for pair in neighbours
        )
        if not applies:
            assert encoded(word, new) == encoded(word, old)


def merged(word: str, vocabulary: Vocabulary) -> list[str]:
    """What a word's symbols are once they are merged, before any is split back."""
    if (
        vocabulary.whole_words
        and (whole := "".join(naive.atoms(word, vocabulary.marker))) in vocabulary.tokens
    ):
        return [whole]
    tokens = {**dict.fromkeys(vocabulary.tokens), **dict.fromkeys(map("".join, vocabulary.merges))}
    return encoded(
        word, _Merging(vocabulary.merges, tuple(tokens), vocabulary.marker, vocabulary.merging)
    )


class _Merging(NamedTuple):
    """What `encoded` looks at."""

    merges: tuple[tuple[str, str], ...]
    tokens: tuple[str, ...]
    marker: str
    merging: str
    whole_words: bool = False


@SOME
@given(word_counts, word_counts)
def test_extending_by_the_same_words_goes_on_learning(
    first: dict[str, int], second: dict[str, int]
) -> None:
    """Some merges learned from words, and the others learned behind them from the same words, are all of them."""
    whole = volt.learn_bpe(first, min_pair_count=1)
    for n in range(0, whole.n_merges + 1, 3):
        size = int(whole.sizes_after()[n])
        old = vocabulary_at(volt.learn_bpe(first, n, min_pair_count=1), size)
        again = extend_bpe(old, first, min_pair_count=1)
        assert again.merges == whole.merges
        assert again.counts_at(again.n_tokens).sum() == whole.counts_at(whole.n_tokens).sum()
    assert extend_bpe(old, second, 1).n_merges <= whole.n_merges + 1


@pytest.mark.parametrize(
    ("merging", "pieces"),
    [("pairs", {"abc": 9, "abcd": 3}), ("steps", {"abc": 5, "abcd": 3, "abca": 2, "bc": 2})],
)
def test_what_merges_make_anew_may_be_a_token_that_was_never_reached(merging, pieces):
    """A new merge that makes an old token gives it no second id, and merges behind the old token follow; one step at
    a time, a merge of a lower rank comes before the new merge's second place in a word."""
    merges = (("b", "c"), ("a", "b"), ("ab", "c"), ("abc", "d"), ("abc", "a"))
    old = Vocabulary(
        merges,
        ("a", "b", "c", "d", "bc", "ab", "abc", "abcd", "abca"),
        marker="none",
        merging=merging,
    )
    words = {"abc": 5, "abcd": 3, "abcabc": 2}
    new = vocabulary_at(extend_bpe(old, words, 1), old.size)
    assert (new.pieces, new.merges) == (old.pieces, (*merges, ("a", "bc")))
    assert (
        +Counter(dict(zip(new.tokens, new.counts, strict=True))) == pieces == counts_of(new, words)
    )


def test_an_old_token_that_a_new_one_completes_is_counted():
    """Where texts have ranks, bc and the new aa are the text that (b, caa) made: both join, and are split back."""
    merges = (("ca", "a"), ("b", "c"), ("c", "a"), ("a", "b"), ("b", "caa"))
    for kept in (("a", "b", "c"), ("a", "b", "c", "bcaa")):
        old = Vocabulary(merges, kept, marker="none", merging="ranks")
        words = {"bcaaa": 5, "aab": 2}
        new = vocabulary_at(candidates := extend_bpe(old, words, 1), candidates.n_tokens)
        assert ("a", "a") in candidates.merges
        assert +Counter(dict(zip(new.tokens, new.counts, strict=True))) == counts_of(new, words)


def test_numbered_ids_go_on_behind_the_last():
    """Where ids are given one by one, holes stay, and new tokens come behind the last id."""
    order = ("lo", "", "l", "o", "<s>", "w</w>", "</s>", "<unk>", "<pad>", "")
    old = replace(OLD, tokens=("lo", "l", "o", "w</w>"), order=order)
    result = volt.search(extend_bpe(old, {"low": 5, "slow": 2}), select=7)
    assert result.vocabulary.order == (*order, "s", "low</w>", "slow</w>")


def test_scaffolding_stays_and_new_tokens_may_be_made_of_it():
    """A token that is split back stays so, and a merge behind it is learned all the same."""
    old = Vocabulary((("l", "o"),), ("l", "o", "w</w>"))
    new = volt.search(extend_bpe(old, {"low": 5}), select=5).vocabulary
    assert (new.tokens, new.scaffolding) == (("l", "o", "w</w>", "low</w>"), ("lo",))


def test_characters_that_bytes_spell_are_no_new_atoms_unless_asked():
    """New atoms come by default, and for a vocabulary with byte tokens only on request; unasked ones part words."""
    with_bytes, words = replace(OLD, byte_fallback=True), {"ölö": 3}
    assert extend_bpe(OLD, words).tokens[3:5] == ("ö", "ö</w>")
    assert extend_bpe(with_bytes, words).tokens == ("l", "o", "w</w>", "lo")
    assert "ölö</w>" in extend_bpe(with_bytes, words, new_atoms=True).tokens
    assert extend_bpe(OLD, words, new_atoms=False).n_merges == 1


def test_user_tokens_are_not_merged_with_what_is_beside_them():
    """A user token parts words, as in the vocabulary that is extended, and is no new atom."""
    old = replace(OLD, special=SpecialTokens(user=("<u>",)))
    hidden = old.special.hide_text("lo<u>low")
    candidates = extend_bpe(old, {hidden: 5})
    assert candidates.tokens == ("l", "o", "w</w>", "lo", "low</w>")
    assert volt.Encoder(volt.search(candidates, select=5).vocabulary).encode("lo<u>low") == [
        "lo",
        "<u>",
        "low</w>",
    ]


def test_rules_count_new_types_alone():
    """`median500`, and with it `balanced`, picks the largest size whose median new type occurs 500 times."""
    words = {"low": 900, "wow": 800, "ow": 3, "lot": 2}
    candidates = extend_bpe(OLD, words)
    picks = volt.search(candidates).picks
    assert picks["median500"].size == picks["balanced"].size
    new = candidates.counts_at(picks["median500"].size)[candidates.smallest :]
    assert sorted(new[new > 0])[int((new > 0).sum()) // 2] >= 500


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: extend_bpe(OLD, {}), CorpusError, "no words"),
        (
            lambda: extend_bpe(OLD, volt.WordCounts.from_pairs({"a": 1}, pretokenizer="bytes")),
            CorpusError,
            "pretokenizer 'bytes', and the vocabulary has 'whitespace'; count with pretokenizer=vocabulary",
        ),
        (lambda: extend_bpe(OLD, {"low": 2}, -1), CandidateError, "n_merges"),
        (
            lambda: volt.search(extend_bpe(OLD, {"low": 2}), sizes=[3]),
            CandidateError,
            "the 4 tokens that are extended",
        ),
        (
            lambda: volt.search(extend_bpe(OLD, {"low": 2}), special=SpecialTokens()),
            ConfigError,
            "keeps its own; remove it",
        ),
        (
            lambda: extend_bpe(OLD, {"low": 2}).counts_at(3),
            CandidateError,
            r"give 4 \(the extended tokens\)",
        ),
    ],
)
def test_what_cannot_be_extended_is_reported(call, error, message):
    """Each error says what was found and what to do."""
    with pytest.raises(error, match=message):
        call()
