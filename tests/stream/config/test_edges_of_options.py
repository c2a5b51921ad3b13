"""Options at the edge of what they may be: numbers below 0, times, and what goes on or starts anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from streams import deadline, numbered, write_lines

from volt.errors import ConfigError, StreamError
from volt.stream import Source, Stream
from volt.stream.config.configuration import parse_config

SOURCES = "sources: {s: {path: a.tsv}}\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed is -1; give 0 or more"),
        ({"recall": -1}, "recall is -1; give 0 or more"),
        ({"time_limit": 0}, "time_limit=0: give seconds above 0, or None"),
        ({"time_limit": float("nan")}, "time_limit=nan: give seconds"),
        ({"time_limit": float("inf")}, "time_limit=inf: give seconds"),
    ],
)
def test_numbers_out_of_range_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """What no stream can be reported is refused when it is made, with what to give instead."""
    with pytest.raises(ConfigError, match=message):
        Stream([Source("s", numbered(tmp_path, "a", 2))], **options)


@pytest.mark.parametrize("value", ["0", "-3", ".nan", ".inf", "soon", "[3]"])
def test_a_time_limit_is_seconds(value: str) -> None:
    """The key of a configuration takes what `Stream` takes; its faults have their line."""
    assert parse_config(SOURCES + "time_limit: 2.5").time_limit == 2.5
    assert parse_config(SOURCES).time_limit is None
    with pytest.raises(ConfigError, match=r"stream\.yaml:2: time_limit: should be"):
        parse_config(f"{SOURCES}time_limit: {value}")


def test_a_seed_is_no_number_below_0(volt_stream: Run, stream_folder: Path) -> None:
    """A configuration and the command line refuse what `Stream` refuses."""
    with pytest.raises(
        ConfigError, match=r"stream\.yaml:2: seed: should be greater than or equal to 0, not -1"
    ):
        parse_config(SOURCES + "seed: -1")
    for command in ("run", "preview"):
        assert b"'--seed'" in volt_stream(command, "stream.yaml", "--seed", "-1", status=2).stderr


def test_a_time_limit_of_a_file_ends_a_slow_worker(tmp_path: Path) -> None:
    """A block of Python code that takes longer ends the run, in a rehearsal as in the stream itself."""
    write_lines(tmp_path / "a.tsv", ["a", "b"])
    write_lines(
        tmp_path / "mine.py", ["import time", "", "def slow(fields):", "    time.sleep(60)"]
    )
    config = tmp_path / "stream.yaml"
    step = "user: {file: mine.py, function: slow}"
    config.write_text(
        f"time_limit: 0.2\nworkers: 1\nsources: {{s: {{path: a.tsv, transforms: [{step}]}}}}\n"
    )
    with deadline(30), Stream.from_config(config, start_method="fork") as stream:
        for one in (stream, stream.rehearsal()):
            with (
                one,
                pytest.raises(
                    StreamError, match=r"transform 'user' has taken more than 0\.2 seconds"
                ),
            ):
                one.skip(1)


def test_a_quarantine_file_of_an_earlier_run_is_reported_once(
    volt_stream: Run, stream_folder: Path
) -> None:
    """A run adds to the file. One that starts anew says so if lines are there already; one that goes on does not."""
    write_lines(stream_folder / "one.tsv", ["good\tx", "bad"] * 3)
    policy = "errors: {on_fault: quarantine, quarantine: bad.jsonl}"
    source = "sources: {s: {path: one.tsv, min_fields: 2, epochs: 1, block_lines: 2}}"
    (stream_folder / "q.yaml").write_text(f"{source}\n{policy}\n")
    message = b"bad.jsonl: contains unfit lines of earlier runs"
    first = volt_stream("run", "q.yaml", "--state", "s.json", "--limit", 2)
    again = volt_stream("run", "q.yaml", "--resume", "--state", "s.json")
    rows = (stream_folder / "bad.jsonl").read_text().splitlines()
    anew = volt_stream("run", "q.yaml")
    assert [done.stderr.count(message) for done in (first, again, anew)] == [0, 0, 1]
    assert len({json.loads(row)["place"] for row in rows}) == 3
    assert (stream_folder / "bad.jsonl").read_text().splitlines()[: len(rows)] == rows
    assert message not in volt_stream("run", "q.yaml", "-q").stderr
