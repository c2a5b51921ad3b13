"""White space, said once: the characters that Unicode calls so, and those at which `str.split()` cuts.

    WHITE_SPACE     Unicode's property White_Space, which the engine of the patterns matches with its \\s
    SPLIT_SPACE     these and the four separators U+001C to U+001F: where str.split() cuts
    SPLIT_CLASS     the same as the inside of a class [...] of the engine of the patterns

>>> "".join(SPLIT_SPACE).split(), set(SPLIT_SPACE) - set(WHITE_SPACE) == set(INFORMATION_SEPARATORS)
([], True)
"""

from __future__ import annotations

INFORMATION_SEPARATORS = "\x1c\x1d\x1e\x1f"
_CODES = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
WHITE_SPACE = "".join(map(chr, _CODES))
SPLIT_SPACE = "".join(sorted(WHITE_SPACE + INFORMATION_SEPARATORS))
SPLIT_CLASS = r"\s\x1c-\x1f"


def ascii_bytes(characters: str) -> bytes:
    """Those of the characters that are ASCII, as bytes.

    >>> ascii_bytes(WHITE_SPACE)
    b'\\t\\n\\x0b\\x0c\\r '
    """
    return "".join(filter(str.isascii, characters)).encode()


def ranges(characters: str) -> str:
    """Rising characters as the inside of a class [...] of any regex engine. None of them may have a meaning there.

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
