"""A small causal Transformer: the ids before each place → scores of the id that stands there.

Pre-norm layers (Xiong et al. 2020), positions by rotation (experiments/nmt/rotation.py), one table of embeddings
for input and output. Rows are padded on the right, where the causal mask hides padding. With w the width:

    x = √w · E[ids]        in each layer x ← x + attention(norm x), x ← x + inner(norm x)        scores = norm(x) Eᵀ

>>> model = LanguageModel(Shape(n_ids=10, width=16, inner=32, heads=2, layers=1, dropout=0.0))
>>> ids = torch.tensor([[2, 4, 5]])
>>> model(ids, torch.tensor([[True, True, False]])).shape
torch.Size([2, 10])
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from experiments.nmt.model import Shape
from experiments.nmt.rotation import rotated, rotations


class LanguageModel(nn.Module):
    """A stack of layers that look back.

    >>> sum(one.numel() for one in LanguageModel(Shape(n_ids=1000, width=128, inner=512, layers=2)).parameters())
    523776
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.table = nn.Embedding(shape.n_ids, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm, self.dropout = nn.LayerNorm(shape.width), nn.Dropout(shape.dropout)
        for weight in (one for one in self.parameters() if one.dim() > 1):
            nn.init.xavier_uniform_(weight)
        nn.init.normal_(self.table.weight, std=shape.width**-0.5)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Scores at the places of the mask, (n_places, n_ids).

        ids: (rows, n), what stands before each place
        mask: (rows, n), true where there is something to foretell
        """
        turns = rotations(torch.arange(ids.shape[1], device=ids.device), self.shape.width // self.shape.heads)
        x = self.dropout(self.table(ids) * math.sqrt(self.shape.width))
        for layer in self.layers:
            x = layer(x, turns)
        return self.norm(x)[mask] @ self.table.weight.T


class Layer(nn.Module):
    """x + attention(norm x), then x + inner(norm x)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, inner = shape.width, shape.inner
        self.heads = shape.heads
        self.seen, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.inner = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
        self.seen_norm, self.inner_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        """What the next layer gets, (rows, n, width)."""
        heads = self.seen(self.seen_norm(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = rotated(heads[0], turns), rotated(heads[1], turns), heads[2]
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.out(found.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.inner(self.inner_norm(x)))


def operations(shape: Shape, n_tokens: int, n_columns: int) -> float:
    """Floating-point operations of learning from so many tokens: 6 for each weight that a token meets, and attention.

    n_columns: how many places a token of these looks back at, at most
    The table of embeddings counts once, for the output (Kaplan et al. 2020, table 1 and section 2.1).

    >>> operations(Shape(n_ids=1000, width=128, inner=512, layers=2), n_tokens=1, n_columns=0)
    3127296.0
    """
    width = shape.width
    layer = 4 * width * width + 2 * width * shape.inner + 2 * n_columns * width
    return 6.0 * n_tokens * (shape.layers * layer + shape.n_ids * width)
