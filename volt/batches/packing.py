"""Lay rows end to end into packs of a fixed length, and split samples to that length.

Rows are packed from the longest to the shortest, each into the fullest pack with room for it, or
into a new pack. The number of packs is at most 11/9 of the minimum, plus four (best-fit decreasing;
Johnson, 1974).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from volt import arguments
from volt.batches.argument_checks import Longs, check_place, refuse_long, table
from volt.batches.samples import Parts, Samples
from volt.batches.token_batching import stable_order, turns
from volt.encode.batch_encoder import Encoded
from volt.errors import ConfigError


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
    rows, starts, _ = _cut(lengths, size)
    old_parts = samples.parts_of(rows)
    offsets = encoded.offsets[rows] + starts
    is_end = np.append(rows[1:] != rows[:-1], True)
    parts = Parts(
        starts=old_parts.starts + starts,
        before=np.where(starts > 0, encoded.ids[offsets - 1], old_parts.before),
        is_last=old_parts.is_last & is_end,
    )
    cut = Encoded(encoded.ids, np.append(offsets, encoded.offsets[-1]))
    return Samples({names[0]: cut}, samples.numbers[rows], parts)


def _cut(lengths: Longs, size: int) -> tuple[Longs, Longs, Longs]:
    """Split rows after every `size` tokens. Return each part's row, start and size.

    >>> [values.tolist() for values in _cut(np.array([5, 0, 2]), 2)]
    [[0, 0, 0, 1, 2], [0, 2, 4, 0, 0], [2, 2, 1, 0, 2]]
    """
    if lengths.max(initial=0) <= size:
        rows = np.arange(len(lengths))
        return rows, np.zeros_like(rows), lengths
    n_parts = np.maximum(-(-lengths // size), 1)
    rows = np.repeat(np.arange(len(lengths)), n_parts)
    first_parts = np.cumsum(n_parts) - n_parts
    starts = (np.arange(n_parts.sum()) - first_parts[rows]) * size
    return rows, starts, np.minimum(lengths[rows] - starts, size)


# Maximum number of tokens in a pack: the search for free space takes ten bytes for each
LONGEST = 1 << 24


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
class Packs:
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

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> Pack:
        """Return one pack."""
        place = self._place(range(len(self))[number])
        return Pack(*(values[place] for values in self.segments))

    def rows_of(self, number: int) -> Longs:
        """Return the rows of one pack, from 0 on."""
        rows: Longs = self.segments.rows[self._place(number)]
        return rows

    def _place(self, number: int) -> slice:
        start = self.ends[number - 1] if number else 0
        return slice(start, self.ends[number])

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
    """Lay rows end to end into packs. Raises StreamError for a row that is too long.

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
    from volt.kernels.batching import fit_best

    sides = table(lengths)
    if sides.shape[1] != 1:
        raise ConfigError(f"lengths has {sides.shape[1]} sides; give one number for each row")
    lengths_of = sides[:, 0]
    size = arguments.whole(size, "size", low=1, high=LONGEST)
    place = check_place(seed, epoch, window)
    is_long = (lengths_of > size) & (on_long != "split")
    is_empty = lengths_of == 0
    too_long = np.flatnonzero(is_long)
    refuse_long(
        too_long, lengths_of, size, "size", on_long=on_long, ways=("raise", "report", "split")
    )

    retained = np.flatnonzero(~is_long & ~is_empty)
    rows, starts, sizes = _cut(lengths_of[retained], size)
    segments = Pack(retained[rows], starts, sizes)

    order = turns(len(sizes), shuffle, "pack", "rows", *place)
    order = order[stable_order(size - sizes[order])]
    free_tree = np.zeros(2 << size.bit_length(), np.uint8)
    free_tops = np.full(size + 1, -1, np.int64)
    below = np.empty(len(order), np.int64)
    packs = np.empty(len(order), np.int64)
    n_packs = fit_best(sizes[order], size, free_tree, free_tops, below, packs)

    numbers = turns(n_packs, shuffle, "pack", "packs", *place)[packs]
    order = order[stable_order(numbers)]
    ends = np.cumsum(np.bincount(numbers, minlength=n_packs))
    ordered = Pack(*(values[order] for values in segments))
    return Packs(ordered, ends, size, too_long, np.flatnonzero(is_empty))
