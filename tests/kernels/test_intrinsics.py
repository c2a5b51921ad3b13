"""The intrinsics, compiled and as plain Python, compared with Python's integers and decoder."""

import runpy
from itertools import product

import numpy as np
import pytest
from numba import njit

from volt.kernels import intrinsics
from volt.kernels.intrinsics import BLOCK, character

DATA = np.random.default_rng(1).integers(0, 256, 200).astype(np.uint8)
FIRSTS = b"\0\x61\x7f\x80\xbf\xc1\xc2\xdf\xe0\xe1\xed\xef\xf0\xf1\xf4\xf5\xff"
SECONDS = b"\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0"
LASTS = b"\x7f\x80\xbf\xc0"


def loaded(monkeypatch, *, plain):
    """Import the module again, with numba or without."""
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", int(plain))
    return runpy.run_path(intrinsics.__file__)


@pytest.mark.parametrize("plain", [True, False])
def test_plain_and_compiled_intrinsics_equal_pythons_integers(monkeypatch, plain):
    """At every position of arrays of bytes, ids and words, the plain and the compiled intrinsics
    read, write and search numbers as Python does."""
    module = loaded(monkeypatch, plain=plain)
    load64, store64, within = module["load64"], module["store64"], module["within"]
    ones, zeros, prefetch = module["ones"], module["trailing_zeros"], module["prefetch"]

    def work(data, out, ids, bits):
        for place in range(data.size - BLOCK):
            prefetch(data, place)
            word = load64(data, place)
            bits[0, place] = within(data, place, 60, 99)
            bits[1, place] = within(data, place, 128, 0)
            bits[2, place] = word
            bits[3, place] = ones(word)
            bits[4, place] = zeros(word)
            store64(out, 9 * place, word)
            store64(ids, 3 * place, word)
        bits[5, 0] = load64(ids, 3)

    n = len(DATA) - BLOCK
    out, ids, bits = (
        np.zeros(9 * n, np.uint8),
        np.zeros(3 * n, np.int32),
        np.zeros((6, n), np.uint64),
    )
    njit(work)(DATA, out, ids, bits)
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
