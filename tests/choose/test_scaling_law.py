"""Laws of the size that a language model deserves, and of its operations per byte of text."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.merges import LINES, word_counts

from volt import LanguageModel, WordCounts, learn_bpe, search
from volt.choose.report import as_data
from volt.count.corpus_statistics import text_bytes
from volt.errors import ArgumentError, ConfigError
from volt.text.pretokenizer import PreTokenizer

CANDIDATES = learn_bpe(dict.fromkeys(" ".join(LINES).split(), 3), 60)
LOW = CANDIDATES.n_atoms
HIGH = CANDIDATES.n_tokens


def model_of(size):
    """Return a model that deserves about this size."""
    return LanguageModel(33e6, max(1, 3_145_728 // size))


@pytest.mark.parametrize(
    ("params", "width", "published"),
    [(33e6, 512, 6_144), (2.87e9, 3_200, 43_000), (70e9, 8_192, 216_000)],
)
def test_sizes_agree_with_the_paper(params, width, published):
    """`LanguageModel.size` is within a tenth of the sizes that the paper gives for three models."""
    assert LanguageModel(params, width).size == pytest.approx(published, rel=0.1)


@given(st.floats(1e6, 1e13), st.integers(1, 32_768))
@settings(deadline=None, max_examples=examples(40))
def test_sizes_follow_the_law(params, width):
    """`LanguageModel.size` takes at most the law's parameters, and one more token would take more.

    A model of ten times the parameters deserves 10^0.8354 as many; a double width, half the size.
    """
    model = LanguageModel(params, width)
    n_v = model.vocabulary_params
    size = model.size
    assert size == 1 or size * width <= n_v * (1 + 1e-12)
    assert (size + 1) * width > n_v * (1 - 1e-12)
    assert LanguageModel(10 * params, width).vocabulary_params / n_v == pytest.approx(10**0.8354)
    assert LanguageModel(params, 2 * width).size in (max(1, size // 2), size // 2 + 1)


def test_impossible_models_are_refused():
    """`LanguageModel` raises an error for parameters or a width that are not positive, finite
    numbers.
    """
    for params in (0, -1.0, math.nan, math.inf, 10**400, "1e9", None, True):
        with pytest.raises((ConfigError, ArgumentError), match=r"^params is"):
            LanguageModel(params, 512)
    for width in (0, -3, 2.5, 10**9 + 1, 10**400, math.nan, math.inf, "512", None):
        with pytest.raises((ConfigError, ArgumentError), match=r"^width is"):
            LanguageModel(1e9, width)
    assert LanguageModel(1, 10**9).size == 1


def test_the_rule_needs_a_model():
    """The rule `scaling` without a model raises an error that shows how to pass one.

    Other searches without a model have no pick of `scaling`."""
    with pytest.raises(ConfigError, match=r"model=volt\.LanguageModel\("):
        search(CANDIDATES, select="scaling")
    assert "scaling" not in search(CANDIDATES).picks
    with pytest.raises(ArgumentError, match="model is 1000"):
        search(CANDIDATES, model=1000)


def test_the_rule_picks_the_size_that_the_model_deserves():
    """`scaling` picks and measures the model's size, whatever sizes are searched."""
    model = model_of(LOW + 20)
    assert LOW < model.size < HIGH
    result = search(CANDIDATES, sizes=[LOW, HIGH], select="scaling", model=model)
    assert result.best.size == result.pick.size == model.size
    assert model.size in [step.size for step in result.steps]
    assert not result.pick.on_edge
    assert f"deserve {model.size:,} tokens" in result.pick.why
    assert f"|{model.signature}|" in result.signature
    other = search(CANDIDATES, sizes=[LOW, HIGH], model=model)
    assert other.picks["scaling"] == result.pick


@pytest.mark.parametrize(
    ("model", "size"),
    [
        (LanguageModel(70e9, 8_192), HIGH),
        (model_of(HIGH + 1), HIGH),
        (model_of(HIGH), HIGH),
        (model_of(LOW), LOW),
        (model_of(LOW - 1), LOW),
        (LanguageModel(1e6, 100_000), LOW),
    ],
)
def test_a_size_out_of_reach_is_limited(model, size):
    """If the model's size is out of reach, `scaling` picks the atoms, or "at least" the largest
    size.
    """
    for select in ("scaling", "tokens"):
        pick = search(CANDIDATES, select=select, model=model).picks["scaling"]
        assert pick.size == size
        assert pick.at_least == (model.size > HIGH)
        assert f"{model.size:,} tokens" in pick.why
        assert ("fewer than" in pick.why) == (model.size < LOW)


@pytest.mark.parametrize("pretokenizer", ["whitespace", "unicode", "metaspace", "gpt2", "bytes"])
@given(lines=st.lists(st.text("ab é一😀.1", max_size=9)))
@settings(deadline=None, max_examples=examples(12))
def test_bytes_of_words_are_bytes_of_the_text(pretokenizer, lines):
    """`text_bytes` equals the bytes of the text, with one for each line end that splitting
    drops.
    """
    lines = [" ".join(line.split()) for line in lines]
    pairs = []
    for line in lines:
        pairs += [(word, 1) for word in PreTokenizer(pretokenizer).split(line)]
    n_ends = 0 if pretokenizer in ("gpt2", "bytes") else sum(map(bool, lines))
    counts = WordCounts.from_pairs(pairs, pretokenizer=pretokenizer)
    assert text_bytes(counts) == len("".join(lines).encode()) + n_ends


@given(word_counts())
@settings(deadline=None, max_examples=5)
def test_each_size_has_its_cost(words):
    """Each size in the report's data has its pieces per byte, and 2 (N + V d) operations per
    piece.
    """
    candidates = learn_bpe(words, 30, min_pair_count=1)
    if not candidates.n_merges:
        return
    data = as_data(search(candidates, model=LanguageModel(1e6, 64)))
    n_bytes = sum((len(word.encode()) + 1) * count for word, count in words.items())
    for step in data["steps"]:
        assert step["tokens_per_byte"] * n_bytes == pytest.approx(step["n_pieces"])
        flops = 2 * (1e6 + step["size"] * 64) * step["tokens_per_byte"]
        assert step["serving_flops_per_byte"] == pytest.approx(flops)
    assert data["best"] in data["steps"]
    for step in as_data(search(candidates))["steps"]:
        assert step["serving_flops_per_byte"] is None
