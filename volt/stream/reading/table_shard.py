"""A table (JSON lines, Parquet) → pieces of rows, read as columns: texts, or lists of whole numbers (ids).

Rows are looked at once, when the file is indexed: its named columns are copied to the cache, each piece an LZ4 frame of
an Arrow batch. What is no row is refused there, by file and line, before anything is read from it. A row with a tab or
a line feed in a text is no line: `is_clean` says whether there is none, `shifting_lines` where they are.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file, tempfile.TemporaryDirectory() as cache:
...     _ = file.write(b'{"id": 7, "text": {"de": "eins", "en": "one"}}\\n') and file.flush()
...     fields = {"src": "text.de", "tgt": "text.en"}
...     shard = open_table(file.name, fields, split_lines=100, cache=Path(cache))
...     shard.names, [column.strings() for column in shard.read(0)]
(('src', 'tgt'), [['eins'], ['one']])
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError, CorpusError
from volt.files.long_lines import MAX_LINE, long_line_error
from volt.files.remote_copies import at_hand
from volt.stream.reading.file_shard import Facts, FileShard, Indexed, as_stream_errors, kept_index
from volt.stream.reading.json_rows import json_rows
from volt.stream.reading.parquet_rows import is_parquet, parquet_rows
from volt.stream.reading.pieces import noted
from volt.stream.reading.shard import check_is_file, identity_of, shifting_lines
from volt.stream.reading.shard_cache import Entry, default_cache
from volt.stream.transforms.column import Column

if TYPE_CHECKING:
    import pyarrow

_FIELDS = "give names and columns, such as {src: translation.de, tgt: translation.en}"


@dataclass(frozen=True, slots=True)
class TableShard(FileShard):
    """A table that has been indexed, and the named columns copied."""

    @property
    def is_clean(self) -> bool:
        """Whether each row is a line."""
        return not self.facts.first_tab

    def read(self, piece: int) -> tuple[Column, ...]:
        """The rows of a piece, a column for each name."""
        import pyarrow as pa

        batch = pa.ipc.open_stream(self.pieces.read(piece)).read_next_batch()
        return tuple(Column.from_arrow(column) for column in batch.columns)


def open_table(
    path: str, fields: Mapping[str, str], *, split_lines: int | None, cache: Path | None = None,
    max_line: int | None = MAX_LINE,
) -> TableShard:  # fmt: skip
    """Index a table, or find its index in the cache. A file that is not Parquet is taken as JSON lines.

    fields: name → key or column; a dot leads into an object
    split_lines: rows per piece; None makes a piece of each row group, or of 131,072 JSON lines
    max_line: the most bytes of a row's texts; None for no limit
    Raises StreamError if the file is missing or damaged, a column is nowhere, one is no text
    and no list of whole numbers, or the cache cannot be written.
    """
    if not arguments.mapping(fields, "fields", remedy=_FIELDS):
        raise ConfigError(f"fields is empty; {_FIELDS}")
    told = {arguments.text(name, "fields"): arguments.text(key, f"fields[{name!r}]") for name, key in fields.items()}
    with as_stream_errors(path):
        check_is_file(path)
        entry = Entry.of(cache or default_cache(), identity_of(path), "table", split_lines, list(told.values()))

        def make() -> Indexed:
            rows = parquet_rows if is_parquet(path) else json_rows
            with at_hand(path, kind=CorpusError) if rows is parquet_rows else nullcontext(path) as place:
                look = _Look(path, max_line)
                cut = look.at(rows(str(place), tuple(told.values()), n=split_lines, max_line=max_line))
                return noted(path, "frames", cut, copy=entry.copy), look.facts()

        return TableShard(*kept_index(entry, path, max_line=max_line, make=make), fields=tuple(told))


class _Look:
    """Looks at the batches that pass, and notes what they are like."""

    def __init__(self, path: str, max_line: int | None) -> None:
        self.path, self.max_line = path, max_line
        self.n_rows = self.n_bytes = self.longest = self.first_unfit = 0
        self.hashes = list[tuple[blake2b, blake2b]]()

    def at(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[tuple[bytes, int]]:
        """The batches as bytes, each with how many rows it holds."""
        for batch in batches:
            columns = [Column.from_arrow(column) for column in batch.columns]
            if not self.first_unfit and (unfit := shifting_lines(columns)):
                self.first_unfit = self.n_rows + min(unfit) + 1
            self._measure(columns)
            self._digest(columns)
            self.n_rows += len(batch)
            yield _packed(batch), len(batch)

    def facts(self) -> Facts:
        """What they were like."""
        told = [[values.hexdigest(), sizes.hexdigest()] for values, sizes in self.hashes]
        digest = blake2b(json.dumps(told).encode(), digest_size=16).hexdigest()
        return Facts(self.n_bytes, self.longest, self.first_unfit, digest)

    def _measure(self, columns: list[Column]) -> None:
        sizes = sum((_bytes_of(column) for column in columns), np.full(len(columns[0]), len(columns) - 1))
        self.n_bytes += int(sizes.sum()) + len(sizes)
        self.longest = max(self.longest, int(sizes.max(initial=0)))
        if self.max_line is not None and self.longest > self.max_line:
            raise long_line_error(self.path, self.n_rows + int(np.argmax(sizes)) + 1, self.max_line)

    def _digest(self, columns: list[Column]) -> None:
        self.hashes = self.hashes or [(blake2b(digest_size=16), blake2b(digest_size=16)) for _ in columns]
        for column, (values, sizes) in zip(columns, self.hashes, strict=True):
            values.update(column.text().data)
            sizes.update(column.sizes.tobytes())


def _bytes_of(column: Column) -> NDArray[np.int64]:
    """(n,) the bytes of each value as text."""
    sizes: NDArray[np.int64] = np.maximum(column.as_text().sizes, 0)
    return sizes


def _packed(batch: pyarrow.RecordBatch) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
