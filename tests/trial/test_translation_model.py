"""Laws of `TranslationTransformer`: scores depend on what masks allow, translations on scores."""

import pytest

torch = pytest.importorskip("torch", reason="the model needs torch")

from volt.trial.language_model import Shape  # noqa: E402
from volt.trial.translation_model import TranslationTransformer, translate  # noqa: E402

SHAPE = Shape(n_ids=20, width=16, inner=32, heads=2, layers=2)
EOS = 2


@pytest.fixture
def model():
    torch.manual_seed(3)
    return TranslationTransformer(SHAPE, n_source_ids=12).eval()


def padded(rows, value):
    """Return rows with two columns of padding on the right."""
    return torch.cat([rows, torch.full((len(rows), 2), value, dtype=rows.dtype)], dim=1)


def test_padding_and_later_ids_change_no_score(model):
    """Padding of either side changes no score; a target id changes no score before it."""
    source = torch.tensor([[4, 5, 6, 2], [7, 7, 3, 2]])
    target = torch.tensor([[2, 7, 8], [2, 19, 1]])
    everywhere = torch.ones_like(source, dtype=torch.bool)
    scored = everywhere[:, :3]
    scores = model(source, everywhere, target, scored)
    same = model(padded(source, 9), padded(everywhere, 0), padded(target, 9), padded(scored, 0))
    torch.testing.assert_close(same, scores)

    target[:, 2] = 11
    changed = model(source, everywhere, target, scored).view(2, 3, 20)
    torch.testing.assert_close(changed[:, :2], scores.view(2, 3, 20)[:, :2])
    assert not torch.allclose(changed[:, 2], scores.view(2, 3, 20)[:, 2])
    source[1, 0] = 8
    other = model(source, everywhere, target, scored).view(2, 3, 20)
    torch.testing.assert_close(other[0], changed[0])
    assert not torch.allclose(other[1, 0], changed[1, 0])


def test_each_id_of_a_translation_has_the_greatest_score(model):
    """`translate` returns the ids with the greatest scores, as computed without stored keys.

    A translation ends before EOS, or after `most` ids."""
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(3, 12, (40, 5), generator=generator)
    mask = torch.ones_like(source, dtype=torch.bool)
    mask[:, 4] = torch.arange(40) % 2 == 0
    rows = translate(model, source, mask, eos=EOS, most=12)
    lengths = [len(row) for row in rows]
    for n, row in enumerate(rows):
        ids = torch.tensor([[EOS, *row]])
        everywhere = torch.ones_like(ids, dtype=torch.bool)
        scores = model(source[n : n + 1], mask[n : n + 1], ids, everywhere)
        assert scores.argmax(-1).tolist()[: len(row)] == row
        if len(row) < 12:
            assert int(scores[-1].argmax()) == EOS
    assert max(lengths) <= 12
    assert min(lengths) < max(lengths)
