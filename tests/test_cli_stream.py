"""`volt stream`: what reaches stdout, where a run can be taken up again, and what is told when something is wrong."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import pytest

from volt.stream.recipes import RECIPES
from volt.stream.state import load_state
from volt.stream.stream import Stream
from volt_cli.__main__ import main

VOLT = [sys.executable, "-m", "volt_cli", "stream"]
DEADLINE = 60  # seconds for a process; only a process that hangs comes near
Run = Callable[..., "Done"]
CONFIG = """\
seed: 5
sources:
  one:
    path: one.tsv
    block_lines: 50
    transforms:
      - regex: "7$"
      - choice: [{weight: 2}, {weight: 1, transforms: [upper]}]
      - repeat: 2
  two:
    path: two.tsv.gz
    weight: {kind: linear, points: [[0, 0.3], [500, 1]]}
    block_lines: 37
    transforms: [tag: "[BT]"]
"""


class Done(NamedTuple):
    """What a command printed."""

    stdout: bytes
    stderr: bytes

    @property
    def lines(self) -> list[str]:
        """The lines of stdout."""
        return self.stdout.decode().split("\n")[:-1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with two sources and a configuration, which is the current one."""
    (tmp_path / "one.tsv").write_text("".join(f"a{n}\tb{n}\n" for n in range(200)))
    (tmp_path / "two.tsv.gz").write_bytes(gzip.compress("".join(f"c{n}\td{n}\n" for n in range(300)).encode()))
    (tmp_path / "stream.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs volt stream in this process."""

    def run_volt(*arguments: object, status: int = 0) -> Done:
        monkeypatch.setattr(sys, "argv", ["volt", "stream", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        done = Done(*capfdbinary.readouterr())
        assert (ended.value.code or 0) == status, done.stderr.decode()
        return done

    return run_volt


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts volt stream in a process of its own, which does not outlive the test."""
    started: list[tuple[subprocess.Popen[bytes], Timer]] = []

    def start_volt(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen([*VOLT, *map(str, arguments)], cwd=folder, **pipes)
        started.append((process, Timer(DEADLINE, process.kill)))
        started[-1][1].start()
        return process

    yield start_volt
    for process, timer in started:
        timer.cancel()
        process.kill()
        process.wait(DEADLINE)
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()


def expected(n: int, **options: Any) -> list[str]:
    """The first n lines of the configuration, from Python."""
    with Stream.from_config("stream.yaml", **options) as stream:
        return list(islice(stream, n))


def read_lines(process: subprocess.Popen[bytes], n: int) -> list[str]:
    """The next n lines of a process."""
    assert process.stdout is not None
    return [process.stdout.readline().decode().removesuffix("\n") for _ in range(n)]


def finish(process: subprocess.Popen[bytes]) -> Done:
    """What is left to read of a process that ends, behind what `read_lines` has read."""
    assert process.stdout is not None
    assert process.stderr is not None
    done = Done(process.stdout.read(), process.stderr.read())
    process.wait(DEADLINE)
    return done


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so; fail at the deadline."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "nothing happened before the deadline"
        time.sleep(0.02)


# What comes out


def test_run_writes_the_streams_lines(run: Run) -> None:
    """stdout holds the lines that Python gives, as many as the limit says, with one worker too; stderr the metrics."""
    done = run("run", "stream.yaml", "--limit", 500)
    assert done.lines == expected(500)
    metrics = json.loads(done.stderr)
    assert metrics["n"] == metrics["n_written"] == 500
    assert metrics["sources"]["one"]["lines"] + metrics["sources"]["two"]["lines"] == 500
    assert run("run", "stream.yaml", "--limit", 500, "--workers", 1, "-q") == Done(done.stdout, b"")
    assert run("run", "stream.yaml", "--limit", 0, "-q") == Done(b"", b"")
    assert run("run", "stream.yaml", "--limit", 50, "--seed", 6, "-q").lines == expected(50, seed=6) != expected(50)


def test_summary_is_a_file_too(run: Run, folder: Path) -> None:
    """--summary writes the metrics as JSON."""
    run("run", "stream.yaml", "--limit", 10, "--summary", "summary.json", "-q")
    assert json.loads((folder / "summary.json").read_bytes())["n_written"] == 10


def test_a_stream_that_ends(run: Run, folder: Path) -> None:
    """A source with epochs ends the run; every line has come once."""
    (folder / "stream.yaml").write_text("sources: {one: {path: one.tsv, epochs: 1, block_lines: 30}}")
    done = run("run", "stream.yaml", "--state", "s.json", "-q")
    assert sorted(done.lines) == sorted((folder / "one.tsv").read_text().splitlines())
    assert run("run", "stream.yaml", "--from-state", "s.json", "-q").stdout == b""


def test_rank_and_world_from_arguments_and_launchers(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks' lines are together those of an epoch; torchrun's, Slurm's and MPI's variables say the same."""
    (folder / "stream.yaml").write_text("sources: {one: {path: one.tsv, epochs: 1, block_lines: 30}}")
    ranks = [run("run", "stream.yaml", "-q", "--rank", rank, "--world", 2) for rank in (0, 1)]
    assert sorted(ranks[0].lines + ranks[1].lines) == sorted((folder / "one.tsv").read_text().splitlines())
    for names in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("PMI_RANK", "PMI_SIZE")):
        with monkeypatch.context() as environment:
            environment.setenv(names[0], "1")
            environment.setenv(names[1], "2")
            assert run("run", "stream.yaml", "-q") == ranks[1]
    assert b"go together" in run("run", "stream.yaml", "--rank", 1, status=2).stderr


# Taking up again


@pytest.mark.parametrize("cuts", [[1, 2, 3], [0, 49, 50, 51], [99, 1, 100], [350]])
def test_runs_from_state_to_state_are_one_run(run: Run, cuts: list[int]) -> None:
    """Whatever the limits of the runs, --state and --from-state make their outputs one."""
    found = run("run", "stream.yaml", "--limit", 7, "--state", "s.json", "-q").lines
    for cut in cuts:
        options = ["--from-state", "s.json", "--state", "s.json", "--state-every", 13, "-q"]
        found += run("run", "stream.yaml", "--limit", cut, *options).lines
    assert found == expected(len(found))
    assert load_state("s.json")["n"] == len(found) == 7 + sum(cuts)


def test_resume_takes_the_state_if_there_is_one(run: Run) -> None:
    """The same command line starts a stream and goes on with it."""
    command = ["run", "stream.yaml", "--limit", 60, "--state", "s.json", "--resume", "-q"]
    assert run(*command).lines + run(*command).lines == expected(120)


def test_a_state_of_another_stream_is_refused(run: Run, folder: Path) -> None:
    """The state says which configuration it belongs to; what differs is told."""
    run("run", "stream.yaml", "--limit", 5, "--state", "s.json", "-q")
    (folder / "stream.yaml").write_text(CONFIG.replace("repeat: 2", "repeat: 3"))
    assert b"sources.one.transforms" in run("run", "stream.yaml", "--from-state", "s.json", status=1).stderr
    assert b"cannot be read" in run("run", "stream.yaml", "--from-state", "none.json", status=1).stderr
    assert b"--resume needs" in run("run", "stream.yaml", "--resume", status=2).stderr


def test_acknowledged_lines_and_no_others_are_behind_the_state(run: Run, folder: Path) -> None:
    """With --ack FILE the state stands behind the lines used, and goes on there, or further on if the file says so."""
    ack = folder / "ack"
    run("run", "stream.yaml", "--limit", 100, "--state", "s.json", "--ack", "ack", "-q")
    assert load_state("s.json")["n"] == 0
    ack.write_text("33\n")
    done = run("run", "stream.yaml", "--limit", 100, "--resume", "--state", "s.json", "--ack", "ack", "-q")
    assert done.lines == expected(133)[33:]
    assert load_state("s.json")["n"] == 33
    ack.write_text("90\n")
    done = run("run", "stream.yaml", "--limit", 5, "--from-state", "s.json", "--ack", "ack", "-q")
    assert done.lines == expected(95)[90:]
    assert run("run", "stream.yaml", "--limit", 5, "--resume", "--ack", "ack", "-q") == done


def test_a_word_that_cannot_be_true_is_refused(run: Run, folder: Path) -> None:
    """A consumer cannot have used lines that have not left; a number from another run is not taken for this one's."""
    (folder / "ack").write_text("90\n")
    assert b"go on with --resume" in run("run", "stream.yaml", "--ack", "ack", "--limit", 5, status=1).stderr
    (folder / "stream.yaml").write_text("sources: {one: {path: one.tsv, epochs: 1}}")
    (folder / "ack").write_text("9000\n")
    assert b"ends after 200" in run("run", "stream.yaml", "--ack", "ack", "--resume", status=1).stderr
    assert b"descriptor is not open" in run("run", "stream.yaml", "--ack", "99", status=2).stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_at_a_line_with_its_state(
    start: Callable[..., subprocess.Popen[bytes]], run: Run, number: int
) -> None:
    """Stopped at any moment, even with a reader that does not read, a run leaves whole lines and their state."""
    process = start("run", "stream.yaml", "--state", "s.json", "--state-every", 40)
    found = read_lines(process, 30)  # then the pipe fills
    process.send_signal(number)
    wait_for(lambda: process.poll() is not None)  # though nobody reads
    assert process.returncode == 128 + number
    done = finish(process)
    assert done.stdout.endswith(b"\n")
    found += done.lines
    assert f"stopped by {signal.Signals(number).name} after line {len(found):,}" in done.stderr.decode()
    assert load_state("s.json")["n"] == len(found)
    found += run("run", "stream.yaml", "--from-state", "s.json", "--limit", 50, "-q").lines
    assert found == expected(len(found))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_line_is_obeyed_at_once(
    start: Callable[..., subprocess.Popen[bytes]], folder: Path, number: int
) -> None:
    """While sources are opened there is nothing to save: a signal ends the run there and then."""
    (folder / "mine.py").write_text("import time\nopen('here', 'w').close()\ntime.sleep(600)\n")
    (folder / "stream.yaml").write_text(
        "sources: {one: {path: one.tsv, transforms: [user: {file: mine.py, function: f}]}}"
    )
    process = start("run", "stream.yaml", "--state", "s.json")
    wait_for((folder / "here").exists)
    process.send_signal(number)
    done = finish(process)
    assert process.returncode == 128 + number
    assert done.stdout == b""
    assert not (folder / "s.json").exists()


def test_killed_it_goes_on_behind_what_was_used(
    start: Callable[..., subprocess.Popen[bytes]], run: Run, folder: Path
) -> None:
    """After SIGKILL, with a state that lags behind, nothing is lost or repeated as the consumer's file has it."""
    command = ["run", "stream.yaml", "--state", "s.json", "--state-every", 10, "--ack", "ack", "--resume"]
    used: list[str] = []
    for n in (13, 1, 77):
        process = start(*command, "--workers", 1)
        used += read_lines(process, n)
        (folder / "ack.new").write_text(f"{len(used)}\n")
        os.replace(folder / "ack.new", folder / "ack")
        process.kill()
        process.wait(DEADLINE)
    used += run(*command, "--limit", 20, "-q").lines
    assert used == expected(len(used))


def test_acknowledgements_on_a_descriptor(
    start: Callable[..., subprocess.Popen[bytes]], run: Run, folder: Path
) -> None:
    """Numbers written to a pipe move the state to them, soon; broken writes are put together."""
    reader, writer = os.pipe()
    try:
        process = start("run", "stream.yaml", "--state", "s.json", "--ack", reader, pass_fds=[reader])
        used = read_lines(process, 200)
        for told in (b"7\n1", b"0\n15", b"0\n"):
            os.write(writer, told)
        wait_for(lambda: load_state(folder / "s.json")["n"] == 150)
        process.kill()
        process.wait(DEADLINE)
    finally:
        os.close(reader)
        os.close(writer)
    rest = run("run", "stream.yaml", "--from-state", "s.json", "--limit", 80, "-q").lines
    assert used[:150] + rest == expected(230)


# Readers, disks and workers


def test_metrics_when_asked(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """SIGUSR1 prints the metrics to stderr, and the run goes on."""
    process = start("run", "stream.yaml")
    found = read_lines(process, 10)
    process.send_signal(signal.SIGUSR1)
    assert process.stderr is not None
    metrics = json.loads(process.stderr.readline())
    assert metrics["n_written"] >= 10
    assert set(metrics["sources"]) == {"one", "two"}
    found += read_lines(process, 10)
    assert found == expected(20)


def test_a_reader_that_has_had_enough(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A closed pipe ends the run silently, with its state."""
    process = start("run", "stream.yaml", "--state", "s.json", "-q")
    read_lines(process, 3)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(DEADLINE) == 0
    assert process.stderr.read() == b""
    assert load_state("s.json")["n"] >= 3


def test_a_full_disk_is_told(start: Callable[..., subprocess.Popen[bytes]], run: Run) -> None:
    """A full disk under stdout is an error with the line, and the state is that line's; so is one under the state."""
    with open("/dev/full", "wb") as full:
        process = start("run", "stream.yaml", "--state", "s.json", stdout=full)
        _, stderr = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "stdout: no space left on device after line 0" in stderr.decode()
    assert load_state("s.json")["n"] == 0
    assert (
        b"nowhere/s.json: cannot be written" in run("run", "stream.yaml", "--state", "nowhere/s.json", status=1).stderr
    )


def test_a_slow_reader_loses_nothing(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Read late and in small pieces, the lines are the same."""
    process = start("run", "stream.yaml", "--limit", 3000, "-q")
    assert process.stdout is not None
    time.sleep(0.3)
    data = b""
    while piece := process.stdout.read(997):
        data += piece
    assert process.wait(DEADLINE) == 0
    assert data.decode().split("\n")[:-1] == expected(3000)


def test_a_line_at_fault_ends_the_run_with_its_place_and_a_state(run: Run, folder: Path) -> None:
    """The error names file and line; what was written before stays, with its state; skip goes on and counts."""
    (folder / "one.tsv").write_text("".join(f"{n}\n" for n in range(90)) + "bad\n")
    (folder / "mine.py").write_text("def double(fields):\n    return [str(2 * int(fields[0]))]\n")
    config = "sources: {one: {path: one.tsv, epochs: 1, shuffle: none, block_lines: 40, transforms: [user: {file: mine.py, function: double}]}}"  # noqa: E501
    (folder / "stream.yaml").write_text(config)
    done = run("run", "stream.yaml", "--state", "s.json", status=1)
    assert done.lines == [str(2 * n) for n in range(80)]
    assert "one.tsv:91: user: double: ValueError" in done.stderr.decode()
    assert load_state("s.json")["n"] == 80
    (folder / "stream.yaml").write_text(config + "\nerrors: {on_fault: skip}\n")
    done = run("run", "stream.yaml")
    assert done.lines == [str(2 * n) for n in range(90)]
    assert json.loads(done.stderr)["n_faults"] == 1


def test_faults_of_a_configuration_are_usage_errors(run: Run, folder: Path) -> None:
    """Exit status 2, file and line; nothing on stdout."""
    (folder / "stream.yaml").write_text(CONFIG.replace("weight:", "wieght:", 1).replace("regex", "regx"))
    done = run("run", "stream.yaml", status=2)
    assert done.stdout == b""
    told = done.stderr.decode()
    assert "stream.yaml:7: sources.one.transforms[1]: unknown transform 'regx'; did you mean regex?" in told
    for options in (["--limit", -1], ["--state-every", 0]):
        run("run", "stream.yaml", *options, status=2)


# The other commands


def test_preview_shows_every_step(run: Run) -> None:
    """preview tells the place of each of the first lines, what was read and what each transform made of it."""
    told = run("preview", "stream.yaml", "-n", 12).stdout.decode()
    lines = expected(12)
    assert [row.split()[1] for row in told.split("\n") if row.startswith("line ")] == [str(n) for n in range(12)]
    for line in lines:
        assert line.replace("\t", "  ⇥  ") in told
    assert "repeat" in told
    assert "as it was" in told
    assert "as it was" not in run("preview", "stream.yaml", "--changed").stdout.decode()
    later = run("preview", "stream.yaml", "-n", 1, "--from", 11).stdout.decode()
    assert lines[11].replace("\t", "  ⇥  ") in later
    run("preview", "stream.yaml", "-n", 0, status=2)


def test_trace_finds_the_line_in_its_file(run: Run, folder: Path) -> None:
    """The place that trace tells holds the line that was read; the text is the stream's."""
    texts = {
        "one": (folder / "one.tsv").read_text().splitlines(),
        "two": gzip.decompress((folder / "two.tsv.gz").read_bytes()).decode().splitlines(),
    }
    for n, line in zip((0, 17, 640), [expected(641)[n] for n in (0, 17, 640)], strict=True):
        found = json.loads(run("trace", "stream.yaml", n, "--json").stdout)
        assert found["text"] == line
        assert texts[found["source"]][found["line"] - 1] == found["raw"]
        assert line.lower().removeprefix("[bt] ") == found["raw"]
    assert b"line 17" in run("trace", "stream.yaml", 17).stdout
    assert b"numbered from 0" in run("trace", "stream.yaml", "--", -1, status=2).stderr


def test_plan_counts_epochs_and_holds_speed_against_demand(run: Run) -> None:
    """At line N, the planned lines of all sources sum to N; too slow a stream fails."""
    found = json.loads(run("plan", "stream.yaml", "--at", "1e4", "--seconds", 0.2, "--json").stdout)
    assert sum(part["lines"] for part in found["sources"].values()) == pytest.approx(10_000)
    two = found["sources"]["two"]
    assert two["epochs"] == pytest.approx(two["lines"] / 300)
    assert found["lines_per_second"] > 0
    table = run("plan", "stream.yaml", "--seconds", 0.2, "--demand", 1e12, status=1)
    assert b"fewer than the 1,000,000,000,000 of --demand" in table.stderr
    assert b"memory for data" in table.stdout
    assert b"no number of lines" in run("plan", "stream.yaml", "--at", "soon", status=2).stderr


def test_audit_proves_cover_and_shares(run: Run) -> None:
    """Every line once per epoch, for any world, with the content compared."""
    found = json.loads(run("audit", "stream.yaml", "--epochs", 3, "--content", "--world", 3, "--json").stdout)
    assert found["exact"] is True
    assert [source["content"] for source in found["sources"]] == [True, True]
    told = run("audit", "stream.yaml", "--turns", "1e4")
    assert b"not read" in told.stdout
    assert b"exact: every line once per epoch" in told.stderr


def test_schema_documents(run: Run) -> None:
    """The text names every key, the JSON is a schema; one transform can be asked for."""
    assert b"block_lines: whole number" in run("schema").stdout
    assert json.loads(run("schema", "--json").stdout)["$defs"]["tag"]["properties"]["text"]["type"] == "string"
    assert run("schema", "tag", "copy").stdout.startswith(b"tag \xe2\x80\x94 Put a tag")
    assert b"did you mean lower" in run("schema", "lwoer", status=2).stderr


def test_examples_are_listed_and_run(run: Run, folder: Path) -> None:
    """Every example that is listed is written and runs."""
    listed = [row.split()[0] for row in run("example").lines]
    assert listed == list(RECIPES)
    for name in listed:
        run("example", name, "-o", folder / "ex" / name)
        assert len(run("run", folder / "ex" / name / "stream.yaml", "--limit", 300, "-q").lines) == 300
    assert b"exists; choose another folder" in run("example", "mixing", "-o", "ex/mixing", status=1).stderr
    assert b"did you mean mixing" in run("example", "mixin", status=2).stderr


@pytest.mark.slow
def test_stopped_anywhere_it_is_one_stream(start: Callable[..., subprocess.Popen[bytes]], folder: Path) -> None:
    """Stopped by signals again and again, at chance moments and with other numbers of workers, the runs are one run."""
    found: list[str] = []
    for turn in range(12):
        number = (signal.SIGINT, signal.SIGTERM)[turn % 2]
        command = ["run", "stream.yaml", "--state", "s.json", "--state-every", 1 + turn, "--resume"]
        process = start(*command, "--workers", turn % 3)
        found += read_lines(process, 1 + 37 * turn % 101)
        process.send_signal(number)
        done = finish(process)
        assert process.returncode == 128 + number, done.stderr.decode()
        found += done.lines
    assert found == expected(len(found))
    assert load_state("s.json")["n"] == len(found)
