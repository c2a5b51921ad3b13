"""The notebooks: they run as they are, show what they say, and nothing of the machine that ran them."""

import ast
import copy
import importlib.util
import platform
import re
import sys
from functools import cache

import pytest
from support.places import ROOT

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
IMPORTED = {"volt", "polars", "IPython", "vl_convert", "pathlib", "tempfile", "pydoc_data"}
IMPORTED |= {"collections", "itertools", "json", "sys", "experiments"}
PRIVATE = re.compile(
    r"/(?:tmp|home|root|work|usr|opt|var|Users|private)\b|[A-Z]:\\|https?://|localhost|127\.0\.0\.1"
)
named = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def _execute():
    spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _committed(path):
    return nbformat.read(path, as_version=4)


def _is_current(path):
    """Check whether a notebook's outputs belong to its sources; if so, it runs only in campaigns."""
    return bool(_committed(path).metadata.get("sources") == _execute().digest(_committed(path)))


def _code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _texts(notebook):
    """Return the text output of each code cell; pictures become a word."""
    return [[_text(output) for output in cell.outputs] for cell in _code(notebook)]


def _text(output):
    if output.output_type == "stream":
        return str(output.text)
    return str(output.data.get("text/markdown", output.data["text/plain"]))


def test_there_are_notebooks():
    """The folder has notebooks."""
    names = ["01-quickstart", "02-choosing-a-size", "03-streams", "04-steps", "05-evidence"]
    assert [path.stem for path in NOTEBOOKS] == names


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.campaign if _is_current(path) else [])
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the kernel's client
def test_runs_and_shows_what_was_committed(path, tmp_path, monkeypatch):
    """Every cell runs before the deadline; under the same Python, outputs are equal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VOLT_DATA", raising=False)
    ran, committed = _execute().executed(path), _committed(path)
    assert [len(texts) for texts in _texts(ran)] == [len(texts) for texts in _texts(committed)]
    if platform.python_version() == committed.metadata.language_info.version:
        assert _texts(ran) == _texts(committed)
    assert not list(tmp_path.iterdir())


@named
def test_outputs_are_committed(path):
    """Cells were run in order, without errors or warnings, and show pictures."""
    assert _is_current(path), f"run python notebooks/execute.py {path.name}"
    cells = _code(_committed(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"stream", "execute_result"}
    assert all(output.name == "stdout" for output in outputs if output.output_type == "stream")
    assert any("image/png" in output.get("data", {}) for output in outputs)


@named
def test_nothing_of_the_machine_is_in_it(path):
    """Outputs, metadata and sources have no absolute path, host name or address."""
    notebook = copy.deepcopy(_committed(path))
    for cell in _code(notebook):
        for output in cell.outputs:
            output.get("data", {}).pop("image/png", None)
    text = nbformat.writes(notebook)
    assert not PRIVATE.findall(text)
    assert len(platform.node()) < 4 or platform.node() not in text
    assert set(notebook.metadata) == {"kernelspec", "language_info", "sources"}
    assert all(not cell.metadata for cell in notebook.cells)


@named
def test_volt_does_the_work(path):
    """Notebooks import VOLT and libraries that show results."""
    tree = ast.parse("\n".join(cell.source for cell in _code(_committed(path))))
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= IMPORTED


def test_parts_of_a_stream_are_joined():
    """Consecutive outputs of one stream are joined."""
    made = [
        nbformat.v4.new_output("stream", name=name, text=text)
        for name, text in (("stdout", "a"), ("stdout", "b"), ("stderr", "c"))
    ]
    assert [output.text for output in _execute().joined(made)] == ["ab", "c"]


def test_python_is_recorded():
    """The metadata name the version of Python."""
    versions = {_committed(path).metadata.language_info.version for path in NOTEBOOKS}
    assert len(versions) == 1
    assert sys.version_info.major == int(versions.pop().split(".")[0])
