"""Decompress a file as a stream, several members included; an error names the line before the damage.

Memory is bounded: text comes in pieces of about a megabyte (128 for zstd), and a file that needs more than `_MOST` is
refused.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volt.errors import CorpusError, shown_path

_MOST = 512 << 20  # bytes of a dictionary (xz) or window (zstd): four times the need of their highest levels
_PIECE = 1 << 20  # bytes of text at a time
_ZSTD_STEP = 4 << 10  # packed bytes at a time: four bytes may unpack to 128 KB, which zstd returns at once


_TOO_LARGE = ("Memory usage limit", "Frame requires too much memory")  # messages of xz and zstd


class Decompressor:
    """A library's decoder of one member."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decoder.unused_data)

    def texts(self, data: bytes) -> Iterator[bytes]:
        """Yield the text of the next bytes of the member."""
        raise NotImplementedError


StartDecoder = Callable[[], Decompressor]


class _Stepwise(Decompressor):
    def texts(self, data: bytes) -> Iterator[bytes]:
        yield self._decoder.decompress(data, _PIECE)
        while not self.eof and not self._decoder.needs_input:
            yield self._decoder.decompress(b"", _PIECE)


class _Gzip(Decompressor):
    def __init__(self) -> None:
        from isal import isal_zlib

        super().__init__(isal_zlib.decompressobj(wbits=31))

    def texts(self, data: bytes) -> Iterator[bytes]:
        text = None
        while not self.eof and (data or text is None or len(text) == _PIECE):
            yield (text := self._decoder.decompress(data, _PIECE))
            data = self._decoder.unconsumed_tail


class _Zstd(Decompressor):
    def __init__(self) -> None:
        import zstandard

        super().__init__(zstandard.ZstdDecompressor(max_window_size=_MOST).decompressobj())
        self._rest = b""

    @property
    def unused_data(self) -> bytes:
        return super().unused_data + self._rest

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
    """Return the factory of decoders for a file that begins with `head` (8 bytes); None if it is not compressed."""
    return next((start for magic, start in _DECODERS.items() if head.startswith(magic)), None)


def decompress(pieces: Iterable[bytes], start: StartDecoder, *, path: str) -> Iterator[bytes]:
    """Decompress pieces, passing on empty ones. Raises CorpusError with the number of good lines."""
    from isal.igzip_lib import IsalError
    from zstandard import ZstdError

    n_lines, marks = 0, [mark for mark, factory in _DECODERS.items() if factory is start]
    try:
        decoder, is_first = None, True
        for piece in pieces:
            if not piece:
                yield piece
            while piece := (piece if decoder else piece.lstrip(b"\0")):  # zeros may follow a member
                if decoder is None:
                    if not is_first and not any(piece[: len(mark)] == mark[: len(piece)] for mark in marks):
                        raise CorpusError(
                            f"{shown_path(path)}: bytes that are not packed follow line {n_lines}, the last; remove "
                            "them, or compress the file again"
                        )
                    decoder, is_first = start(), False
                for text in filter(None, decoder.texts(piece)):
                    n_lines += text.count(b"\n")
                    yield text
                piece = decoder.unused_data if decoder.eof else b""
                decoder = None if decoder.eof else decoder
        if decoder is not None:
            raise EOFError
    except EOFError:
        raise CorpusError(f"{shown_path(path)}: truncated after line {n_lines}; copy or compress it again") from None
    except (IsalError, lzma.LZMAError, ZstdError, OSError) as error:  # type: ignore[misc]  # by a stub of isal
        if any(result in str(error) for result in _TOO_LARGE):
            raise CorpusError(
                f"{shown_path(path)}: it takes more than {_MOST >> 20} MB of memory to unpack; compress it again, with "
                "a smaller dictionary (xz) or window (zstd)"
            ) from None
        raise CorpusError(f"{shown_path(path)}: corrupt after line {n_lines} ({error}); copy it again") from error
