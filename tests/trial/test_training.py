"""Laws of `Trainer`: its scores are bits per character, and diverging weights are an error."""

import math
import random

import pytest

pytest.importorskip("torch", reason="trainings need torch")

from volt import Encoder
from volt.errors import ConfigError
from volt.trial.texts import read_pairs, read_texts, write_texts
from volt.trial.training import (
    MOST_TRANSLATED,
    Trainer,
    TrainingRecipe,
    results_so_far,
    translated,
    vocabulary_of,
)


@pytest.fixture
def texts(tmp_path):
    """Write the three texts of a made-up corpus."""
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"low lower {n * n} newest widest\n" for n in range(800)))
    return write_texts(read_texts([str(path)]), tmp_path / "texts")


def test_diverging_weights_are_an_error(texts):
    """If a reading is not a number, the training raises ConfigError, which proposes a lower
    `lr`.
    """
    recipe = TrainingRecipe(characters=2_000, lr=1e30, warmup=1)
    with pytest.raises(ConfigError, match="nan bits per character; give a lower lr"):
        list(results_so_far(texts, size=60, seed=1, recipe=recipe))


def test_bits_per_character_follow_from_the_ids(texts):
    """A model with zero weights needs log2(number of ids) bits for each id, ends of segments
    included.
    """
    vocabulary = vocabulary_of(texts.path("train"), 60)
    trainer = Trainer(texts, {"txt": vocabulary}, TrainingRecipe(), seed=1, device="cpu")
    for weight in trainer.mean.parameters():
        weight.data.zero_()
    text = texts.path("test").read_text()
    n_ids = sum(len(pieces) + 1 for pieces in Encoder(vocabulary).encode_lines(text.splitlines()))
    expected = n_ids * math.log2(len(vocabulary)) / len(text)
    assert trainer.measure_bits("test") == pytest.approx(expected, rel=1e-3)


WORDS = {"a": "ein", "two": "zwei", "dog": "Hund", "cat": "Katze", "runs": "läuft", "low": "tief"}


@pytest.fixture
def pairs(tmp_path):
    """Write the texts of pairs that differ in the order of words, each of 216 sentences often."""
    chance = random.Random(1)
    sentences = [chance.choices([*WORDS], k=3) for _ in range(700)]
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("".join(f"{' '.join(words)}\n" for words in sentences))
    translations = [" ".join(WORDS[word] for word in reversed(words)) for words in sentences]
    target.write_text("".join(f"{line}\n" for line in translations))
    return write_texts(read_pairs(str(source), str(target), report=str), tmp_path / "texts")


def test_a_translation_model_learns_to_translate(pairs):
    """After a short training on simple pairs, most translations of test are the references.

    The bits per character of the target are small then, and the result has the translations of the
    chosen pairs in order."""
    recipe = TrainingRecipe(
        characters=250_000,
        rows=32,
        width=32,
        inner=64,
        heads=2,
        layers=1,
        dropout=0.0,
        lr=0.01,
        warmup=20,
        readings=3,
        products="float32",
    )
    *_, result = results_so_far(pairs, size=36, source=24, seed=1, recipe=recipe)
    references = pairs.path("test").read_text().splitlines()
    chosen = [references[number] for number in translated(pairs)]
    hits = sum(map(str.__eq__, result["translations"], chosen))
    assert hits > 0.9 * len(chosen)
    assert result["test"][-1] < 0.2
    assert result["text_characters"]["train"] == len(pairs.path("train").read_text())


def test_translated_pairs_are_at_equal_distances(tmp_path):
    """`translated` returns at most 300 numbers of pairs, from 0, at equal distances."""
    lines = range(20 * 700)
    for name in ("low", "high"):
        (tmp_path / name).write_text("".join(f"{name} {line}\n" for line in lines))
    sides = (str(tmp_path / "low"), str(tmp_path / "high"))
    texts = write_texts(read_pairs(*sides, report=str), tmp_path / "texts")
    assert [*translated(texts)] == [*range(0, 700, 3)]
    assert len(translated(texts)) <= MOST_TRANSLATED
