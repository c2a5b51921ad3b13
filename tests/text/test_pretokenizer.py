"""Laws of pre-tokenization: words equal those of other programs, and join to the text."""

import re

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.slow_spans import find_word_spans
from support.texts import LOSSLESS, REGEXES, texts

from volt.errors import ConfigError
from volt.text.atoms import SPACE
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer


def test_unknown_names_are_refused_with_the_choices():
    """`PreTokenizer.parse` and `Normalizer.parse` refuse wrong names with the choices, and a wrong
    regex with its fault.
    """
    with pytest.raises(ConfigError, match="choose from none, lowercase, nfc"):
        Normalizer.parse("NFD")
    with pytest.raises(ConfigError, match="choose from none, nfc, nfkc"):
        Normalizer("nfd")
    with pytest.raises(
        ConfigError,
        match="whitespace, unicode, metaspace, metaspace-runs, metaspace-line, gpt2, bytes",
    ):
        PreTokenizer.parse("spaces")
    with pytest.raises(ConfigError, match="unclosed group"):
        PreTokenizer.parse("regex:(a")


@given(texts)
@settings(max_examples=examples(300))
def test_whitespace_is_str_split(text):
    """The default pre-tokenizer splits every text as str.split() does."""
    assert PreTokenizer().split(text) == text.split()


def decoded(pretokenizer, words):
    text = "".join(words).replace(SPACE, " ")
    return text[1:] if pretokenizer.dummy_prefix else text


@pytest.mark.parametrize("name", LOSSLESS)
@given(text=texts)
@settings(max_examples=examples(150))
def test_pretokens_join_back(name, text):
    """Pre-tokens of rules that keep spaces join to the text, with spaces for "▁"."""
    pretokenizer = PreTokenizer(name)
    words = pretokenizer.split(text)
    assert decoded(pretokenizer, words) == text.replace(SPACE, " ")
    assert all(word and " " not in word for word in words)


@pytest.mark.parametrize("name", ["whitespace", *LOSSLESS, *REGEXES])
@given(column=st.lists(texts, max_size=5))
@settings(max_examples=examples(40))
def test_a_column_is_split_as_its_strings(name, column):
    """`PreTokenizer.extract` splits a column as `split` splits each string."""
    pretokenizer = PreTokenizer(name)
    normalizer = Normalizer.parse("nfkc+lowercase")
    frame = pl.DataFrame({"text": column}, schema={"text": pl.String})
    lists = (
        frame.select(pretokenizer.extract(normalizer.apply(pl.col("text")))).to_series().to_list()
    )
    assert lists == [pretokenizer.split(normalizer.normalize(text)) for text in column]


@given(
    st.lists(
        st.sampled_from(
            [*" \t\n\r\x0b\x1c\x85\xa0\u2003\u3000'sredvltmaZé0١½²漢-_!.▁🙂", "'ll", "\u0301"]
        ),
        max_size=25,
    )
)
@example(["\t", "\t", "a"])
@settings(max_examples=examples(300))
def test_gpt2_is_split_as_by_tokenizers(parts):
    """The pre-tokenizer "gpt2" splits where ByteLevel of `tokenizers` splits."""
    pre_tokenizers = pytest.importorskip("tokenizers").pre_tokenizers
    text = "".join(parts)
    oracle = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    expected = [span for _, span in oracle.pre_tokenize_str(text.replace(SPACE, " "))]
    assert [
        (start, end) for _, start, end in find_word_spans(PreTokenizer("gpt2"), text)
    ] == expected


@given(st.text(alphabet=" ▁ab\t\u3000é", max_size=12))
def test_metaspace_is_split_as_by_sentencepiece(text):
    """The pre-tokenizer "metaspace" splits before each U+0020 and "▁", and nowhere else."""
    expected = [f"{SPACE}{part}" for part in text.replace(SPACE, " ").split(" ")] if text else []
    assert PreTokenizer("metaspace").split(text) == expected


@given(st.text(alphabet=" ▁ab\t\u3000é\n", max_size=12))
def test_runs_of_spaces_and_lines_stay_whole(text):
    """ "metaspace-runs" splits a line before each run of "▁", and "metaspace-line" does not split
    it.
    """
    line = SPACE + text.replace(" ", SPACE) if text else ""
    assert PreTokenizer("metaspace-runs").split(text) == re.findall(f"{SPACE}+[^{SPACE}]*", line)
    assert PreTokenizer("metaspace-line").split(text) == [line] * bool(line)


@pytest.mark.parametrize("name", ["whitespace", *LOSSLESS, *REGEXES])
def test_pretokenizer_names_round_trip(name):
    """The name of a parsed pre-tokenizer is the parsed name."""
    assert PreTokenizer.parse(name).name == name
