"""`count_subwords`: count the tokens on the source and target sides of a stream's lines.

A vocabulary file lists the counts as lines of count, tab, subword, sorted by falling count, then by
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain

import numpy as np
import polars as pl

from volt import arguments
from volt.count.word_counts import CountedPart, sum_parts
from volt.display import counted
from volt.fork_guard import about_to_use_polars
from volt.stream.running.stream import Stream
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import N_SIDES
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.transform import special_tokens

N_LINES = 1_000_000
_WORD = pl.col("word")
_COUNT = pl.col("count")
_SPACE_TO_END = bytes.maketrans(b" ", b"\n")


@dataclass(frozen=True, slots=True, eq=False)
class SubwordCounts:
    """The counts of tokens.

    table: columns word and count (Int64, at least 1), in the order of the file.
    special: tokens that transforms add, such as language tags; all are in the table.
    n_lines: number of counted lines.

    >>> SubwordCounts(pl.DataFrame({"word": ["lo"], "count": [2]}), (), 1)
    <SubwordCounts: 1 token in 1 line>
    """

    table: pl.DataFrame
    special: tuple[str, ...]
    n_lines: int

    def __repr__(self) -> str:
        n_tokens = counted(self.table.height, "token")
        return f"<SubwordCounts: {n_tokens} in {counted(self.n_lines, 'line')}>"

    def top(self, n: int) -> SubwordCounts:
        """Return all special tokens, and the most frequent other tokens.

        n: the number of tokens in total, 1 or more
        """
        is_special = _WORD.is_in(self.special)
        n = arguments.whole(n, "n", low=1)
        n_others = max(0, n - len(self.special))
        is_frequent = (~is_special).cum_sum() <= n_others
        return replace(self, table=self.table.filter(is_special | is_frequent))

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        output = BytesIO()
        columns = self.table.select(_COUNT, _WORD)
        columns.write_csv(output, include_header=False, separator="\t", quote_style="never")
        return output.getvalue()


def count_subwords(
    stream: Stream, *, n_lines: int = N_LINES, progress: Callable[[int], object] | None = None
) -> SubwordCounts:
    r"""Count the tokens of a stream's next lines, on both sides.

    stream: a stream of text or of ids; its position advances
    n_lines: the maximum number of lines to count
    progress: called with the number of counted lines

    >>> import tempfile
    >>> from volt.stream.reading.source_definition import Source
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"lo w lo\n") and file.flush()
    ...     count_subwords(Stream([Source("words", (file.name,))]), n_lines=2).table.rows()
    [('lo', 4), ('w', 2)]
    """
    arguments.instance(stream, Stream, "stream")
    n_lines = arguments.whole(n_lines, "n_lines", low=1)
    progress = arguments.function(progress, "progress")
    first = stream.n
    about_to_use_polars()

    def count_blocks() -> Iterator[CountedPart]:
        for data in stream.blocks(limit=n_lines):
            lines = Column.cut(data)
            batch = Batch((), lines, np.arange(len(lines)))
            yield from map(_count_column, batch.split(N_SIDES).columns)
            if progress:
                progress(stream.n - first)

    total = sum_parts(count_blocks()).table
    transforms = chain.from_iterable(source.source.transforms for source in stream.sources)
    special = special_tokens(transforms)
    rows = {"word": special, "count": [1] * len(special)}
    missing = pl.DataFrame(rows, schema=total.schema).join(total, on="word", how="anti")
    table = pl.concat([total, missing])
    table = table.sort(_COUNT, _WORD, descending=[True, False])
    return SubwordCounts(table, special, stream.n - first)


def _count_column(column: Column) -> CountedPart:
    text = column.text().tobytes()
    tokens = Column.cut(text.translate(_SPACE_TO_END))
    array = tokens.take(tokens.sizes > 0).to_arrow()
    words = pl.Series("word", pl.from_arrow(array), pl.String)
    counts = words.value_counts()
    return CountedPart(counts.cast({"count": pl.Int64}))
