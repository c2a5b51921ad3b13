"""Laws of special tokens: user tokens are hidden and revealed, and only some spellings are allowed."""

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.errors import ConfigError
from volt.text.byte_alphabet import BYTE_TOKENS, to_characters
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, SpecialTokens, stand_ins, with_marks

FEW = settings(deadline=None, max_examples=examples(100))
user_tokens = st.lists(st.text("ab<.é", min_size=1, max_size=4), unique=True, max_size=5).map(tuple)
texts = st.text(st.sampled_from("ab<.é▁ \n😀"), max_size=20)


def revealed(special, text):
    """Undo `hide_text`."""
    return "".join(special.revealed(ord(char)) or char for char in text)


def longest_matches(text, user):
    """Return, from left to right, the longest user token at each place that is not covered yet."""
    spans = []
    start = 0
    while start < len(text):
        lengths = [len(token) for token in user if text.startswith(token, start)]
        if lengths:
            spans.append((start, start + max(lengths)))
        start += max(lengths, default=1)
    return spans


@given(user_tokens, texts)
@FEW
def test_spans_are_the_longest_matches(user, text):
    """`spans` finds user tokens from left to right; of two that begin at one character, the longer."""
    assert SpecialTokens(user=user).spans(text) == longest_matches(text, user)


@given(user_tokens, texts)
@FEW
@example(("ab", "ab<"), "ab<")
def test_hiding_a_column_is_hiding_each_text(user, text):
    """`hide` on a Polars column gives the text of `hide_text` for each string."""
    special = SpecialTokens(user=user)
    hidden = special.hide_text(text)
    assert pl.select(special.hide(pl.lit(text))).item() == hidden
    spans = longest_matches(text, user)
    assert sum(FIRST_HIDDEN <= ord(char) <= LAST_HIDDEN for char in hidden) == len(spans)
    assert len(hidden) == len(text) - sum(end - start - 1 for start, end in spans)


@given(user_tokens, texts)
@FEW
def test_hidden_tokens_are_revealed(user, text):
    """`revealed` restores the user tokens that `hide_text` hid; other text does not change."""
    special = SpecialTokens(user=user)
    assert revealed(special, special.hide_text(text)) == text
    assert revealed(special, text) == text


@pytest.mark.parametrize("first", [0x100000, 0x10BFFF, FIRST_HIDDEN])
def test_placeholders_differ_from_the_text_and_are_undone(first):
    """`put` replaces private characters by characters that the text lacks, and `restored` brings
    them back.
    """
    text = "".join(map(chr, range(first, FIRST_HIDDEN + 3))) + "é\U0010fffd"
    placeholders = stand_ins([text])
    [replaced] = placeholders.put([text])
    assert len(set(replaced)) == len(text)
    assert max(replaced) < chr(FIRST_HIDDEN)
    assert placeholders.restored([[replaced]]) == [[with_marks(text)]]
    in_bytes = [to_characters(char.encode()) for char in replaced]
    expected = [to_characters(char.encode()) for char in text]
    assert placeholders.restored([in_bytes], is_bytes=True) == [expected]


@pytest.mark.parametrize(
    "fields",
    [
        {"unk": ""},
        {"unk": "a b"},
        {"bos": " <s>"},
        {"pad": "\n"},
        {"user": ("a", "a")},
        {"user": ("",)},
        {"control": ("a\tb",)},
        {"control": ("a\u3000b",)},
        {"user": ("a\0b",)},
        {"user": (BYTE_TOKENS[65],)},
        {"user": ("x</w>",)},
        {"user": ("\ud800",)},
        {"control": ("<a>", "<a>")},
        {"user": ("<a>",), "control": ("<a>",)},
    ],
)
def test_impossible_tokens_are_refused(fields):
    """`SpecialTokens` refuses empty, spaced, repeated and unprintable tokens, byte tokens and ends
    of words.
    """
    with pytest.raises(ConfigError):
        SpecialTokens(**fields)
