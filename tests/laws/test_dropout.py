"""Laws of dropout: it has a defined distribution, a seed repeats it, and its pieces spell the text."""

from collections import Counter
from random import Random

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtri
from support.encoders import CORPUS, FEW, encoder, schemes, spelled, texts, vocabularies
from support.merges import LATE

from volt.encode.encoder import Encoder
from volt.errors import ConfigError
from volt.kernels.apply_bpe import LONG
from volt.vocabulary import Vocabulary


@given(texts, schemes, st.floats(0, 1), st.integers(0, 2**63))
@FEW
def test_any_dropout_decodes_to_the_text(text, scheme, dropout, seed):
    """With any dropout, pieces decode to the text, and an equal seed gives equal pieces."""
    made = encoder(*scheme)
    pieces = made.encode(text, dropout=dropout, seed=seed)
    assert made.decode(pieces) == spelled(text, "none", scheme[1], scheme[0])
    assert pieces == made.encode(text, dropout=dropout, seed=seed)


@given(vocabularies(), st.integers(0, 99))
@FEW
def test_no_dropout_and_full_dropout(case, seed):
    """Dropout 0 skips no merge; dropout 1 leaves the atoms."""
    words, vocabulary = case
    made = Encoder(vocabulary)
    line = " ".join(words)
    assert made.encode(line, dropout=0.0, seed=seed) == made.encode(line)
    atoms = [atom for word in words for atom in naive.atoms(word, vocabulary.marker)]
    assert made.encode(line, dropout=1.0, seed=seed) == atoms


@given(st.lists(texts, max_size=6), st.integers(0, 6), st.integers(0, 10**6))
@FEW
def test_dropout_does_not_depend_on_batches(lines, cut, first):
    """With dropout, line i draws from (seed, first + i), however lines are grouped into calls."""
    made = encoder()
    drops = {"dropout": 0.4, "seed": 3}
    start = made.encode_lines(lines[:cut], first=first, **drops)
    rest = made.encode_lines(lines[cut:], first=first + len(start), **drops)
    assert made.encode_lines(lines, first=first, **drops) == start + rest


@given(st.lists(st.tuples(texts, st.integers(-(2**63), 2**63 - 1)), max_size=6), st.booleans())
@FEW
def test_lines_may_have_their_own_numbers(rows, has_end):
    """With `numbers`, a line draws as a first line of this number would; the last line end is
    optional.
    """
    made = encoder()
    drops = {"dropout": 0.4, "seed": 3}
    lines = [line.replace("\n", " ").encode() + b"\n" for line, _ in rows]
    numbers = np.array([number for _, number in rows], np.int64)
    expected = b""
    for line, number in zip(lines, numbers, strict=True):
        alone = made.encode_text(line, numbers=numbers[numbers == number][:1], **drops)
        expected += alone
        if abs(int(number)) < 2**62:
            assert alone == made.encode_text(line, first=int(number), **drops)
    text = b"".join(lines)
    if not has_end and lines and lines[-1] != b"\n":
        text = text.removesuffix(b"\n")
    assert made.encode_text(text, numbers=numbers, **drops) == expected
    assert len(made.encode_bytes(text, numbers=numbers, **drops)) == len(lines)
    with pytest.raises(ConfigError, match="one number for each line"):
        made.encode_bytes(text, numbers=np.zeros(len(lines) + 1, np.int64), **drops)


def test_dropout_differs_between_lines_and_seeds():
    """Equal lines with different numbers, and different seeds, draw different pieces."""
    line = " ".join(CORPUS)
    by_line = encoder().encode_lines([line] * 20, dropout=0.3, seed=1)
    by_seed = [encoder().encode(line, dropout=0.3, seed=seed) for seed in range(20)]
    assert len({*map(tuple, by_line)}) == len({*map(tuple, by_seed)}) == 20


def test_more_dropout_makes_more_pieces():
    """The number of pieces grows with dropout."""
    lengths = []
    for dropout in (0.0, 0.05, 0.1, 0.3, 0.6, 0.9, 1.0):
        rows = encoder().encode_lines(CORPUS * 20, dropout=dropout, seed=1)
        lengths.append(sum(map(len, rows)))
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
    """Each applicable merge is skipped with the probability, independently at every step: a χ² test compares the
    frequencies of pieces with their exact probabilities (fixed seed, p > 10⁻⁵). Different loops merge short and long
    words, which differ here by a prefix that never merges."""
    exact = naive.dropout_distribution(word, merges, dropout)
    assert sum(exact.values()) == pytest.approx(1)
    tokens = tuple(dict.fromkeys([*naive.atoms(word), *map("".join, merges)]))
    n = 1_000 if before else 8_000
    made = Encoder(Vocabulary(tuple(merges), tokens))
    pieces = " ".join(made.encode(" ".join([before + word] * n), dropout=dropout, seed=7))
    rows = pieces.replace("· ", "").replace("</w>", "</w>\n").splitlines()
    frequencies = Counter(tuple(row.split()) for row in rows)
    assert frequencies.total() == n
    assert set(frequencies) <= set(exact)
    distance = sum((frequencies[row] - n * p) ** 2 / (n * p) for row, p in exact.items() if p > 0)
    assert distance < chdtri(max(1, len(exact) - 1), 1e-5), (frequencies, exact)


def test_the_naive_twins_of_dropout_agree():
    """The two naive reference implementations of dropout, sampling and exact probabilities, agree."""
    merges = [("a", "b"), ("ab", "ab"), ("abab", "x</w>")]
    rng = Random(1)
    n = 4_000
    exact = naive.dropout_distribution("ababx", merges, 0.4)
    drawn = Counter(tuple(naive.encode_dropped("ababx", merges, 0.4, rng)) for _ in range(n))
    assert max(abs(drawn[pieces] / n - p) for pieces, p in exact.items()) < 0.04
