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

WORDS: tuple[bytes, ...] = (
    b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\n\n", b"\t", b" ",
    b"\x1b[31m", b"\xe2\x80\xa8", b"\xe2\x96\x81", b"\xe2\x80\x8b", b"\xc4\xa0", b"</w>", b"@@", b"<unk>", b"<0x00>",
    b"<0xZZ>", b"<s>", b"#version: 0.2\n", b'{"volt": 1,\n', b'"', b"\\", b"\\u0000", b"\\ud800", b"{", b"}", b"[", b"]",
    b"{}", b"[]", b'""', b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"0", b"-1", b"1", b"1.5", b"1e999", b"-0.0",
    b"2147483648", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"9" * 400, b"1" + b"0" * 5000,
    b"[" * 3000, b'{"a":' * 3000, b"a" * 3000, b"\xe2\x96\x81" * 999, b"\xcc\x81" * 500, b": ", b"- ", b"&a [*a]", b"*a",
    b"<<: *a", b"!!python/object:os.system", b"!!binary x", b"? ", b"|", b"---\n", b"%YAML 9\n", b"seed: ", b"path: ",
    b"sources: ", b"transforms: ", b"weight: ", b"epochs: ", b"block_lines: ", b"workers: 0", b"/", b"..", b"*", b"-", b"(",
    b"(a+)+$", b"\\p{L}", b"(?P<", b"\x08\x01", b"\x0a\xff\xff\xff\xff\x0f", b"\x80" * 11,
)  # fmt: skip


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


STEPS = (_flip, _set, _cut, _remove, _repeat, _insert, _number, _value, _lines(_swap), _lines(_drop), _lines(_double), _again)  # fmt: skip  # noqa: E501
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
