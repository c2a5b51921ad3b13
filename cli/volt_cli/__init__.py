"""The command `volt`: one module per command, for parsing arguments and printing only."""

import os

TYPE_CHECKING = False  # type checkers understand it without an import
if TYPE_CHECKING:
    from typing import NoReturn


def end_in_silence(number: int, frame: object) -> "NoReturn":
    """End the process with the status of an interrupted command: the handler of SIGINT while commands are imported."""
    os._exit(130)
