"""The entry point of the script `volt`.

It imports next to nothing, because worker processes import it anew.
"""

from __future__ import annotations

from volt_cli.interrupts import end_imports_in_silence


def main() -> None:
    """Run a command."""
    end_imports_in_silence()
    from volt_cli.app import main as run

    run()
