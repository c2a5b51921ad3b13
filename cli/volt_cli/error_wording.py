"""Reword the library's errors for users of the command line.

For example, "pass errors='replace'" becomes "pass --encoding-errors replace".

An error of the library names the argument that solves the problem, either as its `hint` or within
its text.
"""

from __future__ import annotations

import sys

# Argument of the library → its option, where the names differ.
_OPTIONS = {
    "errors": "encoding-errors",
    "format": "from",
    "keep_atoms": "drop-atoms",
    "n_merges": "candidates",
    "unit": "parity-unit",
}


def show_as_option(argument: str, value: object) -> str:
    """Return the command-line option for an argument of the library.

    >>> show_as_option("errors", "replace"), show_as_option("keep_atoms", False)
    ('--encoding-errors replace', '--drop-atoms')
    >>> show_as_option("accept", ["data", "weights"])
    '--accept data --accept weights'
    """
    option = f"--{_OPTIONS.get(argument, argument).replace('_', '-')}"
    if isinstance(value, bool):
        return option
    values = value if isinstance(value, list) else [value]
    return " ".join(f"{option} {each}" for each in values)


def name_options(message: str) -> str:
    """Replace the advice that names an argument of the library by advice that names an option."""
    trust = "remove --no-user-code" if "--no-user-code" in sys.argv else "add --trust"
    options = {
        "export it closed": "add --closed",
        "requires a file of merges": "requires --merges FILE",
        "raise max_line": "raise --max-line",
        "raise retry_for": "retry longer: volt --retry-for 1h",
        "retry_for is ": "--retry-for is ",
        "then trust it (user_code)": f"then {trust}",
        "has no value; set ": "has no value; give --set ",
        "; find one on your corpus": "; find one with `volt search CORPUS -o NAME.volt`",
    }
    for advice, option in options.items():
        message = message.replace(advice, option)
    return message
