"""`volt stream preview`, `plan`, `audit` and `trace`."""

from __future__ import annotations

import json

import pytest

MIXED = "mix: {temperature: %s}\nsources:\n  de: {path: de.tsv}\n  lb: {path: lb.tsv}\n"


@pytest.fixture
def mixed(stream_folder):
    """Write a configuration of 90 lines of de and 10 of lb, at temperature 2."""
    for name, n in (("de", 90), ("lb", 10)):
        (stream_folder / f"{name}.tsv").write_text("".join(f"{name} {i}\n" for i in range(n)))
    (stream_folder / "mix.yaml").write_text(MIXED % 2)
    return stream_folder / "mix.yaml"


def test_a_plan_shows_a_virtual_epoch(mixed, volt_stream):
    """`volt stream plan` shows the lines, share and passes of each source in a virtual epoch, as
    table and JSON."""
    message = volt_stream("plan", mixed, "--at", 240, "--seconds", 0.01).stdout.decode()
    lines = [line.split() for line in message.splitlines()]
    start = next(place for place, line in enumerate(lines) if line[:1] == ["in"])
    assert " ".join(lines[start]) == "in a virtual epoch of 120 lines"
    assert lines[start + 2 : start + 4] == [
        ["de", "90", "75.00%", "1.00"],
        ["lb", "30", "25.00%", "3.00"],
    ]
    found = json.loads(volt_stream("plan", mixed, "--at", 240, "--seconds", 0.01, "--json").stdout)
    assert found["epoch_lines"] == 120
    assert (found["sources"]["lb"]["share"], found["sources"]["lb"]["epochs"]) == (0.25, 6)
    assert found["sources"]["lb"]["epoch_passes"] == 3


def test_a_virtual_epoch_reads_the_largest_source_once(mixed, volt_stream):
    """After two virtual epochs, whose length the summary states, the largest source has been read
    twice."""
    summary = mixed.with_name("summary.json")
    volt_stream("run", mixed, "--limit", 240, "--summary", summary)
    found = json.loads(summary.read_text())
    assert (found["epoch_lines"], found["n"]) == (120, 240)
    assert {name: (part["lines"], part["epochs"]) for name, part in found["sources"].items()} == {
        "de": (180, 2),
        "lb": (60, 6),
    }


def test_a_temperature_that_gives_a_source_no_lines_is_refused(mixed, volt_stream):
    """The error for a temperature at which a source would give no lines names the line of the
    configuration."""
    mixed.write_text("# a comment\n" + MIXED % 0.05)
    message = volt_stream("run", mixed, status=2).stderr.decode()
    assert "mix.yaml:2: mix: temperature 0.05 leaves nothing to source 'lb'" in " ".join(
        message.split()
    )


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
def test_a_pipeline_equals_a_configuration(volt_stream, stream_folder, command, behind):
    """A pipeline and a configuration with equal files and weights give equal lines in `preview`,
    `trace` and `audit`."""
    (stream_folder / "same.yaml").write_text(SAME)
    number = (7,) * (command == ("trace",))
    named = volt_stream(
        *command, "multistream", *number, *SOURCES, "--weights", "2,1", *behind, "--json"
    )
    message = volt_stream(*command, "same.yaml", *number, *behind, "--json")
    assert json.loads(named.stdout) == json.loads(message.stdout)


def test_a_pipeline_is_planned(volt_stream):
    """`volt stream plan` of two sources with weights 2 and 1 takes 20 of 30 lines from the first."""
    found = volt_stream(
        "plan multistream", *SOURCES, "--weights", "2,1", "--at", 30, "--seconds", 0.01, "--json"
    )
    assert [source["lines"] for source in json.loads(found.stdout)["sources"].values()] == [20, 10]


@pytest.mark.parametrize("command", ["preview", "debug", "plan", "audit", "trace", "vocabulary"])
def test_commands_refuse_unknown_pipelines(volt_stream, command):
    """`preview`, `plan`, `audit` and `trace` refuse wrong sources and unknown pipelines with the
    error of `run`."""
    number = (0,) * (command == "trace")
    for arguments, message in {
        ("stream.yaml", *number, "one.tsv"): b"is a file with its own sources; remove one.tsv",
        ("example", *number, "one.tsv"): b"example has 1 source; give 2",
        ("exampel", *number): b"did you mean the pipeline example?",
    }.items():
        assert message in volt_stream(command, *arguments, status=2).stderr
