"""Read a small file at once, as bytes or text, decompressed if necessary.

All functions raise errors of class `kind`, a VoltError, with the file, the line and the remedy.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from volt.errors import CorpusError, VoltError, shown_path, unreadable
from volt.urls import plain_path, url_of

if TYPE_CHECKING:
    from volt.files.remote_files import RemoteFile

_REMEDY = "; convert it to UTF-8"
# Signatures, checked before the slow import of decoders.
_SIGNATURES = b"\x1f\x8b", b"BZh", b"\xfd7z", b"\x28\xb5"
_MAX_TEXT = 1 << 28  # decompressed bytes, by default
_MAX_BEFORE_TEXT = 1 << 20  # compressed bytes that may precede the first text, as a block of bzip2


def read_bytes(path: str | Path, *, kind: type[VoltError], most: int | None = None) -> bytes:
    """Return the bytes of a file, decompressed. Raises an error if there are more than `most`."""
    n_bytes = -1
    if most is not None:
        n_bytes = most + 1
    data = read_start(path, n_bytes, kind=kind)
    if data.startswith(_SIGNATURES):
        most = most or _MAX_TEXT
        data = _decompress(path, data, kind=kind, most=most)
    if most is not None and len(data) > most:
        raise kind(
            f"{shown_path(path)}: more than {most:,} bytes, too many for such a file; "
            "check the path"
        )
    return data


def is_pipe(path: str | Path) -> bool:
    """Check whether a path is a pipe, which can be read only once."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):  # reading it raises the error
        return False


def read_head(path: str | Path, n_bytes: int, *, kind: type[VoltError]) -> bytes:
    """Return the first bytes of a file, decompressed."""
    head = read_start(path, n_bytes, kind=kind)
    if not head.startswith(_SIGNATURES):
        return head
    data = read_start(path, n_bytes + _MAX_BEFORE_TEXT, kind=kind)
    return _decompress(path, data, kind=kind, most=n_bytes)[:n_bytes]


def read_start(path: str | Path, n_bytes: int, *, kind: type[VoltError] = CorpusError) -> bytes:
    """Return the first bytes of a file as stored; all if `n_bytes` is −1."""
    try:
        with open_file(path) as file:
            return file.read(n_bytes)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=kind) from None


def is_compressed(path: str | Path, *, kind: type[VoltError] = CorpusError) -> bool:
    from volt.files.decompression import LONGEST_MAGIC, find_decoder

    return find_decoder(read_start(path, LONGEST_MAGIC, kind=kind)) is not None


def read_text(
    path: str | Path, *, kind: type[VoltError], remedy: str = _REMEDY, most: int | None = None
) -> str:
    """Return the text of a UTF-8 file, line ends unchanged.

    Raises an error if there are more than `most` bytes.
    """
    return decode_text(path, read_bytes(path, kind=kind, most=most), kind=kind, remedy=remedy)


def decode_text(
    path: str | Path, data: bytes, *, kind: type[VoltError], remedy: str = _REMEDY
) -> str:
    r"""Decode the UTF-8 bytes of a file.

    >>> decode_text("codes", b"l o\n\xff", kind=VoltError)
    Traceback (most recent call last):
        ...
    volt.errors.VoltError: codes:2: not UTF-8 text; convert it to UTF-8
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise kind(f"{shown_path(path)}:{line}: not UTF-8 text{remedy}") from None


def open_file(path: str | Path, *, buffering: int = -1) -> BinaryIO | RemoteFile:
    """Open a local file or a URL. Raises OSError or ValueError."""
    url = url_of(path)
    if url:
        from volt.files.remote_files import RemoteFile

        return RemoteFile(url)
    return open(plain_path(os.fspath(path)), "rb", buffering)


def _decompress(path: str | Path, data: bytes, *, kind: type[VoltError], most: int) -> bytes:
    """Decompress a file's data until there are more than `most` bytes; return other data
    unchanged."""
    from volt.files.decompression import decompress, find_decoder

    start = find_decoder(data)
    if not start:
        return data
    result = bytearray()
    try:
        for piece in decompress([data], start, path=str(path)):
            result += piece
            if len(result) > most:
                break
    except CorpusError as error:
        raise kind(str(error)) from None
    return bytes(result)
