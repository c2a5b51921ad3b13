"""Laws of dropout: a distribution that is defined, a seed that repeats it, and text that comes back."""

from __future__ import annotations

from collections import Counter
from random import Random

import naive
import numpy as np
import pytest
from encoders import CORPUS, FEW, encoder, schemes, spelled, texts, vocabularies
from hypothesis import given
from hypothesis import strategies as st
from merges import LATE
from scipy.special import chdtri

from volt.encode.batch_encoder import expanded
from volt.encode.encoder import Encoder
from volt.errors import ConfigError
from volt.kernels.apply_bpe import LONG
from volt.vocabulary import Vocabulary


@given(texts, schemes, st.floats(0, 1), st.integers(0, 2**63))
@FEW
def test_any_dropout_decodes_back(text, scheme, dropout, seed):
    """However merges are passed over, the pieces spell the text, and all are tokens or unknown characters."""
    made = encoder(*scheme)
    pieces = made.encode(text, dropout=dropout, seed=seed)
    assert made.decode(pieces) == spelled(text, "none", scheme[1], scheme[0])
    assert pieces == made.encode(text, dropout=dropout, seed=seed)


@given(vocabularies(), st.integers(0, 99))
@FEW
def test_the_ends_of_dropout(case, seed):
    """Dropout 0 is no dropout; dropout 1 leaves the atoms."""
    words, vocabulary = case
    made, line = Encoder(vocabulary), " ".join(words)
    assert made.encode(line, dropout=0.0, seed=seed) == made.encode(line)
    atoms = [atom for word in words for atom in naive.atoms(word, vocabulary.marker)]
    assert made.encode(line, dropout=1.0, seed=seed) == atoms


@given(st.lists(texts, max_size=6), st.integers(0, 6), st.integers(0, 10**6))
@FEW
def test_dropout_does_not_depend_on_batches(lines, cut, first):
    """Line i draws from (seed, first + i), however the lines are grouped, and lines differ from each other."""
    made = encoder()
    whole = made.encode_lines(lines, dropout=0.4, seed=3, first=first)
    parts = made.encode_lines(lines[:cut], dropout=0.4, seed=3, first=first)
    assert whole == parts + made.encode_lines(
        lines[cut:], dropout=0.4, seed=3, first=first + len(lines[:cut])
    )


@given(st.lists(st.tuples(texts, st.integers(-(2**63), 2**63 - 1)), max_size=6), st.booleans())
@FEW
def test_lines_may_have_numbers_of_their_own(rows, ends):
    """A line with a number draws as a first line of that number would; the last may lack its line end."""
    made = encoder()
    lines, numbers = (
        [line.replace("\n", " ") for line, _ in rows],
        np.array([number for _, number in rows], np.int64),
    )
    text = "".join(f"{line}\n" for line in lines)
    text = text if ends or not lines or not lines[-1] else text[:-1]
    options = {"dropout": 0.4, "seed": 3, "numbers": numbers}
    expected = list[bytes]()
    for line, number in zip(lines, numbers.tolist(), strict=True):
        alone = made.encode_text(f"{line}\n".encode(), **options | {"numbers": np.array([number])})
        if abs(number) < 2**62:
            assert alone == made.encode_text(
                f"{line}\n".encode(), dropout=0.4, seed=3, first=number
            )
        expected.append(alone)
    assert made.encode_text(text.encode(), **options) == b"".join(expected)
    ids = made.encode_bytes(text.encode(), **options)
    assert len(ids) == len(lines)
    with pytest.raises(ConfigError, match="one number for each line"):
        made.encode_bytes(
            text.encode(), **options | {"numbers": np.zeros(len(lines) + 1, np.int64)}
        )


def test_dropout_differs_between_lines_and_seeds():
    """Equal lines with different numbers, and different seeds, are sampled independently."""
    made, line = encoder(), " ".join(CORPUS)
    by_line = made.encode_lines([line] * 20, dropout=0.3, seed=1)
    by_seed = [made.encode(line, dropout=0.3, seed=seed) for seed in range(20)]
    assert len({*map(tuple, by_line)}) == len({*map(tuple, by_seed)}) == 20


def test_more_dropout_makes_more_pieces():
    """The number of pieces grows with dropout, from the deterministic one to that of atoms."""
    made = encoder()
    lengths = [
        sum(map(len, made.encode_lines(CORPUS * 20, dropout=dropout, seed=1)))
        for dropout in (0.0, 0.05, 0.1, 0.3, 0.6, 0.9, 1.0)
    ]
    assert lengths == sorted(set(lengths))


@pytest.mark.parametrize("before", ["", "·" * LONG], ids=["short", "long"])
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(
    ("word", "merges"),
    [
        ("ab", [("a", "b</w>")]),
        ("abc", [("a", "b"), ("b", "c</w>"), ("ab", "c</w>"), ("a", "bc</w>")]),
        ("aaaaa", [("a", "a"), ("aa", "a</w>"), ("aa", "aa")]),
        ("ababx", [("a", "b"), ("ab", "ab"), ("abab", "x</w>")]),
        ("ababab", [("a", "b"), ("ab", "ab"), ("b", "a"), ("ba", "b</w>")]),
        ("abcd", [*LATE[:3], ("abc", "d</w>"), ("a", "bc")]),
    ],
)
def test_dropout_has_its_defined_distribution(word, merges, dropout, before):
    """Each applicable merge is passed over with the probability, independently at every step: frequencies of the
    outcomes agree with their exact probabilities (χ² test, fixed seed, p > 10⁻⁵). Short and long words, which differ
    here by what never merges, are merged by different loops."""
    exact = naive.dropout_distribution(word, merges, dropout)
    assert sum(exact.values()) == pytest.approx(1)
    tokens = tuple(dict.fromkeys([*naive.atoms(word), *map("".join, merges)]))
    made, n = Encoder(Vocabulary(tuple(merges), tokens)), 1_000 if before else 8_000
    pieces = made.encode(" ".join([before + word] * n), dropout=dropout, seed=7)
    pieces = [piece for piece in pieces if piece != "·"]
    found, start = Counter[tuple[str, ...]](), 0
    for i, piece in enumerate(pieces):
        if piece.endswith("</w>"):
            found[tuple(pieces[start : i + 1])] += 1
            start = i + 1
    assert found.total() == n
    assert set(found) <= set(exact)
    distance = sum((found[pieces] - n * p) ** 2 / (n * p) for pieces, p in exact.items() if p > 0)
    assert distance < chdtri(max(1, len(exact) - 1), 1e-5), (found, exact)


def test_the_naive_dropout_has_its_distribution():
    """The two twins of dropout, sampling and exact, agree, so the definition is what we think it is."""
    merges, rng, n = [("a", "b"), ("ab", "ab"), ("abab", "x</w>")], Random(1), 4_000
    exact = naive.dropout_distribution("ababx", merges, 0.4)
    found = Counter(tuple(naive.encode_dropped("ababx", merges, 0.4, rng)) for _ in range(n))
    assert max(abs(found[pieces] / n - p) for pieces, p in exact.items()) < 0.04


def test_numbers_become_their_values() -> None:
    """Each number is replaced by its values; in text, a line end replaces the last space or is an empty line."""
    rng = Random(5)
    rows = ["", "a ", "bc ", "d "]
    starts = np.cumsum([0, *map(len, rows)])
    for dtype in (np.uint8, np.int32):
        values = np.frombuffer("".join(rows).encode(), np.uint8).astype(dtype)
        for _ in range(20):
            lines = [rng.choices(range(4), k=rng.randint(0, 3)) for _ in range(rng.randint(0, 4))]
            expected = ["".join(rows[number] for number in line) for line in lines]
            if dtype is np.uint8:
                expected = [line[:-1] + "\n" for line in expected]
            numbers = np.array([number for line in lines for number in line], np.int32)
            ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
            part = expanded(numbers, ends, starts, values)
            assert bytes(part.values.astype(np.uint8)).decode() == "".join(expected)
            assert part.ends.tolist() == np.cumsum([len(line) for line in expected]).tolist()
