"""`Processes`: workers end with their stream, their parent or an error, and a stream never waits
without end."""

import os
import signal
import subprocess
import sys
import time
from itertools import islice, product
from multiprocessing import active_children
from pathlib import Path

import pytest
from support.places import TESTS
from support.streams import Die, Same, Slow, deadline, numbered

from volt.errors import StreamError
from volt.stream import Source, Stream

STARTS = ["fork", pytest.param("spawn", marks=pytest.mark.campaign)]


def worker_pids():
    """Return the process ids of this process's workers."""
    return [
        process.pid
        for process in active_children()
        if process.pid and process.name == "volt-stream"
    ]


def has_ended(pid):
    """Return whether a process has ended, even if its parent has not waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for_end(found):
    """Return when all processes have ended; the caller sets the deadline."""
    while not all(map(has_ended, found)):
        time.sleep(0.02)


@pytest.mark.parametrize("start_method", STARTS)
def test_a_killed_worker_ends_the_stream(tmp_path, start_method):
    """A stream raises StreamError with the signal when a worker is killed, and the other workers
    end."""
    source = Source("a", numbered(tmp_path, "a", 50), 1.0, (Same(),), block_lines=2)
    with deadline(30), Stream([source], n_workers=2, start_method=start_method) as stream:
        list(islice(stream, 10))
        found = worker_pids()
        assert len(found) == 2
        os.kill(found[1], signal.SIGKILL)
        with pytest.raises(
            StreamError, match=r"worker process \d+ was killed by SIGKILL; if memory ran out"
        ):
            for _ in stream:
                pass
        wait_for_end(found)


def test_a_stream_resumes_after_a_worker_was_killed(tmp_path):
    """Reading a stream again after the error of a killed worker yields the lines that follow."""
    source = Source("a", numbered(tmp_path, "a", 50), 1.0, (Same(),), block_lines=2)
    whole = list(islice(Stream([source]), 400))
    lines = []
    with deadline(30), Stream([source], n_workers=1, start_method="fork") as stream:
        try:
            for line in islice(stream, 300):
                lines.append(line)
                if len(lines) == 100:
                    os.kill(worker_pids()[0], signal.SIGKILL)
        except StreamError:
            pass
        assert 100 <= len(lines) < 300
        assert lines + list(islice(stream, 400 - len(lines))) == whole


@pytest.mark.parametrize("start_method", STARTS)
def test_a_worker_that_exits_is_reported(tmp_path, start_method):
    """A stream raises StreamError with the exit status when a transform ends its worker."""
    source = Source("a", numbered(tmp_path, "a", 50), 1.0, (Die(3),))
    with deadline(30), Stream([source], n_workers=2, start_method=start_method) as stream:
        with pytest.raises(StreamError, match=r"worker process \d+ ended with status 3"):
            next(iter(stream))
        assert not worker_pids()


SCRIPT = """
import sys
from multiprocessing import active_children
sys.path.insert(0, {tests!r})
from support.streams import Slow
from volt.stream import Source, Stream

if __name__ == "__main__":
    source = Source("a", ({path!r},), 1.0, (Slow({seconds}),), block_lines=5)
    with Stream([source], n_workers=2, start_method={start!r}) as stream:
        for n, line in enumerate(stream):
            if n % 50 == 0:
                print(*[process.pid for process in active_children()], flush=True)
"""


def run_script(tmp_path, start_method, *, seconds):
    """Start a process that reads a stream without end, and prints the ids of its workers."""
    path = tmp_path / "run.py"
    values = {
        "tests": str(TESTS),
        "path": numbered(tmp_path, "a", 50)[0],
        "seconds": seconds,
        "start": start_method,
    }
    path.write_text(SCRIPT.format(**values))
    return subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("number", "start_method"),
    [
        (signal.SIGKILL, "fork"),
        (signal.SIGTERM, "spawn"),
        *(
            pytest.param(*row, marks=pytest.mark.campaign)
            for row in product([signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ["fork", "spawn"])
            if row not in [(signal.SIGKILL, "fork"), (signal.SIGTERM, "spawn")]
        ),
    ],
)
def test_workers_end_with_their_parent(tmp_path, start_method, number):
    """Workers end when the process of their stream ends by any signal."""
    with deadline(60), run_script(tmp_path, start_method, seconds=0.001) as process:
        assert process.stdout
        found = [int(pid) for pid in process.stdout.readline().split()]
        assert len(found) == 2
        process.send_signal(number)
        process.wait()
        wait_for_end(found)


def test_busy_workers_end_with_their_parent(tmp_path):
    """A worker that computes a chunk for a minute ends when the process of its stream is killed."""
    source = Source("a", numbered(tmp_path, "a", 50), 1.0, (Slow(60.0),))
    with deadline(30):
        child = os.fork()
        if child == 0:
            stream = Stream([source], n_workers=1, start_method="fork")
            stream._start_workers()
            Path(tmp_path, "pids").write_text(" ".join(map(str, worker_pids())))
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        wait_for_end([int(pid) for pid in Path(tmp_path, "pids").read_text().split()])


@pytest.mark.parametrize("start_method", STARTS)
def test_a_stream_can_be_closed_at_any_time(tmp_path, start_method):
    """Stream.close ends workers at once that compute long chunks, or wait to send large ones."""
    paths = numbered(tmp_path, "a", 20_000)
    for transforms, n in [((Slow(60.0),), 0), ((Same(),), 1)]:
        with deadline(30):
            stream = Stream(
                [Source("a", paths, 1.0, transforms)], n_workers=2, start_method=start_method
            )
            if n:
                next(iter(stream))
            else:
                stream._start_workers()
            found = worker_pids()
            assert len(found) == 2
            stream.close()
            wait_for_end(found)


def test_a_collected_stream_ends_its_workers(tmp_path):
    """Workers end when their stream is garbage-collected without close()."""
    with deadline(30):
        stream = Stream(
            [Source("a", numbered(tmp_path, "a", 50), 1.0, (Same(),))],
            n_workers=1,
            start_method="fork",
        )
        next(iter(stream))
        found = worker_pids()
        del stream
        wait_for_end(found)


@pytest.mark.parametrize(("size", "most"), [(0, 40), (1 << 17, 20), (1 << 20, 5)])
def test_workers_pause_for_a_slow_reader(tmp_path, size, most):
    """Workers compute a limited number of chunks ahead of a slow reader, who then gets all lines in
    order."""
    path = Path(tmp_path, "a")
    path.write_text("".join(f"{i}{'x' * size}\n" for i in range(50)))
    source = Source("a", (str(path),), 1.0, (Same(),), block_lines=2)
    whole = list(islice(Stream([source]), 60))
    with deadline(30), Stream([source], n_workers=2, start_method="fork") as stream:
        lines = list(islice(stream, 3))
        time.sleep(0.3)
        blocks = stream._prefetcher
        stream._update_shares()
        assert most - 8 <= sum(len(queue.requested) for queue in blocks._queues) <= most
        assert lines + list(islice(stream, 57)) == whole


class Unpicklable:
    """A transform that cannot be sent to a worker."""

    name = "unpicklable"

    def __call__(self, batch, rng):
        return batch

    def __reduce__(self):
        raise TypeError("no")


def test_a_transform_that_cannot_be_pickled_is_refused(tmp_path):
    """A stream with workers refuses a transform that cannot be pickled, with a remedy, and starts
    no worker."""
    with deadline(30):
        stream = Stream(
            [Source("a", numbered(tmp_path, "a", 5), 1.0, (Unpicklable(),))], n_workers=1
        )
        with pytest.raises(StreamError, match=r"cannot be sent to a worker .*; use n_workers=0"):
            next(iter(stream))
        assert not worker_pids()
