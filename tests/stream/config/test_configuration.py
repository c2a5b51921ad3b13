"""Configurations: what they mean, and that what they name is looked for before anything runs."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest
from configurations import FULL, STEPS

from volt.errors import ConfigError, OutputError
from volt.stream.config.configuration import Configuration, load_config, parse_config
from volt.stream.mixing.schedule import Schedule
from volt.stream.reading.error_policy import ErrorPolicy, FaultCounter
from volt.stream.running.stream import Stream
from volt.stream.transforms.case import Lower, Title
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.field_edits import Copy, Multiply
from volt.stream.transforms.filters import Length, SkipBlank
from volt.stream.transforms.tags import Tag


def test_a_configuration_says_what_the_constructors_say(tmp_path: Path) -> None:
    """Every form of a step, nested choices, schedules and common transforms become the same objects as in Python."""
    for name in "abc":
        (tmp_path / f"{name}.tsv").write_text("x\ty\n")
    (tmp_path / "stream.yaml").write_text(FULL)
    found = load_config(tmp_path / "stream.yaml")
    wmt, other = found.sources
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
    assert found.policy == ErrorPolicy("quarantine", str(tmp_path / "bad.jsonl"), None, 0.1)
    assert (found.seed, found.ends, found.n_workers, found.cache) == (
        3,
        "drop",
        2,
        tmp_path / "cache",
    )


def test_the_arguments_are_those_of_a_stream() -> None:
    """Every option of a configuration is an argument of Stream."""
    import inspect

    message = parse_config("sources: {wmt: {path: a.tsv}}").options
    assert set(message) <= set(inspect.signature(Stream).parameters)
    assert {field.name for field in fields(Configuration)} - set(message) == {
        "tasks",
        "shards",
        "named",
        "batches",
    }


TASKS = "tasks: {a: {type: mono, inputs: {i: {mono: a}}, weight: [1, 2, 3]}}\nschedule: {%s}\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("points: [3, 4]", (3, 4)),
        ("points: [3, 4], unit: batches, batch_samples: 5", (15, 20)),
        ("points: [3, 4], unit: updates, batch_samples: 5", (15, 20)),
        ("points: [3, 4], unit: updates, batch_samples: 5, update_batches: 2", (30, 40)),
    ],
)
def test_points_of_a_schedule_count_samples(options: str, expected: tuple[int, int]) -> None:
    """Points in batches or updates are converted to samples."""
    first, second = expected
    weight = Schedule(((0, 1.0), (first, 2.0), (second, 3.0)))
    assert parse_config(TASKS % options).sources[0].weight == weight


def test_files_are_looked_for(tmp_path: Path) -> None:
    """A source file, model or function that is not there is reported with its line before anything runs."""
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
def test_a_place_for_unfit_lines_is_tried_first(
    place: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarantine file that cannot be written is reported when a configuration is read, and when a tally is made."""
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


def test_spm_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sentencepiece, the line that needs it is reported, with the pip command."""
    import sys

    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    (tmp_path / "spm.model").write_bytes(b"x")
    (tmp_path / "a.tsv").write_text("x\n")
    (tmp_path / "stream.yaml").write_text(STEPS + "      - spm_encode: spm.model\n")
    with pytest.raises(ConfigError, match=r"stream.yaml:6: .*pip install 'volt-vocab\[interop\]'"):
        load_config(tmp_path / "stream.yaml")
