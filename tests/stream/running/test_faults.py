"""Every fault of the data, with and without workers: reported with its place, or counted; no hang, no process left."""

from __future__ import annotations

import json
import time
from multiprocessing import active_children
from pathlib import Path

import pytest
from streams import Crash, deadline, numbered, write_lines

from volt.errors import StreamError
from volt.stream import Checks, ErrorPolicy, Source, Stream
from volt.stream.transforms.subwords import Encode
from volt.vocabulary import Vocabulary

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


def stream(source: Source, policy: ErrorPolicy, n_workers: int, cache: Path) -> Stream:
    """One source, with workers if wanted."""
    return Stream([source], policy=policy, n_workers=n_workers, start_method="fork", cache=cache)


def assert_no_process() -> None:
    """No worker is left; the caller sets the deadline."""
    while any(process.name == "volt-stream" for process in active_children()):
        time.sleep(0.01)


@WORKERS
@pytest.mark.parametrize("fault", FAULTS)
def test_unfit_lines_follow_the_policy(tmp_path: Path, fault: str, n_workers: int) -> None:
    """raise: file, line and reason; skip and quarantine: the other lines, a count, and in quarantine the line."""
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
def test_what_changes_while_the_stream_runs_ends_it(
    tmp_path: Path, changed: str, n_workers: int
) -> None:
    """A shard or a vocabulary that is replaced is reported by name, whatever the policy."""
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
