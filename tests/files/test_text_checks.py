"""Laws of detecting binary data: NUL is a character like any other, and the whole head decides."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.errors import CorpusError
from volt.files import text_checks
from volt.files.text_checks import (
    HEAD_SIZE,
    detect_binary,
    find_long_line,
    first_fault,
    is_utf8,
    is_utf8_array,
    refuse_binary_pieces,
)

TEXT = "The cat sat on the mät.\n" * 400


def pieces_of(data, sizes):
    """Return the data in pieces of these sizes, and the rest."""
    found = []
    start = 0
    for size in sizes:
        found.append(data[start : start + size])
        start += size
    return [*filter(None, found), data[start:]]


def verdict(data, sizes):
    """Return the error for data that come in pieces; None for text, which passes unchanged."""
    passed = []
    try:
        for piece in refuse_binary_pieces("a", pieces_of(data, sizes)):
            passed.append(piece)
    except CorpusError as error:
        return str(error)
    assert b"".join(passed) == data
    return None


@given(st.integers(0, len(TEXT)), st.integers(1, 40))
@settings(max_examples=examples(60))
def test_a_nul_is_text_wherever_it_stands(place, n):
    """`detect_binary` accepts a text with a few NULs, wherever they are."""
    assert detect_binary((TEXT[:place] + "\0" * n + TEXT[place:]).encode()[:HEAD_SIZE]) is None


DATA = {
    "text": TEXT.encode(),
    "nul": ("\0" + TEXT).encode(),
    "latin": TEXT.encode("latin-1"),
    "utf-16-le": TEXT.encode("utf-16-le"),
    "utf-16": TEXT.encode("utf-16"),
    "utf-32-be": TEXT.encode("utf-32-be"),
    "random": random.Random(1).randbytes(20_000),
    "numbers": b"".join(n.to_bytes(4, "little") for n in range(3_000)),
    "zeros": bytes(9_000),
    "zip": b"PK\x03\x04rest",
    "cyrillic": ("Широка страна моя родная\n" * 400).encode("utf-16-le"),
    "late": TEXT.encode()[:HEAD_SIZE] + bytes(100),
}
TEXTS = {"text", "nul", "latin", "late"}


@pytest.mark.parametrize("name", DATA)
@given(sizes=st.lists(st.integers(1, 5_000), max_size=4))
@settings(max_examples=examples(15))
def test_the_verdict_does_not_depend_on_how_data_are_read(name, sizes):
    """`refuse_binary_pieces` accepts or refuses data independently of the sizes of their pieces,
    and yields accepted pieces unchanged."""
    message = verdict(DATA[name], sizes)
    assert message == verdict(DATA[name], [])
    assert (message is None) == (name in TEXTS)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_encodings_are_named_with_the_command_that_converts_them(encoding):
    """`detect_binary` detects UTF-16 and UTF-32 without a byte order mark, even in one word, and
    names the command that converts them."""
    name = encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
    for text in ("low\n", TEXT):
        assert f"iconv -f {name} -t UTF-8" in (
            detect_binary(text.encode(encoding)[:HEAD_SIZE]) or ""
        )


def test_shares_at_which_data_are_binary():
    """`detect_binary` refuses 64 bytes or more if 30 % are control bytes, or 5 % if the bytes are
    not UTF-8."""
    for bad in (b"\0", b"\x01"):
        assert detect_binary(bad * 29 + b"x" * 71) is None
        assert "30% of its first 100 bytes" in (detect_binary(bad * 30 + b"x" * 70) or "")
    assert detect_binary(b"\x01" * 30 + b"x" * 33) is None
    assert detect_binary(b"\xff" * 50 + b"\x01" * 4 + b"x" * 46) is None
    assert "5% of its first 100 bytes" in (
        detect_binary(b"\xff" * 50 + b"\x01" * 5 + b"x" * 45) or ""
    )
    assert detect_binary(b"\t\r\n\v\f\x1b" * 20) is None
    assert detect_binary(("é" * 50).encode()[:-1]) is None
    assert detect_binary(b"x" * 44 + bytes(19)) is None
    assert detect_binary(b"x" * 44 + bytes(20)) is not None
    assert detect_binary(b"a\0" * 9 + b"ab") is not None
    assert detect_binary(b"a\0" * 8 + b"ab") is None


def test_faults_and_long_lines_have_places():
    """`first_fault` returns the index of the first byte that is not UTF-8, and `find_long_line` the
    start of the first line beyond a limit."""
    assert [first_fault(data) for data in (b"", b"ab", b"a\xff", b"\xc3")] == [0, 2, 1, 0]
    lines = b"abc\nab\n\nabcd"
    assert [find_long_line(lines, most) for most in (1, 2, 3, 4, 5)] == [0, 0, 8, -1, -1]
    assert [find_long_line(b"ab\nabc\n", most) for most in (2, 3)] == [3, -1]


@pytest.mark.parametrize("size", [3, text_checks._FEW, text_checks._FEW + 1])
@pytest.mark.parametrize("end", [b"x", b"\xff", "é".encode(), b"\xc3"])
def test_both_checks_of_utf8_agree_with_python(size, end):
    """`is_utf8` (by Polars) and `is_utf8_array` (by Arrow) accept what Python decodes, whatever the
    length."""
    data = b"x" * (size - len(end)) + end
    expected = first_fault(data) == size
    assert is_utf8(data) == is_utf8_array(np.frombuffer(data, np.uint8)) == expected
