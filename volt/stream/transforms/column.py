"""`Column`: the values of one field of many lines, as views into a read-only buffer.

Value i is data[starts[i]:starts[i] + sizes[i]]. Dropping, repeating and permuting values only
copies starts and sizes; changing values creates a new buffer:

    data     "ahouse"              take([2, 0])  →  starts 1, 0; sizes 5, 1; the same data
    starts   0, 0, 1   sizes  1, −1, 5   the values "a", a missing value, and "house"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from volt import arguments
from volt.array_types import Array, Bytes, Flags, Ints, Longs
from volt.display import counted

if TYPE_CHECKING:
    import pyarrow


Chosen = Sequence[int] | Longs | Flags
_LINE_FEED = 0x0A
_NOT_UTF_8 = 0xFF  # a byte that no text contains
_BYTES_PER_LINE = 32  # a guess


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The values of one field of many lines.

    data: (n_bytes,) uint8, UTF-8 text, or (n_ids,) int32, ids
    starts: (n,) int64
    sizes: (n,) int64; −1 for a missing value
    memo: name → a cached measurement of each value, (n,) int64

    >>> column = Column.of(["a house", None, "ein Haus"])
    >>> column.take([2, 0]).strings(), column.sizes.tolist()
    (['ein Haus', 'a house'], [7, -1, 8])
    """

    data: Array
    starts: Longs
    sizes: Longs
    memo: dict[str, Longs] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.data.flags.writeable:  # so that kernels are compiled for one kind of buffer
            object.__setattr__(self, "data", make_read_only(self.data))

    def __repr__(self) -> str:
        kind = "ids" if self.is_ids else "text"
        return f"<Column: {counted(len(self), 'value')} of {kind}>"

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, values: Sequence[str | None]) -> Column:
        """Return a column of text.

        values: strings, or None for a missing value
        """
        inputs = arguments.several(values, "values", one="did you mean Column.of([value])?")
        if not set(map(type, inputs)) <= {str, type(None)}:
            inputs = list(inputs)
            for index, value in enumerate(inputs):
                if value is not None:
                    inputs[index] = str(arguments.text(value, f"values[{index}]"))

        encoded = [(value or "").encode("utf-8", "surrogatepass") for value in inputs]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        starts = np.cumsum(sizes) - sizes
        if None in inputs:
            sizes[[value is None for value in inputs]] = -1
        return cls(np.frombuffer(b"".join(encoded), np.uint8), starts, sizes)

    @classmethod
    def cut(cls, text: bytes | Bytes) -> Column:
        """Return a column of the lines of a text, without their line feeds.

        text: (n_bytes,) UTF-8; each line ends with a line feed
        """
        data = np.frombuffer(text, np.uint8)
        return split_at(data, find_line_ends(data) + 1, gap=1)

    @classmethod
    def of_ids(cls, ids: Ints, offsets: Longs) -> Column:
        """Return a column of ids.

        ids: the ids of all values, one value after the other
        offsets: (n + 1,); value i is ids[offsets[i]:offsets[i + 1]]
        """
        return cls(ids, offsets[:-1], np.diff(offsets))

    @classmethod
    def missing(cls, n: int) -> Column:
        """Return a field that no line has.

        n: the number of lines
        """
        return cls(np.zeros(0, np.uint8), np.zeros(n, np.int64), np.full(n, -1))

    @classmethod
    def repeated(cls, value: str, n: int) -> Column:
        """Return a column with the same value in every line.

        value: the value
        n: the number of lines
        """
        data = np.frombuffer(value.encode(), np.uint8)
        return cls(data, np.zeros(n, np.int64), np.full(n, len(data)))

    @property
    def views(self) -> tuple[Array, Longs, Longs]:
        """The data, starts and sizes."""
        return self.data, self.starts, self.sizes

    @property
    def is_ids(self) -> bool:
        return self.data.dtype != np.uint8

    @property
    def present(self) -> Flags:
        """(n,) bool, True for the lines that have the field."""
        return self.sizes >= 0

    def take(self, indices: Chosen) -> Column:
        """Return some of the values.

        indices: value indices, repeats allowed, or a boolean mask
        """
        chosen = as_indices(indices)
        memo = {name: measurement.take(chosen) for name, measurement in self.memo.items()}
        return Column(self.data, self.starts.take(chosen), self.sizes.take(chosen), memo)

    def as_text(self) -> Column:
        """Return ids as numbers separated by spaces; return text unchanged."""
        if not self.is_ids:
            return self
        from volt.kernels.columns import number_sizes, write_numbers

        sizes = longs(len(self))
        number_sizes(*self.views, sizes)
        text_sizes = np.maximum(sizes, 0)
        ends = np.cumsum(text_sizes)
        out = np.empty(int(text_sizes.sum()), np.uint8)
        write_numbers(*self.views, ends, out)
        return Column(out, ends - text_sizes, sizes)

    def text(self, *, end: int = _LINE_FEED) -> Bytes:
        """Return the bytes of all values, with the byte `end` after each; missing values are empty.

        end: the byte after each value, by default a line feed
        """
        return self.packed(end=end)[0]

    def packed(self, *, end: int = _LINE_FEED) -> tuple[Bytes, Longs]:
        """Return `text(end=end)`, and (n,) int64, where each value ends, with its end byte.

        The text is a view of the data if the values are adjacent there, with the byte between them.

        end: the byte after each value
        """
        column = self.as_text()
        ends = column.starts + column.sizes + 1
        if not column._are_adjacent(ends) or (column.data[ends - 1] != end).any():
            return column._copy_text(end)
        first = int(column.starts[0])
        return column.data[first : ends[-1]], ends - first

    def _are_adjacent(self, ends: Longs) -> bool:
        """Check that each value starts where the value before it ends."""
        if not len(self) or ends[-1] > len(self.data):
            return False
        are_adjacent = self.starts[1:] == ends[:-1]
        return bool(self.present.all() and are_adjacent.all())

    def _copy_text(self, end: int) -> tuple[Bytes, Longs]:
        from volt.kernels.columns import write_values

        n_bytes = int(widths(self).sum()) + len(self)
        out = np.empty(n_bytes, np.uint8)
        ends = longs(len(self))
        write_values(*self.views, end, out, ends)
        return out, ends

    def compact(self) -> Column:
        """Return the values in a new, unshared buffer."""
        sizes = widths(self)
        if self.is_ids:
            starts = np.cumsum(sizes) - sizes
            indices = np.repeat(self.starts - starts, sizes) + np.arange(sizes.sum())
            return Column(self.data[indices], starts, self.sizes)
        data, ends = self._copy_text(_LINE_FEED)
        return Column(data, ends - sizes - 1, self.sizes)

    def strings(self) -> list[str]:
        """Return the values as strings; a missing value is ''."""
        text = self.text().tobytes().decode("utf-8", "surrogatepass")
        if text.count("\n") == len(self):
            return text.split("\n")[:-1]

        # Some value contains a line feed
        values = self.text(end=_NOT_UTF_8).tobytes().split(bytes([_NOT_UTF_8]))
        return [value.decode("utf-8", "surrogatepass") for value in values[:-1]]

    def replaced(self, indices: Chosen, values: Column) -> Column:
        """Return the column with some values replaced. If old or new values are text, all become
        text.

        indices: value indices, or a boolean mask
        values: a new value for each replaced value
        """
        if self.is_ids != values.is_ids:
            return self.as_text().replaced(indices, values.as_text())
        starts = self.starts.copy()
        sizes = self.sizes.copy()
        starts[indices] = values.starts + len(self.data)
        sizes[indices] = values.sizes
        return Column(np.concatenate([self.data, values.data]), starts, sizes)

    def to_arrow(self) -> pyarrow.Array:
        """Return an Arrow array: large_string, or large_list<int32>; a missing value is null."""
        import pyarrow as pa

        valid = None
        if not self.present.all():
            valid = pa.py_buffer(np.packbits(self.present, bitorder="little"))
        ends = np.cumsum(widths(self))
        offsets = pa.py_buffer(np.concatenate([[0], ends]))
        if self.is_ids:
            kind = pa.large_list(pa.int32())
            ids = pa.array(self.compact().data, pa.int32())
            return pa.Array.from_buffers(kind, len(self), [valid, offsets], children=[ids])

        lines, line_ends = self.packed()
        text = pa.py_buffer(np.delete(lines, line_ends - 1))
        return pa.Array.from_buffers(pa.large_string(), len(self), [valid, offsets, text])

    @classmethod
    def from_arrow(cls, array: pyarrow.Array | pyarrow.ChunkedArray) -> Column:
        """Return the column of an Arrow array; null is missing.

        array: strings, or lists of whole numbers
        """
        import pyarrow as pa

        if isinstance(array, pa.ChunkedArray):
            columns = list(map(cls.from_arrow, array.chunks))
            return concatenate(columns) if columns else cls.missing(0)

        is_list = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
        array = array.cast(pa.large_list(pa.int32()) if is_list else pa.large_string())
        if is_list:
            data = array.values.to_numpy()
        else:
            data = np.frombuffer(array.buffers()[2] or b"", np.uint8)
        all_offsets = np.frombuffer(array.buffers()[1], np.int64)
        offsets = all_offsets[array.offset : array.offset + len(array) + 1]
        sizes = np.diff(offsets)
        if array.null_count:
            sizes[array.is_null().to_numpy(zero_copy_only=False)] = -1
        return cls(data, offsets[:-1].copy(), sizes)  # writable, like other columns' starts


def as_indices(chosen: Chosen) -> Longs:
    """Return value indices, (n_chosen,) int64, from indices or a boolean mask."""
    array = np.asarray(chosen)
    if array.dtype == bool:
        return np.flatnonzero(array)
    return array.astype(np.int64, copy=False)


def widths(column: Column) -> Longs:
    """Return (n,) int64, the sizes of values; 0 for missing values."""
    return np.maximum(column.sizes, 0)


def longs(n: int) -> Longs:
    """Return an array that a kernel will fill."""
    return np.empty(n, np.int64)


def make_read_only(data: Array) -> Array:
    """Return a view of an array that cannot be written."""
    view = data.view()
    view.flags.writeable = False
    return view


def find_line_ends(data: Bytes) -> Longs:
    """Return (n_lines,) int64, the position of each line feed."""
    from volt.kernels.columns import line_ends

    data = make_read_only(data)
    ends = longs(len(data) // _BYTES_PER_LINE + 16)
    n = line_ends(data, ends)
    if n > len(ends):
        ends = longs(n)
        line_ends(data, ends)
    return ends[:n]


def split_at(data: Array, ends: Longs, *, gap: int = 0) -> Column:
    """Return a column of the parts of `data` between one end and the next.

    gap: how many items before each end, such as a line feed, do not belong to the value
    """
    sizes = np.diff(ends, prepend=0)
    return Column(data, ends - sizes, sizes - gap)


def concatenate(columns: Sequence[Column]) -> Column:
    """Return the values of columns, column after column; if one of them is text, all become text."""
    columns = _with_one_dtype(columns)
    sizes = np.concatenate([column.sizes for column in columns])
    buffers = {id(column.data): column.data for column in columns}
    if len(buffers) == 1:  # need not be copied
        starts = np.concatenate([column.starts for column in columns])
        return Column(columns[0].data, starts, sizes)

    n_items = 0
    offsets = dict[int, int]()
    for key, data in buffers.items():
        offsets[key] = n_items
        n_items += len(data)
    starts = np.concatenate([column.starts + offsets[id(column.data)] for column in columns])
    return Column(np.concatenate(list(buffers.values())), starts, sizes)


def _with_one_dtype(columns: Sequence[Column]) -> list[Column]:
    """Convert all columns to text if one is text; columns without values adopt another's buffer."""
    filled = [column for column in columns if column.present.any()] or columns[:1]
    if len({column.is_ids for column in filled}) > 1:
        return _with_one_dtype([column.as_text() for column in columns])

    result = list[Column]()
    for column in columns:
        if not column.present.any():
            column = Column(filled[0].data, column.starts, column.sizes)
        result.append(column)
    return result
