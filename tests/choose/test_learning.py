"""Laws of `learn_enough`: it learns as many merges as the rules need."""

from itertools import pairwise

from volt import Training, learn_bpe, learn_enough, search
from volt.choose.exact_curve import muv_search
from volt.choose.rules import ExactCurve

WORDS = {f"{a}{b}{c}": 1 for a in "klmnprst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}


def balanced(candidates):
    """Return the pick of `balanced`."""
    return ExactCurve(candidates, muv_search(candidates)).balanced()


def test_learning_continues_until_the_pick_is_decided(monkeypatch):
    """`learn_enough` stops early, but its candidates give `balanced` the pick that all merges give.

    With too few merges, the pick is smaller, and marked "at least"."""
    for name, value in (("learn.bpe.N_SURE", 3), ("learn.bpe.COMMON", 10**9)):
        monkeypatch.setattr(f"volt.{name}", value)
    for name, value in (("LEAST", 10), ("MEDIAN_COUNT", 12)):
        monkeypatch.setattr(f"volt.choose.rules.{name}", value)
    syllables = [a + b for a in "klmnprst" for b in "aeiou"]
    words = {first + second: 1 + i % 7 for i, (first, second) in enumerate(pairwise(syllables * 5))}
    whole = learn_bpe(words, 999, min_pair_count=1)
    grown = learn_enough(words, min_pair_count=1)
    assert 3 < grown.n_merges < whole.n_merges
    assert balanced(grown) == balanced(whole)
    short = balanced(learn_bpe(words, 3, min_pair_count=1))
    assert short.at_least
    assert short.size < balanced(whole).size


def test_too_many_merges_need_no_memory():
    """`learn_bpe` with a billion merges returns the few merges that there are.

    `Candidates.left` is the count of the best remaining pair."""
    words = {"low": 5, "lower": 2}
    assert learn_bpe(words, 10**9).n_merges == 5
    assert [learn_bpe(words, n).left for n in (10**9, 2, 0)] == [0, 2, 7]


def test_learning_depends_on_the_epochs():
    """`learn_enough` for a million epochs lets `trained` pick the atoms; fewer epochs would need
    more.
    """
    candidates = learn_enough(WORDS, training=Training(epochs=1e6))
    many = search(candidates, training=Training(epochs=1e6)).picks["trained"]
    assert many.size == candidates.n_atoms
    assert "fewer than the" in many.why
    assert search(candidates, training=Training(epochs=1e-3)).picks["trained"].at_least
