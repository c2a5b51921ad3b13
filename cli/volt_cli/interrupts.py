"""End the process silently on Ctrl-C before and after a command."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # importing signal takes longer, and Ctrl-C would print a traceback
import os

TYPE_CHECKING = False  # type checkers understand it without an import
if TYPE_CHECKING:
    from typing import NoReturn


def end_imports_in_silence() -> None:
    """Let Ctrl-C end the process silently, unless the process ignores SIGINT."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, end_in_silence)


def end_in_silence(number: int, frame: object) -> NoReturn:
    os._exit(130)
