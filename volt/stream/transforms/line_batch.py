r"""The input of a transform: a `Batch`, the lines of a block as columns, with each line's number in
its source (its origin); and a `LineRng`, random numbers for each line.

Lines are split at tabs only as far as a transform reads their fields. The text after the last field
read is the column `rest`:

    lines "a\tb\tc", "d"      columns ()                           rest "a\tb\tc", "d"
    after split(1)           columns (("a", "d"),)                rest "b\tc", missing
    after split(2)           columns (("a", "d"), ("b", missing)) rest "c", missing

A line's random numbers are a function of (seed, source, epoch, step) and its origin. Other lines
have no influence, except that adjacent copies of a line (`repeat`) are numbered, and so draw
different numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.array_types import Bytes, Floats, Longs
from volt.display import counted
from volt.errors import StreamError
from volt.stream.transforms.column import Chosen, Column, as_indices, concatenate, split_at
from volt.stream.transforms.column_measurements import count_bytes

Bits = NDArray[np.uint64]
Place = str | int
_FRACTION_BITS = 53  # of a double
_MOST_KEY = (1 << 64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    r"""The lines of a block on their way through its transforms.

    columns: the fields that lines have been split into so far, in order from field 1.
    rest: the text after these fields, not yet split at tabs; missing in lines without such text,
        None if no line has such text.
    origins: (n_lines,) int64, the number of each line in its source; a line that was joined from
        several has the number of the first.

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

        starts = np.empty((n_more + 1, len(self)), np.int64)  # a row for each field, and the rest
        sizes = np.empty_like(starts)
        has_rest = cut(*self.rest.views, starts, sizes)
        views = zip(starts, sizes, strict=True)
        *columns, rest = [Column(self.rest.data, *view) for view in views]
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
        return self._map_columns(lambda column: column.take(chosen), self.origins[chosen])

    def compact(self) -> Batch:
        """Return the lines in new, unshared buffers."""
        return self._map_columns(Column.compact, self.origins)

    def _map_columns(self, function: Callable[[Column], Column], origins: Longs) -> Batch:
        rest = None if self.rest is None else function(self.rest)
        return Batch(tuple(map(function, self.columns)), rest, origins)

    def packed(self) -> tuple[Bytes, Longs]:
        """Return the lines as bytes, each with a line feed, and (n_lines,) int64, where each
        ends. A missing field before a present one is empty."""
        columns = [column.as_text() for column in self.all_columns()]
        if len(columns) == 1:
            return columns[0].packed()
        columns = _fill_gaps(columns)
        from volt.kernels.columns import put_values

        sizes = np.zeros(len(self), np.int64)
        for column in columns:
            sizes += np.maximum(column.sizes + 1, 0)  # with a tab or line feed
        sizes = np.maximum(sizes, 1)  # for a line without fields
        ends = np.cumsum(sizes)

        # Column after column, write each line's value, and move the line's position after it
        out = np.empty(int(sizes.sum()), np.uint8)
        positions = ends - sizes
        tab = np.frombuffer(b"\t", np.uint8)
        nothing = tab[:0]
        before = nothing
        for column in columns:
            put_values(*column.views, before, nothing, out, positions)
            before = tab
        out[positions] = ord("\n")
        return out, ends

    def all_columns(self) -> tuple[Column, ...]:
        """Return the columns, and the rest, if any line has one."""
        return self.columns if self.rest is None else (*self.columns, self.rest)

    @property
    def lines(self) -> list[str]:
        """The lines as strings, in a new list."""
        columns = self.all_columns()
        if len(columns) == 1:
            return columns[0].strings()
        return split_at(*self.packed(), gap=1).strings()

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


def concatenate_batches(batches: Sequence[Batch]) -> Batch:
    """Return the lines of all batches, batch after batch."""
    if not batches:
        return Batch((), None, np.zeros(0, np.int64))
    if len(batches) == 1:
        return batches[0]
    return merge_batches(batches, np.arange(sum(map(len, batches))))


def merge_batches(batches: Sequence[Batch], order: Longs) -> Batch:
    """Return the lines of all batches in another order.

    order: (n,) the indices of the result's lines, if all batches were concatenated
    """
    n_columns = max(len(batch.columns) for batch in batches)
    batches = [batch.split(n_columns) for batch in batches]
    columns = list[Column]()
    for index in range(n_columns):
        field = concatenate([batch.columns[index] for batch in batches])
        columns.append(field.take(order))
    rest = None
    if any(batch.rest is not None for batch in batches):
        rests = [batch.rest or Column.missing(len(batch)) for batch in batches]
        rest = concatenate(rests).take(order)
    origins = np.concatenate([batch.origins for batch in batches])[order]
    return Batch(tuple(columns), rest, origins)


def key(*place: Place) -> int:
    digest = blake2b(json.dumps(place).encode(), digest_size=16)
    return int.from_bytes(digest.digest(), "little")


def as_uniform(words: Bits) -> Floats:
    highest = words >> np.uint64(64 - _FRACTION_BITS)
    result: Floats = np.ldexp(highest.astype(np.float64), -_FRACTION_BITS)
    return result


def _fill_gaps(columns: Sequence[Column]) -> list[Column]:
    """Return the columns, with an empty value for each missing one before a present one."""
    result = list(columns)
    is_present = np.zeros(len(columns[0]), bool)
    for index in reversed(range(len(columns))):
        column = columns[index]
        gaps = is_present & ~column.present
        if gaps.any():
            result[index] = Column(column.data, column.starts, np.where(gaps, 0, column.sizes))
        is_present |= column.present
    return result


@dataclass(frozen=True, slots=True)
class LineRng:
    """The random numbers of one step in one epoch of a source.

    first, second: the key, 64 bits each.

    >>> rng = LineRng.of(1, "wmt", 0, 0)
    >>> alone, among = rng.uniform(np.array([7])), rng.uniform(np.array([3, 7, 9]))
    >>> bool(alone[0] == among[1])
    True
    """

    first: int
    second: int

    def __post_init__(self) -> None:
        arguments.whole(self.first, "first", low=0, high=_MOST_KEY)
        arguments.whole(self.second, "second", low=0, high=_MOST_KEY)

    @classmethod
    def of(cls, *place: Place) -> LineRng:
        """Return the `LineRng` of a step and epoch in a stream; it is equal on every machine.

        place: names and numbers, such as seed, source, epoch, step
        """
        result = key(*place)
        return cls(result & _MOST_KEY, result >> 64)

    def at(self, name: Place) -> LineRng:
        """Return independent random numbers for the same lines.

        name: the draw's name, unique within the step
        """
        return LineRng.of(self.first, self.second, name)

    def words(self, origins: Longs) -> Bits:
        """Return 64 random bits for each line.

        origins: (n,) the `Batch`'s origins
        """
        from volt.kernels.columns import draw

        out = np.empty(len(origins), np.uint64)
        draw(np.uint64(self.first), np.uint64(self.second), origins, out)
        return out

    def uniform(self, origins: Longs) -> Floats:
        """Return (n,) numbers in [0, 1).

        origins: (n,) the `Batch`'s origins
        """
        return as_uniform(self.words(origins))

    def integers(self, origins: Longs, low: int, high: int) -> Longs:
        """Return (n,) whole numbers, all equally probable.

        origins: (n,) the `Batch`'s origins
        low, high: the least and the greatest number, both included
        """
        scaled = self.uniform(origins) * (high - low + 1)
        return low + np.floor(scaled).astype(np.int64)

    def generators(self, origins: Longs) -> Iterator[np.random.Generator]:
        """Yield a NumPy generator for each line; it is valid only until the next generator is
        requested.

        origins: (n,) the `Batch`'s origins
        """
        # One for all lines: creating a generator takes ten times as long as setting its state
        bits = np.random.SFC64(0)
        generator = np.random.Generator(bits)
        state = bits.state
        words = state["state"]["state"]
        words[3] = 1  # the generator's counter

        drawn = [self.at(f"word {number}").words(origins) for number in range(3)]
        for row in np.stack(drawn, axis=1):
            words[:3] = row
            bits.state = state
            yield generator
