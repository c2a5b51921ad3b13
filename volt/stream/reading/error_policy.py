"""`ErrorPolicy`: what to do with unfit lines (stop, skip, or write to a file), and how many to allow.

    Fault("train.tsv", 17, "blank: no text")   kind "blank", place "train.tsv:17"

`compute_chunk` records the faults of a chunk. `Engine` charges them to a `FaultCounter` when the
stream reaches the chunk, so that the effect is the same for any number of workers.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from volt import arguments
from volt.errors import ConfigError, OutputError, StreamError, shown_path
from volt.urls import url_of

OnFault = Literal["raise", "skip", "quarantine"]
MIN_READ = 1000  # lines to read before max_share is checked


@dataclass(frozen=True, slots=True)
class Fault:
    """An unfit line.

    path: the file.
    line: the line's number in the file, from 1; 0 for the whole file.
    reason: why the line is unfit: the kind of fault, a colon, and details.
    text: the line itself, if it is written to the quarantine file.
    trace: the traceback of user code, for the first fault of a block.
    """

    path: str
    line: int
    reason: str
    text: str = ""
    trace: str = ""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The policy for unfit lines.

    on_fault: what to do with an unfit line, or a file that cannot be opened: "raise" stops, "skip"
        skips and counts it, "quarantine" also writes it to a file.
    quarantine: the file to which unfit lines are appended, as JSON lines with `place`, `reason` and
        `line`.
    max_faults: the maximum number of unfit lines.
    max_share: the maximum share of unfit lines, checked once 1,000 lines have been read.

    >>> ErrorPolicy("skip", max_faults=1).on_fault
    'skip'
    """

    on_fault: OnFault = "raise"
    quarantine: str | None = None
    max_faults: int | None = None
    max_share: float | None = None

    def __post_init__(self) -> None:
        arguments.choice(self.on_fault, "on_fault", get_args(OnFault))
        if (self.on_fault == "quarantine") != (self.quarantine is not None):
            raise ConfigError(
                f"on_fault={self.on_fault!r}: give a quarantine file if, and only if, it is 'quarantine'"
            )
        if self.quarantine is not None:
            arguments.path(self.quarantine, "quarantine")
        max_faults = arguments.whole(self.max_faults or 0, "max_faults")
        if max_faults < 0 or not 0 <= arguments.number(self.max_share or 0, "max_share") <= 1:
            limits = f"max_faults={self.max_faults}, max_share={self.max_share}"
            raise ConfigError(f"{limits}: give a count of 0 or more, and a share from 0 to 1")


def kind_of(fault: Fault) -> str:
    """Return the kind of a fault: the text before the colon."""
    return fault.reason.partition(":")[0]


def check_quarantine(path: str) -> None:
    """Raise OutputError if a quarantine file cannot be appended to."""
    folder = os.path.dirname(os.path.realpath(path))
    problem = ""
    if url_of(path):
        problem = "it is a URL; name a local file"
    elif os.path.isdir(path):
        problem = "it is a folder; name a file"
    elif not os.path.isdir(folder):
        problem = "no such folder; create the folder, or name another file"
    elif not os.access(path if os.path.exists(path) else folder, os.W_OK):
        problem = "permission denied; name another file"
    if problem:
        raise OutputError(f"{shown_path(path)}: cannot be appended to: {problem}")


def has_content(path: str | None) -> bool:
    return path is not None and os.path.isfile(path) and os.path.getsize(path) > 0


@dataclass(slots=True)
class FaultCounter:
    """Counts lines and unfit lines, and raises StreamError at the policy's limit."""

    policy: ErrorPolicy
    n_read: int = 0
    n_faults: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.policy.quarantine is not None:
            check_quarantine(self.policy.quarantine)

    def charge(self, *, n_read: int, faults: Sequence[Fault]) -> None:
        """Count lines read, and the unfit lines among them; write these to the quarantine file, if
        any."""
        self.n_read += n_read
        self.n_faults += len(faults)
        self.reasons.update(map(kind_of, faults))
        if not faults:
            return
        if self.policy.quarantine is not None:
            self._quarantine(self.policy.quarantine, faults)
        max_faults = self.policy.max_faults
        max_share = self.policy.max_share
        if max_faults is not None and self.n_faults > max_faults:
            limit = f"max_faults={max_faults}"
        elif (
            max_share is None or self.n_read < MIN_READ or self.n_faults <= max_share * self.n_read
        ):
            return
        else:
            limit = f"max_share={max_share}"
        last = faults[-1]
        counts = f"unfit lines: {self.n_faults} of {self.n_read}, more than {limit} allows"
        raise StreamError(f"{last.place}: {last.reason}; {counts}; fix the data")

    def _quarantine(self, path: str, faults: Sequence[Fault]) -> None:
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                for fault in faults:
                    row = {"place": fault.place, "reason": fault.reason, "line": fault.text}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
        except OSError as error:
            raise OutputError(
                f"{path}: cannot be appended to ({error.strerror or error}); make it writable"
            ) from error
