"""What the script `volt` imports. A worker imports the script anew and runs nothing of it, so it is to import next to
nothing; a worker's first line comes sooner by what the commands take to import.
"""

from __future__ import annotations

from volt_cli.silence import end_imports_in_silence


def main() -> None:
    """Run a command."""
    end_imports_in_silence()
    from volt_cli.__main__ import main as run

    run()
