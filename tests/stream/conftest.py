"""One small stream with every kind of transform."""

import pytest
from support.streams import Drop, Pair, Repeat, numbered

from volt.stream import Schedule, Source, Stream


@pytest.fixture
def make(tmp_path):
    """A small stream with everything: mixed, filtered, one to many, many to one, shuffles, a
    schedule."""
    sources = (
        Source(
            "a",
            numbered(tmp_path, "a", 23, n_shards=2),
            2.0,
            (Drop(0.3),),
            block_lines=5,
            split_lines=3,
        ),
        Source(
            "b",
            numbered(tmp_path, "b", 11),
            Schedule(((0, 1.0), (40, 3.0)), "linear"),
            (Repeat(),),
            block_lines=4,
        ),
        Source(
            "c",
            numbered(tmp_path, "c", 12),
            0.5,
            (Pair(), Drop(0.2)),
            block_lines=7,
            shuffle="outputs",
        ),
    )

    def stream(sources=sources, **options):
        return Stream(sources, **{"seed": 7, "cache": tmp_path / "cache", **options})

    return stream
