"""Lines in, lines out: what `encode` and `decode` read and write."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from volt_cli.places import is_stdout

if TYPE_CHECKING:
    from volt.files.blocks import Errors

BLOCK_SIZE = 1 << 20  # bytes; small, so that a pipe's reader does not wait long


def read_lines(files: list[str] | None, *, errors: Errors, max_line: int | None) -> Iterator[list[str]]:
    """Lists of lines of the files, or of stdin; a line ends at "\\n" or "\\r\\n". max_line: as in `read_blocks`."""
    from volt.files.blocks import read_blocks
    from volt.files.paths import expand

    for path in expand(files or ["-"]):
        for block in read_blocks(path, errors=errors, block_size=BLOCK_SIZE, max_line=max_line):
            lines = block.data.decode().split("\n")
            yield [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def open_output(place: Path) -> AbstractContextManager[BinaryIO]:
    """A file that appears when it is complete, or stdout, to which lines go as they come."""
    from volt.files.atomic import write_atomic

    return nullcontext(sys.stdout.buffer) if is_stdout(place) else write_atomic(place)
