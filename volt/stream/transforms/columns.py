"""Fields of many lines as one text: taken out, changed all at once, and put back, without making a string of each.

    lines → bytes → the chosen fields, one per line → function → the same number of lines → back between the others

>>> map_text(Batch.of(["a b\\tc", "d"]), bytes.upper, fields=(1,)).lines
['A B\\tc', 'D']
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from volt.errors import StreamError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.fields import N_SIDES, Fields, indices_of, missing
from volt.stream.transforms.transform import LineFault

_TAB, _END = 0x09, 0x0A
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]


def map_text(batch: Batch, function: Callable[[bytes], bytes], *, fields: Fields | None = None) -> Batch:
    """A batch whose chosen fields are replaced by what `function` makes of them.

    function: takes the fields as the lines of one text, and returns a text of as many lines.
    fields: by default 1 and, where a line has it, 2.
    Raises LineFault for lines that lack a named field or hold a line end, StreamError if the function returns more or
    fewer lines.
    """
    data = np.frombuffer("\n".join([*batch.lines, ""]).encode(), np.uint8)
    ends = np.flatnonzero((data - np.uint8(_TAB)) < 2)  # of fields: where a tab or a line end stands
    chosen = _chosen(batch, data[ends] == _END, fields)
    made = np.frombuffer(function(_taken(data, ends, chosen)), np.uint8)
    made_ends = np.flatnonzero(made == _END)
    if len(made_ends) != np.count_nonzero(chosen):
        raise StreamError(f"{len(made_ends)} fields were made from {np.count_nonzero(chosen)}")
    put = _put(data, ends, chosen, made, made_ends)
    return batch.with_lines(put.decode().split("\n")[:-1])


def _chosen(batch: Batch, last: Mask, fields: Fields | None) -> Mask:
    """Which fields of the text are chosen. last: (n_fields,) whether a field is its line's last."""
    ends = np.flatnonzero(last)
    if len(ends) != len(batch):
        raise LineFault({i: "holds a line end" for i, line in enumerate(batch.lines) if "\n" in line})
    sizes = np.diff(ends, prepend=-1)
    most = max(fields or (), default=1)
    if most > 1 and sizes.min(initial=most) < most:
        short = np.flatnonzero(sizes < most).tolist()
        raise LineFault({line: missing(int(sizes[line]), most) for line in short})
    chosen = np.zeros(len(last), bool)
    for index in range(N_SIDES) if fields is None else indices_of(fields):
        chosen[(ends - sizes + 1 + index)[sizes > index]] = True
    return chosen


def _lengths(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of each field, with the tab or line end behind it."""
    return np.diff(ends, prepend=-1)


def _taken(data: Bytes, ends: NDArray[np.int64], chosen: Mask) -> bytes:
    """The chosen fields, each as a line."""
    if chosen.all():
        return data.tobytes().replace(b"\t", b"\n")
    return data[np.repeat(chosen, _lengths(ends))].tobytes().replace(b"\t", b"\n")


def _put(data: Bytes, ends: NDArray[np.int64], chosen: Mask, made: Bytes, made_ends: NDArray[np.int64]) -> bytes:
    """The text with the chosen fields replaced by those that were made."""
    made = made.copy()
    made[made_ends] = data[ends[chosen]]  # tabs where tabs were
    if chosen.all():
        return made.tobytes()
    lengths = _lengths(ends)
    sizes = lengths.copy()
    sizes[chosen] = _lengths(made_ends)
    is_made = np.repeat(chosen, sizes)
    put = np.empty(len(is_made), np.uint8)
    put[is_made], put[~is_made] = made, data[np.repeat(~chosen, lengths)]
    return put.tobytes()
