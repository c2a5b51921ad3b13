"""A pattern's automaton splits text as a backtracking engine does, whatever the pattern and the text."""

import inspect
import re
from functools import cache

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.patterns import any_texts, backtracker, cut, oracle, patterns, split_by

from volt.errors import ArgumentError, ConfigError, CorpusError
from volt.text.patterns import NAMED, Split, Splitter, named_splitter

HOSTILE = {
    "spaces": " " * 300 + "x",
    "spaces and line ends": "\n" + " " * 200 + "\n\r" + "\t " * 100 + "a",
    "capitals": "A" * 300 + "b" + "A" * 300,
    "quotes": "'" * 100 + "'l" * 100 + "'ll",
    "digits": "1" * 301 + " " + "१" * 7,
    "marks": "e" + "\u0301" * 200 + " \u0301" * 50,
    "signs": "!" * 200 + "\n" * 50 + "/" * 50 + "\r\n",
    "scripts": "漢字かなカナ한국어தமிழ்नमस्ते🙂👩‍💻" * 10,
    "bounds of UTF-8": "\x00\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff" * 3,
}
_oracle = cache(oracle)
_backtracker = cache(backtracker)


def _splitter(pattern):
    """Return the splitter of a pattern; reject patterns that match the empty text or have too many states."""
    try:
        return Splitter.of(Split(pattern))
    except ConfigError as error:
        assume("empty" not in str(error) and "states" not in str(error))
        raise


@settings(max_examples=examples(25))
@given(pattern=patterns, texts=st.lists(any_texts, min_size=3, max_size=6))
@example(pattern=r"\s++$|\s*[\r\n]|\s+(?!\S)|\s", texts=["\n   \n  x \n"])
@example(pattern="a*b", texts=["aaab", "b", "aa"])
@example(pattern="(?i:k)|[ab]{1,2}+a", texts=["K\u212ak", "aaabba"])
def test_any_pattern_cuts_as_the_regex_module_does(pattern, texts):
    """For any pattern, `Splitter.split` gives the matches of the module `regex`, and the text
    between them.
    """
    splitter = _splitter(pattern)
    find = oracle(pattern)
    for text in texts:
        assert splitter.split(text) == cut(find(text), text)


@settings(max_examples=examples(25))
@given(pattern=patterns, texts=st.lists(any_texts, min_size=3, max_size=6))
def test_any_pattern_cuts_as_a_naive_backtracker_does(pattern, texts):
    """For any pattern, `Splitter.split` gives the matches that a naive backtracking engine finds
    first.
    """
    splitter = _splitter(pattern)
    find = backtracker(pattern)
    for text in texts:
        assert splitter.split(text) == cut(find(text), text)


@settings(max_examples=examples(40))
@given(text=any_texts)
def test_named_patterns_cut_as_the_regex_module_does(text):
    """Every sequence of splits cuts as `regex` does, split after split."""
    for name in NAMED:
        assert named_splitter(name).split(text) == split_by(name, _oracle, text), name


@pytest.mark.parametrize("name", NAMED)
def test_named_patterns_split_hostile_texts(name):
    """Long runs of characters of each class, and the bounds of UTF-8, are split as by both oracles."""
    for kind, text in HOSTILE.items():
        words = named_splitter(name).split(text)
        assert words == split_by(name, _oracle, text), kind
        assert words == split_by(name, _backtracker, text[:120]) or len(text) > 120, kind


@settings(max_examples=examples(40))
@given(text=any_texts)
def test_both_spellings_of_openai_cut_alike(text):
    """GPT-2's pattern and its possessive spelling, which tiktoken has, give the same words."""
    assert named_splitter("gpt2").split(text) == named_splitter("r50k").split(text)


@settings(max_examples=examples(40))
@given(text=any_texts)
def test_words_are_those_of_tokenizers(text):
    """`Splitter.split` gives the words of `tokenizers`, whose engine is Oniguruma."""
    tokenizers = pytest.importorskip("tokenizers")
    for name in ("gpt2", "llama3", "qwen2", "tekken", "deepseek3"):
        steps = [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(split.pattern), "isolated")
            for split in NAMED[name]
        ]
        found = tokenizers.pre_tokenizers.Sequence(steps).pre_tokenize_str(text)
        assert named_splitter(name).split(text) == [word for word, _ in found], name


def test_declared_patterns_equal_those_of_tiktoken():
    """The patterns of r50k, cl100k and o200k are spelled as in tiktoken."""
    public = pytest.importorskip("tiktoken_ext.openai_public")
    assert NAMED["r50k"][0].pattern == public.r50k_pat_str
    for name, declare in (("cl100k", public.cl100k_base), ("o200k", public.o200k_base)):
        parts = re.findall(r'r"""(.*?)""",\n', inspect.getsource(declare))
        assert NAMED[name][0].pattern == "|".join(parts)


def test_a_lone_surrogate_is_refused():
    """`Splitter.split` refuses a lone surrogate, and names its position."""
    with pytest.raises(CorpusError, match=r"U\+D800 at character 1 "):
        named_splitter("gpt2").split("a\ud800")


def test_an_empty_class_matches_nothing():
    """A split by an empty class leaves the words unchanged."""
    splits = Split(r"[^\s\S]+"), Split("b+"), Split(r"[^\s\S]", from_end=True)
    assert Splitter.of(*splits).split("abc") == ["a", "b", "c"]


def test_an_unknown_name_is_refused_with_the_choices():
    """`named_splitter` refuses an unknown name, and lists the names of all patterns."""
    with pytest.raises(ConfigError, match="'gpt5'; choose from gpt2, r50k, cl100k"):
        named_splitter("gpt5")


def test_a_splitter_requires_splits():
    """`Splitter.of` refuses a text instead of a Split, and shows the correct call."""
    with pytest.raises(ArgumentError, match=r"did you mean Splitter.of\(Split\('a\+'\)\)"):
        Splitter.of("a+")
    with pytest.raises(ArgumentError, match="from_end is 'no'"):
        Split("a", from_end="no")
