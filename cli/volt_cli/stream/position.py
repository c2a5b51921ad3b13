"""Where a run stands for those who come after it: the consumer's word on what it has used, and the state on disk.

The consumer counts from the very first line of the stream, over all runs, and says how many lines it has used: as a
number in a file that it replaces, or as lines of numbers on a descriptor.

>>> parsed(b"12\\n150\\n"), parsed(b""), parsed(b"x\\n"), parsed(b"line 7\\n")
(150, None, None, None)
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.errors import ConfigError, StreamError, quoted, shown_path, unreadable
from volt.files.distinct import identity
from volt.files.sizes import is_file
from volt.files.whole import read_bytes
from volt_cli.console import Phases, say

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream

MOST_STATE = 1 << 28  # bytes of a file
_READ_SIZE = 1 << 16
_SHOWN = 100  # bytes of what the consumer wrote
_SKIPPED = 1 << 16  # lines between two looks at how far skipping has come


Force = Annotated[
    bool, typer.Option("--force", help="Start anew, and replace the position of an earlier run in --state.")
]


def check_kept(
    state: Path | None, *, resume: bool, force: bool, source: Path | None = None, unit: str = "line"
) -> None:
    """Raise ConfigError if a run would replace the position of an earlier run, which nobody has said to give up.

    state: the file that the run saves its position in
    source: the state that the run starts from, if it does not resume
    unit: what positions count
    """
    if resume and force:
        raise ConfigError("--resume continues an earlier run, and --force starts anew; give one of them")
    if state is None or resume or force or not is_file(state) or identity(state) == (source and identity(source)):
        return
    if (n := _saved_position(state)) is None:
        raise ConfigError(f"--state {shown_path(state)}: exists, and holds no position; name another, or say --force")
    if n:
        raise ConfigError(
            f"--state {shown_path(state)}: holds the position of an earlier run, after {unit} {n:,}; "
            "say --resume to continue there, or --force to start anew"
        )


def _saved_position(state: Path) -> int | None:
    """Return how many lines or steps a saved state counts; None for what is not a state."""
    try:
        n = json.loads(read_bytes(state, kind=StreamError, most=MOST_STATE))["n"]
    except (StreamError, ValueError, RecursionError, TypeError, KeyError):
        return None
    return n if isinstance(n, int) else None


def parsed(told: bytes) -> int | None:
    """The last line, if it is a whole number."""
    last = told.rstrip().rpartition(b"\n")[2].strip()
    return int(last) if last.isdigit() else None


def _said(told: bytes, path: Path) -> int | None:
    """The number in the consumer's file, if it has written one. Raises StreamError if it has written something else."""
    used = parsed(told)
    if used is None and told.strip():
        found = quoted(told[:_SHOWN].decode(errors="replace").strip())
        raise StreamError(f"--ack {shown_path(path)}: {found} is no number of lines; write how many are used")
    return used


class Consumer:
    """What the consumer has used. source: the path of a file, or the number of a descriptor; None for no consumer."""

    def __init__(self, source: str | None) -> None:
        self.used: int | None = None
        self._rest = b""
        self.descriptor = int(source) if source and source.isdigit() else None
        self._path = Path(source) if source and self.descriptor is None else None
        self.speaks = source is not None
        if self.descriptor is not None:
            try:
                os.fstat(self.descriptor)
            except OSError:
                raise ConfigError(
                    f"--ack {source}: this descriptor is not open; redirect it, as in {source}<fifo"
                ) from None

    def look(self) -> int | None:
        """How many lines it has used, as far as it has said."""
        if self._path is not None:
            told = None
            try:
                told = _said(self._path.read_bytes(), self._path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise unreadable(self._path, error, kind=StreamError, remedy="mend it, or run without --ack") from None
            self._advance(told)
        return self.used

    def listen(self) -> bool:
        """Read the descriptor; whether there may be more."""
        told = os.read(self.descriptor or 0, _READ_SIZE)
        whole, _, self._rest = (self._rest + told).rpartition(b"\n")
        self._advance(parsed(whole))
        return bool(told)

    def _advance(self, told: int | None) -> None:
        if told is not None and told > (self.used or 0):
            self.used = told


class Positions:
    """Saves a stream's state: behind the lines that the consumer has used, or that have left if it says nothing."""

    def __init__(self, stream: Stream, consumer: Consumer, path: Path | None) -> None:
        self._stream, self._consumer, self._path = stream, consumer, path
        self.first = stream.n
        self._saved, self._warned = -1, False
        self._prepared: tuple[int, dict[str, Any]] | None = None

    def skip_used(self, *, quiet: bool = False) -> None:
        """Go on behind what the consumer has used, if that is further than the state."""
        used = self._consumer.look()
        if used is not None and used > self._stream.n:
            self._skip_to(used, quiet=quiet)
            if self._stream.n < used:
                raise StreamError(
                    f"--ack: {used} lines are said to be used, but the stream ends after {self._stream.n}"
                )
        self.first = self._stream.n

    def _skip_to(self, used: int, *, quiet: bool) -> None:
        """Pass over lines, which takes as long as to compute them, until so many have gone by or the stream ends."""
        first = self._stream.n
        if not quiet:
            say(f"--ack: skipping from line {first:,} to line {used:,}, which the consumer has used")
        with Phases(quiet=quiet).phase("skipping", total=used - first, unit="lines") as advance:
            while (left := used - self._stream.n) and self._stream.skip(min(left, _SKIPPED)):
                advance(self._stream.n - first)

    def save(self, n_left: int) -> None:
        """Write the state, if there is where to. n_left: lines that have left."""
        self.prepare(n_left)
        self.save_prepared()

    def prepare(self, n_left: int) -> None:
        """Take the state now, so that it can be saved when the stream has been interrupted. n_left: as for `save`."""
        at = self._position(n_left)
        if self._path is None or at == self._saved:
            return
        try:
            self._prepared = at, self._stream.state(at=at)
        except StreamError as error:  # the consumer is further behind than can be recalled
            if not self._warned:
                say(f"the state stays as it was: {error}")
            self._warned = True

    def save_prepared(self) -> None:
        """Write the state that was taken last, if there is one that is not written.

        Raises StreamError if another rank of the run writes to the same file.
        """
        from volt.stream.running.state_file import check_own, save_state

        if self._path is not None and self._prepared is not None:
            at, state = self._prepared
            check_own(self._path, self._stream.rank, self._stream.world)
            save_state(state, self._path)
            self._saved, self._prepared = at, None

    def _position(self, n_left: int) -> int:
        if not self._consumer.speaks:
            return n_left
        used = self._consumer.look()
        if used is not None and used > n_left:
            raise StreamError(f"--ack: {used} lines are said to be used, but only {n_left} have left; count from 0")
        return max(self.first, used or 0)
