"""The intrinsics, compiled and as plain Python, compared with Python's integers and decoder."""

import os
from itertools import product
from typing import Annotated

import numpy as np
import pytest

from volt.kernels import jit
from volt.kernels.arrays import ByteArray, IntArray, IntTable, LongArray, TextArray
from volt.kernels.intrinsics import (
    BLOCK,
    character,
    free,
    load64,
    new_array,
    ones,
    prefetch,
    store64,
    trailing_zeros,
    within,
)

KeyTable = Annotated[np.ndarray, jit.ArrayKind(np.dtype(np.uint64), 2)]
compiles = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
DATA = np.random.default_rng(1).integers(0, 256, 200).astype(np.uint8)
FIRSTS = b"\0\x61\x7f\x80\xbf\xc1\xc2\xdf\xe0\xe1\xed\xef\xf0\xf1\xf4\xf5\xff"
SECONDS = b"\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0"
LASTS = b"\x7f\x80\xbf\xc0"


def work(data: TextArray, out: ByteArray, ids: IntArray, bits: KeyTable) -> None:
    for place in range(data.size - BLOCK):
        prefetch(data, place)
        word = load64(data, place)
        bits[0, place] = within(data, place, 60, 99)
        bits[1, place] = within(data, place, 128, 0)
        bits[2, place] = word
        bits[3, place] = ones(word)
        bits[4, place] = trailing_zeros(word)
        store64(out, 9 * place, word)
        store64(ids, 3 * place, word)
    bits[5, 0] = load64(ids, 3)


def allocate(table: IntTable, out: LongArray) -> None:
    longer = new_array(table, (1000, 2))
    out[0] = longer[999, 1]
    for i in range(6):
        longer[i // 2, i % 2] = i
    for i in range(6):
        out[i + 1] = longer[i // 2, i % 2]
    out[7] = len(longer)
    free(longer)


compiled_or_not = pytest.mark.parametrize(
    "run",
    [
        pytest.param(jit.CompiledLoop, id="compiled", marks=compiles),
        pytest.param(lambda f: f, id="plain"),
    ],
)


@compiled_or_not
def test_memory_is_zero_and_keeps_its_content(monkeypatch, run):
    """A new array is zero, has the shape that was asked for, and can be written to."""
    monkeypatch.setattr(jit, "code_folder", lambda: None)
    out = np.full(8, -1)
    run(allocate)(np.zeros((0, 2), np.int32), out)
    assert out.tolist() == [0, 0, 1, 2, 3, 4, 5, 1000]


@compiled_or_not
def test_plain_and_compiled_intrinsics_equal_pythons_integers(monkeypatch, run):
    """At every position of arrays of bytes, ids and words, the plain and the compiled intrinsics
    read, write and search numbers as Python does."""
    monkeypatch.setattr(jit, "code_folder", lambda: None)
    n = len(DATA) - BLOCK
    out, ids, bits = (
        np.zeros(9 * n, np.uint8),
        np.zeros(3 * n, np.int32),
        np.zeros((6, n), np.uint64),
    )
    run(work)(DATA, out, ids, bits)
    whole = DATA.tobytes()
    eights = [whole[place : place + 8] for place in range(n)]
    words = [int.from_bytes(eight, "little") for eight in eights]
    assert bits[2].tolist() == words
    assert bits[3].tolist() == [word.bit_count() for word in words]
    assert bits[4].tolist() == [(word & -word).bit_length() - 1 for word in words]
    assert out.tobytes() == b"".join(eight + b"\0" for eight in eights)
    assert ids.tobytes() == b"".join(eight + bytes(4) for eight in eights)
    assert bits[5, 0] == words[1]
    for row, low, high in ((0, 60, 159), (1, 128, 128)):
        in_range = [low <= byte <= high for byte in whole]
        assert bits[row].tolist() == [
            sum(flag << i for i, flag in enumerate(in_range[place : place + BLOCK]))
            for place in range(n)
        ]


def test_character_equals_pythons_decoder():
    """`character` decodes what Python decodes, and returns −1 for a character that is incomplete,
    overlong, a surrogate, too large or misplaced."""
    for size in range(1, 5):
        for first, *rest in product(FIRSTS, *[SECONDS] * (size > 1), *[LASTS] * (size - 2)):
            text = bytes([first, *rest])
            data = np.frombuffer(b"a" + text + b"\x80\x80\x80", np.uint8)
            code, after = character(data, 1, 1 + size)
            try:
                letter = next(
                    text[:n].decode()
                    for n in range(1, size + 1)
                    if text[:n].decode(errors="ignore")
                )
            except (StopIteration, UnicodeDecodeError):
                assert code == -1, text
            else:
                assert (code, after) == (ord(letter), 1 + len(letter.encode())), text
