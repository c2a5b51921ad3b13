"""`volt stream batches`: what it tells of unfit lines, speed and earlier runs, and what a signal leaves behind."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from screens import printed
from streams import write_lines

from volt import Vocabulary
from volt.batches.steps import Steps
from volt.batches.throughput import Report
from volt_cli.stream.batches import Paced, row

CONFIG = """\
seed: 3
errors: {on_fault: skip}
sources: {pairs: {path: pairs.tsv, block_lines: 40}}
batches: {fields: {src: v.volt, tgt: v.volt}, max_tokens: 40, window: 60}
"""
N_LINES, UNFIT = 200, 8


@pytest.fixture(autouse=True)
def config(stream_folder: Path) -> Path:
    """A configuration of batches, some of whose lines are unfit: they are no UTF-8."""
    lines = [b"\t".join([b" ".join([b"a"] * (1 + n % 9)), b"b b"]) for n in range(N_LINES)]
    lines[7 :: N_LINES // UNFIT] = [b"a\t\xff"] * UNFIT
    (stream_folder / "pairs.tsv").write_bytes(b"".join(line + b"\n" for line in lines))
    Vocabulary((), ("a", "b", "a</w>", "b</w>")).save(stream_folder / "v.volt")
    (stream_folder / "b.yaml").write_text(CONFIG)
    return stream_folder / "b.yaml"


def message(volt_stream: Run, *arguments: object, status: int = 0) -> Any:
    """What the command says in JSON."""
    return json.loads(volt_stream("batches b.yaml", *arguments, "--json", status=status).stdout)


def test_unfit_lines_are_reported(volt_stream: Run, config: Path) -> None:
    """How many, and why, as the stream's summary has them, in the table and in JSON; without any there is no row."""
    config.write_text(config.read_text().replace("block_lines", "epochs: 1, block_lines"))
    found = message(volt_stream, "-n", 1000)
    assert (found["n_read"], found["n_faults"]) == (N_LINES, UNFIT)
    assert list(found["reasons"].values()) == [UNFIT]
    assert found["sentences"] + found["left"] == N_LINES - UNFIT
    volt_stream("run b.yaml --summary run.json -q")
    of_lines = json.loads((config.parent / "run.json").read_bytes())
    assert [found[key] for key in ("n_faults", "reasons")] == [
        of_lines[key] for key in ("n_faults", "reasons")
    ]
    shown = volt_stream("batches b.yaml -n", 1000).stdout.decode()
    assert f"unfit         {UNFIT} lines, dropped from {N_LINES} read\n" in shown
    assert f"{UNFIT} {next(iter(found['reasons']))}\n" in shown
    write_lines(config.parent / "pairs.tsv", ["a\tb"] * 9)
    assert b"unfit" not in volt_stream("batches b.yaml -n", 1000).stdout


@pytest.mark.parametrize("workers", [0, 2])
def test_what_was_read_counts_over_all_runs(volt_stream: Run, workers: int) -> None:
    """Runs that go on from each other tell of as many lines, epochs and faults as one, and never of fewer."""
    options = ("--state", "s.json", "--resume", "--workers", workers)
    several = [message(volt_stream, "-n", n, *options) for n in (3, 1, 20, 1, 40)]
    whole = message(volt_stream, "-n", 65, "--workers", 2 - workers)
    keys = ("step", "n_read", "n_faults", "reasons")
    assert [several[-1][key] for key in keys] == [whole[key] for key in keys]
    read = [one["sources"]["pairs"] for one in several]
    assert [read[-1][key] for key in ("lines", "epochs")] == [
        whole["sources"]["pairs"][key] for key in ("lines", "epochs")
    ]
    assert [one["lines"] for one in read] == sorted(one["lines"] for one in read)
    assert [one["epochs"] for one in read] == sorted(one["epochs"] for one in read)
    assert (
        "1 in this run, up to step 66"
        in volt_stream("batches b.yaml -n", 1, *options).stdout.decode()
    )


def test_speed_is_that_of_making_windows(volt_stream: Run) -> None:
    """Tokens of the run by its seconds, from the second window on; before that there is none, in rows neither."""
    found = message(volt_stream, "-n", 60, "--every", 1)
    for one in [*found["every"], found]:
        if one["windows"] < 2:
            assert one["tokens_per_second"] is None
        else:
            assert one["tokens_per_second"] == pytest.approx(
                one["tokens"] / one["seconds"], rel=1e-2
            )
    windows = [one["windows"] for one in found["every"]]
    assert windows == sorted(windows)
    assert (windows[0], windows[-1]) == (1, found["sources"]["pairs"]["lines"] // 60)
    shown = volt_stream("batches b.yaml -n", 2, "--every", 1).stdout.decode()
    assert [line.endswith("– tokens/s") for line in shown.split("\n")[:2]] == [True, True]
    assert "speed here    – after 1 window; measured from the second window on" in shown


def test_quiet_prints_no_table(volt_stream: Run) -> None:
    """Errors only, as elsewhere; JSON is what is asked for by its name."""
    done = volt_stream("batches b.yaml -n", 4, "--every", 2, "-q")
    assert done == (b"", b"")
    assert json.loads(volt_stream("batches b.yaml -n", 4, "-q", "--json").stdout)["steps"] == 4


def interrupted(monkeypatch: pytest.MonkeyPatch, number: int, at: int) -> None:
    """Let a signal come while the step behind this one is made."""
    made = Steps.__iter__

    def steps(self: Steps) -> Iterator[dict[str, Any]]:
        for step in made(self):
            yield step
            if self.n == at:
                signal.raise_signal(number)

    monkeypatch.setattr(Steps, "__iter__", steps)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_signal_leaves_the_summary_and_the_state(
    volt_stream: Run,
    monkeypatch: pytest.MonkeyPatch,
    config: Path,
    number: int,
    options: tuple[str, ...],
) -> None:
    """What the steps came to so far, rows as they were reached, and a state from which the others follow."""
    whole = message(volt_stream, "-n", 40)
    with monkeypatch.context() as patch:
        interrupted(patch, number, at=25)
        command = ("batches", "b.yaml", "-n", 10**7, "--every", 10, "--state", "s.json", *options)
        done = volt_stream(*command, status=128 + number)
    assert (
        f"stopped by {signal.Signals(number).name} after step 25; the state is in s.json"
        in done.stderr.decode()
    )
    rest = message(volt_stream, "-n", 15, "--state", "s.json", "--resume")
    if options:
        found = json.loads(done.stdout)
        assert (found["steps"], [one["step"] for one in found["every"]]) == (25, [10, 20])
        assert found["tokens"] + rest["tokens"] == whole["tokens"]
    else:
        assert [line.split()[:2] for line in done.lines[:3]] == [
            ["step", "10"],
            ["step", "20"],
            ["source", "lines"],
        ]
        assert f"{whole['tokens'] - rest['tokens']:,} without padding" in done.stdout.decode()
    assert (rest["step"], rest["n_read"]) == (40, whole["n_read"])


def test_rows_come_when_they_are_reached(volt_stream: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is on stdout before the next step is made."""
    seen = list[tuple[int, int]]()
    made = Steps.__iter__

    def steps(self: Steps) -> Iterator[dict[str, Any]]:
        for step in made(self):
            seen.append((self.n, shown[0]))
            yield step

    shown = [0]
    monkeypatch.setattr(Steps, "__iter__", steps)
    monkeypatch.setattr(
        "volt_cli.stream.batches.show", lambda *parts: shown.__setitem__(0, shown[0] + 1)
    )
    volt_stream("batches b.yaml -n", 9, "--every", 3)
    assert seen == [(n, (n - 1) // 3) for n in range(1, 10)]


@pytest.mark.parametrize("width", [40, 60, 120])
def test_a_row_has_all_numbers_at_any_width(width: int) -> None:
    """A row is one line if it fits, else it is broken between its numbers; an unknown speed is –."""
    rows = [
        row(Paced(Report(step=step, sentences=9, tokens=step * 7, seconds=1.0), step))
        for step in (1, 2000)
    ]
    shown = printed(rows, width).rstrip("\n").split("\n")
    joined = " ".join(" ".join(shown).split())
    first = "step 1 9 sentences 7 tokens padding 0.00 % longest 0 – tokens/s"
    assert (
        joined
        == f"{first} step 2,000 9 sentences 14,000 tokens padding 0.00 % longest 0 14,000 tokens/s"
    )
    assert (len(shown) == 2) == (width == 120)
