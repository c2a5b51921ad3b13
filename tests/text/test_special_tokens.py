"""Laws of special tokens: hiding user tokens and showing them again, and which spellings are allowed."""

from __future__ import annotations

import polars as pl
import pytest
from drawn import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.errors import ConfigError
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, SpecialTokens

FEW = settings(deadline=None, max_examples=examples(100))
user_tokens = st.lists(st.text("ab<.é", min_size=1, max_size=4), unique=True, max_size=5).map(tuple)
texts = st.text(st.sampled_from("ab<.é▁ \n😀"), max_size=20)


def longest_matches(text: str, user: tuple[str, ...]) -> list[tuple[int, int]]:
    """From left to right, the longest user token that begins at each place not yet covered."""
    found, i = [], 0
    while i < len(text):
        length = max((len(token) for token in user if text.startswith(token, i)), default=0)
        found += [(i, i + length)] * bool(length)
        i += length or 1
    return found


@given(user_tokens, texts)
@FEW
def test_spans_are_the_longest_matches(user, text):
    """User tokens are found from left to right; of two that begin at one place, the longer."""
    assert SpecialTokens(user=user).spans(text) == longest_matches(text, user)


@given(user_tokens, texts)
@FEW
@example(("ab", "ab<"), "ab<")
def test_hiding_a_column_is_hiding_each_text(user, text):
    """hide on a Polars column is hide_text on each string: one private character for each match, the rest unchanged."""
    special = SpecialTokens(user=user)
    hidden = special.hide_text(text)
    assert pl.select(special.hide(pl.lit(text))).item() == hidden
    spans = longest_matches(text, user)
    assert sum(FIRST_HIDDEN <= ord(char) <= LAST_HIDDEN for char in hidden) == len(spans)
    assert len(hidden) == len(text) - sum(end - start - 1 for start, end in spans)


@given(user_tokens, texts)
@FEW
def test_reveal_undoes_hide(user, text):
    """Hidden tokens come back as they were; a text without them is left alone."""
    special = SpecialTokens(user=user)
    assert special.reveal(special.hide_text(text)) == text
    assert special.reveal(text) == text


def test_each_user_token_has_its_character():
    """Each of many user tokens has a private character of its own."""
    user = tuple(f"<u{number}>" for number in range(3_000))
    special = SpecialTokens(user=user)
    hidden = special.hide_text("".join(user))
    assert len(set(hidden)) == len(hidden) == len(user)
    assert special.reveal(hidden) == "".join(user)
    assert special.revealed(FIRST_HIDDEN + len(user)) is None
    assert special.revealed(ord("a")) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"unk": ""},
        {"unk": "a b"},
        {"bos": " <s>"},
        {"control": ("<a>", "<a>")},
        {"pad": "\n"},
        {"user": ("<a>",), "control": ("<a>",)},
        {"user": ("a", "a")},
        {"user": ("",)},
        {"user": ("a\tb",)},
        {"user": ("a\u3000b",)},
        {"user": (BYTE_TOKENS[65],)},
        {"user": tuple(map(str, range(5_000)))},
    ],
)
def test_impossible_tokens_are_refused(fields):
    """Empty tokens, white space, repetitions, byte tokens, and more than there are private characters for."""
    with pytest.raises(ConfigError):
        SpecialTokens(**fields)


def test_lone_surrogates_are_refused():
    """A special token that is no text cannot be saved, so it is refused."""
    with pytest.raises(ConfigError):
        SpecialTokens(user=("\ud800",))
