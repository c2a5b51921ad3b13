"""Audits, plans and traces at their limits, against values computed by hand."""

from __future__ import annotations

import gc
import tracemalloc
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from golden import check
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Drop, Pair, Refuse, Repeat, numbered

from volt.errors import ArgumentError, ConfigError, StreamError
from volt.stream import Schedule, Source, Stream, audit, debug, trace
from volt.stream.checking import audit as auditing
from volt.stream.checking import plan as planning
from volt.stream.checking import trace as tracing
from volt.stream.checking.audit import Audit, SourceAudit, deviation
from volt.stream.checking.plan import Memory, Plan, SourcePlan, plan
from volt.stream.checking.trace import DebugLine, Trace, TraceStep, compared
from volt.stream.reading.epoch_order import SegmentLines
from volt.stream.reading.unread_lines import LineBlock


@pytest.mark.parametrize(
    ("missing", "repeated", "uneven", "content", "deviation"),
    [
        *product((0, 1), (0, 1), (0, 1, 2), (None, True, False), (1.0,)),
        *((0, 0, 0, None, d) for d in (0.0, 1 + 2e-6, 1.9)),
    ],
)
def test_an_audit_is_exact_within_one_line(
    missing: int, repeated: int, uneven: int, content: bool | None, deviation: float
) -> None:
    """No line missing or repeated, ranks and sources at most one line off, and content that is not wrong."""
    source = SourceAudit("a", 9, 1, 2, missing, repeated, uneven, content)
    is_exact = not missing and not repeated and uneven < 2 and content is not False
    result = Audit((SourceAudit("b", 9, 1, 2, 0, 0, 0, None), source), 7, deviation)
    assert (source.exact, result.exact, result.to_json()["exact"]) == (
        is_exact,
        *[is_exact and deviation <= 1] * 2,
    )
    assert repr(result).startswith(
        f"<Audit: {'' if result.exact else 'not '}exact, 2 sources, 7 turns, at most "
    )


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 5), (5, 5)], (0, 0)),
        ([(2, 8)], (2, 0)),
        ([(0, 8)], (2, 0)),
        ([(0, 4), (6, 4)], (2, 0)),
        ([(0, 6), (4, 6)], (0, 2)),
        ([(0, 10), (3, 2)], (0, 2)),
        ([(0, 10), (3, 2), (8, 2)], (0, 4)),
        ([], (10, 0)),
    ],
)
def test_gaps_and_overlaps_are_counted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spans: list[tuple[int, int]],
    expected: tuple[int, int],
) -> None:
    """Missing lines at the start, in the middle and at the end; lines that two parts read, one inside the other too."""
    source = Stream([Source("a", numbered(tmp_path, "a", 10))], cache=tmp_path).sources[0]
    monkeypatch.setattr(
        auditing, "segment_lines", lambda _, part: (SegmentLines(0, part.start, part.n_lines),)
    )
    parts = [LineBlock(0, start, n) for start, n in spans]
    assert auditing._uncovered(source, parts) == expected


def test_audits_stop_with_the_last_epoch(tmp_path: Path) -> None:
    """A source of one epoch is audited for one, beside one of three; parts of all ranks count."""
    paths = numbered(tmp_path, "a", 10, n_shards=2)
    sources = [Source("a", paths, block_lines=4, epochs=1), Source("b", paths, block_lines=4)]
    result = audit(Stream(sources, world=2, cache=tmp_path), epochs=3, turns=0, content=True)
    assert [(one.epochs, one.n_blocks, one.content, one.exact) for one in result.sources] == [
        (1, 4, True, True),
        (3, 12, True, True),
    ]
    assert (result.n_turns, result.deviation) == (0, 0)
    for wrong in ({"epochs": 0}, {"turns": -1}):
        with pytest.raises(ConfigError, match=rf"{next(iter(wrong))} is "):
            audit(Stream(sources), **wrong)


def test_audits_read_marks_and_short_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte order mark is not text at the start of a file alone, however few bytes are read at a time."""
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\nthree")
    read = auditing.read_raw
    monkeypatch.setattr(
        auditing, "read_raw", lambda name, **options: read(name, block_size=4, **options)
    )
    assert audit(
        Stream([Source("a", (str(path),), max_line=9)], cache=tmp_path), turns=1, content=True
    ).exact
    with pytest.raises(Exception, match="more than 3 bytes"):
        list(auditing._text_lines(str(path), 3))


@settings(deadline=None, max_examples=8)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 9), st.integers(0, 25))
def test_deviations_do_not_depend_on_windows(weights: list[int], window: int, turns: int) -> None:
    """However many turns are looked at together, the greatest deviation is that of naive counting."""
    mixture = auditing.Mixture([*map(float, weights)])
    counts, worst = [0] * len(weights), 0.0
    for n, turn in enumerate(mixture.turns(turns).tolist(), 1):
        counts[turn] += 1
        owed = (n * weight / sum(weights) for weight in weights)
        worst = max(worst, *(abs(own - count) for own, count in zip(owed, counts, strict=True)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "_WINDOW", window)
        assert deviation([*map(float, weights)], turns) == pytest.approx(worst)
    assert deviation([1.0, Schedule(((0, 1.0), (9, 3.0)))], 30) == pytest.approx(0.5, abs=0.26)


def test_memory_is_what_the_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages in memory less shared ones; 0 where the system does not say. A peak is above the start, and stays."""
    monkeypatch.setattr(planning, "_STATM", tmp_path / "statm")
    assert planning.resident() == 0
    pages = planning.os.sysconf("SC_PAGE_SIZE")
    (tmp_path / "statm").write_text("100 50 20 3 0 9 0")
    assert planning.resident() == 30 * pages
    memory = Memory()
    for size, peak in ((90, 40), (60, 40), (40, 40), (99, 49)):
        (tmp_path / "statm").write_text(f"100 {size} 20 3 0 9 0")
        memory.measure()
        assert (memory.first, memory.peak) == (30 * pages, peak * pages)


@pytest.mark.parametrize(
    ("n_workers", "expected"),
    [(0, 30 + 50), (1, 30 + 30 + 20 + 50), (3, 30 + 30 + 3 * 20 + 3 * 50)],
)
def test_memory_is_bounded_by_blocks_and_workers(n_workers: int, expected: int) -> None:
    """One block of each source in use, as many ready and the largest for each worker, and one in work for each."""
    blocks = [planning._Block(1, 1, size=10, work=40), planning._Block(1, 1, size=20, work=50)]
    assert planning._memory_bound(SimpleNamespace(n_workers=n_workers), blocks) == expected  # type: ignore[arg-type]


def test_plans_count_passes() -> None:
    """Lines by the share of outputs; a source that gives nothing needs infinitely many passes."""
    source: Any = SimpleNamespace(n_lines=40, block_lines=8)
    half, none = planning._Block(4, 8, 0, 0), planning._Block(0, 8, 0, 0)
    assert planning._source_plan(source, half, lines=30.0, share=0.25, epoch=16) == SourcePlan(
        30.0, 40, 0.5, 1.5, 8, 0.25, 4.0, 0.2
    )
    found = planning._source_plan(source, none, lines=30.0, share=0.25, epoch=None)
    assert (found.yield_, found.epochs, found.epoch_lines, found.epoch_passes) == (
        0,
        float("inf"),
        None,
        None,
    )
    assert repr(Plan(1, {"a": found}, 2_400_000, None)) == "<Plan: 1 source up to line 1, 2 MB>"
    assert Plan(1, {"a": found}, 7, None).to_json()["sources"]["a"]["n_lines"] == 40


@pytest.mark.parametrize(
    ("most", "seconds", "expected"), [(None, 60.0, 3), (4, 60.0, 2), (5, 60.0, 3), (None, 0.0, 1)]
)
def test_blocks_are_read_until_enough(most: int | None, seconds: float, expected: int) -> None:
    """All blocks, or up to the first that reaches a number of lines, or the first after the time."""
    stream = SimpleNamespace(n=0)

    def blocks() -> Any:
        for data in (b"a\nb\n", b"c\nd\n", b"e\n" * 70_000):
            stream.n += 2
            yield data

    kept = blocks()
    planning._read(kept, stream, most=most, seconds=seconds)  # type: ignore[arg-type]
    assert stream.n == 2 * expected
    assert len(list(kept)) == 3 - expected


def test_speed_is_measured_after_what_was_computed_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block, then as many lines as workers compute ahead, then the time; the last stretch is the speed."""
    seen, clock, n = (
        list[tuple[Any, ...]](),
        iter([10.0, 12.0, 16.0, 10.0, 12.0, 16.0]),
        iter([5, 25, 65, 9, 9, 9]),
    )

    class Rehearsal:
        n = 0

        def rehearsal(self) -> Any:
            return nullcontext(self)

        def place(self) -> Any:
            return 0, SimpleNamespace(block=SimpleNamespace(n_lines=5)), 0

        def blocks(self, limit: int | None = None) -> Any:
            return [limit]

        sources, n_workers = [SimpleNamespace(block_lines=3), SimpleNamespace(block_lines=4)], 2

    def read(blocks: Any, stream: Any, *, most: int | None, seconds: float) -> None:
        seen.append((blocks, most, seconds))
        stream.n = next(n)

    monkeypatch.setattr(planning, "_read", read)
    monkeypatch.setattr(planning.time, "perf_counter", lambda: next(clock))
    assert planning._measure(Rehearsal(), seconds=0.5) == (65 - 25) / 4.0  # type: ignore[arg-type]
    assert seen == [([5], 1, 0.0), ([None], 3 + 4 + 2 * 2 * 4, 0.5), ([None], None, 0.5)]
    assert planning._measure(Rehearsal(), seconds=0.5) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("transforms", "expected"), [((), (20, 20)), ((Drop(1.0),), (0, 20)), ((Pair(),), (10, 20))]
)
def test_the_first_block_is_measured(
    tmp_path: Path, transforms: Any, expected: tuple[int, int]
) -> None:
    """Its lines, the lines read for it, its bytes; work takes no less. A fault in it is raised."""
    source = Source(
        "a", numbered(tmp_path, "a", 30), transforms=transforms, block_lines=20, shuffle="none"
    )
    stream = Stream([source], cache=tmp_path)
    block = planning._first_block(stream.sources[0], stream)
    assert (block.n_lines, block.n_read) == expected
    assert block.size == (
        0 if not expected[0] else 8 * expected[0] + sum(len(f"a-{i}\tA {i}\n") for i in range(20))
    )
    assert block.work >= block.size
    bad = Stream([Source("a", source.paths, transforms=(Refuse("-7"),))], cache=tmp_path)
    with pytest.raises(StreamError, match=r"a\.0\.tsv:8: refuse"):
        planning._first_block(bad.sources[0], bad)


def streamed(folder: Path, *steps: Any, n: int = 12, **options: Any) -> Stream:
    """One source of numbered lines."""
    return Stream(
        [Source("a", numbered(folder, "a", n, n_shards=2), 1.0, steps, **options)], cache=folder
    )


def test_traces_stay_as_they_are(tmp_path: Path) -> None:
    """Every value of a trace, also of one asked twice, of an earlier one and of a later epoch."""
    with streamed(tmp_path, Drop(0.3), Repeat(), block_lines=5) as stream:
        traces = [one.to_json() for one in trace(stream, [0, 7, 7, 3, 25])]
        for wrong in ("17", 3, [-1], [1.5]):
            with pytest.raises((ArgumentError, ConfigError), match="numbers"):
                list(trace(stream, wrong))  # type: ignore[arg-type]
    for one in traces:
        one["path"] = Path(one["path"]).name
    check("stream traces", [str([*one.values()]) for one in traces])
    assert repr(Trace(1_234, "a", "/x/a.tsv", 5_678, 2, 0, 0, 1, "", (), "")) == (
        "<Trace: line 1,234 is line 5,678 of a.tsv, epoch 2>"
    )


@pytest.mark.parametrize("n_lines", [1, 5, 6, 12, 13])
@pytest.mark.parametrize(
    ("steps", "options"),
    [
        ((), {"block_lines": 5}),
        ((Drop(0.4), Refuse("-1")), {"block_lines": 5}),
        ((Pair(), Drop(0.2)), {"block_lines": 5, "shuffle": "outputs"}),
        ((Repeat(),), {"block_lines": 5, "shuffle": "none"}),
    ],
)
def test_few_lines_are_those_of_all(
    tmp_path: Path, n_lines: int, steps: Any, options: dict[str, Any]
) -> None:
    """At most so many lines, each with what all lines show of it; lines that are joined are followed together."""
    with streamed(tmp_path, *steps, **options) as stream:
        few, whole = list(debug(stream, n_lines=n_lines)), list(debug(stream))
        assert stream.n == 0
        with pytest.raises(ConfigError, match="n_lines is 0"):
            list(debug(stream, n_lines=0))
    assert few == whole[:n_lines]
    assert len(few) == min(n_lines, 12)
    assert {line.fate for line in few} <= {"", "dropped", "unfit"}
    for line in few:
        assert line.dropped_by == (line.steps[-1].name if line.fate and line.steps else "")
        assert line.to_json()["dropped_by"] == line.dropped_by


@pytest.mark.parametrize(
    ("steps", "faults", "text", "expected"),
    [
        ((), (), (), ("dropped", "")),
        ((), ("why",), (), ("unfit", "")),
        ((TraceStep("x", ("a",), ()),), (), (), ("dropped", "x")),
        ((TraceStep("x", ("a",), ()),), ("why",), (), ("unfit", "x")),
        ((TraceStep("x", ("a",), ("b",)),), (), (), ("dropped", "")),
        ((TraceStep("x", ("a",), ()),), ("why",), ("b",), ("", "")),
    ],
)
def test_fates_of_lines(steps: Any, faults: Any, text: Any, expected: tuple[str, str]) -> None:
    """A line that the stream has was not dropped; else the last step dropped it, if that left nothing."""
    line = DebugLine("a", "/x/a.tsv", 1_000, "", steps, faults, text)
    assert (line.fate, line.dropped_by) == expected
    assert repr(line) == "<DebugLine: line 1,000 of a.tsv>"


@pytest.mark.parametrize("most", [6, 5])
def test_changed_tokens_are_marked(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """In order, or as sets where there are too many pairs; lines without a partner go with the last one."""
    monkeypatch.setattr(tracing, "_MOST_COMPARED", most)
    for before, after, expected in (
        (("b a b",), ("a b",), ["*b a b", "a b"] if most == 6 else ["b a b", "a b"]),
        (("a b c",), ("c d",), ["*a *b c", "c *d"]),
        (("a\tb", "c"), ("a",), ["a|*b", "*c", "a"]),
        (("a",), ("a\tb", "c"), ["a", "a|*b", "*c"]),
        (("a", "b"), ("b", "b", "c"), ["*a", "b", "*b", "b", "*c"]),
        (("a b",), (), ["a b"]),
        ((), ("a\tb",), ["a|b"]),
    ):
        lines = [line for side in compared(TraceStep("x", before, after)) for line in side]
        marked = [
            [["*" * token.is_changed + token.text for token in field] for field in line]
            for line in lines
        ]
        assert ["|".join(map(" ".join, line)) for line in marked] == expected


def test_deviations_of_many_sources_take_little_memory() -> None:
    """A window of turns takes memory for its turns and for the sources, not for their product."""
    tracemalloc.start()
    try:
        assert deviation([1.0] * 500, 1 << 16) == pytest.approx(0.998)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20


def test_plans_collect_garbage_once(tmp_path: Path) -> None:
    """Not once for each source: collecting looks at all objects of the process."""
    sources = [Source(name, numbered(tmp_path, name, 3), epochs=1) for name in "abcdefghij"]
    stream = Stream(sources, cache=tmp_path)
    collections = []

    def note(phase: str, facts: dict[str, int]) -> None:
        if phase == "start" and facts["generation"] == 2:
            collections.append(facts)

    gc.callbacks.append(note)
    try:
        assert set(plan(stream, at=30, seconds=0).sources) == {*"abcdefghij"}
    finally:
        gc.callbacks.remove(note)
    assert len(collections) < len(sources)
