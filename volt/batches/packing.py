"""Lay rows end to end into packs of a fixed length, and split samples to that length.

A row is a sample of several tokens; a segment is a row or a part of it. For packs of 7 tokens, rows
of lengths [5, 4, 2, 3] become the packs [5, 2] and [4, 3]. Segments are packed from the longest to
the shortest, each into the fullest pack with room for it, or into a new pack. The number of packs
is at most 11/9 of the minimum, plus four (best-fit decreasing; Johnson, 1974).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from volt import arguments
from volt.array_types import Longs
from volt.batches.argument_checks import check_lengths, check_seeds, refuse_long
from volt.batches.samples import Parts, Samples
from volt.batches.token_batching import Groups, order_of, stable_order
from volt.encode.batch_encoder import Encoded
from volt.errors import ConfigError

# Maximum number of tokens in a pack: the search for free space takes ten bytes for each
LONGEST = 1 << 24


def cut_samples(samples: Samples, size: int) -> Samples:
    """Split samples into consecutive parts of at most `size` ids.

    `Parts.before` has the id that precedes each part.

    samples: samples of one field; they may have been split before
    size: maximum number of ids, such as the length of a pack

    >>> cut_samples(Samples.of({"text": [[5, 6, 7, 8, 2], [9, 2]]}), 3).parts
    Parts(starts=array([0, 3, 0]), before=array([-1,  7, -1]), is_last=array([False,  True,  True]))
    """
    names = [*arguments.instance(samples, Samples, "samples").fields]
    size = arguments.whole(size, "size", low=1)
    if len(names) != 1:
        raise ConfigError(
            f"samples of {', '.join(names) or 'no field'}: only samples of one field can be split"
        )
    lengths = samples.lengths[:, 0]
    if lengths.max(initial=0) <= size:
        return samples
    encoded = samples[names[0]]
    segments = _split_rows(lengths, size)
    rows = segments.rows
    old_parts = samples.parts_of(rows)
    offsets = encoded.offsets[rows] + segments.starts  # of the parts in `encoded.ids`
    is_end = np.append(rows[1:] != rows[:-1], True)
    parts = Parts(
        starts=old_parts.starts + segments.starts,
        before=np.where(segments.starts > 0, encoded.ids[offsets - 1], old_parts.before),
        is_last=old_parts.is_last & is_end,
    )
    cut = Encoded(encoded.ids, np.append(offsets, encoded.offsets[-1]))
    return Samples({names[0]: cut}, samples.numbers[rows], parts)


class Pack(NamedTuple):
    """The segments of a pack, one after the other.

    rows: (n_segments,) int64
    starts: (n_segments,) int64, where each segment starts in its row; 0, unless the row was split
    sizes: (n_segments,) int64, tokens

    >>> pack([5, 2], 7, shuffle=False)[0].sizes.tolist()
    [5, 2]
    """

    rows: Longs
    starts: Longs
    sizes: Longs


@dataclass(frozen=True, slots=True, eq=False)
class Packs(Groups):
    """The packs of an epoch or a window.

    segments: the segments of all packs, one after the other
    ends: (n_packs,) int64, the end of each pack among the segments
    size: tokens of a pack
    too_long, empty: int64, rows longer than a pack, and rows without tokens
    """

    segments: Pack
    ends: Longs
    size: int
    too_long: Longs
    empty: Longs

    def __getitem__(self, number: int) -> Pack:
        """Return one pack."""
        return Pack(*(values[self._slice(number)] for values in self.segments))

    def rows_of(self, number: int) -> Longs:
        """Return the rows of one pack."""
        return self[number].rows

    def __iter__(self) -> Iterator[Pack]:
        """Iterate over the packs."""
        return map(self.__getitem__, range(len(self)))

    @property
    def padding_share(self) -> float:
        """The share of the packs' space that is empty."""
        if not len(self):
            return 0.0
        n_tokens = float(self.segments.sizes.sum())
        return 1 - n_tokens / (len(self) * self.size)


def pack(
    lengths: ArrayLike,
    size: int,
    *,
    on_long: Literal["raise", "report", "split"] = "raise",
    shuffle: bool = True,
    seed: int = 0,
    epoch: int = 0,
    window: int = 0,
) -> Packs:
    """Lay rows end to end into packs. Raises StreamError if a row is too long and on_long="raise".

    lengths: (n,) whole numbers, tokens
    size: tokens of a pack
    on_long: action for a row longer than a pack: "raise" an error, "report" it in `too_long`, or
        "split" it
    shuffle: whether the order of packs, and of equally long rows, is random
    seed, epoch, window: seeds of this random order

    >>> packs = pack([9, 1], 4, on_long="split", shuffle=False)
    >>> [list(zip(one.rows.tolist(), one.starts.tolist(), one.sizes.tolist())) for one in packs]
    [[(0, 0, 4)], [(0, 4, 4)], [(0, 8, 1), (1, 0, 1)]]
    """

    sides = check_lengths(lengths)
    if sides.shape[1] != 1:
        raise ConfigError(f"lengths has {sides.shape[1]} sides; give one number for each row")
    row_lengths = sides[:, 0]
    size = arguments.whole(size, "size", low=1, high=LONGEST)
    seeds = check_seeds(seed, epoch, window)
    is_long = (row_lengths > size) & (on_long != "split")
    is_empty = row_lengths == 0
    too_long = np.flatnonzero(is_long)
    choices = ("raise", "report", "split")
    refuse_long(too_long, row_lengths, limit=("size", size), on_long=on_long, choices=choices)

    packed_rows = np.flatnonzero(~is_long & ~is_empty)
    segments = _split_rows(row_lengths[packed_rows], size)
    segments = segments._replace(rows=packed_rows[segments.rows])

    order = order_of(len(segments.rows), shuffle, "pack", "rows", *seeds)
    order = order[stable_order(size - segments.sizes[order])]  # the longest first
    packs = _fit_into_packs(segments.sizes[order], size)

    n_packs = int(packs.max(initial=-1)) + 1
    numbers = order_of(n_packs, shuffle, "pack", "packs", *seeds)[packs]
    order = order[stable_order(numbers)]
    ordered = Pack(*(values[order] for values in segments))
    ends = np.cumsum(np.bincount(numbers, minlength=n_packs))
    return Packs(ordered, ends, size, too_long, np.flatnonzero(is_empty))


def _split_rows(lengths: Longs, size: int) -> Pack:
    """Split rows after every `size` tokens. Return all segments, row after row.

    >>> [values.tolist() for values in _split_rows(np.array([5, 0, 2]), 2)]
    [[0, 0, 0, 1, 2], [0, 2, 4, 0, 0], [2, 2, 1, 0, 2]]
    """
    if lengths.max(initial=0) <= size:
        rows = np.arange(len(lengths))
        return Pack(rows, np.zeros_like(rows), lengths)
    n_segments = np.maximum(-(-lengths // size), 1)
    rows = np.repeat(np.arange(len(lengths)), n_segments)
    first_segments = np.cumsum(n_segments) - n_segments
    starts = (np.arange(len(rows)) - first_segments[rows]) * size
    return Pack(rows, starts, np.minimum(lengths[rows] - starts, size))


def _fit_into_packs(sizes: Longs, pack_size: int) -> Longs:
    """Return the pack of each segment, from 0 on in the order of the packs' first segments."""
    from volt.kernels.batching import fit_best

    # A tree over all amounts of free space, and a stack of the packs with each amount
    free_tree = np.zeros(2 << pack_size.bit_length(), np.uint8)
    stack_tops = np.full(pack_size + 1, -1, np.int64)
    packs_below = np.empty(len(sizes), np.int64)
    packs = np.empty(len(sizes), np.int64)
    fit_best(sizes, pack_size, free_tree, stack_tops, packs_below, packs)
    return packs
