"""A process of one module of the campaign: requests go to its stdin, replies come from its stdout, one JSON a line.

>>> with Child("json.tool", "--json-lines", env={}) as child:
...     child.ask({"a": 1})
...     child.last_words()
''
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
STARTING = 600.0  # seconds; the loops may have to be compiled
_SHOWN = 2000  # characters


def module_path() -> str:
    """What PYTHONPATH must be for the repository's own packages, with what it is."""
    return os.pathsep.join([str(ROOT), str(ROOT / "cli"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


class Child:
    """The process, in a session of its own. What it says on stderr is kept in a file.

    module, arguments: what Python runs;  env: what is added to the environment
    """

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str]) -> None:
        self._told = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *arguments],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": module_path()} | dict(env), start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._told, bufsize=0,
        )  # fmt: skip
        # nothing is buffered here: a reply that came with another would be no news to select()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout

    def ask(self, request: Any) -> None:
        """Send a request. Raises OSError if nobody reads it."""
        self._requests.write(json.dumps(request).encode() + b"\n")

    def reply(self, seconds: float | None = None) -> dict[str, Any] | None:
        """The next reply; None if there is none in this time, or ever. seconds: None waits for as long as it takes."""
        if not select.select([self._replies], [], [], seconds)[0]:
            return None
        line = self._replies.readline()
        found: dict[str, Any] | None = json.loads(line) if line else None
        return found

    def status(self, seconds: float) -> int | None:
        """How it has ended, negative for a signal; None if it has not in this time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def last_words(self) -> str:
        """What it has said on stderr."""
        self._told.seek(0)
        return self._told.read().decode(errors="replace").strip()[-_SHOWN:]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._requests, self._replies, self._told):
            with suppress(OSError):  # what was not sent is lost with the process
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
