"""How streams end: where no source with a weight is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from streams import numbered, write_lines

from volt.stream.mixing.schedule import Schedule, Weight
from volt.stream.reading.source_definition import Source
from volt.stream.running.stream import Stream
from volt.stream.transforms.filters import Length


@pytest.mark.parametrize(("weight", "n"), [(0.0, 40), (Schedule(((0, 1.0), (130, 0.0))), 130)])
def test_a_stream_ends_where_no_weight_is_left(weight: Weight, n: int, tmp_path: Path) -> None:
    """`ends: drop` goes on while a source with a weight is left; then it ends, restored too."""
    sources = [
        Source("a", numbered(tmp_path, "a", 40), epochs=1),
        Source("b", numbered(tmp_path, "b", 30), weight=weight),
    ]
    with Stream(sources, ends="drop") as stream:
        lines = list(stream)
        state = stream.state()
    assert len(lines) == n
    assert len({line for line in lines if line.startswith("a")}) == 40
    with Stream(sources, ends="drop") as stream:
        stream.restore(state)
        assert list(stream) == []


def test_a_weight_that_is_yet_to_come_counts_where_no_other_is_left(tmp_path: Path) -> None:
    """`ends: drop`: when all others have ended, a source whose weight is 0 until later is read at once, to its end."""
    late = Schedule(((0, 0.0), (50, 1.0)))
    sources = [
        Source("a", numbered(tmp_path, "a", 5), epochs=1),
        Source("b", numbered(tmp_path, "b", 30), epochs=1, weight=late),
    ]
    for world in (1, 3):
        lines = [
            line
            for rank in range(world)
            for line in Stream(sources, ends="drop", rank=rank, world=world)
        ]
        assert len(lines) == len(set(lines)) == 35


@pytest.mark.parametrize("seed", range(4))
def test_one_good_line_of_many_is_enough(seed: int, tmp_path: Path) -> None:
    """It may come first in one epoch and last in the next, so a stream waits nearly two epochs for a line."""
    path = write_lines(tmp_path / "a.tsv", ["good", *(f"bad {n}" for n in range(9))])
    few = Source("a", (path,), 1.0, (Length(max=1),), block_lines=1, split_lines=1, epochs=3)
    assert list(Stream([few], seed=seed)) == ["good"] * 3
