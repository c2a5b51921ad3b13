"""SECURITY.md names all modules that run code, unpickle bytes or reach the network."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import volt
from volt.text.pretokenizer import PreTokenizer

ROOT = Path(__file__).parent.parent
FILES = sorted([*ROOT.glob("volt/**/*.py"), *ROOT.glob("cli/volt_cli/**/*.py")])
MTDATA = "volt/stream/config/presets.py"
NETWORK = {"socket", "ssl", "urllib", "http", "ftplib", "smtplib", "requests", "httpx", "aiohttp"}
NETWORK |= {"fsspec", "s3fs", "gcsfs", "huggingface_hub"}
REMOTE = "volt/files/remote.py"
CLUSTER, WATCH = "volt/ext/ray_cluster.py", "volt/ext/ray_cleanup.py"
UNPICKLING = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}


def names(tree):
    """Return imported packages, called names and attributes, and keywords of calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {alias.name.partition('.')[0]}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"import {(node.module or '').partition('.')[0]}"
        elif isinstance(node, ast.Call):
            yield (
                f"{node.func.id}()"
                if isinstance(node.func, ast.Name)
                else ast.unparse(node.func).split("(")[-1]
            )
            yield from (f"{keyword.arg}=" for keyword in node.keywords if keyword.arg)


@cache
def names_by_file():
    """Return the names that each file uses."""
    return {
        path.relative_to(ROOT).as_posix(): set(names(ast.parse(path.read_text(encoding="utf-8"))))
        for path in FILES
    }


@pytest.mark.parametrize(
    ("used", "where"),
    [
        (
            {"exec()", "eval()", "compile()", "__import__()"},
            {"volt/stream/transforms/user_file.py"},
        ),
        (
            {f"import {name}" for name in UNPICKLING},
            {"volt/stream/running/processes.py", "volt/ext/torch.py"},
        ),
        ({"allow_pickle=", "np.load", "numpy.load"}, set()),
        ({"yaml.load", "yaml.unsafe_load", "yaml.full_load"}, set()),
        ({"import zipfile", "import tarfile", "shutil.unpack_archive"}, set()),
        ({"shell=", "os.system", "os.popen"}, set()),
        (
            {"import subprocess"},
            {
                "volt/comparison/library_training.py",
                "volt/kernels/warmup.py",
                "volt/trial/processes.py",
                MTDATA,
                WATCH,
            },
        ),
        ({f"import {name}" for name in NETWORK}, {REMOTE, CLUSTER}),
    ],
    ids=["code", "pickle", "numpy", "yaml", "archives", "shell", "processes", "network"],
)
def test_what_can_run_code_is_where_security_md_says(used: set[str], where: set[str]) -> None:
    """Only the listed modules can run code from files, or reach the network."""
    assert {path for path, found in names_by_file().items() if found & used} == where


def test_processes_import_nothing_from_the_current_folder():
    """Python processes start with -P or -I, so a torch.py in the current folder is not run."""
    commands = [
        node.elts
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.List)
        and node.elts
        and ast.unparse(node.elts[0]) == "sys.executable"
    ]
    options = [ast.literal_eval(command[1]) for command in commands]
    assert len(options) >= 4
    assert {*options} <= {"-P", "-I"}


def test_a_pattern_of_a_vocabulary_takes_no_exponential_time():
    """A pattern that takes Python's engine 2^200 steps splits at once."""
    cutting = PreTokenizer.parse("regex:(a+)+$|.")
    counts = volt.WordCounts.from_pairs({"aab": 3, "ab": 5})
    found = volt.search(volt.learn_bpe(counts, n_merges=2), sizes=[3, 4]).vocabulary
    assert len(volt.Encoder(replace(found, pretokenizer=cutting)).encode("a" * 200 + "b")) == 201


def test_security_md_names_those_modules():
    """SECURITY.md names each module that may run code, and the option that refuses user code."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    modules = (
        "volt/stream/transforms/user_file.py",
        "volt/stream/running/processes.py",
        "volt/ext/torch.py",
        MTDATA,
        REMOTE,
        CLUSTER,
        WATCH,
    )
    for message in (*modules, "--no-user-code", "--trust"):
        assert message in text
