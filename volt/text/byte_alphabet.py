"""GPT-2's alphabet: 256 characters that stand for the bytes; and byte tokens such as <0x0A>."""

from __future__ import annotations

from codecs import charmap_decode, getincrementaldecoder

BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
ALPHABET = tuple(
    chr(byte if byte in _PRINTABLE else 256 + _OTHERS.index(byte)) for byte in range(256)
)
_ALL = "".join(ALPHABET)
_LINES = _ALL.replace(ALPHABET[ord("\n")], "\n")
_BYTE_OF = {character: byte for byte, character in enumerate(ALPHABET)}
_INVALID = {0xDC00 + byte: BYTE_TOKENS[byte] for byte in range(0x80, 0x100)}


def to_characters(data: bytes, *, keeps_line_ends: bool = False) -> str:
    """Return bytes in GPT-2's alphabet of 256 characters. keeps_line_ends: leave line feeds as they are"""
    # five times as fast as a loop over 200,000 tokens
    alphabet = _LINES if keeps_line_ends else _ALL
    return charmap_decode(data, "strict", alphabet)[0]


def to_bytes(text: str) -> bytes:
    r"""Return the bytes of a text in GPT-2's alphabet. Characters outside the alphabet are encoded as UTF-8."""
    return b"".join(
        bytes([_BYTE_OF[character]]) if character in _BYTE_OF else character.encode()
        for character in text
    )


def readable(text: str) -> str:
    """Return the text that GPT-2's alphabet spells, with invalid UTF-8 as <0xNN>."""
    decoded = to_bytes(text).decode("utf-8", "surrogateescape")
    return decoded.translate(_INVALID)


def whole_characters(token: bytes) -> str | None:
    r"""Return a token's text without the partial characters at its ends; None if the rest is not UTF-8.

    >>> whole_characters("é".encode()[1:] + b"a" + "中".encode()[:2]), whole_characters(b"\xc3a")
    ('a', None)
    """
    start = next((i for i, byte in enumerate(token) if byte & 0xC0 != 0x80), len(token))
    decoder = getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(token[start:])
    except UnicodeDecodeError:
        return None
