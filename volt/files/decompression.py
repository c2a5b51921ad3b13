"""Decompress a file as a stream, several members included; an error names the line before the damage.

Memory is bounded: text comes in pieces of about a megabyte (128 for zstd), and a file that needs more than `_MOST` is
refused.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from volt.errors import CorpusError, shown_path

_MOST = 512 << 20  # bytes of a dictionary (xz) or window (zstd): four times what their highest levels need
_PIECE = 1 << 20  # bytes of text at a time
_ZSTD_STEP = 4 << 10  # packed bytes at a time: zstd packs 128 KB in four bytes, and gives what it has at once


_TOO_LARGE = ("Memory usage limit", "Frame requires too much memory")  # how xz and zstd say so


class Decompressor(Protocol):
    """The interface that all decoders share: one decoder decodes one member."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def texts(self, data: bytes, /) -> Iterator[bytes]:
        """Yield the text of the next bytes of a member."""
        ...


StartDecoder = Callable[[], Decompressor]


class _Library(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


D = TypeVar("D", bound=_Library)


class _Wrapped(Generic[D]):
    def __init__(self, decoder: D) -> None:
        self._decoder = decoder

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data


class _Stepwise(_Wrapped[bz2.BZ2Decompressor | lzma.LZMADecompressor]):
    def texts(self, data: bytes) -> Iterator[bytes]:
        yield self._decoder.decompress(data, _PIECE)
        while not self.eof and not self._decoder.needs_input:
            yield self._decoder.decompress(b"", _PIECE)


class _Gzip(_Wrapped[Any]):
    def __init__(self) -> None:
        from isal import isal_zlib

        super().__init__(isal_zlib.decompressobj(wbits=31))

    def texts(self, data: bytes) -> Iterator[bytes]:
        text = None
        while not self.eof and (data or text is None or len(text) == _PIECE):
            yield (text := self._decoder.decompress(data, _PIECE))
            data = self._decoder.unconsumed_tail


class _Zstd:
    def __init__(self) -> None:
        import zstandard

        self._decoder, self._rest = zstandard.ZstdDecompressor(max_window_size=_MOST).decompressobj(), b""

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data + self._rest

    def texts(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_STEP):
            text = self._decoder.decompress(data[start : start + _ZSTD_STEP])
            yield from (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
            if self.eof:
                self._rest = data[start + _ZSTD_STEP :]
                return


_DECODERS: dict[bytes, StartDecoder] = {
    b"\x1f\x8b": _Gzip,
    b"BZh": lambda: _Stepwise(bz2.BZ2Decompressor()),
    b"\xfd7zXZ\x00": lambda: _Stepwise(lzma.LZMADecompressor(memlimit=_MOST)),
    b"\x28\xb5\x2f\xfd": _Zstd,
    **{bytes([0x50 + i, 0x2A, 0x4D, 0x18]): _Zstd for i in range(16)},  # skippable frames, as pzstd writes
}


def find_decoder(head: bytes) -> StartDecoder | None:
    """Return the factory of decoders for a file that begins with `head` (8 bytes), or None if it is not compressed."""
    return next((start for magic, start in _DECODERS.items() if head.startswith(magic)), None)


def decompress(pieces: Iterable[bytes], start: StartDecoder, *, path: str) -> Iterator[bytes]:
    r"""Decompress the pieces of a file; an empty piece (no more bytes wait) is passed on.

    Raises CorpusError with the number of good lines if the file is truncated or corrupt.

    >>> import gzip
    >>> packed = gzip.compress(b"one\n") + gzip.compress(b"two\n")
    >>> b"".join(decompress([packed], find_decoder(packed), path="a.gz"))
    b'one\ntwo\n'
    """
    from isal.igzip_lib import IsalError
    from zstandard import ZstdError

    n_lines = 0
    try:
        for text in _members(pieces, start):
            n_lines += text.count(b"\n")
            yield text
    except _UnpackedTail:
        raise CorpusError(
            f"{shown_path(path)}: bytes that are not packed follow line {n_lines}, the last; remove them, or compress "
            "the file again"
        ) from None
    except EOFError:
        raise CorpusError(f"{shown_path(path)}: truncated after line {n_lines}; copy or compress it again") from None
    except (IsalError, lzma.LZMAError, ZstdError, OSError) as error:  # type: ignore[misc]  # by a stub of isal
        if any(result in str(error) for result in _TOO_LARGE):
            raise CorpusError(
                f"{shown_path(path)}: it takes more than {_MOST >> 20} MB of memory to unpack; compress it again, with "
                "a smaller dictionary (xz) or window (zstd)"
            ) from None
        raise CorpusError(f"{shown_path(path)}: corrupt after line {n_lines} ({error}); copy it again") from error


class _UnpackedTail(Exception):
    """The bytes after a complete member do not begin another one."""


def _members(pieces: Iterable[bytes], start: StartDecoder) -> Iterator[bytes]:
    decoder, is_first = None, True
    marks = [mark for mark, output in _DECODERS.items() if output is start]
    for piece in pieces:
        if not piece:
            yield piece
        while piece := (piece if decoder else piece.lstrip(b"\0")):  # zeros may pad what follows a member
            if not (decoder or is_first or any(piece[: len(mark)] == mark[: len(piece)] for mark in marks)):
                raise _UnpackedTail
            decoder, is_first = decoder or start(), False
            yield from filter(None, decoder.texts(piece))
            piece = decoder.unused_data if decoder.eof else b""
            decoder = None if decoder.eof else decoder
    if decoder is not None:
        raise EOFError
