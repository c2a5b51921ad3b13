"""States of `volt stream run`: --state, --from-state, --resume, --force, --accept and --ack."""

import os
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.drawn import DRAWS_ALL
from support.stream_commands import CONFIG, DEADLINE, expected, read_lines, wait_for

from volt.errors import StreamError
from volt.stream.running.checkpoint import check_rank_of_file, load_state, save_state
from volt_cli.stream.positions import Consumer

RUN = "run stream.yaml -q --state s.json"
ONE_EPOCH = "sources: {one: {path: one.tsv, epochs: 1}}"


@pytest.mark.parametrize("limits", [[1, 2, 3], [0, 49, 50, 51], [99, 1, 100], [350]])
def test_runs_that_pass_on_a_state_equal_one_run(volt_stream, limits):
    """Runs of any length, each started from the state of the run before, write the lines of one
    run."""
    lines = volt_stream(f"{RUN} --limit 7").lines
    for limit in limits:
        options = f"--from-state s.json --state-every 13 --limit {limit}"
        lines += volt_stream(f"{RUN} {options}").lines
    assert lines == expected(len(lines))
    assert load_state("s.json")["n"] == len(lines) == 7 + sum(limits)


def test_a_new_run_does_not_replace_an_earlier_position(volt_stream):
    """Without --resume or --force, a run refuses to replace the state of an earlier run."""
    command = f"{RUN} --limit 6"
    first = volt_stream(command)
    state = load_state("s.json")
    refused = volt_stream(command, status=2)
    assert (
        "--state s.json: contains the position of an earlier run, after line 6; add --resume to continue there, or "
        "--force to start from the beginning"
    ) in refused.message
    assert (refused.stdout, load_state("s.json")) == (b"", state)
    assert "give one of them" in volt_stream(f"{command} --resume --force", status=2).message
    assert first.lines + volt_stream(f"{command} --resume").lines == expected(12)
    assert volt_stream(f"{command} --force") == first
    assert load_state("s.json") == state


def test_a_state_before_the_first_line_is_replaced(volt_stream, stream_folder):
    """A run replaces the state of a run without lines, but not a file that is not a state."""
    assert volt_stream(f"{RUN} --limit 0").lines == []
    assert volt_stream(f"{RUN} --limit 3").lines == expected(3)
    (stream_folder / "s.json").write_text('["notes"]')
    refused = volt_stream(f"{RUN} --limit 3", status=2)
    assert "s.json: contains no position" in refused.message
    assert (stream_folder / "s.json").read_text() == '["notes"]'
    assert volt_stream(f"{RUN} --limit 3 --force").lines == expected(3)


def test_a_run_resumed_at_the_end_writes_nothing(volt_stream, stream_folder):
    """A run that resumes at the end of a stream writes no line, and reports the end."""
    (stream_folder / "stream.yaml").write_text(ONE_EPOCH)
    command = "run stream.yaml --state s.json --resume"
    n_lines = len(volt_stream(command).lines)
    again = volt_stream(command)
    assert again.lines == []
    assert f"0 lines, {n_lines} over all runs; the stream has ended" in again.message


def test_a_state_of_another_stream_is_refused(volt_stream, stream_folder):
    """A state of another configuration is refused with the differences; --accept NAME allows some
    differences."""
    volt_stream(f"{RUN} --limit 5")
    command = "run stream.yaml --limit 5"
    (stream_folder / "stream.yaml").write_text(CONFIG.replace("repeat: 2", "repeat: 3"))
    for options, status, message in (
        ("--from-state s.json", 1, "sources.one.transforms"),
        ("--from-state none.json", 1, "cannot be read"),
        ("--resume", 2, "--resume needs"),
        ("--accept weights", 2, "--accept needs --from-state or --resume"),
    ):
        assert message in volt_stream(f"{command} {options}", status=status).message
    (stream_folder / "stream.yaml").write_text(CONFIG.replace("0.3", "0.4"))
    state = (stream_folder / "s.json").read_bytes()
    for options in ("--from-state s.json", "--state s.json --resume"):
        refused = volt_stream(f"{command} {options}", status=1)
        assert "or pass --accept weights" in refused.message
        accepted = volt_stream(f"{command} {options} --accept weights")
        assert "accepted: changed weights from line 5 on\n" in accepted.message
        (stream_folder / "s.json").write_bytes(state)


@pytest.mark.parametrize("ack", [None, "", "0", "9", "20"])
@pytest.mark.parametrize("from_state", [None, "base.json", "../{}/own.json"])
def test_options_choose_the_first_line(volt_stream, stream_folder, from_state, ack):
    """--resume prefers --state to --from-state, --ack skips used lines, and --force starts at line
    0."""
    for name, n in (("base.json", 7), ("own.json", 12)):
        volt_stream(f"run stream.yaml -q --limit {n} --state {name}")
    own_state = (stream_folder / "own.json").read_bytes()
    lines = expected(25)
    n_used = int(ack or 0)
    options = ""
    if from_state:
        options += f" --from-state {from_state.format(stream_folder.name)}"
    if ack is not None:
        options += " --ack ack"
    if ack:
        (stream_folder / "ack").write_text(f"{ack}\n")
    for state, is_resumed in product(("own.json", "new.json"), (False, True)):
        (stream_folder / "own.json").write_bytes(own_state)
        (stream_folder / "new.json").unlink(missing_ok=True)
        command = f"run stream.yaml -q --limit 5 --state {state}{options}"
        if is_resumed:
            command += " --resume"
        elif state == "own.json" and from_state in (None, "base.json"):
            refused = volt_stream(command, status=2)
            assert "contains the position of an earlier run, after line 12" in refused.message
            command += " --force"
        if n_used and not (from_state or is_resumed):
            refused = volt_stream(command, status=1)
            assert "lines are reported as used, but" in refused.message
            continue
        first = {None: 0, "base.json": 7}.get(from_state, 12)
        if state == "own.json" and is_resumed:
            first = 12
        first = max(first, n_used)
        assert volt_stream(command).lines == lines[first : first + 5]
        assert load_state(state)["n"] == (first + 5 if ack is None else first)


def test_impossible_numbers_of_used_lines_are_refused(volt_stream, stream_folder):
    """--ack refuses more used lines than were written, lines of another run, and a closed
    descriptor."""
    (stream_folder / "ack").write_text("90\n")
    refused = volt_stream("run stream.yaml --ack ack --limit 5", status=1)
    assert "continue with --resume" in refused.message
    (stream_folder / "stream.yaml").write_text(ONE_EPOCH)
    (stream_folder / "ack").write_text("9000\n")
    refused = volt_stream("run stream.yaml --ack ack --resume", status=1)
    assert "the stream has 200" in refused.message
    assert "descriptor is not open" in volt_stream("run stream.yaml --ack 99", status=2).message


def test_a_killed_run_resumes_after_the_used_lines(start_stream, volt_stream, stream_folder):
    """After SIGKILL, a run with --ack and --resume neither loses nor repeats a used line."""
    command = f"{RUN} --state-every 10 --ack ack --resume"
    used = []
    for n in (13, 1, 77) if DRAWS_ALL else (13,):
        process = start_stream(f"{command} --workers 1")
        used += read_lines(process, n)
        (stream_folder / "ack.new").write_text(f"{len(used)}\n")
        os.replace(stream_folder / "ack.new", stream_folder / "ack")
        process.kill()
        process.wait(DEADLINE)
    used += volt_stream(f"{command} --limit 20").lines
    assert used == expected(len(used))


def test_reports_on_a_descriptor_move_the_saved_state(start_stream, volt_stream, stream_folder):
    """Numbers that a consumer writes to the descriptor of --ack, even in pieces, move the saved
    state."""
    reader, writer = os.pipe()
    try:
        process = start_stream(f"{RUN} --ack {reader}", pass_fds=[reader])
        written = read_lines(process, 200)
        for message in (b"7\n1", b"0\n15", b"0\n"):
            os.write(writer, message)
        wait_for(lambda: load_state(stream_folder / "s.json")["n"] == 150)
        process.kill()
        process.wait(DEADLINE)
    finally:
        os.close(reader)
        os.close(writer)
    rest = volt_stream("run stream.yaml --from-state s.json --limit 80 -q").lines
    assert written[:150] + rest == expected(230)


def test_ranks_do_not_replace_each_others_state(volt_stream, monkeypatch):
    """A rank, set by options or by MPI's variables, refuses to replace the state of another rank,
    and writes no line."""
    command = f"{RUN} --limit 5 --force"
    for _ in range(2):
        volt_stream(f"{command} --rank 0 --world 2")
    state = load_state("s.json")
    refused = volt_stream(f"{command} --rank 1 --world 2", status=1)
    assert (
        "s.json: is the state of rank 0 of 2, but this is rank 1; give each rank its own file"
    ) in refused.message
    assert refused.lines == []
    assert load_state("s.json") == state
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    for rank, status in ((1, 1), (0, 0)):
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(rank))
        volt_stream(command, status=status)
    assert load_state("s.json")["configuration"]["rank"] == 0


def test_only_the_state_of_another_rank_is_protected(volt_stream, tmp_path):
    """`check_rank_of_file` allows files that are not states, and states of another number of ranks."""
    path = tmp_path / "s.json"
    check_rank_of_file(path, 1, 2)
    for content in ("", "xxxxxxx"):
        path.write_text(content)
        check_rank_of_file(path, 1, 2)
    volt_stream(f"{RUN} --limit 5 --force --rank 0 --world 2")
    for rank, world in ((0, 2), (1, 3), (0, 1)):
        check_rank_of_file(path, rank, world)
    with pytest.raises(StreamError, match="is the state of rank 0 of 2, but this is rank 1"):
        check_rank_of_file(path, 1, 2)
    save_state(load_state(path), path)


def test_skipping_is_reported(volt_stream, stream_folder, monkeypatch):
    """A run reports the lines that --ack skips on stderr, except with -q; the written lines are
    equal."""
    monkeypatch.setattr("volt_cli.stream.positions._SKIP_LINES", 7)
    (stream_folder / "ack").write_text("90\n")
    command = "run stream.yaml --limit 5 --resume --ack ack"
    done = volt_stream(command)
    quiet = volt_stream(f"{command} -q")
    assert done.lines == quiet.lines == expected(95)[90:]
    assert "--ack: skipping from line 0 to line 90, up to which" in done.message
    assert quiet.message == ""


@pytest.mark.parametrize(
    "content", ["abc", "-5", "12 13", "7\nline 39999\n", "a0\tline 0\na1\tline 1\n"]
)
def test_a_report_that_is_not_a_number_is_refused(tmp_path, content):
    """`Consumer` refuses a file whose last line is not a whole number."""
    (tmp_path / "ack").write_text(content)
    with pytest.raises(
        StreamError, match=r"ack: '.*' is not a number of lines; write how many lines are used"
    ):
        Consumer(str(tmp_path / "ack")).read_n_used()


@pytest.mark.parametrize(
    ("content", "n_used"), [("", None), (" \n", None), ("12\n", 12), ("12\n15", 15), (" 7 ", 7)]
)
def test_the_last_number_of_a_file_counts(tmp_path, content, n_used):
    """`Consumer` reads the last line of its file; an empty file reports nothing."""
    (tmp_path / "ack").write_text(content)
    assert Consumer(str(tmp_path / "ack")).read_n_used() == n_used


@given(
    st.lists(st.integers(0, 2000), max_size=6).map(sorted),
    st.sampled_from(["", "7"]),
    st.sets(st.integers(1, 30)),
)
def test_the_last_number_of_a_descriptor_counts(numbers, rest, cuts):
    """`Consumer` uses the last whole line from its descriptor, however the numbers are split into
    reads."""
    data = "".join(f"{number}\n" for number in numbers) + rest
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    reader, writer = os.pipe()
    try:
        consumer = Consumer(str(reader))
        for start, end in pairwise([0, *ends]):
            if end:
                os.write(writer, data[start:end].encode())
                assert consumer.receive()
            assert (consumer.read_n_used() or 0) == int(["0", *data[:end].split("\n")][-2])
    finally:
        os.close(writer)
        assert not consumer.receive()
        os.close(reader)
