"""A small Transformer that translates: arrays of a step → scores of the next piece at each place of the target.

Encoder and decoder have pre-norm layers (Vaswani et al. 2017; Xiong et al. 2020) and rotate positions, and share one
embedding table for source, target and output. Padding is named by the masks of `volt.batches.collate`, so the source
may be padded on either side; the target is padded on the right, where the causal mask hides padding. With w the width:

    x = √w · E[ids]          h = decoder(prev_output_tokens, encoder(src_tokens))          scores = h Eᵀ

>>> model = Transformer(Shape(n_ids=10, width=16, inner=32, heads=2, layers=1, dropout=0.0))
>>> ids, mask = torch.tensor([[4, 5, 2]]), torch.tensor([[True, True, True]])
>>> model(ids, mask, ids, mask).shape
torch.Size([3, 10])
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from volt.trial.language_model import Shape, initialise, rotate, rotations


class Attention(nn.Module):
    """softmax(Q Kᵀ / √d) V for each head; queries and keys may have different lengths."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.dropout
        self.query, self.key, self.value, self.out = (
            nn.Linear(shape.width, shape.width) for _ in range(4)
        )

    def forward(self, x: Tensor, seen: Tensor, mask: Tensor, turns: Tensor | None = None) -> Tensor:
        """Attend from x to seen.

        x, seen: (rows, n, width) and (rows, m, width)
        mask: true where a place of x may look, (rows or 1, 1, n or 1, m)
        turns: rotations of x in self-attention, (2, rows or 1, 1, n, width / heads / 2)
        """
        query, key, value = (
            self._split(self.query(x)),
            self._split(self.key(seen)),
            self._split(self.value(seen)),
        )
        if turns is not None:
            query, key = rotate(query, turns), rotate(key, turns)
        dropout = self.dropout if self.training else 0.0
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return self.out(found.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (rows, heads, n, width / heads)


class Layer(nn.Module):
    """x + attention(norm x), in a decoder x + attention to the source, then x + inner(norm x)."""

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
        self,
        x: Tensor,
        mask: Tensor,
        turns: Tensor,
        source: Tensor | None = None,
        src_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the input of the next layer; source and its mask are for a decoder."""
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
        initialise(self)

    def forward(
        self, src_tokens: Tensor, src_mask: Tensor, prev_output_tokens: Tensor, tgt_mask: Tensor
    ) -> Tensor:
        """Return the scores of every id at the places of the target without padding, (n_tokens, n_ids)."""
        states = self.decode(prev_output_tokens, self.encode(src_tokens, src_mask), src_mask)
        return self.scores(states[tgt_mask])

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        places = (src_mask.cumsum(1) - 1).clamp(min=0)  # count from the first id of each row
        x, mask, turns = self._embedded(src_tokens), src_mask[:, None, None], self._turns(places)
        for layer in self.encoder:
            x = layer(x, mask, turns)
        return self.encoder_norm(x)

    def decode(self, prev_output_tokens: Tensor, source: Tensor, src_mask: Tensor) -> Tensor:
        """Return the states before the next piece, (rows, n, width); a place sees earlier places and the source."""
        places = torch.arange(prev_output_tokens.shape[1], device=prev_output_tokens.device)
        mask, turns = (places[:, None] >= places)[None, None], self._turns(places[None])
        x = self._embedded(prev_output_tokens)
        for layer in self.decoder:
            x = layer(x, mask, turns, source, src_mask[:, None, None])
        return self.decoder_norm(x)

    def scores(self, states: Tensor) -> Tensor:
        return states @ self.table.weight.T

    def _embedded(self, ids: Tensor) -> Tensor:
        return self.dropout(self.table(ids) * math.sqrt(self.shape.width))

    def _turns(self, places: Tensor) -> Tensor:
        return rotations(places, self.shape.width // self.shape.heads)[:, :, None]


@torch.inference_mode()
def search(
    model: Transformer,
    src_tokens: Tensor,
    src_mask: Tensor,
    *,
    eos: int,
    pad: int,
    beam: int = 4,
    most: int = 200,
) -> list[list[int]]:
    """Return the best translation of each row by beam search, without EOS: the one with the greatest mean log p.

    src_tokens, src_mask: (rows, n);  beam: prefixes per translation;  most: pieces of a translation

    A finished prefix stays in the beam with its score, followed by padding alone. Each step computes the whole target
    anew, which is the plainest way and not the fastest.
    """
    rows, device = len(src_tokens), src_tokens.device
    source = model.encode(src_tokens, src_mask).repeat_interleave(beam, 0)
    mask = src_mask.repeat_interleave(beam, 0)
    prefixes = torch.full((rows * beam, 1), eos, device=device)
    sums = torch.full((rows, beam), -torch.inf, device=device)
    sums[:, 0] = 0.0  # the others are the same prefix
    ended = torch.zeros(rows * beam, dtype=torch.bool, device=device)
    for _ in range(most):
        logs = model.scores(model.decode(prefixes, source, mask)[:, -1]).log_softmax(-1)
        logs[:, pad] = -torch.inf
        logs[ended] = -torch.inf
        logs[ended, pad] = 0.0
        sums, chosen = (sums.reshape(-1, 1) + logs).reshape(rows, -1).topk(beam)
        before, pieces = chosen // logs.shape[1], chosen % logs.shape[1]
        kept = (before + torch.arange(rows, device=device)[:, None] * beam).reshape(-1)
        prefixes = torch.cat([prefixes[kept], pieces.reshape(-1, 1)], dim=1)
        ended = ended[kept] | (pieces.reshape(-1) == eos)
        if bool(ended.all()):
            break
    lengths = (prefixes[:, 1:] != pad).sum(1).reshape(rows, beam)
    best = (sums / lengths).argmax(1) + torch.arange(rows, device=device) * beam
    return [
        [piece for piece in row if piece not in (eos, pad)] for row in prefixes[best, 1:].tolist()
    ]
