"""Laws of `Trainer`: its scores are bits per character, and diverging weights are an error."""

import math

import pytest

pytest.importorskip("torch", reason="trainings need torch")

from volt import Encoder
from volt.errors import ConfigError
from volt.trial.texts import read_texts, write_texts
from volt.trial.training import Trainer, TrainingRecipe, results_so_far, vocabulary_of


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
    vocabulary = vocabulary_of(texts, 60)
    trainer = Trainer(texts, {"txt": vocabulary}, TrainingRecipe(), seed=1, device="cpu")
    for weight in trainer.mean.parameters():
        weight.data.zero_()
    text = texts.path("test").read_text()
    n_ids = sum(len(pieces) + 1 for pieces in Encoder(vocabulary).encode_lines(text.splitlines()))
    expected = n_ids * math.log2(len(vocabulary)) / len(text)
    assert trainer.measure_bits("test") == pytest.approx(expected, rel=1e-3)
