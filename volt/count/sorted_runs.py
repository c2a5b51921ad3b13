"""Tables of words on the disk, each sorted, and their sum, read a few rows of each at a time.

    table → sorted run → … → all runs merged: words in order, each once, with the sum of its counts

Of `MOST` runs of one level one run of the next is made, so that few files are open however much is written.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     runs = SortedRuns(Path(folder))
...     runs.write(pl.DataFrame({"word": ["a", "c"], "count": [1, 2]}))
...     runs.write(pl.DataFrame({"word": ["b", "c"], "count": [5, 1]}))
...     [row for table in runs.merged() for row in table.rows()]
[('a', 1), ('b', 5), ('c', 3)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from volt.errors import CorpusError, reason

_MOST, _ROWS = 32, 1 << 16
_COUNT = pl.col("count")


class SortedRuns:
    """Runs in a folder.

    most: how many of one level there are at most
    rows: of a run, that are in memory at once
    """

    def __init__(self, folder: Path, *, most: int = _MOST, rows: int = _ROWS) -> None:
        self._folder, self._most, self._rows = folder, most, rows
        self._levels, self._n = list[list[Path]](), 0

    def write(self, table: pl.DataFrame) -> None:
        """Add a run. table: columns word and count, sorted by word, no word twice.

        Raises CorpusError if the disk is full.
        """
        self._add([table], level=0)

    def merged(self) -> Iterator[pl.DataFrame]:
        """The sum of all runs, as tables that follow each other in the order of words."""
        return self._merge([path for level in self._levels for path in level])

    def _add(self, tables: Iterable[pl.DataFrame], level: int) -> None:
        path = self._folder / f"{self._n}.arrow"
        self._n += 1
        _write(path, tables, rows=self._rows)
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(path)
        if len(full := self._levels[level]) == self._most:
            self._levels[level] = []
            self._add(self._merge(full), level + 1)
            for part in full:
                part.unlink()

    def _merge(self, paths: list[Path]) -> Iterator[pl.DataFrame]:
        runs = [_read(path) for path in paths]
        heads = {number: head for number, run in enumerate(runs) if (head := next(run, None)) is not None}
        while heads:
            last = min(head["word"][-1] for head in heads.values())  # what is up to here is in memory, of every run
            taken = list[pl.DataFrame]()
            for number, head in [*heads.items()]:
                end = head["word"].search_sorted(last, side="right")
                taken.append(head[:end])
                rest = head[end:] if end < head.height else next(runs[number], None)
                if rest is None:
                    del heads[number]
                else:
                    heads[number] = rest
            yield pl.concat(taken).group_by("word").agg(_COUNT.sum()).sort("word")


def _write(path: Path, tables: Iterable[pl.DataFrame], *, rows: int) -> None:
    import pyarrow as pa
    from pyarrow import ipc

    schema = pa.schema([("word", pa.large_string()), ("count", pa.int64())])
    options = ipc.IpcWriteOptions(compression="lz4")
    try:
        with path.open("wb") as file, ipc.new_stream(file, schema, options=options) as writer:
            for table in tables:
                for part in table.iter_slices(rows):
                    writer.write_table(part.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema))
    except OSError as error:
        raise CorpusError(
            f"{path.parent}: words beyond the memory cannot be written there: {reason(error)}; set TMPDIR to a "
            "folder with more room"
        ) from error


def _read(path: Path) -> Iterator[pl.DataFrame]:
    import pyarrow as pa
    from pyarrow import ipc

    with path.open("rb") as file, ipc.open_stream(file) as reader:
        for batch in reader:
            if batch.num_rows:
                yield pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch])))
