"""Laws of patterns in Oniguruma's spelling: `tokenizers` splits by them as VOLT does."""

import pytest
from hypothesis import example, given, settings
from support.drawn import examples
from support.patterns import any_texts

from volt.formats.huggingface.split_patterns import to_oniguruma
from volt.text.patterns import Split, Splitter

tokenizers = pytest.importorskip("tokenizers")


@pytest.mark.parametrize(
    "pattern",
    [r"\p{N}{1,3}+|a$|\pL{2}|[]\u0301!-#]", r"\s++$|[\U00000061b]{1,2}+\p{Lu}|\x{4E00}"],
)
@given(text=any_texts)
@example(text="12345 a\nb  \n")
@settings(deadline=None, max_examples=examples(40))
def test_patterns_cut_alike_in_the_engine_of_tokenizers(pattern, text):
    """`tokenizers` splits any text by `to_oniguruma(pattern)` as VOLT splits it by the pattern,
    with signs that Oniguruma spells otherwise.
    """
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(to_oniguruma(pattern)), "isolated")
    words = [word for word, _ in split.pre_tokenize_str(text)]
    assert words == Splitter.of(Split(pattern)).split(text)
