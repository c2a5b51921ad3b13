"""The intrinsics, as plain Python and compiled, against integers and Python's decoder."""

from __future__ import annotations

import importlib.util
from itertools import product
from types import ModuleType

import numpy as np
import pytest
from numba import njit

from volt.kernels import intrinsics
from volt.kernels.intrinsics import BLOCK, character

DATA = np.random.default_rng(1).integers(0, 256, 200).astype(np.uint8)
FIRSTS, SECONDS, LASTS = (
    b"\0\x61\x7f\x80\xbf\xc1\xc2\xdf\xe0\xe1\xed\xef\xf0\xf1\xf4\xf5\xff",
    b"\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0",
    b"\x7f\x80\xbf\xc0",
)


def loaded(monkeypatch: pytest.MonkeyPatch, *, plain: bool) -> ModuleType:
    """The module as numba's setting makes it."""
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", int(plain))
    spec = importlib.util.spec_from_file_location("other_intrinsics", intrinsics.__file__)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


@pytest.mark.parametrize("plain", [True, False])
def test_numbers_are_read_written_and_searched_at_any_place(
    monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    """Plain and compiled intrinsics do what integers of Python do, in arrays of bytes, of ids and of words."""
    module = loaded(monkeypatch, plain=plain)
    load64, store64, within, ones, zeros = (
        module.load64,
        module.store64,
        module.within,
        module.ones,
        module.trailing_zeros,
    )
    prefetch = module.prefetch

    def work(data: np.ndarray, out: np.ndarray, ids: np.ndarray, bits: np.ndarray) -> None:
        for place in range(data.size - BLOCK):
            prefetch(data, place)
            word = load64(data, place)
            bits[place, 0], bits[place, 1] = (
                within(data, place, 60, 99),
                within(data, place, 128, 0),
            )
            bits[place, 2], bits[place, 3], bits[place, 4] = word, ones(word), zeros(word)
            store64(out, 9 * place, word)
            store64(ids, 3 * place, word)
        bits[0, 5] = load64(ids, 3)

    n = len(DATA) - BLOCK
    out, ids, bits = (
        np.zeros(9 * n + 8, np.uint8),
        np.zeros(3 * n + 2, np.int32),
        np.zeros((n, 6), np.uint64),
    )
    njit(work)(DATA, out, ids, bits)
    whole = DATA.tobytes()
    words = [int.from_bytes(whole[place : place + 8], "little") for place in range(n)]
    assert bits[:, 2].tolist() == words
    assert bits[:, 3].tolist() == [word.bit_count() for word in words]
    assert bits[:, 4].tolist() == [(word & -word).bit_length() - 1 for word in words]
    assert out.reshape(-1)[: 9 * n].reshape(n, 9).tolist() == [
        [*whole[place : place + 8], 0] for place in range(n)
    ]
    assert ids[: 3 * n].reshape(n, 3)[:, :2].tobytes() == b"".join(
        whole[place : place + 8] for place in range(n)
    )
    assert bits[0, 5] == words[1]
    for column, low, high in ((0, 60, 159), (1, 128, 128)):
        hits = [
            sum((low <= byte <= high) << i for i, byte in enumerate(whole[p : p + 64]))
            for p in range(n)
        ]
        assert bits[:, column].tolist() == hits


def test_characters_are_those_of_pythons_decoder() -> None:
    """A character that is cut short, overlong, a surrogate, too large or out of place is −1."""
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
