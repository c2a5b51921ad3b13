"""Options of Ray and of memory, without a cluster."""

import os
import subprocess
import sys

import pytest
from support.places import ROOT

from volt import Vocabulary


def without_ray(*arguments):
    """Return the exit status and the last line of a command without Ray."""
    code = f"import sys; sys.modules['ray'] = None; sys.argv = ['volt', *{arguments!r}]; import volt_cli.__main__ as v"
    code += "; v.main()"
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("low lower newest\n" * 9)
    return str(path)


def test_a_missing_library_is_named_with_its_extra(text):
    """--engine ray without Ray gives one line with the command that installs it."""
    expected = (1, "error ray is not installed; pip install 'volt-vocab[ray]'")
    assert without_ray("search", text, "--engine", "ray") == expected


def test_an_address_needs_the_engine(run):
    """--address is refused without --engine ray."""
    message = "--address works only with --engine ray; add --engine ray, or remove --address"
    assert run("search corpus.txt --address auto", status=2).message == f"error {message}\n"


def test_inputs_that_workers_cannot_read_are_refused(text, tmp_path, run):
    """--engine ray refuses stdin, which workers cannot read, before it starts a cluster."""
    pytest.importorskip("ray", reason="needs ray: make ray")
    model = str(tmp_path / "a.volt")
    Vocabulary((("l", "o"),), ("l", "o", "lo")).save(model)
    fault = "stdin: workers read only files; write its lines to a file, and give the file's path"
    for command in (
        "search -",
        f"encode - -m {model} -o {tmp_path}/b",
        f"binarize - -m {model} -o {tmp_path}/b",
    ):
        message = run(f"{command} --engine ray", status=2).message
        assert message.splitlines()[-1] == f"error {fault}"
