"""Audits find what is wrong, traces lead back to the file, plans say what will be."""

from __future__ import annotations

import json
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from streams import Drop, Pair, Repeat, deadline, numbered, write_lines

from volt.errors import StreamError
from volt.stream import Source, Stream, audit, plan, trace
from volt.stream.checking.plan import resident, watched
from volt.stream.reading.open_shard import open_pair
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.tables import open_table
from volt.stream.reading.unread_lines import rank_blocks
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng


@pytest.mark.parametrize("world", [1, 2, 5])
@pytest.mark.parametrize("block_lines", [1, 7, 1000])
def test_audits_prove_exact_cover(tmp_path: Path, world: int, block_lines: int) -> None:
    """Three epochs, or all of a source that ends before: no line missing or repeated, by position and by content."""
    paths = numbered(tmp_path, "a", 60, n_shards=3)
    sources = [
        Source("a", paths, epochs=5, block_lines=block_lines, split_lines=11),
        Source(
            "b", paths[:1], 0.3, epochs=2, block_lines=block_lines, split_lines=None, shuffle="none"
        ),
    ]
    found = audit(Stream(sources, world=world), epochs=3, turns=1000, content=True)
    assert found.exact
    assert [(part.n_lines, part.epochs, part.missing, part.repeated) for part in found.sources] == [
        (60, 3, 0, 0),
        (20, 2, 0, 0),
    ]
    assert json.loads(json.dumps(found.to_json()))["exact"]


def test_audits_find_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that reads the lines of another, and an order that gives a line twice, are counted."""
    from volt.stream.checking import audit as auditing

    stream = Stream([Source("a", numbered(tmp_path, "a", 60), block_lines=10)])
    right = auditing.segment_lines
    monkeypatch.setattr(
        auditing,
        "segment_lines",
        lambda source, part: right(source, part._replace(start=part.start % 50)),
    )
    found = audit(stream, turns=10)
    assert (found.sources[0].missing, found.sources[0].repeated, found.exact) == (10, 10, False)
    monkeypatch.undo()
    monkeypatch.setattr(auditing, "line_order", lambda source, part, n: np.zeros(n, np.int64))
    found = audit(stream, turns=10)
    assert (found.sources[0].missing, found.sources[0].repeated, found.exact) == (54, 54, False)


def test_audits_find_ranks_that_read_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole parts dealt to ranks in turn cover an epoch too, but not evenly; ranks that all read all, repeat lines."""
    from volt.stream.checking import audit as auditing

    stream = Stream([Source("a", numbered(tmp_path, "a", 25), block_lines=10)], world=2)
    whole = list(rank_blocks(25, 10, epochs=2))
    monkeypatch.setattr(auditing, "rank_blocks", lambda *_, rank, world, epochs: whole[rank::world])
    found = audit(stream, epochs=2, turns=10).sources[0]
    assert (found.missing, found.repeated, found.uneven, found.exact) == (0, 0, 5, False)
    monkeypatch.setattr(auditing, "rank_blocks", lambda *_, rank, world, epochs: whole)
    found = audit(stream, epochs=2, turns=10).sources[0]
    assert (found.missing, found.repeated, found.uneven, found.exact) == (0, 50, 0, False)


@pytest.mark.parametrize("world", [1, 3])
def test_audits_read_tables_and_pairs(tmp_path: Path, world: int) -> None:
    """Content is compared with the files, also where a line is made from fields."""
    rows = [f'{{"src": "a {i}", "tgt": "b {i}"}}' for i in range(23)]
    table = write_lines(tmp_path / "a.jsonl", rows)
    opened = OpenSource(
        Source("a", (table,), block_lines=4),
        (open_table(table, fields={"src": "src", "tgt": "tgt"}, split_lines=5),),
        1,
    )
    assert audit(Stream([opened], world=world), turns=10, content=True).exact
    pair = {
        name: write_lines(tmp_path / name, [f"{name} {i}" for i in range(23)])
        for name in ("src", "tgt")
    }
    opened = OpenSource(
        Source("b", tuple(pair.values()), block_lines=4), (open_pair(pair, split_lines=5),), 1
    )
    assert audit(Stream([opened], world=world), turns=10, content=True).exact


def test_audits_find_other_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are not those of the file are reported, where content is read."""
    from volt.stream.checking import audit as auditing

    stream = Stream([Source("a", numbered(tmp_path, "a", 9))])
    monkeypatch.setattr(auditing, "_file_lines", lambda source: iter([b"other"]))
    assert audit(stream, turns=10).exact
    assert not audit(stream, turns=10, content=True).exact


def make(tmp_path: Path) -> Stream:
    """A stream with filters, and one-to-many and many-to-one transforms."""
    return Stream(
        [
            Source(
                "a",
                numbered(tmp_path, "a", 23, n_shards=2),
                2.0,
                (Drop(0.3),),
                block_lines=5,
                split_lines=3,
            ),
            Source("b", numbered(tmp_path, "b", 11), 1.0, (Repeat(), Drop(0.1)), block_lines=4),
            Source(
                "c", numbered(tmp_path, "c", 12), 0.5, (Pair(),), block_lines=7, shuffle="outputs"
            ),
        ],
        seed=3,
    )


def test_traces_lead_back_to_the_file(tmp_path: Path) -> None:
    """Each line of the stream is the last step's, and the line in the file is the one it was made from."""
    lines = list(islice(make(tmp_path), 120))
    stream = make(tmp_path)
    list(stream.blocks(limit=30))
    for n, found in enumerate(trace(stream, range(120))):
        assert (found.n, found.text) == (n, lines[n])
        assert Path(found.path).read_text().split("\n")[found.line - 1] == found.raw
        assert found.text.startswith(found.raw)
        assert found.steps[0].before == (found.raw,)
        assert found.text in found.steps[-1].after
        assert all(a.after == b.before for a, b in zip(found.steps, found.steps[1:], strict=False))
    assert list(islice(stream, 90)) == lines[30:]


def test_traces_start_from_a_state_and_in_any_order(tmp_path: Path) -> None:
    """Asked backwards, or from a state, traces are the same; beyond the end they are an error."""
    stream = make(tmp_path)
    straight = list(trace(stream, range(20)))
    assert list(trace(stream, reversed(range(20)))) == straight[::-1]
    list(stream.blocks(limit=11))
    assert list(trace(stream, [15], state=stream.state())) == straight[15:16]
    json.dumps(straight[0].to_json())
    finite = Stream([Source("a", numbered(tmp_path, "a", 5), epochs=1)])
    with pytest.raises(StreamError, match="line 9: the stream has only 5 lines"):
        next(trace(finite, [9]))


def test_plans_say_what_will_be(tmp_path: Path) -> None:
    """Lines and epochs per source at line N, by weights and by what filters leave; the stream is not moved."""
    with deadline(30):
        stream = make(tmp_path)
        found = plan(stream, at=700, seconds=0.05)
    assert [round(part.lines) for part in found.sources.values()] == [400, 200, 100]
    part = found.sources["c"]
    assert part.yield_ == pytest.approx(4 / 7)
    assert part.epochs == pytest.approx(100 / (4 / 7) / 12)
    assert found.memory > 0
    assert found.lines_per_second is not None
    assert found.lines_per_second > 0
    assert stream.n == 0
    assert json.loads(json.dumps(found.to_json()))["at"] == 700


def test_a_stream_too_short_to_measure(tmp_path: Path) -> None:
    """Where one block is all there is, no speed is reported."""
    stream = Stream([Source("a", numbered(tmp_path, "a", 5), epochs=1)])
    assert plan(stream, at=5, seconds=0.05).lines_per_second is None


class Hungry:
    """Holds 64 MiB while it runs."""

    name = "hungry"

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        held = np.ones(1 << 26, np.uint8)
        time.sleep(0.02 * int(held[0]))
        return batch


@pytest.mark.skipif(resident() == 0, reason="the system does not say what memory a process has")
@pytest.mark.parametrize("n_workers", [0, 1])
def test_plans_tell_the_memory_that_transforms_take(tmp_path: Path, n_workers: int) -> None:
    """What a transform holds for a moment is in the plan, and it is the greatest part of it; so also in a worker."""
    source = Source("a", numbered(tmp_path, "a", 300), 1.0, (Hungry(),), block_lines=100)
    found = plan(Stream([source], n_workers=n_workers), at=10, seconds=0.05)
    assert 1 << 26 <= found.memory < 3 << 25


def test_the_memory_that_is_watched_is_the_greatest() -> None:
    """What is taken and given back meanwhile counts; what was there before does not."""
    before = np.ones(1 << 25, np.uint8)
    with watched() as memory:
        held = np.ones(1 << 26, np.uint8)
        memory.measure()
        del held
    assert before[0] == 1
    assert resident() == 0 or 1 << 26 <= memory.peak + (1 << 20) < 3 << 25


def test_a_short_stream_is_measured_as_far_as_it_goes(tmp_path: Path) -> None:
    """Where the stream ends before what was computed ahead is used up, that is what is measured."""
    stream = Stream([Source("a", numbered(tmp_path, "a", 30), epochs=1, block_lines=10)])
    speed = plan(stream, at=5, seconds=0.05).lines_per_second
    assert speed is not None
    assert speed > 0


def test_a_stream_with_forked_workers_is_measured(tmp_path: Path) -> None:
    """Workers that were forked hold the pipe that is measured: they end before its reader is waited for."""
    (tmp_path / "same.py").write_text("def same(fields):\n    return fields\n")
    path = write_lines(tmp_path / "a.tsv", [f"a{i}\tb" for i in range(2000)])
    (tmp_path / "s.yaml").write_text(
        f"sources: {{a: {{path: {path}, block_lines: 100, transforms: [user: {{file: same.py, function: same}}]}}}}"
    )
    with (
        deadline(30),
        Stream.from_config(tmp_path / "s.yaml", n_workers=2, start_method="fork") as stream,
    ):
        assert plan(stream, at=5, seconds=0.05).lines_per_second
