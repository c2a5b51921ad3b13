"""Laws of `with_special`: pieces keep their ids, new tokens get the requested ids, conflicts are
refused.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

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
@settings(max_examples=examples(60))
def test_ids_stay_and_new_tokens_get_the_requested_ids(old, users, roles, numbers):
    """`with_special` keeps every id. A new token gets the requested id, or one after all others.
    User tokens and roles are added, and all other tokens keep their counts.
    """
    requested = {}
    for token, number in zip(users, numbers, strict=False):
        requested[token] = None if token in old.ids else number
    result = with_special(old, requested, **roles)
    expected = [*old.ids.items(), *requested.items()]
    assert all(result.ids[token] == number for token, number in expected if number is not None)
    first = max([len(old), *(number + 1 for number in requested.values() if number)])
    new = {*roles.values()} - {*old.ids, *requested}
    assert all(result.ids[token] >= first for token in new)
    assert {*result.special.user} == {*old.special.user, *requested}
    assert result.special.roles == {**old.special.roles, **roles}
    counts = counts_of(old)
    for token in {*requested, *roles.values()} & counts.keys():
        del counts[token]
    assert counts_of(result) == counts
    assert (result is old) == (not requested and not roles)


def counts_of(vocabulary):
    return dict(zip(vocabulary.tokens, vocabulary.counts or [0] * vocabulary.size, strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {"special": {"<n>": 0}},
        {"eos": {"<n>": 0}},
        {"special": {"<n>": 0}, "eos": "<n>"},
        {"special": ["<n>"], "eos": {"<n>": 0}},
        {"special": {"<n>": 0}, "bos": {"<n>": 0}, "eos": {"<n>": None}},
    ],
)
def test_id_0_is_an_id(options):
    """Any argument can request the unused id 0. Then a second token cannot have the id 0, and the
    token cannot have another id.
    """
    old = replace(PLAIN, special=NONE, order=("", *PLAIN.tokens))
    found = with_special(old, **options)
    assert found.pieces == ("<n>", *PLAIN.tokens)
    for other, message in (
        ({"<m>": 0}, "the id 0 of '<m>' belongs to '<n>'"),
        ({"<n>": 5}, "the ids? 0 "),
    ):
        with pytest.raises(ConfigError, match=message):
            with_special(old, **{**options, "pad": other})
        with pytest.raises(ConfigError, match=message.replace("ids? 0 ", "id 0 already")):
            with_special(found, pad=other)


def test_added_tokens_are_saved(tmp_path):
    """A vocabulary with added tokens is equal after saving and loading, and its fingerprint depends
    on these tokens.
    """
    found = with_special(HELD, {"<n>": 9, "<t>": None}, eos="<n>", bos="<u>")
    found.save(tmp_path / "a.volt")
    again = Vocabulary.load(tmp_path / "a.volt")
    assert again == found
    assert again.fingerprint == found.fingerprint != HELD.fingerprint
    assert found.pieces == ("l", "", "o", "<b>", "<u>", "lo", "<c>", "<t>", "", "<n>")
    kinds = "token unused token control user token control user unused user"
    assert " ".join(found.kinds) == kinds


def test_tokens_with_a_role_are_not_found_in_text():
    """A token that gets a role does not become a user token."""
    found = with_special(HELD, eos="<n>", pad="<c>")
    assert found.special.user == ("<u>",)
    assert [found.kinds[found.ids[token]] for token in ("<n>", "<c>")] == ["eos", "pad"]


def test_user_tokens_may_need_the_end_of_words():
    """If "</w>" ends words, the first user token adds the token "</w>", with the last id."""
    old = Vocabulary(merges=(), tokens=("a", "a</w>"))
    assert with_special(old, ["<u>"]).pieces == (*old.pieces, "<u>", "</w>")


@pytest.mark.parametrize(
    ("options", "message"),
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
def test_conflicting_ids_are_refused(options, message):
    """If a new token requests an id that is taken, the error names the token that has it, and unused
    ids. Other contradictory requests are refused, too."""
    with pytest.raises(ConfigError) as caught:
        with_special(HELD, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"special": "<n>"}, {"special": 5}, {"eos": 5}, {"special": {"<n>": "x"}}]
)
def test_other_types_are_refused(options):
    """A string instead of a list, a number instead of a token, and a string instead of an id raise
    ArgumentError.
    """
    with pytest.raises(ArgumentError):
        with_special(HELD, **options)
