"""How streams end: where no source with a weight is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from streams import numbered

from volt.stream.mixing.schedule import Schedule, Weight
from volt.stream.reading.source import Source
from volt.stream.running.stream import Stream


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
