"""Spelling of text as atoms and bytes.

Atoms are the symbols that merging starts from: characters, one of which may carry the word marker.

    suffix   the last character of a word carries "</w>": low → l o w</w>, as in subword-nmt 0.2
    prefix   "▁" starts a word: low → ▁ l o w, as in sentencepiece
    none     no marker, for pre-tokens that contain their spaces

An atom's code is 2 · code point, + 1 with the end-of-word marker.
"""

from __future__ import annotations

from codecs import charmap_decode, getincrementaldecoder
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

from volt import arguments

SPACE = "▁"  # U+2581 stands for a space inside pre-tokens that keep spaces
PREFIX = SPACE  # the start-of-word marker is the space in front of the word, as in sentencepiece
SUFFIX = "</w>"  # the end-of-word marker
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
Marker = Literal["suffix", "prefix", "none"]


def check_marker(marker: str) -> None:
    """Raise ConfigError for an unknown marker."""
    arguments.choice(marker, "marker", get_args(Marker))


def atom_codes(words: Sequence[str], *, marker: Marker) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the codes of the atoms of non-empty words, and where each word ends."""
    import numpy as np

    return text_codes("".join(words), np.fromiter(map(len, words), np.int64, len(words)), marker=marker)


def text_codes(text: str, lengths: NDArray[np.int64], *, marker: Marker) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `atom_codes` of the words of one text, given their lengths in characters."""
    import numpy as np

    codes = 2 * np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)
    ends = np.cumsum(lengths)
    if marker == "prefix":
        codes = np.insert(codes, ends - lengths, 2 * ord(PREFIX))
        ends += np.arange(1, len(ends) + 1)
    if marker == "suffix":
        codes[ends - 1] += 1
    return codes, ends


def atom_text(code: int) -> str:
    return chr(code >> 1) + SUFFIX * (code & 1)


def atom_code(atom: str, *, marker: Marker) -> int | None:
    """Return the code of an atom's string; None for another string."""
    carries = marker == "suffix" and atom.endswith(SUFFIX) and atom != SUFFIX
    character = atom.removesuffix(SUFFIX) if carries else atom
    return 2 * ord(character) + carries if len(character) == 1 else None


def token_lengths(tokens: Sequence[str], *, marker: Marker) -> NDArray[np.int64]:
    """Return the characters of each token without its marker, at least 1, (n_tokens,).

    Without an end marker, a "▁" inside is a space, and not counted.
    """
    import numpy as np

    bare = (token.removesuffix(SUFFIX) if marker == "suffix" else token.replace(PREFIX, "") for token in tokens)
    return np.maximum(np.fromiter(map(len, bare), np.int64, len(tokens)), 1)


_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
ALPHABET = tuple(chr(byte if byte in _PRINTABLE else 256 + _OTHERS.index(byte)) for byte in range(256))
_ALL = "".join(ALPHABET)
_LINES = _ALL.replace(ALPHABET[ord("\n")], "\n")
_BYTE_OF = {character: byte for byte, character in enumerate(ALPHABET)}


def to_characters(data: bytes, *, keeps_line_ends: bool = False) -> str:
    """Return bytes in GPT-2's alphabet of 256 characters; a line feed may stay."""
    # 200,000 tokens take a fifth of the time of a loop
    return charmap_decode(data, "strict", _LINES if keeps_line_ends else _ALL)[0]


def to_bytes(text: str) -> bytes:
    r"""Return the bytes of a text in GPT-2's alphabet. Other characters stand for their own UTF-8."""
    return b"".join(bytes([_BYTE_OF[character]]) if character in _BYTE_OF else character.encode() for character in text)


def readable(text: str) -> str:
    """Return the text that GPT-2's alphabet spells, with invalid UTF-8 as <0xNN>."""
    decoded = to_bytes(text).decode("utf-8", "surrogateescape")
    return "".join(BYTE_TOKENS[ord(one) - 0xDC00] if "\udc80" <= one <= "\udcff" else one for one in decoded)


def whole_characters(token: bytes) -> str | None:
    r"""Return a token without partial characters at its ends; None if the rest is not UTF-8.

    >>> whole_characters("é".encode()[1:] + b"a" + "中".encode()[:2]), whole_characters(b"\xc3a")
    ('a', None)
    """
    start = next((i for i, byte in enumerate(token) if byte & 0xC0 != 0x80), len(token))
    decoder = getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(token[start:])
    except UnicodeDecodeError:
        return None


# Unicode's property White_Space, which the pattern engine matches with its \s.
_CODES = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
WHITE_SPACE = "".join(map(chr, _CODES))
# The characters at which str.split() splits: also the four information separators. SPLIT_CLASS is its regex class.
SPLIT_SPACE = "".join(sorted(WHITE_SPACE + "\x1c\x1d\x1e\x1f"))
SPLIT_CLASS = r"\s\x1c-\x1f"


def ascii_bytes(characters: str) -> bytes:
    return "".join(filter(str.isascii, characters)).encode()


def bits_of(numbers: Iterable[int]) -> int:
    """Return the sum of 2^n over some numbers."""
    return sum(1 << number for number in numbers)


def ranges(characters: str) -> str:
    """Return sorted characters, none special, as the inside of a regex class [...].

    >>> ranges("acdefxy")
    'ac-fxy'
    """
    runs = list[list[str]]()
    for character in characters:
        if runs and ord(character) == ord(runs[-1][-1]) + 1:
            runs[-1].append(character)
        else:
            runs.append([character])
    return "".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else "".join(run) for run in runs)
