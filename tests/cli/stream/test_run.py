"""`volt stream run`: lines on stdout, reports on stderr, and refused options."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import time
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import Done, status_of
from support.stream_commands import CONFIG, DEADLINE, expected, finish, read_lines

from volt.errors import StreamError
from volt.stream.config.sources import shares
from volt.stream.example_streams import RECIPES
from volt.stream.running.checkpoint import load_state
from volt_cli.stream.positions import Consumer


def test_run_writes_the_streams_lines(volt_stream):
    """stdout has the lines that Python gives, up to --limit; stderr has the metrics."""
    done = volt_stream("run stream.yaml --limit", 500, "--json")
    assert done.lines == expected(500)
    metrics = json.loads(done.stderr)
    assert metrics["n"] == metrics["n_written"] == 500
    assert metrics["sources"]["one"]["lines"] + metrics["sources"]["two"]["lines"] == 500
    assert volt_stream("run stream.yaml --limit", 500, "--workers", 1, "-q") == Done(
        done.stdout, b""
    )
    assert volt_stream("run stream.yaml --limit", 0, "-q") == Done(b"", b"")
    other = volt_stream("run stream.yaml --limit", 50, "--seed", 0, "-q")
    assert other.lines == expected(50, seed=0) != expected(50)


def test_a_run_ends_with_a_sentence(volt_stream, stream_folder):
    """The report states lines, speed, sources, unfit lines, and the end of the stream."""
    message = volt_stream("run stream.yaml --limit", 300).stderr.decode()
    assert re.fullmatch(
        r"300 lines, in [\d.]+ s \([\d,]+ per second\); one \d+, two \d+\n", message
    )
    (stream_folder / "few.tsv").write_text("a\tb\nc\nd\te\n")
    few = "sources: {few: {path: few.tsv, epochs: 1, min_fields: 2}}\nerrors: {on_fault: skip}\n"
    (stream_folder / "few.yaml").write_text(few)
    message = volt_stream("run few.yaml --state s.json").stderr.decode()
    assert re.fullmatch(
        r"2 lines, in .* second\); 1 of 3 lines read are unfit \(columns 1\); the stream has ended\n",
        message,
    )
    message = volt_stream(
        "run few.yaml --limit", 0, "--state", "s.json", "--resume"
    ).stderr.decode()
    assert message == "0 lines, 2 over all runs; 1 of 3 lines read are unfit (columns 1)\n"


def test_stdout_is_for_the_lines(volt_stream, stream_folder):
    """Output of user functions and of programs that they start goes to stderr; forks end."""
    (stream_folder / "loud.py").write_text(
        "import os, subprocess\n"
        "def loud(fields):\n    print('P')\n    os.write(1, b'W\\n')\n    subprocess.run(['echo', 'E'])\n"
        "    return fields\n"
        "def forks(fields):\n    os.fork()\n    return fields\n"
    )
    config = "sources: {{two: {{path: two.tsv.gz, epochs: 1, transforms: [user: {{file: loud.py, function: {}}}]}}}}"
    (stream_folder / "few.tsv").write_text("a\nb\nc\n")
    for function, n_workers in (("loud", 0), ("loud", 1), ("forks", 0)):
        (stream_folder / "loud.yaml").write_text(
            config.format(function).replace("two.tsv.gz", "few.tsv")
        )
        done = volt_stream("run loud.yaml -q --workers", n_workers)
        assert sorted(done.lines) == ["a", "b", "c"]
        if function == "loud":
            assert sorted(done.stderr.split()) == sorted(b"P W E".split() * 3)


def test_summary_is_a_file_too(volt_stream, stream_folder):
    """--summary writes the metrics as JSON."""
    volt_stream("run stream.yaml --limit", 10, "--summary", "summary.json", "-q")
    assert json.loads((stream_folder / "summary.json").read_bytes())["n_written"] == 10


def test_some_lines_are_shown_and_kept(volt_stream, stream_folder):
    """--log-every shows the first five lines and every Nth; --sample writes them to a file."""
    options = ["--log-every", 20, "--sample", "sample.tsv", "--state", "s.json", "-q"]
    done = volt_stream("run stream.yaml --limit", 43, *options)
    lines = expected(43)
    assert done.lines == lines
    shown = [0, 1, 2, 3, 4, 19, 39]
    assert (stream_folder / "sample.tsv").read_text().splitlines() == [lines[n] for n in shown]
    message = done.stderr.decode().splitlines()
    assert [row.partition(" (")[0] for row in message] == [f"line {n}" for n in shown]
    for number, row in zip(shown, message, strict=True):
        found = json.loads(volt_stream("trace stream.yaml", number, "--json").stdout)
        place = f"block at {found['start']}, chunk {found['chunk']}, place {found['offset']}"
        assert f"({found['source']}, epoch {found['epoch']}, {place}): " in row
    done = volt_stream("run stream.yaml --limit", 18, *options, "--resume")
    assert (done.lines, done.stderr.count(b"\n")) == ((lines := expected(61))[43:], 1)
    assert (stream_folder / "sample.tsv").read_text() == f"{lines[59]}\n"
    (stream_folder / "stream.yaml").write_text("sources: {one: {path: one.tsv, epochs: 1}}")
    done = volt_stream("run stream.yaml --log-every", 100)
    assert len(done.lines) == 200
    assert b"line 199 (one" in done.stderr
    assert (
        b"--sample needs --log-every" in volt_stream("run stream.yaml --sample x", status=2).stderr
    )
    again = volt_stream("run stream.yaml --log-every", 9, "--sample", "one.tsv", status=2).stderr
    assert b"one.tsv" in again


def test_a_stream_that_ends(volt_stream, stream_folder):
    """A stream with epochs ends after every line was given once."""
    (stream_folder / "stream.yaml").write_text(
        "sources: {one: {path: one.tsv, epochs: 1, block_lines: 30}}"
    )
    done = volt_stream("run stream.yaml --state s.json -q")
    assert sorted(done.lines) == sorted((stream_folder / "one.tsv").read_text().splitlines())
    assert volt_stream("run stream.yaml --from-state s.json -q").stdout == b""


def test_rank_and_world_from_arguments_and_launchers(volt_stream, stream_folder, monkeypatch):
    """The ranks' lines form an epoch, with options or variables of torchrun, Slurm and MPI."""
    (stream_folder / "stream.yaml").write_text(
        "sources: {one: {path: one.tsv, epochs: 1, block_lines: 30}}"
    )
    ranks = [volt_stream("run stream.yaml -q --rank", rank, "--world", 2) for rank in (0, 1)]
    assert sorted(ranks[0].lines + ranks[1].lines) == sorted(
        (stream_folder / "one.tsv").read_text().splitlines()
    )
    for names in (
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("PMI_RANK", "PMI_SIZE"),
    ):
        with monkeypatch.context() as environment:
            environment.setenv(names[0], "1")
            environment.setenv(names[1], "2")
            assert volt_stream("run stream.yaml -q") == ranks[1]
    assert b"work only together" in volt_stream("run stream.yaml --rank", 1, status=2).stderr


# Readers, disks and workers


def test_metrics_when_asked(start_stream):
    """SIGUSR1 prints the metrics on stderr, and the run continues."""
    process = start_stream("run stream.yaml --json")
    found = read_lines(process, 10)
    process.send_signal(signal.SIGUSR1)
    assert process.stderr is not None
    metrics = json.loads(process.stderr.readline())
    assert metrics["n_written"] >= 10
    assert set(metrics["sources"]) == {"one", "two"}
    found += read_lines(process, 10)
    assert found == expected(20)


def test_a_reader_that_has_had_enough(start_stream):
    """A closed pipe ends the run silently, with its state."""
    process = start_stream("run stream.yaml --state s.json -q")
    read_lines(process, 3)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(DEADLINE) == 0
    assert process.stderr.read() == b""
    assert load_state("s.json")["n"] >= 3


def test_only_written_lines_are_reported(start_stream):
    """If the reader closes the pipe within a block, the lines of the sources sum to the written
    ones."""
    process = start_stream("run stream.yaml")
    read_lines(process, 3)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(DEADLINE) == 0
    message = re.fullmatch(
        r"([\d,]+) lines, .*; \w+ ([\d,]+), \w+ ([\d,]+)\n", process.stderr.read().decode()
    )
    assert message is not None
    n, *parts = (int(number.replace(",", "")) for number in message.groups())
    assert n == sum(parts) >= 3


def test_a_full_disk_is_reported(start_stream, volt_stream):
    """A full disk of stdout or of the state is an error; the state follows the last written
    line."""
    with open("/dev/full", "wb") as full:
        process = start_stream("run stream.yaml --state s.json", stdout=full)
        _, stderr = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "stdout: no space left on device after line 0" in stderr.decode()
    assert load_state("s.json")["n"] == 0
    done = volt_stream("run stream.yaml --state nowhere/s.json", status=1)
    assert b"nowhere/s.json: cannot be written" in done.stderr


def test_what_is_closed_is_reported_in_one_line(start_stream):
    """A closed stdout is an error; with a closed stderr, lines are written."""
    process = start_stream("run stream.yaml --limit", 5, preexec_fn=lambda: os.close(1))
    done = finish(process)
    assert (process.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"stdout is closed, but the lines go there" in done.stderr
    process = start_stream("run stream.yaml --limit", 5, preexec_fn=lambda: os.close(2))
    assert finish(process) == Done("".join(f"{line}\n" for line in expected(5)).encode(), b"")
    assert process.returncode == 0


def test_a_slow_reader_loses_nothing(start_stream):
    """A late reader that reads small pieces gets equal lines."""
    process = start_stream("run stream.yaml --limit", 3000, "-q")
    assert process.stdout is not None
    time.sleep(0.3)
    data = b""
    while piece := process.stdout.read(997):
        data += piece
    assert process.wait(DEADLINE) == 0
    assert data.decode().split("\n")[:-1] == expected(3000)


def test_a_line_at_fault_ends_the_run_with_its_place_and_a_state(volt_stream, stream_folder):
    """The error names file and line, and earlier lines are written; `skip` continues and counts."""
    (stream_folder / "one.tsv").write_text("".join(f"{n}\n" for n in range(90)) + "bad\n")
    (stream_folder / "mine.py").write_text(
        "def double(fields):\n    return [str(2 * int(fields[0]))]\n"
    )
    config = """\
sources:
  one:
    path: one.tsv
    epochs: 1
    shuffle: none
    block_lines: 40
    transforms: [user: {file: mine.py, function: double}]
"""
    (stream_folder / "stream.yaml").write_text(config)
    done = volt_stream("run stream.yaml --state s.json", status=1)
    assert done.lines == [str(2 * n) for n in range(80)]
    assert "one.tsv:91: user: double: ValueError" in done.stderr.decode()
    assert load_state("s.json")["n"] == 80
    (stream_folder / "stream.yaml").write_text(config + "errors: {on_fault: skip}\n")
    done = volt_stream("run stream.yaml --state s.json --force --json")
    assert done.lines == [str(2 * n) for n in range(90)]
    assert json.loads(done.stderr)["n_faults"] == 1


def test_faults_of_a_configuration_are_usage_errors(volt_stream, stream_folder):
    """The status is 2, with file and line; stdout is empty."""
    (stream_folder / "stream.yaml").write_text(
        CONFIG.replace("weight:", "wieght:", 1).replace("regex", "regx")
    )
    done = volt_stream("run stream.yaml", status=2)
    assert done.stdout == b""
    message = done.stderr.decode()
    assert (
        "stream.yaml:7: sources.one.transforms[1]: unknown transform 'regx'; did you mean regex?"
        in message
    )
    assert b"--workers" in volt_stream("run stream.yaml --workers", 1_000_000_000, status=2).stderr
    for line in ("run --limit -1", "run --state-every 0", "preview -n 0", "preview --from -1"):
        volt_stream(*line.split(), "stream.yaml", status=2)


# The other commands


def test_trace_finds_the_line_in_its_file(volt_stream, stream_folder):
    """The file has the traced line at the printed place; the text is the stream's line."""
    texts = {
        "one": (stream_folder / "one.tsv").read_text().splitlines(),
        "two": gzip.decompress((stream_folder / "two.tsv.gz").read_bytes()).decode().splitlines(),
    }
    for n, line in zip((0, 17, 640), [expected(641)[n] for n in (0, 17, 640)], strict=True):
        found = json.loads(volt_stream("trace stream.yaml", n, "--json").stdout)
        assert found["text"] == line
        assert texts[found["source"]][found["line"] - 1] == found["raw"]
        assert line.lower().removeprefix("[bt] ") == found["raw"]
    assert b"line 17" in volt_stream("trace stream.yaml", 17).stdout
    assert b"numbered from 0" in volt_stream("trace stream.yaml --", -1, status=2).stderr


def test_plan_counts_epochs_and_holds_speed_against_demand(volt_stream):
    """The planned lines of all sources sum to N; a stream slower than --demand fails."""
    found = json.loads(volt_stream("plan stream.yaml --at 1e4 --seconds", 0.2, "--json").stdout)
    assert sum(part["lines"] for part in found["sources"].values()) == pytest.approx(10_000)
    two = found["sources"]["two"]
    assert two["epochs"] == pytest.approx(two["lines"] / 300)
    assert found["lines_per_second"] > 0
    table = volt_stream("plan stream.yaml --seconds", 0.2, "--demand", 1e12, status=1)
    assert b"fewer than --demand 1,000,000,000,000" in table.stderr
    assert b"memory for data" in table.stdout
    assert b"is not a number of lines" in volt_stream("plan stream.yaml --at soon", status=2).stderr


def test_audit_proves_cover_and_shares(volt_stream):
    """The audit finds every line once per epoch, for any world, and compares the content."""
    found = json.loads(
        volt_stream("audit stream.yaml --epochs", 3, "--content", "--world", 3, "--json").stdout
    )
    assert found["exact"] is True
    assert [source["content"] for source in found["sources"]] == [True, True]
    message = volt_stream("audit stream.yaml --turns 1e4")
    assert b"not read" in message.stdout
    assert b"exact: every line once per epoch" in message.stderr


def test_schema_documents(volt_stream):
    """The text names every key or one transform; --json prints a JSON schema."""
    assert b"block_lines: whole number" in volt_stream("schema").stdout
    assert (
        json.loads(volt_stream("schema --json").stdout)["$defs"]["tag"]["properties"]["text"][
            "type"
        ]
        == "string"
    )
    assert volt_stream("schema tag copy").stdout.startswith(b"tag \xe2\x80\x94 Put a tag")
    assert b"did you mean lower" in volt_stream("schema lwoer", status=2).stderr


def test_the_cache_is_reported_and_pruned(volt_stream, stream_folder):
    """The size is printed; --prune removes files not used for --days, which can be created
    again."""
    first = volt_stream("run stream.yaml --limit", 20, "-q")
    found = json.loads(volt_stream("cache --json").stdout)
    assert found["folder"] == str(stream_folder / "cache" / "volt" / "stream")
    assert found["bytes"] > 0
    assert json.loads(volt_stream("cache --prune --json").stdout) == found
    pruned = json.loads(volt_stream("cache --prune --days", 0, "--json").stdout)
    assert (pruned["freed"], pruned["bytes"]) == (found["bytes"], 0)
    assert b"0.0 MB, and 0.0 MB were removed" in volt_stream("cache nowhere --prune").stderr
    assert volt_stream("run stream.yaml --limit", 20, "-q") == first
    assert b"needs --prune" in volt_stream("cache --days", 3, status=2).stderr


def test_states_of_ranks_are_merged(volt_stream, stream_folder):
    """A merged state of two ranks continues with the lines that neither has given."""
    (stream_folder / "stream.yaml").write_text(
        "sources: {one: {path: one.tsv, epochs: 1, block_lines: 30}}"
    )
    lines = list[str]()
    for rank in (0, 1):
        options = ["--rank", rank, "--world", 2, "--state", f"{rank}.json", "-q"]
        lines += volt_stream("run stream.yaml --limit", 10 + 30 * rank, *options).lines
    assert b"2 states, 50 lines" in volt_stream("merge-states 0.json 1.json -o m.json").stderr
    lines += volt_stream("run stream.yaml --from-state m.json -q").lines
    assert sorted(lines) == sorted((stream_folder / "one.tsv").read_text().splitlines())
    assert json.loads(volt_stream("merge-states 0.json 1.json -o -").stdout)["n"] == 50
    volt_stream("merge-states 0.json 1.json -o 0.json", status=2)


def test_examples_are_listed_and_run(volt_stream, stream_folder):
    """Every listed example can be written and run."""
    listed = [row.split()[0] for row in volt_stream("example").lines]
    assert listed == list(RECIPES)
    for name in listed:
        volt_stream("example", name, "-o", stream_folder / "ex" / name)
        assert (
            len(
                volt_stream(
                    "run", stream_folder / "ex" / name / "stream.yaml", "--limit", 300, "-q"
                ).lines
            )
            == 300
        )
    assert (
        b"exists; choose another folder"
        in volt_stream("example mixing -o ex/mixing", status=1).stderr
    )
    assert b"did you mean mixing" in volt_stream("example mixin", status=2).stderr


def test_preview_shows_every_step(volt_stream):
    """preview prints the place of each line, its text, and the text after each transform."""
    message = volt_stream("preview stream.yaml -n", 12).stdout.decode()
    lines = expected(12)
    assert [row.split()[1] for row in message.split("\n") if row.startswith("line ")] == [
        str(n) for n in range(12)
    ]
    for line in lines:
        assert line.replace("\t", "  ⇥  ") in message
    assert "repeat" in message
    assert "as it was" in message
    assert "as it was" not in volt_stream("preview stream.yaml --changed").stdout.decode()
    later = volt_stream("preview stream.yaml -n", 1, "--from", 11).stdout.decode()
    assert lines[11].replace("\t", "  ⇥  ") in later
    volt_stream("preview stream.yaml -n", 0, status=2)


@contextmanager
def stdout_to(path):
    """Redirect descriptor 1 to the end of a file, as `>>` does."""
    saved = os.dup(1)
    with path.open("ab") as file:
        try:
            os.dup2(file.fileno(), 1)
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def test_lines_are_not_written_into_their_source(stream_folder, capfd):
    """stdout must not be a file that the stream reads; other files may grow."""
    for name in ("one.tsv", "two.tsv.gz", "stream.yaml"):
        before = (stream_folder / name).read_bytes()
        with stdout_to(stream_folder / name):
            assert status_of(["stream", "run", "stream.yaml", "--limit", 3, "-q"]) == 2
        assert f"{name}, which is read; choose another place" in capfd.readouterr().err
        assert (stream_folder / name).read_bytes() == before
    with stdout_to(stream_folder / "out"):
        assert status_of(["stream", "run", "stream.yaml", "--limit", 3, "-q"]) == 0
    assert (stream_folder / "out").read_bytes().count(b"\n") == 3


@pytest.mark.parametrize(
    "message", ["abc", "-5", "12 13", "7\nline 39999\n", "a0\tline 0\na1\tline 1\n"]
)
def test_a_consumer_that_writes_no_number_is_refused(tmp_path, message):
    """A report of used lines that is not a number is an error."""
    (tmp_path / "ack").write_text(message)
    with pytest.raises(
        StreamError, match=r"ack: '.*' is not a number of lines; write how many lines are used"
    ):
        Consumer(str(tmp_path / "ack")).read_n_used()


@pytest.mark.parametrize(
    ("message", "used"), [("", None), (" \n", None), ("12\n", 12), ("12\n15", 15), (" 7 ", 7)]
)
def test_a_consumer_counts_in_a_file(tmp_path, message, used):
    """The last line of the file counts; an empty file reports nothing."""
    (tmp_path / "ack").write_text(message)
    assert Consumer(str(tmp_path / "ack")).read_n_used() == used


@given(
    st.lists(st.integers(0, 2000), max_size=6).map(sorted),
    st.sampled_from(["", "7"]),
    st.sets(st.integers(1, 30)),
)
def test_a_consumer_counts_on_a_descriptor(numbers, rest, cuts):
    """The last whole line counts, however the numbers are split into reads."""
    data = "".join(f"{number}\n" for number in numbers) + rest
    reader, writer = os.pipe()
    try:
        consumer = Consumer(str(reader))
        for start, end in pairwise(
            [0, *sorted({cut for cut in cuts if cut < len(data)} | {len(data)})]
        ):
            if end:
                os.write(writer, data[start:end].encode())
                assert consumer.receive()
            assert (consumer.read_n_used() or 0) == int(["0", *data[:end].split("\n")][-2])
    finally:
        os.close(writer)
        assert not consumer.receive()
        os.close(reader)


@pytest.mark.parametrize("temperature", [0.5, 1, 2, 5, 1e9])
def test_shares_are_those_of_the_formula(temperature):
    """size ^ (1 / temperature), normalised."""
    sizes = [1000, 100, 10]
    powers = [size ** (1 / temperature) for size in sizes]
    assert shares(sizes, temperature=temperature) == pytest.approx(
        [power / sum(powers) for power in powers]
    )


def test_a_temperature_that_leaves_a_source_nothing_is_refused(volt_stream, stream_folder):
    """However small it is: a source that never comes is not left out in silence."""
    assert shares([1 << 40, 1], temperature=1e-300) == [1, 0]
    (stream_folder / "a.txt").write_text("line\n" * 1000)
    (stream_folder / "b.txt").write_text("line\n")
    (stream_folder / "each.yaml").write_text("each: {path: '*.txt', temperature: 1e-3}\n")
    found = volt_stream("run each.yaml --limit", 3, "-q", status=2).stderr
    assert b"each.yaml:1: each.temperature: 0.001 leaves nothing to " in found
    assert b"b.txt; raise it" in found


def test_a_module_that_is_missing_is_to_be_installed(volt_stream, stream_folder):
    """As where word alignments need a library that is not there: its name, the place and what to do are reported."""
    (stream_folder / "align.py").write_text("def align(fields):\n    import no_such_aligner\n")
    step = "user: {file: align.py, function: align}"
    (stream_folder / "u.yaml").write_text(
        f"sources: {{s: {{path: one.tsv, transforms: [{step}]}}}}\n"
    )
    found = volt_stream("run u.yaml --limit", 3, "-q", status=1).stderr
    assert b"No module named 'no_such_aligner'" in found
    assert b"align.py:2); install the module" in found
