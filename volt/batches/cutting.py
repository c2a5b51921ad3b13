"""Samples that are longer than a row → parts that fit, so that a language model reads every id of a long line.

A line of n ids becomes parts of `size` ids and a rest. The ids stay where they are: only the places where samples start
are told anew. What stands before the first id of a part is the last id of the part before, not EOS; `collate` and
`collate_packed` see to it, and ask only the last part of a line to end in EOS.

>>> samples = Samples.of({"text": [[5, 6, 7, 8, 2], [9, 2]]})
>>> cut = cut_samples(samples, 3)
>>> [cut["text"][i].tolist() for i in range(len(cut))], cut.numbers.tolist(), cut.starts.tolist(), cut.is_last.tolist()
([[5, 6, 7], [8, 2], [9, 2]], [0, 0, 1], [0, 3, 0], [False, True, True])
>>> from volt.batches import collate_packed, pack
>>> packs = [one.rows for one in pack(cut.lengths, 4, shuffle=False)]
>>> step = collate_packed(cut, packs, length=4, pad=1, eos=2)
>>> step["target"].tolist(), step["net_input"]["src_tokens"].tolist()
([[5, 6, 7, 1], [8, 2, 9, 2]], [[2, 5, 6, 1], [7, 8, 2, 9]])
"""

from __future__ import annotations

import numpy as np

from volt import arguments
from volt.batches.lengths import cut
from volt.batches.samples import Samples
from volt.encode.encoded import Encoded
from volt.errors import ConfigError


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
    fields = {names[0]: Encoded(encoded.ids, np.append(encoded.offsets[rows] + starts, encoded.offsets[-1]))}
    is_end = np.append(rows[1:] != rows[:-1], True)
    return Samples(fields, samples.numbers[rows], samples.starts[rows] + starts, samples.is_last[rows] & is_end)
