"""Check whether bytes are UTF-8 text, name the binary format if they are not, and limit the length
of a line.

Text may contain any character, including NUL. Only the first `HEAD_SIZE` bytes are checked. A file
is refused for:

    a signature     zip, PDF, PNG, UTF-16 with a byte order mark and so on
    UTF-16, UTF-32  one fixed byte of every 2 or 4 is never NUL; each of the others is NUL in 90 % of cases or more
    control bytes   of 64 bytes or more, 30 % are NUL, or 30 % (5 % if not UTF-8) other control characters
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from volt.array_types import Bytes
from volt.errors import CorpusError, shown_path
from volt.fork_guard import about_to_use_polars

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # does not belong to the first line
HEAD_SIZE = 8 << 10  # bytes that are checked
_FEW = 1 << 14  # bytes that Python decodes in about 10 µs
_MIN_SIZE = 64  # bytes, so that shares are significant
_NUL_SHARE = 0.3
_CONTROL_SHARE = 0.3
_CONTROL_SHARE_NOT_UTF8 = 0.05
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
    b"\x93NUMPY": "a numpy array; name its file instead of a pipe, with its offsets beside it",
    b"SQLite format 3": "an SQLite database; export its text column",
    b"%PDF-": "a PDF document; extract its text",
    b"\x89PNG": "a PNG image; exclude it",
}
_LONGEST_SIGNATURE = max(map(len, _SIGNATURES))


def refuse_binary(path: str, head: bytes, *, is_all: bool = True) -> None:
    """Raise CorpusError if a file's first `HEAD_SIZE` bytes are binary.

    is_all: whether `head` has all these bytes; otherwise only signatures are checked
    """
    detect = detect_binary if is_all else _detect_signature
    message = detect(head)
    if message:
        raise CorpusError(f"{shown_path(path)}: {message}")


def refuse_binary_pieces(path: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a text unchanged. Raises CorpusError if its start is binary."""
    head = b""
    is_whole = False  # whether the head has HEAD_SIZE bytes
    for piece in pieces:
        if not is_whole:
            head += piece[: HEAD_SIZE - len(head)]
            is_whole = len(head) == HEAD_SIZE
            if is_whole or not piece or len(head) >= _LONGEST_SIGNATURE:
                refuse_binary(path, head, is_all=is_whole)
        yield piece
    if not is_whole:
        refuse_binary(path, head)


def detect_binary(head: bytes) -> str | None:
    """Return the format of a file from its first `HEAD_SIZE` bytes or fewer, and the remedy; None
    for text."""
    return _detect_signature(head) or _detect_wide_encoding(head) or _detect_control_bytes(head)


def _detect_signature(head: bytes) -> str | None:
    if head[257:262] == b"ustar":
        return "not UTF-8 text but a tar archive; unpack it"
    for signature, description in _SIGNATURES.items():
        if head.startswith(signature):
            return f"not UTF-8 text but {description}"
    return None


def _detect_wide_encoding(head: bytes) -> str | None:
    for name, (letter_index, n_bytes, fault) in _WIDE.items():
        if len(head) < 2 * n_bytes or len(head) % n_bytes:
            continue
        n_characters = len(head) / n_bytes
        nul_shares = [head[index::n_bytes].count(0) / n_characters for index in range(n_bytes)]
        if nul_shares.pop(letter_index) == 0 and min(nul_shares) >= 0.9:
            return f"looks like {name[:6]} text ({fault}); convert it: iconv -f {name} -t UTF-8"
    return None


def _detect_control_bytes(head: bytes) -> str | None:
    size = len(head)
    if size < _MIN_SIZE:
        return None
    n_control = size - len(head.translate(None, _CONTROL))
    max_share = _CONTROL_SHARE
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            max_share = _CONTROL_SHARE_NOT_UTF8

    n_nul = head.count(0)
    if n_nul < _NUL_SHARE * size and n_control < max_share * size:
        return None
    return (
        f"looks like binary data ({(n_control + n_nul) / size:.0%} of its first {size:,} bytes "
        "are control characters); exclude it, or convert it to UTF-8"
    )


def is_utf8(data: bytes) -> bool:
    """Check with Polars whether bytes are UTF-8, ten times as fast as bytes.decode()."""
    if data.isascii():
        return True
    if len(data) <= _FEW:  # so that encoding a line does not import Polars
        return first_fault(data) == len(data)
    import polars as pl

    about_to_use_polars()
    try:
        return not pl.Series([data]).cast(pl.String).has_nulls()
    except pl.exceptions.PolarsError:
        return False


def is_utf8_array(data: Bytes) -> bool:
    """Check whether bytes are UTF-8 without Python's lock and without Polars, which must not run
    before a fork."""
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
    """Return the number of lines. The last line may lack its line end."""
    return n_line_ends(data) + (data != b"" and not data.endswith(b"\n"))


def find_long_line(text: bytes, max_line: int) -> int:
    r"""Return the byte at which the first line of more than `max_line` bytes starts; −1 without
    such a line.

    >>> find_long_line(b"old\nlower\n", 4)
    4
    """
    start = 0
    while len(text) - start > max_line:
        end = text.rfind(b"\n", start, start + max_line + 1)
        if end < 0:
            return start
        start = end + 1
    return -1


class LongLineError(CorpusError):
    """A line exceeds the limit."""


def long_line_error(path: str, line: int, max_line: int) -> LongLineError:
    """Return the error for a line of more than `max_line` bytes."""
    return LongLineError(
        f"{shown_path(path)}:{line}: the line has more than {max_line:,} bytes; cut it, or raise max_line"
    )


def refuse_long(text: bytes, max_line: int | None, *, path: str, first_line: int) -> None:
    """Raise CorpusError if a line of the text has more than `max_line` bytes."""
    if max_line is None:
        return
    start = find_long_line(text, max_line)
    if start >= 0:
        raise long_line_error(path, first_line + text.count(b"\n", 0, start), max_line)
