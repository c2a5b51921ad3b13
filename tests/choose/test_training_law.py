"""Laws of the size that a text deserves in a training of some length."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import volt
from volt import Training, WordCounts, learn_bpe, learn_enough, search
from volt.choose.training_law import MOST
from volt.count.corpus_statistics import text_characters
from volt.errors import ArgumentError, ConfigError

FEW = settings(deadline=None, max_examples=examples(40))
texts_, epochs_ = st.integers(1, 10**12), st.floats(1e-3, 1e6)
WORDS = {f"{a}{b}{c}": 9 for a in "klmnprst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}


@given(texts_, epochs_)
@FEW
def test_sizes_follow_the_law(n_characters, epochs):
    """Twice the text and the epochs, up to 8, deserve the same size; four times the text, twice the
    size. More epochs never deserve more. `epochs` and `read` state one length.
    """
    size = Training(epochs=epochs).size(n_characters)
    assert epochs > 4 or Training(epochs=2 * epochs).size(2 * n_characters) == size
    assert abs(Training(epochs=epochs).size(4 * n_characters) - min(2 * size, MOST)) <= 2
    assert abs(Training(read=epochs * n_characters).size(n_characters) - size) <= 1
    assert 0 <= size <= MOST
    assert (
        str(MOST) not in Training(epochs=epochs).reason(n_characters).replace(",", "")
        or size == MOST
    )
    by_epochs = [Training(epochs=one).size(n_characters) for one in (1, 3, 10, 30)]
    assert all(before >= after for before, after in pairwise(by_epochs))


@pytest.mark.parametrize(
    ("epochs", "size"), [(1, 700), (4, 350), (8, 247), (16, 44), (20, 25), (100, 25)]
)
def test_sizes_of_a_short_text(epochs, size):
    """The sizes for 10,000 characters are 7 √(C/E), less from 8 epochs on, and constant from 20 on."""
    assert Training(epochs=epochs).size(10_000) == size


def test_impossible_lengths_are_refused():
    """An error names a length that is not positive and finite, is too large, or is given twice."""
    for value in (0, -1, math.nan, math.inf, 1e9, 10**400, "3", True):
        with pytest.raises((ConfigError, ArgumentError), match=r"^epochs is"):
            Training(epochs=value)  # type: ignore[arg-type]
    for value in (0, -1, math.nan, math.inf, 1e19, "3"):
        with pytest.raises((ConfigError, ArgumentError), match=r"^read is"):
            Training(read=value)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="epochs and read both give"):
        Training(epochs=1, read=5)
    assert (Training(epochs=10**6).size(1), Training(read=10**18).size(10)) == (0, 1)


@pytest.mark.parametrize(
    ("pretokenizer", "expected"), [("whitespace", 21), ("metaspace", 22), ("bytes", 20)]
)
def test_characters_are_those_of_the_text(tmp_path, pretokenizer, expected):
    """Every pre-tokenizer gives the characters of the text, with a space or "▁" for each word."""
    (tmp_path / "text").write_text("größer  als 再见\nŁódź 👍\n")
    counts = volt.count_words(str(tmp_path / "text"), pretokenizer=pretokenizer)
    assert text_characters(counts) == expected


def test_the_pick_follows_the_text_and_its_epochs():
    """Twice the text in twice the epochs deserves the same size; fewer epochs deserve a larger
    size.
    """
    counts = WordCounts.from_pairs(dict.fromkeys(WORDS, 2))
    one = search(learn_bpe(counts, 200), training=Training(epochs=4))
    twice = volt.mix({"a": counts, "b": counts})
    size = one.picks["trained"].size
    assert size == Training(epochs=4).size(text_characters(counts))
    assert search(learn_bpe(twice, 200), training=Training(epochs=8)).picks["trained"].size == size
    more = search(learn_bpe(twice, 200), training=Training(epochs=5)).picks["trained"]
    assert not more.at_least
    assert abs(more.size - (2 * 4 / 5) ** 0.5 * size) <= 1
    assert one.range[0] < size < one.range[1]


def test_a_warning_names_epochs_outside_the_tested_range():
    """The warning concerns the pick of `trained` only, and not the ends of the range."""
    candidates = learn_bpe(WORDS, 200)

    def is_unsure(epochs, **options):
        found = search(candidates, training=None if epochs is None else Training(epochs), **options)
        return any("trained is unsure about" in warning for warning in found.warnings)

    assert [is_unsure(epochs) for epochs in (0.99, 1, None, 20, 20.01)] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert not is_unsure(0.5, select="knee")


def test_warnings_name_the_risk_of_short_and_long_trainings():
    """Few epochs lose bits; more epochs than tested count as fewer."""
    candidates = learn_bpe(WORDS, 200)
    short, long = (
        search(candidates, training=Training(epochs)).warnings[0] for epochs in (0.5, 20.01)
    )
    assert (
        "unsure about 0.5 epochs: it was fitted to 1 to 20, and lost up to 6 % of the bits with fewer"
        in short
    )
    assert (
        "unsure about 20.01 epochs: it was fitted to 1 to 20, and counts more as 20, so its pick may be"
        in long
    )
    assert "fewer" not in long


@pytest.mark.parametrize(
    ("pretokenizer", "unit", "remedy"),
    [
        (
            "whitespace",
            "character",
            "Leave out rare characters with a coverage below 1, give more text",
        ),
        ("bytes", "byte", "Give more text"),
    ],
)
def test_a_pick_without_merges_is_explained(tmp_path, pretokenizer, unit, remedy):
    """The reasons, the answer and a warning say that no merge is made."""
    (tmp_path / "text").write_text("low lower lowest\n" * 9)
    candidates = learn_bpe(volt.count_words(str(tmp_path / "text"), pretokenizer=pretokenizer), 5)
    n, training, model = (
        candidates.n_atoms,
        Training(epochs=30),
        volt.LanguageModel(params=1, width=1),
    )
    result = search(candidates, training=training, model=model)
    computed = training.size(text_characters(candidates.counts))
    note = f"the {n:,} atoms; at {n:,} tokens no merge is made, so every token is one {unit}"
    assert result.pick.why.endswith(f", and {computed:,} tokens are fewer than {note}")
    assert result.answer[0].endswith(f"so every token is one {unit}.")
    assert {
        pick.why.endswith(f"one {unit}") == (pick.size == n) for pick in result.picks.values()
    } == {True}
    assert {"trained", "median500"} <= {
        rule for rule, pick in result.picks.items() if pick.size == n
    }
    warning = (
        f"trained picks the {n:,} atoms alone, without merges. {remedy}, or choose a larger size"
    )
    assert warning in result.warnings
    assert not any("unsure" in one for one in result.warnings)
    assert not result.vocabulary.merges
    assert not any("without merges" in one for one in search(candidates, select=n + 1).warnings)


def test_a_warning_does_not_advise_a_used_coverage(tmp_path):
    """If rare characters were left out already, the warning does not propose it."""
    (tmp_path / "text").write_text("low lower lowest\n" * 9)
    candidates = learn_bpe(volt.count_words(str(tmp_path / "text")), 5, coverage=0.9)
    [warning] = [
        one
        for one in search(candidates, training=Training(epochs=30)).warnings
        if "without merges" in one
    ]
    assert warning.endswith("without merges. Give more text, or choose a larger size")


def test_an_extension_without_new_merges_is_explained():
    """The reason says that no merge is added."""
    old = search(learn_bpe(WORDS, 150), select=60).vocabulary
    result = search(volt.extend_bpe(old, WORDS, 300), training=Training(epochs=30))
    assert result.pick.size == result.candidates.smallest
    assert result.pick.why.endswith(f"at {result.pick.size:,} tokens no merge is added")
    assert not any("without merges" in one for one in result.warnings)


@pytest.mark.parametrize("epochs", [0.01, 2, 5, 12, 20, 100])
def test_the_range_is_within_a_factor_of_the_computed_size(epochs):
    """The range is within a factor of 1.7, limited by the candidates; an empty range is not shown."""
    training, candidates = Training(epochs), learn_enough(WORDS)
    computed = training.size(text_characters(candidates.counts))
    result = search(candidates, training=training)
    low, high = result.range
    assert candidates.n_atoms <= low <= high <= candidates.n_tokens
    for size in {low, high}:
        is_limit = size in (candidates.n_atoms, candidates.n_tokens)
        assert computed / 1.7 - 1 < size < computed * 1.7 + 1 or (is_limit and low == high)
    assert ("about as good" in result.answer[1]) == (low < high)


@pytest.mark.parametrize(
    "kind", ["text", "more atoms than tokens deserved", "extension", "few merges"]
)
def test_sizes_for_other_epochs_equal_other_searches(kind):
    """The answer lists what searches for 1, 3, 10 and 30 epochs pick."""
    words = {word * (3 if kind == "text" else 1): 9 * n for word, n in WORDS.items()}
    old = search(learn_bpe({"zzyzx": 9, "qqqq": 9, **WORDS}, 150), select=60).vocabulary

    def searched(epochs):
        if kind == "extension":
            return search(volt.extend_bpe(old, words, 300), training=Training(epochs))
        if kind == "few merges":
            return search(learn_bpe(words, 20), training=Training(epochs))
        return search(learn_enough(words, training=Training(epochs)), training=Training(epochs))

    for result in map(searched, (0.5, 5, 100)):
        listed = result.answer[1].partition("epochs: ")[2].rstrip(".").split(", ")
        sizes = {1: searched(1), 3: searched(3), 10: searched(10), 30: searched(30)}
        for epochs, text in zip(sizes, listed, strict=True):
            pick = sizes[epochs].picks["trained"]
            assert text.endswith(f"({epochs})")
            assert text.startswith((f"{pick.size_text} ", f"{pick.size:,} ")) or (
                kind == "few merges" and pick.at_least
            )


def test_signatures_distinguish_lengths():
    """Signatures have up to 15 digits."""
    assert Training(read=123456789).signature == "read:123456789"
    assert Training(epochs=2.5).signature == "epochs:2.5"
    assert Training(epochs=2.88507620).signature != Training(epochs=2.88507621).signature


def test_the_length_is_in_the_signature():
    """The signature contains the length; an assumed length is called so in the reason."""
    candidates = learn_bpe(WORDS, 100)
    given, read, assumed = (
        search(candidates, training=one) for one in (Training(2), Training(read=99), None)
    )
    for result, text in ((given, "|epochs:2|"), (read, "|read:99|"), (assumed, "|epochs:5|")):
        assert text in result.signature
        assert ("assumed" in result.picks["trained"].why) == (result is assumed)


def test_an_extension_counts_only_used_tokens():
    """Old tokens that the new text lacks do not count towards the deserved size."""
    old = search(learn_bpe({"zzyzx": 9, "qqqq": 9, **WORDS}, 150), select=60).vocabulary
    candidates = volt.extend_bpe(old, dict.fromkeys(WORDS, 2), 200)
    training = Training(epochs=8)
    pick = search(candidates, training=training).picks["trained"]
    deserved = training.size(text_characters(candidates.counts))
    in_use = [int((candidates.counts_at(size) > 0).sum()) for size in (pick.size - 1, pick.size)]
    assert in_use[0] < deserved <= in_use[1]
    assert not pick.at_least
    assert (
        search(candidates, training=Training(epochs=1e6)).picks["trained"].size
        == candidates.smallest
    )


def test_a_number_is_not_a_training():
    """The error shows how to pass a training."""
    with pytest.raises(ArgumentError, match=r"training=volt\.Training\(epochs=10\)"):
        search(learn_bpe(WORDS, 9), training=10)  # type: ignore[arg-type]
