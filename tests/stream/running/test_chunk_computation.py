"""A block's lines pass through its transforms, and each line that is unfit is named by its place, whatever else is."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams import Crash, Drop, Refuse, Repeat, numbered

from volt.errors import StreamError
from volt.stream import Batch, ErrorPolicy, LineFault, Source
from volt.stream.reading.error_policy import Fault
from volt.stream.reading.open_source import open_source
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import (
    FIRST,
    Address,
    chunk_rows,
    compute_chunk,
    invalid_lines,
    n_chunks,
    trace_chunk,
    unwritable_lines,
)
from volt.stream.running.stream import Stream
from volt.stream.transforms.case import Lower
from volt.stream.transforms.column import Column
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import signature
from volt.stream.transforms.user_code import User


def opened(tmp_path, *transforms, n=20, **options):
    """A source of numbered lines in file order."""
    declared = Source("a", numbered(tmp_path, "a", n), 1.0, transforms, shuffle="none", **options)  # type: ignore[arg-type]
    return open_source(declared, seed=5)


class Computed(NamedTuple):
    """Return the content of a block as comparable values."""

    data: bytes
    n_lines: int
    n_read: int
    faults: tuple[Fault, ...]
    error: str


def computed(source, address=None, *, policy=None):
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

    def __call__(self, batch, chance):
        if len(batch) > 1:
            raise KeyError("several")
        return batch


@dataclass(frozen=True, slots=True)
class Wrong:
    """Returns no batch."""

    name: str = "wrong"

    def __call__(self, batch, chance):
        return batch.lines  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Mark:
    """Appends a random number, so that chance shows."""

    name: str = "mark"

    def __call__(self, batch, chance):
        drawn = chance.words(batch.origins).tolist()
        return batch.with_lines(
            [f"{line}\t{number}" for line, number in zip(batch.lines, drawn, strict=True)]
        )


@given(st.integers(1, 3_000), st.integers(1, 1_000))
def test_chunks_tile_a_part(n_lines, most):
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


def test_a_block_is_a_pure_function(tmp_path):
    """A block computed twice, or from a pickled source, is the same; another block differs."""
    source = opened(tmp_path, Drop(0.3), Repeat(), Mark(), block_lines=10)
    copy = pickle.loads(pickle.dumps(source))
    first = computed(source, Address(LineBlock(2, 10, 10), 0))
    assert (
        first
        == computed(source, Address(LineBlock(2, 10, 10), 0))
        == computed(copy, Address(LineBlock(2, 10, 10), 0))
    )
    assert first.data != computed(source, Address(LineBlock(3, 10, 10), 0)).data


def test_faults_after_filters_name_the_line_in_the_file(tmp_path):
    """Where earlier steps dropped and repeated lines, the place is still that of the line in the file."""
    source = opened(tmp_path, Drop(0.5), Repeat(), Refuse("a-1"))
    faults = computed(source, policy=ErrorPolicy("quarantine", quarantine="unfit.jsonl")).faults
    assert faults
    for fault in faults:
        line = Path(fault.path).read_text().split("\n")[fault.line - 1]
        assert fault.text.startswith(line)
        assert "a-1" in line


def test_a_transform_that_fails_on_no_line_by_itself_ends_the_stream(tmp_path):
    """There is no line to skip; the error holds the source, the block and the traceback."""
    error = computed(opened(tmp_path, Together()), policy=ErrorPolicy("skip")).error
    assert "source 'a', epoch 0, lines from 0 on: transform 'together' fails on the chunk" in error
    assert "KeyError: 'several'" in error


def test_a_transform_that_returns_no_batch_is_reported(tmp_path):
    """Every line then fails, with what to do."""
    block = computed(opened(tmp_path, Wrong()))
    assert "transform 'wrong' must return a Batch with an origin for each line" in block.error


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=8),
        min_size=1,
    )
)
def test_lines_without_transforms_are_what_they_were(lines):
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


def test_faults_can_be_sent_between_processes():
    """A fault of a line survives pickling, for transforms that use processes of their own."""
    fault = pickle.loads(pickle.dumps(LineFault({3: "bad", 1: "worse"})))
    assert fault.reasons == {3: "bad", 1: "worse"}
    assert str(fault) == "2 unfit lines, the first at index 1: worse"


def test_signatures_hold_all_that_matters():
    """Fields, nested transforms and functions by name; no addresses, so that two runs agree."""
    assert signature(Drop(0.3)) == {"type": "Drop", "share": 0.3, "name": "drop"}
    assert signature({"steps": (Drop(0.3), len)}) == {
        "steps": [{"type": "Drop", "share": 0.3, "name": "drop"}, "builtins.len"]
    }
    assert signature(object()) == "object"


def test_batches_keep_lines_and_origins_together():
    """A number of lines that differs from the origins' is refused."""
    with pytest.raises(StreamError, match="1 lines were made from 2"):
        Batch.of(["a", "b"]).with_lines(["x"])
    assert Batch.of([]).take([]).lines == []


def test_transforms_draw_from_generators_of_their_own(tmp_path):
    """Two transforms in one block draw different numbers, and what the first draws does not move the second."""
    once = computed(opened(tmp_path, Mark())).data.decode().split("\n")[0].split("\t")
    twice = computed(opened(tmp_path, Mark(), Mark())).data.decode().split("\n")[0].split("\t")
    assert twice[2] != twice[3]
    assert twice[2] == once[2]


N_LINES = 300


@pytest.fixture
def folder(tmp_path):
    """Holds lines.tsv, and mine.py with a function that returns the same list each time."""
    (tmp_path / "lines.tsv").write_text(
        "".join(f"{number}\tÉ{number}\n" for number in range(N_LINES))
    )
    (tmp_path / "mine.py").write_text(
        "kept = []\n\ndef swapped(fields):\n    kept[:] = fields[::-1]\n    return kept if fields[0] != '7' else None\n"
    )
    return tmp_path


def stream(folder, *transforms):
    """One epoch of the lines."""
    return Stream(
        [Source("lines", (str(folder / "lines.tsv"),), transforms=transforms, epochs=1)], seed=1
    )


def user(folder):
    """A function of a Python file."""
    return User(file=folder / "mine.py", function="swapped")


@pytest.mark.parametrize("n", [1, 40, 1000])
def test_any_number_of_lines_at_a_time_gives_the_same(folder, monkeypatch, n):
    """How many lines a function's calls share changes no line, whatever the function does with what it returned."""
    monkeypatch.setattr("volt.stream.reading.open_source.CHUNK_LINES", n)
    with stream(folder, user(folder)) as given, stream(folder) as raw:
        wanted = ["\t".join(line.split("\t")[::-1]) for line in raw if not line.startswith("7\t")]
        assert list(given) == wanted


def test_a_state_that_counts_other_chunks_is_refused(folder, monkeypatch):
    """A state says which chunk it stands in, so it fits only where chunks are as large; whole blocks have none."""
    states = []
    for transforms in ((Lower(), Tag("x")), (user(folder),)):
        with stream(folder, *transforms) as taken:
            next(iter(taken))
            states.append((transforms, taken.state()))
    monkeypatch.setattr("volt.stream.reading.open_source.CHUNK_LINES", 64)
    for (transforms, state), fits in zip(states, (True, False), strict=True):
        with stream(folder, *transforms) as other:
            if fits:
                other.restore(state)
                assert len(list(other)) == N_LINES - 1
            else:
                with pytest.raises(StreamError, match="chunk_lines"):
                    other.restore(state)


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
def test_sizes_of_chunks(n_lines, most, sizes):
    """Sixteen lines first, then twice as many, until chunks are full; one chunk of what fits."""
    spans = [
        chunk_rows(chunk, n_lines=n_lines, most=most)
        for chunk in range(n_chunks(n_lines, most=most))
    ]
    assert [high - low for low, high in spans] == sizes
    assert chunk_rows(1, n_lines=n_lines, most=n_lines) == (n_lines, n_lines)


def test_faults_of_texts():
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
def test_mistakes_of_programs(tmp_path, n, error, remedy):
    """A mistake that fails on each of eight lines or more is reported as one; else each line is unfit."""

    def step(batch, chance):
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


def test_unfit_lines_of_a_block(tmp_path):
    """All of them, in the order of the steps, with texts for quarantine alone; the first is the error of `raise`."""
    source, block = (
        opened(tmp_path, Crash("-7"), Refuse("-2"), Refuse("-5"), n=9),
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
def test_fields_are_sampled(tmp_path, n, counted):
    """Only the first 256 lines of a computed count."""
    computed = compute_chunk(opened(tmp_path, n=n), Address(LineBlock(0, 0, n), 0), ErrorPolicy())
    assert (computed.fields, computed.n_lines) == ({2: counted}, n)
