"""Runs commands in children of a server, and says how each ended.

>>> Ended(0, 0.1, False, False, (), (0, 3, 2, 0, 1, 2, 1)).fired
True
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from experiments.faults.injector import COUNT_ONLY, Fault

ROOT = Path(__file__).resolve().parents[2]
STARTING = 600.0  # seconds; the loops may have to be compiled


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


class Server:
    """A server process. shim: the library of `injector`, or None to replace Python's functions instead;  bare: with
    PYTHONUNBUFFERED, as containers often have it: what is written goes straight to the descriptor."""

    def __init__(self, shim: Path | None, *, bare: bool = False) -> None:
        own = {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2", "_RJEM_MALLOC_CONF": "background_thread:false"}
        path = os.pathsep.join([str(ROOT), str(ROOT / "cli"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        own |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | ({"LD_PRELOAD": str(shim)} if shim else {})
        own["PYTHONUNBUFFERED"] = "1" if bare else ""
        self._told = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "experiments.faults.server"],
            cwd=ROOT, env=os.environ | own, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._told,
        )  # fmt: skip
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
            self._is_ready = bool(self._reply())
        request: dict[str, Any] = {
            "argv": list(argv), "cwd": str(cwd), "limit": limit, "kill": kill, "fresh": fresh, "planted": planted,
            "thorough": thorough,
            "env": dict(env or {}), "fault": list(fault), "folder": str(folder or ""),
            "stdin": _text(stdin), "stdout": _text(stdout), "stderr": _text(stderr),
        }  # fmt: skip
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise ServerDied(self._last_words()) from None
        reply = self._reply()
        return Ended(
            reply["status"], reply["seconds"], reply["late"], reply["killed"], tuple(reply["left"]),
            tuple(reply["counts"]),
        )  # fmt: skip

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ServerDied(self._last_words())
        found: dict[str, Any] = json.loads(line)
        return found

    def _last_words(self) -> str:
        self._told.seek(0)
        return self._told.read().decode(errors="replace")[-2000:]

    def close(self) -> None:
        """End the server; a child that still runs dies with it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._told):
            with suppress(OSError):  # what was not sent is lost with the process
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
