"""Lines in, lines out: what `encode` and `decode` read and write. A line that comes is answered before one waits on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from volt_cli.places import is_stdout

if TYPE_CHECKING:
    from volt.files.blocks import Block, Errors
    from volt.files.waiting import Wait

BLOCK_SIZE = 1 << 20  # bytes, at most, of text whose lines are decoded at once


def text_blocks(
    files: list[str] | None, *, errors: Errors, max_line: int | None, wait: Wait | None = None
) -> Iterator[Block]:
    """Blocks of the files, or of stdin.

    max_line: as in `read_blocks`
    wait: how pipes are waited for, once the lines that have come are given
    """
    from volt.files.blocks import read_blocks
    from volt.files.paths import expand

    for path in expand(files or ["-"]):
        yield from read_blocks(path, block_size=BLOCK_SIZE, errors=errors, max_line=max_line, wait=wait)


def read_lines(files: list[str] | None, **reading: Any) -> Iterator[list[str]]:
    """Lists of lines of the files, or of stdin; a line ends at "\\n" or "\\r\\n". reading: as in `text_blocks`."""
    for block in text_blocks(files, **reading):
        lines = block.data.decode().split("\n")
        yield [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def waiting_beside(place: str | Path) -> Wait:
    """How input is waited for while output goes to a place: no longer than stdout has a reader, if it goes there."""
    from volt.files.waiting import is_ready

    try:
        return partial(is_ready, outlet=sys.stdout.fileno()) if is_stdout(place) else is_ready
    except OSError:  # what stands in for stdout is no file
        return is_ready


def is_conversation(paths: Sequence[str], place: str | Path) -> bool:
    """Whether people type the lines or look at the answers, where a moving bar would stand between them."""
    return ("-" in paths and sys.stdin.isatty()) or (is_stdout(place) and sys.stdout.isatty())


def open_output(place: Path) -> AbstractContextManager[BinaryIO]:
    """A file that appears when it is complete, or stdout, to which lines go as they come."""
    from volt.files.atomic import write_atomic

    return nullcontext(sys.stdout.buffer) if is_stdout(place) else write_atomic(place)


def write_each(file: BinaryIO, texts: Iterable[bytes]) -> None:
    """Write texts so that each can be read before the next is asked for.

    >>> import io
    >>> file = io.BytesIO()
    >>> write_each(file, [b"low\\n", b"lower\\n"])
    >>> file.getvalue()
    b'low\\nlower\\n'
    """
    for text in texts:
        file.write(text)
        file.flush()
