"""Lines in, lines out: what `encode` and `decode` read and write."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from volt.files.blocks import Errors

BLOCK_SIZE = 1 << 20  # bytes; small, so that a pipe's reader does not wait long


def read_lines(files: list[str] | None, *, errors: str) -> Iterator[list[str]]:
    """Lists of lines of the files, or of stdin; a line ends at "\\n" or "\\r\\n"."""
    from volt.files.blocks import read_blocks
    from volt.files.paths import expand

    policy = checked_errors(errors)
    for path in expand(files or ["-"]):
        for block in read_blocks(path, errors=policy, block_size=BLOCK_SIZE):
            lines = block.data.decode().split("\n")
            yield [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def checked_errors(policy: str) -> Errors:
    """The value of --encoding-errors. Raises ConfigError if it is none."""
    from volt.errors import ConfigError

    match policy:
        case "strict" | "replace" | "skip":
            return policy
    raise ConfigError(f"--encoding-errors {policy!r}: choose from strict, replace, skip")


def open_output(path: Path | None) -> AbstractContextManager[BinaryIO]:
    """A file that appears when it is complete, or stdout."""
    from volt.files.atomic import write_atomic

    return nullcontext(sys.stdout.buffer) if path is None else write_atomic(path)
