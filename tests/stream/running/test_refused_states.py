"""A state of other sources, settings or versions, or one that no stream wrote, is refused by what differs."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from streams import Drop, Make, numbered, write_lines

from volt.errors import StreamError
from volt.stream import Source
from volt.stream.running.checkpoint import load_state
from volt.stream.running.state_validation import checksum


def test_a_state_of_other_sources_is_refused(make: Make, tmp_path: Path) -> None:
    """Other lines, block sizes, weights or transforms are named, by source; another path to the same lines is not."""
    source = Source("d", numbered(tmp_path, "d", 9), block_lines=4)
    state = make([source]).state()
    moved = Source(
        "d", (write_lines(tmp_path / "moved", [f"d-{i}\tD {i}" for i in range(9)]),), block_lines=4
    )
    make([moved]).restore(state)
    changes: dict[str, Source] = {
        "sources.d.lines": replace(source, paths=numbered(tmp_path, "e", 9)),
        "sources.d.block_lines: 4 in the state, 3 here": replace(source, block_lines=3),
        "sources.d.weight": replace(source, weight=2.0),
        "sources.d.transforms: .*drop": replace(source, transforms=(Drop(0.1),)),
        "sources.e": replace(source, name="e"),
    }
    for message, other in changes.items():
        with pytest.raises(StreamError, match=message):
            make([other]).restore(state)


@pytest.mark.parametrize(
    "place", [{"offset": 50_000}, {"start": 99, "offset": 0}, {"start": 1, "offset": 0}]
)
def test_a_state_stands_within_its_sources(make: Make, place: dict[str, int]) -> None:
    """A place that a source does not have is refused, when a stream is restored or when the block is read."""
    stream = make()
    list(islice(stream, 1))
    state = stream.state()
    source = next(name for name, cursor in state["sources"].items() if cursor["lines"])
    other = make()
    damaged = state | {"sources": {**state["sources"], source: state["sources"][source] | place}}
    damaged["checksum"] = checksum(damaged)
    with pytest.raises(
        StreamError, match=f"the state's sources.{source}.* use a state that a stream has written"
    ):
        other.restore(damaged) or list(islice(other, 1000))


def test_a_state_of_steps_is_reported_as_such(make: Make, tmp_path: Path) -> None:
    """With the file's name, and what goes on from it."""
    path = tmp_path / "s.json"
    path.write_text('{"format": "volt.steps", "version": 1, "n": 3}')
    message = r"s\.json: the state belongs to steps .*`volt stream batches`, Steps\.restore, or StreamDataset"
    with pytest.raises(StreamError, match=message):
        make().restore(load_state(path))
