"""What transforms become at validation and translation: nothing drawn, no line lost, and text again behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from volt.stream.transforms.case import Lower, Upper
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.field_edits import KeepFields
from volt.stream.transforms.filters import Bitext, Length, Match, Ratio, Regex, SkipBlank, Where
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_edits import Documents, Repeat
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.noise import Punctuation, Typos
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.spm import SpmDecode, SpmEncode
from volt.stream.transforms.subwords import Decode, Encode
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import LoadedFiles, Transform, deterministic, inverse, loaded
from volt.stream.transforms.user_code import User
from volt.vocabulary import Vocabulary

STAY = {
    "append",
    "strip_eos",
    "lower",
    "upper",
    "title",
    "tag",
    "copy",
    "multiply",
    "keep_fields",
    "decode",
    "spm_decode",
    "join_pieces",
    "duplicate_mono",
    "lang_prefix_both",
    "deterministic_segmentation",
}
LINES = ["The low lower newest\tDas low!", "", "low\t", "newest lowest low low"]
NOISE_AND_FILTERS: list[Transform] = [
    Typos(rate=0.5), Punctuation(drop=0.5), Repeat(3), Documents(max_tokens=9), SkipBlank(), Bitext(),
    Match(pattern="a"), Regex(pattern="l"), Length(max=1), Ratio(max=1.0), Where("length(f1) > 9"),
]  # fmt: skip


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """A file with a vocabulary of two merges."""
    path = tmp_path / "tiny.volt"
    merges = (("l", "o"), ("lo", "w</w>"))
    Vocabulary(
        merges=merges, tokens=(*"Dadehilnorstuw!", *(f"{c}</w>" for c in "Dadehilnorstuw!"), "lo", "low</w>")
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


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_every_transform_says_what_it_becomes(name: str) -> None:
    """A transform has a method `deterministic`, or is known to draw nothing and to keep each line."""
    assert hasattr(TRANSFORMS[name], "deterministic") == (name not in STAY)


@pytest.mark.parametrize("transform", NOISE_AND_FILTERS, ids=lambda transform: transform.name)
def test_noise_and_filters_are_left_out(transform: Transform) -> None:
    """Where nothing is drawn and no line is lost, they are not there, and there is nothing to undo."""
    assert deterministic(both(transform)) == inverse(both(transform)) == ()


def test_others_stay_in_order() -> None:
    """What draws nothing is as it was, in its place."""
    stay = (Lower(fields=(1,)), Tag("[BT]"))
    assert deterministic([stay[0], Typos(), stay[1], SkipBlank()]) == stay
    assert same_for_all(stay)[0].startswith("[BT] the low")


def test_bitext_still_drops_the_other_fields() -> None:
    """With `only`, lines have as many fields as in training."""
    assert deterministic([Bitext(only=True)]) == (KeepFields((1, 2)),)


def test_encoding_without_dropout_and_back(vocabulary: Path) -> None:
    """Settled, the encoder gives what it gives without dropout; undone, the text is there again."""
    sampled = Encode(vocabulary, dropout=0.5)
    for one in both(sampled):
        assert deterministic([one]) == (Encode(vocabulary),)
        assert inverse([one]) == (Decode(vocabulary, None),)
    lines = ["low low\tthe low !", "nest\t", "", "low"]
    assert same_for_all(deterministic([sampled]), lines)[0] == "low</w> low</w>\tt h e</w> low</w> !</w>"
    assert same_for_all((*deterministic([sampled]), *inverse([sampled])), lines) == lines


def test_ids_of_one_field_are_undone(vocabulary: Path) -> None:
    """What is undone is what was done: the same fields, in the same form."""
    assert inverse([Encode(vocabulary, (2,), to="ids")]) == (Decode(vocabulary, (2,), "ids"),)


def test_sentencepiece_without_sampling(tmp_path: Path) -> None:
    """Settled, a model gives its best segmentation; undone, it decodes."""
    sampled = SpmEncode(tmp_path / "m.model", (1,), alpha=0.1, nbest=5)
    assert not deterministic([sampled])[0].sampled  # type: ignore[attr-defined]
    assert inverse([sampled]) == (SpmDecode(sampled.model, (1,)),)


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
    assert [step.fields for step in inverse([two])[0].variants[0].transforms] == [(2,), None]  # type: ignore[attr-defined]


def test_a_function_that_draws_is_left_out(tmp_path: Path) -> None:
    """The parameter `rng` says that it draws."""
    file = tmp_path / "mine.py"
    file.write_text("def plain(fields):\n    return fields\n\n\ndef drawn(fields, *, rng):\n    return fields\n")
    assert deterministic([User(file, "plain"), User(file, "drawn")]) == (User(file, "plain"),)
