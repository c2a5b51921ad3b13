"""Decompress a file as a stream, also if it has several members; an error names the line before the damage.

Memory is bounded: text comes in pieces of about a megabyte (128 for zstd), and a file that needs more memory than
`_MOST` is refused.
"""

from __future__ import annotations

import bz2
import lzma
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volt.errors import CorpusError, shown_path
from volt.files.text_checks import n_line_ends

_MOST = (
    512 << 20
)  # bytes of a dictionary (xz) or window (zstd): four times what their highest levels need
_PIECE = 1 << 20  # bytes of text at a time
_ZSTD_STEP = (
    4 << 10
)  # compressed bytes at a time: four bytes may become 128 KB, and zstd returns all text at once


_TOO_LARGE = ("Memory usage limit", "Frame requires too much memory")  # messages of xz and zstd


StartDecoder = Callable[[], Any]  # returns a library's decoder of one member


def _gzip() -> Any:
    from isal import igzip_lib

    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=_MOST).decompressobj()


_DECODERS: dict[bytes, StartDecoder] = {
    b"\x1f\x8b": _gzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lambda: lzma.LZMADecompressor(memlimit=_MOST),
    b"\x28\xb5\x2f\xfd": _zstd,
    **{
        bytes([0x50 + i, 0x2A, 0x4D, 0x18]): _zstd for i in range(16)
    },  # skippable frames, as pzstd writes
}


LONGEST_MAGIC = 8  # bytes that are enough to detect compression


def find_decoder(head: bytes) -> StartDecoder | None:
    """Return the factory of decoders for a file that begins with `head` (8 bytes); None if it is not compressed."""
    return next((start for magic, start in _DECODERS.items() if head.startswith(magic)), None)


def _texts(decoder: Any, data: bytes) -> Iterator[bytes]:
    if not hasattr(decoder, "needs_input"):  # zstd, which returns all text at once
        text = decoder.decompress(data)
        yield from (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        return
    yield decoder.decompress(data, _PIECE)
    while not decoder.eof and not decoder.needs_input:
        yield decoder.decompress(b"", _PIECE)


def decompress(pieces: Iterable[bytes], start: StartDecoder, *, path: str) -> Iterator[bytes]:
    """Decompress pieces; yield empty pieces unchanged. Raises CorpusError, with the last line before the damage."""
    from isal.igzip_lib import IsalError
    from zstandard import ZstdError

    n_lines, marks = 0, [mark for mark, factory in _DECODERS.items() if factory is start]
    step = _ZSTD_STEP if start is _zstd else sys.maxsize
    try:
        decoder, is_first = None, True
        for piece in (
            data[at : at + step] for data in pieces for at in range(0, max(1, len(data)), step)
        ):
            if not piece:
                yield piece
            while piece := (piece if decoder else piece.lstrip(b"\0")):  # zeros may follow a member
                if decoder is None:
                    if not is_first and not any(
                        piece[: len(mark)] == mark[: len(piece)] for mark in marks
                    ):
                        message = f"bytes that are not compressed follow the last line, {n_lines}"
                        raise CorpusError(
                            f"{shown_path(path)}: {message}; remove them, or compress the file again"
                        )
                    decoder, is_first = start(), False
                for text in filter(None, _texts(decoder, piece)):
                    n_lines += n_line_ends(text)
                    yield text
                piece = decoder.unused_data if decoder.eof else b""
                decoder = None if decoder.eof else decoder
        if decoder is not None:
            raise EOFError
    except EOFError:
        raise CorpusError(
            f"{shown_path(path)}: truncated after line {n_lines}; copy or compress it again"
        ) from None
    except (IsalError, lzma.LZMAError, ZstdError, OSError) as error:  # type: ignore[misc]  # by a stub of isal
        if any(result in str(error) for result in _TOO_LARGE):
            message = f"decompression needs more than {_MOST >> 20} MB of memory"
            raise CorpusError(
                f"{shown_path(path)}: {message}; compress it again at a lower level"
            ) from None
        raise CorpusError(
            f"{shown_path(path)}: corrupt after line {n_lines} ({error}); copy it again"
        ) from error
