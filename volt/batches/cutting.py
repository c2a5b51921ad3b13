"""Samples that are longer than a row → parts that fit, so that a language model reads every id of a long line.

A line of n ids becomes parts of `size` ids and a rest. The ids stay where they are: only the places where samples start
are told anew, and which id stands before each. That is what a model reads before the first id of a part, not EOS;
`collate` and `collate_packed` see to it, and ask only the last part of a line to end in EOS.

>>> samples = Samples.of({"text": [[5, 6, 7, 8, 2], [9, 2]]})
>>> cut = cut_samples(samples, 3)
>>> [cut["text"][row].tolist() for row in range(len(cut))], cut.numbers.tolist()
([[5, 6, 7], [8, 2], [9, 2]], [0, 0, 1])
>>> cut.parts
Parts(starts=array([0, 3, 0]), before=array([-1,  7, -1]), is_last=array([False,  True,  True]))
>>> from volt.batches import collate_packed, pack
>>> packs = [one.rows for one in pack(cut.lengths, 4, shuffle=False)]
>>> step = collate_packed(cut, packs, length=4, pad=1, eos=2)
>>> step["target"].tolist(), step["net_input"]["src_tokens"].tolist()
([[5, 6, 7, 1], [8, 2, 9, 2]], [[2, 5, 6, 1], [7, 8, 2, 9]])
"""

from __future__ import annotations

import numpy as np

from volt import arguments
from volt.batches.lengths import Longs, cut
from volt.batches.parts import Parts
from volt.batches.samples import Samples
from volt.encode.encoded import Encoded
from volt.errors import ConfigError
from volt.stream.transforms.column import frozen


def cut_samples(samples: Samples, size: int) -> Samples:
    """Samples of `size` ids at most: a longer one becomes several, which follow each other. Nothing is cropped.

    samples: of one field
    size: ids, 1 or more; the length of a pack, say

    Samples that have been cut may be cut again. Raises ConfigError for samples of several fields, whose parts would not
    belong to each other.

    >>> cut_samples(Samples.of({"text": [[5, 6, 2]]}), 2).lengths.tolist()
    [[2], [1]]
    """
    names = [*arguments.instance(samples, Samples, "samples").fields]
    size = arguments.whole(size, "size", low=1)
    if len(names) != 1:
        raise ConfigError(f"samples of {', '.join(names) or 'no field'}: only those of one field are cut")
    lengths = samples.lengths[:, 0]
    if lengths.max(initial=0) <= size:
        return samples
    encoded = samples[names[0]]
    rows, starts, _ = cut(lengths, size)
    old, firsts = samples.parts_of(rows), encoded.offsets[rows] + starts
    is_end = np.append(rows[1:] != rows[:-1], True)
    before = np.where(starts > 0, encoded.ids[firsts - 1], old.before)
    fields = {names[0]: Encoded(encoded.ids, np.append(firsts, encoded.offsets[-1]))}
    return Samples(fields, samples.numbers[rows], Parts(old.starts + starts, before, old.is_last & is_end))


def taken_samples(samples: Samples, rows: Longs) -> Samples:
    """Some samples, with copies of their ids.

    rows: (n,) int64, their indices, in any order
    Parts of lines stay what they are, whichever other parts are taken.

    >>> taken_samples(Samples.of({"src": [[5, 2], [2], [6, 2]]}), np.array([0, 2]))["src"].ids.tolist()
    [5, 2, 6, 2]
    """
    fields = {name: _taken(encoded, rows) for name, encoded in samples.fields.items()}
    parts = None if samples.parts is None else samples.parts.taken(rows)
    return Samples(fields, samples.numbers[rows], parts)


def _taken(encoded: Encoded, rows: Longs) -> Encoded:
    sizes = encoded.offsets[rows + 1] - encoded.offsets[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(offsets[-1]) + np.repeat(encoded.offsets[rows] - offsets[:-1], sizes)
    return Encoded(frozen(encoded.ids[places]), offsets)
