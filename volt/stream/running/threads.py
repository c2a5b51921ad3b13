"""Threads that compute blocks. Compiled loops, Arrow and decompression release the interpreter's lock meanwhile.

They start at once, share what vocabularies remember, and end with the process, whatever happens to it.

>>> Threads([], Policy(), n=1).close()
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from volt.errors import StreamError
from volt.files.threads import can_wait
from volt.stream.reading.faults import Policy
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.ahead import Done
from volt.stream.running.blocks import Form, compute_block
from volt.stream.running.chunks import Address

_GRACE = 2.0  # seconds that threads have to end their block
Job = tuple[int, Address]


class Threads:
    """A `Pool` of n threads of this process. form: that of `compute_block`."""

    def __init__(self, sources: Sequence[OpenSource], policy: Policy, *, n: int, form: Form = "lines") -> None:
        self._sources, self._policy, self._n, self._form = sources, policy, n, form
        self._jobs, self._done = SimpleQueue[Job | None](), SimpleQueue[Done | str]()
        self._asked, self._closed, self._pid = 0, False, os.getpid()
        self._threads = [threading.Thread(target=self._work, daemon=True, name="volt-stream") for _ in range(n)]
        for thread in self._threads:
            thread.start()

    @property
    def has_room(self) -> bool:
        """Whether a thread would soon have nothing to do."""
        return self._asked < 2 * self._n

    def ask(self, source: int, address: Address) -> None:
        """Have a block computed."""
        self._asked += 1
        self._jobs.put((source, address))

    def receive(self, timeout: float) -> Sequence[Done]:
        """What has been done; if there is nothing, whatever comes within so many seconds."""
        found = list[Done]()
        with suppress(Empty):
            found.append(self._taken(self._done.get(timeout=timeout) if timeout else self._done.get_nowait()))
            while True:
                found.append(self._taken(self._done.get_nowait()))
        return found

    def _taken(self, done: Done | str) -> Done:
        if isinstance(done, str):
            self.close()
            raise StreamError(f"a worker failed:\n{done}")
        self._asked -= 1
        return done

    def _work(self) -> None:
        """Compute blocks until there is nothing more to do."""
        while not self._closed and (job := self._jobs.get()) is not None:
            source, address = job
            try:
                block = compute_block(self._sources[source], address, self._policy, form=self._form)
            except BaseException:
                self._done.put(traceback.format_exc())
                return
            self._done.put((source, address, block))

    def close(self) -> None:
        """Let the threads end behind the block that each has in work."""
        self._closed = True
        if not can_wait(self._pid):
            return
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + _GRACE
        for thread in self._threads:
            if thread is threading.current_thread():  # it has collected what this pool belongs to
                continue
            thread.join(max(0, deadline - time.monotonic()))
        self._threads = []
