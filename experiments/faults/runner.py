"""Runs commands in children of a server, and says how each ended.

>>> Ended(0, 0.1, False, False, (), (0, 3, 2, 0, 1, 2, 1)).fired
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.faults.child import Child
from experiments.faults.injector import COUNT_ONLY, Fault


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. status: negative for a signal;  late: it was still running at its limit;  killed: the signal
    reached it;  left: its processes that outlived it;  counts: calls of each kind, and of faults."""

    status: int
    seconds: float
    late: bool
    killed: bool
    left: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def fired(self) -> bool:
        """Whether the fault happened."""
        return self.counts[-1] > 0


class ServerDied(Exception):
    """The server has ended or does not answer."""


class Server(Child):
    """A server process. shim: the library of `injector`, or None to replace Python's functions instead;  bare: with
    PYTHONUNBUFFERED, as containers often have it: what is written goes straight to the descriptor."""

    def __init__(self, shim: Path | None, *, bare: bool = False) -> None:
        own = {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2", "_RJEM_MALLOC_CONF": "background_thread:false"}
        own |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1" if bare else ""}
        super().__init__("experiments.faults.server", env=own | ({"LD_PRELOAD": str(shim)} if shim else {}))
        self._is_ready = False

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        limit: float,
        stdin: Path | None = None,
        stdout: Path | None = None,
        stderr: Path | None = None,
        env: Mapping[str, str] | None = None,
        fault: Fault = COUNT_ONLY,
        folder: Path | None = None,
        kill: tuple[float, int] | None = None,
        fresh: bool = False,
        planted: str = "",
        thorough: bool = False,
    ) -> Ended:
        """Run `volt` with these arguments, and wait for its end.

        limit: seconds, after which it is killed;  folder: where files are counted and the fault may happen
        kill: seconds after which it gets a signal, and which;  fresh: in a process that has not been forked
        planted: a fault of the program itself, see `planted`;  thorough: end as Python ends, with all that it tidies
        """
        if not self._is_ready:
            self._is_ready = bool(self._answer())
        request: dict[str, Any] = {
            "argv": list(argv), "cwd": str(cwd), "limit": limit, "kill": kill, "fresh": fresh, "planted": planted,
            "thorough": thorough,
            "env": dict(env or {}), "fault": list(fault), "folder": str(folder or ""),
            "stdin": _text(stdin), "stdout": _text(stdout), "stderr": _text(stderr),
        }  # fmt: skip
        try:
            self.ask(request)
        except OSError:
            raise ServerDied(self.last_words()) from None
        reply = self._answer()
        return Ended(
            reply["status"], reply["seconds"], reply["late"], reply["killed"], tuple(reply["left"]),
            tuple(reply["counts"]),
        )  # fmt: skip

    def _answer(self) -> dict[str, Any]:
        if (found := self.reply()) is None:
            raise ServerDied(self.last_words())
        return found


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
