"""Signals to `volt stream run`: it ends after a whole line, and saves its state."""

import json
import os
import signal

import pytest
from support.stream_commands import expected, finish, read_lines, wait_for

from volt.stream.running.checkpoint import load_state

EITHER = pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.campaign)]
)


def test_sigusr1_prints_the_metrics(start_stream):
    """SIGUSR1 prints the metrics of a run on stderr, and the run continues."""
    process = start_stream("run stream.yaml --json")
    lines = read_lines(process, 10)
    process.send_signal(signal.SIGUSR1)
    metrics = json.loads(process.stderr.readline())
    assert metrics["n_written"] >= 10
    assert set(metrics["sources"]) == {"one", "two"}
    lines += read_lines(process, 10)
    assert lines == expected(20)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.campaign), signal.SIGTERM]
)
def test_a_signal_ends_a_run_after_a_whole_line(start_stream, volt_stream, number):
    """After SIGINT or SIGTERM, even with a full pipe, stdout ends with a whole line, and the state
    follows it."""
    process = start_stream("run stream.yaml --state s.json --state-every 40")
    lines = read_lines(process, 30)  # then the pipe fills
    process.send_signal(number)
    wait_for(lambda: process.poll() is not None)  # though nobody reads
    assert process.returncode == 128 + number
    done = finish(process)
    assert done.stdout.endswith(b"\n")
    lines += done.lines
    assert f"stopped by {signal.Signals(number).name} after line {len(lines):,}" in done.message
    assert "interrupted" not in done.message
    assert load_state("s.json")["n"] == len(lines)
    lines += volt_stream("run stream.yaml --from-state s.json --limit 50 -q").lines
    assert lines == expected(len(lines))


@pytest.mark.parametrize(
    ("number", "n_workers"),
    [
        (signal.SIGINT, 0),
        (signal.SIGTERM, 1),
        pytest.param(signal.SIGINT, 1, marks=pytest.mark.campaign),
        pytest.param(signal.SIGTERM, 0, marks=pytest.mark.campaign),
    ],
)
def test_a_signal_interrupts_an_endless_transform(start_stream, stream_folder, number, n_workers):
    """SIGINT and SIGTERM end a run whose transform never returns; the state follows the last
    written line."""
    (stream_folder / "mine.py").write_text("""\
import time
def sleep(fields):
    while fields[0] == "30":
        open("here", "w").close()
        time.sleep(0.1)
    return fields
""")
    (stream_folder / "one.tsv").write_text("".join(f"{n}\n" for n in range(50)))
    (stream_folder / "stream.yaml").write_text(
        "sources: {one: {path: one.tsv, shuffle: none, block_lines: 10, "
        "transforms: [user: {file: mine.py, function: sleep}]}}"
    )
    process = start_stream(f"run stream.yaml --state s.json --summary m.json --workers {n_workers}")
    lines = read_lines(process, 30)
    wait_for((stream_folder / "here").exists)
    process.send_signal(number)
    done = finish(process)
    assert process.returncode == 128 + number
    assert lines + done.lines == [str(n) for n in range(30)]
    assert f"stopped by {signal.Signals(number).name} after line 30" in done.message
    assert load_state("s.json")["n"] == 30
    assert (stream_folder / "m.json").exists()


@EITHER
def test_a_signal_ends_a_run_that_opens_its_sources(start_stream, stream_folder, number):
    """A signal while sources are opened ends the run, and writes no state."""
    (stream_folder / "mine.py").write_text(
        "import time\nopen('here', 'w').close()\nwhile True:\n    time.sleep(0.1)\n"
    )
    (stream_folder / "stream.yaml").write_text(
        "sources: {one: {path: one.tsv, transforms: [user: {file: mine.py, function: f}]}}"
    )
    process = start_stream("run stream.yaml --state s.json")
    wait_for((stream_folder / "here").exists)
    process.send_signal(number)
    done = finish(process)
    assert process.returncode == 128 + number
    assert done.stdout == b""
    assert not (stream_folder / "s.json").exists()


@pytest.mark.slow
@pytest.mark.campaign
def test_runs_stopped_at_random_equal_one_run(start_stream):
    """Runs that signals stop at random, with different numbers of workers, write the lines of one
    run."""
    lines = []
    for turn in range(6):  # each signal meets two numbers of workers
        number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[turn // 2]
        process = start_stream(
            f"run stream.yaml --state s.json --state-every {1 + 2 * turn} --resume "
            f"--workers {turn % 3}",
            start_new_session=True,
        )
        lines += read_lines(process, 1 + 37 * turn % 101)
        if number == signal.SIGHUP:  # a closed terminal signals all its processes, perhaps twice
            os.killpg(process.pid, number)
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        done = finish(process)
        assert process.returncode == 128 + number, done.message
        lines += done.lines
    assert lines == expected(len(lines))
    assert load_state("s.json")["n"] == len(lines)
