"""`Stream.batches`: the lines of a stream as columns, with the origin of each line."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.streams import Drop, Pair, Repeat, Same, deadline, numbered, write_lines

from volt.errors import StreamError
from volt.stream import Source, Stream, trace
from volt.stream.running.stream_batch import StreamBatch, _check_columns
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.subwords import Encode
from volt.vocabulary import Vocabulary

FEW = settings(deadline=None, max_examples=examples(12))


def write_files(folder, name, n):
    """Return files of numbered lines, which are written once."""
    path = folder / f"{name}.0.tsv"
    return (str(path),) if path.exists() else numbered(folder, name, n)


def two_sources(folder, *, steps=(), **options):
    """Return two sources of different sizes and weights, in small blocks."""
    sources = []
    for name, n, weight in (("a", 25, 3.0), ("b", 11, 1.0)):
        paths = write_files(folder, name, n)
        sources.append(Source(name, paths, weight, steps, epochs=2, block_lines=8))
    return Stream(sources, seed=1, ends="drop", **options)


def read_lines(stream, limit=None):
    """Return the lines of all batches, whose numbers must rise by one."""
    found = []
    for batch in stream.batches(limit=limit):
        assert len(batch) == len(batch.sources) == len(batch.epochs)
        assert batch.numbers.tolist() == list(range(batch.first, batch.first + len(batch)))
        found += batch.lines.lines
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for the sources of several streams."""
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def whole(folder):
    """All lines of the stream without transforms."""
    return list(two_sources(folder))


@pytest.mark.parametrize("steps", [(), (Drop(0.4),), (Repeat(),), (Pair(),)])
@pytest.mark.parametrize("n_workers", [0, 2])
def test_batches_have_the_lines_of_the_stream(tmp_path, steps, n_workers):
    """batches() yields the lines of the iterator in order, computed by threads."""
    with (
        deadline(60),
        two_sources(tmp_path, steps=steps, n_workers=n_workers * (not steps)) as stream,
    ):
        assert read_lines(stream) == list(two_sources(tmp_path, steps=steps))


def test_processes_compute_equal_batches(tmp_path):
    """batches() of a stream with Python code yields equal lines with and without worker
    processes."""
    with (
        deadline(60),
        two_sources(tmp_path, steps=(Same(),), n_workers=1, start_method="fork") as stream,
    ):
        assert read_lines(stream) == list(two_sources(tmp_path, steps=(Same(),)))


@FEW
@given(
    st.lists(
        st.tuples(st.sampled_from(["lines", "columns", "blocks", "skip"]), st.integers(0, 16)),
        max_size=5,
    )
)
def test_ways_of_reading_can_alternate(whole, folder, acts):
    """Iterating, blocks(), batches() and skip() can alternate at any line, without loss or
    repetition."""
    with two_sources(folder) as stream:
        for form, n in acts:
            before = stream.n
            if form == "columns":
                read = read_lines(stream, limit=n)
            elif form == "lines":
                read = [line for line, _ in zip(stream, range(n), strict=False)]
            elif form == "blocks":
                read = b"".join(stream.blocks(limit=n)).decode().splitlines()
            else:
                stream.skip(n)
                read = whole[before : stream.n]
            assert read == whole[before : before + n]
        state = stream.state()
        rest = read_lines(stream)
    assert rest == whole[state["n"] :]
    with two_sources(folder) as other:
        other.restore(state)
        assert read_lines(other) == rest


def test_a_state_continues_after_the_last_batch(whole, folder):
    """The state after a batch continues with the next line; state(at=n) continues within the
    batch."""
    with two_sources(folder) as stream:
        for number, batch in enumerate(stream.batches()):
            assert stream.state()["n"] == stream.n == batch.first + len(batch)
            inside = batch.first + len(batch) // 2
            for state in (stream.state(), stream.state(at=inside)) if number % 4 == 1 else ():
                with two_sources(folder) as other:
                    other.restore(state)
                    assert read_lines(other, limit=20) == whole[state["n"] : state["n"] + 20]
        assert stream.n == len(whole)


def test_batches_have_the_origin_of_each_line(tmp_path):
    """The source, epoch, number and place of each line of a batch equal those of `trace`."""
    steps = (Drop(0.3),)
    with two_sources(tmp_path, steps=steps) as stream:
        batches = list(stream.batches(limit=40))
    origins = [(b.sources[i], b.epochs[i], b.place(i)) for b in batches for i in range(len(b))]
    for n, traced in enumerate(trace(two_sources(tmp_path, steps=steps), range(40))):
        source, epoch, place = origins[n]
        assert ("ab"[source], epoch) == (traced.source, traced.epoch)
        assert place == f"{traced.path}:{traced.line} (line {n:,} of the stream)"


def test_batches_keep_columns_of_ids(tmp_path):
    """batches() has columns of ids after `encode`, also in mixtures; as lines, they are the same
    numbers."""
    Vocabulary(merges=(), tokens=tuple("ab0123456789-AB")).save(path := tmp_path / "v.volt")
    steps = (Encode(vocabulary=path, to="ids", fields=(1, 2)),)
    with two_sources(tmp_path, steps=steps) as stream:
        batches = list(stream.batches())
    assert all(batch.lines.column(field).is_ids for batch in batches for field in (1, 2))
    assert any(len(np.unique(batch.sources)) > 1 for batch in batches)
    assert [line for batch in batches for line in batch.lines.lines] == list(
        two_sources(tmp_path, steps=steps)
    )


@pytest.mark.parametrize(
    ("field", "line", "is_refused"), [(1, "b", True), (2, "b\tB", True), (2, "b", False)]
)
def test_ids_and_text_in_one_field_are_refused(tmp_path, field, line, is_refused):
    """batches() refuses a field with ids in one source and text in another, and names the field and
    sources."""
    Vocabulary(merges=(), tokens=("a",)).save(path := tmp_path / "v.volt")
    sources = [
        Source(
            "a",
            numbered(tmp_path, "a", 9),
            transforms=(Encode(vocabulary=path, to="ids", fields=(field,)),),
        ),
        Source("b", (write_lines(tmp_path / "b", ["b"] * 4 + [line] + ["b"] * 4),)),
    ]
    with Stream(sources, seed=1) as stream:
        if is_refused:
            with pytest.raises(
                StreamError, match=f"field {field} is ids in source 'a' and text in source 'b'"
            ):
                list(stream.batches(limit=18))
        else:
            assert all(batch.lines.column(2).is_ids for batch in stream.batches(limit=18))


def test_stream_batches_number_their_lines():
    """StreamBatch has the number and place of each line; _check_columns allows a field without
    values in one source."""
    batch = StreamBatch(Batch.of(["a", "b"]), 1_234, np.zeros(2, np.int64), np.zeros(2, np.int64))
    assert repr(batch) == "<StreamBatch: 2 lines from line 1,234 on>"
    assert batch.place(1) == "line 1,235"
    text = Column.of(["x"])
    none = Column.missing(1)
    ids = Column.of_ids(np.array([5], np.int32), np.array([0, 1]))

    def of(*columns):
        return Batch(columns, None, np.arange(1))

    _check_columns(list("abc"), [of(ids, text), of(ids), of(none, text)])
    for batches in ([of(ids, text), of(ids, ids)], [of(text, ids), of(text, text)]):
        names = ("b", "a") if batches[0].columns[0].is_ids else ("a", "b")
        message = f"field 2 is ids in source '{names[0]}' and text in source '{names[1]}'; encode it in both"
        with pytest.raises(StreamError, match=message):
            _check_columns(["a", "b"], batches)
