"""White space and GPT-2's pattern are defined once; other definitions agree with these."""

import polars as pl
import pytest

from volt.kernels import intrinsics, pretokenize
from volt.text.patterns.published import GPT2, GPT2_GROUPED
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN
from volt.text.white_space import SPLIT_CLASS, SPLIT_SPACE, WHITE_SPACE, shorten_class

CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
MADE = ("original", "grouped")


def _matched(pattern):
    """Return the characters that a pattern of Polars matches."""
    return "".join(pl.Series(CHARACTERS).filter(pl.Series(CHARACTERS).str.contains(f"^{pattern}$")))


def test_white_space_is_what_python_and_the_engine_call_so():
    r"""SPLIT_SPACE lists where `str.split()` splits, and WHITE_SPACE what the regex engine's \s
    matches.
    """
    assert "".join(character for character in CHARACTERS if not character.split()) == SPLIT_SPACE
    assert _matched(r"\s") == WHITE_SPACE
    assert (
        _matched(f"[{SPLIT_CLASS}]") == _matched(f"[{shorten_class(SPLIT_SPACE)}]") == SPLIT_SPACE
    )


def test_compiled_code_knows_the_same_white_space():
    """`is_white` of compiled code finds the white space beyond ASCII that SPLIT_SPACE lists."""
    white = [character for character in CHARACTERS[128:] if intrinsics.is_white(ord(character))]
    assert white == [character for character in SPLIT_SPACE if not character.isascii()]


def test_white_space_beyond_ascii_starts_with_the_bytes_that_the_loops_look_at():
    """White space beyond ASCII starts with byte 0xC2, or 0xE1 to 0xE3; a private character starts
    with 0xF4.
    """
    firsts = {character.encode()[0] for character in SPLIT_SPACE if not character.isascii()}
    assert firsts <= {0xC2, 0xE1, 0xE2, 0xE3}
    assert (chr(FIRST_HIDDEN).encode()[0], pretokenize.PRIVATE, chr(pretokenize.SPACE_CODE)) == (
        0xF4,
        FIRST_HIDDEN,
        "▁",
    )


@pytest.mark.parametrize("pattern", [GPT2, GPT2_GROUPED], ids=MADE)
def test_both_spellings_of_the_pattern_cut_alike(pattern):
    """GPT-2's pattern with look-ahead, and without for Polars, give equal words."""
    tokenizers = pytest.importorskip("tokenizers")
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    for text in ("It's  42 we'll!", "a\t\n b \u3000\u3000c", "they've 'd  ", "é e\u0301 中½"):
        words = [word.replace(" ", "▁") for word, _ in split.pre_tokenize_str(text)]
        assert words == PreTokenizer("gpt2").split(text)
