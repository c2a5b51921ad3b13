"""`volt translate-input` and `volt translate-output`."""

import os
import select
import subprocess
from pathlib import Path

import pytest
from support.commands import VOLT, listed

from volt.kernels.warmup import compile_kernels
from volt.vocabulary import Vocabulary

CONFIG = """\
sources: {wmt: {path: wmt.tsv}}
tasks:
  de_en:
    type: para
    src_lang: {{src}}
    tgt_lang: en
    inputs: {i: {src: nowhere.de, tgt: nowhere.en}}
    transforms: [drop: {rate: 0.9}, encode: {vocabulary: small.volt, dropout: 0.5}, lang_prefix_both]
  dev: {type: mono, split: valid, inputs: {i: {mono: nowhere.en}}, transforms: [lower]}
"""
INPUT = "translate-input tasks.yaml --set src=de --task"
OUTPUT = "translate-output tasks.yaml --set src=de --task"
DEADLINE = 60  # seconds


@pytest.fixture
def config(run, tmp_path):
    """Write a configuration whose inputs do not exist."""
    tokens = ("l", "o", "w", "l</w>", "o</w>", "w</w>", "low</w>", "lo")
    Vocabulary((("l", "o"), ("lo", "w</w>")), tokens).save(tmp_path / "small.volt")
    (tmp_path / "tasks.yaml").write_text(CONFIG)
    return tmp_path / "tasks.yaml"


def test_translate_input_and_output_transform_lines(config, run):
    """Both commands transform stdin or files to stdout or a file, without carriage returns and byte
    order marks."""
    text = b"\xef\xbb\xbflow lo\r\n\nlow"
    done = run(f"{INPUT} de_en", stdin=text)
    languages = "<FROM_de> <TO_en>"
    assert done.lines == [f"{languages} low</w> l o</w>", languages, f"{languages} low</w>"]
    assert done.message == ""
    Path("a.txt").write_bytes(text)
    assert run(f"{INPUT} de_en a.txt -o a.in").stdout == b""
    assert Path("a.in").read_bytes() == done.stdout
    lines = [line.removeprefix(languages).lstrip(" ") for line in done.lines]
    answer = "".join(f"{line}\n" for line in lines).encode()
    for command, stdin, expected in (
        (f"{OUTPUT} de_en", answer, b"low lo\n\nlow\n"),
        (f"{INPUT} dev", b"LOW\n", b"low\n"),
        (f"{OUTPUT} dev", b"LOW\n", b"LOW\n"),
        (f"{INPUT} dev --encoding-errors replace", b"A\xff\n", "a\ufffd\n".encode()),
        (f"{INPUT} dev", b"", b""),
    ):
        assert run(command, stdin=stdin).stdout == expected


FAULTS = [
    (f"{INPUT} dve", 2, "tasks.yaml:2: tasks: no task 'dve'; did you mean dev?"),
    (
        f"{INPUT} wmt",
        2,
        "tasks.yaml:1: sources.wmt: is a source, not a task; choose from de_en, dev",
    ),
    (INPUT.removesuffix(" --task"), 2, "Missing option '--task'"),
    (
        "translate-input tasks.yaml --task dev",
        2,
        "{{src}} has no value; give --set src, or",
    ),
    (f"{INPUT} dev none.txt", 1, "none.txt: no such file; check the path"),
    (f"{INPUT} dev corpus.txt -o corpus.txt", 2, "would be written over corpus.txt"),
    (f"{INPUT} dev -o tasks.yaml", 2, "would be written over tasks.yaml"),
    (
        f"{INPUT} dev",
        1,
        "stdin:2: invalid UTF-8 byte 0xff at column 1; convert the file or pass --enc",
    ),
    (f"{INPUT} dev --encoding-errors skip", 2, "'skip' is not one of"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), FAULTS)
def test_refused_lines_are_named(config, run, arguments, status, message):
    """The error for a line that cannot be transformed has status, file, line and remedy; stdout has
    only the earlier lines."""
    before = listed(config.parent)
    done = run(arguments, stdin=b"long\n\xff\n", status=status)
    assert message in " ".join(done.message.split())
    expected = b"long\n" if "invalid UTF-8" in message else b""
    assert (done.stdout, listed(config.parent)) == (expected, before)


def test_a_refused_line_leaves_no_file(config, run):
    """The error for a refused line names it, and no incomplete file is written."""
    text = b"low\nlo\tw\nlow\n"
    done = run(f"{INPUT} de_en", stdin=text, status=1)
    assert done.lines == ["<FROM_de> <TO_en> low</w>"]
    fault = "stdin:2: contains a tab, which separates fields; write a space instead"
    assert fault in done.message
    run(f"{INPUT} de_en -o out.txt", stdin=text, status=1)
    assert not Path("out.txt").exists()


def test_python_files_run_only_when_trusted(config, run):
    """A configuration with Python files is refused with a hint at --trust, which allows it."""
    Path("own.py").write_text("def twice(fields):\n    return [f'{fields[0]} {fields[0]}']\n")
    Path("own.yaml").write_text(
        "tasks: {t: {type: mono, inputs: {i: {mono: a}}, transforms: "
        "[user: {file: own.py, function: twice}]}}"
    )
    command = "translate-input own.yaml --task t"
    fault = "would run the code in own.py; read it, then add --trust"
    assert fault in run(command, status=2).message
    assert run(f"{command} --trust", stdin=b"a\n").stdout == b"a a\n"


def test_a_line_passes_open_pipes(config):
    """A line passes both commands while the pipes stay open; both end when the reader ends."""
    compile_kernels("encode", "stream", "decode")
    before, behind = [
        subprocess.Popen(
            [*VOLT, *command.split(), "de_en"], bufsize=0, stdin=-1, stdout=-1, stderr=-1
        )
        for command in (INPUT, OUTPUT)
    ]
    try:
        for text, expected in ((b"low lo\n", b"low lo\n"), (b"w\r\n", b"w\n")):
            given = answer(before, text)
            assert given.startswith(b"<FROM_de> <TO_en> ")
            assert answer(behind, given.removeprefix(b"<FROM_de> <TO_en> ")) == expected
        for process in (before, behind):
            process.stdout.close()
            assert process.wait(DEADLINE) == 0
            assert process.stderr.read() == b""
    finally:
        for process in (before, behind):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()


def answer(process, text):
    """Return the lines that a process prints before the deadline."""
    process.stdin.write(text)
    descriptor = process.stdout.fileno()
    return os.read(descriptor, 1 << 16) if select.select([descriptor], [], [], DEADLINE)[0] else b""
