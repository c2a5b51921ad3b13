"""`Stream` yields the same lines for any number of workers, threads and ranks, and loses none."""

import json
import math
import os
import pickle
import threading
from collections import Counter
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import pytest
from support.streams import deadline, numbered

from volt.errors import ArgumentError, ConfigError, StreamError
from volt.stream import ErrorPolicy, Source, Stream

FRESH = [  # processes that import everything anew
    pytest.param("spawn", n, marks=[pytest.mark.slow, pytest.mark.campaign]) for n in (2, 3, 8)
]


MORE = [pytest.param("fork", n, marks=pytest.mark.campaign) for n in (2, 8)]


@pytest.mark.parametrize(
    ("start_method", "n_workers"),
    [*product(["fork"], [1, 3]), ("spawn", 1), *MORE, *FRESH],
)
def test_lines_are_the_same_for_any_number_of_workers(make, n_workers, start_method):
    """A stream yields equal bytes for any number of worker processes, forked or spawned."""
    with deadline(120), make(n_workers=n_workers, start_method=start_method) as stream:
        assert list(islice(stream, 500)) == list(islice(make(), 500))


def test_a_stale_iterator_raises(make):
    """If another iterator has read the stream meanwhile, the older iterator raises StreamError."""
    stream = make()
    older = iter(stream)
    newer = iter(stream)
    next(older)
    next(newer)
    with pytest.raises(StreamError, match="make a new iterator"):
        next(older)


@pytest.mark.parametrize("n_workers", [0, 2])
def test_two_threads_get_no_line_twice(make, tmp_path, n_workers):
    """If two threads iterate over one stream, each line goes to one of them, and the slower one
    gets an error."""
    source = Source("d", numbered(tmp_path, "d", 3000), epochs=1, block_lines=100)
    lines = [[], []]
    message = []

    def read(own):
        try:
            for line in stream:
                own.append(line)
        except StreamError as error:
            message.append(str(error))

    with deadline(60), make([source], n_workers=n_workers) as stream:
        threads = [threading.Thread(target=read, args=(own,)) for own in lines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert Counter([*lines[0], *lines[1]]).most_common(1)[0][1] == 1
    assert len(lines[0]) + len(lines[1]) == 3000 or len(message) == 2


def test_a_forked_process_starts_its_own_workers(make, tmp_path):
    """After a fork, parent and child each continue the stream with the same lines."""
    source = Source("d", numbered(tmp_path, "d", 300), epochs=1, block_lines=10)
    with deadline(60), make([source], n_workers=1) as stream:
        first = next(iter(stream))
        if (child := os.fork()) == 0:
            rest = list(stream)
            os._exit(0 if len(rest) == 299 and first not in rest else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(list(stream)) == 299


def test_a_stream_cannot_be_pickled(make):
    """Pickling a stream raises TypeError, before and after reading, and recommends its state."""
    with pytest.raises(
        TypeError, match=r"cannot be sent to another process; create one there, and restore this"
    ):
        pickle.dumps(make())


def test_a_stopping_stream_ends_with_its_first_source(make, tmp_path):
    """With ends='stop', a stream ends before the first turn of an ended source, and stays ended."""
    sources = [
        Source("d", numbered(tmp_path, "d", 10), epochs=1),
        Source("e", numbered(tmp_path, "e", 9), 0.5, epochs=3),
    ]
    stream = make(sources)
    lines = list(stream)
    assert Counter(line[0] for line in lines) == {"d": 10, "e": 5}
    assert list(stream) == []
    again = make(sources)
    again.restore(stream.state())
    assert list(again) == []


@pytest.mark.parametrize("n", [0, 1, 7, 10, 11])
def test_skip_returns_the_number_of_skipped_lines(make, tmp_path, n):
    """Stream.skip(n) equals reading n lines; at the end of the stream, it returns fewer than n."""
    source = Source("d", numbered(tmp_path, "d", 10), epochs=1, block_lines=4)
    stream = make([source])
    assert stream.skip(n) == min(n, 10)
    assert list(stream) == list(make([source]))[n:]


def test_a_dropping_stream_continues_with_the_other_sources(make, tmp_path):
    """With ends='drop', a stream yields all lines of all epochs, the rest in proportion, and
    resumes at any line."""
    sources = [
        Source("d", numbered(tmp_path, "d", 6), 3.0, epochs=1),
        Source("e", numbered(tmp_path, "e", 9), 1.0, epochs=2),
        Source("f", numbered(tmp_path, "f", 5), 1.0, epochs=4, block_lines=2),
    ]
    whole = list(make(sources, ends="drop"))
    assert Counter(line[0] for line in whole) == {"d": 6, "e": 18, "f": 20}
    turns = [line[0] for line in whole[10:40]]
    assert all(abs(turns[:k].count("e") - turns[:k].count("f")) <= 2 for k in range(30))
    for stop in range(len(whole) + 1):
        first = make(sources, ends="drop")
        second = make(sources, ends="drop")
        list(first.blocks(limit=stop))
        second.restore(first.state())
        assert list(second) == whole[stop:]


def test_each_source_has_its_share_at_every_line(make):
    """After any number of lines, each source's lines are within one of its share, which the summary
    reports."""
    stream = make()
    for _ in range(100):
        list(stream.blocks(limit=7))
        parts = stream.summary().sources.values()
        assert all(abs(part.lines - part.requested) <= 1.02 for part in parts)


def test_the_summary_counts_lines_fields_and_epochs(make, tmp_path):
    """Stream.summary returns lines, fields, epochs and speed, as JSON values."""
    stream = make([Source("d", numbered(tmp_path, "d", 10), block_lines=4)])
    list(stream.blocks(limit=25))
    found = json.loads(json.dumps(stream.summary().to_json()))
    assert (found["n"], found["n_lines"], found["n_read"]) == (25, 25, 28)
    assert found["fields"] == {"2": 28}
    assert found["sources"]["d"] == {"lines": 25, "requested": 25.0, "epochs": 2.5, "ended": False}
    assert found["lines_per_second"] > 0


def test_blocks_have_the_lines_of_the_iterator(make):
    """blocks() yields the lines of the iterator, for any limits."""
    lines = list(islice(make(), 300))
    stream = make()
    data = b""
    for limit in [1, 2, 3, 50, 244]:
        data += b"".join(stream.blocks(limit=limit))
    assert data.decode().split("\n") == [*lines, ""]
    assert stream.n == 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"recall": -1}, "recall is -1"),
        ({"n_workers": -1}, "give 0 to 256 workers, and spawn or fork"),
        ({"n_workers": 257}, "n_workers=257.*give 0 to 256"),
        ({"start_method": "x"}, "start_method='x'"),
        ({"time_limit": 0}, "time_limit=0: give seconds above 0"),
        ({"time_limit": math.inf}, "time_limit=inf: give"),
        ({"ends": "never"}, "unknown ends 'never'"),
        ({"policy": "skip"}, "ErrorPolicy"),
        ({"mix": "x"}, "Sampling"),
        ({"cache": 3}, "cache is 3"),
        ({"rank": 2, "world": 2}, "rank 2 of world 2"),
    ],
)
def test_invalid_options_of_streams_are_refused(tmp_path, options, message):
    """Stream accepts options at their limits, and refuses options beyond them."""
    source = Source("a", numbered(tmp_path, "a", 3))
    with pytest.raises((ConfigError, ArgumentError), match=message):
        Stream([source], **options)
    close = {"seed": 0, "recall": 0, "n_workers": 256, "time_limit": 0.001, "rank": 1, "world": 2}
    stream = Stream([source], **close)
    assert repr(stream) == "<Stream: 1 source, seed 0, rank 1 of 2, 0 lines given>"
    assert repr(Stream([source])) == "<Stream: 1 source, seed 0, 0 lines given>"
    assert (stream.files, stream.n, stream.workers.time_limit) == (source.paths, 0, 0.001)
    for wrong, remedy in (
        (source, r"did you mean \[source\]"),
        (Path("a"), "Stream.from_config"),
        ([3], r"sources\[0\] is 3"),
    ):
        with pytest.raises(ArgumentError, match=remedy):
            Stream(wrong)
    with pytest.raises(ConfigError, match="distinct names"):
        Stream([source, source])


def test_a_rehearsal_has_the_streams_options(tmp_path):
    """Stream.rehearsal keeps all options except the policy, and starts at the first line."""
    source = Source("a", numbered(tmp_path, "a", 9))
    quarantine = ErrorPolicy("quarantine", str(tmp_path / "q"), max_faults=3)
    for policy, expected in (
        (ErrorPolicy(max_faults=3), "raise"),
        (ErrorPolicy("skip", max_faults=3), "skip"),
        (quarantine, "skip"),
    ):
        stream = Stream(
            [source],
            policy=policy,
            seed=3,
            ends="drop",
            rank=1,
            world=2,
            n_workers=1,
            time_limit=9.0,
            start_method="fork",
        )
        with stream, stream.rehearsal() as rehearsal:
            stream.skip(2)
            assert rehearsal.policy == ErrorPolicy(expected)
            for name in ("seed", "ends", "rank", "world", "workers", "sources"):
                assert getattr(rehearsal, name) == getattr(stream, name)
            assert (rehearsal.n, stream.n) == (0, 2)


@pytest.mark.parametrize(
    ("change", "is_same"), [("rename", False), ("split", True), ("zero", True), ("reseed", False)]
)
def test_names_and_seeds_change_the_order_of_lines(tmp_path, change, is_same):
    """Another source name or seed changes the order of a stream's lines. The order stays the same if a
    file is split at the end of a segment, or if a source of weight 0 is added."""
    whole = [
        Source("a", numbered(tmp_path, "a", 8), split_lines=2),
        Source("b", numbered(tmp_path, "b", 5), 0.5),
    ]
    (tmp_path / "two").mkdir()
    other = list(whole)
    seed = 1
    if change == "split":
        other[0] = replace(whole[0], paths=numbered(tmp_path / "two", "a", 8, n_shards=2))
    elif change == "zero":
        other.append(Source("c", numbered(tmp_path, "c", 3), 0.0))
    elif change == "rename":
        other[0] = replace(whole[0], name="x")
    else:
        seed = 2
    lines = [
        b"".join(Stream(own, seed=s).blocks(limit=24)).decode().split("\n")[:-1]
        for own, s in ((whole, 1), (other, seed))
    ]
    assert (lines[0] == lines[1]) == is_same
    counts = [Counter(line[0] for line in own) for own in lines]
    assert counts[0] == counts[1] == {"a": 16, "b": 8}
    firsts = [[line for line in own if line[0] == "a"][:8] for own in lines]
    assert sorted(firsts[0]) == sorted(firsts[1])
