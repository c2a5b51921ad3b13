"""The README: its commands and Python examples run from top to bottom, and print what it says."""

import re
import subprocess

import pytest
from support.commands import VOLT, status_of
from support.places import ROOT
from support.snippets import Terminal, agrees, blocks, examples, session

BLOCKS = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
COMMANDS = [
    example.line for block in BLOCKS if block.kind == "console" for example in examples(block.text)
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to a folder with the README's corpus, the topics of pydoc."""
    from pydoc_data.topics import topics

    (tmp_path / "corpus.txt").write_text("\n".join(topics.values()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def test_the_readme_is_short():
    """The README has few lines, because details are on the site."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_links_of_the_readme_lead_somewhere():
    """Links of the README lead to files of the repository and to pages of the site."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 10
    assert not [link for link in links if not (ROOT / link).exists()]


def test_the_readme_shows_commands():
    """The README shows the main commands."""
    assert {line.split("volt ")[1].split()[0] for line in COMMANDS} >= {
        "search",
        "encode",
        "decode",
        "export",
        "stream",
    }


def test_the_readme_test_notices_changed_figures():
    """The comparison of outputs ignores seconds, blanks and ellipses, and notices changed figures
    and words."""
    assert agrees(
        "wrote a.volt\n1,000  tokens  … 2.5 s\n", "1,000 tokens of 9, 31 s\n", "wrote a.volt\n"
    )
    assert not agrees("1,000 tokens\n", "1,001 tokens\n", "")
    assert not agrees("1,000 tokens\n", "1,000 tokens\nand more\n", "")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_readme_works_from_top_to_bottom(folder, capfdbinary, monkeypatch):
    """Each command ends with status 0 and prints what is shown below it; each Python session is a doctest.

    Pictures are drawn by the tests of charts; here they are empty. Speed is measured for a moment.
    """
    monkeypatch.setattr("vl_convert.vegalite_to_png", lambda chart, **options: b"")
    terminal, names = Terminal(capfdbinary), {}
    for block in BLOCKS:
        for example in examples(block.text) if block.kind == "console" else []:
            out, message = terminal.run(example.line)
            assert not example.shown or agrees(example.shown, message, out), (example, out)
        if block.kind == "python":
            names = session(block.text, names)


def test_a_pipeline_in_a_shell(folder):
    """The README's pipeline works between processes."""
    assert status_of(["search", "corpus.txt"]) == 0
    line = next(line for line in COMMANDS if " | volt " in line)
    shell = re.sub(r"(?<![.\w])volt ", " ".join(VOLT) + " ", line)
    done = subprocess.run(shell, shell=True, cwd=folder, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == "an</w> un se en</w> sen ten ce</w> about</w> sub classes</w>\n"
