"""`Column`: the values of one field of many lines, as views into a read-only buffer.

Dropping, repeating and permuting values only moves views; changing values creates a new buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.display import counted

if TYPE_CHECKING:
    import pyarrow


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]
Chosen = Sequence[int] | Longs | Mask
_NOTHING = np.zeros(0, np.uint8)
_END = 0x0A


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

    data: NDArray[Any]
    starts: Longs
    sizes: Longs
    memo: dict[str, Longs] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.data.flags.writeable:  # so that kernels are compiled for one kind of buffer
            object.__setattr__(self, "data", frozen(self.data))

    def __repr__(self) -> str:
        return f"<Column: {counted(len(self), 'value')} of {'ids' if self.is_ids else 'text'}>"

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, values: Sequence[str | None]) -> Column:
        """Return a column of text.

        values: strings, or None for a missing value
        """
        result = arguments.several(values, "values", one="did you mean Column.of([value])?")
        if not set(map(type, result)) <= {str, type(None)}:
            places = enumerate(result)
            result = [
                None if text is None else str(arguments.text(text, f"values[{i}]"))
                for i, text in places
            ]
        encoded = [
            b"" if value is None else value.encode("utf-8", "surrogatepass") for value in result
        ]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        starts = np.cumsum(sizes) - sizes
        if None in result:
            sizes = np.where([value is None for value in result], -1, sizes)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), starts, sizes)

    @classmethod
    def cut(cls, text: bytes | NDArray[np.uint8]) -> Column:
        """Split text into lines, each of which ends with a line feed.

        text: (n_bytes,) UTF-8
        """
        data = np.frombuffer(text, np.uint8)
        ends = line_ends_of(data)
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        return cls(data, starts, ends - starts)

    @classmethod
    def of_ids(cls, ids: NDArray[np.int32], offsets: Longs) -> Column:
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
        return cls(_NOTHING, np.zeros(n, np.int64), np.full(n, -1))

    @classmethod
    def repeated(cls, value: str, n: int) -> Column:
        """Return a column with the same value in every line.

        value: the value
        n: the number of lines
        """
        data = np.frombuffer(value.encode(), np.uint8)
        return cls(data, np.zeros(n, np.int64), np.full(n, len(data)))

    @property
    def is_ids(self) -> bool:
        return self.data.dtype != np.uint8

    @property
    def present(self) -> Mask:
        """(n,) bool, True for the lines that have the field."""
        return self.sizes >= 0

    def take(self, indices: Chosen) -> Column:
        """Return some of the values.

        indices: value indices, repeats allowed, or a boolean mask
        """
        chosen = np.asarray(indices)
        chosen = (
            np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64, copy=False)
        )
        memo = {name: measured.take(chosen) for name, measured in self.memo.items()}
        return Column(self.data, self.starts.take(chosen), self.sizes.take(chosen), memo)

    def as_text(self) -> Column:
        """Return ids as numbers separated by spaces; return text unchanged."""
        if not self.is_ids:
            return self
        from volt.kernels.columns import number_sizes, write_numbers

        sizes = np.empty(len(self), np.int64)
        number_sizes(self.data, self.starts, self.sizes, sizes)
        ends = np.cumsum(np.maximum(sizes, 0))
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        write_numbers(self.data, self.starts, self.sizes, ends, out)
        return Column(out, ends - np.maximum(sizes, 0), sizes)

    def text(self, *, end: int = _END) -> NDArray[np.uint8]:
        """Return the bytes of all values, with the byte `end` after each; missing values are empty.

        end: the byte after each value, by default a line feed
        """
        return self.packed(end=end)[0]

    def packed(self, *, end: int = _END) -> tuple[NDArray[np.uint8], Longs]:
        """Return `text(end=end)`, as a view where possible, and (n,) int64, the end of each value.

        end: the byte after each value
        """
        column = self.as_text()
        starts, sizes, data = column.starts, column.sizes, column.data
        ends = starts + sizes + 1
        is_packed = (
            len(ends)
            and sizes.min() >= 0
            and ends[-1] <= len(data)
            and (starts[1:] == ends[:-1]).all()
        )
        if not is_packed or (data[ends - 1] != end).any():
            return column._copied(end)
        first = int(starts[0])
        return data[first : ends[-1]], ends - first

    def _copied(self, end: int) -> tuple[NDArray[np.uint8], Longs]:
        from volt.kernels.columns import write_values

        out = np.empty(int(np.maximum(self.sizes, 0).sum()) + len(self), np.uint8)
        ends = np.empty(len(self), np.int64)
        write_values(self.data, self.starts, self.sizes, end, out, ends)
        return out, ends

    def compact(self) -> Column:
        """Return the values in a new, unshared buffer."""
        if self.is_ids:
            held = np.maximum(self.sizes, 0)
            starts = np.cumsum(held) - held
            ids = self.data[np.repeat(self.starts - starts, held) + np.arange(held.sum())]
            return Column(ids, starts, self.sizes)
        data, ends = self._copied(_END)
        return Column(data, ends - np.maximum(self.sizes, 0) - 1, self.sizes)

    def strings(self) -> list[str]:
        """Return the values as strings; a missing value is ''."""
        text = self.text().tobytes().decode("utf-8", "surrogatepass")
        if text.count("\n") == len(self):
            return text.split("\n")[:-1]
        data, column = self.as_text().data.tobytes(), self.as_text()
        spans = zip(column.starts.tolist(), np.maximum(column.sizes, 0).tolist(), strict=True)
        return [
            data[start : start + size].decode("utf-8", "surrogatepass") for start, size in spans
        ]

    def replaced(self, indices: Chosen, values: Column) -> Column:
        """Return the column with some values replaced. If old or new values are text, all become text.

        indices: value indices, or a boolean mask
        values: a new value for each replaced value
        """
        if self.is_ids != values.is_ids:
            return self.as_text().replaced(indices, values.as_text())
        starts, sizes = self.starts.copy(), self.sizes.copy()
        starts[indices], sizes[indices] = values.starts + len(self.data), values.sizes
        return Column(np.concatenate([self.data, values.data]), starts, sizes)

    def to_arrow(self) -> pyarrow.Array:
        """Return an Arrow array: large_string, or large_list<int32>; a missing value is null."""
        import pyarrow as pa

        sizes, mask = np.maximum(self.sizes, 0), ~self.present
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        valid = None if not mask.any() else pa.py_buffer(np.packbits(~mask, bitorder="little"))
        buffers = [valid, pa.py_buffer(offsets)]
        if self.is_ids:
            ids = pa.array(self.compact().data, pa.int32())
            return pa.Array.from_buffers(
                pa.large_list(pa.int32()), len(self), buffers, children=[ids]
            )
        text, ends = self.packed()
        retained = np.ones(len(text), bool)
        retained[ends - 1] = False
        return pa.Array.from_buffers(
            pa.large_string(), len(self), [*buffers, pa.py_buffer(text[retained])]
        )

    @classmethod
    def from_arrow(cls, array: pyarrow.Array | pyarrow.ChunkedArray) -> Column:
        """Return the column of an Arrow array; null is missing.

        array: strings, or lists of whole numbers
        """
        import pyarrow as pa

        if isinstance(array, pa.ChunkedArray):
            parts = [cls.from_arrow(chunk) for chunk in array.chunks]
            return concatenated(parts) if parts else cls.missing(0)
        is_list = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
        array = array.cast(pa.large_list(pa.int32()) if is_list else pa.large_string())
        first, last = array.offset, array.offset + len(array) + 1
        offsets = np.frombuffer(array.buffers()[1], np.int64)[
            first:last
        ].copy()  # writable, like other columns' starts
        data = (
            array.values.to_numpy()
            if is_list
            else np.frombuffer(array.buffers()[2] or b"", np.uint8)
        )
        sizes = np.diff(offsets)
        if array.null_count:
            sizes = np.where(array.is_valid().to_numpy(zero_copy_only=False), sizes, -1)
        return cls(data, offsets[:-1], sizes)


def frozen(data: NDArray[Any]) -> NDArray[Any]:
    view = data.view()
    view.flags.writeable = False
    return view


def line_ends_of(data: NDArray[np.uint8]) -> Longs:
    from volt.kernels.columns import line_ends

    data, ends = frozen(data), np.empty(len(data) // 32 + 16, np.int64)
    if (n := line_ends(data, ends)) > len(ends):
        ends = np.empty(n, np.int64)
        line_ends(data, ends)
    return ends[:n]


def from_ends(data: NDArray[Any], ends: Longs, *, gap: int = 0) -> Column:
    """Split data at `ends` into a column's values, and drop the last `gap` items before each end."""
    sizes = np.diff(ends, prepend=0)
    return Column(data, ends - sizes, sizes - gap)


def concatenated(columns: Sequence[Column]) -> Column:
    return concatenated_fields([columns])[0]


def concatenated_fields(fields: Sequence[Sequence[Column]]) -> list[Column]:
    """Concatenate each field's columns; if one is text, the result is text. A shared buffer is copied once."""
    fields = list(map(_of_one_kind, fields))
    first, pools = dict[int, int](), dict[bool, NDArray[Any]]()
    several = [columns for columns in fields if len({id(column.data) for column in columns}) > 1]
    for is_ids in {columns[0].is_ids for columns in several}:
        buffers = {
            id(one.data): one.data for columns in several for one in columns if one.is_ids == is_ids
        }
        ends = np.cumsum(list(map(len, buffers.values()))).tolist()
        first |= {key: end - len(buffers[key]) for key, end in zip(buffers, ends, strict=True)}
        pools[is_ids] = frozen(np.concatenate(list(buffers.values())))
    result = list[Column]()
    for columns in fields:
        data, starts = columns[0].data, [column.starts for column in columns]
        if any(column.data is not data for column in columns):
            data = pools[columns[0].is_ids]
            starts = [column.starts + first[id(column.data)] for column in columns]
        result.append(
            Column(
                data, np.concatenate(starts), np.concatenate([column.sizes for column in columns])
            )
        )
    return result


def _of_one_kind(columns: Sequence[Column]) -> list[Column]:
    """Convert all of a field's columns to text if one is text, and let empty columns share a buffer."""
    filled = [column for column in columns if column.present.any()] or columns[:1]
    if len({column.is_ids for column in filled}) > 1:
        return _of_one_kind([column.as_text() for column in columns])
    return [
        one if one.present.any() else Column(filled[0].data, one.starts, one.sizes)
        for one in columns
    ]


Unit = Literal["words", "characters", "bytes"]
_CONTINUATION = (0x80, 0x3F)  # the bytes from 80 to BF, which start no character


def measured(column: Column, loop: Callable[..., Any], kind: type, *inputs: object) -> NDArray[Any]:
    """Run a kernel over the values, and return its (n,) results."""
    from volt.kernels.string_functions import BLOCK

    data = column.data
    out: NDArray[Any] = np.empty(len(column), kind)
    if len(data) < BLOCK:
        data = frozen(np.concatenate([data, np.zeros(BLOCK - len(data), data.dtype)]))
    loop(data, column.starts, column.sizes, *inputs, out)
    return out


def n_parts(column: Column, name: str, loop: Callable[..., Any]) -> Longs:
    """Return (n,) the number of ids of each value; for text, the results of `loop`, which `memo` caches."""
    if column.is_ids:
        return np.maximum(column.sizes, 0)
    if name not in column.memo:
        column.memo[name] = measured(column, loop, np.int64)
    return column.memo[name]


def lengths(column: Column, unit: Unit) -> Longs:
    if unit == "words":
        from volt.kernels.string_functions import count_words

        return n_parts(column, unit, count_words)
    column = column.as_text()
    n_bytes = np.maximum(column.sizes, 0)
    return n_bytes if unit == "bytes" else n_bytes - count_bytes(column, *_CONTINUATION)


def count_bytes(column: Column, first: int, span: int = 0) -> Longs:
    """Count the bytes with values from `first` to `first + span` in each value. Return (n,) int64."""
    from volt.kernels.string_functions import count_within

    return measured(column, count_within, np.int64, first, span)


def holding_bytes(column: Column, wanted: bytes) -> Mask:
    """Return (n,) bool, True for values that contain any of the bytes."""
    from volt.kernels.string_functions import find_any

    table = np.zeros(256, bool)
    table[list(wanted)] = True
    return measured(column, find_any, bool, table)


def blank(column: Column) -> Mask:
    """Return (n,) bool, True for missing, empty or white-space values."""
    if column.is_ids:
        return column.sizes <= 0
    from volt.kernels.string_functions import find_blank

    return measured(column, find_blank, bool)
