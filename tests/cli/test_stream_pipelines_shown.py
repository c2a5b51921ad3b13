"""`volt stream preview`, `plan`, `audit` and `trace` of a stream that has a name: as of its configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Run

SOURCES = ("one.tsv", "two.tsv.gz")
SAME = "sources: {one.tsv: {path: one.tsv, weight: 2}, two.tsv.gz: {path: two.tsv.gz, weight: 1}}"


@pytest.mark.parametrize(
    ("command", "behind"),
    [
        (("preview",), ("-n", 3, "--seed", 4)),
        (("trace",), ("--seed", 4)),
        (("audit",), ("--turns", 50, "--content")),
    ],
)
def test_a_pipeline_is_shown_as_its_configuration_is(
    volt_stream: Run, stream_folder: Path, command: tuple[str], behind: tuple[object, ...]
) -> None:
    """The same files and weights, reported by name and in a file, are the same stream."""
    (stream_folder / "same.yaml").write_text(SAME)
    number = (7,) * (command == ("trace",))
    named = volt_stream(
        *command, "multistream", *number, *SOURCES, "--weights", "2,1", *behind, "--json"
    )
    message = volt_stream(*command, "same.yaml", *number, *behind, "--json")
    assert json.loads(named.stdout) == json.loads(message.stdout)


def test_a_pipeline_is_planned(volt_stream: Run) -> None:
    """Of 30 lines at weights 2 and 1, 20 come from the first source."""
    found = volt_stream(
        "plan multistream", *SOURCES, "--weights", "2,1", "--at", 30, "--seconds", 0.01, "--json"
    )
    assert [source["lines"] for source in json.loads(found.stdout)["sources"].values()] == [20, 10]


@pytest.mark.parametrize("command", ["preview", "debug", "plan", "audit", "trace", "vocabulary"])
def test_what_is_no_pipeline_is_reported_alike(volt_stream: Run, command: str) -> None:
    """Sources behind a file, none behind a pipeline, and a name that is near to one: as `run` tells it."""
    number = (0,) * (command == "trace")
    for arguments, message in {
        ("stream.yaml", *number, "one.tsv"): b"is a file with its own sources; remove one.tsv",
        ("example", *number, "one.tsv"): b"example has 1 source; give 2",
        ("exampel", *number): b"did you mean the pipeline example?",
    }.items():
        assert message in volt_stream(command, *arguments, status=2).stderr
