"""`volt stream run`: lines on stdout, reports on stderr, and refused options."""

import json
import os
import re
import time
from contextlib import contextmanager

import pytest
from support.commands import Done, status_of
from support.stream_commands import CONFIG, DEADLINE, expected, finish, read_lines

from volt.stream.mixing.mixture import temperature_shares
from volt.stream.running.checkpoint import load_state

ONE_EPOCH = "sources: {one: {path: one.tsv, epochs: 1, block_lines: 30}}"


def test_run_writes_the_lines_of_python(volt_stream):
    """`volt stream run` writes the lines that `Stream` yields, up to --limit, and reports metrics
    on stderr."""
    done = volt_stream("run stream.yaml --limit 500 --json")
    assert done.lines == expected(500)
    metrics = json.loads(done.stderr)
    assert metrics["n"] == metrics["n_written"] == 500
    assert metrics["sources"]["one"]["lines"] + metrics["sources"]["two"]["lines"] == 500
    with_worker = volt_stream("run stream.yaml --limit 500 --workers 1 -q")
    assert with_worker == Done(done.stdout, b"")
    assert volt_stream("run stream.yaml --limit 0 -q") == Done(b"", b"")
    other = volt_stream("run stream.yaml --limit 50 --seed 0 -q")
    assert other.lines == expected(50, seed=0) != expected(50)


def test_a_run_ends_with_a_sentence(volt_stream, stream_folder):
    """The report of a run states lines, speed, sources, unfit lines, and the end of the stream."""
    message = volt_stream("run stream.yaml --limit 300").message
    pattern = r"300 lines, in [\d.]+ s \([\d,]+ per second\); one \d+, two \d+\n"
    assert re.fullmatch(pattern, message)
    (stream_folder / "few.tsv").write_text("a\tb\nc\nd\te\n")
    (stream_folder / "few.yaml").write_text(
        "sources: {few: {path: few.tsv, epochs: 1, min_fields: 2}}\nerrors: {on_fault: skip}\n"
    )
    message = volt_stream("run few.yaml --state s.json").message
    unfit = r"1 of 3 lines read are unfit \(columns 1\)"
    assert re.fullmatch(rf"2 lines, in .* second\); {unfit}; the stream has ended\n", message)
    message = volt_stream("run few.yaml --limit 0 --state s.json --resume").message
    assert re.fullmatch(rf"0 lines, 2 over all runs; {unfit}\n", message)


def test_stdout_contains_only_lines(volt_stream, stream_folder):
    """Text that a user function, or a program that it starts, prints goes to stderr; its forks write
    nothing."""
    (stream_folder / "loud.py").write_text("""\
import os, subprocess
def loud(fields):
    print('P')
    os.write(1, b'W\\n')
    subprocess.run(['echo', 'E'])
    return fields
def forks(fields):
    os.fork()
    return fields
""")
    (stream_folder / "few.tsv").write_text("a\nb\nc\n")
    for function, n_workers in (("loud", 0), ("loud", 1), ("forks", 0)):
        step = f"user: {{file: loud.py, function: {function}}}"
        (stream_folder / "loud.yaml").write_text(
            f"sources: {{few: {{path: few.tsv, epochs: 1, transforms: [{step}]}}}}"
        )
        done = volt_stream(f"run loud.yaml -q --workers {n_workers}")
        assert sorted(done.lines) == ["a", "b", "c"]
        if function == "loud":
            assert sorted(done.stderr.split()) == sorted(b"P W E".split() * 3)


def test_summary_writes_the_metrics(volt_stream, stream_folder):
    """--summary writes the metrics of a run as JSON."""
    volt_stream("run stream.yaml --limit 10 --summary summary.json -q")
    assert json.loads((stream_folder / "summary.json").read_bytes())["n_written"] == 10


def test_log_every_shows_lines_with_their_place(volt_stream, stream_folder):
    """--log-every N shows the first five lines and every Nth with their place; --sample writes them
    to a file."""
    command = "run stream.yaml --log-every 20 --sample sample.tsv --state s.json -q"
    done = volt_stream(f"{command} --limit 43")
    lines = expected(61)
    assert done.lines == lines[:43]
    logged = [0, 1, 2, 3, 4, 19, 39]
    assert (stream_folder / "sample.tsv").read_text().splitlines() == [lines[n] for n in logged]
    rows = done.message.splitlines()
    assert [row.partition(" (")[0] for row in rows] == [f"line {n}" for n in logged]
    for number, row in zip(logged, rows, strict=True):
        trace = json.loads(volt_stream(f"trace stream.yaml {number} --json").stdout)
        place = f"block at {trace['start']}, chunk {trace['chunk']}, place {trace['offset']}"
        assert f"({trace['source']}, epoch {trace['epoch']}, {place}): " in row
    done = volt_stream(f"{command} --limit 18 --resume")
    assert (done.lines, done.message.count("\n")) == (lines[43:], 1)
    assert (stream_folder / "sample.tsv").read_text() == f"{lines[59]}\n"
    (stream_folder / "stream.yaml").write_text(ONE_EPOCH)
    done = volt_stream("run stream.yaml --log-every 100")
    assert len(done.lines) == 200
    assert "line 199 (one" in done.message


def test_a_stream_ends_after_its_epochs(volt_stream, stream_folder):
    """A stream of one epoch writes every line once, and then ends."""
    (stream_folder / "stream.yaml").write_text(ONE_EPOCH)
    done = volt_stream("run stream.yaml --state s.json -q")
    assert sorted(done.lines) == sorted((stream_folder / "one.tsv").read_text().splitlines())
    assert volt_stream("run stream.yaml --from-state s.json -q").stdout == b""


def test_launchers_set_the_rank(volt_stream, stream_folder, monkeypatch):
    """--rank and --world, or the variables of torchrun, Slurm and MPI, give each rank its share of
    an epoch."""
    (stream_folder / "stream.yaml").write_text(ONE_EPOCH)
    ranks = [volt_stream(f"run stream.yaml -q --rank {rank} --world 2") for rank in (0, 1)]
    lines = (stream_folder / "one.tsv").read_text().splitlines()
    assert sorted(ranks[0].lines + ranks[1].lines) == sorted(lines)
    for rank_name, world_name in (
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("PMI_RANK", "PMI_SIZE"),
    ):
        with monkeypatch.context() as environment:
            environment.setenv(rank_name, "1")
            environment.setenv(world_name, "2")
            assert volt_stream("run stream.yaml -q") == ranks[1]


def _close_early(process):
    """Close stdout after three lines; return the messages of the process, which ends with 0."""
    read_lines(process, 3)
    process.stdout.close()
    assert process.wait(DEADLINE) == 0
    return process.stderr.read().decode()


def test_a_closed_pipe_ends_a_run_silently(start_stream):
    """If the reader closes the pipe, a run ends with status 0, without a message, and saves its
    state."""
    assert _close_early(start_stream("run stream.yaml --state s.json -q")) == ""
    assert load_state("s.json")["n"] >= 3


def test_a_report_counts_only_written_lines(start_stream):
    """If the reader closes the pipe within a block, the report's lines of the sources sum to the
    written lines."""
    message = _close_early(start_stream("run stream.yaml"))
    report = re.fullmatch(r"([\d,]+) lines, .*; \w+ ([\d,]+), \w+ ([\d,]+)\n", message)
    n, *parts = (int(number.replace(",", "")) for number in report.groups())
    assert n == sum(parts) >= 3


def test_a_full_disk_is_reported(start_stream, volt_stream):
    """A full disk of stdout or of the state ends a run with an error; the state follows the last
    written line."""
    with open("/dev/full", "wb") as full:
        process = start_stream("run stream.yaml --state s.json", stdout=full)
        _, stderr = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert b"stdout: no space left on device after line 0" in stderr
    assert load_state("s.json")["n"] == 0
    done = volt_stream("run stream.yaml --state nowhere/s.json", status=1)
    assert "nowhere/s.json: cannot be written" in done.message


def test_a_closed_stdout_is_an_error(start_stream):
    """A run with a closed stdout ends with one line of error; with a closed stderr, it writes its
    lines."""
    process = start_stream("run stream.yaml --limit 5", preexec_fn=lambda: os.close(1))
    done = finish(process)
    assert (process.returncode, done.message.count("\n")) == (1, 1)
    assert "stdout is closed, but the lines go there" in done.message
    process = start_stream("run stream.yaml --limit 5", preexec_fn=lambda: os.close(2))
    done = finish(process)
    assert (process.returncode, done.lines, done.message) == (0, expected(5), "")


def test_a_slow_reader_loses_nothing(start_stream):
    """A reader that starts late, and reads small pieces, gets all lines."""
    process = start_stream("run stream.yaml --limit 3000 -q")
    time.sleep(0.3)
    data = b""
    while piece := process.stdout.read(997):
        data += piece
    assert process.wait(DEADLINE) == 0
    assert data.decode().split("\n")[:-1] == expected(3000)


def test_an_unfit_line_ends_a_run_with_its_place(volt_stream, stream_folder):
    """The error for an unfit line names file and line, and the state follows the lines before it;
    with on_fault skip, the run continues."""
    (stream_folder / "one.tsv").write_text("".join(f"{n}\n" for n in range(90)) + "bad\n")
    (stream_folder / "mine.py").write_text(
        "def double(fields):\n    return [str(2 * int(fields[0]))]\n"
    )
    step = "user: {file: mine.py, function: double}"
    config = (
        "sources: {one: {path: one.tsv, epochs: 1, shuffle: none, block_lines: 40, "
        f"transforms: [{step}]}}}}\n"
    )
    (stream_folder / "stream.yaml").write_text(config)
    done = volt_stream("run stream.yaml --state s.json", status=1)
    assert done.lines == [str(2 * n) for n in range(80)]
    assert "one.tsv:91: user: double: ValueError" in done.message
    assert load_state("s.json")["n"] == 80
    (stream_folder / "stream.yaml").write_text(config + "errors: {on_fault: skip}\n")
    done = volt_stream("run stream.yaml --state s.json --force --json")
    assert done.lines == [str(2 * n) for n in range(90)]
    assert json.loads(done.stderr)["n_faults"] == 1


def test_faults_of_a_configuration_are_usage_errors(volt_stream, stream_folder):
    """A fault of a configuration ends a run with status 2 and its file and line; stdout is empty."""
    faulty = CONFIG.replace("weight:", "wieght:", 1).replace("regex", "regx")
    (stream_folder / "stream.yaml").write_text(faulty)
    done = volt_stream("run stream.yaml", status=2)
    assert done.stdout == b""
    message = (
        "stream.yaml:7: sources.one.transforms[1]: unknown transform 'regx'; did you mean regex?"
    )
    assert message in done.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("run --workers 1000000000", "--workers"),
        ("run --limit -1", "--limit"),
        ("run --state-every 0", "--state-every"),
        ("run --rank 1", "work only together"),
        ("run --sample x", "--sample needs --log-every"),
        ("run --log-every 9 --sample one.tsv", "one.tsv"),
        ("preview -n 0", "give -n of 1 or more"),
        ("preview --from -1", "--from of 0 or more"),
        ("plan --at soon", "is not a number of lines"),
    ],
)
def test_wrong_numbers_and_files_are_refused(volt_stream, options, message):
    """A wrong number or file of an option ends `volt stream` with status 2, and the error names the
    option."""
    done = volt_stream(f"{options} stream.yaml", status=2)
    assert (message in done.message, done.stdout) == (True, b"")


@contextmanager
def _append_stdout_to(path):
    saved = os.dup(1)
    with path.open("ab") as file:
        try:
            os.dup2(file.fileno(), 1)
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def test_stdout_is_not_a_source(stream_folder, capfd):
    """A run refuses a stdout that is redirected to a file that the stream reads."""
    command = ["stream", "run", "stream.yaml", "--limit", 3, "-q"]
    for name in ("one.tsv", "two.tsv.gz", "stream.yaml"):
        before = (stream_folder / name).read_bytes()
        with _append_stdout_to(stream_folder / name):
            assert status_of(command) == 2
        assert f"{name}, which is read; choose another place" in capfd.readouterr().err
        assert (stream_folder / name).read_bytes() == before
    with _append_stdout_to(stream_folder / "out"):
        assert status_of(command) == 0
    assert (stream_folder / "out").read_bytes().count(b"\n") == 3


@pytest.mark.parametrize("temperature", [0.5, 1, 2, 5, 1e9])
def test_shares_follow_the_temperature(temperature):
    """`temperature_shares` returns size^(1/temperature), divided by the sum over all sources."""
    sizes = [1000, 100, 10]
    powers = [size ** (1 / temperature) for size in sizes]
    expected_shares = [power / sum(powers) for power in powers]
    assert temperature_shares(sizes, temperature=temperature) == pytest.approx(expected_shares)


def test_a_temperature_that_gives_a_source_no_lines_is_refused(volt_stream, stream_folder):
    """The error for a temperature at which a source would never give a line names the source and
    the line of the configuration."""
    assert temperature_shares([1 << 40, 1], temperature=1e-300) == [1, 0]
    (stream_folder / "a.txt").write_text("line\n" * 1000)
    (stream_folder / "b.txt").write_text("line\n")
    (stream_folder / "each.yaml").write_text("each: {path: '*.txt', temperature: 1e-3}\n")
    message = volt_stream("run each.yaml --limit 3 -q", status=2).message
    assert "each.yaml:1: each.temperature: 0.001 leaves nothing to " in message
    assert "b.txt; raise it" in message


def test_a_missing_module_of_a_user_function_is_named(volt_stream, stream_folder):
    """If a user function imports a missing module, the error names the module, the line, and says
    to install it."""
    (stream_folder / "align.py").write_text("def align(fields):\n    import no_such_aligner\n")
    step = "user: {file: align.py, function: align}"
    (stream_folder / "u.yaml").write_text(
        f"sources: {{s: {{path: one.tsv, transforms: [{step}]}}}}\n"
    )
    message = volt_stream("run u.yaml --limit 3 -q", status=1).message
    assert "No module named 'no_such_aligner'" in message
    assert "align.py:2); install the module" in message
