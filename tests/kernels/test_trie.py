"""Pieces found in a trie, and the best path of a word, equal naive twins for any pieces and scores."""

from itertools import accumulate, pairwise
from random import Random

import naive
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from volt.kernels.trie import path_room, segment_words, trie_of

UNKNOWN = -30.0
# Characters of one to four bytes, some with equal first or last bytes
LETTERS = "ab\0▁éè中丸😀\U0010ffff"
pieces_of_letters = st.lists(st.text(LETTERS, min_size=1, max_size=4), unique=True, max_size=20)
words_of_letters = st.lists(st.text(LETTERS, min_size=1, max_size=8), min_size=1, max_size=6)
ties = st.integers(-4, 1).map(float)


def segmented(scores, words, *, words_of_lines=(), unknown=UNKNOWN):
    """Return the pieces of each word.

    words_of_lines: the number of words of each line, along which scores are added
    """
    pieces = list(scores)
    trie = trie_of(pieces, np.array(list(scores.values()), np.float64), unknown)
    encoded = [word.encode() for word in words]
    ends = np.array(list(accumulate(map(len, encoded))), np.int64)
    out = np.zeros(ends[-1], np.int32)
    out_ends = np.zeros(len(words), np.int64)
    n = segment_words(
        np.frombuffer(b"".join(encoded), np.uint8),
        ends,
        np.array(words_of_lines, np.int64),
        trie,
        path_room(max(map(len, encoded))),
        out,
        out_ends,
    )
    symbols = out[:n].tolist()
    texts = [chr(-1 - symbol >> 1) if symbol < 0 else pieces[symbol] for symbol in symbols]
    return [texts[start:end] for start, end in pairwise([0, *out_ends.tolist()])]


def all_cuts(word, scores):
    """Yield all ways to cut a word into pieces; a character that is not a piece is unknown."""
    if not word:
        yield []
    for end in range(1, len(word) + 1):
        if end == 1 or word[:end] in scores:
            yield from ([word[:end], *rest] for rest in all_cuts(word[end:], scores))


@given(st.dictionaries(st.text(LETTERS, min_size=1, max_size=4), ties), words_of_letters)
def test_the_best_of_all_cuts_is_chosen(scores, words):
    """The path of a word is the cut with the greatest sum of scores; of equal cuts, the one with
    the longest last piece, then with the longest piece before it, and so on."""

    def rank(cut):
        total = sum(scores.get(piece, UNKNOWN) for piece in cut)
        return total, [len(piece) for piece in reversed(cut)]

    expected = [max(all_cuts(word, scores), key=rank) for word in words]
    assert segmented(scores, words) == expected


@given(
    st.dictionaries(st.text(LETTERS, min_size=1, max_size=4), st.floats(-20, 5)), words_of_letters
)
def test_scores_are_added_in_double_precision(scores, words):
    """Sums of a word's scores are rounded as in Python."""
    expected = [naive.best_path(word, scores, UNKNOWN)[0] for word in words]
    assert segmented(scores, words) == expected


@given(
    scores=st.dictionaries(
        st.text(LETTERS, min_size=1, max_size=4),
        st.floats(-20, 5, width=32) | st.floats(-90_000, 90_000, width=32) | ties,
    ),
    lines=st.lists(words_of_letters, min_size=1, max_size=4),
    n_times=st.sampled_from([1, 1, 40]),
)
@example({"a": -60_000.0, "aa": -120_000.0, "aaa": -180_000.5}, [["aaaaa", "aaa"]], 9)
@example({"a": -0.1, "b": -0.3, "ab": -0.4, "ba": -0.4}, [["abab", "ababab"]], 40)
def test_scores_of_lines_are_added_in_single_precision(scores, lines, n_times):
    """Along a line, each sum is rounded to single precision before it is compared. A sum beyond
    100,000 is subtracted from the sums of all later positions. Each line starts at 0."""
    scores = {piece: float(np.float32(score)) for piece, score in scores.items()}
    lines = [line * n_times for line in lines]
    expected = []
    for line in lines:
        total = 0.0
        for word in line:
            pieces, total = naive.best_path(word, scores, UNKNOWN, single=True, before=total)
            expected.append(pieces)
    words = [word for line in lines for word in line]
    assert segmented(scores, words, words_of_lines=list(map(len, lines))) == expected


@given(pieces_of_letters)
def test_every_piece_is_found(pieces):
    """A word that is a piece stays one piece, though its beginnings are pieces, too."""
    scores = dict.fromkeys(pieces, -1.0)
    for piece in pieces:
        assert segmented(scores, [piece]) == [[piece]]


def test_without_pieces_all_characters_are_unknown():
    """The trie of no pieces finds none."""
    assert segmented({}, ["a▁\0😀"]) == [["a", "▁", "\0", "😀"]]


def test_a_piece_with_a_space_is_not_found():
    """In words, "▁" stands for a space. A piece with U+0020 is not found, even if another one differs
    from it only in this character."""
    scores = {"a b": -1.0, "a▁b": -2.0, "a▁": -3.0, "c d": -1.0}
    assert segmented(scores, ["a▁bc▁d"]) == [["a▁b", "c", "▁", "d"]]


def test_long_pieces():
    """Pieces may have hundreds of bytes, and unknown text may follow their beginnings."""
    piece = "aé中" * 50
    assert len(piece.encode()) == 300
    scores = {piece: -5.0, piece[:-1]: -1.0, "a": -1.0}
    assert segmented(scores, [piece, piece[:-1], piece + "a" + piece[:2]]) == [
        [piece],
        [piece[:-1]],
        [piece, "a", "a", "é"],
    ]


@pytest.mark.parametrize("n", [3_000, pytest.param(100_000, marks=pytest.mark.campaign)])
def test_many_pieces(n):
    """A trie of many random pieces finds each of them, and the best paths of words made from them."""
    rng = Random(7)
    alphabet = "abcdefghijklmnopqrst▁éèñ中国人日本ｱｲ😀😁" + "".join(map(chr, range(0x4E00, 0x5000)))
    pieces = {"".join(rng.choices(alphabet, k=rng.randint(1, 5))) for _ in range(n)}
    scores = {piece: float(-rng.randint(1, 12)) for piece in sorted(pieces)}
    found = segmented(dict.fromkeys(scores, -1.0), list(scores))
    assert found == [[piece] for piece in scores]
    words = ["".join(rng.choices(list(scores), k=4)) for _ in range(200)]
    assert segmented(scores, words) == [naive.best_path(word, scores, UNKNOWN)[0] for word in words]
