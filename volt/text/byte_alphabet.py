r"""Two spellings of bytes: GPT-2's alphabet of 256 characters, and byte tokens such as <0x0A>.

    " é\n"  =  bytes 20 C3 A9 0A  →  "ĠÃ©Ċ"  in GPT-2's alphabet

Bytes that are printable characters of Latin-1 stand for themselves. The other bytes become the
characters from U+0100 on, in order.
"""

from __future__ import annotations

from codecs import charmap_decode, getincrementaldecoder

BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_CODE_OF_OTHER = {byte: 256 + index for index, byte in enumerate(_OTHERS)}
ALPHABET = tuple(chr(_CODE_OF_OTHER.get(byte, byte)) for byte in range(256))
_MAP = "".join(ALPHABET)
_MAP_EXCEPT_LINE_ENDS = _MAP.replace(ALPHABET[ord("\n")], "\n")
_BYTE_OF = {character: byte for byte, character in enumerate(ALPHABET)}
INNER = bytes(range(0x80, 0xC0))  # the bytes of a character after its first
# "surrogateescape" decodes an invalid byte to one of these characters
_TOKEN_OF_INVALID = {0xDC00 + byte: BYTE_TOKENS[byte] for byte in range(0x80, 0x100)}


def to_characters(data: bytes, *, keeps_line_ends: bool = False) -> str:
    """Spell bytes in GPT-2's alphabet.

    keeps_line_ends: whether line feeds stay line feeds
    """
    alphabet = _MAP_EXCEPT_LINE_ENDS if keeps_line_ends else _MAP
    # five times as fast as a loop in Python
    return charmap_decode(data, "strict", alphabet)[0]


def to_bytes(text: str) -> bytes:
    """Return the bytes that a text in GPT-2's alphabet spells.

    A character outside the alphabet becomes its UTF-8.
    """
    result = bytearray()
    for character in text:
        if character in _BYTE_OF:
            result.append(_BYTE_OF[character])
        else:
            result += character.encode()
    return bytes(result)


def readable(text: str) -> str:
    """Return the text that a text in GPT-2's alphabet spells, with invalid bytes as <0xNN>."""
    decoded = to_bytes(text).decode("utf-8", "surrogateescape")
    return decoded.translate(_TOKEN_OF_INVALID)


def whole_characters(token: bytes) -> str | None:
    r"""Return a token as text, without incomplete characters at its start and end.

    Return None if the rest is not UTF-8.

    >>> whole_characters("é".encode()[1:] + b"a" + "中".encode()[:2]), whole_characters(b"\xc3a")
    ('a', None)
    """
    decoder = getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(token.lstrip(INNER))
    except UnicodeDecodeError:
        return None
