"""Laws of what is printed: nothing of a file, a name or a vocabulary is obeyed by the terminal; data stay exact."""

from __future__ import annotations

import json
import re
from itertools import chain

import pytest
from commands import all_commands, options_of

from volt.vocabulary import Vocabulary

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
    """A vocabulary whose tokens, provenance and name hold what a terminal obeys."""
    name = f"m{EVIL}\n.volt"
    VOCABULARY.save(name)
    return name


def test_inspect_prints_no_control_character(run, model):
    """inspect shows tokens, provenance and the file's name as escapes, cut where they are long."""
    shown = run("inspect", "-m", model, f"a{EVIL}").stdout.decode()
    assert not UNSEEN.search(shown)
    for part in (
        r"m\x1b]0;x\x07\x9b31m\u202e\n.volt",
        r"\x1b 2",
        r"\u202e 2",
        "(100,000 characters)",
    ):
        assert part in shown.replace("\n", "") or part in re.sub(r"\s+", "", shown)
    data = run("inspect", "-m", model, "--json").stdout
    assert not UNSEEN.search(data.decode())
    assert json.loads(data)["provenance"] == dict(VOCABULARY.provenance)


def test_errors_print_no_control_character(run, model, tmp_path):
    """Errors show names of files and what stands in them as escapes."""
    (tmp_path / "a\x1b[2J\n.txt").write_bytes(b"a\xff\n")
    for arguments in (
        ["encode", "-m", model, "a\x1b[2J\n.txt"],
        ["decode", "-m", model, f"{EVIL}/none"],
    ):
        message = run(*arguments, status=1).stderr.decode()
        assert not UNSEEN.search(message)
        assert message.startswith("error ")
    assert (
        r"a\x1b[2J\n.txt:1: invalid UTF-8"
        in run("encode", "-m", model, "a\x1b[2J\n.txt", status=1).stderr.decode()
    )


def test_data_on_stdout_stay_exact(run, model):
    """Pieces and decoded text are the bytes that they stand for."""
    text = "a\x1b\u202eb a\0\x9bb\n".encode()
    pieces = run("encode", "-m", model, stdin=text).stdout
    assert b"\x1b \xe2\x80\xae b</w>" in pieces
    assert run("decode", "-m", model, stdin=pieces).stdout == text


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
    """The command lines by command; what they read besides t.txt is there."""
    merges = (("a", "b</w>"), ("a", "b"))  # "ab" is a piece, for decode
    Vocabulary(merges, ("a", "b", "a</w>", "b</w>", "ab</w>", "ab")).save("m.volt")
    (tmp_path / "codes").write_text("#version: 0.2\na b</w>\n")
    (tmp_path / "c.yaml").write_text("tasks: {t: {type: mono, inputs: {i: {mono: t.txt}}}}")
    return {name: [line.split() for line in lines] for name, lines in READERS.items()}


def with_option(name):
    """The commands that have an option."""
    return {
        command
        for command, found in all_commands().items()
        if f"--{name}" in options_of(command.split())
    }


def test_max_line_of_every_command_that_reads_text(run, readers, tmp_path):
    """--max-line is the longest line in bytes that is read; one more is refused with the line and the option."""
    assert readers.keys() == {
        name for name in with_option("max-line") if not name.startswith("stream")
    }
    (tmp_path / "t.txt").write_text("ab\n" + "ab " * 40 + "\n")
    for line in chain.from_iterable(readers.values()):
        message = run(*line, "--max-line", "119", status=1).stderr.decode()
        assert "t.txt:2: the line has more than 119 bytes; cut it, or raise --max-line" in " ".join(
            message.split()
        )
        assert b"bytes" not in run(*line, "--max-line", "120").stderr
    for most in ("1K", "none", "0"):
        assert run("encode -m m.volt t.txt --max-line", most).stdout
    assert (
        b"--max-line is '1.5M'; give bytes, such as 1000, 64M or 1G"
        in run("encode -m m.volt t.txt --max-line 1.5M", status=2).stderr
    )


def test_encoding_errors_of_every_command_that_reads_text(run, readers, tmp_path):
    """--encoding-errors says what becomes of a line that is not UTF-8, wherever the text stands on the command line."""
    able = with_option("encoding-errors") - {"trial"}  # see tests/trial
    assert able == readers.keys() - {"compare", "shard"}
    (tmp_path / "t.txt").write_bytes(b"ab ab ab\nb\xff ab\n")
    for line in chain.from_iterable(readers[name] for name in able):
        assert b"t.txt:2: invalid UTF-8" in run(*line, status=1).stderr
        run(*line, "--encoding-errors", "replace")
