"""The entry point of the script `volt`.

It imports almost nothing, because every worker process imports it again.
"""

from __future__ import annotations

from volt_cli.interrupts import end_imports_in_silence


def main() -> None:
    end_imports_in_silence()
    from volt_cli.app import main as run

    run()
