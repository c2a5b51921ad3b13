"""Laws of `CausalTransformer`: scores depend on earlier ids only, and operations on its weights."""

import pytest

torch = pytest.importorskip("torch", reason="the model needs torch")

from volt.trial.language_model import CausalTransformer, Shape, operations  # noqa: E402

SHAPE = Shape(n_ids=20, width=16, inner=32, heads=2, layers=2)


def test_scores_do_not_depend_on_later_ids():
    """If an id changes, the model's scores at earlier positions stay, and later ones change."""
    model = CausalTransformer(SHAPE).eval()
    ids = torch.randint(20, (3, 8), generator=torch.Generator().manual_seed(1))
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    scores = model(ids, everywhere).view(3, 8, 20)
    ids[:, 5] = (ids[:, 5] + 1) % 20
    changed = model(ids, everywhere).view(3, 8, 20)
    assert torch.allclose(changed[:, :5], scores[:, :5])
    assert not torch.allclose(changed[:, 5:], scores[:, 5:])


def test_operations_are_six_for_each_weight():
    """`operations` are 6 per token for each weight of the layers' products and of the output."""
    sizes = [weight.numel() for weight in CausalTransformer(SHAPE).parameters() if weight.dim() > 1]
    assert operations(SHAPE, n_tokens=3, n_columns=0) == 3 * 6 * sum(sizes)
