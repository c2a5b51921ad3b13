"""`volt stream` with sources that are mixed by their sizes: what is planned, what is summed up, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Run

MIXED = "mix: {temperature: %s}\nsources:\n  de: {path: de.tsv}\n  lb: {path: lb.tsv}\n"


@pytest.fixture
def mixed(stream_folder: Path) -> Path:
    """A configuration of 90 lines of de and 10 of lb, at temperature 2."""
    for name, n in (("de", 90), ("lb", 10)):
        (stream_folder / f"{name}.tsv").write_text("".join(f"{name} {i}\n" for i in range(n)))
    (stream_folder / "mix.yaml").write_text(MIXED % 2)
    return stream_folder / "mix.yaml"


def test_a_plan_shows_a_virtual_epoch(mixed: Path, volt_stream: Run) -> None:
    """A table says lines, share and passes of each source in a virtual epoch; JSON says the same."""
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


def test_a_summary_says_how_long_a_virtual_epoch_is(mixed: Path, volt_stream: Run) -> None:
    """A run of two virtual epochs has read the largest source twice."""
    summary = mixed.with_name("summary.json")
    volt_stream("run", mixed, "--limit", 240, "--summary", summary)
    found = json.loads(summary.read_text())
    assert (found["epoch_lines"], found["n"]) == (120, 240)
    assert {name: (part["lines"], part["epochs"]) for name, part in found["sources"].items()} == {
        "de": (180, 2),
        "lb": (60, 6),
    }


def test_a_temperature_that_leaves_nothing_is_reported_with_its_line(
    mixed: Path, volt_stream: Run
) -> None:
    """Which is known once the files have been counted."""
    mixed.write_text("# a comment\n" + MIXED % 0.05)
    message = volt_stream("run", mixed, status=2).stderr.decode()
    assert "mix.yaml:2: mix: temperature 0.05 leaves nothing to source 'lb'" in " ".join(
        message.split()
    )
