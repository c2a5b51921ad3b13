"""A block's lines pass through its transforms, and each line that is unfit is named by its place, whatever else is."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import Drop, Refuse, Repeat, numbered

from volt.errors import StreamError
from volt.stream import Batch, ErrorPolicy, LineFault, LineRng, Source
from volt.stream.reading.error_policy import Fault
from volt.stream.reading.open_source import OpenSource, open_source
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import (
    FIRST,
    Address,
    chunk_rows,
    compute_chunk,
    n_chunks,
)
from volt.stream.transforms.transform import Transform, signature


def opened(tmp_path: Path, *transforms: Transform, n: int = 20, **options: object) -> OpenSource:
    """A source of numbered lines in file order."""
    declared = Source("a", numbered(tmp_path, "a", n), 1.0, transforms, shuffle="none", **options)  # type: ignore[arg-type]
    return open_source(declared, seed=5)


class Computed(NamedTuple):
    """What a block holds, in values that can be compared."""

    data: bytes
    n_lines: int
    n_read: int
    faults: tuple[Fault, ...]
    error: str


def computed(
    source: OpenSource, address: Address | None = None, *, policy: ErrorPolicy | None = None
) -> Computed:
    """A block, by default the whole first epoch; all its chunks."""
    block = LineBlock(0, 0, source.n_lines)
    chunks = range(n_chunks(source.n_lines, most=source.chunk_lines))
    addresses = [Address(block, chunk) for chunk in chunks] if address is None else [address]
    blocks = [compute_chunk(source, one, policy or ErrorPolicy()) for one in addresses]
    data, faults = (
        b"".join(bytes(block.data) for block in blocks),
        [fault for block in blocks for fault in block.faults],
    )
    numbers = sum(block.n_lines for block in blocks), sum(block.n_read for block in blocks)
    return Computed(data, *numbers, tuple(faults), "".join(block.error for block in blocks))


@dataclass(frozen=True, slots=True)
class Together:
    """Cannot take a block with several lines, but any line by itself."""

    name: str = "together"

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        if len(batch) > 1:
            raise KeyError("several")
        return batch


@dataclass(frozen=True, slots=True)
class Wrong:
    """Returns no batch."""

    name: str = "wrong"

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return batch.lines  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Mark:
    """Appends a random number, so that chance shows."""

    name: str = "mark"

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        drawn = chance.words(batch.origins).tolist()
        return batch.with_lines(
            [f"{line}\t{number}" for line, number in zip(batch.lines, drawn, strict=True)]
        )


@given(st.integers(1, 3_000), st.integers(1, 1_000))
def test_chunks_tile_a_part(n_lines: int, most: int) -> None:
    """Chunks hold every row once, in order, and `most` of them at most; the first of many is small, and each has twice
    as many as the one before, until they are full.
    """
    spans = [
        chunk_rows(chunk, n_lines=n_lines, most=most)
        for chunk in range(n_chunks(n_lines, most=most))
    ]
    assert [row for low, high in spans for row in range(low, high)] == list(range(n_lines))
    sizes = [high - low for low, high in spans]
    assert 1 <= min(sizes) <= max(sizes) <= most
    if most < n_lines:
        assert sizes[0] < 2 * FIRST
        assert all(after in (2 * before, most) for before, after in pairwise(sizes[:-1]))


def test_a_block_is_a_pure_function(tmp_path: Path) -> None:
    """Computed twice, or by a copy that was sent elsewhere, a block is the same; another block is not."""
    source = opened(tmp_path, Drop(0.3), Repeat(), Mark(), block_lines=10)
    copy = pickle.loads(pickle.dumps(source))
    first = computed(source, Address(LineBlock(2, 10, 10), 0))
    assert (
        first
        == computed(source, Address(LineBlock(2, 10, 10), 0))
        == computed(copy, Address(LineBlock(2, 10, 10), 0))
    )
    assert first.data != computed(source, Address(LineBlock(3, 10, 10), 0)).data


def test_faults_after_filters_name_the_line_in_the_file(tmp_path: Path) -> None:
    """Where earlier steps dropped and repeated lines, the place is still that of the line in the file."""
    source = opened(tmp_path, Drop(0.5), Repeat(), Refuse("a-1"))
    faults = computed(source, policy=ErrorPolicy("quarantine", quarantine="unfit.jsonl")).faults
    assert faults
    for fault in faults:
        line = Path(fault.path).read_text().split("\n")[fault.line - 1]
        assert fault.text.startswith(line)
        assert "a-1" in line


def test_a_transform_that_fails_on_no_line_by_itself_ends_the_stream(tmp_path: Path) -> None:
    """There is no line to skip; the error holds the source, the block and the traceback."""
    error = computed(opened(tmp_path, Together()), policy=ErrorPolicy("skip")).error
    assert "source 'a', epoch 0, lines from 0 on: transform 'together' fails on the chunk" in error
    assert "KeyError: 'several'" in error


def test_a_transform_that_returns_no_batch_is_reported(tmp_path: Path) -> None:
    """Every line then fails, with what to do."""
    block = computed(opened(tmp_path, Wrong()))
    assert "transform 'wrong' must return a Batch with an origin for each line" in block.error


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=8),
        min_size=1,
    )
)
def test_lines_without_transforms_are_what_they_were(lines: list[str]) -> None:
    """The fast way and the slow way give the same bytes: those of the file."""
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        lines[0] = f"x{lines[0]}".replace(
            "\0", ""
        )  # a NUL at the start would look like a binary file
        lines = [line.replace("\0", "") for line in lines]
        data = "".join(line + "\n" for line in lines).encode()
        file.write(data)
        file.flush()
        for transforms in ((), (Refuse("\n"),)):
            declared = Source("a", (file.name,), 1.0, transforms, shuffle="none")
            block = computed(open_source(declared, seed=0))
            assert (block.data, block.n_lines, block.error) == (data, len(lines), "")


def test_faults_can_be_sent_between_processes() -> None:
    """A fault of a line survives pickling, for transforms that use processes of their own."""
    fault = pickle.loads(pickle.dumps(LineFault({3: "bad", 1: "worse"})))
    assert fault.reasons == {3: "bad", 1: "worse"}
    assert str(fault) == "2 unfit lines, the first at index 1: worse"


def test_signatures_hold_all_that_matters() -> None:
    """Fields, nested transforms and functions by name; no addresses, so that two runs agree."""
    assert signature(Drop(0.3)) == {"type": "Drop", "share": 0.3, "name": "drop"}
    assert signature({"steps": (Drop(0.3), len)}) == {
        "steps": [{"type": "Drop", "share": 0.3, "name": "drop"}, "builtins.len"]
    }
    assert signature(object()) == "object"


def test_batches_keep_lines_and_origins_together() -> None:
    """A number of lines that differs from the origins' is refused."""
    with pytest.raises(StreamError, match="1 lines were made from 2"):
        Batch.of(["a", "b"]).with_lines(["x"])
    assert Batch.of([]).take([]).lines == []


def test_transforms_draw_from_generators_of_their_own(tmp_path: Path) -> None:
    """Two transforms in one block draw different numbers, and what the first draws does not move the second."""
    once = computed(opened(tmp_path, Mark())).data.decode().split("\n")[0].split("\t")
    twice = computed(opened(tmp_path, Mark(), Mark())).data.decode().split("\n")[0].split("\t")
    assert twice[2] != twice[3]
    assert twice[2] == once[2]
