"""Looks: what every command prints fits a terminal of any width and loses nothing; a file or pipe gets plain lines."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator

import pytest
from commands import Run, status_of
from drawn import DRAWS_ALL
from screens import too_wide, words

from volt_cli.command_help import EXAMPLES
from volt_cli.console import messages

WIDE = 1000
WIDTHS = (60, 80, 120)
LONG_PATH = "a/folder/that/is/far/away/and/within/another/one/that/is/too/far/model.volt"
COMMANDS = [[] if command == "volt" else command.split() for command in EXAMPLES]
Screen = Callable[..., str]


class Terminal(io.TextIOWrapper):
    """A file that says that it is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        """It is one."""
        return True

    @property
    def shown(self) -> str:
        """What has been written."""
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


@pytest.fixture
def screen(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """What volt shows on a terminal of some width, stdout and stderr together, in a folder that holds corpus.txt."""

    def shown(*arguments: object, width: int, term: str = "dumb", **environment: str) -> str:
        messages.cache_clear()
        terminal = Terminal()
        with monkeypatch.context() as patch:
            for name in ("NO_COLOR", "FORCE_COLOR"):
                patch.delenv(name, raising=False)
            for name, value in {
                "COLUMNS": str(width),
                "LINES": "25",
                "TERM": term,
                **environment,
            }.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdout", terminal)
            patch.setattr(sys, "stderr", terminal)
            status_of(arguments)
        return terminal.shown

    yield shown
    messages.cache_clear()


def plain(text: str) -> str:
    """A report without the seconds that it took, which are others every time."""
    return re.sub(r"^seconds .*\n( {10}.*\n)*", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_and_breaks_no_word(command: list[str], screen: Screen) -> None:
    """At every width the help holds the same words, so no option, metavar or path is cut."""
    wide = screen(*command, "--help", width=WIDE)
    for width in (60, 80) if DRAWS_ALL else (60,):
        shown = screen(*command, "--help", width=width)
        assert not too_wide(shown, width)
        assert max(map(len, shown.splitlines())) <= width
        assert words(shown) == words(wide)


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "-m", "corpus.volt", "the cat that had the unbelievable hat", "-n", "30"],
        ["search", "corpus.txt", "--sizes", "15:20:1"],
        ["stream", "example"],
        ["stream", "schema"],
        ["encode", "-m", LONG_PATH, "corpus.txt"],
        ["encode", "-m", "corpus.txt"],
        ["encode", "--froze", "npy", "-m", "corpus.volt"],
        ["export", "-m", "corpus.volt", "--to", "fairsec", "-o", "x"],
        ["search", "corpus.txt", "--select", "kneee", "--sizes", "5:4:1"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_what_is_shown_fits_and_breaks_no_word(
    arguments: list[str], screen: Screen, run: Run
) -> None:
    """No line that could be broken is too wide, no number is cut, no word broken inside; a long path stays whole."""
    if "corpus.volt" in arguments:
        run("search corpus.txt --sizes 15:20:1")
    wide = plain(screen(*arguments, width=WIDE))
    assert wide
    for width in WIDTHS:
        shown = plain(screen(*arguments, width=width))
        assert not too_wide(shown, width)
        assert words(shown) == words(wide)
    assert LONG_PATH in " ".join(screen(*arguments, width=60).split()) or LONG_PATH not in arguments


def test_lines_of_a_stream_are_shown_with_what_became_of_them(screen: Screen) -> None:
    """preview, trace, plan and audit of an example fit; the sources' names and every number stay whole."""
    screen("stream", "example", "case-noise", "-o", "noise", width=80)
    for command in (["preview", "-n", "2"], ["audit", "--turns", "1e3"], ["trace", "42"]):
        arguments = ["stream", command[0], "noise/stream.yaml", *command[1:]]
        wide = screen(*arguments, width=WIDE)
        assert len(words(wide)) > 10
        for width in WIDTHS:
            shown = screen(*arguments, width=width)
            assert not too_wide(shown, width)
            assert words(shown) == words(wide)


# Colours


def test_colours_are_for_terminals_that_take_them(screen: Screen) -> None:
    """A terminal gets colours; with NO_COLOR none, and a dumb one no escape codes at all."""
    for command in (["stream", "--help"], ["search", "nothing-there.txt"]):
        assert "\x1b[" in screen(*command, width=80, term="xterm-256color")
        assert not re.search(
            r"\x1b\[[0-9;]*(3[0-9]|9[0-7])", screen(*command, width=80, term="xterm", NO_COLOR="1")
        )
        assert "\x1b" not in screen(*command, width=80)


def test_a_file_or_pipe_gets_plain_lines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No escape codes, a line for each message and each entry however long it is, tables as wide as COLUMNS."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    reports = []
    for columns in ("60", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        done = run("search corpus.txt --sizes 15:20:1 -o", f"{columns}.volt")
        assert b"\x1b" not in done.stdout + done.stderr
        assert sum(line.startswith("signature volt|") for line in done.lines) == 1
        assert done.lines[-1].endswith("version:0.1.0")
        reports.append(done.stdout.decode())
    narrow, wide = (report.count("size ") for report in reports)
    assert narrow == wide + 1  # a narrow table has a second part
    error = run("encode -m", LONG_PATH, status=1).stderr.decode()
    assert error.count("\n") == 1
