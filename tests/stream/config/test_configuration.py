"""Configurations become the arguments of a stream; missing files are reported before it runs."""

import json
import os
from dataclasses import fields
from pathlib import Path

import pytest
from support.configurations import FULL, STEPS, parse_config
from support.streams import deadline, numbered, write_lines

from volt.errors import ConfigError, OutputError, StreamError
from volt.stream import Source
from volt.stream.config.configuration import Configuration, load_config
from volt.stream.mixing.schedule import Schedule
from volt.stream.reading.error_policy import ErrorPolicy, FaultCounter
from volt.stream.running.stream import Stream
from volt.stream.transforms.case import Lower, Title
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.field_edits import Copy, Multiply
from volt.stream.transforms.filters import Length, SkipBlank
from volt.stream.transforms.tags import Tag


def test_a_configuration_equals_objects_made_in_python(tmp_path):
    """A configuration's sources, with steps, choices, schedules and common transforms, equal
    objects made in Python."""
    for name in "abc":
        (tmp_path / f"{name}.tsv").write_text("x\ty\n")
    (tmp_path / "stream.yaml").write_text(FULL)
    config = load_config(tmp_path / "stream.yaml")
    wmt, other = config.sources
    noise = Choice((Variant(0.95), Variant(0.04, (Lower(fields=(1,)),)), Variant(0.01, (Title(),))))
    steps = (SkipBlank(), noise, Tag(text="[BT]"), Multiply(n=3), Copy(from_=2, to=1))
    assert wmt.transforms == (*steps, Length(max=100))
    assert other.transforms == (Length(max=100),)
    assert wmt.paths == (str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv"))
    assert wmt.weight == Schedule(((0, 1.0), (1000, 2.5)), "linear")
    assert (wmt.shuffle, wmt.epochs, wmt.block_lines, wmt.checks.min_fields) == (
        "outputs",
        2,
        1000,
        2,
    )
    assert config.policy == ErrorPolicy("quarantine", str(tmp_path / "bad.jsonl"), None, 0.1)
    assert (config.seed, config.ends, config.n_workers, config.cache) == (
        3,
        "drop",
        2,
        tmp_path / "cache",
    )


def test_options_are_arguments_of_a_stream():
    """Every option of a configuration is an argument of `Stream`."""
    import inspect

    options = parse_config("sources: {wmt: {path: a.tsv}}").options
    assert set(options) <= set(inspect.signature(Stream).parameters)
    assert {field.name for field in fields(Configuration)} - set(options) == {
        "tasks",
        "shards",
        "named",
        "batches",
    }


def test_missing_files_are_reported(tmp_path):
    """A configuration that names a missing file, model or function is refused with its line before
    anything runs."""
    (tmp_path / "mine.py").write_text("def one(fields): return fields\n")
    (tmp_path / "bad.volt").write_text("{}")
    config = tmp_path / "stream.yaml"
    config.write_text(
        STEPS + "      - user: {file: mine.py, function: won}\n      - encode: bad.volt\n"
    )
    with pytest.raises(ConfigError) as error:
        load_config(config)
    rows = str(error.value).split("\n")
    assert [row.split(":")[1] for row in rows] == ["3", "6", "7"]
    assert "a.tsv: no such file" in rows[0]
    assert "no function 'won'; did you mean one?" in rows[1]
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml")
    config.write_bytes(b"seed: 1\nx: \xff\n")
    with pytest.raises(ConfigError, match=r"stream.yaml:2: not UTF-8 text"):
        load_config(config)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("no/bad.jsonl", "no such folder"),
        (".", "it is a folder"),
        ("locked/bad.jsonl", "permission denied"),
    ],
)
def test_the_quarantine_file_must_be_writable(place, message, tmp_path, monkeypatch):
    """A configuration whose quarantine file cannot be written is refused."""
    monkeypatch.chdir(tmp_path)
    Path("locked").mkdir()
    monkeypatch.setattr(
        os, "access", lambda path, _: not str(path).endswith("locked")
    )  # root may write anywhere
    Path("a.tsv").write_text("x\n")
    Path("stream.yaml").write_text(
        f"sources: {{a: {{path: a.tsv}}}}\nerrors: {{on_fault: quarantine, quarantine: {place}}}"
    )
    with pytest.raises(
        ConfigError, match=rf"stream.yaml:2: errors.quarantine: .*cannot be appended to: {message}"
    ):
        load_config("stream.yaml")
    with pytest.raises(OutputError, match=f"cannot be appended to: {message}"):
        FaultCounter(ErrorPolicy("quarantine", place))


def test_a_missing_library_is_reported(tmp_path, monkeypatch):
    """A configuration that needs sentencepiece is refused with the line and the pip command if
    sentencepiece is missing."""
    import sys

    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    (tmp_path / "spm.model").write_bytes(b"x")
    (tmp_path / "a.tsv").write_text("x\n")
    (tmp_path / "stream.yaml").write_text(STEPS + "      - spm_encode: spm.model\n")
    with pytest.raises(ConfigError, match=r"stream.yaml:6: .*pip install 'volt-vocab\[interop\]'"):
        load_config(tmp_path / "stream.yaml")


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
def test_numbers_out_of_range_are_refused(tmp_path, options, message):
    """A stream refuses options out of range when it is made, with a remedy."""
    with pytest.raises(ConfigError, match=message):
        Stream([Source("s", numbered(tmp_path, "a", 2))], **options)


def test_the_command_line_refuses_negative_seeds(volt_stream, stream_folder):
    """The option --seed of the command line refuses a negative seed, as the key of a configuration
    does."""
    for command in ("run", "preview"):
        assert b"'--seed'" in volt_stream(command, "stream.yaml", "--seed", "-1", status=2).stderr


def test_a_time_limit_ends_a_slow_worker(tmp_path):
    """The key time_limit ends a run whose Python code is too slow with an error, also in a
    rehearsal."""
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


def test_a_quarantine_file_with_lines_is_reported(volt_stream, stream_folder):
    """A new run refuses a quarantine file that contains lines; a resumed run continues it."""
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
