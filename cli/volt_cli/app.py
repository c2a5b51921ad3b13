"""The command line: `volt search`, `encode`, `binarize`, `decode`, `inspect`, `export`, `import`, `compare`, …

Data goes to stdout, messages to stderr. Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 or 129 ended
by SIGTERM or SIGHUP. When the reader of stdout stops early, as `head` does, the command ends silently with 0.

`volt --version` prints what a bug report needs. Versions come from package metadata, without importing the libraries.
"""

from __future__ import annotations

import gc
import os
import platform
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from volt.errors import ConfigError, VoltError, shown_path
from volt_cli import (
    binarize,
    commands,
    compare,
    decode,
    demo,
    encode,
    export_import,
    inspect,
    search,
    shard,
    shrink,
    translate,
    warmup,
)
from volt_cli.console import messages, say
from volt_cli.options import as_option
from volt_cli.process import Ended, ended_by_signals, prepare_standard_files
from volt_cli.stream import commands as stream

LIBRARIES = ("numba", "llvmlite", "numpy", "scipy", "polars")


def described() -> str:
    """Return VOLT's version on the first line, then Python, libraries and processor."""
    import volt

    python = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    rows = {"python": python, **{name: _version(name) for name in LIBRARIES}, "cpu": _processor()}
    return "\n".join([f"volt {volt.__version__}", *(f"{name:9} {text}" for name, text in rows.items())])


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """Return the processor's model, and how many cores this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{_model()}, {usable} of {os.cpu_count()} cores"


def _model(table: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name, from the table on Linux, elsewhere from Python.

    >>> _model(Path("nowhere")) != ""
    True
    """
    try:
        rows = table.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        rows = []
    names = [row.partition(":")[2].strip() for row in rows if row.startswith(("model name", "Processor", "uarch"))]
    return next(filter(None, names), "") or platform.processor() or platform.machine() or "unknown"


app = commands.group("volt", "Find the subword vocabulary that a corpus deserves, and apply it.", add_completion=True)
commands.add(app, "search", search.search)
commands.add(app, "encode", encode.encode)
commands.add(app, "binarize", binarize.binarize)
commands.add(app, "decode", decode.decode)
commands.add(app, "inspect", inspect.inspect)
commands.add(app, "export", export_import.export)
commands.add(app, "import", export_import.import_)
commands.add(app, "compare", compare.compare)
commands.add(app, "shrink", shrink.shrink)
commands.add(app, "shard", shard.shard)
commands.add(app, "translate-input", translate.translate_input)
commands.add(app, "translate-output", translate.translate_output)
commands.add(app, "demo", demo.demo)
commands.add(app, "warmup", warmup.warmup)
app.add_typer(stream.app)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Show versions and this machine, and exit.")] = False,
) -> None:
    """Find the subword vocabulary that a corpus deserves, and apply it."""
    if version:
        typer.echo(described())
        raise typer.Exit


def main() -> None:
    """Run a command; every failure that users can fix ends in one message, not in a traceback."""
    gc.freeze()  # what was imported stays: nobody need look through it, now or when the process ends
    warnings.filterwarnings("ignore", message="volt compiles its loops")  # commands report it themselves
    prepare_standard_files()
    try:
        with ended_by_signals():
            status = app(prog_name="volt", standalone_mode=False)
            sys.stdout.flush()
    except TyperException as error:
        status = _report_usage(error)
    except VoltError as error:
        status = _report(error.text(as_option), 2 if isinstance(error, ConfigError) else 1)
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        _silence_stdout()
        status = 0
    except Ended as end:
        _silence_stdout()
        messages().print(f"[bold red]ended[/] by {end.name}")
        status = int(end.code or 0)
    except SystemExit as end:  # typer and rich end the process themselves, with 1, when a pipe is closed
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        _silence_stdout()
        status = 0
    except OSError as error:
        _silence_stdout()
        status = _report(f"{error.strerror or error}: {shown_path(error.filename or 'stdout')}", 1)
    if status == 130:
        say("", mark="interrupted", style="bold red")
    sys.exit(status)


def _report(text: str, status: int) -> int:
    """Print an error; return the exit status."""
    say(text, mark="error", style="bold red")
    return status


def _report_usage(error: TyperException) -> int:
    """Print what is wrong with a command line; return the exit status. Prints nothing if the help has been printed."""
    context, text = getattr(error, "ctx", None), error.format_message().replace("Value error, ", "")
    if text:
        _report(text, error.exit_code)
    if text and context is not None:
        say(f"{context.command_path} --help tells how it is used")
    return error.exit_code


def _silence_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
