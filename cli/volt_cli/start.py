"""What the script `volt` imports. A worker imports the script anew and runs nothing of it, so it is to import next to
nothing; a worker's first line comes sooner by what the commands take to import.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports more, and Ctrl-C would print a traceback meanwhile

from volt_cli import end_in_silence


def main() -> None:
    """Run a command. Ctrl-C ends the process at once and in silence, until the command can say so."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # but for a job that ignores it
        _signal.signal(_signal.SIGINT, end_in_silence)
    from volt_cli.app import main as run

    run()
