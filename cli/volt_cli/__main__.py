"""The command line: `volt search`, `encode`, `decode`, `inspect`, `export`, `import`, `demo`, `stream`.

Data goes to stdout, messages to stderr. Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys

import typer

from volt.errors import ConfigError, VoltError
from volt_cli import compare, decode, demo, encode, export, imports, inspect, search, stream
from volt_cli.console import messages

app = typer.Typer(
    name="volt",
    help="Find the subword vocabulary that a corpus deserves, and apply it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("search")(search.search)
app.command("encode")(encode.encode)
app.command("decode")(decode.decode)
app.command("inspect")(inspect.inspect)
app.command("export")(export.export)
app.command("import")(imports.import_)
app.command("compare")(compare.compare)
app.command("demo")(demo.demo)
app.add_typer(stream.app)


@app.callback(invoke_without_command=True)
def top(
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    """Find the subword vocabulary that a corpus deserves, and apply it."""
    if version:
        import volt

        typer.echo(f"volt {volt.__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command; every failure that people can mend ends in one message, never in a traceback."""
    gc.freeze()  # what was imported stays: nobody need look through it, now or when the process ends
    try:
        app()
        sys.stdout.flush()
    except VoltError as error:
        messages().print(f"[bold red]error[/] {_escaped(str(error))}")
        sys.exit(2 if isinstance(error, ConfigError) else 1)
    except KeyboardInterrupt:
        messages().print("[bold red]interrupted[/]")
        sys.exit(130)
    except BrokenPipeError:
        _silence_stdout()
        sys.exit(1)
    except OSError as error:
        _silence_stdout()
        messages().print(f"[bold red]error[/] {_escaped(error.strerror or str(error))}: {error.filename or 'stdout'}")
        sys.exit(1)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _silence_stdout() -> None:
    """Keep Python from failing once more when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
