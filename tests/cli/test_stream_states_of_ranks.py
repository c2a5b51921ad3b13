"""`volt stream run` where ranks share a state file, or a consumer is far ahead: what is said, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Run
from stream_commands import expected

from volt.errors import StreamError
from volt.stream.running.checkpoint import check_own, load_state, save_state

ONE = ("run", "stream.yaml", "--limit", 5, "-q", "--state", "s.json", "--force")


def test_ranks_do_not_write_over_each_other(volt_stream: Run) -> None:
    """The state of another rank of the same world stays, and no line leaves; the rank's own is replaced."""
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


def test_ranks_are_reported_by_the_environment(
    volt_stream: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As MPI tells them: one command line for all ranks must not give them one state."""
    for rank, status in ((1, 0), (0, 1)):
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(rank))
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
        volt_stream(*ONE, status=status)
    assert load_state("s.json")["configuration"]["rank"] == 1


def test_other_files_are_replaced(volt_stream: Run, tmp_path: Path) -> None:
    """A state of another world, or of a run alone, or what is no state, says nothing about who else writes there."""
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


def test_skipping_is_said(
    volt_stream: Run, stream_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passing over what was used takes time, so stderr says it, but not with -q; the lines are the same."""
    monkeypatch.setattr("volt_cli.stream.delivery._SKIPPED", 7)
    (stream_folder / "ack").write_text("90\n")
    command = ["run", "stream.yaml", "--limit", 5, "--resume", "--ack", "ack"]
    done, quiet = volt_stream(*command), volt_stream(*command, "-q")
    assert done.lines == quiet.lines == expected(95)[90:]
    assert b"--ack: skipping from line 0 to line 90, up to which" in done.stderr
    assert quiet.stderr == b""
