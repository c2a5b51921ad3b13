r"""Save the position of a run, so that a later run continues there.

A run with --state FILE saves the stream's state after a line. Which line depends on --ack:

    without --ack   the last line that was written to stdout
    with --ack      the last line that the consumer, which reads stdout, has used

A consumer reports how many lines it has used, over all runs, as decimal numbers. --ack names either
a file that contains the number, or a descriptor from which numbers are read, one a line. The last
number counts:

>>> parse_last_number(b"12\n150\n"), parse_last_number(b""), parse_last_number(b"line 7\n")
(150, None, None)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from volt.errors import ConfigError, StreamError, quoted, shown_path, unreadable
from volt.files.atomic import check_writable, identity
from volt.files.paths import is_file
from volt_cli.console import Phases, say
from volt_cli.io import is_stdout
from volt_cli.options import flag

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream

_READ_BYTES = 1 << 16  # read at once from the descriptor of --ack
_MAX_SHOWN_BYTES = 100  # of a consumer's report in an error
_SKIP_LINES = 1 << 16  # lines that are skipped between two updates of the progress bar

Force = Annotated[
    bool,
    flag("Start from the beginning, and replace an earlier run's position in --state.", "--force"),
]


def check_files(stdout_content: str, **paths: Path | None) -> None:
    """Raise ConfigError if an option's file is stdout or cannot be written.

    stdout_content: what the command writes to stdout, such as "the lines"
    paths: option without dashes → its file
    """
    for name, path in paths.items():
        if is_stdout(path):
            raise ConfigError(f"--{name} {path}: stdout is for {stdout_content}; name a file")
        if path is not None:
            check_writable(path)


def check_replaceable_state(
    state: Path | None, *, resume: bool, force: bool, from_state: Path | None = None, unit: str
) -> None:
    """Raise ConfigError if a run would replace the position of an earlier run without --force.

    state: file of --state
    from_state: the state from which the run starts; it may be replaced
    unit: the unit of positions: "line" or "step"
    """
    if resume and force:
        raise ConfigError(
            "--resume continues an earlier run, and --force starts from the beginning; give one of them"
        )
    if state is None or resume or force or not is_file(state):
        return
    if from_state is not None and identity(state) == identity(from_state):
        return
    position = _read_position(state)
    if position is None:
        raise ConfigError(
            f"--state {shown_path(state)}: contains no position; name another file, or add --force"
        )
    if position:
        raise ConfigError(
            f"--state {shown_path(state)}: contains the position of an earlier run, after {unit} {position:,}; "
            "add --resume to continue there, or --force to start from the beginning"
        )


def _read_position(state: Path) -> int | None:
    """Return the number of lines or steps before a saved state; None if the file is not a state."""
    from volt.stream.running.checkpoint import read_state

    try:
        n = read_state(state).get("n")
    except StreamError:
        return None
    return n if isinstance(n, int) else None


def parse_last_number(text: bytes) -> int | None:
    """Return the last line of a text as a number; None if that line is not a whole number."""
    last_line = text.rstrip().rpartition(b"\n")[2].strip()
    return int(last_line) if last_line.isdigit() else None


class Consumer:
    """Counts the lines that the program that reads stdout has used, over all runs.

    ack: value of --ack: the path of a file or the number of a descriptor; None if the consumer does
        not report
    n_used: the greatest number that the consumer has reported; None before its first report
    descriptor: the number of the descriptor, if --ack names one; the run calls `receive` when it is
        readable
    """

    def __init__(self, ack: str | None) -> None:
        self.reports = ack is not None
        self.n_used: int | None = None
        self.descriptor: int | None = None
        self._path: Path | None = None
        self._incomplete_line = b""
        if ack and ack.isdigit():
            self.descriptor = int(ack)
            try:
                os.fstat(self.descriptor)
            except OSError:
                raise ConfigError(
                    f"--ack {ack}: descriptor is not open; redirect it, as in {ack}<fifo"
                ) from None
        elif ack:
            self._path = Path(ack)

    def read_n_used(self) -> int | None:
        """Read the file of --ack, if any, and return `n_used`.

        Raises StreamError if the file contains no number.
        """
        if self._path is None:
            return self.n_used
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return self.n_used
        except OSError as error:
            raise unreadable(
                self._path, error, kind=StreamError, remedy="fix it, or run without --ack"
            ) from None
        n_used = parse_last_number(content)
        if n_used is None and content.strip():
            report = quoted(content[:_MAX_SHOWN_BYTES].decode(errors="replace").strip())
            raise StreamError(
                f"--ack {shown_path(self._path)}: {report} is not a number of lines; write how many lines are used"
            )
        self._raise_n_used(n_used)
        return self.n_used

    def receive(self) -> bool:
        """Read reports from the descriptor of --ack; return False at its end."""
        data = os.read(self.descriptor or 0, _READ_BYTES)
        whole_lines, _, self._incomplete_line = (self._incomplete_line + data).rpartition(b"\n")
        self._raise_n_used(parse_last_number(whole_lines))
        return bool(data)

    def _raise_n_used(self, n_used: int | None) -> None:
        if n_used is not None and n_used > (self.n_used or 0):
            self.n_used = n_used


class Positions:
    """Saves the states of a run.

    stream: the opened stream, restored to where the run starts
    path: the file of --state; if None, nothing is saved
    first_line: number of the stream's first line in this run; earlier runs have delivered the lines
        before it
    """

    def __init__(self, stream: Stream, consumer: Consumer, path: Path | None) -> None:
        self.first_line = stream.n
        self._stream = stream
        self._consumer = consumer
        self._path = path
        self._saved_line = -1  # number of lines before the saved state
        self._prepared: tuple[int, dict[str, Any]] | None = None  # number of lines, their state
        self._has_warned = False

    def skip_used(self, *, quiet: bool = False) -> None:
        """Skip the lines that the consumer has used since the state was saved."""
        stream = self._stream
        first_line = stream.n
        n_used = self._consumer.read_n_used()
        if n_used is None or n_used <= first_line:
            return
        if not quiet:
            say(
                f"--ack: skipping from line {first_line:,} to line {n_used:,}, up to which the consumer "
                "has used lines"
            )
        n_skipped = n_used - first_line
        with Phases(quiet=quiet).phase("skipping", total=n_skipped, unit="lines") as advance:
            while stream.skip(min(n_used - stream.n, _SKIP_LINES)):
                advance(stream.n - first_line)
        if stream.n < n_used:
            raise StreamError(
                f"--ack: {n_used} lines are used, but the stream has {stream.n}; check the file"
            )
        self.first_line = stream.n

    def save(self, n_written: int) -> None:
        """Save the state after the last used or written line.

        n_written: number of written lines, over all runs
        """
        self.prepare(n_written)
        self.save_prepared()

    def prepare(self, n_written: int) -> None:
        """Compute the state to save; `save_prepared` can save it even after an interrupt."""
        line = self._choose_line(n_written)
        if self._path is None or line == self._saved_line:
            return
        try:
            self._prepared = line, self._stream.state(at=line)
        except StreamError as error:
            # the stream has forgotten the state after a line used long ago
            if not self._has_warned:
                say(f"the saved state stays as it was: {error}")
            self._has_warned = True

    def save_prepared(self) -> None:
        """Write the prepared state.

        Raises StreamError if the file contains the state of another rank.
        """
        from volt.stream.running.checkpoint import check_rank_of_file, save_state

        if self._path is None or self._prepared is None:
            return
        line, state = self._prepared
        check_rank_of_file(self._path, self._stream.rank, self._stream.world)
        save_state(state, self._path)
        self._saved_line = line
        self._prepared = None

    def _choose_line(self, n_written: int) -> int:
        """Return the number of lines after which the state is saved."""
        if not self._consumer.reports:
            return n_written
        n_used = self._consumer.read_n_used()
        if n_used is not None and n_used > n_written:
            raise StreamError(
                f"--ack: {n_used} lines are reported as used, but only {n_written} were written; count from 0"
            )
        return max(self.first_line, n_used or 0)
