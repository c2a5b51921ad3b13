"""Laws of the size that a language model deserves, and of its operations per byte of text."""

from __future__ import annotations

import math

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from merges import LINES, word_counts

from volt import LanguageModel, WordCounts, learn_bpe, search
from volt.choose.report import as_data
from volt.count.corpus_statistics import text_bytes
from volt.errors import ArgumentError, ConfigError

FEW = settings(deadline=None, max_examples=examples(40))
CANDIDATES = learn_bpe(
    WordCounts.from_pairs([(word, 3) for line in LINES for word in line.split()]), 60
)
params_, widths_ = st.floats(1e6, 1e13), st.integers(1, 32_768)


def model_of(size):
    """Return a model that deserves about this size."""
    return LanguageModel(33e6, max(1, 3_145_728 // size))


@pytest.mark.parametrize(
    ("params", "width", "published"),
    [(33e6, 512, 6_144), (2.87e9, 3_200, 43_000), (70e9, 8_192, 216_000)],
)
def test_sizes_of_the_paper(params, width, published):
    """Sizes are within a tenth of the paper's for models of 33 M, 3 B and 70 B parameters."""
    assert LanguageModel(params, width).size == pytest.approx(published, rel=0.1)


@given(params_, widths_)
@FEW
def test_sizes_follow_the_law(params, width):
    """A size takes at most the law's parameters.

    A tenfold model deserves 10^0.8354 as many; a double width, half the size.
    """
    model = LanguageModel(params, width)
    n_v, size = model.vocabulary_params, model.size
    assert size == 1 or size * width <= n_v * (1 + 1e-12)
    assert (size + 1) * width > n_v * (1 - 1e-12)
    assert LanguageModel(10 * params, width).vocabulary_params / n_v == pytest.approx(10**0.8354)
    assert LanguageModel(params, 2 * width).size in (max(1, size // 2), size // 2 + 1)


def test_impossible_models_are_refused():
    """An error names parameters or a width that are not positive, finite numbers."""
    for params in (0, -1.0, math.nan, math.inf, 10**400, "1e9", None, True):
        with pytest.raises((ConfigError, ArgumentError), match=r"^params is"):
            LanguageModel(params, 512)
    for width in (0, -3, 2.5, 10**9 + 1, 10**400, math.nan, math.inf, "512", None):
        with pytest.raises((ConfigError, ArgumentError), match=r"^width is"):
            LanguageModel(1e9, width)
    assert LanguageModel(1, 10**9).size == 1


def test_the_rule_needs_a_model():
    """Without a model, the rule is an error that shows how to pass one, and there is no pick."""
    with pytest.raises(ConfigError, match=r"model=volt\.LanguageModel\("):
        search(CANDIDATES, select="scaling")
    assert "scaling" not in search(CANDIDATES).picks
    with pytest.raises(ArgumentError, match="model is 1000"):
        search(CANDIDATES, model=1000)  # type: ignore[arg-type]


def test_the_rule_picks_the_size_that_the_model_deserves():
    """Whatever sizes are searched, the deserved size is picked and measured."""
    sizes, low = [CANDIDATES.n_atoms, CANDIDATES.n_tokens], CANDIDATES.n_atoms
    model = model_of(low + 20)
    result = search(CANDIDATES, sizes=sizes, select="scaling", model=model)
    assert result.best.size == result.pick.size == model.size
    assert low < model.size < CANDIDATES.n_tokens
    assert model.size in [step.size for step in result.steps]
    assert not result.pick.on_edge
    assert f"deserve {model.size:,} tokens" in result.pick.why
    assert f"|{model.signature}|" in result.signature
    assert search(CANDIDATES, sizes=sizes, model=model).picks["scaling"] == result.pick


@pytest.mark.parametrize(
    ("model", "place", "at_least"),
    [
        (LanguageModel(70e9, 8_192), -1, True),
        (LanguageModel(1e6, 100_000), 0, False),
    ],
)
def test_a_size_out_of_reach_is_limited(model, place, at_least):
    """Above the candidates, the pick is the last size, "at least"; below them, it is the atoms."""
    for select in ("scaling", "tokens"):
        result = search(CANDIDATES, select=select, model=model)
        pick = result.picks["scaling"]
        assert pick.size == (CANDIDATES.n_atoms, CANDIDATES.n_tokens)[place]
        assert pick.at_least == at_least
        assert f"{model.size:,} tokens" in pick.why
        assert ("fewer than" in pick.why) != at_least


def test_the_first_and_last_sizes_are_ordinary_picks():
    """Only sizes beyond the smallest and the largest are called out of reach."""
    for least in (CANDIDATES.n_atoms, CANDIDATES.n_atoms - 1):
        model = model_of(least)
        assert model.size == least
        why = search(CANDIDATES, model=model).picks["scaling"].why
        assert ("fewer than" in why) == (least < CANDIDATES.n_atoms)
    for most in (CANDIDATES.n_tokens, CANDIDATES.n_tokens + 1):
        model = model_of(most)
        assert model.size == most
        assert search(CANDIDATES, model=model).picks["scaling"].at_least == (
            most > CANDIDATES.n_tokens
        )


# Tokens and operations per byte


@pytest.mark.parametrize("pretokenizer", ["whitespace", "unicode", "metaspace", "gpt2", "bytes"])
@given(
    lines=st.lists(
        st.text(st.sampled_from("ab é一😀.1"), max_size=9).map(lambda text: " ".join(text.split()))
    )
)
@settings(deadline=None, max_examples=examples(12))
def test_bytes_of_words_are_bytes_of_the_text(pretokenizer, lines):
    """Words have as many bytes as their lines, with one for each line end that the pre-tokenizer
    drops.
    """
    from volt.text.pretokenizer import PreTokenizer

    cut = PreTokenizer(pretokenizer)
    pairs = [(word, 1) for line in lines for word in cut.split(line)]
    ends = 0 if pretokenizer in ("gpt2", "bytes") else sum(map(bool, lines))
    counts = WordCounts.from_pairs(pairs, pretokenizer=cut)
    assert text_bytes(counts) == sum(len(line.encode()) for line in lines) + ends


@given(word_counts())
@settings(deadline=None, max_examples=5)
def test_each_size_has_its_cost(words):
    """Tokens per byte times bytes are the pieces; operations per byte are 2 (N + V d) times tokens
    per byte.
    """
    candidates = learn_bpe(words, 30, min_pair_count=1)
    if not candidates.n_merges:
        return
    model = LanguageModel(1e6, 64)
    data = as_data(search(candidates, model=model))
    n_bytes = sum((len(word.encode()) + 1) * count for word, count in words.items())
    for step in data["steps"]:
        assert step["tokens_per_byte"] * n_bytes == pytest.approx(step["n_pieces"])
        expected = 2 * (1e6 + step["size"] * 64) * step["tokens_per_byte"]
        assert step["serving_flops_per_byte"] == pytest.approx(expected)
        assert model.flops_per_byte(step["size"], step["tokens_per_byte"]) == pytest.approx(
            expected
        )
    assert data["best"] in data["steps"]
    assert all(
        step["serving_flops_per_byte"] is None for step in as_data(search(candidates))["steps"]
    )
