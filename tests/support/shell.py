"""A command line as people type it, with `volt` run in this process: pipes, `<` and `>`, and no
more of a shell.

>>> split("a 'b c' < in | d > out")
[Program(words=['a', 'b c'], source='in', target=''), Program(words=['d'], source='', target='out')]
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Program(NamedTuple):
    """A part of a pipeline: its words, and the files that it reads from and writes to."""

    words: list[str]
    source: str = ""
    target: str = ""


def split(line):
    """Return the programs of a pipeline."""
    return [_program(part) for part in re.split(r"\s\|\s", line)]


def _program(text):
    words = []
    source = ""
    target = ""
    found = iter(shlex.split(text))
    for word in found:
        if word == "<":
            source = next(found)
        elif word == ">":
            target = next(found)
        else:
            words.append(word)
    return Program(words, source, target)


def run_line(line, volt):
    """Run the programs of a line one after the other, and return what reaches stdout.

    A program before `head` runs at the same time as `head`, and may be endless.

    volt: the function that runs `volt`: arguments, stdin → stdout
    """
    data = b""
    programs = split(line)
    for number, program in enumerate(programs):
        if program.source:
            data = Path(program.source).read_bytes()
        name, *arguments = program.words
        followers = (words for words, *_ in programs[number + 1 : number + 2])
        limit = next((words for words in followers if words[0] == "head"), None)
        if name == "volt":
            data = volt(arguments, data)
        else:
            data = _run([_found(name), *arguments], data, limit)
        if program.target:
            Path(program.target).write_bytes(data)
            data = b""
    return data


def _found(name):
    """Return the path of a program; one that is installed beside this Python comes first."""
    if name == "python":
        return sys.executable
    return shutil.which(name, path=Path(sys.executable).parent) or name


def _run(words, data, limit):
    """Return what a program prints, or its first lines, after which the program is ended."""
    if limit is None:
        done = subprocess.run(words, input=data, capture_output=True, timeout=120)
        assert done.returncode == 0, (words, done.stderr.decode())
        return done.stdout
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as program:
        head = subprocess.run(limit, stdin=program.stdout, capture_output=True, timeout=120)
        program.terminate()
    assert head.stdout, words
    return head.stdout
