"""A small file, read at once: its path → its bytes or its text, or an error with the file, the line and the remedy.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile() as file:
...     _ = file.write("lō\\n".encode()) and file.flush()
...     read_text(file.name, kind=VoltError)
'lō\\n'
"""

from __future__ import annotations

from pathlib import Path

from volt.errors import VoltError, shown_path, unreadable

_REMEDY = "; convert or restore the file"


def read_bytes(path: str | Path, *, kind: type[VoltError], most: int | None = None) -> bytes:
    """The bytes of a file. Raises an error of this kind if it cannot be read, or has more than `most` bytes.

    >>> read_bytes("/nowhere/codes", kind=VoltError)
    Traceback (most recent call last):
        ...
    volt.errors.VoltError: /nowhere/codes: cannot be read: no such file or directory; check the path
    """
    try:
        with open(path, "rb") as file:
            data = file.read() if most is None else file.read(most + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=kind) from None
    if most is not None and len(data) > most:
        raise kind(f"{shown_path(path)}: more than {most:,} bytes, which no file of this kind needs; check the path")
    return data


def read_text(path: str | Path, *, kind: type[VoltError], remedy: str = _REMEDY, most: int | None = None) -> str:
    """The text of a UTF-8 file, its line ends as they are. remedy: what an error says behind "not UTF-8 text".

    Raises an error of this kind if the file cannot be read or has more than `most` bytes, or, with the line, if it is
    not UTF-8.

    >>> read_text(__file__, kind=VoltError).startswith("A small file", 3)
    True
    """
    return decoded(path, read_bytes(path, kind=kind, most=most), kind=kind, remedy=remedy)


def decoded(path: str | Path, data: bytes, *, kind: type[VoltError], remedy: str = _REMEDY) -> str:
    """UTF-8 bytes of a file as text. remedy: what an error says behind "not UTF-8 text".

    >>> decoded("codes", b"l o\\n\\xff", kind=VoltError)
    Traceback (most recent call last):
        ...
    volt.errors.VoltError: codes:2: not UTF-8 text; convert or restore the file
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise kind(f"{shown_path(path)}:{line}: not UTF-8 text{remedy}") from None
