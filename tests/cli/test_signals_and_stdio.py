"""Closed standard streams, and output that does not fit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
    assert (done.returncode, done.stderr.count("\n"), "File too large" in done.stderr) == (
        1,
        1,
        True,
    )


def test_only_needed_streams_must_be_open(folder):
    """`volt encode` with -o works without stdin, stdout and stderr; without -o, it needs stdout."""
    assert shell(folder, "volt encode -m m text -o pieces <&- >&- 2>&-").returncode == 0
    assert (folder / "pieces").read_text() == "the</w> the</w> the</w> the</w>\n" * 12_500
    for line in ("volt encode -m m text >&-", "volt encode -m m <&-"):
        done = shell(folder, line)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "bad file descriptor" in done.stderr.lower()
