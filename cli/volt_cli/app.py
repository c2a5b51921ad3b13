"""The command line: `volt search`, `encode`, `decode`, `stream`, …

Data goes to stdout, messages to stderr. Exit status: 0 done, 1 failed, 2 wrong usage, 130
interrupted, 143 or 129 ended by SIGTERM or SIGHUP. If the reader of stdout stops early, as `head`
does, the command ends silently with 0.
"""

from __future__ import annotations

import gc
import os
import platform
import sys
import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from volt.errors import ConfigError, VoltError, shown_path
from volt_cli.command_help import add_commands, group
from volt_cli.console import messages, say, warn
from volt_cli.options import flag, name_options, option, show_as_option
from volt_cli.signals_and_stdio import Ended, ended_by_signals, prepare_standard_files

MODULES = {  # the function of each command → its module; "stream" is a group of commands
    "search": "search",
    "trial": "trial",
    "encode": "encode",
    "binarize": "binarize",
    "decode": "decode",
    "inspect": "inspect",
    "export": "export",
    "import_": "import_vocabulary",
    "compare": "compare",
    "shrink": "shrink",
    "shard": "shard",
    "translate_input": "translate_input_output",
    "translate_output": "translate_input_output",
    "demo": "demo",
    "warmup": "warmup",
    "stream": "stream.commands",
}
LIBRARIES = ("numba", "llvmlite", "numpy", "scipy", "polars")


def describe_installation() -> str:
    """Return the versions of VOLT, Python and libraries, and the processor, for a bug report."""
    import volt

    python = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    usable = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    rows = {"python": python, **{name: _version(name) for name in LIBRARIES}}
    rows["cpu"] = f"{_processor()}, {usable} of {os.cpu_count()} cores"
    return "\n".join(
        [f"volt {volt.__version__}", *(f"{name:9} {text}" for name, text in rows.items())]
    )


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """Return the name of the processor, from Linux's list or from Python."""
    try:
        rows = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        rows = []
    names = [
        row.partition(":")[2].strip()
        for row in rows
        if row.startswith(("model name", "Processor", "uarch"))
    ]
    return next(filter(None, names), "") or platform.processor() or platform.machine() or "unknown"


def top(
    version: Annotated[
        bool, flag("Show versions and the machine's properties, and exit.", "--version")
    ] = False,
    patience: Annotated[
        str | None,
        option(
            "TIME",
            "How long a failing server is retried: 30s, 10m or 2h; default: 5m.",
            "--retry-for",
        ),
    ] = None,
) -> None:
    """Find the subword vocabulary that a corpus deserves, and apply it."""
    if patience is not None:
        from volt.files.retries import retry_for

        retry_for(patience)
    if version:
        typer.echo(describe_installation())
        raise typer.Exit


def build_app(*names: str) -> typer.Typer:
    """Return the command line with some commands; without names, with all.

    names: keys of `MODULES`
    """
    app = group(
        "volt",
        "Find the subword vocabulary that a corpus deserves, and apply it.",
        add_completion=True,
    )
    app.callback(invoke_without_command=True)(top)
    for name in names or MODULES:
        module = import_module(f"volt_cli.{MODULES[name]}")
        if name == "stream":
            app.add_typer(module.app)
        else:
            add_commands(app, getattr(module, name))
    return app


def _invoked() -> list[str]:
    """Return the command of this process, which alone is imported; none if an option comes first."""
    function_names = {name.strip("_").replace("_", "-"): name for name in MODULES}
    return [function_names[name] for name in sys.argv[1:2] if name in function_names]


def main() -> None:
    """Run a command; report a failure that users can fix in one message."""
    app = build_app(*_invoked())
    gc.freeze()  # imported objects stay: the garbage collector need not examine them, now or at exit
    # Commands report it themselves.
    warnings.filterwarnings("ignore", message="volt compiles its loops")
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    prepare_standard_files()
    try:
        with ended_by_signals():
            status = app(prog_name="volt", standalone_mode=False)
            sys.stdout.flush()
    except TyperException as error:
        status = _report_usage(error)
    except VoltError as error:
        text = name_options(error.text(show_as_option))
        status = _report(text, 2 if isinstance(error, ConfigError) else 1)
    except KeyboardInterrupt:
        status = 130
    except Ended as end:
        _silence_stdout()
        messages().print(f"[bold red]ended[/] by {end.name}")
        status = int(end.code or 0)
    except (BrokenPipeError, SystemExit) as end:
        # typer and rich end the process with 1 when a pipe is closed
        if BrokenPipeError not in (type(end), type(end.__context__)):
            raise
        _silence_stdout()
        status = 0
    except OSError as error:
        _silence_stdout()
        status = _report(f"{error.strerror or error}: {shown_path(error.filename or 'stdout')}", 1)
    if status == 130:
        messages().print("[bold red]interrupted[/]")
    sys.exit(status)


def _show_warning(message: Warning | str, *_: object) -> None:
    if not {"-q", "--quiet"} & set(sys.argv):
        warn(name_options(str(message)))


def _report(text: str, status: int) -> int:
    say(text, mark="error", style="bold red")
    return status


def _report_usage(error: TyperException) -> int:
    text = error.format_message().replace("Value error, ", "")
    if not text:
        return error.exit_code
    say(text, mark="error", style="bold red")
    context = getattr(error, "ctx", None)
    if context is not None:
        say(f"see {context.command_path} --help")
    return error.exit_code


def _silence_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
