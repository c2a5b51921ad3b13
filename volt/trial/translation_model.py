"""A small Transformer that translates: ids of a source → scores of every id of the target.

An encoder reads the whole source, and a decoder reads the target up to each position. The layers
are those of the language model; each layer of the decoder also attends to the encoded source. The
source has one embedding table S, the target has another, T, which is also the output. Rows are
padded on the right. With w the width:

    source = norm(encoder(√w · S[source ids]))
    scores = norm(decoder(√w · T[target ids], source)) Tᵀ

>>> shape = Shape(n_ids=10, width=16, inner=32, heads=2, layers=1, dropout=0.0)
>>> model = TranslationTransformer(shape, n_source_ids=8)
>>> ids, mask = torch.tensor([[2, 4, 5]]), torch.tensor([[True, True, False]])
>>> model(ids, mask, ids, mask).shape
torch.Size([2, 10])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from volt.errors import missing
from volt.trial.language_model import Layer, Shape, attend, embed, initialise, operations

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise missing("torch", extra="torch") from None

Past = tuple[Tensor, Tensor]  # the keys and values of a layer at earlier positions


class TranslationTransformer(nn.Module):
    """An encoder and a decoder, with as many layers each.

    >>> model = TranslationTransformer(Shape(1000, width=128, inner=512, layers=2), n_source_ids=500)
    >>> sum(weight.numel() for weight in model.parameters())
    1115136
    """

    def __init__(self, shape: Shape, n_source_ids: int) -> None:
        super().__init__()
        self.shape = shape
        self.source_table = nn.Embedding(n_source_ids, shape.width)
        self.table = nn.Embedding(shape.n_ids, shape.width)
        self.encoder = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.decoder: Any = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.layers))
        self.encoder_norm = nn.LayerNorm(shape.width)
        self.decoder_norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        initialise(self)

    def forward(
        self, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor, target_mask: Tensor
    ) -> Tensor:
        """Return the scores at the positions where the target's mask is true, (n_positions, n_ids).

        source_ids, source_mask: (n_rows, n_source_columns)
        target_ids, target_mask: (n_rows, n_target_columns), the id before each position
        """
        source = self.encode(source_ids, source_mask)
        states, _ = self.decode(target_ids, source, source_mask)
        return self.score(states[target_mask])

    def operations(
        self, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor, target_mask: Tensor
    ) -> float:
        """Return the floating-point operations of learning from a batch, as in `operations`."""
        n_source = int(source_mask.sum())
        n_target = int(target_mask.sum())
        n_source_columns = source_ids.shape[1]
        encoder = operations(replace(self.shape, n_ids=0), n_source, n_source_columns)
        decoder = operations(self.shape, n_target, n_source_columns + target_ids.shape[1])
        projections = 12.0 * self.shape.layers * self.shape.width**2 * (n_source + n_target)
        return encoder + decoder + projections

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the encoded source, (n_rows, n_columns, width)."""
        x, turns = embed(self, self.source_table, ids)
        for layer in self.encoder:
            x = layer(x, turns, mask[:, None, None])
        result: Tensor = self.encoder_norm(x)
        return result

    def decode(
        self, ids: Tensor, source: Tensor, mask: Tensor, past: Sequence[Past] = ()
    ) -> tuple[Tensor, list[Past]]:
        """Return the state at each position, and the keys and values of each layer.

        ids: (n_rows, n_columns), or (n_rows, 1) if there is a past
        source, mask: the encoded source and its mask
        past: the keys and values of each layer at earlier positions
        """
        first = past[0][0].shape[2] if past else 0
        x, turns = embed(self, self.table, ids, first=first)
        keys_and_values = list[Past]()
        for n, layer in enumerate(self.decoder):
            earlier = past[n] if past else None
            x, through_now = layer.decode(x, turns, source, mask[:, None, None], earlier)
            keys_and_values.append(through_now)
        return self.decoder_norm(x), keys_and_values

    def score(self, states: Tensor) -> Tensor:
        return states @ self.table.weight.T


class DecoderLayer(Layer):
    """x + attention(norm x), then x + attention(norm x, source), then x + inner(norm x)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        width = shape.width
        self.query = nn.Linear(width, width, bias=False)
        self.source_projection = nn.Linear(width, 2 * width, bias=False)  # to key and value
        self.source_out = nn.Linear(width, width, bias=False)
        self.source_norm = nn.LayerNorm(width)

    def decode(
        self, x: Tensor, turns: Tensor, source: Tensor, mask: Tensor, past: Past | None
    ) -> tuple[Tensor, Past]:
        """Return the input of the next layer, and the keys and values up to the last position."""
        query, key, value = self.project(x, turns)
        if past is not None:
            key = torch.cat([past[0], key], dim=2)
            value = torch.cat([past[1], value], dim=2)
        x = x + self.add(attend(query, key, value, is_causal=past is None))

        query = self.query(self.source_norm(x)).unflatten(2, (self.heads, -1)).transpose(1, 2)
        projected = self.source_projection(source).unflatten(2, (2, self.heads, -1))
        source_key, source_value = projected.permute(2, 0, 3, 1, 4)
        attended = attend(query, source_key, source_value, mask=mask)
        x = x + self.dropout(self.source_out(attended))
        return x + self.feed(x), (key, value)


@torch.inference_mode()
def translate(
    model: TranslationTransformer,
    source_ids: Tensor,
    source_mask: Tensor,
    *,
    eos: int,
    most: int,
) -> list[list[int]]:
    """Return the translation of each row, without EOS; each id has the greatest score.

    source_ids, source_mask: (n_rows, n_columns)
    eos: the id that ends a translation
    most: the largest number of ids of a translation
    """
    source = model.encode(source_ids, source_mask)
    ids = torch.full((len(source_ids), 1), eos, device=source_ids.device)
    has_ended = torch.zeros_like(ids, dtype=torch.bool)
    columns = list[Tensor]()
    past = list[Past]()
    while len(columns) < most and not bool(has_ended.all()):
        states, past = model.decode(ids, source, source_mask, past)
        ids = model.score(states).argmax(-1)
        has_ended |= ids == eos
        columns.append(ids.masked_fill(has_ended, eos))
    rows = torch.cat(columns, dim=1).tolist()
    return [[id_ for id_ in row if id_ != eos] for row in rows]
