"""Laws of `Training` and of the rule `trained`, which picks the size that a text deserves."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

import volt
from volt import Training, WordCounts, learn_bpe, learn_enough, search
from volt.choose.training_law import MOST, OVERFITS, most_epochs
from volt.count.corpus_statistics import text_characters
from volt.errors import ArgumentError, ConfigError
from volt.text.pretokenizer import PreTokenizer

WORDS = {f"{a}{b}{c}": 9 for a in "klmnprst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
TEXT = "low lower lowest\n" * 9


def extended(n_merges=300):
    """Return candidates that extend a vocabulary of which the new text uses only a part."""
    old = search(learn_bpe({"zzyzx": 9, "qqqq": 9, **WORDS}, 150), select=60).vocabulary
    return volt.extend_bpe(old, WORDS, n_merges)


def picked(candidates, **length):
    """Return the pick of `trained`."""
    return search(candidates, training=Training(**length)).picks["trained"]


@given(st.integers(1, 10**12), st.floats(1e-3, 1e6))
@settings(deadline=None, max_examples=examples(40))
def test_sizes_follow_the_law(n_characters, epochs):
    """`Training.size` is 7 √(C/E) up to 8 epochs: unchanged for twice C and E, doubled for four
    times C.

    More epochs never give a larger size. `epochs` and `read` describe the same lengths.
    """
    training = Training(epochs=epochs)
    size = training.size(n_characters)
    assert 0 <= size <= MOST
    assert epochs > 4 or Training(epochs=2 * epochs).size(2 * n_characters) == size
    assert epochs > 8 or abs(training.size(4 * n_characters) - min(2 * size, MOST)) <= 2
    assert training.size(n_characters + 1) >= size
    assert abs(Training(read=epochs * n_characters).size(n_characters) - size) <= 1
    assert f"{MOST:,}" not in training.reason(n_characters) or size == MOST
    sizes = [Training(epochs=more).size(n_characters) for more in (1, 3, 10, 30)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("epochs", "size"), [(1, 700), (4, 350), (8, 247), (16, 44), (20, 25), (100, 25)]
)
def test_the_size_falls_with_the_epochs(epochs, size):
    """For 10,000 characters, `Training.size` is 7 √(C/E), less from 8 epochs on, constant from 20
    on.
    """
    assert Training(epochs=epochs).size(10_000) == size


@given(st.integers(1, 10**12))
def test_fewer_epochs_count_for_a_longer_text(n_characters):
    """`most_epochs` falls from 20 to 8 as texts get longer; further epochs do not change the size.

    From 2 million characters on, the size is 7 √(C/8) for any training of 8 epochs or more.
    """
    most = most_epochs(n_characters)
    assert 8 <= most_epochs(n_characters + 1) <= most <= 20
    sizes = {Training(epochs=most * factor).size(n_characters) for factor in (1, 1.5, 30)}
    assert len(sizes) == 1
    if n_characters >= 2_000_000:
        assert sizes == {Training(epochs=OVERFITS).size(n_characters)}
    assert most_epochs(200_000) == 20


def test_impossible_lengths_are_refused():
    """`Training` raises an error if a length is not positive, is too large, or is given twice."""
    for name, most in (("epochs", 10**6), ("read", 10**18)):
        for value in (0, -1, math.nan, math.inf, 10 * most, 10**400, "3", True):
            with pytest.raises((ConfigError, ArgumentError), match=f"^{name} is"):
                Training(**{name: value})
        assert Training(**{name: most}).size(10) <= 1
    with pytest.raises(ConfigError, match="epochs and read both give"):
        Training(epochs=1, read=5)


def test_a_number_is_not_a_training():
    """A number as `training` raises an error that shows how to pass a `Training`."""
    with pytest.raises(ArgumentError, match=r"training=volt\.Training\(epochs=10\)"):
        search(learn_bpe(WORDS, 9), training=10)


@pytest.mark.parametrize(
    ("pretokenizer", "expected"), [("whitespace", 21), ("metaspace", 22), ("bytes", 20)]
)
def test_characters_are_those_of_the_text(tmp_path, pretokenizer, expected):
    """`text_characters` counts the characters of the text, with a space or "▁" for each word."""
    (tmp_path / "text").write_text("größer  als 再见\nŁódź 👍\n")
    counts = volt.count_words(str(tmp_path / "text"), pretokenizer=pretokenizer)
    assert text_characters(counts) == expected


def test_the_pick_follows_the_text_and_its_epochs():
    """`trained` picks the same size for twice the text in twice the epochs, and more for fewer
    epochs.
    """
    counts = WordCounts.from_pairs(dict.fromkeys(WORDS, 2))
    result = search(learn_bpe(counts, 200), training=Training(epochs=4))
    size = result.picks["trained"].size
    assert size == Training(epochs=4).size(text_characters(counts))
    twice = learn_bpe(volt.mix({"a": counts, "b": counts}), 200)
    assert picked(twice, epochs=8).size == size
    more = picked(twice, epochs=5)
    assert not more.at_least
    assert abs(more.size - (2 * 4 / 5) ** 0.5 * size) <= 1


@pytest.mark.parametrize(
    ("epochs", "certainty", "advice"),
    [
        (0.5, "it is read less than once, where smaller sizes were up to 6 % better", "a trial"),
        (1, "half as long as epochs=N says", "a trial"),
        (
            None,
            "half as long as epochs=N says",
            "search again with epochs=N. Otherwise, compare sizes by a trial",
        ),
        (20, "the rule stops at 20 epochs for this text", "Compare sizes by a trial"),
        (
            21,
            "the rule stops at 20 epochs for this text",
            "an epoch N below 20, search again with epochs=N.",
        ),
    ],
)
def test_the_answer_names_the_risk_of_the_length(epochs, certainty, advice):
    """If `trained` is selected, the answer says what a wrong length costs, or how the length
    differs from those that were tried; and what to do next.
    """
    candidates = learn_bpe(WORDS, 200)
    answer = search(candidates, training=Training(epochs)).answer
    assert certainty in answer[2]
    assert ("half as long" in answer[2]) == (epochs in (1, None))
    assert advice in answer[3]
    assert search(candidates, training=Training(epochs), select="knee").answer[2:] == ("", "")


def test_joined_languages_need_fewer_tokens(monkeypatch):
    """If a text joins languages, and its size is far above the best one of such texts, the answer
    does not say that the size suits, but how to search again.
    """
    cyrillic = {word.translate(str.maketrans("aeioumnrst", "аеиоумнрст")): 9 for word in WORDS}
    result = search(learn_enough(WORDS | cyrillic), training=Training(8))
    assert "it joins languages" in result.answer[2]
    assert "select" not in result.answer[3]
    assert " tokens suit a training of 8 epochs" in result.answer[0]
    monkeypatch.setattr("volt.choose.search.JOINED", 50)
    assert result.pick.size > 100
    assert result.answer[0].endswith("probably too many for joined languages: use 50 (see next).")
    assert result.answer[3].startswith(
        "Search again with select='fixed:50', which a trial can check."
    )


@pytest.mark.parametrize(
    ("words", "length", "expected"),
    [
        ({"low": 200_000, "lower": 100_000}, {}, "Your text is like these."),
        ({"low": 9, "lower": 9}, {}, "it is shorter (90 characters)"),
        ({"low": 10**6, "lower": 9}, {}, "it is longer (4 million characters)"),
        ({"low": 10**5, "lower": 9}, {"epochs": 0.5}, "it is read less than once"),
        ({"low": 10**5, "lower": 9}, {"epochs": 9}, "it is read more than 8 times"),
        ({"ναι": 10**5, "να": 9}, {}, "its script, Greek, was not tried"),
        ({"нет": 10**5, "low": 9 * 10**4}, {}, "it joins languages"),
    ],
)
@pytest.mark.parametrize("pretokenizer", ["whitespace", "bytes"])
def test_the_answer_says_how_a_text_differs(pretokenizer, words, length, expected):
    """The answer compares length, epochs and script with the trainings behind the rule."""
    split = PreTokenizer(pretokenizer).split
    pairs = {split(f" {word}")[0]: count for word, count in words.items()}
    counts = WordCounts.from_pairs(pairs, pretokenizer=pretokenizer)
    evidence = search(learn_bpe(counts, 5), training=Training(**length)).answer[2]
    difference = evidence.partition("Your text ")[2]
    assert expected.removeprefix("Your text ") in difference
    assert ";" not in difference


@pytest.mark.parametrize(
    ("pretokenizer", "coverage"), [("whitespace", 1), ("whitespace", 0.9), ("bytes", 1)]
)
def test_a_pick_without_merges_is_explained(tmp_path, pretokenizer, coverage):
    """If the pick is the atoms, the answer says so, and what to do."""
    (tmp_path / "text").write_text(TEXT)
    counts = volt.count_words(str(tmp_path / "text"), pretokenizer=pretokenizer)
    candidates = learn_bpe(counts, 5, coverage=coverage)
    training = Training(epochs=30)
    result = search(candidates, training=training)
    n = candidates.n_atoms
    deserved = training.size(text_characters(candidates.counts))
    assert result.pick.why.endswith(f", and {deserved:,} tokens are fewer than the {n:,} atoms")
    assert result.answer[0].startswith("The rule gives no size for a training of ")
    atoms = (
        "characters or bytes."
        if pretokenizer == "bytes"
        else "characters (one that ends a word counts"
    )
    assert (
        f"it asks for {deserved:,} tokens, fewer than the {n:,} different {atoms}"
        in result.answer[0]
    )
    size = round(1.5 * n)
    assert result.answer[3].startswith(
        f"Search again with select='fixed:{size}', for longer tokens"
    )
    assert not result.vocabulary.merges
    assert search(candidates, select=n + 1).answer[3] == ""


def test_a_text_without_spaces_gets_one_advice():
    """If the pick is the atoms of a text without spaces, the answer names pre-tokenizer and size."""
    clause = "我地必須搵到佢地先"
    result = search(learn_bpe({clause: 3, clause[::-1]: 2}, 5), training=Training(epochs=30))
    size = round(1.5 * result.pick.size)
    advice = (
        f"Search again with pretokenizer='unicode' and select='fixed:{size}', for longer tokens."
    )
    assert result.answer[3] == advice


def test_an_extension_without_new_merges_is_explained():
    """If the pick for an extension is its smallest size, a warning says that no merge is added."""
    result = search(extended(), training=Training(epochs=1e6))
    assert result.pick.size == result.candidates.smallest
    assert f"trained adds no merge to the {result.pick.size:,} tokens" in result.warnings[-1]
    assert "without merges" not in "\n".join(result.warnings)


def test_an_extension_counts_only_used_tokens():
    """For an extension, `trained` counts only tokens that occur in the new text."""
    candidates = extended()
    pick = picked(candidates, epochs=12)
    deserved = Training(epochs=12).size(text_characters(candidates.counts))
    n_used = [(candidates.counts_at(size) > 0).sum() for size in (pick.size - 1, pick.size)]
    assert n_used[0] < deserved <= n_used[1]
    assert not pick.at_least


@pytest.mark.parametrize("kind", ["text", "few tokens deserved", "extension", "few merges"])
def test_sizes_for_other_epochs_equal_other_searches(kind):
    """The sizes for other epochs in the answer are those that searches for these epochs pick."""
    words = {word * (3 if kind == "text" else 1): 9 * n for word, n in WORDS.items()}

    def searched(epochs):
        training = Training(epochs)
        if kind == "extension":
            return search(extended(), training=training)
        if kind == "few merges":
            return search(learn_bpe(words, 20), training=training)
        return search(learn_enough(words, training=training), training=training)

    picks = {epochs: searched(epochs).picks["trained"] for epochs in (1, 5, 20)}
    for epochs in (0.5, 5, 100):
        lengths = searched(epochs).answer[1]
        if not lengths:
            assert len({pick.size for pick in picks.values()}) == 1
            continue
        for pick, text in zip(picks.values(), lengths.split(", "), strict=True):
            if kind != "few merges" or not pick.at_least:
                assert text.startswith(f"{pick.size:,} ")


def test_signatures_contain_the_length():
    """The signature has the length of the training, which the reason calls assumed if none was
    given.
    """
    assert Training(read=123456789).signature == "read:123456789"
    assert Training(epochs=2.88507620).signature != Training(epochs=2.88507621).signature
    candidates = learn_bpe(WORDS, 100)
    for training, signature in (
        (Training(2.5), "|epochs:2.5|"),
        (Training(read=99), "|read:99|"),
        (None, "|epochs:5|"),
    ):
        result = search(candidates, training=training)
        assert signature in result.signature
        assert ("assumed" in result.picks["trained"].why) == (training is None)
