"""`Stream.batches`: the lines of a stream as columns, in the order of the lines, with the place of each."""

from __future__ import annotations

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


def written(folder, name, n):
    """Files of numbered lines, written once."""
    path = folder / f"{name}.0.tsv"
    return (str(path),) if path.exists() else numbered(folder, name, n)


def two(folder, *, steps=(), **options):
    """Two sources of unlike sizes and weights, in blocks of few lines."""
    sources = [
        Source(
            name, written(folder, name, n), weight=weight, epochs=2, block_lines=8, transforms=steps
        )
        for name, n, weight in (("a", 25, 3.0), ("b", 11, 1.0))
    ]
    return Stream(sources, seed=1, ends="drop", **options)


def lines_of(stream, limit=None):
    """The lines of all batches, whose numbers must count up."""
    found = list[str]()
    for batch in stream.batches(limit=limit):
        assert len(batch) == len(batch.sources) == len(batch.epochs)
        assert batch.numbers.tolist() == list(range(batch.first, batch.first + len(batch)))
        found += batch.lines.lines
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the sources of some streams are."""
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def whole(folder):
    """All lines of the stream without steps."""
    return list(two(folder))


@pytest.mark.parametrize("steps", [(), (Drop(0.4),), (Repeat(),), (Pair(),)])
@pytest.mark.parametrize("n_workers", [0, 2])
def test_batches_hold_the_lines_of_the_stream_in_order(tmp_path, steps, n_workers):
    """Batches have the stream's lines in order, from threads and processes."""
    with deadline(60), two(tmp_path, steps=steps, n_workers=n_workers * (not steps)) as stream:
        assert lines_of(stream) == list(two(tmp_path, steps=steps))


def test_processes_send_columns(tmp_path):
    """Python code in processes gives the same batches."""
    with deadline(60), two(tmp_path, steps=(Same(),), n_workers=1, start_method="fork") as stream:
        assert lines_of(stream) == list(two(tmp_path, steps=(Same(),)))


@FEW
@given(
    st.lists(
        st.tuples(st.sampled_from(["lines", "columns", "blocks", "skip"]), st.integers(0, 16)),
        max_size=5,
    )
)
def test_reading_may_change_its_form_at_any_line(whole, folder, acts):
    """Lines, bytes, columns and skipping can alternate without loss or repetition."""
    with two(folder) as stream:
        for form, n in acts:
            before = stream.n
            if form == "columns":
                read = lines_of(stream, limit=n)
            elif form == "lines":
                read = [line for line, _ in zip(stream, range(n), strict=False)]
            elif form == "blocks":
                read = b"".join(stream.blocks(limit=n)).decode().splitlines()
            else:
                stream.skip(n)
                read = whole[before : stream.n]
            assert read == whole[before : before + n]
        state = stream.state()
        rest = lines_of(stream)
    assert rest == whole[state["n"] :]
    with two(folder) as other:
        other.restore(state)
        assert lines_of(other) == rest


def test_a_state_stands_right_behind_the_batch_that_was_handed_out(whole, folder):
    """A state points to the line after the last batch, or to any line within it."""
    with two(folder) as stream:
        for number, batch in enumerate(stream.batches()):
            assert stream.state()["n"] == stream.n == batch.first + len(batch)
            inside = batch.first + len(batch) // 2
            for state in (stream.state(), stream.state(at=inside)) if number % 4 == 1 else ():
                with two(folder) as other:
                    other.restore(state)
                    assert lines_of(other, limit=20) == whole[state["n"] : state["n"] + 20]
        assert stream.n == len(whole)


def test_each_line_tells_where_it_came_from(tmp_path):
    """Each line's source, epoch and number equal those of a trace, and its place names file and line."""
    steps = (Drop(0.3),)
    with two(tmp_path, steps=steps) as stream:
        batches = list(stream.batches(limit=40))
    message = [(b.sources[i], b.epochs[i], b.place(i)) for b in batches for i in range(len(b))]
    for n, one in enumerate(trace(two(tmp_path, steps=steps), range(40))):
        source, epoch, place = message[n]
        assert ("a", "b")[source] == one.source
        assert epoch == one.epoch
        assert place == f"{one.path}:{one.line} (line {n:,} of the stream)"


def test_ids_stay_ids(tmp_path):
    """`encode` gives a column of ids, also in mixtures; as lines they are the same numbers."""
    Vocabulary(merges=(), tokens=tuple("ab0123456789-AB")).save(path := tmp_path / "v.volt")
    steps = (Encode(vocabulary=path, to="ids", fields=(1, 2)),)
    with two(tmp_path, steps=steps) as stream:
        batches = list(stream.batches())
    assert all(batch.lines.column(field).is_ids for batch in batches for field in (1, 2))
    assert any(len(np.unique(batch.sources)) > 1 for batch in batches)
    assert [line for batch in batches for line in batch.lines.lines] == list(
        two(tmp_path, steps=steps)
    )


@pytest.mark.parametrize(
    ("field", "line", "is_refused"), [(1, "b", True), (2, "b\tB", True), (2, "b", False)]
)
def test_ids_and_text_in_one_field_are_refused(tmp_path, field, line, is_refused):
    """A field with ids in one source and text in another is refused, with the field and the sources."""
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


def test_batches_of_a_stream():
    """Their numbers and places; ids and text do not mix in a field, unless one has no value there."""
    batch = StreamBatch(Batch.of(["a", "b"]), 1_234, np.zeros(2, np.int64), np.zeros(2, np.int64))
    assert (repr(batch), batch.place(1)) == (
        "<StreamBatch: 2 lines from line 1,234 on>",
        "line 1,235",
    )
    text, none = Column.of(["x"]), Column.missing(1)
    ids = Column.of_ids(np.array([5], np.int32), np.array([0, 1]))

    def of(*columns):
        return Batch(columns, None, np.arange(1))

    _check_columns(list("abc"), [of(ids, text), of(ids), of(none, text)])
    for batches in ([of(ids, text), of(ids, ids)], [of(text, ids), of(text, text)]):
        names = ("b", "a") if batches[0].columns[0].is_ids else ("a", "b")
        message = f"field 2 is ids in source '{names[0]}' and text in source '{names[1]}'; encode it in both"
        with pytest.raises(StreamError, match=message):
            _check_columns(["a", "b"], batches)
