"""Bytes of a compressed file → its text, several members included; damage is told with the line that it follows.

Compression is told by a file's first bytes, never by its name.

>>> import gzip
>>> packed = gzip.compress(b"one\\n") + gzip.compress(b"two\\n")
>>> b"".join(decompress([packed], find_decoder(packed), path="a.gz"))
b'one\\ntwo\\n'
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from volt.errors import CorpusError


class Decompressor(Protocol):
    """What the compression libraries have in common: one decodes one member, up to its end."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


StartDecoder = Callable[[], Decompressor]


def _zstd() -> Decompressor:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


_DECODERS: dict[bytes, StartDecoder] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lzma.LZMADecompressor,
    b"\x28\xb5\x2f\xfd": _zstd,
    **{bytes([0x50 + i, 0x2A, 0x4D, 0x18]): _zstd for i in range(16)},  # skippable frames, as pzstd writes
}


def find_decoder(head: bytes) -> StartDecoder | None:
    """What starts a decoder of the gzip, bzip2, xz or zstd file that begins with `head` (8 bytes do); else None.

    >>> find_decoder(b"BZh91AY&") is bz2.BZ2Decompressor, find_decoder(b"low newest")
    (True, None)
    """
    return next((start for magic, start in _DECODERS.items() if head.startswith(magic)), None)


def decompress(pieces: Iterable[bytes], start: StartDecoder, *, path: str) -> Iterator[bytes]:
    """Decompress the bytes of a file, piece by piece. path: the file's name in errors.

    An empty piece says that no more is there yet: it is handed on.
    Raises CorpusError with the number of good lines if the file is cut or garbled.

    >>> b"".join(decompress([bz2.compress(b"one")[:-9]], bz2.BZ2Decompressor, path="a.bz2"))
    Traceback (most recent call last):
        ...
    volt.errors.CorpusError: a.bz2: truncated after line 0; copy or compress it again
    """
    from zstandard import ZstdError

    n_lines = 0
    try:
        for text in _members(pieces, start):
            n_lines += text.count(b"\n")
            yield text
    except EOFError:
        raise CorpusError(f"{path}: truncated after line {n_lines}; copy or compress it again") from None
    except (zlib.error, lzma.LZMAError, ZstdError, OSError) as error:
        raise CorpusError(f"{path}: corrupt after line {n_lines} ({error}); copy it again") from error


def _members(pieces: Iterable[bytes], start: StartDecoder) -> Iterator[bytes]:
    """Decompress members (gzip), streams (xz) or frames (zstd) one after the other."""
    decoder = None
    for piece in pieces:
        if not piece:
            yield piece
        while piece := (piece if decoder else piece.lstrip(b"\0")):  # zeros may pad what follows a member
            decoder = decoder or start()
            if text := decoder.decompress(piece):
                yield text
            piece = decoder.unused_data if decoder.eof else b""
            decoder = None if decoder.eof else decoder
    if decoder is not None:
        raise EOFError
