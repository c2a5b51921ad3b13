"""Laws of starting up: what a process that does little does not load. Seconds: experiments/bench/startup.py."""

import gc
import json
import os
import subprocess
import sys
from functools import cache

import pytest
from support.commands import VOLT, all_commands

import volt
from volt.kernels.warmup import JOBS, compile_kernels
from volt_cli.console import loading

WORKING = {"numpy", "numba", "llvmlite", "polars", "scipy", "zstandard", "yaml", "ot"}
SHOWING = {"altair", "vl_convert", "jinja2"}
PEERS = {"subword_nmt", "sentencepiece", "tokenizers", "tiktoken", "transformers", "torch"}
HEAVY = WORKING | SHOWING | PEERS
COMMANDS = ["" if name == "volt" else name for name in all_commands()]
DEADLINE = 120  # seconds


def modules(*arguments, text=""):
    """Return the modules that a Python process with these arguments imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [
        line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")
    ]
    return {name.strip() for *_, name in lines}


@cache
def at_any_rate():
    """Return the packages that every process of this environment imports."""
    return packages(modules("-c", "pass"))


def packages(names):
    """Return the packages of modules."""
    return frozenset(name.partition(".")[0] for name in names)


def loaded(*arguments):
    """Return the packages that a process imports beyond those of every process."""
    return packages(modules(*arguments)) - at_any_rate()


@pytest.fixture(scope="module")
def encoding(tmp_path_factory):
    """Return the modules that `volt encode` of one line imports, with compiled loops on disk."""
    path = tmp_path_factory.mktemp("startup") / "small.volt"
    vocabulary = volt.Vocabulary(
        merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "low</w>", "ö")
    )
    vocabulary.save(path)
    compile_kernels("encode", "words")
    return modules(*VOLT[1:], "encode", "-m", str(path), text="low löw\n")


def test_importing_volt_loads_the_standard_library_alone():
    """`import volt` imports only the standard library."""
    assert not loaded("-c", "import volt") & (HEAVY | {"typer", "rich", "pydantic"})


def test_commands_are_there_before_anything_heavy_is():
    """The command line imports typer, and no library that computes or prints."""
    assert not loaded("-c", "from volt_cli.app import build_app; build_app()") & (
        HEAVY | {"rich", "pydantic"}
    )


def test_a_worker_of_the_script_loads_no_commands():
    """A spawned worker, which imports the script `volt`, loads no command."""
    assert not modules("-c", "from volt_cli.start import main") & {
        "typer",
        "volt_cli.app",
        "volt_cli.command_help",
    }


def test_the_version_comes_without_the_libraries_that_work():
    """--version imports no library that computes."""
    assert not loaded(*VOLT[1:], "--version") & HEAVY


HELPS = """
import contextlib, io, json, sys
from volt_cli.start import main

for command in json.loads(sys.argv.pop()):
    sys.argv[1:] = [*command.split(), "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        main()
    print(json.dumps([command, "Usage" in shown.getvalue(), sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def test_help_comes_without_the_libraries_that_work():
    """--help of every command imports no library that computes."""
    done = subprocess.run(
        [sys.executable, "-c", HELPS, json.dumps(COMMANDS)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [command for command, *_ in rows] == COMMANDS
    for command, is_shown, packages_then in rows:
        assert is_shown
        assert not (HEAVY & set(packages_then)) - at_any_rate(), command


def test_encoding_a_line_loads_no_library_that_it_does_not_use(encoding):
    """Encoding a short text at white space imports neither numba, Polars, progress bars nor
    pydantic."""
    unused = (SHOWING | PEERS | {"numba", "polars", "rich", "ot", "pydantic"}) & packages(encoding)
    assert not unused - at_any_rate()


def test_a_command_imports_no_other_command(encoding):
    """`volt encode` imports the module of no other command."""
    others = {f"volt_cli.{name}" for name in ("search", "compare", "trial", "stream.commands")}
    assert not encoding & others


LINE = """
from volt.encode.encoder import Encoder
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

vocabulary = Vocabulary((), ("l", "o", "w"), marker="none", special=SpecialTokens(user=("<u>",)), pretokenizer="bytes")
assert Encoder(vocabulary).encode_ids("low<u>low").tolist() == [5, 6, 7, 4, 5, 6, 7]
"""


def test_encoding_a_line_of_bytes_needs_no_data_frames():
    """Encoding bytes imports no Polars once the arrays of the pattern are on disk."""
    loaded("-c", LINE)
    assert "polars" not in loaded("-c", LINE)


def test_encoding_a_line_loads_no_other_work_of_volt(encoding):
    """Encoding imports neither counting, search, streams nor reports."""
    others = {
        "corpus",
        "word_counts",
        "columns",
        "searching",
        "steps",
        "transport",
        "stream",
        "report",
        "comparing",
        "page",
    }
    assert not encoding & {f"volt.{name}" for name in others}


WORK = {
    "encoding": "volt.Encoder(vocabulary).encode_ids('low')",
    "decoding": "volt.Encoder(vocabulary).decode_ids(np.array([4], np.int32))",
    "spans": "volt.Encoder(vocabulary).encode_offsets('low')",
    "counting": "volt.count_words(['text.txt'])",
    "learning": "volt.search(volt.learn_bpe(volt.count_words(['text.txt']), n_merges=2))",
    "a stream": "list(Stream([Source('a', ('text.txt',), epochs=1)]))",
    "dropout": "volt.Encoder(vocabulary).encode_ids('low', dropout=0.5, seed=1)",
}
WITHOUT_NUMBA = """
import sys
import numpy as np
import volt
from volt.stream import Source, Stream
vocabulary = volt.Vocabulary((("l", "o"),), ("l", "o", "w", "lo"), marker="none")
{}
assert not {{"numba", "volt.kernels.compiling"}} & {{*sys.modules}}
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
@pytest.mark.parametrize("work", WORK)
def test_stored_loops_run_without_numba(work, tmp_path):
    """If the loops are on disk, no work imports numba."""
    compile_kernels(*JOBS)
    (tmp_path / "text.txt").write_text("low lower\n" * 20)
    command = [sys.executable, "-c", WITHOUT_NUMBA.format(WORK[work])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr[-2000:]


# What is missing, in each command → the status and the message.
MISSING = {
    "search no": (1, "no: no such file; check the path"),
    "trial no --hours 1": (1, "no: no such file; check the path"),
    "trial here --hours 1 --read much": (
        2,
        "--read 'much': not a number; write a number such as 500M or 2e9",
    ),
    "search no/*.gz": (1, "no/*.gz: no file matches this pattern; check the path"),
    "search here --candidates no": (
        1,
        "no: cannot be read: no such file or directory; check the path",
    ),
    "encode -m no here": (1, "no: cannot be read: no such file or directory; check the path"),
    "encode -m here no": (1, "no: no such file; check the path"),
    "encode -m here broken": (
        1,
        "broken: cannot be read: no such file or directory; check the path",
    ),
    "decode -m no": (1, "no: cannot be read: no such file or directory; check the path"),
    "decode -m here no": (1, "no: no such file; check the path"),
    "inspect -m no": (1, "no: cannot be read: no such file or directory; check the path"),
    "export -m no --to tiktoken -o out": (
        1,
        "no: cannot be read: no such file or directory; check the path",
    ),
    "export -m here --to tiktoken -o out --check no": (1, "no: no such file; check the path"),
    "import no -o out": (1, "no: cannot be read: no such file or directory; check the path"),
    "import here --merges no -o out": (
        1,
        "no: cannot be read: no such file or directory; check the path",
    ),
    "compare no": (1, "no: no such file; check the path"),
    "compare a=here b=no": (1, "no: no such file; check the path"),
    "compare here --heldout no": (1, "no: no such file; check the path"),
    "compare here --sample no": (
        1,
        "no: cannot be read: no such file or directory; check the path",
    ),
    **{
        f"stream {command}": (2, "no: cannot be read: no such file or directory; check the path")
        for command in ("run no", "preview no", "plan no", "audit no", "trace no 1")
    },
    "search here --sizes 1k": (
        2,
        "--sizes '1k': write START:STOP:STEP in tokens, such as 1000:30000:1000",
    ),
}
TELL = """
import io, json, sys
from contextlib import redirect_stderr
from volt_cli import console
from volt_cli.app import main
results = []
for line in json.loads(sys.argv[1]):
    sys.argv = ["volt", *line.split()]
    console.messages.cache_clear()
    with redirect_stderr(io.StringIO()) as said:
        try:
            main()
        except SystemExit as end:
            results.append((end.code, said.getvalue()))
print(json.dumps([results, sorted(sys.modules)]))
"""


def test_what_is_missing_is_reported_before_anything_heavy_is_loaded(tmp_path):
    """Every command reports missing files before it imports a heavy library."""
    (tmp_path / "here").write_text("low lower\n")
    (tmp_path / "broken").symlink_to("nowhere")
    command = [sys.executable, "-c", TELL, json.dumps([*MISSING])]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    message, loaded = json.loads(done.stdout)
    assert [(status, text) for status, text in message] == [
        (code, f"error {text}\n") for code, text in MISSING.values()
    ]
    assert not packages(loaded) & (HEAVY - at_any_rate())


@pytest.mark.parametrize("threads", [None, "3"])
def test_loading_leaves_the_process_as_it_was(monkeypatch, threads):
    """After `loading`, garbage collection and the threads of BLAS are as before."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
    with pytest.raises(ValueError, match="inside"):
        _fail_while_loading(threads or "1")
    gc.unfreeze()
    assert gc.isenabled()
    assert os.environ.get("OPENBLAS_NUM_THREADS") == threads


def _fail_while_loading(threads):
    with loading():
        assert not gc.isenabled()
        assert os.environ["OPENBLAS_NUM_THREADS"] == threads
        raise ValueError("inside")
