"""Many sources: what a line costs does not grow with their number, and ranks agree on when weights change."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import numbered

from volt.stream import Schedule, Source, Stream
from volt.stream.running import engine
from volt.stream.transforms.case import Upper


def calls(stream: Stream, n: int) -> int:
    """How many Python functions are called for n lines."""
    counts = [0]

    def count(frame: object, event: str, argument: object) -> None:
        counts[0] += event == "call"

    sys.setprofile(count)
    try:
        for _ in stream.blocks(limit=n):
            pass
    finally:
        sys.setprofile(None)
    return counts[0]


@pytest.mark.parametrize("n_lines", [[3, 5, 8], [1, 2, 400]])
def test_a_line_costs_the_same_among_many_sources(
    tmp_path: Path, n_lines: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 5 times as many sources of the same sizes, as many functions are called for a line."""
    monkeypatch.setattr(
        engine, "_PATIENCE", 60.0
    )  # windows end where they are full, not where time is up
    per_line = []
    for factor in (4, 20):
        sources = [
            Source(
                f"s{i}",
                numbered(tmp_path, f"s{i}", n_lines[i % len(n_lines)]),
                transforms=(Upper(),),
            )
            for i in range(factor * len(n_lines))
        ]
        with Stream(sources) as stream:
            list(stream.blocks(limit=examples(5000)))
            n = examples(20_000)
            per_line.append(calls(stream, n) / n)
    assert per_line[1] < 1.5 * per_line[0]


@settings(deadline=None, max_examples=examples(40))
@given(
    points=st.lists(st.integers(1, 90), min_size=1, max_size=4, unique=True),
    weights=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    world=st.integers(1, 5),
)
def test_ranks_change_weights_at_the_same_sample(
    points: list[int], weights: list[int], world: int
) -> None:
    """Points count the lines of all ranks: at each sample of a rank, shares are those of that sample of the stream."""
    schedule = Schedule(tuple(zip([0, *sorted(points)], map(float, weights), strict=False)))
    whole = [schedule.at(sample) for sample in range(120)]
    for rank in range(world):
        own = schedule.of_rank(rank, world)
        assert [own.at(sample) for sample in range(len(whole[rank::world]))] == whole[rank::world]


@settings(deadline=None, max_examples=examples(30))
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 40), max_size=6),
)
def test_windows_are_no_part_of_the_stream(sizes: list[int], cuts: list[int]) -> None:
    """Whatever is asked for at once, the lines are the same, and the states lead to the same lines."""
    with TemporaryDirectory() as folder:
        sources = [Source(f"s{i}", numbered(Path(folder), f"s{i}", n)) for i, n in enumerate(sizes)]
        with Stream(sources, seed=2) as whole, Stream(sources, seed=2) as pieces:
            expected = list(islice(whole, sum(cuts)))
            found = list[str]()
            for cut in cuts:
                for block in pieces.blocks(limit=cut):
                    found += block.decode().splitlines()
                assert whole.state(at=len(found))["n"] == pieces.state()["n"] == len(found)
                with Stream(sources, seed=2) as one, Stream(sources, seed=2) as two:
                    one.restore(whole.state(at=len(found)))
                    two.restore(pieces.state())
                    assert list(islice(one, 20)) == list(islice(two, 20))
            assert found == expected
