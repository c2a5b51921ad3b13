"""Damage to files: valid bytes → bytes that somebody might meet, drawn by Hypothesis.

A step is three numbers: what is done, where, and how much. The same steps do the same to the same bytes.

>>> changed(b"one\\ntwo\\n", [(CUT, 3, 0)])
b'one'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

Step = tuple[int, int, int]
LARGEST = 1 << 18  # bytes of an example

WORDS = tuple(
    word.encode("latin-1")
    for word in (
        *("\0", "\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xef\xbb\xbf", "\r\n", "\n", "\n\n", "\t", " "),
        *("\x1b[31m", "\xe2\x80\xa8", "\xe2\x96\x81", "\xe2\x80\x8b", "\xc4\xa0", "</w>", "@@", "<unk>", "<0x00>"),
        *(
            "<0xZZ>",
            "<s>",
            "#version: 0.2\n",
            '{"volt": 1,\n',
            '"',
            "\\",
            "\\u0000",
            "\\ud800",
            "{",
            "}",
            "[",
            "]",
            "{}",
        ),
        *(
            "[]",
            '""',
            "null",
            "true",
            "NaN",
            "Infinity",
            "-Infinity",
            "0",
            "-1",
            "1",
            "1.5",
            "1e999",
            "-0.0",
            "2147483648",
        ),
        *("9223372036854775807", "9223372036854775808", "18446744073709551616", "9" * 400, "1" + "0" * 5000),
        *("[" * 3000, '{"a":' * 3000, "a" * 3000, "\xe2\x96\x81" * 999, "\xcc\x81" * 500, ": ", "- ", "&a [*a]", "*a"),
        *("<<: *a", "!!python/object:os.system", "!!binary x", "? ", "|", "---\n", "%YAML 9\n", "seed: ", "path: "),
        *("sources: ", "transforms: ", "weight: ", "epochs: ", "block_lines: ", "workers: 0", "/", "..", "*", "-", "("),
        *("(a+)+$", "\\p{L}", "(?P<", "\x08\x01", "\x0a\xff\xff\xff\xff\x0f", "\x80" * 11),
    )
)


def _flip(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << size % 8)]) + data[at + 1 :] if at < len(data) else data


def _set(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes([size % 256]) + data[at + 1 :]


def _cut(data: bytes, at: int, size: int) -> bytes:
    return data[:at]


def _remove(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + data[at + 1 + size % 64 :]


def _repeat(data: bytes, at: int, size: int) -> bytes:
    piece = data[at : at + 1 + size % 32]
    return data[:at] + piece * (2 + size % 300) + data[at:]


def _insert(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + WORDS[size % len(WORDS)] + data[at:]


def _number(data: bytes, at: int, size: int) -> bytes:
    """Another word for a number behind the place."""
    found = re.compile(rb"-?\d+").search(data, at)
    return data if found is None else data[: found.start()] + WORDS[size % len(WORDS)] + data[found.end() :]


def _value(data: bytes, at: int, size: int) -> bytes:
    """Another word for what stands in quotes, or for a word, behind the place."""
    found = re.compile(rb'"[^"\n]*"|\w+').search(data, at)
    return data if found is None else data[: found.start()] + WORDS[size % len(WORDS)] + data[found.end() :]


def _lines(change: Callable[[list[bytes], int, int], None]) -> Callable[[bytes, int, int], bytes]:
    def changed_lines(data: bytes, at: int, size: int) -> bytes:
        rows = data.split(b"\n")
        change(rows, data.count(b"\n", 0, at), size % len(rows))
        return b"\n".join(rows)

    return changed_lines


def _swap(rows: list[bytes], one: int, other: int) -> None:
    rows[one], rows[other] = rows[other], rows[one]


def _drop(rows: list[bytes], one: int, other: int) -> None:
    del rows[one]


def _double(rows: list[bytes], one: int, other: int) -> None:
    rows.insert(other, rows[one])


def _again(data: bytes, at: int, size: int) -> bytes:
    """A later piece, put at the place as well."""
    start = size % (len(data) + 1)
    return data[:at] + data[start : start + 40] + data[at:]


STEPS = (
    *(_flip, _set, _cut, _remove, _repeat, _insert, _number, _value, _again),
    *(_lines(_swap), _lines(_drop), _lines(_double)),
)
CUT = STEPS.index(_cut)


def changed(data: bytes, steps: Sequence[Step]) -> bytes:
    """Bytes after all steps."""
    for what, where, size in steps:
        data = STEPS[what % len(STEPS)](data, where % (len(data) + 1), size)[:LARGEST]
    return data


_STEP = st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 1 << 16), st.integers(0, 1 << 12))


def damaged(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """One of the seeds after one to five steps."""
    return st.builds(changed, st.sampled_from(seeds), st.lists(_STEP, min_size=1, max_size=5))
