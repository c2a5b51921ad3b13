"""The site's pages: whatever a reader may type runs, in the order of the page, and prints what is shown."""

import re
import shutil
from collections import Counter
from contextlib import ExitStack
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from support.commands import all_commands, options_of
from support.drawn import DRAWS_ALL
from support.places import ROOT
from support.shell import split
from support.snippets import Terminal, agrees, blocks, examples, session

FOLDER = ROOT / "docs" / "pages"
PAGES = {
    str(path.relative_to(FOLDER)): blocks(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.rglob("*.md"))
}
RUN = {"console", "pycon", "python"}
SHOWN = {"text", "yaml", "json", "toml"}  # with a title, they are files
LONG = {"how-to/compare.md"}  # other systems are trained; tests/comparison does it on less text
TOPICS = "2a95af4ac93f5b71"  # of the Python that the pages were written with: figures are compared with it alone
IS_SAME_CORPUS = sha256("\n".join(topics.values()).encode()).hexdigest()[:16] == TOPICS


def is_here(name):
    """Check whether libraries or programs are installed; their names are separated by ", "."""
    return all(
        " " not in part and bool(find_spec(part) or shutil.which(part)) for part in name.split(", ")
    )


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(name, marks=pytest.mark.campaign if name in LONG else ())
        for name, found in PAGES.items()
        if any(block.kind in RUN for block in found)
    ],
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_page_works_from_top_to_bottom(
    page,
    tmp_path,
    monkeypatch,
    capfdbinary,
):
    """In an empty folder, files are written, commands end with status 0, and what is shown is what comes out.

    Pictures are drawn by the tests of charts; here they are empty. What starts many processes runs only in campaigns:
    a cluster of Ray, once for a page (tests/ext/test_ray.py has one in each run), and the ranks of torchrun.
    """
    monkeypatch.setattr("vl_convert.vegalite_to_png", lambda chart, **options: b"")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    terminal, names = Terminal(capfdbinary), {}
    is_compared = IS_SAME_CORPUS or "pydoc_data" not in (FOLDER / page).read_text(encoding="utf-8")
    with ExitStack() as clusters:
        for block in PAGES[page]:
            if block.needs and not (
                is_here(block.needs) and (DRAWS_ALL or not starts_ranks(block))
            ):
                check_unrun(block)
                continue
            if block.needs == "ray":
                clusters.enter_context(connected())
            if block.file:
                Path(block.file).write_text(block.text, encoding="utf-8")
            elif block.kind == "console":
                for line, shown in examples(block.text):
                    out, message = terminal.run(line)
                    assert not shown or not is_compared or agrees(shown, message, out), (
                        line,
                        message,
                        out,
                    )
            elif block.kind == "pycon":
                names = session(block.text, names)
            elif block.kind == "python":
                exec(compile(block.text, page, "exec"), names)


def starts_ranks(block):
    """Check whether a block starts a cluster or processes that each import torch."""
    return block.needs == "ray" or (block.needs, block.kind) == ("torch", "console")


def connected():
    """Start a cluster of Ray if none is in use."""
    from volt.ext.ray_cluster import connected

    return connected()


def check_unrun(block):
    """Check a block that cannot run here: Python compiles, and options of volt exist."""
    if block.kind == "console":
        for example in examples(block.text):
            for program in split(example.line):
                assert unknown_options(program.words) == []
    else:
        compile(block.text, block.title, "exec")


def unknown_options(words):
    """The options of a call of volt that it does not have.

    >>> unknown_options(["volt", "stream", "run", "a.yaml", "--limits", "3"])
    ['--limits']
    """
    known = options_of(words[1:])
    return [
        word
        for word in words
        if words[0] == "volt" and word.startswith("-") and word not in {*known, "-"}
    ]


def test_the_options_that_pages_name_exist():
    """Every option after a command's name, in blocks and sentences, is an option of the command."""
    root, n_seen = all_commands()["volt"], 0
    for path in [ROOT / "README.md", *FOLDER.rglob("*.md")]:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for words, options in re.findall(r"\bvolt ((?:stream )?[a-z-]+)\b([^\n`|;&>#]*)", text):
            command = root
            for word in words.split():
                command = getattr(command, "commands", {}).get(word, command)
            known = {
                "-h",
                "--help",
                *(name for parameter in command.params for name in parameter.opts),
            }
            found = (
                re.findall(r"(?<!\S)(--[a-z][\w-]*|-[a-zA-Z](?!\S))", options)
                if command is not root
                else []
            )
            assert set(found) <= known, f"{path.name}: volt {words}: {found}"
            n_seen += len(found)
    assert n_seen > 100


def test_few_blocks_cannot_run_here():
    """Few blocks need what no extra of the project installs."""
    found = Counter(block.needs for page in PAGES.values() for block in page if block.needs)
    assert found.keys() <= {
        "torch",
        "lightning",
        "marian",
        "fairseq",
        "sotastream",
        "sotastream, pigz",
        "a bucket",
        "ray",
    }
    assert found.total() <= 16
    assert (
        sum(
            len(examples(block.text))
            for page in PAGES.values()
            for block in page
            if block.kind == "console"
        )
        > 100
    )


def test_every_fence_is_of_a_known_kind():
    """No block escapes the tests by its language."""
    kinds = {block.kind for page in PAGES.values() for block in page}
    fences = sum(path.read_text(encoding="utf-8").count("```") for path in FOLDER.rglob("*.md"))
    assert kinds <= RUN | SHOWN
    assert fences == 2 * sum(map(len, PAGES.values()))


def test_pages_speak_of_no_machine():
    """Pages have no absolute path of a home or work folder, and load nothing from elsewhere."""
    for path in FOLDER.rglob("*.md"):
        assert not re.search(
            r"(?<![\w.~])/(?:home|root|work|tmp|Users)\b|localhost",
            path.read_text(encoding="utf-8"),
        ), path
