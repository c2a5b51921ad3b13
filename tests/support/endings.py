"""A program that ends Python processes in every way while they hold objects, and prints a table of
those that hang.

    PYTHONPATH=.:tests python tests/support/endings.py [GROUP …] [--together ENDING …]

Each cell of the table is a process, forked from one that has imported everything. It holds an
object in five ways: in a global variable, in an object, in a cycle of references, within a
generator, and read by a daemon thread.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from support.steps_of_streams import PAIRS, TOKEN_RULE, steps_of, stream_of, written

from volt import Encoder, Stream, Vocabulary
from volt.batches import Progress, Steps
from volt.encode.chunks import file_chunks
from volt.files.threads import in_order, next_in_thread, prefetch

SECONDS = 20.0  # that a process may take to end
N = 400  # lines of a stream
USER = "import time\n\ndef same(fields):\n    return fields\n\ndef slow(fields):\n    time.sleep(100)\n    return fields\n"
Make = Callable[[Path], Iterator[Any]]
KEPT = []  # what is alive at the end


class Trainer:
    """An object that holds what it reads."""

    def __init__(self, batches):
        self.batches = batches

    def loop(self):
        """Give each batch, and close the reader."""
        try:
            yield from self.batches
        finally:
            getattr(self.batches, "close", lambda: None)()


class Ending(NamedTuple):
    """A way to end a process. end: the last function that the process calls; status: its exit
    status
    """

    end: Callable[[], None]
    status: int = 0


def _raise():
    raise RuntimeError("planned")


def _in_thread(end):
    thread = threading.Thread(target=end)
    thread.start()
    thread.join()


def _kill(number, handler=None):
    if handler is not None:
        signal.signal(number, handler)
    os.kill(os.getpid(), number)
    time.sleep(SECONDS)


def _fork():
    """End a fork in the usual way, wait for it, and end."""
    if (pid := os.fork()) and (status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])):
        sys.exit(status)


ENDINGS = {
    "end": Ending(lambda: None),
    "exception": Ending(_raise, 1),
    "exit": Ending(partial(sys.exit, 3), 3),
    "exit in a thread": Ending(partial(_in_thread, partial(sys.exit, 3))),
    "exception in a thread": Ending(partial(_in_thread, _raise)),
    "SIGTERM": Ending(partial(_kill, signal.SIGTERM), -signal.SIGTERM),
    "SIGTERM, handled": Ending(partial(_kill, signal.SIGTERM, lambda *_: sys.exit(4)), 4),
    "SIGINT": Ending(partial(_kill, signal.SIGINT), -signal.SIGINT),
    "fork": Ending(_fork),
}


def _stream(folder, **options):
    return stream_of(folder, N, epochs=None, **options)


def _user(folder, function):
    """Return a stream whose lines Python code makes, in processes."""
    path = folder / f"{function}.yaml"
    user = folder / "user.py"
    user.write_text(USER)
    path.write_text(
        f"sources: {{a: {{path: {written(folder, N)}, block_lines: 32, "
        f"transforms: [user: {{file: {user}, function: {function}}}]}}}}"
    )
    return Stream.from_config(path, n_workers=2)


def _waiting(folder):
    """Start a thread that waits for a pipe without a writer."""
    there, _ = os.pipe()
    next_in_thread(iter([lambda: os.read(there, 1)])).result()
    items = prefetch(iter(lambda: os.read(there, 1), b""))
    threading.Thread(target=next, args=(items, None), daemon=True).start()
    yield from in_order(lambda n: n > 1 and os.read(there, 1), range(9), n_threads=3)


def _late(folder):
    """Return steps whose first window does not come."""
    steps = Steps(_user(folder, "slow"), PAIRS, TOKEN_RULE, window=50)
    future = next_in_thread(iter(steps))
    time.sleep(0.2)
    yield future
    yield from steps


def _encoded(folder):
    """Return parts of a file that threads encode."""
    encoder = Encoder(Vocabulary((("w", "1"),), ("w", "1", "w1")))
    return iter(encoder.encode_parts(file_chunks(written(folder, N), size=256), n_threads=3))


def _loader(folder, kind, n_workers, **options):
    from torch.utils.data import DataLoader
    from torchdata.stateful_dataloader import StatefulDataLoader

    from volt.ext.torch import StreamDataset

    here = {}
    if n_workers == 0:
        here["window"] = 4000
    dataset = StreamDataset(partial(steps_of, folder, N, epochs=None, **here), rank=0, world=1)
    if kind == "dataset":
        return iter(dataset)
    loader = StatefulDataLoader if kind == "stateful" else DataLoader
    return iter(loader(dataset, batch_size=None, num_workers=n_workers, **options))


GROUPS = {
    "streams": {
        "lines": lambda folder: iter(_stream(folder)),
        "lines, 2 threads": lambda folder: iter(_stream(folder, n_workers=2)),
        "columns, 2 threads": lambda folder: _stream(folder, n_workers=2).batches(limit=10**9),
    },
    "processes": {
        "lines, 2 processes": lambda folder: iter(_user(folder, "same")),
        "steps that wait": _late,
    },
    "steps": {
        "steps": lambda folder: iter(steps_of(folder, N, epochs=None)),
        "steps, not ahead": lambda folder: iter(steps_of(folder, N, epochs=None, ahead=False)),
        "steps, 2 threads": lambda folder: iter(
            Progress(steps_of(folder, N, epochs=None, n_workers=2))
        ),
        "steps, long window": lambda folder: iter(steps_of(folder, N, epochs=None, window=20_000)),
    },
    "threads": {
        "encoded parts": _encoded,
        "threads that wait": _waiting,
    },
    "datasets": {
        "dataset": lambda folder: _loader(folder, "dataset", 0),
        "loader": lambda folder: _loader(folder, "loader", 0),
        "stateful loader": lambda folder: _loader(folder, "stateful", 0),
    },
    "loaders": {
        "loader, 1 worker": lambda folder: _loader(folder, "loader", 1),
        "loader, 2 workers": lambda folder: _loader(folder, "loader", 2, persistent_workers=True),
        "stateful loader, 2 workers": lambda folder: _loader(folder, "stateful", 2),
    },
}


def _global(items):
    next(items)
    globals()[f"held_{len(globals())}"] = items


def _in_object(items):
    next(items)
    KEPT.append(Trainer(items))


def _in_cycle(items):
    next(items)
    trainer = Trainer(items)
    trainer.itself = trainer


def _in_generator(items):
    KEPT.append(loop := Trainer(items).loop())
    next(loop)


def _in_thread_of_its_own(items):
    def read():
        for _ in items:
            time.sleep(0.001)

    threading.Thread(target=read, daemon=True).start()


WAYS = {
    "global": _global,
    "object": _in_object,
    "cycle": _in_cycle,
    "generator": _in_generator,
    "thread": _in_thread_of_its_own,  # torch itself aborts where a daemon thread is within it at the end
}


class Cell(NamedTuple):
    """A process to run. held: the objects that it holds, and how; ending: the name of the way it
    ends
    """

    held: list[tuple[Make, str]]
    ending: str
    label: str


def alone(groups):
    """Return cells with each object in all ways, and each way to end."""
    for group in groups:
        for name, make in GROUPS[group].items():
            endings = [
                one for one in ENDINGS if (group, one) != ("loaders", "fork")
            ]  # it kills the workers of torch
            yield from (
                Cell([(make, way) for way in _ways(group)], ending, name) for ending in endings
            )


def together(groups, endings):
    """Return cells with all objects at once, in one way each."""
    for number, ending in enumerate(endings):
        made = [(make, _ways(group)) for group in groups for make in GROUPS[group].values()]
        held = [(make, ways[turn % len(ways)]) for turn, (make, ways) in enumerate(made, number)]
        yield Cell(held, ending, " ".join(groups))


def _ways(group):
    return [way for way in WAYS if way != "thread" or group not in ("datasets", "loaders")]


def outcome(pid, status, errors):
    """Wait for a child process to end, and return the fault of its end; "" if there is none."""
    late = time.monotonic() + SECONDS
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > late:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "HANGS"
        time.sleep(0.01)
    if (found := os.waitstatus_to_exitcode(ended[1])) != status:
        return f"ends with status {found}, not {status}"
    text = errors.read_text()
    is_ours = re.search(
        r"Exception ignored.*\nTraceback.*\n(?: .*\n)*? .*/volt/", text
    )  # others complain of forks
    return "ends, but an exception is ignored" if is_ours or "Fatal" in text else ""


def main(folder, chosen):
    """Run the cells, print the table, and return the number of cells with a fault.

    In each child process, the function returns, too, and the process then ends.
    """
    errors = folder / "errors"
    n_bad = 0
    for cell in chosen:
        there, here = os.pipe()
        if not (pid := os.fork()):
            os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            for make, way in cell.held:
                WAYS[way](make(folder))
            os.write(here, b"!")  # it has begun to end: only what follows is timed
            ENDINGS[cell.ending].end()
            return 0
        os.close(here)
        with open(there, "rb") as ready:
            ready.read(1)
        started = time.monotonic()
        fault = outcome(pid, ENDINGS[cell.ending].status, errors)
        n_bad += bool(fault)
        print(  # noqa: T201
            f"{cell.label:27} {cell.ending:22} {time.monotonic() - started:5.1f} s  {fault or 'ends'}",
            flush=True,
        )
        if fault:
            print(  # noqa: T201
                errors.read_text()[-3000:], flush=True
            )
    print(  # noqa: T201
        f"{n_bad} of {len(chosen)} hang, or end otherwise than they should", flush=True
    )
    return n_bad


if __name__ == "__main__":
    at = sys.argv.index("--together") if "--together" in sys.argv else len(sys.argv)
    groups = sys.argv[1:at] or [*GROUPS]
    endings = sys.argv[at + 1 :] or [*ENDINGS]
    if {"datasets", "loaders"} & {*groups}:  # imported once, before the forks
        import_module("torchdata.stateful_dataloader")
        import_module("volt.ext.torch")
    parent = os.getpid()
    place = Path(tempfile.mkdtemp())
    written(place, N)
    if at < len(sys.argv):
        cells = together(groups, endings)
    else:
        cells = alone(groups)
    n_bad = main(place, list(cells))
    if os.getpid() == parent:
        shutil.rmtree(place)
        sys.exit(bool(n_bad))
