"""Run what pages show: commands, sessions and files in Markdown, run from top to bottom in one
folder.

    ```console      commands behind "$ ", and below each what it prints, if that is shown
    ```pycon        a Python session, which is a doctest; a page's sessions share their names
    ```python       a script, whose names a page's sessions share, too
    title="a.yaml"  a file, whatever its kind
    title="needs X" what cannot run here, for want of X

>>> [(block.kind, block.title, block.text) for block in blocks('    ```yaml title="a.yaml"\\n    a: 1\\n    ```\\n')]
[('yaml', 'a.yaml', 'a: 1\\n')]
>>> examples("$ volt a \\\\\\n    -b\\nshown\\n$ volt c\\n")
[Example(line='volt a -b', shown='shown\\n'), Example(line='volt c', shown='')]
"""

from __future__ import annotations

import doctest
import re
from textwrap import dedent
from typing import NamedTuple

from support.commands import status_of
from support.shell import run_line

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
FENCE = re.compile(
    r"^( *)```(\w+)(?: title=\"([^\"]*)\")?[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """The text between fences."""

    kind: str
    title: str
    text: str

    @property
    def needs(self):
        """Return what is missing on this machine, or nothing."""
        return self.title.removeprefix("needs ") if self.title.startswith("needs ") else ""

    @property
    def file(self):
        """Return the name of the file that a block holds, or nothing."""
        return self.title if re.fullmatch(r"[\w/-]+\.\w+", self.title) else ""


class Example(NamedTuple):
    """A command, and the output shown below it, if any."""

    line: str
    shown: str


def blocks(markdown):
    """Return the fenced blocks of a page, in order."""
    return [Block(kind, title, dedent(text)) for _, kind, title, text in FENCE.findall(markdown)]


def examples(console):
    """Return the commands of a console session, in order."""
    parts = re.split(r"^\$ ", re.sub(r" *\\\n\s*", " ", console), flags=re.MULTILINE)[1:]
    return [Example(*part.partition("\n")[::2]) for part in parts]


def agrees(shown, *streams):
    """Check whether printed text matches a page, apart from seconds, blanks and ellipses."""
    want = _timeless(shown).replace("…", "...")
    either = ("".join(streams), "".join(reversed(streams)))
    return any(
        doctest.OutputChecker().check_output(want, _timeless(text), FLAGS) for text in either
    )


def _timeless(text):
    text = re.sub(r"^seconds .*$", "seconds", text, flags=re.MULTILINE)  # of each phase
    return re.sub(r"\b\d+(\.\d+)? ?(s|seconds)\b", "0 s", text)


class Terminal:
    """Runs command lines in the current folder, with volt in this process, and remembers what they
    print.
    """

    def __init__(self, captured):
        self._captured = captured
        self._told = []

    def run(self, line):
        """Return what a command line prints on stdout and stderr; each `volt` must end with status
        0."""
        self._told.clear()
        out = run_line(line.replace("stream plan ", "stream plan --seconds 0.5 "), self._volt)
        return out.decode(), b"".join(self._told).decode()

    def _volt(self, arguments, stdin):
        status = status_of(arguments, stdin=stdin)
        out, err = self._captured.readouterr()
        assert status == 0, (arguments, err.decode())
        self._told.append(err)
        return out


def session(text, names):
    """Run a Python session as a doctest with some names, and return its names."""
    test = doctest.DocTestParser().get_doctest(text, names, "session", None, 0)
    report = []
    results = doctest.DocTestRunner(optionflags=FLAGS).run(
        test, out=report.append, clear_globs=False
    )
    assert results.attempted
    assert not results.failed, "".join(report)
    return test.globs
