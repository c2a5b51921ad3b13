"""`compute_chunk`: lines pass through transforms, and each unfit line is recorded with its
place."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
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
from volt.stream.transforms.transform import signature
from volt.stream.transforms.user_code import User


def open_numbered(tmp_path, *transforms, n=20, **options):
    """Open a source of numbered lines in file order."""
    declared = Source("a", numbered(tmp_path, "a", n), 1.0, transforms, shuffle="none", **options)
    return open_source(declared, seed=5)


class Computed(NamedTuple):
    """The content of a computed chunk, as values that can be compared."""

    data: bytes
    n_lines: int
    n_read: int
    faults: tuple[Fault, ...]
    error: str


def compute_lines(source, address=None, *, policy=None):
    """Compute all chunks of a block, by default of the whole first epoch."""
    block = LineBlock(0, 0, source.n_lines)
    chunks = range(n_chunks(source.n_lines, most=source.chunk_lines))
    addresses = [Address(block, chunk) for chunk in chunks] if address is None else [address]
    blocks = [compute_chunk(source, one, policy or ErrorPolicy()) for one in addresses]
    data = b"".join(bytes(block.data) for block in blocks)
    faults = [fault for block in blocks for fault in block.faults]
    numbers = sum(block.n_lines for block in blocks), sum(block.n_read for block in blocks)
    return Computed(data, *numbers, tuple(faults), "".join(block.error for block in blocks))


@dataclass(frozen=True, slots=True)
class Together:
    """A transform that fails on several lines at once, but on no single line."""

    name: str = "together"

    def __call__(self, batch, chance):
        if len(batch) > 1:
            raise KeyError("several")
        return batch


@dataclass(frozen=True, slots=True)
class Wrong:
    """A transform that returns no batch."""

    name: str = "wrong"

    def __call__(self, batch, chance):
        return batch.lines


@dataclass(frozen=True, slots=True)
class Mark:
    """A transform that appends a random number to each line."""

    name: str = "mark"

    def __call__(self, batch, chance):
        drawn = chance.words(batch.origins).tolist()
        return batch.with_lines(
            [f"{line}\t{number}" for line, number in zip(batch.lines, drawn, strict=True)]
        )


def chunk_sizes(n_lines, most):
    """Return the rows of each chunk of a block, after checking that the chunks tile the block."""
    sizes = []
    for chunk in range(n_chunks(n_lines, most=most)):
        low, high = chunk_rows(chunk, n_lines=n_lines, most=most)
        assert low == sum(sizes)
        sizes.append(high - low)
    assert sum(sizes) == n_lines
    return sizes


@given(st.integers(1, 3_000), st.integers(1, 1_000))
def test_chunks_tile_a_block(n_lines, most):
    """chunk_rows covers each row of a block once, in order, with chunks that double until they have
    the maximum of rows."""
    sizes = chunk_sizes(n_lines, most)
    assert 1 <= min(sizes) <= max(sizes) <= most
    if most < n_lines:
        assert sizes[0] < 2 * FIRST
        assert all(after in (2 * before, most) for before, after in pairwise(sizes[:-1]))


def test_chunks_depend_only_on_source_and_address(tmp_path):
    """A chunk that is computed again, or from a pickled source, is equal; a chunk of another epoch
    is not."""
    source = open_numbered(tmp_path, Drop(0.3), Repeat(), Mark(), block_lines=10)
    copy = pickle.loads(pickle.dumps(source))
    address = Address(LineBlock(2, 10, 10), 0)
    first = compute_lines(source, address)
    assert first == compute_lines(source, address) == compute_lines(copy, address)
    assert first.data != compute_lines(source, Address(LineBlock(3, 10, 10), 0)).data


def test_faults_after_filters_name_the_line_in_the_file(tmp_path):
    """A fault names the line of the file, even if earlier transforms dropped and repeated lines."""
    source = open_numbered(tmp_path, Drop(0.5), Repeat(), Refuse("a-1"))
    faults = compute_lines(
        source, policy=ErrorPolicy("quarantine", quarantine="unfit.jsonl")
    ).faults
    assert faults
    for fault in faults:
        line = Path(fault.path).read_text().split("\n")[fault.line - 1]
        assert fault.text.startswith(line)
        assert "a-1" in line


def test_a_transform_that_fails_only_on_several_lines_is_an_error(tmp_path):
    """If a transform fails on a chunk, but on none of its lines alone, the error names source,
    block and traceback."""
    error = compute_lines(open_numbered(tmp_path, Together()), policy=ErrorPolicy("skip")).error
    assert "source 'a', epoch 0, lines from 0 on: transform 'together' fails on the chunk" in error
    assert "KeyError: 'several'" in error


def test_a_transform_must_return_a_batch(tmp_path):
    """A transform that returns something else than a Batch is an error of the chunk, with a
    remedy."""
    block = compute_lines(open_numbered(tmp_path, Wrong()))
    assert "transform 'wrong' must return a Batch with an origin for each line" in block.error


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=8),
        min_size=1,
    )
)
def test_lines_without_transforms_are_unchanged(lines):
    """compute_chunk returns the bytes of the file, without transforms and with a transform that
    changes nothing."""
    lines[0] = f"x{lines[0]}"  # no byte order mark, and no head of a compressed file
    data = "".join(line + "\n" for line in lines).encode()
    with NamedTemporaryFile(suffix=".tsv") as file:
        file.write(data)
        file.flush()
        for transforms in ((), (Refuse("\n"),)):
            declared = Source("a", (file.name,), 1.0, transforms, shuffle="none")
            chunk = compute_lines(open_source(declared, seed=0))
            assert (chunk.data, chunk.n_lines, chunk.error) == (data, len(lines), "")


def test_line_faults_can_be_pickled():
    """A LineFault that was pickled has the same reasons and message."""
    fault = pickle.loads(pickle.dumps(LineFault({3: "bad", 1: "worse"})))
    assert fault.reasons == {3: "bad", 1: "worse"}
    assert str(fault) == "2 unfit lines, the first at index 1: worse"


def test_signatures_have_options_and_names_but_no_addresses():
    """signature returns options, nested transforms, and names of functions, which are equal in
    every run."""
    assert signature(Drop(0.3)) == {"type": "Drop", "share": 0.3, "name": "drop"}
    assert signature({"steps": (Drop(0.3), len)}) == {
        "steps": [{"type": "Drop", "share": 0.3, "name": "drop"}, "builtins.len"]
    }
    assert signature(object()) == "object"


def test_a_batch_has_an_origin_for_each_line():
    """Batch.with_lines refuses another number of lines than the batch has."""
    with pytest.raises(StreamError, match="1 lines were made from 2"):
        Batch.of(["a", "b"]).with_lines(["x"])
    assert Batch.of([]).take([]).lines == []


def test_each_transform_has_its_own_random_numbers(tmp_path):
    """Two equal transforms of a source draw different numbers, and the first does not change the
    second's."""
    once = compute_lines(open_numbered(tmp_path, Mark())).data.decode().split("\n")[0].split("\t")
    twice = (
        compute_lines(open_numbered(tmp_path, Mark(), Mark()))
        .data.decode()
        .split("\n")[0]
        .split("\t")
    )
    assert twice[2] != twice[3]
    assert twice[2] == once[2]


N_LINES = 300


@pytest.fixture
def folder(tmp_path):
    """A folder with lines.tsv, and with mine.py, whose function returns the same list object each
    time."""
    (tmp_path / "lines.tsv").write_text(
        "".join(f"{number}\tÉ{number}\n" for number in range(N_LINES))
    )
    (tmp_path / "mine.py").write_text(
        "kept = []\n\ndef swapped(fields):\n    kept[:] = fields[::-1]\n    return kept if fields[0] != '7' else None\n"
    )
    return tmp_path


def open_stream(folder, *transforms):
    """Return a stream of one epoch of the lines."""
    return Stream(
        [Source("lines", (str(folder / "lines.tsv"),), transforms=transforms, epochs=1)], seed=1
    )


def user_function(folder):
    """Return the transform that calls the function of mine.py."""
    return User(file=folder / "mine.py", function="swapped")


@pytest.mark.parametrize("n", [1, 40, 1000])
def test_chunk_sizes_do_not_change_the_lines_of_user_code(folder, monkeypatch, n):
    """A user's function that returns one reused list gives the same lines for chunks of any
    size."""
    monkeypatch.setattr("volt.stream.reading.open_source.CHUNK_LINES", n)
    with open_stream(folder, user_function(folder)) as given, open_stream(folder) as raw:
        wanted = ["\t".join(line.split("\t")[::-1]) for line in raw if not line.startswith("7\t")]
        assert list(given) == wanted


def test_a_state_with_other_chunk_sizes_is_refused(folder, monkeypatch):
    """A state of a source with Python code is refused if the chunk size has changed; a state of
    whole blocks is not."""
    states = []
    for transform in (Lower(), user_function(folder)):
        with open_stream(folder, transform) as stream:
            stream.skip(1)
            states.append(stream.state())
    monkeypatch.setattr("volt.stream.reading.open_source.CHUNK_LINES", 64)
    with open_stream(folder, Lower()) as stream:
        stream.restore(states[0])
        assert len(list(stream)) == N_LINES - 1
    other = open_stream(folder, user_function(folder))
    with other, pytest.raises(StreamError, match="chunk_lines"):
        other.restore(states[1])


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
def test_chunks_double_from_16_rows(n_lines, most, sizes):
    """chunk_rows returns chunks of 16, 32, … rows up to the maximum, or one chunk if the block is
    not larger than it."""
    assert chunk_sizes(n_lines, most) == sizes
    assert chunk_rows(1, n_lines=n_lines, most=n_lines) == (n_lines, n_lines)


def test_lines_of_invalid_utf8_and_unwritable_lines_are_found():
    """invalid_lines names the first invalid byte and its column in any field; unwritable_lines
    finds line ends and surrogates."""
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
def test_an_error_on_every_line_is_a_mistake_of_the_program(tmp_path, n, error, remedy):
    """If one type of programming error fails on each of eight lines or more, it is one error; else
    each line is unfit."""

    def step(batch, chance):
        if error is None:
            raise LineFault(dict.fromkeys(range(len(batch)), "no"))
        raise error

    class Step:
        name = "own"
        __call__ = staticmethod(step)

    computed = compute_chunk(
        open_numbered(tmp_path, Step(), n=n), Address(LineBlock(0, 0, n), 0), ErrorPolicy("skip")
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


def test_unfit_lines_are_removed_and_recorded(tmp_path):
    """compute_chunk removes unfit lines and records them in the order of the transforms, with texts
    only for quarantine; `raise` reports the first."""
    source = open_numbered(tmp_path, Crash("-7"), Refuse("-2"), Refuse("-5"), n=9)
    block = Address(LineBlock(0, 0, 9), 0)
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
    positions = []
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
def test_fields_of_256_lines_are_counted(tmp_path, n, counted):
    """compute_chunk counts the fields of the first 256 lines of a chunk."""
    computed = compute_chunk(
        open_numbered(tmp_path, n=n), Address(LineBlock(0, 0, n), 0), ErrorPolicy()
    )
    assert (computed.fields, computed.n_lines) == ({2: counted}, n)
