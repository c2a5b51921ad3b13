"""A small Transformer that translates: arrays of a step → scores of the next piece at each place of the target.

Encoder and decoder of pre-norm layers (Vaswani et al. 2017; norm before each part, as Xiong et al. 2020 have it), with
positions by rotation (rotation.py), and one table of embeddings for source, target and output, as the languages share a
vocabulary.
What is padding is told by the masks of `volt.batches.collate`, so the source may be padded on either side: positions
count from the first id. The target must be padded on the right, where the causal mask hides its padding.

The formulas of a step, with E the table of embeddings and w its width:

    x = √w · E[ids]          h = decoder(prev_output_tokens, encoder(src_tokens))          scores = h Eᵀ

>>> model = Transformer(Shape(n_ids=10, width=16, inner=32, heads=2, layers=1, dropout=0.0))
>>> ids, mask = torch.tensor([[4, 5, 2]]), torch.tensor([[True, True, True]])
>>> model(ids, mask, ids, mask).shape
torch.Size([3, 10])
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from experiments.nmt.rotation import rotated, rotations


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a model is.

    n_ids: ids of the vocabulary
    width: of embeddings and layers
    inner: width of the hidden layer between attention and the next layer
    heads: of attention, which divide the width
    layers: of the encoder, and as many of the decoder
    dropout: the share of values that are dropped in training
    """

    n_ids: int
    width: int = 256
    inner: int = 512
    heads: int = 4
    layers: int = 3
    dropout: float = 0.1


class Attention(nn.Module):
    """softmax(Q Kᵀ / √d) V for each head; queries and what they look at may be of different lengths."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.dropout
        self.query, self.key, self.value, self.out = (nn.Linear(shape.width, shape.width) for _ in range(4))

    def forward(self, x: Tensor, seen: Tensor, mask: Tensor, turns: Tensor | None = None) -> Tensor:
        """What each place of x finds.

        x, seen: (rows, n, width) and (rows, m, width)
        mask: true where a place of x may look, (rows or 1, 1, n or 1, m)
        turns: by which x, which sees itself, is rotated, (2, rows or 1, 1, n, width / heads / 2)
        """
        query, key, value = self._split(self.query(x)), self._split(self.key(seen)), self._split(self.value(seen))
        if turns is not None:
            query, key = rotated(query, turns), rotated(key, turns)
        dropout = self.dropout if self.training else 0.0
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return self.out(found.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (rows, heads, n, width / heads)


class Layer(nn.Module):
    """x + attention(norm x), x + attention to the source if it is of the decoder, x + inner(norm x)."""

    def __init__(self, shape: Shape, *, sees_source: bool) -> None:
        super().__init__()
        width, inner = shape.width, shape.inner
        self.own, self.own_norm = Attention(shape), nn.LayerNorm(width)
        if sees_source:
            self.other, self.other_norm = Attention(shape), nn.LayerNorm(width)
        self.inner_norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, x: Tensor, mask: Tensor, turns: Tensor, source: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        """What the next layer gets; source and its mask are for a layer of the decoder."""
        normed = self.own_norm(x)
        x = x + self.dropout(self.own(normed, normed, mask, turns))
        if source is not None and src_mask is not None:
            x = x + self.dropout(self.other(self.other_norm(x), source, src_mask))
        return x + self.dropout(self.inner(self.inner_norm(x)))


class Transformer(nn.Module):
    """An encoder and a decoder.

    >>> sum(one.numel() for one in Transformer(Shape(n_ids=2000)).parameters())
    4466688
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.table = nn.Embedding(shape.n_ids, shape.width)
        self.encoder = nn.ModuleList(Layer(shape, sees_source=False) for _ in range(shape.layers))
        self.decoder = nn.ModuleList(Layer(shape, sees_source=True) for _ in range(shape.layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        for weight in (one for one in self.parameters() if one.dim() > 1):
            nn.init.xavier_uniform_(weight)
        nn.init.normal_(self.table.weight, std=shape.width**-0.5)

    def forward(self, src_tokens: Tensor, src_mask: Tensor, prev_output_tokens: Tensor, tgt_mask: Tensor) -> Tensor:
        """Scores of every id at the places of the target that are no padding, (n_tokens, n_ids)."""
        states = self.decode(prev_output_tokens, self.encode(src_tokens, src_mask), src_mask)
        return self.scores(states[tgt_mask])

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        """What the decoder sees of the source, (rows, n, width)."""
        x, mask, turns = self._embedded(src_tokens), src_mask[:, None, None], self._turns(positions(src_mask))
        for layer in self.encoder:
            x = layer(x, mask, turns)
        return self.encoder_norm(x)

    def decode(self, prev_output_tokens: Tensor, source: Tensor, src_mask: Tensor) -> Tensor:
        """States before the next piece, (rows, n, width). A place sees those before it, and the whole source."""
        n = prev_output_tokens.shape[1]
        places = torch.arange(n, device=prev_output_tokens.device)
        mask, turns = (places[:, None] >= places)[None, None], self._turns(places[None])
        x = self._embedded(prev_output_tokens)
        for layer in self.decoder:
            x = layer(x, mask, turns, source, src_mask[:, None, None])
        return self.decoder_norm(x)

    def scores(self, states: Tensor) -> Tensor:
        """States → scores of every id."""
        return states @ self.table.weight.T

    def _embedded(self, ids: Tensor) -> Tensor:
        return self.dropout(self.table(ids) * math.sqrt(self.shape.width))

    def _turns(self, places: Tensor) -> Tensor:
        return rotations(places, self.shape.width // self.shape.heads)[:, :, None]


def positions(mask: Tensor) -> Tensor:
    """Positions that count from the first id of each row, (rows, n).

    >>> positions(torch.tensor([[False, True, True], [True, True, True]])).tolist()
    [[0, 0, 1], [0, 1, 2]]
    """
    return (mask.cumsum(1) - 1).clamp(min=0)


def smoothed_loss(scores: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The sum, in nats, of −log p of the target, of whose probability a share is spread over all ids.

    scores: (n_tokens, n_ids);  target: (n_tokens,)

    >>> smoothed_loss(torch.zeros(2, 4), torch.tensor([1, 3]), 0.1).item() == 2 * torch.tensor(4.0).log().item()
    True
    """
    return F.cross_entropy(scores.float(), target, label_smoothing=smoothing, reduction="sum")
