"""Streams resume exactly from their states, with any workers and ranks, and with accepted
changes."""

import json
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples, some
from support.streams import Drop, Pair, Repeat, deadline, numbered, write_lines

from volt.errors import ConfigError, StreamError
from volt.stream import Schedule, Source, Stream, merge_states
from volt.stream.reading.open_source import open_source
from volt.stream.running.checkpoint import load_state
from volt.stream.running.resuming import find_n_lines_before
from volt.stream.running.state_validation import checksum


def test_a_stream_resumes_after_any_line(make):
    """A stream that restores the state after any line yields the lines that the first stream would
    have yielded."""
    whole = list(islice(make(), 150))
    for stop in some(range(120)):
        first = make()
        assert list(islice(first, stop)) == whole[:stop]
        state = json.loads(json.dumps(first.state()))
        second = make()
        second.restore(state)
        assert list(islice(second, 20)) == whole[stop : stop + 20]
        assert second.state()["n"] == stop + 20


def test_states_of_earlier_lines(make):
    """Stream.state(at=n) returns a state that continues with line n; lines before the recalled ones,
    or still to come, are refused."""
    stream = make(recall=1000)
    lines = list(islice(stream, 220))
    for size in (1, 7, 50):
        other = make(recall=1000)
        while other.n < 200:
            list(other.blocks(limit=size))
        for n in some(range(200)):
            state = other.state(at=n)
            assert state["n"] == n
            if n % 20 == 0:
                resumed = make(recall=1000)
                resumed.restore(state)
                assert list(islice(resumed, 5)) == lines[n : n + 5]
    with pytest.raises(ConfigError, match="at is -1; give 0 or more"):
        stream.state(at=-1)
    message = "line 221 is ahead of the stream, which has given 220 lines"
    with pytest.raises(StreamError, match=message):
        stream.state(at=221)
    short = make(recall=10)
    for _ in range(10):
        list(short.blocks(limit=10))
    with pytest.raises(StreamError, match="line 3 cannot be recalled"):
        short.state(at=3)


def test_reading_states_does_not_change_a_stream(make):
    """Reading n, state() and summary() in a loop over a stream does not change its lines."""
    whole = list(islice(make(), 100))
    stream = make()
    lines = []
    for line in islice(stream, 100):
        lines.append(line)
        assert (stream.n, stream.state()["n"], stream.summary().n) == (len(lines),) * 3
    assert lines == whole


@pytest.mark.slow
@pytest.mark.campaign
def test_many_epochs_are_equal_for_any_number_of_workers(make, tmp_path):
    """100,000 lines of a mixed, filtered stream are equal for any number of workers, and after
    resuming at random lines."""
    schedule = Schedule(((0, 1.0), (60_000, 3.0)), "linear")
    a, b, c = (numbered(tmp_path, f"s{n}", n) for n in (15_000, 4_000, 9_000))
    sources = [
        Source("a", a, 2.0, (Drop(0.1),), block_lines=2_000),
        Source("b", b, schedule, (Repeat(),), block_lines=900),
        Source("c", c, 0.5, (Pair(),), block_lines=700, shuffle="outputs"),
    ]
    whole = b"".join(make(sources).blocks(limit=100_000))
    for start_method, n_workers in (("fork", 1), ("fork", 3), ("fork", 8), ("spawn", 3)):
        with deadline(300), make(sources, n_workers=n_workers, start_method=start_method) as stream:
            assert b"".join(stream.blocks(limit=100_000)) == whole
    lines = whole.decode().split("\n")
    stops = np.sort(np.random.default_rng(1).integers(0, 99_000, 50))
    stream = make(sources)
    for index, n in enumerate(stops.tolist()):
        stream.skip(n - stream.n)
        state = stream.state()
        for start_method in ["fork"] if index % 10 else ["fork", "spawn"]:
            with deadline(60), make(sources, n_workers=2, start_method=start_method) as resumed:
                resumed.restore(state)
                assert list(islice(resumed, 100)) == lines[n : n + 100]


def test_merged_states_resume_with_other_numbers_of_ranks(make, tmp_path):
    """Ranks that are stopped anywhere, merged, and resumed by another number of ranks yield each
    line once per epoch."""
    sources = [
        Source("d", numbered(tmp_path, "d", 31), 2.0, block_lines=4, epochs=2),
        Source("e", numbered(tmp_path, "e", 9), 1.0, (Repeat(),), block_lines=3, epochs=3),
    ]
    whole = Counter(make(sources, ends="drop"))
    found = Counter()
    state = None
    for world, stop in ((3, 9), (2, 7), (5, 2), (1, None)):
        states = []
        for rank in range(world):
            stream = make(sources, ends="drop", rank=rank, world=world)
            if state is not None:
                stream.restore(state)
            found.update(islice(stream, stop and stop + rank))
            states.append(json.loads(json.dumps(stream.state())))
        state = merge_states(states)
    assert found == whole
    assert state["n"] == whole.total()
    message = r"another rank: world: 1 in the state, 2 here; .* merge the states"
    with pytest.raises(StreamError, match=message):
        make(sources, ends="drop", world=2).restore(states[0])


def test_restoring_with_accepted_weights_continues_each_source(make, tmp_path):
    """restore(accept=['weights']) continues each source at its next line, and applies the new
    weights from this line on."""
    old = [Source(name, numbered(tmp_path, name, 300), 1) for name in "de"]
    new = [old[0], replace(old[1], weight=4)]
    stream = make(old)
    alone = {source.name: iter(make([source])) for source in old}
    before = list(islice(stream, 100))
    with pytest.raises(StreamError, match=r"sources\.e\.weight: 1 in the state, 4 here.* accept"):
        make(new).restore(stream.state())
    changed = make(new)
    changed.restore(stream.state(), accept=["weights"])
    after = list(islice(changed, 100))
    assert Counter(line[0] for line in before) == {"d": 50, "e": 50}
    assert Counter(line[0] for line in after) == {"d": 20, "e": 80}
    for line in before + after:
        assert next(alone[line[0]]) == line
    assert changed.state()["accepted"] == ["weights"]
    resumed = make(new)
    resumed.restore(changed.state())
    assert list(islice(resumed, 20)) == list(islice(changed, 20))
    assert resumed.state()["accepted"] == ["weights"]


@pytest.mark.parametrize("before", [0, 1, 3, 4, 5, 6])
def test_appended_lines_are_recognised(tmp_path, before):
    """find_n_lines_before returns the earlier number of lines of a source that has grown, in one
    file or two; else None."""
    lines = {"a": ["a0", "a1", "a2", "a3"], "b": ["b0", "b1"]}
    paths = tuple(write_lines(tmp_path / name, texts) for name, texts in lines.items())
    now = open_source(Source("s", paths, split_lines=2), seed=1)
    (tmp_path / "old").mkdir()
    old = []
    for name, n in (("a", min(before, 4)), ("b", before - 4)):
        if n > 0:
            old.append(write_lines(tmp_path / "old" / name, lines[name][:n]))
    if old:
        stored = open_source(Source("s", tuple(old), split_lines=2), seed=1).fingerprints
        assert find_n_lines_before(now, stored) == (before if before < 6 else None)
        assert find_n_lines_before(now, {**stored, "lines": "x"}) is None
    for wrong in ({}, {"n_lines": "3"}, {"n_lines": 0, "lines": ""}, {"n_lines": 7, "lines": ""}):
        assert find_n_lines_before(now, wrong) is None


def test_a_state_of_another_stream_is_refused(make, tmp_path):
    """restore refuses a state if lines, block sizes, weights, transforms or names differ; other
    paths to equal lines are accepted."""
    source = Source("d", numbered(tmp_path, "d", 9), block_lines=4)
    state = make([source]).state()
    moved = write_lines(tmp_path / "moved", [f"d-{i}\tD {i}" for i in range(9)])
    make([replace(source, paths=(moved,))]).restore(state)
    changes = {
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
def test_a_cursor_outside_the_source_is_refused(make, place):
    """A state whose cursor is outside a block or chunk is refused when it is restored, or when its
    chunk is read."""
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


def test_a_state_of_steps_is_refused(make, tmp_path):
    """load_state refuses a state that `Steps` (batches for a trainer) has written, and names what
    resumes it: a command, Steps.restore or StreamDataset."""
    path = tmp_path / "s.json"
    path.write_text('{"format": "volt.steps", "version": 1, "n": 3}')
    message = r"s\.json: the state belongs to steps .*`volt stream batches`, Steps\.restore, or StreamDataset"
    with pytest.raises(StreamError, match=message):
        make().restore(load_state(path))


class Corpus:
    """Files of numbered lines, or rows of tables, to which lines and files can be appended."""

    ROWS: ClassVar = {"tsv": "line {}\n", "csv": "line {}\n", "jsonl": '{{"a": "line {}"}}\n'}

    def __init__(self, folder, n_files, n_lines, kind="tsv"):
        self.folder, self.n_files, self.n, self.kind = folder, 0, 0, kind
        for _ in range(n_files):
            self.add_file(n_lines)

    def add_file(self, n_lines):
        """Add a file that sorts after the others."""
        self.n_files += 1
        if self.kind == "csv":
            Path(self.folder, f"{self.n_files:02}.csv").write_text("a\n")
        self.append(n_lines)

    def append(self, n_lines):
        """Append lines to the last file."""
        row = self.ROWS[self.kind]
        with Path(self.folder, f"{self.n_files:02}.{self.kind}").open("a") as file:
            file.write("".join(row.format(self.n + i) for i in range(n_lines)))
        self.n += n_lines

    def stream(self, rank=0, world=1, **options):
        """Return a stream of the files' current lines."""
        paths = tuple(str(path) for path in sorted(self.folder.glob(f"*.{self.kind}")))
        if self.kind != "tsv":
            options |= {"names": ("a",), "keys": ("a",)}
        cache = self.folder / "cache"
        return Stream([Source("a", paths, **options)], seed=7, rank=rank, world=world, cache=cache)


def numbers(stream, n=None):
    """Return the numbers of the stream's next lines."""
    return [int(line.split()[1]) for line in islice(stream, n)]


GROWTH = st.lists(
    st.tuples(st.booleans(), st.integers(1, 9), st.integers(0, 30)), min_size=1, max_size=3
)


@settings(deadline=None, max_examples=examples(60))
@given(
    n_files=st.integers(1, 3),
    n_lines=st.integers(1, 9),
    first=st.integers(0, 30),
    growth=GROWTH,
    shuffle=st.sampled_from(["lines", "outputs", "none"]),
    split=st.sampled_from([None, 2, 4]),
    block=st.integers(1, 12),
    kind=st.sampled_from(list(Corpus.ROWS)),
)
def test_appended_lines_are_read_from_their_epoch_on(
    n_files,
    n_lines,
    first,
    growth,
    shuffle,
    split,
    block,
    kind,
):
    """A source that grows any number of times yields each line once per epoch, from the epoch on in
    which it was appended."""
    with TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder), n_files, n_lines, kind)
        options = {"shuffle": shuffle, "split_lines": split, "block_lines": block, "epochs": 3}
        stream = corpus.stream(**options)
        read = numbers(stream, first)
        first_epochs = dict.fromkeys(range(corpus.n), 0)
        for is_file, more, n in growth:
            state = json.loads(json.dumps(stream.state()))
            old = corpus.n
            (corpus.add_file if is_file else corpus.append)(more)
            stream = corpus.stream(**options)
            with pytest.raises(StreamError, match=r"or pass accept=\['data'\]"):
                stream.restore(state)
            stream.restore(state, accept=["data"])
            [accepted] = stream.accepted
            text, _, epoch = accepted.rpartition(" ")
            place = f"from line {len(read)} on, after other lines of epoch"
            assert text.endswith(f"appended to source 'a': {place}")
            first_epochs |= dict.fromkeys(range(old, corpus.n), int(epoch))
            read += numbers(stream, n)
        again = corpus.stream(**options)
        again.restore(stream.state())
        rest = numbers(again)
        assert numbers(stream) == rest
        assert Counter(read + rest) == {number: 3 - epoch for number, epoch in first_epochs.items()}


@settings(deadline=None, max_examples=examples(30))
@given(
    n_lines=st.integers(4, 30),
    more=st.integers(1, 20),
    reads=st.lists(st.integers(0, 25), min_size=1, max_size=4),
    world=st.integers(1, 4),
    block=st.integers(1, 9),
)
def test_new_ranks_share_appended_lines(n_lines, more, reads, world, block):
    """After ranks are merged and lines are appended, new ranks together yield each line once per
    epoch."""
    with TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder), 2, n_lines)
        options = {"block_lines": block, "epochs": 2}
        streams = [corpus.stream(rank, len(reads), **options) for rank in range(len(reads))]
        found = []
        for stream, n in zip(streams, reads, strict=True):
            found += numbers(stream, n)
        merged = merge_states([stream.state() for stream in streams])
        old = corpus.n
        corpus.append(more)
        new = [corpus.stream(rank, world, **options) for rank in range(world)]
        for stream in new:
            stream.restore(merged, accept=["data"])
        [accepted] = {stream.accepted for stream in new}
        epoch = int(accepted[0].rpartition(" ")[2])
        for stream in new:
            found += numbers(stream)
        assert Counter(found) == {
            number: 2 if number < old else 2 - epoch for number in range(corpus.n)
        }


def test_changes_other_than_appended_lines_are_refused(tmp_path):
    """restore(accept=['data']) refuses changed lines, a file that sorts first, a shorter file, and
    the state of one of two ranks."""
    corpus = Corpus(tmp_path, 1, 9)
    stream = corpus.stream()
    numbers(stream, 4)
    state = stream.state()
    file = tmp_path / "01.tsv"
    text = file.read_text()
    for changed in (text.replace("line 3", "line x") + "more\n", text[:-7], "more\n" + text):
        file.write_text(changed)
        with pytest.raises(StreamError, match=r"restore it there, or start anew$"):
            corpus.stream().restore(state, accept=["data"])
    file.write_text(text)
    (tmp_path / "00.tsv").write_text("line 9\n")
    with pytest.raises(StreamError, match=r"restore it there, or start anew$"):
        corpus.stream().restore(state, accept=["data"])
    (tmp_path / "00.tsv").unlink()
    half = corpus.stream(1, 2).state()
    corpus.append(1)
    with pytest.raises(
        StreamError, match="lines were appended to source 'a', but the state is of one rank of 2"
    ):
        corpus.stream(1, 2).restore(half, accept=["data"])


def test_a_file_without_a_final_line_end_can_grow(tmp_path):
    """restore(accept=['data']) accepts a line end and a line appended to a file that had no final
    line end."""
    (tmp_path / "01.tsv").write_text("line 0\nline 1")
    corpus = Corpus(tmp_path, 0, 0)
    stream = corpus.stream(epochs=1)
    before = numbers(stream, 1)
    state = stream.state()
    (tmp_path / "01.tsv").write_text("line 0\nline 1\nline 2\n")
    after = corpus.stream(epochs=1)
    after.restore(state, accept=["data"])
    assert sorted(before + numbers(after)) == [0, 1, 2]


def test_rows_appended_to_parquet_are_refused(tmp_path):
    """restore(accept=['data']) refuses a Parquet file that was written again with more rows."""
    file = tmp_path / "a.parquet"
    sources = [Source("a", (str(file),), names=("x",), keys=("x",))]
    pq.write_table(pa.table({"x": ["0", "1"]}), file)
    state = Stream(sources, seed=1, cache=tmp_path).state()
    pq.write_table(pa.table({"x": ["0", "1", "2"]}), file)
    with pytest.raises(
        StreamError, match=r"not in Parquet or Arrow, and new files can be accepted\); restore"
    ):
        Stream(sources, seed=1, cache=tmp_path).restore(state, accept=["data"])


@settings(deadline=None, max_examples=examples(30))
@given(n=st.integers(0, 60), weights=st.lists(st.integers(1, 5), min_size=3, max_size=3))
def test_a_source_can_be_added(n, weights):
    """restore(accept=['sources']) continues the other sources at their next lines, and shares lines
    by the weights from then on."""
    with TemporaryDirectory() as folder:
        sources = [
            Source(name, numbered(Path(folder), name, 20), float(weight))
            for name, weight in zip("abc", weights, strict=True)
        ]
        old = Stream(sources[:2], seed=1)
        list(islice(old, n))
        state = old.state()
        new = Stream([sources[2], *sources[:2]], seed=1)
        with pytest.raises(
            StreamError, match=r"sources\.c: not in the state.*pass accept=\['sources'\]"
        ):
            new.restore(state)
        new.restore(state, accept=["sources"])
        assert new.accepted == (f"source 'c' from line {n} on",)
        mixed = list(islice(new, 90))
        alone = list(islice(old, 200))
        for name, weight in zip("abc", weights, strict=True):
            own = [line for line in mixed if line.startswith(name)]
            assert abs(len(own) - 90 * weight / sum(weights)) <= 1
            assert (
                name == "c" or own == [line for line in alone if line.startswith(name)][: len(own)]
            )
        again = Stream([sources[2], *sources[:2]], seed=1)
        again.restore(new.state())
        assert (list(islice(again, 20)), again.state()["accepted"]) == (
            list(islice(new, 20)),
            ["sources"],
        )
