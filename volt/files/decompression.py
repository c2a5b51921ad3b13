"""Decompress a file piece by piece. An error names the last line before the damage.

A compressed file consists of one or more members, as `cat a.gz b.gz` writes; zeros may follow each
member. Memory is bounded: text is yielded in pieces of about a megabyte (128 for zstd), and a file
that needs more memory than `_MAX_MEMORY` is refused.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volt.errors import CorpusError, shown_path
from volt.files.text_checks import n_line_ends

# Bytes of a dictionary (xz) or window (zstd): four times as many as their highest levels need.
_MAX_MEMORY = 512 << 20
_TEXT_SIZE = 1 << 20  # bytes of text at a time
_ZSTD_STEP = 4 << 10  # compressed bytes at a time: four may become 128 KB, which come all at once

_TOO_LARGE = ("Memory usage limit", "Frame requires too much memory")  # messages of xz and zstd

StartDecoder = Callable[[], Any]  # returns a library's decoder of one member


def _gzip() -> Any:
    from isal.igzip_lib import DECOMP_GZIP, IgzipDecompressor

    return IgzipDecompressor(flag=DECOMP_GZIP)


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=_MAX_MEMORY).decompressobj()


_DECODERS: dict[bytes, StartDecoder] = {
    b"\x1f\x8b": _gzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lambda: lzma.LZMADecompressor(memlimit=_MAX_MEMORY),
    b"\x28\xb5\x2f\xfd": _zstd,
}
for _number in range(16):  # skippable frames, as pzstd writes
    _DECODERS[bytes([0x50 + _number, 0x2A, 0x4D, 0x18])] = _zstd

LONGEST_MAGIC = 8  # bytes that are enough to detect compression


def find_decoder(head: bytes) -> StartDecoder | None:
    """Return the factory of decoders for a file that begins with `head` (8 bytes); None if it is
    not compressed."""
    for magic, start in _DECODERS.items():
        if head.startswith(magic):
            return start
    return None


def _decode_piece(decoder: Any, data: bytes) -> Iterator[bytes]:
    if not hasattr(decoder, "needs_input"):  # zstd, which returns all text at once
        yield from _cut(decoder.decompress(data), _TEXT_SIZE)
        return
    yield decoder.decompress(data, _TEXT_SIZE)
    while not decoder.eof and not decoder.needs_input:
        yield decoder.decompress(b"", _TEXT_SIZE)


def decompress(pieces: Iterable[bytes], start: StartDecoder, *, path: str) -> Iterator[bytes]:
    """Decompress pieces; yield empty pieces unchanged.

    Raises CorpusError, with the last line before the damage.
    """
    from isal.igzip_lib import IsalError
    from zstandard import ZstdError

    where = shown_path(path)
    n_lines = 0
    try:
        for text in _decode_members(pieces, start):
            n_lines += n_line_ends(text)
            yield text
    except EOFError:
        raise CorpusError(
            f"{where}: truncated after line {n_lines}; copy or compress it again"
        ) from None
    except _TrailingError:
        raise CorpusError(
            f"{where}: bytes that are not compressed follow the last line, {n_lines}; "
            "remove them, or compress the file again"
        ) from None
    except (IsalError, lzma.LZMAError, ZstdError, OSError) as error:  # type: ignore[misc]  # by a stub of isal
        if any(message in str(error) for message in _TOO_LARGE):
            raise CorpusError(
                f"{where}: decompression needs more than {_MAX_MEMORY >> 20} MB of memory; "
                "compress it again at a lower level"
            ) from None
        raise CorpusError(
            f"{where}: corrupt after line {n_lines} ({error}); copy it again"
        ) from error


class _TrailingError(Exception):
    """The bytes after a member do not start another."""


def _decode_members(pieces: Iterable[bytes], start: StartDecoder) -> Iterator[bytes]:
    """Yield the text of all members.

    Empty pieces, which mean that no more bytes are available, are yielded unchanged.
    """
    signatures = [signature for signature, factory in _DECODERS.items() if factory is start]
    decoder = start()
    is_inside = True
    for data in pieces:
        if not data:
            yield data
            continue
        for piece in _cut(data, _ZSTD_STEP if start is _zstd else len(data)):
            while is_inside or (piece := piece.lstrip(b"\0")):
                if not is_inside:
                    if not any(piece[: len(each)] == each[: len(piece)] for each in signatures):
                        raise _TrailingError
                    decoder = start()
                yield from filter(None, _decode_piece(decoder, piece))
                is_inside = not decoder.eof
                if is_inside:
                    break
                piece = decoder.unused_data
    if is_inside:
        raise EOFError


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))
