"""Laws of special tokens that are named beside a file: ids stay, new ones are as asked, what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.errors import ArgumentError, ConfigError
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import with_special

NONE = SpecialTokens(None, None, None, None)
PLAIN = Vocabulary((("l", "o"),), ("l", "o", "lo"), (3, 2, 1), marker="none")
HELD = Vocabulary(
    (("l", "o"),),
    ("l", "o", "lo", "<t>"),
    marker="none",
    whole_words=True,
    merging="ranks",
    special=SpecialTokens(None, "<b>", None, None, user=("<u>",), control=("<c>",)),
    order=("l", "", "o", "<b>", "<u>", "lo", "<c>", "<t>"),
)
names = st.sampled_from(["<t>", "<b>", "<u>", "<c>", "<n>", "<m>", "<k>"])


@given(
    st.sampled_from([PLAIN, HELD]),
    st.lists(names, unique=True, max_size=4),
    st.dictionaries(st.sampled_from(["unk", "bos", "eos", "pad"]), names),
    st.lists(st.integers(20, 30), unique=True, min_size=4, max_size=4),
)
@settings(deadline=None, max_examples=examples(60))
def test_ids_stay_and_new_ones_are_as_asked(
    old: Vocabulary, users: list[str], roles: dict[str, str], numbers: list[int]
) -> None:
    """Every piece keeps its id; a new token has the one asked for, or a free one behind all; users are found in text,
    roles are given; the tokens that are left keep their counts; a saved file is the same vocabulary."""
    asked = {
        token: None if token in old.ids else number
        for token, number in zip(users, numbers, strict=False)
    }
    found = with_special(old, asked, **roles)
    assert all(found.ids[piece] == number for piece, number in old.ids.items())
    assert all(found.ids[token] == number for token, number in asked.items() if number is not None)
    behind = [found.ids[token] for token in roles.values() if token not in {*old.ids, *asked}]
    first = max([len(old), *(number + 1 for number in asked.values() if number)])
    assert all(number >= first for number in behind)
    assert {*found.special.user} == {*old.special.user, *asked}
    assert {**old.special.roles, **roles} == found.special.roles
    kept = dict(zip(old.tokens, old.counts or [0] * old.size, strict=True))
    assert dict(zip(found.tokens, found.counts or [0] * found.size, strict=True)) == {
        token: count for token, count in kept.items() if token not in {*asked, *roles.values()}
    }
    assert (found is old) == (not asked and not roles)


@pytest.mark.parametrize(
    "asked",
    [
        {"special": {"<n>": 0}},
        {"eos": {"<n>": 0}},
        {"special": {"<n>": 0}, "eos": "<n>"},
        {"special": ["<n>"], "eos": {"<n>": 0}},
        {"special": {"<n>": 0}, "bos": {"<n>": 0}, "eos": {"<n>": None}},
    ],
)
def test_id_0_is_an_id(asked: dict[str, object]) -> None:
    """Whichever argument asks for it: the token gets the unused id 0, a second token does not, nor does it get 5."""
    old = replace(PLAIN, special=NONE, order=("", *PLAIN.tokens))
    found = with_special(old, **asked)  # type: ignore[arg-type]
    assert found.pieces == ("<n>", *PLAIN.tokens)
    for other, message in (
        ({"<m>": 0}, "the id 0 of '<m>' belongs to '<n>'"),
        ({"<n>": 5}, "the ids? 0 "),
    ):
        with pytest.raises(ConfigError, match=message):
            with_special(old, **{**asked, "pad": other})  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=message.replace("ids? 0 ", "id 0 already")):
            with_special(found, pad=other)


def test_what_is_named_survives_a_file(tmp_path: Path) -> None:
    """Saved and loaded the vocabulary is the same, and its fingerprint is another than the unnamed one's."""
    found = with_special(HELD, {"<n>": 9, "<t>": None}, eos="<n>", bos="<u>")
    found.save(tmp_path / "a.volt")
    again = Vocabulary.load(tmp_path / "a.volt")
    assert again == found
    assert again.fingerprint == found.fingerprint != HELD.fingerprint
    assert (found.pieces, found.kinds) == (
        ("l", "", "o", "<b>", "<u>", "lo", "<c>", "<t>", "", "<n>"),
        (
            "token",
            "unused",
            "token",
            "control",
            "user",
            "token",
            "control",
            "user",
            "unused",
            "user",
        ),
    )


def test_a_role_alone_leaves_text_alone() -> None:
    """A role makes no token found in text, be the token new or known."""
    found = with_special(HELD, eos="<n>", pad="<c>")
    assert found.special.user == ("<u>",)
    assert [found.kinds[found.ids[token]] for token in ("<n>", "<c>")] == ["eos", "pad"]


def test_words_whose_ends_are_marked_get_a_lone_end() -> None:
    """Where "</w>" ends words, it has the id behind all, as it ends those behind user tokens."""
    old = Vocabulary(merges=(), tokens=("a", "a</w>"))
    assert with_special(old, ["<u>"]).pieces == (*old.pieces, "<u>", "</w>")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"special": {"<n>": 2}},
            "the id 2 of '<n>' belongs to 'o'; choose an unused one, such as 1, or one from 8",
        ),
        ({"special": {"<u>": 9}}, "'<u>' has the id 4 already; remove the id 9"),
        ({"special": {"<n>": 9}, "eos": {"<n>": 8}}, "'<n>' is given the ids 9 and 8; remove one"),
        ({"special": {"<n>": 9, "<m>": 9}}, "the id 9 of '<m>' belongs to '<n>'"),
        ({"special": {"<n>": 1 << 40}}, "the id of '<n>' is 1099511627776; give 2,097,151 or less"),
        ({"special": {"<n>": -1}}, "the id of '<n>' is -1; give 0 or more"),
        (
            {"eos": {"<n>": 9, "<m>": 10}},
            "eos names 2 tokens; give a token, or a dict of one token with its id",
        ),
        ({"eos": "a b"}, "special token 'a b' is empty, or contains white space"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object], message: str) -> None:
    """An error says what has the id, and which ids are free."""
    with pytest.raises(ConfigError) as caught:
        with_special(HELD, **given)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "given", [{"special": "<n>"}, {"special": 5}, {"eos": 5}, {"special": {"<n>": "x"}}]
)
def test_other_types_are_refused(given: dict[str, object]) -> None:
    """A text for a list, a number for a token, a text for an id."""
    with pytest.raises(ArgumentError):
        with_special(HELD, **given)  # type: ignore[arg-type]
