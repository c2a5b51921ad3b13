"""Positions by rotation of queries and keys (Su et al. 2021): what a place finds follows from distances alone.

Small vocabularies leave it to a model to put words together from pieces, which takes attention to the places just
before; rotation makes that easy to learn. With sines added to the embeddings, small sizes lag behind for long.

>>> turns = rotations(torch.tensor([0, 1]), 2)
>>> turned = rotated(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), turns)
>>> torch.allclose(turned[1], torch.tensor([math.cos(1), math.sin(1)]))
True
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def rotations(places: Tensor, width: int) -> Tensor:
    """Cosines and sines of the angles at some places, of wavelengths from 2π to 20,000π, (2, …, width / 2).

    places: (…), counted from 0
    width: of the head of attention

    >>> rotations(torch.tensor([0, 1]), 2)[:, 0].tolist()
    [[1.0], [0.0]]
    """
    rates = torch.exp(torch.arange(0, width, 2, device=places.device) * (-math.log(10_000) / width))
    angles = places[..., None] * rates
    return torch.stack([angles.cos(), angles.sin()])


def rotated(x: Tensor, turns: Tensor) -> Tensor:
    """Each pair of values, one of the first half and one of the second, turned by the angle of its place.

    x: (…, n, width)
    """
    first, second = x.chunk(2, dim=-1)
    cosines, sines = turns.to(x.dtype)
    return torch.cat([first * cosines - second * sines, first * sines + second * cosines], dim=-1)
