"""`volt stream run --resume`: after signals and kills, and after the lines that a consumer has used."""

from __future__ import annotations

import os
import signal
from itertools import product

import pytest
from support.drawn import DRAWS_ALL
from support.stream_commands import CONFIG, DEADLINE, expected, finish, read_lines, wait_for

from volt.errors import StreamError
from volt.stream.running.checkpoint import check_own, load_state, save_state


@pytest.mark.parametrize("cuts", [[1, 2, 3], [0, 49, 50, 51], [99, 1, 100], [350]])
def test_runs_from_state_to_state_are_one_run(volt_stream, cuts):
    """With --state and --from-state, runs of any length concatenate to one run."""
    found = volt_stream("run stream.yaml --limit", 7, "--state", "s.json", "-q").lines
    for cut in cuts:
        options = ["--from-state", "s.json", "--state", "s.json", "--state-every", 13, "-q"]
        found += volt_stream("run stream.yaml --limit", cut, *options).lines
    assert found == expected(len(found))
    assert load_state("s.json")["n"] == len(found) == 7 + sum(cuts)


def test_the_position_of_an_earlier_run_is_kept(volt_stream):
    """Without --resume or --force, a run does not replace the state of an earlier run."""
    command = ["run", "stream.yaml", "--limit", 6, "--state", "s.json", "-q"]
    first, state = volt_stream(*command), load_state("s.json")
    refused = volt_stream(*command, status=2)
    message = "--state s.json: contains the position of an earlier run, after line 6; add --resume to continue there, or"
    assert f"{message} --force to start from the beginning" in refused.stderr.decode()
    assert (refused.stdout, load_state("s.json")) == (b"", state)
    assert b"give one of them" in volt_stream(*command, "--resume", "--force", status=2).stderr
    assert first.lines + volt_stream(*command, "--resume").lines == expected(12)
    assert (volt_stream(*command, "--force"), load_state("s.json")) == (first, state)


def test_a_state_file_that_holds_no_position_yet_is_written(volt_stream, stream_folder):
    """The state of a run without lines is replaced; a file that is not a state is kept."""
    command = ["run", "stream.yaml", "--state", "s.json", "-q", "--limit"]
    assert volt_stream(*command, 0).lines == []
    assert volt_stream(*command, 3).lines == expected(3)
    (stream_folder / "s.json").write_text('["notes"]')
    assert b"s.json: contains no position" in volt_stream(*command, 3, status=2).stderr
    assert (stream_folder / "s.json").read_text() == '["notes"]'
    assert volt_stream(*command, 3, "--force").lines == expected(3)


def test_a_state_at_the_end_stays_there(volt_stream, stream_folder):
    """A run that resumes at the end of a stream gives no line, and reports the end."""
    (stream_folder / "stream.yaml").write_text("sources: {one: {path: one.tsv, epochs: 1}}")
    command = ["run", "stream.yaml", "--state", "s.json", "--resume"]
    n = len(volt_stream(*command).lines)
    again = volt_stream(*command)
    assert again.lines == []
    assert f"0 lines, {n} over all runs; the stream has ended" in again.stderr.decode()


def test_a_state_of_another_stream_is_refused(volt_stream, stream_folder):
    """The error names the differences of the configuration; --accept NAME allows some of them."""
    volt_stream("run stream.yaml --limit", 5, "--state", "s.json", "-q")
    (stream_folder / "stream.yaml").write_text(CONFIG.replace("repeat: 2", "repeat: 3"))
    assert (
        b"sources.one.transforms"
        in volt_stream("run stream.yaml --from-state s.json", status=1).stderr
    )
    assert (
        b"cannot be read" in volt_stream("run stream.yaml --from-state none.json", status=1).stderr
    )
    assert b"--resume needs" in volt_stream("run stream.yaml --resume", status=2).stderr
    (stream_folder / "stream.yaml").write_text(CONFIG.replace("0.3", "0.4"))
    command, state = ["run", "stream.yaml", "--limit", 5], (stream_folder / "s.json").read_bytes()
    assert (
        b"--accept needs --from-state or --resume"
        in volt_stream(*command, "--accept", "weights", status=2).stderr
    )
    for options in (["--from-state", "s.json"], ["--state", "s.json", "--resume"]):
        assert b"or pass --accept weights" in volt_stream(*command, *options, status=1).stderr
        accepted = volt_stream(*command, *options, "--accept", "weights").stderr
        assert b"accepted: changed weights from line 5 on\n" in accepted
        (stream_folder / "s.json").write_bytes(state)


@pytest.mark.parametrize("ack", [None, "", "0", "9", "20"])
@pytest.mark.parametrize("from_state", [None, "base.json", "../{}/own.json"])
def test_options_of_positions_combine(volt_stream, stream_folder, from_state, ack):
    """--resume prefers --state to --from-state; --ack skips used lines; --force starts at
    line 0."""
    for name, n in (("base.json", 7), ("own.json", 12)):
        volt_stream("run stream.yaml --limit", n, "--state", name, "-q")
    own, lines = (stream_folder / "own.json").read_bytes(), expected(25)
    if ack:
        (stream_folder / "ack").write_text(f"{ack}\n")
    begun = None if from_state is None else from_state.format(stream_folder.name)
    options = ["--from-state", begun] * (begun is not None) + ["--ack", "ack"] * (ack is not None)
    for state, is_resumed in product(("own.json", "new.json"), (False, True)):
        (stream_folder / "own.json").write_bytes(own)
        (stream_folder / "new.json").unlink(missing_ok=True)
        command = [
            "run",
            "stream.yaml",
            "--limit",
            5,
            "-q",
            "--state",
            state,
            *options,
            *["--resume"] * is_resumed,
        ]
        begins_anew = not (from_state or is_resumed)
        if state == "own.json" and not is_resumed and from_state in (None, "base.json"):
            assert (
                b"contains the position of an earlier run, after line 12"
                in volt_stream(*command, status=2).stderr
            )
            command.append("--force")
        if begins_anew and int(ack or 0):
            assert b"lines are reported as used, but" in volt_stream(*command, status=1).stderr
        else:
            first = (
                12
                if (state == "own.json" and is_resumed)
                else {None: 0, "base.json": 7}.get(from_state, 12)
            )
            first = max(first, int(ack or 0))
            assert volt_stream(*command).lines == lines[first : first + 5]
            assert load_state(state)["n"] == (first + 5 if ack is None else first)


def test_a_word_that_cannot_be_true_is_refused(volt_stream, stream_folder):
    """More used lines than written ones are refused, and so is the number of another run."""
    (stream_folder / "ack").write_text("90\n")
    assert (
        b"continue with --resume"
        in volt_stream("run stream.yaml --ack ack --limit", 5, status=1).stderr
    )
    (stream_folder / "stream.yaml").write_text("sources: {one: {path: one.tsv, epochs: 1}}")
    (stream_folder / "ack").write_text("9000\n")
    assert (
        b"the stream has 200" in volt_stream("run stream.yaml --ack ack --resume", status=1).stderr
    )
    assert b"descriptor is not open" in volt_stream("run stream.yaml --ack 99", status=2).stderr


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.campaign), signal.SIGTERM]
)
def test_a_signal_ends_the_run_at_a_line_with_its_state(start_stream, volt_stream, number):
    """At any moment, even if nobody reads, a signal leaves whole lines and their state."""
    process = start_stream("run stream.yaml --state s.json --state-every", 40)
    found = read_lines(process, 30)  # then the pipe fills
    process.send_signal(number)
    wait_for(lambda: process.poll() is not None)  # though nobody reads
    assert process.returncode == 128 + number
    done = finish(process)
    assert done.stdout.endswith(b"\n")
    found += done.lines
    assert (
        f"stopped by {signal.Signals(number).name} after line {len(found):,}"
        in done.stderr.decode()
    )
    assert load_state("s.json")["n"] == len(found)
    found += volt_stream("run stream.yaml --from-state s.json --limit", 50, "-q").lines
    assert found == expected(len(found))


@pytest.mark.parametrize(
    ("number", "n_workers"),
    [
        (signal.SIGINT, 0),
        (signal.SIGTERM, 1),
        pytest.param(signal.SIGINT, 1, marks=pytest.mark.campaign),
        pytest.param(signal.SIGTERM, 0, marks=pytest.mark.campaign),
    ],
)
def test_a_signal_ends_the_run_though_a_transform_never_does(
    start_stream, stream_folder, number, n_workers
):
    """A signal ends a run while lines are computed; the state follows the last written line."""
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
    options = ["--state", "s.json", "--summary", "m.json", "--workers", n_workers]
    process = start_stream("run stream.yaml", *options)
    lines = read_lines(process, 30)
    wait_for((stream_folder / "here").exists)
    process.send_signal(number)
    done = finish(process)
    assert process.returncode == 128 + number
    assert lines + done.lines == [str(n) for n in range(30)]
    assert f"stopped by {signal.Signals(number).name} after line 30" in done.stderr.decode()
    assert load_state("s.json")["n"] == 30
    assert (stream_folder / "m.json").exists()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.campaign)]
)
def test_a_signal_before_the_first_line_is_obeyed_at_once(start_stream, stream_folder, number):
    """While sources are opened, a signal ends the run without a state."""
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


def test_killed_it_goes_on_behind_what_was_used(start_stream, volt_stream, stream_folder):
    """After SIGKILL, a run with --ack neither loses nor repeats a used line."""
    command = [
        "run",
        "stream.yaml",
        "--state",
        "s.json",
        "--state-every",
        10,
        "--ack",
        "ack",
        "--resume",
    ]
    used: list[str] = []
    for n in (13, 1, 77) if DRAWS_ALL else (13,):
        process = start_stream(*command, "--workers", 1)
        used += read_lines(process, n)
        (stream_folder / "ack.new").write_text(f"{len(used)}\n")
        os.replace(stream_folder / "ack.new", stream_folder / "ack")
        process.kill()
        process.wait(DEADLINE)
    used += volt_stream(*command, "--limit", 20, "-q").lines
    assert used == expected(len(used))


def test_acknowledgements_on_a_descriptor(start_stream, volt_stream, stream_folder):
    """Numbers written to a pipe, even in pieces, move the saved state soon."""
    reader, writer = os.pipe()
    try:
        process = start_stream("run stream.yaml --state s.json --ack", reader, pass_fds=[reader])
        used = read_lines(process, 200)
        for message in (b"7\n1", b"0\n15", b"0\n"):
            os.write(writer, message)
        wait_for(lambda: load_state(stream_folder / "s.json")["n"] == 150)
        process.kill()
        process.wait(DEADLINE)
    finally:
        os.close(reader)
        os.close(writer)
    rest = volt_stream("run stream.yaml --from-state s.json --limit", 80, "-q").lines
    assert used[:150] + rest == expected(230)


@pytest.mark.slow
@pytest.mark.campaign
def test_stopped_anywhere_it_is_one_stream(start_stream, stream_folder):
    """Runs that signals stop at random, with other numbers of workers, concatenate to one run."""
    found: list[str] = []
    for turn in range(6):  # each signal meets two numbers of workers
        number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[turn // 2]
        command = [
            "run",
            "stream.yaml",
            "--state",
            "s.json",
            "--state-every",
            1 + 2 * turn,
            "--resume",
        ]
        process = start_stream(*command, "--workers", turn % 3, start_new_session=True)
        found += read_lines(process, 1 + 37 * turn % 101)
        if (
            number == signal.SIGHUP
        ):  # a terminal that is closed tells all of its processes, and perhaps twice
            os.killpg(process.pid, number)
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        done = finish(process)
        assert process.returncode == 128 + number, done.stderr.decode()
        found += done.lines
    assert found == expected(len(found))
    assert load_state("s.json")["n"] == len(found)


ONE = ("run", "stream.yaml", "--limit", 5, "-q", "--state", "s.json", "--force")


def test_ranks_do_not_write_over_each_other(volt_stream):
    """A rank refuses to replace the state of another rank before it writes a line."""
    for _ in range(2):
        volt_stream(*ONE, "--rank", 0, "--world", 2)
    before = load_state("s.json")
    done = volt_stream(*ONE, "--rank", 1, "--world", 2, status=1)
    assert (
        b"s.json: is the state of rank 0 of 2, but this is rank 1; give each rank its own file"
        in done.stderr
    )
    assert done.lines == []
    assert load_state("s.json") == before


def test_ranks_are_reported_by_the_environment(volt_stream, monkeypatch):
    """Ranks from MPI's variables do not share a state file either."""
    for rank, status in ((1, 0), (0, 1)):
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(rank))
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
        volt_stream(*ONE, status=status)
    assert load_state("s.json")["configuration"]["rank"] == 1


def test_other_files_are_replaced(volt_stream, tmp_path):
    """States of another world or of a single run are replaced, and so are files that are not
    states."""
    path = tmp_path / "s.json"
    for n_bytes in (None, 0, 7):
        if n_bytes is not None:
            path.write_bytes(b"x" * n_bytes)
        check_own(path, 1, 2)
    volt_stream(
        "run stream.yaml --limit",
        5,
        "-q",
        "--force",
        "--state",
        path,
        "--rank",
        0,
        "--world",
        2,
    )
    check_own(path, 0, 2)
    check_own(path, 1, 3)
    check_own(path, 0, 1)
    with pytest.raises(StreamError, match="is the state of rank 0 of 2, but this is rank 1"):
        check_own(path, 1, 2)
    save_state(load_state(path), path)  # whoever means to may


def test_skipping_is_said(volt_stream, stream_folder, monkeypatch):
    """Skipping used lines is reported on stderr, except with -q; the lines are equal."""
    monkeypatch.setattr("volt_cli.stream.positions._SKIP_LINES", 7)
    (stream_folder / "ack").write_text("90\n")
    command = ["run", "stream.yaml", "--limit", 5, "--resume", "--ack", "ack"]
    done, quiet = volt_stream(*command), volt_stream(*command, "-q")
    assert done.lines == quiet.lines == expected(95)[90:]
    assert b"--ack: skipping from line 0 to line 90, up to which" in done.stderr
    assert quiet.stderr == b""
