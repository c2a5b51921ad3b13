"""The words of shards: kept for each shard while others are made, and in the end those of all, as a table of text.

    word, tab, count        as `volt.count_words(…, word_counts=True)` reads it

>>> import tempfile
>>> from volt.count.word_counts import WordCounts
>>> with tempfile.TemporaryDirectory() as folder:
...     notes = [Path(folder, name) for name in "ab"]
...     for note in notes:
...         _ = store_table(note, WordCounts.from_pairs({"low": 2}).part)
...     write_words(Path(folder), "src", notes).name, Path(folder, "words.src.tsv").read_text()
('words.src.tsv', 'low\\t4\\n')
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

import polars as pl

from volt.count.summing import CountedPart, summed
from volt.files.atomic import write_atomic
from volt.stream.tasks.shard_folder import WrittenFile


def store_table(path: Path, part: CountedPart) -> WrittenFile:
    """Keep the words of a shard."""
    room = BytesIO()
    part.table.write_ipc(room, compression="zstd")
    return _written(path, room)


def write_words(folder: Path, side: str, notes: Iterable[Path]) -> WrittenFile:
    """Write the words of a side of all shards, sorted. notes: where they were kept"""
    tables = (pl.read_ipc(BytesIO(note.read_bytes())) for note in notes)
    total, room = summed(CountedPart(table, 0, 0, 0) for table in tables), BytesIO()
    total.table.write_csv(room, include_header=False, separator="\t", quote_style="never")
    return _written(folder / f"words.{side}.tsv", room)


def _written(path: Path, room: BytesIO) -> WrittenFile:
    data = room.getbuffer()
    with write_atomic(path) as file:
        file.write(data)
    return WrittenFile(path.name, len(data), blake2b(data, digest_size=16).hexdigest())
