"""Signals, closed standard streams, and output that does not fit."""

import os
import signal
import subprocess
import sys

import pytest
from support.commands import VOLT, listed
from support.stream_commands import DEADLINE, wait_for

from volt.vocabulary import Vocabulary


@pytest.fixture
def folder(tmp_path):
    """Write a vocabulary and a text of 200 kB."""
    Vocabulary(
        merges=(("t", "h"), ("th", "e</w>")), tokens=("t", "h", "e</w>", "th", "the</w>")
    ).save(tmp_path / "m")
    (tmp_path / "text").write_text("the the the the\n" * 12_500)
    return tmp_path


def shell(folder, line, **environment):
    """Run a line of bash in which `volt` is the command."""
    prelude = f'volt() {{ "{sys.executable}" -m volt_cli "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", prelude + line],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_an_error(folder, unbuffered):
    """A command whose stdout cannot be written completely ends with status 1, with or without
    Python's buffers."""
    done = shell(folder, "ulimit -f 100; volt encode -m m text > out", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "File too large" in done.stderr


def test_only_needed_streams_must_be_open(folder):
    """`volt encode` with -o works without stdin, stdout and stderr; without -o, it needs stdout."""
    assert shell(folder, "volt encode -m m text -o pieces <&- >&- 2>&-").returncode == 0
    assert (folder / "pieces").read_text() == "the</w> the</w> the</w> the</w>\n" * 12_500
    for line in ("volt encode -m m text >&-", "volt encode -m m <&-"):
        done = shell(folder, line)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "bad file descriptor" in done.stderr.lower()


def test_signals_leave_no_partial_file(folder):
    """SIGTERM ends a command with status 143, SIGHUP with 129, and no partial file stays; an
    ignored SIGHUP does nothing."""
    running = {
        number: _start(folder, number, ignored=False) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    ignoring = _start(folder, 0, ignored=True)
    try:
        wait_for(lambda: sum(name.endswith(".part") for name in listed(folder)) == 3)
        for number, process in running.items():
            process.send_signal(number)
        ignoring.send_signal(signal.SIGHUP)
        for number, process in running.items():
            assert process.wait(DEADLINE) == 128 + number
            assert process.stderr.read().decode() == f"ended by {number.name}\n"
        _, message = ignoring.communicate(b"t h e</w>\n", timeout=DEADLINE)
        assert (ignoring.returncode, message) == (0, b"")
    finally:
        for process in (ignoring, *running.values()):
            process.kill()
            process.communicate()
    assert [name for name in listed(folder) if name.startswith((".", "out"))] == ["out0"]
    assert (folder / "out0").read_bytes() == b"the\n"


def _start(folder, number, *, ignored):
    """Start a command that has written a part of its output, and waits for stdin."""
    handler = signal.SIG_IGN if ignored else signal.SIG_DFL
    return subprocess.Popen(
        [*VOLT, "decode", "-m", "m", "-o", f"out{number:d}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, handler),
    )
