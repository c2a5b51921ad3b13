"""The loops over tokens and word types, compared with Python's bytes and dictionaries."""

from itertools import pairwise
from random import Random

import numpy as np
from kernels.support import GUARD, drawn, texts, views
from support.flat import ends_of, flat, longs
from support.splitmix import MASK, mixed

from volt.kernels import word_types
from volt.kernels.word_types import N_BYTES, N_LINES, N_TOKENS, N_TYPES, SPARE, Types


def test_tokens_are_counted_cut_and_written():
    """`count_tokens` and `cut_tokens` find the text between spaces; `write_tokens` writes chosen
    tokens with one space between two."""
    for rng, values in drawn(8, "aab   \t", 60):
        row = views(values, rng, rng.choice([0, 0, 30]))
        lines = [[token for token in (value or b"").split(b" ") if token] for value in values]
        tokens = flat(lines)
        counts, starts, sizes = (
            np.zeros(n, np.int64) for n in (len(lines), len(tokens), len(tokens))
        )
        word_types.count_tokens(*row, counts)
        assert counts.tolist() == list(map(len, lines))
        word_types.cut_tokens(*row, starts, sizes)
        assert texts(row[0], starts, sizes) == tokens

        others = [b"", b"xy", b"z" * 20]
        chosen = longs([rng.randint(-3, len(tokens) - 1) for _ in tokens])
        ends = np.cumsum(counts)
        picked = [tokens[i] if i >= 0 else others[-1 - i] for i in chosen]
        joined = [b" ".join(picked[end - n : end]) for end, n in zip(ends, counts, strict=True)]
        out = np.full(sum(map(len, joined)) + SPARE, GUARD, np.uint8)
        out_ends = np.zeros(len(joined), np.int64)
        word_types.write_tokens(
            row[0], starts, sizes, *views([*others], rng, 2), chosen, ends, out, out_ends
        )
        assert bytes(out[:-SPARE]) == b"".join(joined)
        assert out_ends.tolist() == ends_of(joined)


def tables(n_types, n_bytes, n_slots):
    kinds = [
        (n_slots, np.int64),
        (n_types, np.uint64),
        (n_types + 1, np.int64),
        (n_bytes, np.uint8),
    ]
    return Types(*(np.zeros(n, kind) for n, kind in kinds))


def grown(types, state, size):
    """Return larger tables with the same types. The loop must have stopped for lack of room for `size` more bytes."""
    n_types, n_bytes = int(state[N_TYPES]), int(state[N_BYTES])
    most = n_types + (size + 1) // 2
    is_short_of_types = most > len(types.hashes) or 2 * most > len(types.slots)
    assert n_bytes + size > len(types.bytes) or is_short_of_types
    larger = tables(max(most, 9), n_bytes + size, max(16, 1 << (2 * most - 1).bit_length()))
    larger.hashes[:n_types] = types.hashes[:n_types]
    larger.starts[: n_types + 1] = types.starts[: n_types + 1]
    larger.bytes[:n_bytes] = types.bytes[:n_bytes]
    word_types.enter_types(larger.hashes, n_types, larger.slots)
    return larger


def test_find_words_numbers_types_in_order_of_first_occurrence():
    """`find_words` numbers word types in order of first occurrence.

    It stops before a line that may not fit, and continues with this line in larger tables.
    """
    for rng, values in drawn(9, "aab  ", 60):
        lines = [[word for word in (value or b"").split(b" ") if word] for value in values]
        numbers = {}
        expected = [[numbers.setdefault(word, len(numbers)) for word in line] for line in lines]
        n = len(flat(lines))
        row = views(values, rng)
        out, ends, state = (
            np.full(n + 1, -1, np.int32),
            np.zeros(len(values), np.int64),
            longs([0] * 4),
        )
        types = tables(*rng.choice([(9, 60, 16), (70, 40, 256)]))
        while not word_types.find_words(*row, types, True, out, ends, state):
            types = grown(types, state, len(values[state[N_LINES]] or b""))
        assert out.tolist() == [*flat(expected), -1]
        assert ends.tolist() == ends_of(lines)
        bounds = types.starts[: len(numbers) + 1].tolist()
        assert [bytes(types.bytes[a:b]) for a, b in pairwise(bounds)] == list(numbers)
        assert state.tolist() == [len(numbers), bounds[-1], len(values), n]
        for word, number in numbers.items():
            code = 0xCBF29CE484222325  # FNV-1a
            for byte in word:
                code = (code ^ byte) * 0x100000001B3 & MASK
            assert types.hashes[number] == mixed(code)


def test_find_words_gives_unknown_words_minus_one_if_it_adds_none():
    rng, words = Random(2), [b"a", b"bc", b"d" * 9]
    types, state = tables(8, 20, 16), np.zeros(4, np.int64)
    known = views([b" ".join(words)], rng)
    assert word_types.find_words(*known, types, True, np.zeros(3, np.int32), longs([0]), state)
    for _ in range(40):
        lines = [rng.choices([*words, b"x", b"ab"], k=rng.randint(0, 3)) for _ in range(3)]
        row = views([*map(b"  ".join, lines), None], rng)
        ids, ends = np.full(12, -9, np.int32), np.zeros(4, np.int64)
        state[[N_LINES, N_TOKENS]] = 0
        assert word_types.find_words(*row, types, False, ids, ends, state)
        expected = [words.index(word) if word in words else -1 for word in flat(lines)]
        assert ids.tolist() == (expected + [-9] * 12)[:12]
        assert ends.tolist() == ends_of([*lines, []])


def test_choose_draws_by_type_or_by_position():
    """`choose` draws the first choice whose bound is above a random share.

    The share depends on the line, and on the type or the position of the word.
    """
    rng = Random(9)
    for by_type in (True, False):
        numbers = [rng.choices(range(6), k=k) for k in (0, 3, 1, 9)]
        lines = [rng.getrandbits(64) for _ in numbers]
        hashes = [rng.getrandbits(64) for _ in range(6)]
        n_choices = [1 + number % 3 for number in range(6)]
        firsts = np.cumsum([0, *n_choices])
        bounds = [(k + 1) / n for n in n_choices for k in range(n)]
        chosen = np.zeros(13, np.int32)
        word_types.choose(
            np.array(lines, np.uint64),
            longs(ends_of(numbers)),
            np.array(flat(numbers), np.int32),
            np.array(hashes, np.uint64),
            by_type,
            firsts,
            np.array(bounds),
            chosen,
        )
        expected = []
        for line, row in zip(lines, numbers, strict=True):
            for k, number in enumerate(row):
                key = hashes[number] if by_type else (k + 1) * 0x9E3779B97F4A7C15 & MASK
                share = (mixed(line ^ mixed(key)) >> 11) / (1 << 53)
                expected.append(firsts[number] + int(share * n_choices[number]))
        assert chosen.tolist() == expected
