"""A part of an epoch → its lines, in the order in which the source is to be read.

>>> import tempfile
>>> from volt.stream.reading.shares import parts
>>> from volt.stream.reading.open_source import open_source
>>> from volt.stream.reading.source import Source
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"1\\n2\\n3\\n4\\n5\\n") and file.flush()
...     source = open_source(Source("digits", (file.name,), block_lines=2), seed=1)
...     [read_part(source, part).lines for part in parts(5, 2, epochs=1)]
[['1', '2'], ['3', '4'], ['5']]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volt.errors import StreamError
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.order import Slice, permutation
from volt.stream.reading.shares import Part
from volt.stream.transforms.batch import Batch, joined


def part_slices(source: OpenSource, part: Part) -> tuple[Slice, ...]:
    """Return the slices of pieces that make up a part."""
    return source.slices(part.epoch, part.start, part.n_lines)


def line_order(source: OpenSource, part: Part, n: int) -> NDArray[np.int64] | None:
    """The order of a part's n lines (or outputs), or None if they stay as they are."""
    if source.source.shuffle == "none":
        return None
    return permutation(n, source.seed, source.name, part.epoch, part.start, part.n_lines)


def read_part(source: OpenSource, part: Part) -> Batch:
    """The lines of a part, permuted if the source shuffles lines early; not yet known to be UTF-8.

    Raises StreamError if a file has changed.
    """
    batch = joined([source.lines_of(one) for one in part_slices(source, part)])
    is_early = source.source.shuffle == "lines" and not source.permutes_late
    order = line_order(source, part, len(batch)) if is_early else None
    return batch if order is None else batch.take(order)


def permuted_late(source: OpenSource, part: Part, read: NDArray[np.int64], batch: Batch) -> Batch:
    """What the lines of a part became, in the order in which the lines would have been read.

    read: (n_lines,) their origins
    Raises StreamError if a transform has changed their order.
    """
    from volt.kernels.columns import permuted

    order = line_order(source, part, len(read))
    if order is None:
        return batch
    places, firsts = np.empty(len(batch), np.int64), np.empty(len(read) + 1, np.int64)
    if permuted(read, batch.origins, order, firsts, places) != len(batch):
        raise StreamError(f"source {source.name!r}: a transform has changed the order of lines; set joins_lines in it")
    return batch.take(places)
