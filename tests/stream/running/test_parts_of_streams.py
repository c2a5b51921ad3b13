"""Parts of a running stream by themselves: blocks, buffers, queues and summaries, at their limits."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Crash, Refuse, Same, numbered

from volt.errors import ArgumentError, ConfigError, StreamError
from volt.stream import ErrorPolicy, Source, Stream
from volt.stream.reading.error_policy import Fault
from volt.stream.reading.open_source import open_source
from volt.stream.reading.unread_lines import FOREVER, LineBlock
from volt.stream.running import engine, prefetch
from volt.stream.running.chunk_computation import (
    Address,
    ComputedChunk,
    chunk_rows,
    compute_chunk,
    invalid_lines,
    n_chunks,
    trace_chunk,
    unwritable_lines,
)
from volt.stream.running.engine import addresses
from volt.stream.running.merging_states import merge_states
from volt.stream.running.prefetch import Prefetcher, ThisThread, Threads
from volt.stream.running.source_buffer import SourceBuffer, by_source, mixed
from volt.stream.running.state import Cursor, FaultCounts, Opening
from volt.stream.running.stream_batch import StreamBatch, _check_kinds
from volt.stream.running.summary import Summary, VirtualEpoch, epochs_read
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.transform import LineFault


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are planned a few at a time."""
    monkeypatch.setattr(engine, "WINDOW", 30)
    monkeypatch.setattr(engine, "_FEW", 8)


@pytest.mark.parametrize(
    ("n_lines", "most", "sizes"),
    [
        (100, 100, [100]),
        (100, 99, [16, 32, 52]),
        (100, 15, [15] * 6 + [10]),
        (100, 16, [16] * 6 + [4]),
        (200, 64, [16, 32, 64, 64, 24]),
        (48, 32, [16, 32]),
        (49, 32, [16, 32, 1]),
        (70, 33, [16, 33, 21]),
    ],
)
def test_sizes_of_chunks(n_lines: int, most: int, sizes: list[int]) -> None:
    """Sixteen lines first, then twice as many, until chunks are full; one chunk of what fits."""
    spans = [
        chunk_rows(chunk, n_lines=n_lines, most=most)
        for chunk in range(n_chunks(n_lines, most=most))
    ]
    assert [high - low for low, high in spans] == sizes
    assert chunk_rows(1, n_lines=n_lines, most=n_lines) == (n_lines, n_lines)


def test_faults_of_texts() -> None:
    """The first bad byte of a line and its column, of any field; line ends and surrogates that steps leave."""
    lines = [b"a", "é\xe9".encode("latin-1"), "éé".encode() + b"\xff", b"\xe2\x82", b""]
    column = Column.cut(b"\n".join(lines) + b"\n")
    expected = {1: "byte 0xe9 at column 1", 2: "byte 0xff at column 3", 3: "byte 0xe2 at column 1"}
    wanted = {index: f"invalid UTF-8: {reason}" for index, reason in expected.items()}
    good = Column.of(["x", None, "y", "z", "ö"])
    for columns, rest in (
        ((column,), None),
        ((), column),
        ((good, column), None),
        ((good,), column),
    ):
        assert invalid_lines(Batch(columns, rest, np.arange(5))) == wanted
    assert invalid_lines(Batch((good,), None, np.arange(5))) == {}
    batch = Batch((Column.of(["a\nb", "c", "\n", "d"]),), None, np.arange(4))
    message = "unwritable: a transform left a line end or a lone surrogate"
    assert unwritable_lines(batch) == {0: message, 2: message}
    assert unwritable_lines(batch.take([1, 3])) == {}


def opened(folder: Path, *steps: Any, n: int = 9, **options: Any) -> Any:
    """A source of numbered lines in file order."""
    return open_source(
        Source("a", numbered(folder, "a", n), 1.0, steps, **{"shuffle": "none", **options}), seed=5
    )


@pytest.mark.parametrize("n", [7, 8, 9])
@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (TypeError("x"), "fix it"),
        (NameError("x"), "fix it"),
        (ModuleNotFoundError("x"), "install the module"),
        (ValueError("x"), ""),
        (None, ""),
    ],
)
def test_mistakes_of_programs(tmp_path: Path, n: int, error: Exception | None, remedy: str) -> None:
    """A mistake that fails on each of eight lines or more is reported as one; else each line is unfit."""

    def step(batch: Batch, chance: Any) -> Batch:
        if error is None:
            raise LineFault(dict.fromkeys(range(len(batch)), "no"))
        raise error

    class Step:
        name, __call__ = "own", staticmethod(step)

    computed = compute_chunk(
        opened(tmp_path, Step(), n=n), Address(LineBlock(0, 0, n), 0), ErrorPolicy("skip")
    )
    if remedy and n >= 8:
        start = f"source 'a', epoch 0, lines from 0 on: transform 'own' fails on each of {n} lines: own: "
        assert computed.error.startswith(f"{start}{type(error).__name__}: x; {remedy}")
        assert (computed.n_lines, computed.n_read, computed.faults) == (0, 0, ())
    else:
        reason = "own: no" if error is None else f"own: {type(error).__name__}: x"
        assert [(fault.line, fault.reason, fault.text) for fault in computed.faults] == [
            (i + 1, reason, "") for i in range(n)
        ]
        assert (computed.n_lines, computed.n_read, computed.error) == (0, n, "")


def test_unfit_lines_of_a_block(tmp_path: Path) -> None:
    """All of them, in the order of the steps, with texts for quarantine alone; the first is the error of `raise`."""
    source, block = (
        opened(tmp_path, Crash("-7"), Refuse("-2"), Refuse("-5")),
        Address(LineBlock(0, 0, 9), 0),
    )
    quarantined = compute_chunk(source, block, ErrorPolicy("quarantine", quarantine="q"))
    assert [(fault.line, fault.text) for fault in quarantined.faults] == [
        (8, "a-7\tA 7"),
        (3, "a-2\tA 2"),
        (6, "a-5\tA 5"),
    ]
    skipped = compute_chunk(source, block, ErrorPolicy("skip"))
    assert [fault.text for fault in skipped.faults] == [""] * 3
    assert bytes(skipped.data).decode().split("\n")[:-1] == [
        f"a-{i}\tA {i}" for i in (0, 1, 3, 4, 6, 8)
    ]
    assert (skipped.n_lines, skipped.n_read, skipped.fields, skipped.error) == (6, 9, {2: 6}, "")
    raised = compute_chunk(source, block, ErrorPolicy()).error
    assert raised.startswith(
        f"{tmp_path}/a.0.tsv:8: crash: ZeroDivisionError: a-7\tA 7; fix the line, or write errors: {{on_fault"
    )
    columns = compute_chunk(source, block, ErrorPolicy("skip"), form="columns")
    assert columns.batch is not None
    assert (columns.n_lines, len(columns.data), len(columns.batch), columns.fields) == (
        6,
        0,
        6,
        {2: 6},
    )
    positions = list[int]()
    compute_chunk(source, block, ErrorPolicy("skip"), positions.append)
    assert positions == [0, 1, 2]
    traced = trace_chunk(source, block)
    assert [(name, len(before), len(after)) for name, before, after in traced.steps] == [
        ("crash", 8, 8),
        ("refuse", 7, 7),
        ("refuse", 6, 6),
    ]
    assert (len(traced.raw), len(traced.output), len(traced.faults)) == (9, 6, 3)


@pytest.mark.parametrize(("n", "counted"), [(255, 255), (256, 256), (257, 256)])
def test_fields_are_sampled(tmp_path: Path, n: int, counted: int) -> None:
    """Only the first 256 lines of a computed count."""
    computed = compute_chunk(opened(tmp_path, n=n), Address(LineBlock(0, 0, n), 0), ErrorPolicy())
    assert (computed.fields, computed.n_lines) == ({2: counted}, n)


def chunk_of(*lines: str, n_read: int = 0, faults: Sequence[Fault] = ()) -> ComputedChunk:
    """A computed of these lines."""
    data = "".join(f"{line}\n" for line in lines).encode()
    ends = np.cumsum([len(line) + 1 for line in lines], dtype=np.int64)
    return ComputedChunk(np.frombuffer(data, np.uint8), ends, n_read or len(lines), tuple(faults))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=1, max_size=3), st.data())
def test_buffers_give_lines_in_turn(sizes: list[list[int]], data: st.DataObject) -> None:
    """Whatever the blocks, empty ones too, and however many lines are taken at a time."""
    buffers, lines, openings = [], list[deque[str]](), list[Opening]()
    for source, own in enumerate(sizes):
        buffers.append(SourceBuffer("a", Cursor()))
        lines.append(
            deque(
                f"{source}.{computed}.{i}" * (i + 1)
                for computed, n in enumerate(own)
                for i in range(n)
            )
        )
        for number, n in enumerate(own):
            computed = chunk_of(*(f"{source}.{number}.{i}" * (i + 1) for i in range(n)), n_read=5)
            block = LineBlock(number, 0, 5)
            opening = buffers[-1].load(Address(block, 0), computed, source=source, n=number)
            assert opening == Opening(
                number, source, Cursor(sum(own[:number]), number, 0), block, n, FaultCounts(5)
            )
            openings.append(opening)
        assert buffers[-1].left == len(lines[-1]) == sum(own)
        assert buffers[-1].n_empty == 5 * next(
            (k for k, n in enumerate(reversed(own)) if n), len(own)
        )
    while turns := [source for source, own in enumerate(lines) for _ in own]:
        taken = np.array(data.draw(st.permutations(turns)))[: data.draw(st.integers(1, len(turns)))]
        expected = "".join(f"{lines[source].popleft()}\n" for source in taken.tolist())
        assert mixed(buffers, taken).decode() == expected
        assert by_source(taken, len(buffers)).tolist() == sorted(
            range(len(taken)), key=lambda i: (taken[i], i)
        )
        for source, n in Counter(taken.tolist()).items():
            buffers[source].drain(n)
    assert all(buffer.place is None and buffer.left == 0 for buffer in buffers)


def test_buffers_go_on_within_a_block() -> None:
    """A restored position counts nothing again; one beyond the computed, or before it, is refused."""
    block, computed = LineBlock(2, 8, 4), chunk_of("x", "y", "z", n_read=4)
    end = Cursor(50, 2, 8, 11, 1, 9)
    for inside, left in ((1, 2), (2, 1), (3, 0)):
        buffer = SourceBuffer("a", replace(end, offset=9 + inside))
        opening = buffer.load(Address(block, 1), computed, source=0, n=70)
        assert opening == Opening(70, 0, replace(end, offset=9 + inside), block, 3, FaultCounts())
        assert (buffer.left, buffer.end) == (left, Cursor(50 + left, 2, 8, 12, 1, 9))
        assert buffer.place == ((Address(block, 1), inside) if left else None)
    for offset, chunk, counted in ((9, 1, 4), (10, 0, 4), (10, 2, 4)):
        buffer = SourceBuffer("a", replace(end, offset=offset))
        assert (
            buffer.load(Address(block, chunk), computed, source=0, n=1).counts.n_read == counted
            or offset == 9
        )
    with pytest.raises(
        StreamError, match=r"the state's sources\.a\.offset 13 exceeds 3 lines; use a state that"
    ):
        SourceBuffer("a", replace(end, offset=13)).load(Address(block, 1), computed, source=0, n=1)
    begun = LineBlock(2, 8, 4, (range(1, FOREVER, 2),))
    assert (
        SourceBuffer("a", Cursor()).load(Address(begun, 0), computed, source=0, n=1).counts
        == FaultCounts()
    )


class Idle:
    """A pool that computes on request, up to a number of jobs, and hands out only when it is asked to."""

    def __init__(self, room: int) -> None:
        self.room, self.jobs, self.done, self.waits = room, list[Any](), list[Any](), list[float]()

    @property
    def has_room(self) -> bool:
        return len(self.done) < self.room

    def request(self, job: Any) -> None:
        self.jobs.append(job)
        self.done.append((*job, chunk_of("x")))

    def flush(self) -> None:
        self.n_flushed = len(self.jobs)

    def receive(self, timeout: float) -> Sequence[Any]:
        self.waits.append(timeout)
        done, self.done = self.done, []
        return done if timeout else self.done.__iadd__(done)[:0]

    def close(self) -> None:
        self.room = -1


@pytest.mark.parametrize(
    ("room", "most", "shares"), [(9, 0, (1, 1)), (9, 3, (3, 1)), (2, 9, (1, 1)), (9, 4, (1, 0))]
)
def test_blocks_are_requested_by_need(room: int, most: int, shares: tuple[int, int]) -> None:
    """First those of the source that will run out first, up to the limit, and none of a source without a share."""
    pool = Idle(room)
    sources = [SimpleNamespace(chunk_lines=lines, n_bytes=1 << 20, n_lines=1) for lines in (4, 2)]
    queues = [iter([Address(LineBlock(0, 8 * k, 8), 0) for k in range(6)]) for _ in sources]
    blocks = Prefetcher(sources, queues, [pool, pool], most=most)  # type: ignore[arg-type]
    blocks.expect([share / sum(shares) for share in shares])
    first, n = [job[0] for job in pool.jobs], min(room, most + 2)
    assert len(first) == n
    ahead, expected = [0.0, 0.0], list[int]()
    for _ in range(n):
        source = min((ahead[k], k) for k in (0, 1) if shares[k])[1]
        ahead[source] += (4, 2)[source] / (shares[source] / sum(shares))
        expected.append(source)
    assert first == expected
    taken = blocks.take(0)
    assert taken is not None
    assert (taken[0], taken[1].n_lines, pool.waits[-1]) == (
        Address(LineBlock(0, 0, 8), 0),
        1,
        prefetch.PATIENCE,
    )
    assert [blocks.take(0) is None for _ in range(6)] == [False] * 5 + [True]
    blocks.close()
    assert pool.room == -1
    with pytest.raises(StreamError, match="the workers have ended; read the stream itself"):
        blocks.take(1)


def test_threads_and_this_thread_compute_the_same() -> None:
    """In any order and each once; a failure in a thread is raised with its traceback."""
    jobs: list[Any] = [(0, number) for number in range(9)]
    alone, pool = (
        ThisThread(lambda job: (*job, -job[1])),
        Threads(lambda job: (*job, 1 // (job[1] - 9)), n=2),
    )  # type: ignore[arg-type, return-value]
    assert (alone.has_room, alone.receive(0.0), pool.has_room) == (False, (), True)
    for number, job in enumerate(jobs):
        alone.request(job)
        pool.request(job)
        assert pool.has_room == (number + 1 < 4)
    assert [alone.receive(0.1) for _ in jobs] == [((*job, -job[1]),) for job in jobs]
    results = list[Any]()
    while len(results) < 9:
        results += pool.receive(60.0)
    assert (sorted(one[1] for one in results), pool.has_room, pool.receive(0.0)) == (
        [*range(9)],
        True,
        [],
    )
    pool.request((0, 9))  # type: ignore[arg-type]
    with pytest.raises(StreamError, match=r"a worker failed:\n(.*\n)*ZeroDivisionError"):
        pool.receive(60.0)
    pool.close()


def test_states_to_merge_are_a_list() -> None:
    """A text is refused."""
    with pytest.raises(ArgumentError, match="give a list of the states of all ranks"):
        merge_states("x")  # type: ignore[arg-type]


def test_addresses_of_chunks(tmp_path: Path) -> None:
    """From a chunk of a block on, then all chunks of the blocks that follow; up to the last epoch."""
    source = opened(tmp_path, Same(), n=70, block_lines=60, epochs=2)
    source.chunk_lines = 33
    whole = list(addresses(source, Cursor(), rank=0, world=1))
    assert [(one.block.address, one.chunk) for one in whole] == [
        ((epoch, start), chunk)
        for epoch in (0, 1)
        for start, n in ((0, 3), (60, 1))
        for chunk in range(n)
    ]
    for place, one in enumerate(whole):
        assert (
            list(addresses(source, Cursor(0, *one.block.address, chunk=one.chunk), rank=0, world=1))
            == whole[place:]
        )


def test_batches_of_a_stream() -> None:
    """Their numbers and places; ids and text do not mix in a field, unless one has no value there."""
    batch = StreamBatch(Batch.of(["a", "b"]), 1_234, np.zeros(2, np.int64), np.zeros(2, np.int64))
    assert (repr(batch), batch.place(1)) == (
        "<StreamBatch: 2 lines from line 1,234 on>",
        "line 1,235",
    )
    text, none = Column.of(["x"]), Column.missing(1)
    ids = Column.of_ids(np.array([5], np.int32), np.array([0, 1]))

    def of(*columns: Column) -> Batch:
        return Batch(columns, None, np.arange(1))

    _check_kinds(list("abc"), [of(ids, text), of(ids), of(none, text)])
    for batches in ([of(ids, text), of(ids, ids)], [of(text, ids), of(text, text)]):
        names = ("b", "a") if batches[0].columns[0].is_ids else ("a", "b")
        message = f"field 2 is ids in source '{names[0]}' and text in source '{names[1]}'; encode it in both"
        with pytest.raises(StreamError, match=message):
            _check_kinds(["a", "b"], batches)


def test_summaries_of_nothing_and_of_much() -> None:
    """Speeds of no time are 0; numbers are rounded and grouped."""
    some = Summary(
        n=12_345, n_lines=1_000, seconds=0.33333, n_read=2_000, n_faults=1_500, fields={3: 1, 1: 2}
    )
    values = some.to_json()
    assert (values["seconds"], values["lines_per_second"], list(values["fields"])) == (
        0.333,
        3000.0,
        ["1", "3"],
    )
    assert (values["fields_sampled"], values["left_out"], values["epoch_lines"]) == (True, [], None)
    assert repr(some) == "<Summary: 12,345 lines given, 3,000 per second, 2,000 read, 1,500 unfit>"
    assert Summary(n=0, n_lines=0, seconds=0.0, n_read=0, n_faults=0).lines_per_second == 0
    assert (
        repr(VirtualEpoch(3, 1_000, 1, {"a": None}))
        == "<VirtualEpoch 3: 1 of 1,000 lines, 1 source>"
    )  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("cursor", "size", "expected"),
    [
        (Cursor(), None, 0.0),
        (Cursor(9, 2, 20, 5), None, 2.5),
        (Cursor(9, 2, 20, 5), 10, 2.625),
        (Cursor(9, 2, 20, 5), 0, 2.5),
        (Cursor(9, 2, 20, 10), 10, 2.75),
        (Cursor(9, 2, 20, 5, 1, 3), 4, 3.1),
    ],
)
def test_passes_count_lines_read(
    tmp_path: Path, cursor: Cursor, size: int | None, expected: float
) -> None:
    """The epochs before, the lines before the computed, and of the computed's lines the block that its outputs stand for."""
    source = opened(tmp_path, Same(), n=40, block_lines=10)
    block = LineBlock(cursor.epoch, 20, 10)
    opening = None if size is None else Opening(0, 0, cursor, block, size, FaultCounts())
    if cursor.chunk:
        source.chunk_lines, block = 6, block
        assert chunk_rows(1, n_lines=10, most=6) == (6, 10)
        expected = 2 + (20 + 6 + 2 / 4 * 4) / 40
    assert epochs_read(source, cursor, opening) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"recall": -1}, "recall is -1"),
        ({"n_workers": -1}, "give 0 to 256 workers, and spawn or fork"),
        ({"n_workers": 257}, "n_workers=257.*give 0 to 256"),
        ({"start_method": "x"}, "start_method='x'"),
        ({"time_limit": 0}, "time_limit=0: give seconds above 0"),
        ({"time_limit": math.inf}, "time_limit=inf: give"),
        ({"ends": "never"}, "unknown ends 'never'"),
        ({"policy": "skip"}, "ErrorPolicy"),
        ({"mix": "x"}, "Sampling"),
        ({"cache": 3}, "cache is 3"),
        ({"rank": 2, "world": 2}, "rank 2 of world 2"),
    ],
)
def test_options_of_streams_are_checked(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """At each limit, and what is close to it is taken."""
    source = Source("a", numbered(tmp_path, "a", 3))
    with pytest.raises((ConfigError, ArgumentError), match=message):
        Stream([source], **options)
    close = {"seed": 0, "recall": 0, "n_workers": 256, "time_limit": 0.001, "rank": 1, "world": 2}
    stream = Stream([source], **close)  # type: ignore[arg-type]
    assert repr(stream) == "<Stream: 1 source, seed 0, rank 1 of 2, 0 lines given>"
    assert repr(Stream([source])) == "<Stream: 1 source, seed 0, 0 lines given>"
    assert (stream.files, stream.n, stream.time_limit) == (source.paths, 0, 0.001)
    for wrong, remedy in (
        (source, r"did you mean \[source\]"),
        (Path("a"), "Stream.from_config"),
        ([3], r"sources\[0\] is 3"),
    ):
        with pytest.raises(ArgumentError, match=remedy):
            Stream(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="distinct names"):
        Stream([source, source])


def test_rehearsals_keep_every_option(tmp_path: Path) -> None:
    """But for the treatment of unfit lines, which are not recorded, and what was delivered."""
    source = Source("a", numbered(tmp_path, "a", 9))
    for policy, expected in (("raise", "raise"), ("skip", "skip"), ("quarantine", "skip")):
        kept = ErrorPolicy(
            policy, quarantine=str(tmp_path / "q") if policy == "quarantine" else None, max_faults=3
        )  # type: ignore[arg-type]
        options: dict[str, Any] = {
            "seed": 3,
            "ends": "drop",
            "rank": 1,
            "world": 2,
            "n_workers": 1,
            "time_limit": 9.0,
        }
        stream = Stream([source], policy=kept, start_method="fork", **options)
        stream.skip(2)
        other = stream.rehearsal()
        assert other.policy == ErrorPolicy(expected)  # type: ignore[arg-type]
        names = (
            "seed",
            "ends",
            "rank",
            "world",
            "n_workers",
            "time_limit",
            "start_method",
            "sources",
        )
        assert [getattr(other, name) for name in names] == [getattr(stream, name) for name in names]
        assert (other.n, stream.n) == (0, 2)
        for one in (stream, other):
            one.close()


def test_workers_stay_while_a_stream_is_read(tmp_path: Path) -> None:
    """Blocks computed ahead are used; another form, or a restored state, starts anew at the next line."""
    with Stream([Source("a", numbered(tmp_path, "a", 30), block_lines=4)]) as stream:
        assert stream._prefetcher is None
        whole = list(islice(stream.rehearsal(), 12))
        first, lines = stream._start_workers(), list(islice(stream, 5))
        lines += b"".join(stream.blocks(limit=2)).decode().split("\n")[:-1]
        assert stream._prefetcher is first
        lines += [line for batch in stream.batches(limit=2) for line in batch.lines.lines]
        second = stream._prefetcher
        assert second is not first
        stream.restore(stream.state())
        assert stream._prefetcher is None
        lines += list(islice(stream, 3))
        assert (lines, stream.summary().n_lines, stream.n) == (whole, 3, 12)


@pytest.mark.parametrize(
    ("change", "is_same"), [("rename", False), ("split", True), ("zero", True), ("reseed", False)]
)
def test_what_changes_lines(tmp_path: Path, change: str, is_same: bool) -> None:
    """A file cut in two where a piece ends, and a source of weight 0, change nothing; names and seeds change orders."""
    whole = [
        Source("a", numbered(tmp_path, "a", 8), split_lines=2),
        Source("b", numbered(tmp_path, "b", 5), 0.5),
    ]
    (tmp_path / "two").mkdir()
    other, seed = list(whole), 1
    if change == "split":
        other[0] = replace(whole[0], paths=numbered(tmp_path / "two", "a", 8, n_shards=2))
    elif change == "zero":
        other.append(Source("c", numbered(tmp_path, "c", 3), 0.0))
    elif change == "rename":
        other[0] = replace(whole[0], name="x")
    else:
        seed = 2
    lines = [
        b"".join(Stream(own, seed=s).blocks(limit=24)).decode().split("\n")[:-1]
        for own, s in ((whole, 1), (other, seed))
    ]
    assert (lines[0] == lines[1]) == is_same
    counts = [Counter(line[0] for line in own) for own in lines]
    assert counts[0] == counts[1] == {"a": 16, "b": 8}
    firsts = [[line for line in own if line[0] == "a"][:8] for own in lines]
    assert sorted(firsts[0]) == sorted(firsts[1])
