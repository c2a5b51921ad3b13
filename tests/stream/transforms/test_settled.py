"""What transforms become at validation and translation: nothing drawn, no line lost, and text again behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from volt.stream.transforms.case import Lower, Upper
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.filters import SkipBlank
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.noise import Typos
from volt.stream.transforms.subwords import Decode, Encode
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import LoadedFiles, Transform, deterministic, inverse, loaded
from volt.vocabulary import Vocabulary

LINES = ["The low lower newest\tDas low!", "", "low\t", "newest lowest low low"]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """A file with a vocabulary of two merges."""
    path = tmp_path / "tiny.volt"
    merges = (("l", "o"), ("lo", "w</w>"))
    Vocabulary(
        merges=merges,
        tokens=(*"Dadehilnorstuw!", *(f"{c}</w>" for c in "Dadehilnorstuw!"), "lo", "low</w>"),
    ).save(path)
    return path


def both(transform: Transform) -> list[Transform]:
    """It, and it with its files loaded."""
    return [transform, loaded(transform, LoadedFiles())]


def same_for_all(transforms: tuple[Transform, ...], lines: list[str] = LINES) -> list[str]:
    """What becomes of lines, each of which must stay, whatever chance says."""
    found = list[list[str]]()
    for seed in range(5):
        batch = Batch.of(lines)
        for step, transform in enumerate(transforms):
            batch = transform(batch, LineRng.of(seed, step))
        assert batch.origins.tolist() == list(range(len(lines)))
        found.append(batch.lines)
    assert found.count(found[0]) == len(found)
    return found[0]


def test_others_stay_in_order() -> None:
    """What draws nothing is as it was, in its place."""
    stay = (Lower(fields=(1,)), Tag("[BT]"))
    assert deterministic([stay[0], Typos(), stay[1], SkipBlank()]) == stay
    assert same_for_all(stay)[0].startswith("[BT] the low")


def test_encoding_without_dropout_and_back(vocabulary: Path) -> None:
    """Settled, the encoder gives what it gives without dropout; undone, the text is there again."""
    sampled = Encode(vocabulary, dropout=0.5)
    for one in both(sampled):
        assert deterministic([one]) == (Encode(vocabulary),)
        assert inverse([one]) == (Decode(vocabulary, None),)
    lines = ["low low\tthe low !", "nest\t", "", "low"]
    assert (
        same_for_all(deterministic([sampled]), lines)[0]
        == "low</w> low</w>\tt h e</w> low</w> !</w>"
    )
    assert same_for_all((*deterministic([sampled]), *inverse([sampled])), lines) == lines


def test_the_heaviest_variant_is_what_a_choice_becomes(vocabulary: Path) -> None:
    """Of several, the first; what it holds is settled in its turn, and undone from its last transform on."""
    heavy = Variant(2.0, (Typos(), Lower(), Encode(vocabulary, dropout=0.5)))
    choice = Choice((Variant(1.0, (Upper(),)), heavy, Variant(2.0)))
    for one in both(choice):
        assert same_for_all(deterministic([one]), ["LOW"]) == ["low</w>"]
        assert inverse([one]) == (Decode(vocabulary, None),)
    assert deterministic([Choice((Variant(1.0, (Typos(),)),))]) == ()
    two = Choice((Variant(1.0, (Tag("a"), Encode(vocabulary), Encode(vocabulary, (2,)))),))
    assert same_for_all(deterministic([two]), ["low\tlow"])[0].startswith("a</w> low</w>\t")
    assert [step.fields for step in inverse([two])] == [(2,), None]  # type: ignore[attr-defined]
