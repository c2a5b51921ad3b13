"""A small causal Transformer: ids up to each position → scores of every id at the next position.

It has pre-norm layers (Xiong et al. 2020), rotated positions (Su et al. 2021), and one embedding
table E for input and output. Rows are padded on the right, where the causal mask hides padding.
With w the width:

    x = √w · E[ids]
    in each layer: x ← x + attention(norm x), x ← x + inner(norm x)
    scores = norm(x) Eᵀ

If sines were added to the embeddings instead of rotating positions, models with small vocabularies
would lag behind for long.

>>> model = CausalTransformer(Shape(n_ids=10, width=16, inner=32, heads=2, layers=1, dropout=0.0))
>>> ids = torch.tensor([[2, 4, 5]])
>>> model(ids, torch.tensor([[True, True, False]])).shape
torch.Size([2, 10])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from volt.errors import missing

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F
except ImportError:
    raise missing("torch", extra="torch") from None


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a model.

    n_ids: the number of ids
    width: the length of the vector at each position
    inner: the width inside the feed-forward part of a layer
    heads: the number of attention heads, which divides the width
    layers: the number of layers
    dropout: the share of values that are dropped in training
    """

    n_ids: int
    width: int = 256
    inner: int = 512
    heads: int = 4
    layers: int = 3
    dropout: float = 0.1


class CausalTransformer(nn.Module):
    """A stack of layers, between the embedding of ids and the scores of ids.

    >>> model = CausalTransformer(Shape(n_ids=1000, width=128, inner=512, layers=2))
    >>> sum(weight.numel() for weight in model.parameters())
    523776
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.table = nn.Embedding(shape.n_ids, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        initialise(self)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the scores at the positions where the mask is true, (n_positions, n_ids).

        ids, mask: (n_rows, n_columns)
        """
        x, turns = embed(self, self.table, ids)
        for layer in self.layers:
            x = layer(x, turns)
        scores: Tensor = self.norm(x)[mask] @ self.table.weight.T
        return scores

    def operations(self, ids: Tensor, mask: Tensor) -> float:
        """Return the floating-point operations of learning from a batch, see `operations`."""
        return operations(self.shape, int(mask.sum()), ids.shape[1])


class Layer(nn.Module):
    """x + attention(norm x), then x + inner(norm x)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.projection = nn.Linear(width, 3 * width, bias=False)  # to query, key and value
        self.out = nn.Linear(width, width, bias=False)
        self.inner = nn.Sequential(
            nn.Linear(width, shape.inner), nn.GELU(), nn.Linear(shape.inner, width)
        )
        self.attention_norm = nn.LayerNorm(width)
        self.inner_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, turns: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the input of the next layer.

        x: (n_rows, n_columns, width)
        turns: the result of `rotations` for the columns
        mask: the columns to attend to, (n_rows, 1, 1, n_columns) bool; by default the earlier ones
        """
        query, key, value = self.project(x, turns)
        x = x + self.add(attend(query, key, value, mask=mask, is_causal=mask is None))
        return x + self.feed(x)

    def project(self, x: Tensor, turns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value, each (n_rows, heads, n_columns, width / heads)."""
        projected = self.projection(self.attention_norm(x)).unflatten(2, (3, self.heads, -1))
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        return rotate(query, turns), rotate(key, turns), value

    def add(self, attended: Tensor) -> Tensor:
        result: Tensor = self.dropout(self.out(attended))
        return result

    def feed(self, x: Tensor) -> Tensor:
        result: Tensor = self.dropout(self.inner(self.inner_norm(x)))
        return result


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Return softmax(Q Kᵀ / √d) V of all heads, (n_rows, n_columns, width).

    query, key, value: (n_rows, heads, n, width / heads); keys and values may be more than queries
    mask: the keys to attend to; by default all
    is_causal: whether to attend to no later position
    """
    attended = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=is_causal
    )
    return attended.transpose(1, 2).flatten(2)


def embed(model: Any, table: nn.Embedding, ids: Tensor, *, first: int = 0) -> tuple[Tensor, Tensor]:
    """Return the input of the first layer, and the result of `rotations` for the columns.

    first: the position of the first column
    """
    positions = torch.arange(first, first + ids.shape[1], device=ids.device)
    turns = rotations(positions, model.shape.width // model.shape.heads)
    return model.dropout(table(ids) * math.sqrt(model.shape.width)), turns


def initialise(model: Any) -> None:
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.xavier_uniform_(weight)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=model.shape.width**-0.5)


def rotations(positions: Tensor, width: int) -> Tensor:
    """Return the cosines and sines of the angles by which positions are rotated, (2, n, width / 2).

    Pair k of values is rotated by position / 10,000^(2k/width) radians.

    positions: (n,), counted from 0
    width: the width of an attention head

    >>> rotations(torch.tensor([0, 1]), 2)[:, 0].tolist()
    [[1.0], [0.0]]
    """
    exponents = torch.arange(0, width, 2, device=positions.device)
    rates = torch.exp(exponents * (-math.log(10_000) / width))
    angles = positions[..., None] * rates
    return torch.stack([angles.cos(), angles.sin()])


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Rotate each pair of values by the angle of its position.

    Pair k is value k of the first half and value k of the second half.

    x: (…, n, width)
    turns: the result of `rotations` for the n positions

    >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> turned = rotate(x, rotations(torch.tensor([0, 1]), 2))
    >>> torch.allclose(turned[1], torch.tensor([math.cos(1), math.sin(1)]))
    True
    """
    first, second = x.chunk(2, dim=-1)
    cosines, sines = turns.to(x.dtype)
    turned_first = first * cosines - second * sines
    turned_second = first * sines + second * cosines
    return torch.cat([turned_first, turned_second], dim=-1)


def operations(shape: Shape, n_tokens: int, n_columns: int) -> float:
    """Return the floating-point operations of learning from tokens (Kaplan et al. 2020).

    Each token takes 6 operations for each weight that it uses, and 6 · 2 · width · n_columns in the
    attention of each layer. The embedding table counts once, for the output (table 1, section 2.1).

    n_columns: the largest number of positions that a token attends to

    >>> operations(Shape(n_ids=1000, width=128, inner=512, layers=2), n_tokens=1, n_columns=0)
    3127296.0
    """
    width = shape.width
    layer = width * (4 * width + 2 * shape.inner + 2 * n_columns)
    return 6.0 * n_tokens * (shape.layers * layer + shape.n_ids * width)
