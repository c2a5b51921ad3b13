"""Run a command of `volt` in this process, and read its output."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

VOLT = [sys.executable, "-m", "volt_cli"]
TEXT = "the cat sat on the mat\nthe hat that the cat had\n" * 40
Run = Callable[..., "Done"]


_searched = dict[tuple[str, ...], bytes]()  # options of a search → the vocabulary's file


class Done(NamedTuple):
    """The output of a command."""

    stdout: bytes
    stderr: bytes

    @property
    def lines(self):
        """Return the lines of stdout."""
        return self.stdout.decode().split("\n")[:-1]

    @property
    def message(self):
        """Return stderr as text."""
        return self.stderr.decode()


def status_of(arguments, *, stdin=None):
    """Run volt in this process, and return its exit status; the caller captures the output."""
    from volt_cli.app import main

    tree = all_commands()["volt"]
    with pytest.MonkeyPatch.context() as patch:
        # Commands are built once, not in each call, which would take 50 ms.
        patch.setattr("volt_cli.app.build_app", lambda *names: _app())
        patch.setattr("typer.main.get_command", lambda app: tree)
        patch.setattr("gc.freeze", lambda: None)  # what tests leave behind would never be freed
        patch.setattr(sys, "argv", ["volt", *map(str, arguments)])
        if stdin is not None:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def search_once(run, *options):
    """Write v.volt, the vocabulary that `volt search corpus.txt` finds; a process searches once."""
    path = Path("v.volt")
    if options in _searched:
        path.write_bytes(_searched[options])
    else:
        run("search corpus.txt -q -o v.volt", *options)
        _searched[options] = path.read_bytes()
    return path


@cache
def _app():
    from volt_cli.app import build_app

    return build_app()


@cache
def all_commands():
    """Return name → command; names of stream commands begin with "stream"."""
    from typer.main import get_command

    tree = get_command(_app())
    of_streams = tree.commands["stream"].commands.items()
    return {
        "volt": tree,
        **tree.commands,
        **{f"stream {name}": command for name, command in of_streams},
    }


def options_of(arguments):
    """Return the options of the command in a command line."""
    command = all_commands()["volt"]
    for argument in map(str, arguments):
        command = getattr(command, "commands", {}).get(argument, command)
    return {
        "--help",
        *(name for option in command.params for name in (*option.opts, *option.secondary_opts)),
    }


def foreign_options(arguments, message):
    """Return the options that an error suggests, but its command lacks."""
    hints = message.rpartition("error ")[2].partition("\n")[0]
    if "No such option" in hints:
        return set()
    hints = re.sub(r"(\bvolt [a-z]|\b(?:count|learn|learn more|import it) with)[^;]*", "", hints)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", hints))
    return (
        named - options_of(arguments) - {str(argument).partition("=")[0] for argument in arguments}
    )


def listed(folder):
    """Return the names in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())
