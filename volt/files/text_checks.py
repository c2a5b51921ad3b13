"""Check whether bytes are UTF-8 text, name the binary format if they are not, and limit the length of a line.

Text may contain any character, including NUL. Only the first `HEAD_SIZE` bytes are checked. A file is refused for:

    a signature     zip, PDF, PNG, UTF-16 with a byte order mark and so on
    UTF-16, UTF-32  one fixed byte of every 2 or 4 is never NUL; each of the others is NUL in 90 % of cases or more
    control bytes   of 64 bytes or more, 30 % are NUL, or 30 % (5 % if not UTF-8) other control characters
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from volt.errors import CorpusError, shown_path
from volt.fork_guard import about_to_use_polars

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # does not belong to the first line
HEAD_SIZE = 8 << 10  # bytes that are checked
_LEAST = 64  # bytes, so that shares are significant
_NUL_SHARE = 0.3
_CONTROL_SHARE = 0.3
_CONTROL_SHARE_OF_NO_TEXT = 0.05
_CONTROL = bytes({*range(1, 32), 127} - set(b"\t\n\v\f\r\x1b"))

_HALF = "every other byte is NUL"
_MOST_BYTES = "three of four bytes are NUL"
# encoding: index of the ASCII byte, bytes per character, description
_WIDE = {
    "UTF-16LE": (0, 2, _HALF),
    "UTF-16BE": (1, 2, _HALF),
    "UTF-32LE": (0, 4, _MOST_BYTES),
    "UTF-32BE": (3, 4, _MOST_BYTES),
}
_SIGNATURES = {
    b"\xff\xfe\x00\x00": "UTF-32 text; convert it: iconv -f UTF-32 -t UTF-8",
    b"\x00\x00\xfe\xff": "UTF-32 text; convert it: iconv -f UTF-32 -t UTF-8",
    b"\xff\xfe": "UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8",
    b"PK\x03\x04": "a zip archive; unpack it",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it",
    b"\x04\x22\x4d\x18": "an lz4 file; recompress it with gzip, xz or zstd",
    b"PAR1": "a parquet file; extract its text column, or count it from a file on disk, by its column",
    b"SQLite format 3": "an SQLite database; export its text column",
    b"%PDF-": "a PDF document; extract its text",
    b"\x89PNG": "a PNG image; exclude it",
}
_LONGEST_SIGNATURE = max(map(len, _SIGNATURES))


def refuse_binary(path: str, head: bytes, *, is_all: bool = True) -> None:
    """Raise CorpusError if a file's first `HEAD_SIZE` bytes are binary.

    is_all: whether `head` has all these bytes; otherwise only signatures are checked
    """
    detect = foreign if is_all else _signature
    message = detect(head)
    if message:
        raise CorpusError(f"{shown_path(path)}: {message}")


def refusing_binary(path: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a text unchanged. Raises CorpusError if its start is binary."""
    head = b""
    waiting = True
    for piece in pieces:
        if waiting:
            head += piece[: HEAD_SIZE - len(head)]
            waiting = len(head) < HEAD_SIZE
            if not waiting or not piece or len(head) >= _LONGEST_SIGNATURE:
                refuse_binary(path, head, is_all=not waiting)
        yield piece
    if waiting:
        refuse_binary(path, head)


def foreign(head: bytes) -> str | None:
    """Return the format of a file from its first `HEAD_SIZE` bytes or fewer, and the remedy; None for text."""
    return _signature(head) or _wide(head) or _control(head)


def _signature(head: bytes) -> str | None:
    if head[257:262] == b"ustar":
        return "not UTF-8 text but a tar archive; unpack it"
    for magic, kind in _SIGNATURES.items():
        if head.startswith(magic):
            return f"not UTF-8 text but {kind}"
    return None


def _wide(head: bytes) -> str | None:
    for name, (letters, step, fault) in _WIDE.items():
        if len(head) < 2 * step or len(head) % step:
            continue
        shares = [head[place::step].count(0) * step / len(head) for place in range(step)]
        if shares.pop(letters) == 0 and min(shares) >= 0.9:
            return f"looks like {name[:6]} text ({fault}); convert it: iconv -f {name} -t UTF-8"
    return None


def _control(head: bytes) -> str | None:
    size = len(head)
    if size < _LEAST:
        return None
    n_control = size - len(head.translate(None, _CONTROL))
    most = _CONTROL_SHARE
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            most = _CONTROL_SHARE_OF_NO_TEXT

    n_nul = head.count(0)
    if n_nul < _NUL_SHARE * size and n_control < most * size:
        return None
    return (
        f"looks like binary data ({(n_control + n_nul) / size:.0%} of its first {size:,} bytes "
        "are control characters); exclude it, or convert it to UTF-8"
    )


def is_utf8(data: bytes) -> bool:
    """Check with Polars whether bytes are UTF-8, ten times as fast as bytes.decode()."""
    import polars as pl

    if data.isascii():
        return True
    about_to_use_polars()
    try:
        return not pl.Series([data]).cast(pl.String).has_nulls()
    except pl.exceptions.PolarsError:
        return False


_FEW = 1 << 14  # bytes that Python decodes in about 10 µs


def is_utf8_array(data: NDArray[np.uint8]) -> bool:
    """Check whether bytes are UTF-8 without Python's lock and without Polars, which must not run before a fork."""
    if len(data) <= _FEW:  # so that a stream's first line does not wait for the import of Arrow
        return first_fault(data.tobytes()) == len(data)
    import pyarrow as pa

    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    text = pa.Array.from_buffers(pa.large_utf8(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def first_fault(data: bytes) -> int:
    """Return the index of the first byte that is not UTF-8; the length if all bytes are."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(data)


def n_line_ends(data: bytes) -> int:
    # five times as fast as bytes.count(), and without Python's lock
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == 0x0A))


def count_lines(data: bytes) -> int:
    """Return the number of lines, of which the last may have no line end."""
    return n_line_ends(data) + (data != b"" and not data.endswith(b"\n"))


def overlong(text: bytes, most: int) -> int:
    r"""Return where the first line of more than `most` bytes starts; −1 if there is none.

    >>> overlong(b"old\nlower\n", 4)
    4
    """
    start = 0
    while len(text) - start > most:
        end = text.rfind(b"\n", start, start + most + 1)
        if end < 0:
            return start
        start = end + 1
    return -1


class LongLineError(CorpusError):
    """A line exceeds the limit."""


def long_line_error(path: str, line: int, most: int) -> LongLineError:
    """Return the error for a line of more than `most` bytes."""
    return LongLineError(
        f"{shown_path(path)}:{line}: the line has more than {most:,} bytes; cut it, or raise max_line"
    )


def refuse_long(text: bytes, most: int | None, *, path: str, first_line: int) -> None:
    """Raise CorpusError if a line of the text has more than `most` bytes."""
    if most is None:
        return
    start = overlong(text, most)
    if start >= 0:
        raise long_line_error(path, first_line + text.count(b"\n", 0, start), most)
