"""Lines to look at while a stream runs: the first five and every Nth, with their source and place in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volt.errors import OutputError, reason
from volt_cli.console import say

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream

_FIRST = 5


@dataclass(frozen=True, slots=True)
class Seen:
    """A line that is logged.

    number: in the stream, from 0
    place: its source, and the place in it
    line: its bytes, with the line end
    """

    number: int
    place: str
    line: bytes


def blocks_and_samples(stream: Stream, *, limit: int | None, every: int | None) -> Iterator[tuple[bytes, Seen | None]]:
    """The stream's lines, as `Stream.blocks` gives them, in blocks that end before and behind a line that is logged.

    every: log each line whose number, from 1, it divides; None logs none
    """
    if every is None:
        yield from ((data, None) for data in stream.blocks(limit=limit))
        return
    end = None if limit is None else stream.n + limit
    while end is None or stream.n < end:
        due = stream.n if stream.n < _FIRST else stream.n + every - 1 - stream.n % every
        for data in stream.blocks(limit=(due if end is None else min(due, end)) - stream.n):
            yield data, None
        if stream.n == end or (place := stream.place()) is None:
            return
        number, address, inside = place
        source, (epoch, start, *_) = stream.sources[number].name, address.part
        where = f"{source}, epoch {epoch}, block at {start}, chunk {address.chunk}, place {inside}"
        number = stream.n
        for data in stream.blocks(limit=1):
            yield data, Seen(number, where, data)


class Samples:
    """Tells of lines on stderr, and writes them to a file. path: of the file, which is written anew; None for none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        if path is not None:
            self._write(b"", "wb")

    def add(self, seen: Seen) -> None:
        """Tell of a line that has left."""
        say(f"line {seen.number:,} ({seen.place}): {seen.line.decode(errors='replace').rstrip()}")
        if self._path is not None:
            self._write(seen.line, "ab")

    def _write(self, data: bytes, mode: str) -> None:
        assert self._path is not None
        try:
            with self._path.open(mode) as file:
                file.write(data)
        except OSError as error:
            raise OutputError(f"--sample {self._path}: {reason(error)}; name another file") from None
