"""Unfit lines, files and sources are reported with their place, or skipped and counted, with and without workers."""

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import pytest
from support.drawn import some
from support.streams import Crash, Drop, Refuse, deadline, numbered, write_lines

from volt.errors import ConfigError, OutputError, StreamError
from volt.stream import Checks, ErrorPolicy, Source, Stream
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.subwords import Encode
from volt.vocabulary import Vocabulary

Make = Callable[..., Stream]


@pytest.fixture
def make(tmp_path):
    """Makes streams that keep their indices in the test's folder."""
    return partial(Stream, seed=7, cache=tmp_path / "cache")


@pytest.fixture
def unfit(tmp_path):
    """A source with one line that is not UTF-8, one with one field, and one that two transforms cannot take."""
    path = tmp_path / "unfit.tsv"
    lines = [f"line {i}\tZeile {i}".encode() for i in range(20)]
    lines[3], lines[8], lines[11], lines[15] = b"caf\xe9\tx", b"alone", b"bad\tx", b"worse\tx"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    checks = Checks(min_fields=2)
    return Source(
        "u",
        (str(path),),
        1.0,
        (Refuse("bad"), Crash("worse")),
        block_lines=8,
        checks=checks,
        epochs=1,
    )


@pytest.mark.parametrize("n_workers", [0, 2])
def test_unfit_lines_are_skipped_and_counted(make, unfit, n_workers):
    """With the policy skip, a stream yields each fit line once, and counts unfit lines by fault,
    also after a restore.
    """
    policy = ErrorPolicy("skip")
    with (
        deadline(60),
        make([unfit], policy=policy, n_workers=n_workers, start_method="fork") as stream,
    ):
        lines = list(stream)
        summary = stream.summary()
    assert Counter(lines) == Counter(
        f"line {i}\tZeile {i}" for i in range(20) if i not in (3, 8, 11, 15)
    )
    assert (summary.n_read, summary.n_faults) == (20, 4)
    assert summary.reasons == {"invalid UTF-8": 1, "columns": 1, "refuse": 1, "crash": 1}


def test_every_line_read_is_counted_once_wherever_a_stream_goes_on(make, unfit, tmp_path):
    """A stream that is interrupted before a block's first line, and resumed, counts each unfit line
    once.
    """
    other = Source("other", numbered(tmp_path, "other", 20), epochs=1, block_lines=4)
    sources, options = [unfit, other], {"policy": ErrorPolicy("skip"), "ends": "drop", "recall": 99}
    whole = make(sources, **options)
    lines = list(whole)
    end = whole.state()
    for stop in some(range(len(lines) + 1)):
        first, later, closed = (make(sources, **options) for _ in range(3))
        list(first.blocks(limit=stop))
        list(later.blocks())
        list(closed.blocks(limit=stop))
        closed.close()
        assert list(closed) == lines[stop:]
        assert closed.state() == end
        for state in (first.state(), later.state(at=stop)):
            second = make(sources, **options)
            second.restore(state)
            assert list(second) == lines[stop:]
            assert second.state() == end


def test_unfit_lines_go_to_quarantine(make, unfit, tmp_path):
    """The quarantine file has the place, reason and text of each unfit line once, even if the
    stream was interrupted.
    """
    policy = ErrorPolicy("quarantine", quarantine=str(tmp_path / "unfit.jsonl"))
    first, second = make([unfit], policy=policy), make([unfit], policy=policy)
    list(first.blocks(limit=9))
    second.restore(first.state())
    list(second)
    rows = [json.loads(row) for row in (tmp_path / "unfit.jsonl").read_text().splitlines()]
    assert {row["place"].rpartition("/")[2]: row["line"] for row in rows} == {
        "unfit.tsv:4": "caf\ufffd\tx",
        "unfit.tsv:9": "alone",
        "unfit.tsv:12": "bad\tx",
        "unfit.tsv:16": "worse\tx",
    }
    assert len(rows) == 4
    assert "crash: ZeroDivisionError: worse" in {row["reason"].partition("\t")[0] for row in rows}


@pytest.mark.parametrize("path", ["/nowhere/unfit.jsonl", "/dev/full"])
def test_a_quarantine_that_cannot_be_written_is_reported(make, unfit, path):
    """A stream raises an error if its quarantine file cannot be written, such as on a full disk."""
    with pytest.raises(OutputError, match="cannot be appended to"):
        list(make([unfit], policy=ErrorPolicy("quarantine", quarantine=path)))


def test_too_many_unfit_lines_stop_the_stream(make, unfit, tmp_path):
    """A stream stops at the maximum number of unfit lines, and at the maximum share from 1,000
    lines on.
    """
    assert len(list(make([unfit], policy=ErrorPolicy("skip", max_faults=4, max_share=0.0)))) == 16
    with pytest.raises(StreamError, match=r"unfit lines: . of .*, more than max_faults=2 allows"):
        list(make([unfit], policy=ErrorPolicy("skip", max_faults=2)))
    lines = ["x\ty", "x"] * 600
    source = Source(
        "v", (write_lines(tmp_path / "v", lines),), checks=Checks(min_fields=2), epochs=1
    )
    with pytest.raises(
        StreamError, match=r"unfit lines: 600 of 1200, more than max_share=0.4 allows"
    ):
        list(make([source], policy=ErrorPolicy("skip", max_share=0.4)))


def test_a_source_whose_lines_are_all_filtered_is_reported(make, tmp_path):
    """An endless stream raises an error if its filters drop all lines of a source."""
    source = Source("d", numbered(tmp_path, "d", 40), 1.0, (Drop(1.0),), block_lines=10)
    for n_workers in (0, 2):
        with (
            deadline(60),
            make([source], n_workers=n_workers, start_method="fork") as stream,
            pytest.raises(
                StreamError, match="source 'd': no line of an epoch passes its transforms"
            ),
        ):
            list(stream)


def test_unwritable_lines_of_a_transform_are_faults(make, tmp_path):
    """A line in which a transform leaves a line end or a lone surrogate counts as unfit."""
    paths = (write_lines(tmp_path / "d", ["a\tb", "c\td"]),)
    stream = make([Source("d", paths, 1.0, (Break("a"),), epochs=1)], policy=ErrorPolicy("skip"))
    assert list(stream) == ["c\td"]
    assert stream.summary().reasons == {"unwritable": 1}


class Break:
    """Puts a line end into lines that hold a text."""

    def __init__(self, text):
        self.name, self.text = "break", text

    def __call__(self, batch, rng):
        return batch.map(lambda line: line.replace("\t", "\n") if self.text in line else line)


def test_shards_left_out_are_counted_once(make, tmp_path):
    """A shard that cannot be read is counted once, in the summary, the tally and the threshold."""
    good, bad = numbered(tmp_path, "d", 10)[0], tmp_path / "bad.gz"
    bad.write_bytes(b"\x1f\x8b\x08\x00")
    source = Source("d", (good, str(bad)), epochs=1)
    stream = make([source], policy=ErrorPolicy("skip"))
    assert len(list(stream)) == 10
    assert stream.summary().left_out == (str(bad),)
    assert stream.summary().reasons == {"unreadable shard": 1}
    with pytest.raises(StreamError, match="unreadable shard"):
        list(make([source], policy=ErrorPolicy("skip", max_faults=0)))


def test_unfit_lines_are_not_written_to_what_is_read(make, unfit, tmp_path):
    """A quarantine file that is a source's file, or one that a transform reads, is refused, even
    through links.
    """
    model = tmp_path / "v.volt"
    Vocabulary((), ("a",)).save(model)
    (tmp_path / "twin").hardlink_to(unfit.paths[0])
    encoded = replace(unfit, transforms=(Choice((Variant(1.0, (Encode(model),)),)),))
    before = Path(unfit.paths[0]).read_bytes(), model.read_bytes()
    for place in (tmp_path / "twin", model):
        with pytest.raises(ConfigError, match="which is read"):
            make([encoded], policy=ErrorPolicy("quarantine", str(place)))
    assert (Path(unfit.paths[0]).read_bytes(), model.read_bytes()) == before


def test_why_no_line_passes_is_reported(tmp_path):
    """If an epoch yields no line because all are unfit, the error gives the most frequent reason."""
    path = write_lines(tmp_path / "a.tsv", ["one field"] * 3)
    stream = Stream([Source("a", (path,), checks=Checks(min_fields=2))], policy=ErrorPolicy("skip"))
    with pytest.raises(
        StreamError,
        match=r"no line of an epoch passes.*; 6 of 6 lines .* are unfit, 6 of them for 'columns'",
    ):
        next(iter(stream))


WORKERS = pytest.mark.parametrize("n_workers", [0, 2])


FAULTS = {
    "utf8": (
        Source("a", ("a",)),
        b"good\tx\ncaf\xe9\tx\n",
        "a.tsv:2: invalid UTF-8: byte 0xe9 at column 4",
    ),
    "columns": (
        Source("a", ("a",), checks=Checks(min_fields=2)),
        b"good\tx\nalone\n",
        "a.tsv:2: columns: 1 fields",
    ),
    "transform": (
        Source("a", ("a",), transforms=(Crash("bad"),)),
        b"good\tx\nbad\tx\n",
        "a.tsv:2: crash: ZeroDiv",
    ),
}


def stream(source, policy, n_workers, cache):
    """One source, with workers if wanted."""
    return Stream([source], policy=policy, n_workers=n_workers, start_method="fork", cache=cache)


def assert_no_process():
    """No worker is left; the caller sets the deadline."""
    while any(process.name == "volt-stream" for process in active_children()):
        time.sleep(0.01)


@WORKERS
@pytest.mark.parametrize("fault", FAULTS)
def test_unfit_lines_follow_the_policy(tmp_path, fault, n_workers):
    """For an unfit line, the policies raise, skip and quarantine raise an error, count it, or also
    store it.
    """
    declared, data, message = FAULTS[fault]
    path = tmp_path / "a.tsv"
    path.write_bytes(data)
    source = Source(
        "a", (str(path),), transforms=declared.transforms, checks=declared.checks, epochs=1
    )
    kept = tmp_path / "unfit.jsonl"
    with deadline(30):
        with (
            stream(source, ErrorPolicy(), n_workers, tmp_path) as raising,
            pytest.raises(StreamError) as error,
        ):
            list(raising)
        assert message in str(error.value)
        for policy in (ErrorPolicy("skip"), ErrorPolicy("quarantine", quarantine=str(kept))):
            with stream(source, policy, n_workers, tmp_path) as going:
                assert list(going) == ["good\tx"]
                assert going.summary().n_faults == 1
        row = json.loads(kept.read_text())
        assert message in f"{row['place']}: {row['reason']}"
        assert_no_process()


@WORKERS
@pytest.mark.parametrize("changed", ["a.0.tsv", "vocab.volt"])
def test_what_changes_while_the_stream_runs_ends_it(tmp_path, changed, n_workers):
    """Even with the policy "skip", a stream ends with an error if a shard or vocabulary is replaced
    while it runs; the error names the file."""
    vocabulary = tmp_path / "vocab.volt"
    Vocabulary(merges=(("a", "-"),), tokens=("a", "-", "a-", "A")).save(vocabulary)
    source = Source(
        "a", numbered(tmp_path, "a", 60), transforms=(Encode(vocabulary),), block_lines=5
    )
    with deadline(60), stream(source, ErrorPolicy("skip"), n_workers, tmp_path) as going:
        going.skip(5)
        write_lines(tmp_path / changed, ["other"])
        with pytest.raises(StreamError, match=rf"{changed}: changed while the stream was running"):
            going.skip(1000)
        assert_no_process()
