"""stdin, stdout and stderr as commands need them, however the process was started.

Python leaves out what was closed at the start, as some services close them, and the next file that is opened would take
its number, so that messages would go into it. Python without buffers, as with -u, writes only a part where a disk is
nearly full, and does not say so.
"""

from __future__ import annotations

import io
import os
import sys

_MODES = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)  # the first two so that using what was closed fails, in words


def prepare_standard_files() -> None:
    """Take the numbers of what was closed, and give stdout a buffer."""
    for number, mode in enumerate(_MODES):
        if _is_closed(number):
            os.dup2(os.open(os.devnull, mode), number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or _text(2)
    bare = isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase)
    sys.stdout = _text(1) if bare or sys.stdout is None else sys.stdout


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False


def _text(number: int) -> io.TextIOWrapper:
    """A text file with a buffer, which writes all or fails."""
    whole = io.BufferedWriter(io.FileIO(number, "wb", closefd=False))
    return io.TextIOWrapper(whole, "utf-8", "backslashreplace" if number == 2 else "strict", line_buffering=True)
