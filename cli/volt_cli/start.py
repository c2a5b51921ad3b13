"""The entry point of the script `volt`.

A worker process imports the script anew and runs nothing of it, so this module imports next to nothing.
"""

from __future__ import annotations

from volt_cli.silence import end_imports_in_silence


def main() -> None:
    """Run a command."""
    end_imports_in_silence()
    from volt_cli.app import main as run

    run()
