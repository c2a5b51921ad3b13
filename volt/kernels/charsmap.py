"""Replace strings in lines by a table of replacements, and remove extra spaces, as sentencepiece
does.

    "ﬁne  day "   →   "fine day"

At each position, a protected string is copied; otherwise the longest replaced string is replaced;
otherwise one byte is copied. `volt.text.charsmap` documents the table, a double array. Extra spaces
are removed from the result: spaces at the start of a replacement or of other text, if a space or
the start of the line precedes it, and spaces and "▁" at the end of the line.

Hugging Face's Precompiled differs: if a *cluster* (a character and its marks) of up to five bytes
starts with a replaced string, the replacement of the shortest one stands for the whole cluster. Any
other text is replaced character by character. The caller writes bytes around clusters.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IdArray, LongArray, TextArray
from volt.kernels.intrinsics import load64, store64
from volt.kernels.jit import borrowing, inlined, releasing

# Kinds of bytes: flags. Any other byte is copied.
STARTS, FOLLOWS, FOLDS, IS_PROTECTED, ENDS_LINE, MARKS, STARTS_ASCII = 1, 2, 4, 8, 16, 32, 64
OPEN, CLOSE = 0xFD, 0xFE  # bytes around a cluster
_LONGEST_CLUSTER = 5  # bytes
_SPACE = 0x20
_MARK = 0xE2, 0x96, 0x81  # "▁"
_ASCII = 0x80
# For eight bytes as one number
_ZERO, _FIRST_BYTE = np.uint64(0), np.uint64(0xFF)
_ONES, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_SPACES = np.uint64(0x2020202020202020)
_UNIT_BITS = 0xFFFFFFFF
_BYTE_BITS = 0xFF
_END_BIT = 1 << 8
_WIDE_BIT = 1 << 9
_OFFSET_SHIFT = 10
_OFFSET_BITS = (1 << 21) - 1
_LEAF_BIT = 1 << 31


class Rules(NamedTuple):
    # (256,), the flags of each byte. STARTS: a replaced string may start with it; FOLLOWS: it may
    # follow an ASCII character that is otherwise copied; FOLDS: a space; IS_PROTECTED: a protected
    # string may start with it; ENDS_LINE: the separator; MARKS: OPEN or CLOSE; STARTS_ASCII: a
    # replaced string may be this character, or start with it and another one of ASCII
    kinds: ByteArray
    units: IdArray  # the trie, padded to a multiple of 256
    texts: TextArray  # the replacements; a byte 0 follows each
    # the protected strings, by their first byte, then the longest first
    protected: TextArray
    protected_starts: LongArray  # where each protected string starts, and where the last ends
    first_protected: (
        LongArray  # (257,), the number of the first protected string of each first byte
    )
    takes_longest: int  # 1 for the longest replaced string; 0 for clusters and characters
    folds: int  # 1 to remove extra spaces
    # the one printable character of ASCII that is not always copied, or 0x7F if there is none; 0 if
    # there are several
    special_ascii: int


@releasing
def normalize(
    rules: Rules, separator: int, data: TextArray, out: ByteArray, sources: LongArray
) -> int:
    """Write normalised lines. Return the number of bytes written, or −1 if `out` is too small.

    data: lines of UTF-8, each followed by the byte `separator`;  out: at least as long
    sources: set to where the text starts in `data` that became each byte of `out`; extra spaces become
        the end of their line. (0,) for none
    """
    n = len(data)
    p = to = line_out = unmatched = traced = start = 0  # out[traced:] comes from `start`
    next_try = 0 if rules.special_ascii > 0 and len(sources) == 0 else n
    while p < n and to >= 0:
        _set_sources(sources, traced, to, start)
        if p >= next_try:
            next_try = p + _copy_ascii(data, p, rules, line_out, out, to)
            to += next_try - p
            p = next_try
            next_try += 8
        traced = to
        start = p
        kind = int(rules.kinds[data[p]])
        if kind == 0 or (kind == FOLDS and not _is_after_space(out, line_out, to)):
            out[to] = data[p]
            p += 1
            to += 1
            continue
        if kind & ENDS_LINE:
            to = _end_line(out, line_out, to, rules.folds, separator)
            p = unmatched = p + 1
            line_out = to
            continue
        end = text = 0
        if kind & MARKS:
            end, text = _match_cluster(data, p, separator, rules)
            if end == 0:
                p += 1
                continue
        if kind & FOLLOWS and p > unmatched and _is_copied_ascii(data[p - 1], rules):
            end, text = _find(data, p - 1, n, separator, rules)
            start -= int(end > 0)
            to -= int(end > 0)
        if end == 0 and kind & IS_PROTECTED:
            end = _protected_end(data, p, rules)
            if end > 0:
                to = _put(data, p, end, n - end, rules.folds, line_out, out, to)
                p = unmatched = end
                continue
        if end == 0 and kind & STARTS:
            end, text = _match(data, p, separator, rules)
        if end > 0:
            to = _put_replacement(rules, text, n - end, line_out, out, to)
            p = unmatched = end
        else:
            if not (kind & FOLDS and _is_after_space(out, line_out, to)):
                out[to] = data[p]
                to += 1
            p += 1
    _set_sources(sources, traced, to, start)
    return to


@inlined
def _find_zeros(eight: Any) -> Any:
    """Return eight bytes with the highest bit set in each that is 0."""
    return ~(((eight & ~_HIGH_BITS) + ~_HIGH_BITS) | eight) & _HIGH_BITS


@borrowing
def _copy_ascii(
    data: TextArray, p: int, rules: Rules, line_out: int, out: ByteArray, to: int
) -> int:
    """Copy characters of ASCII, eight at once, up to others. Return how many."""
    n = 0
    special = np.uint64(rules.special_ascii) * _ONES
    while p + n + 8 < len(data):
        eight = load64(data, np.uint64(p + n))
        if not _is_copied(eight, special, rules.folds, out, line_out, to + n):
            break
        store64(out, np.uint64(to + n), eight)
        n += 8
    return n


@inlined
def _is_copied(
    eight: Any, special: Any, folds: int, out: ByteArray, line_out: int, to: int
) -> bool:
    """Check whether eight bytes are printable characters of ASCII that are copied, without extra
    spaces."""
    is_printable = (
        (eight | eight + _ONES) & _HIGH_BITS == _ZERO  # below 0x7F
        and (eight | eight >> np.uint64(1)) & _SPACES == _SPACES  # from 0x20 on
        and _find_zeros(eight ^ special) == _ZERO
    )
    if not is_printable or not folds:
        return bool(is_printable)
    spaces = _find_zeros(eight ^ _SPACES)
    has_two = spaces & (spaces << np.uint64(8)) != _ZERO
    starts_with_space = spaces & _FIRST_BYTE != _ZERO
    return not (has_two or (starts_with_space and _is_after_space(out, line_out, to)))


@inlined
def _match(data: TextArray, p: int, separator: int, rules: Rules) -> tuple[int, int]:
    """Return where the string to replace ends, and the position of its replacement; (0, 0) if there
    is none."""
    limit = len(data)
    if not rules.takes_longest:
        first = int(np.int64(data[p]))
        size = 1 + int(first >= 0xC2) + int(first >= 0xE0) + int(first >= 0xF0)
        limit = min(p + size, limit)
    return _find(data, p, limit, separator, rules)


@inlined
def _match_cluster(data: TextArray, p: int, separator: int, rules: Rules) -> tuple[int, int]:
    """Return the position after CLOSE and the position of the replacement of a cluster; (0, 0) if
    there is none."""
    end = text = 0
    if data[p] == OPEN:
        close = p + 1
        last = min(p + 1 + _LONGEST_CLUSTER, len(data) - 1)
        while close < last and data[close] != CLOSE:
            close += 1
        if data[close] == CLOSE:
            end, text = _find(data, p + 1, close, separator, rules)
            if end > 0:
                end = close + 1
    return end, text


@inlined
def _find(data: TextArray, p: int, limit: int, separator: int, rules: Rules) -> tuple[int, int]:
    """Return where the longest or shortest replaced string at p ends, and the position of its
    replacement; (0, 0) if there is none."""
    end = text = 0
    node = _base(rules.units, 0)
    for i in range(p, limit):
        byte = int(np.int64(data[i]))
        node ^= byte
        unit = int(np.int64(rules.units[node]) & _UNIT_BITS)
        if byte == separator or unit & (_LEAF_BIT | _BYTE_BITS) != byte:
            break
        node = _base(rules.units, node)
        if unit & _END_BIT:
            end = i + 1
            text = int(np.int64(rules.units[node]) & ~_LEAF_BIT & _UNIT_BITS)
            if not rules.takes_longest:
                break
    return end, text


@inlined
def _base(units: IdArray, node: int) -> int:
    unit = int(np.int64(units[node]) & _UNIT_BITS)
    offset = unit >> _OFFSET_SHIFT & _OFFSET_BITS
    if unit & _WIDE_BIT:
        offset <<= 8
    return node ^ offset


@inlined
def _protected_end(data: TextArray, p: int, rules: Rules) -> int:
    """Return where the longest protected string at p ends, or 0."""
    first = int(np.int64(data[p]))
    for number in range(rules.first_protected[first], rules.first_protected[first + 1]):
        start = rules.protected_starts[number]
        size = rules.protected_starts[number + 1] - start
        i = 0
        while i < size and p + i < len(data) and data[p + i] == rules.protected[start + i]:
            i += 1
        if i == size:
            return int(p + size)
    return 0


@inlined
def _put(
    source: TextArray,
    start: int,
    end: int,
    n_remaining: int,
    folds: int,
    line_out: int,
    out: ByteArray,
    to: int,
) -> int:
    """Write source[start:end], without extra spaces at its start. Return where it ends, or −1 if
    `out` then lacks room for the bytes that remain."""
    if folds and _is_after_space(out, line_out, to):
        while start < end and source[start] == _SPACE:
            start += 1
    if to + end - start + n_remaining > len(out):
        return -1
    for i in range(start, end):
        out[to] = source[i]
        to += 1
    return to


@inlined
def _put_replacement(
    rules: Rules, text: int, n_remaining: int, line_out: int, out: ByteArray, to: int
) -> int:
    end = _text_end(text, rules)
    return _put(rules.texts, text, end, n_remaining, rules.folds, line_out, out, to)


@inlined
def _set_sources(sources: LongArray, first: int, after: int, start: int) -> None:
    if len(sources) > 0 and after >= 0:
        sources[first:after] = start


@inlined
def _text_end(text: int, rules: Rules) -> int:
    """Return where the replacement at a position ends."""
    while rules.texts[text] != 0:
        text += 1
    return text


@inlined
def _is_copied_ascii(byte: Any, rules: Rules) -> Any:
    return byte < _ASCII and rules.kinds[byte] & ~IS_PROTECTED == 0


@inlined
def _is_after_space(out: ByteArray, line_out: int, to: int) -> Any:
    return to == line_out or out[to - 1] == _SPACE


@inlined
def _end_line(out: ByteArray, line_out: int, to: int, folds: int, separator: int) -> int:
    """Write the separator after a line, without the spaces and "▁" at its end if extra spaces are
    removed. Return the position after it."""
    while folds and to > line_out:
        if out[to - 1] == _SPACE:
            to -= 1
        elif (
            to - 3 >= line_out
            and out[to - 1] == _MARK[2]
            and out[to - 2] == _MARK[1]
            and out[to - 3] == _MARK[0]
        ):
            to -= 3
        else:
            break
    out[to] = separator
    return to + 1
