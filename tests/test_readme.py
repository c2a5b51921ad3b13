"""The README: its commands and Python examples run from top to bottom, and print what it says."""

from __future__ import annotations

import doctest
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from commands import VOLT, status_of
from places import ROOT
from shell import run_line

README = ROOT / "README.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Example(NamedTuple):
    """A command, and what the README shows below it, if anything."""

    line: str
    shown: str


def examples(block: str) -> list[Example]:
    """The commands of a console session, in order."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [Example(*part.partition("\n")[::2]) for part in parts]


COMMANDS = [example.line for kind, text in BLOCKS if kind == "console" for example in examples(text)]


def agrees(shown: str, *streams: str) -> bool:
    """Whether a terminal shows what the README does: seconds and blanks aside, and with anything for an ellipsis."""
    want = _timeless(shown).replace("…", "...")
    either = ("".join(streams), "".join(reversed(streams)))
    return any(doctest.OutputChecker().check_output(want, _timeless(text), FLAGS) for text in either)


def _timeless(text: str) -> str:
    return re.sub(r"\b\d+(\.\d+)? ?(s|seconds)\b", "0 s", text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the corpus that the README speaks of: the topics of pydoc."""
    from pydoc_data.topics import topics

    (tmp_path / "corpus.txt").write_text("\n".join(topics.values()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def test_there_are_commands() -> None:
    """The README shows the main commands."""
    assert {line.split()[1] for line in COMMANDS} >= {"search", "encode", "decode", "inspect"}


def test_what_differs_is_noticed() -> None:
    """Seconds, blanks and what an ellipsis leaves out may differ; a figure or a word may not."""
    assert agrees("wrote a.volt\n1,000  tokens  … 2.5 s\n", "1,000 tokens of 9, 31 s\n", "wrote a.volt\n")
    assert not agrees("1,000 tokens\n", "1,001 tokens\n", "")
    assert not agrees("1,000 tokens\n", "1,000 tokens\nand more\n", "")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_it_works_from_top_to_bottom(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command ends with status 0 and prints what is shown below it; each Python session is a doctest.

    Pictures are drawn by the tests of charts; here they are empty. Speed is measured for a moment.
    """
    monkeypatch.setattr("vl_convert.vegalite_to_png", lambda chart, **options: b"")
    told = list[bytes]()

    def volt(arguments: list[str], stdin: bytes) -> bytes:
        status = status_of(arguments, stdin=stdin)
        out, err = capfdbinary.readouterr()
        assert status == 0, err.decode()
        told.append(err)
        return out

    names = dict[str, object]()
    for kind, text in BLOCKS:
        for example in examples(text) if kind == "console" else []:
            told.clear()
            out = run_line(example.line.replace("stream plan ", "stream plan --seconds 0.5 "), volt).decode()
            assert not example.shown or agrees(example.shown, b"".join(told).decode(), out), (example, out)
        if kind == "python":
            names = session(text, names)


def test_what_needs_torch_runs(folder: Path) -> None:
    """The examples for PyTorch, behind the commands that make their files."""
    pytest.importorskip("torch")
    assert status_of(["stream", "example", "batches", "-o", "steps"]) == 0
    texts = [text for kind, text in BLOCKS if kind == "py"]
    for text in texts:
        exec(compile(text, "README", "exec"), {})
    assert texts


def session(text: str, names: dict[str, object]) -> dict[str, object]:
    """Run a Python session as a doctest that begins with some names; the names at its end."""
    test = doctest.DocTestParser().get_doctest(text, names, "README", str(README), 0)
    report = list[str]()
    results = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    assert results.attempted
    assert not results.failed, "".join(report)
    return test.globs


def test_a_pipeline_in_a_shell(folder: Path) -> None:
    """The README's pipeline through gzip works between processes too, as a shell starts them."""
    line = next(line for line in COMMANDS if line.startswith("gzip "))
    shell = re.sub(r"(?<![.\w])volt ", " ".join(VOLT) + " ", line)
    done = subprocess.run(shell, shell=True, cwd=folder, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    assert (folder / "stdin.volt").exists()
