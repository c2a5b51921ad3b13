"""`plan` estimates epochs, memory and speed before a stream runs."""

import gc
import json
import subprocess
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from support.streams import Drop, Pair, Refuse, Repeat, deadline, numbered, write_lines

from volt.errors import StreamError
from volt.stream import Source, Stream, plan
from volt.stream.checking import plan as planning
from volt.stream.checking.plan import Memory, Plan, SourcePlan, measure_resident
from volt.stream.running.prefetch import Workers


def test_plans_count_lines_and_epochs(tmp_path):
    """plan returns lines by weight, and epochs by the lines that filters pass, without moving the
    stream."""
    sources = [
        Source("a", numbered(tmp_path, "a", 23), 2.0, (Drop(0.3),), block_lines=5),
        Source("b", numbered(tmp_path, "b", 11), 1.0, (Repeat(),), block_lines=4),
        Source("c", numbered(tmp_path, "c", 12), 0.5, (Pair(),), block_lines=7, shuffle="outputs"),
    ]
    stream = Stream(sources, seed=3)
    with deadline(30):
        result = plan(stream, at=700, seconds=0.05)
    assert [round(source.lines) for source in result.sources.values()] == [400, 200, 100]
    assert result.sources["c"].yield_ == pytest.approx(4 / 7)
    assert result.sources["c"].epochs == pytest.approx(100 / (4 / 7) / 12)
    assert result.memory > 0
    assert (result.lines_per_second or 0) > 0
    assert stream.n == 0
    assert json.loads(json.dumps(result.to_json()))["at"] == 700


def test_epochs_depend_on_the_yield_of_a_source():
    """_plan_source divides by the yield of the source; a source without output needs infinitely
    many epochs."""
    source = SimpleNamespace(n_lines=40, block_lines=8)
    half = planning._Chunk(4, 8, 0, 0)
    result = planning._plan_source(source, half, 30.0, 0.25, 16)
    assert result == SourcePlan(30.0, 40, 0.5, 1.5, 8, 0.25, 4.0, 0.2)
    nothing = planning._Chunk(0, 8, 0, 0)
    result = planning._plan_source(source, nothing, 30.0, 0.25, None)
    assert result == SourcePlan(30.0, 40, 0, float("inf"), 8, 0.25)
    assert repr(Plan(1, {"a": result}, 2_400_000, None)) == "<Plan: 1 source up to line 1, 2 MB>"
    assert Plan(1, {"a": result}, 7, None).to_json()["sources"]["a"]["n_lines"] == 40


@pytest.mark.parametrize(("n_lines", "has_speed"), [(5, False), (30, True)])
def test_the_speed_of_a_short_stream(tmp_path, n_lines, has_speed):
    """plan measures a stream that ends early to its end; a stream of one block has no speed."""
    paths = numbered(tmp_path, "a", n_lines)
    stream = Stream([Source("a", paths, epochs=1, block_lines=10)])
    speed = plan(stream, at=5, seconds=0.05).lines_per_second
    assert (speed is not None) == has_speed


class Hungry:
    """A transform that allocates 64 MiB while it runs."""

    name = "hungry"

    def __call__(self, batch, chance):
        memory = np.ones(1 << 26, np.uint8)
        time.sleep(0.02 * int(memory[0]))
        return batch


@pytest.mark.skipif(measure_resident() == 0, reason="the system does not report a process's memory")
@pytest.mark.parametrize("n_workers", [0, 1])
def test_plans_contain_the_memory_of_transforms(tmp_path, n_workers):
    """plan counts memory that a transform allocates for a moment, also in a worker."""
    source = Source("a", numbered(tmp_path, "a", 300), 1.0, (Hungry(),), block_lines=100)
    result = plan(Stream([source], n_workers=n_workers), at=10, seconds=0.05)
    assert 1 << 26 <= result.memory < 3 << 25


MEASURED = """
import numpy as np
from volt.stream.checking.plan import measure_resident, watch_memory
before = np.ones(1 << 25, np.uint8)
with watch_memory() as memory:
    temporary = np.ones(1 << 26, np.uint8)
    memory.measure()
    del temporary
assert before[0] == 1
freed = 1 << 23  # by others, at most
assert measure_resident() == 0 or 1 << 26 <= memory.peak + freed < 3 << 25, memory.peak
"""


def test_the_largest_increase_of_memory_is_measured():
    """watch_memory measures memory that is freed again, but not memory from before: in a new process,
    where other tests' memory is not freed meanwhile."""
    subprocess.run([sys.executable, "-c", MEASURED], check=True)


def test_memory_is_read_from_the_system(tmp_path, monkeypatch):
    """measure_resident omits shared pages, and returns 0 without the system's file; a peak does not
    fall."""
    monkeypatch.setattr(planning, "_STATM", tmp_path / "statm")
    assert planning.measure_resident() == 0
    pages = planning.os.sysconf("SC_PAGE_SIZE")
    (tmp_path / "statm").write_text("100 50 20 3 0 9 0")
    assert planning.measure_resident() == 30 * pages
    memory = Memory()
    for size, peak in ((90, 40), (60, 40), (40, 40), (99, 49)):
        (tmp_path / "statm").write_text(f"100 {size} 20 3 0 9 0")
        memory.measure()
        assert (memory.first, memory.peak) == (30 * pages, peak * pages)


@pytest.mark.parametrize(("n_workers", "expected"), [(0, 80), (1, 130), (3, 270)])
def test_memory_grows_with_chunks_and_workers(n_workers, expected):
    """_memory_bound adds a chunk in use and, with workers, a ready one for each source, and two for
    each worker."""
    chunks = [
        planning._Chunk(1, 1, n_bytes=10, peak=40),
        planning._Chunk(1, 1, n_bytes=20, peak=50),
    ]
    stream = SimpleNamespace(workers=Workers(n_workers))
    assert planning._memory_bound(stream, chunks) == expected


@pytest.mark.parametrize(
    ("most", "seconds", "expected"), [(None, 60.0, 3), (4, 60.0, 2), (5, 60.0, 3), (None, 0.0, 1)]
)
def test_blocks_are_read_up_to_a_line_or_time(most, seconds, expected):
    """_read_blocks stops after a number of lines, or after some seconds."""
    stream = SimpleNamespace(n=0)

    def blocks():
        for data in (b"a\nb\n", b"c\nd\n", b"e\n" * 70_000):
            stream.n += 2
            yield data

    rest = blocks()
    planning._read_blocks(rest, stream, n_lines=most, seconds=seconds)
    assert stream.n == 2 * expected
    assert len(list(rest)) == 3 - expected


class Rehearsal:
    """A stream with predetermined blocks."""

    n = 0
    workers = Workers(2)
    sources = (SimpleNamespace(block_lines=3), SimpleNamespace(block_lines=4))

    def rehearsal(self):
        return nullcontext(self)

    def place(self):
        return 0, SimpleNamespace(block=SimpleNamespace(n_lines=5)), 0

    def blocks(self, limit=None):
        return [limit]


def test_speed_is_measured_without_lines_computed_ahead(monkeypatch):
    """_measure_speed starts the clock after the first block and the lines that workers compute
    ahead."""
    reads = []
    clock = iter([10.0, 12.0, 16.0] * 2)
    numbers = iter([5, 25, 65, 9, 9, 9])

    def read(blocks, stream, *, n_lines, seconds):
        reads.append((blocks, n_lines, seconds))
        stream.n = next(numbers)

    monkeypatch.setattr(planning, "_read_blocks", read)
    monkeypatch.setattr(planning.time, "perf_counter", lambda: next(clock))
    stream = Rehearsal()
    assert planning._measure_speed(stream, seconds=0.5) == (65 - 25) / 4.0
    assert reads == [([5], 1, 0.0), ([None], 3 + 4 + 2 * 2 * 4, 0.5), ([None], None, 0.5)]
    assert planning._measure_speed(stream, seconds=0.5) is None


@pytest.mark.parametrize(
    ("transforms", "expected"), [((), (20, 20)), ((Drop(1.0),), (0, 20)), ((Pair(),), (10, 20))]
)
def test_the_first_chunk_is_measured(tmp_path, transforms, expected):
    """_compute_first_chunk returns lines of output, lines read, bytes and memory, and raises a
    fault."""
    paths = numbered(tmp_path, "a", 30)
    source = Source("a", paths, transforms=transforms, block_lines=20, shuffle="none")
    stream = Stream([source], cache=tmp_path)
    chunk = planning._compute_first_chunk(stream.sources[0], stream)
    assert (chunk.n_lines, chunk.n_read) == expected
    text = "".join(f"a-{i}\tA {i}\n" for i in range(20))
    assert chunk.n_bytes == (8 * expected[0] + len(text) if expected[0] else 0)
    assert chunk.peak >= chunk.n_bytes
    bad = Stream([Source("a", paths, transforms=(Refuse("-7"),))], cache=tmp_path)
    with pytest.raises(StreamError, match=r"a\.0\.tsv:8: refuse"):
        planning._compute_first_chunk(bad.sources[0], bad)


def test_plans_of_streams_with_forked_workers(tmp_path):
    """plan measures a stream with forked workers, which end before the pipe's reader is awaited."""
    (tmp_path / "same.py").write_text("def same(fields):\n    return fields\n")
    write_lines(tmp_path / "a.tsv", [f"a{i}\tb" for i in range(2000)])
    (tmp_path / "s.yaml").write_text(
        "sources: {a: {path: a.tsv, block_lines: 100, "
        "transforms: [user: {file: same.py, function: same}]}}"
    )
    with (
        deadline(30),
        Stream.from_config(tmp_path / "s.yaml", n_workers=2, start_method="fork") as stream,
    ):
        assert plan(stream, at=5, seconds=0.05).lines_per_second


def test_plans_collect_garbage_once(tmp_path):
    """plan collects garbage once, not for each source, because collecting inspects all objects."""
    sources = [Source(name, numbered(tmp_path, name, 3), epochs=1) for name in "abcdefghij"]
    stream = Stream(sources, cache=tmp_path)
    collections = []

    def note(phase, facts):
        if phase == "start" and facts["generation"] == 2:
            collections.append(facts)

    gc.callbacks.append(note)
    try:
        assert set(plan(stream, at=30, seconds=0).sources) == {*"abcdefghij"}
    finally:
        gc.callbacks.remove(note)
    assert len(collections) < len(sources)
