r"""Read the "precompiled charsmap" of a sentencepiece model, and normalise lines by it.

    charsmap = number of bytes of the trie (4 bytes, little-endian) | trie | replacements

Each replacement is UTF-8 text followed by a zero byte. The trie contains the replaced strings, one
byte an edge. It is a double array (Aoe 1989): an array of 32-bit units, in which a node is the
index of a unit, and node 0 is the root. With `unit = units[node]`:

    offset    bits 10–30 of unit; times 256 if bit 9 of unit is set
    base      node ^ offset
    child     node ^ offset ^ byte, for one of the bytes 1–255. The child exists if bits 0–7 of its
              unit are this byte, and bit 31 is not set.
    end       if bit 8 of unit is set, a replaced string ends at this node. Then units[base] has bit
              31 set, and its other bits are the position of the replacement's first byte.

So the string "AE" ends at node `n2`, where n1 = base(0) ^ 0x41, and n2 = base(n1) ^ 0x45.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.array_types import Longs
from volt.errors import VocabularyError

if TYPE_CHECKING:
    from volt.kernels.charsmap import Rules

Units = NDArray[np.uint32]
Replace = Callable[[bytes, bool], tuple[bytes, Longs]]

DAMAGED = "its table of replacements is damaged; copy or train it again"
BYTE_BITS = 0xFF
END_BIT = 1 << 8
LEAF_BIT = 1 << 31
_WIDE_BIT = 1 << 9
_OFFSET_SHIFT = 10
_OFFSET_BITS = (1 << 21) - 1
_N_SIZE_BYTES = 4  # before the trie; also the bytes of a unit
_LEAST_UNITS = 256  # a node has room for a child for every byte
_DELETE = 0x7F
_FIRST_LEAD = 0xC2  # the first byte of the first character after ASCII


def split_table(table: bytes) -> tuple[Units, bytes]:
    """Return the units of the trie, and the replacements.

    Raises VocabularyError if the sizes in the table do not fit.
    """
    if not table:
        return np.zeros(0, np.uint32), b""
    n_bytes = int.from_bytes(table[:_N_SIZE_BYTES], "little")
    unit_size = np.dtype("<u4").itemsize
    is_whole = unit_size * _LEAST_UNITS <= n_bytes <= len(table) - _N_SIZE_BYTES
    if n_bytes % unit_size or not is_whole:
        raise VocabularyError(DAMAGED)
    units = np.frombuffer(table, "<u4", n_bytes // unit_size, _N_SIZE_BYTES)
    return units, table[_N_SIZE_BYTES + n_bytes :]


def bases_of(units: Units) -> Longs:
    """Return the base of each node."""
    offsets = (units >> _OFFSET_SHIFT & _OFFSET_BITS).astype(np.int64)
    return np.arange(len(units)) ^ offsets << np.where(units & _WIDE_BIT, 8, 0)


def check_charsmap(table: bytes) -> None:
    """Raise VocabularyError if a unit of a charsmap points outside the trie or the replacements."""
    units, texts = split_table(table)
    is_leaf = units & LEAF_BIT != 0
    bases = bases_of(units)
    is_outside_texts = (units & ~np.uint32(LEAF_BIT)) >= len(texts)
    is_outside = np.where(is_leaf, is_outside_texts, bases >= len(units))
    if is_outside.any() or (texts and not texts.endswith(b"\0")):
        raise VocabularyError(DAMAGED)
    ends_string = ~is_leaf & (units & END_BIT != 0)
    if not is_leaf[bases[ends_string]].all():
        raise VocabularyError(DAMAGED)


def build_rules(
    table: bytes, *, takes_longest: bool = True, protected: Iterable[str] = ()
) -> Rules:
    """Return the arrays of `volt.kernels.charsmap.normalize`.

    table: a checked charsmap, or b"" for no replacements
    takes_longest: see `volt.kernels.charsmap`
    protected: strings that stay as they are
    """
    from volt.kernels.charsmap import FOLLOWS, IS_PROTECTED, STARTS, STARTS_ASCII, Rules

    units, texts = split_table(table)
    padded = np.zeros(-(-max(len(units), 1) // _LEAST_UNITS) * _LEAST_UNITS, np.uint32)
    padded[: len(units)] = units
    bases = bases_of(padded)

    def children(node: int) -> list[int]:
        return [
            byte
            for byte in range(1, _LEAST_UNITS)
            if padded[bases[node] ^ byte] & (LEAF_BIT | BYTE_BITS) == byte
        ]

    kinds = np.zeros(256, np.uint8)
    for byte in children(0):
        node = int(bases[0]) ^ byte
        next_bytes = children(node)
        is_ascii = byte < 0x80
        is_short = padded[node] & END_BIT != 0 or min(next_bytes, default=0) < 0x80
        if is_ascii and takes_longest and not is_short:
            kinds[next_bytes] |= FOLLOWS
        elif is_ascii or byte >= _FIRST_LEAD:
            kinds[byte] |= STARTS
        if is_ascii and is_short:
            kinds[byte] |= STARTS_ASCII

    strings = sorted(map(str.encode, protected), key=lambda string: (string[0], -len(string)))
    sizes = [len(string) for string in strings]
    firsts = np.array([string[0] for string in strings], np.int64)
    kinds[firsts] |= IS_PROTECTED
    special = [byte for byte in range(ord("!"), _DELETE) if kinds[byte]] or [_DELETE]
    return Rules(
        kinds,
        padded.view(np.int32),
        np.frombuffer(texts or b"\0", np.uint8),
        np.frombuffer(b"".join(strings) or b"\0", np.uint8),
        np.cumsum([0, *sizes], dtype=np.int64),
        np.searchsorted(firsts, np.arange(257)).astype(np.int64),
        int(takes_longest),
        folds=0,
        special_ascii=special[0] if len(special) == 1 else 0,
    )


def copies_ascii(rules: Rules) -> bool:
    """Check whether lines of printable ASCII without extra spaces stay as they are."""
    from volt.kernels.charsmap import STARTS_ASCII

    return not (rules.kinds[ord(" ") : _DELETE] & STARTS_ASCII).any()


def line_replacement(rules: Rules, separator: int) -> Replace:
    """Return the function that normalises lines of UTF-8, each followed by the byte `separator`, with
    OPEN and CLOSE around clusters.

    Its second argument is whether to return sources, see `volt.kernels.charsmap.normalize`, instead
    of an empty array.
    """
    from volt.kernels.charsmap import CLOSE, ENDS_LINE, FOLDS, MARKS, OPEN, normalize
    from volt.kernels.jit import bind

    kinds = rules.kinds.copy()
    if not rules.takes_longest:
        kinds[[OPEN, CLOSE]] = MARKS
    kinds[separator] = ENDS_LINE
    if rules.folds:
        kinds[ord(" ")] |= FOLDS
    run = bind(normalize, rules._replace(kinds=kinds), separator)

    def replace(data: bytes, is_traced: bool) -> tuple[bytes, Longs]:
        text = np.frombuffer(data, np.uint8)
        n_spare = len(data) // 8 + 64
        n_written = -1
        while n_written < 0:
            out = np.empty(len(data) + n_spare, np.uint8)
            sources = np.zeros(len(out) if is_traced else 0, np.int64)
            n_written = run(text, out, sources)
            n_spare *= 4
        return out[:n_written].tobytes(), sources[:n_written]

    return replace
