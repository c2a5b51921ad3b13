"""`Batch`: the lines of a block as columns, with each line's number in its source.

Lines are split into fields at tabs when a transform first reads a field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.display import counted
from volt.errors import StreamError
from volt.stream.transforms.column import (
    Chosen,
    Column,
    Longs,
    as_indices,
    concatenated,
    count_bytes,
    from_ends,
)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    r"""The lines of a block on their way through its transforms.

    columns: the fields that lines have been split into so far, in order from field 1.
    rest: the text after these fields, not yet split at tabs; missing in lines without any, None if
        no line has any.
    origins: (n_lines,) int64, the number of each line in its source; for joined lines, the first
        one's.

    >>> batch = Batch.of(["a\tb", "c"])
    >>> batch.with_columns({1: Column.of(["x", "y"])}).lines, batch.take([1, 1]).origins.tolist()
    (['x\tb', 'y'], [1, 1])
    """

    columns: tuple[Column, ...]
    rest: Column | None
    origins: Longs

    @classmethod
    def of(cls, lines: Sequence[str]) -> Batch:
        """Return a batch in which line k has origin k.

        lines: text without line ends
        """
        result = arguments.texts(lines, "lines", one="did you mean Batch.of([line])?")
        return cls((), Column.of(result), np.arange(len(result)))

    def __repr__(self) -> str:
        return f"<Batch: {counted(len(self), 'line')}>"

    def __len__(self) -> int:
        return len(self.origins)

    def split(self, n: int) -> Batch:
        """Return the lines, split into at least `n` fields; fields that a line lacks are missing.

        n: the minimum number of fields
        """
        n_more = n - len(self.columns)
        if n_more <= 0:
            return self
        if self.rest is None:
            missing = [Column.missing(len(self))] * n_more
            return Batch((*self.columns, *missing), None, self.origins)
        from volt.kernels.columns import cut

        data = self.rest.data
        starts = np.empty((n_more + 1, len(self)), np.int64)
        sizes = np.empty_like(starts)
        has_rest = cut(data, self.rest.starts, self.rest.sizes, starts, sizes)
        *columns, rest = (Column(data, *views) for views in zip(starts, sizes, strict=True))
        return Batch((*self.columns, *columns), rest if has_rest else None, self.origins)

    def column(self, field: int) -> Column:
        """Return the values of a field.

        field: the field's number, from 1
        """
        return self.split(field).columns[field - 1]

    def with_columns(self, changed: Mapping[int, Column]) -> Batch:
        """Return the lines with changed fields.

        changed: field number, from 1 → new values
        """
        batch = self.split(max(changed, default=0))
        columns = [changed.get(number, column) for number, column in enumerate(batch.columns, 1)]
        return Batch(tuple(columns), batch.rest, self.origins)

    @property
    def n_fields(self) -> Longs:
        """(n_lines,) the number of fields in each line."""
        result = np.zeros(len(self), np.int64)
        for column in self.columns:
            result += column.present
        if self.rest is not None:
            result += count_bytes(self.rest, ord("\t")) + self.rest.present
        return result

    def take(self, indices: Chosen) -> Batch:
        """Return some of the lines.

        indices: line indices, repeats allowed, or a boolean mask
        """
        chosen = as_indices(indices)
        return self._each(lambda column: column.take(chosen), self.origins[chosen])

    def compact(self) -> Batch:
        """Return the lines in new, unshared buffers."""
        return self._each(Column.compact, self.origins)

    def _each(self, function: Callable[[Column], Column], origins: Longs) -> Batch:
        rest = None if self.rest is None else function(self.rest)
        return Batch(tuple(map(function, self.columns)), rest, origins)

    def packed(self) -> tuple[NDArray[np.uint8], Longs]:
        """Return the lines as bytes, each with a line end, and (n_lines,) int64, where each
        ends."""
        columns = [column.as_text() for column in self.all_columns()]
        if len(columns) == 1:
            return columns[0].packed()
        from volt.kernels.columns import put_values

        sizes = np.zeros(len(self), np.int64)
        for column in columns:
            sizes += np.maximum(column.sizes + 1, 0)  # with a tab or line end
        sizes = np.maximum(sizes, 1)
        ends = np.cumsum(sizes)

        out = np.empty(int(sizes.sum()), np.uint8)
        places = ends - sizes
        tab = np.frombuffer(b"\t", np.uint8)
        nothing = tab[:0]
        for number, column in enumerate(columns):
            before = tab if number else nothing
            put_values(*column.views, before, nothing, out, places)
        out[places] = 0x0A
        return out, ends

    def all_columns(self) -> tuple[Column, ...]:
        return self.columns if self.rest is None else (*self.columns, self.rest)

    @property
    def lines(self) -> list[str]:
        """The lines as strings, in a new list."""
        columns = self.all_columns()
        if len(columns) == 1:
            return columns[0].strings()
        return from_ends(*self.packed(), gap=1).strings()

    @property
    def rows(self) -> list[list[str]]:
        """The fields of each line as strings, in new lists."""
        return [line.split("\t") for line in self.lines]

    def map(self, function: Callable[[str], str]) -> Batch:
        """Return the lines, each passed through a function.

        function: takes a line, returns a line
        """
        return self.with_lines([function(line) for line in self.lines])

    def with_lines(self, lines: Sequence[str]) -> Batch:
        """Return new lines with the same origins. Raises StreamError if their number differs.

        lines: a new line for each old line
        """
        if len(lines) != len(self):
            raise StreamError(
                f"{len(lines)} lines were made from {len(self)}; first drop or repeat lines with take()"
            )
        return Batch((), Column.of(lines), self.origins)

    def keep(self, wanted: Callable[[str], bool]) -> Batch:
        """Return the wanted lines.

        wanted: takes a line, returns True to keep it
        """
        is_wanted = np.fromiter(map(wanted, self.lines), bool, len(self))
        return self.take(is_wanted)


def joined(batches: Sequence[Batch]) -> Batch:
    if not batches:
        return Batch((), None, np.zeros(0, np.int64))
    if len(batches) == 1:
        return batches[0]
    return together(batches, np.arange(sum(map(len, batches))))


def together(parts: Sequence[Batch], order: Longs) -> Batch:
    """Join batches and reorder their lines. order: (n,) indices of lines in the joined batch"""
    n_columns = max(len(part.columns) for part in parts)
    parts = [part.split(n_columns) for part in parts]
    columns = [
        concatenated(field).take(order)
        for field in zip(*(part.columns for part in parts), strict=True)
    ]
    rest = None
    if any(part.rest is not None for part in parts):
        rests = [part.rest or Column.missing(len(part)) for part in parts]
        rest = concatenated(rests).take(order)
    origins = np.concatenate([part.origins for part in parts])[order]
    return Batch(tuple(columns), rest, origins)
