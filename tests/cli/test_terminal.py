"""Printed reports fit any width, with and without colours, and show hostile texts as escapes."""

import io
import json
import re
import sys
from itertools import chain

import pytest
from support.commands import all_commands, options_of, status_of
from support.drawn import DRAWS_ALL
from support.screens import too_wide, words

from volt.vocabulary import Vocabulary
from volt_cli.command_help import EXAMPLES
from volt_cli.console import messages

WIDE = 1000
WIDTHS = (60, 80, 120)
LONG_PATH = "a/folder/that/is/far/away/and/within/another/one/that/is/too/far/model.volt"
COMMANDS = [f"{command} --help".removeprefix("volt ") for command in EXAMPLES]


class Terminal(io.TextIOWrapper):
    """A file that says that it is a terminal."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self):
        """Return true."""
        return True

    @property
    def shown(self):
        """Return the written text."""
        return self.buffer.getvalue().decode()


@pytest.fixture
def screen(run, monkeypatch):
    """Return a function that returns what volt prints on a terminal of some width."""

    def shown(command, width, *, term="dumb", **environment):
        messages.cache_clear()
        terminal = Terminal()
        with monkeypatch.context() as patch:
            for name in ("NO_COLOR", "FORCE_COLOR"):
                patch.delenv(name, raising=False)
            environment |= {"COLUMNS": str(width), "LINES": "25", "TERM": term}
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdout", terminal)
            patch.setattr(sys, "stderr", terminal)
            status_of(command.split(" "))
        return terminal.shown

    yield shown
    messages.cache_clear()


def plain(text):
    """Return a report without seconds."""
    return re.sub(r"^seconds .*\n( {10}.*\n)*", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_the_same_words_at_any_width(command, screen):
    """The help of each command has the same words at every width."""
    wide = screen(command, WIDE)
    for width in (60, 80) if DRAWS_ALL else (60,):
        shown = screen(command, width)
        assert not too_wide(shown, width)
        assert max(map(len, shown.splitlines())) <= width
        assert words(shown) == words(wide)


@pytest.mark.parametrize(
    "command",
    [
        "inspect -m corpus.volt the cat that had the unbelievable hat -n 30",
        "search corpus.txt --sizes 15:20:1",
        "search corpus.txt --sizes 15:20:1 --all",
        "stream example",
        "stream schema",
        f"encode -m {LONG_PATH} corpus.txt",
        "encode -m corpus.txt",
        "encode --froze npy -m corpus.volt",
        "export -m corpus.volt --to fairsec -o x",
        "search corpus.txt --select kneee --sizes 5:4:1",
        "stream preview noise/stream.yaml -n 2",
        "stream audit noise/stream.yaml --turns 1e3",
        "stream trace noise/stream.yaml 42",
    ],
)
def test_reports_fit_the_terminal(command, screen, run):
    """No line of a report is wider than the terminal, and no number or word is broken."""
    if "corpus.volt" in command:
        run("search corpus.txt --sizes 15:20:1")
    if "noise" in command:
        run("stream example case-noise -o noise")
    wide = plain(screen(command, WIDE))
    assert wide
    for width in WIDTHS:
        shown = plain(screen(command, width))
        assert not too_wide(shown, width)
        assert words(shown) == words(wide)
    if LONG_PATH in command:
        assert LONG_PATH in " ".join(screen(command, 60).split())


def test_only_terminals_get_colours(screen):
    """Commands print colours only on a terminal that is not dumb, and not with NO_COLOR."""
    colour = re.compile(r"\x1b\[[0-9;]*(3[0-9]|9[0-7])")
    for command in ("stream --help", "search nothing-there.txt"):
        assert colour.search(screen(command, 80, term="xterm-256color"))
        assert not colour.search(screen(command, 80, term="xterm", NO_COLOR="1"))
        assert "\x1b" not in screen(command, 80)


def test_a_file_or_pipe_gets_plain_lines(run, monkeypatch):
    """A file or pipe gets no escape codes, and each message is one line."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    reports = []
    for columns in ("60", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        done = run(f"search corpus.txt --all --sizes 15:20:1 -o {columns}.volt")
        assert b"\x1b" not in done.stdout + done.stderr
        assert sum(line.startswith("signature volt|") for line in done.lines) == 1
        assert done.lines[-1].endswith("version:0.1.0")
        reports.append(done.stdout.decode())
    narrow, wide = (report.count("size ") for report in reports)
    assert narrow > wide  # a narrow table has several parts
    error = run(f"encode -m {LONG_PATH}", status=1).message
    assert error.count("\n") == 1


EVIL = "\x1b]0;x\x07\x9b31m\u202e"
VOCABULARY = Vocabulary(
    (),
    ("a", "\x1b", "\u202e", "\x9b", "b</w>"),
    counts=(3, 2, 2, 2, 9),
    provenance={"signature": EVIL, EVIL: [EVIL], "size": 3, "long": "y" * 100_000},
)
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def model(run):
    """Write a vocabulary whose tokens, provenance and name contain control characters."""
    name = f"m{EVIL}\n.volt"
    VOCABULARY.save(name)
    return name


def test_inspect_prints_no_control_character(run, model):
    """`volt inspect` escapes control characters of tokens, provenance and names, and shortens long
    ones."""
    shown = run("inspect -m", model, f"a{EVIL}").stdout.decode()
    assert not UNSEEN.search(shown)
    for part in (
        r"m\x1b]0;x\x07\x9b31m\u202e\n.volt",
        r"\x1b 2",
        r"\u202e 2",
        "(100,000 characters)",
    ):
        assert part in shown.replace("\n", "") or part in re.sub(r"\s+", "", shown)
    data = run("inspect --json -m", model).stdout
    assert not UNSEEN.search(data.decode())
    assert json.loads(data)["provenance"] == dict(VOCABULARY.provenance)


def test_errors_print_no_control_character(run, model, tmp_path):
    """Errors escape control characters in the names and contents of files."""
    name = "a\x1b[2J\n.txt"
    (tmp_path / name).write_bytes(b"a\xff\n")
    for command, path in (("encode", name), ("decode", f"{EVIL}/none")):
        message = run(f"{command} -m", model, path, status=1).message
        assert not UNSEEN.search(message)
        assert message.startswith("error ")
    refused = run("encode -m", model, name, status=1)
    assert r"a\x1b[2J\n.txt:1: invalid UTF-8" in refused.message


def test_data_on_stdout_stay_exact(run, model):
    """Pieces and decoded text on stdout are not escaped."""
    text = "a\x1b\u202eb a\0\x9bb\n".encode()
    pieces = run("encode -m", model, stdin=text).stdout
    assert b"\x1b \xe2\x80\xae b</w>" in pieces
    assert run("decode -m", model, stdin=pieces).stdout == text


READERS = {  # every command that reads lines of text, with each place for a text
    "search": ["search t.txt -o o.volt", "search a=t.txt -o each --per-source"],
    "encode": [
        "encode -m m.volt t.txt",
        "encode -m m.volt t.txt --form ids -o ids",
        "encode -m m.volt t.txt -o out/",
    ],
    "binarize": ["binarize -m m.volt t.txt -o pair"],
    "decode": ["decode -m m.volt t.txt", "decode -m m.volt t.txt --separator @@"],
    "export": ["export -m m.volt t.txt --to subword-nmt --check -o o"],
    "import": ["import codes t.txt --check -o o"],
    "shrink": ["shrink m.volt --to 8 --on t.txt -o o"],
    "compare": ["compare t.txt", "compare corpus.txt --heldout t.txt"],
    "shard": ["shard c.yaml -o shards"],
    "translate-input": ["translate-input c.yaml --task t t.txt"],
    "translate-output": ["translate-output c.yaml --task t t.txt"],
}


@pytest.fixture
def readers(run, tmp_path):
    """Return a command line for each command that reads text."""
    merges = (("a", "b</w>"), ("a", "b"))  # "ab" is a piece, for decode
    Vocabulary(merges, ("a", "b", "a</w>", "b</w>", "ab</w>", "ab")).save("m.volt")
    (tmp_path / "codes").write_text("#version: 0.2\na b</w>\n")
    (tmp_path / "c.yaml").write_text("tasks: {t: {type: mono, inputs: {i: {mono: t.txt}}}}")
    return READERS


def with_option(name):
    """Return the commands that have an option."""
    return {
        command
        for command, found in all_commands().items()
        if f"--{name}" in options_of(command.split())
    }


def test_max_line_limits_every_command(run, readers, tmp_path):
    """Every command that reads text refuses lines longer than --max-line; the error names line and
    option."""
    assert readers.keys() == {
        name
        for name in with_option("max-line") - {"trial"}  # see tests/trial
        if not name.startswith("stream")
    }
    (tmp_path / "t.txt").write_text("ab\n" + "ab " * 40 + "\n")
    for command in chain.from_iterable(readers.values()):
        message = " ".join(run(f"{command} --max-line 119", status=1).message.split())
        fault = "t.txt:2: the line has more than 119 bytes; cut it, or raise --max-line"
        assert fault in message
        assert "bytes" not in run(f"{command} --max-line 120").message
    for most in ("1K", "none", "0"):
        assert run(f"encode -m m.volt t.txt --max-line {most}").stdout
    refused = run("encode -m m.volt t.txt --max-line 1.5M", status=2)
    assert "--max-line is '1.5M'; give bytes, such as 1000, 64M or 1G" in refused.message


def test_encoding_errors_apply_to_every_command(run, readers, tmp_path):
    """Every command that reads text treats lines that are not UTF-8 as --encoding-errors says."""
    able = with_option("encoding-errors") - {"trial"}  # see tests/trial
    assert able == readers.keys() - {"shard"}
    (tmp_path / "t.txt").write_bytes(b"ab ab ab\nb\xff ab\n")
    for command in chain.from_iterable(readers[name] for name in able):
        assert "t.txt:2: invalid UTF-8" in run(command, status=1).message
        run(f"{command} --encoding-errors replace")
