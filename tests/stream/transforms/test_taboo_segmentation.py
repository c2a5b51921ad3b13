"""Taboo segmentation: source and target spell the same words, and share no piece of several characters."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtrc

from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.nbest_segmenters import lexicon_segmenter
from volt.stream.transforms.random_segmentation import disjoint, long_pieces, shares_of
from volt.stream.transforms.subwords import Decode
from volt.stream.transforms.taboo_segmentation import (
    MorfessorEmTaboo,
    MorfessorEmTabooReordered,
    Taboo,
)
from volt.stream.transforms.transform import LoadedFiles, Transform, deterministic, inverse, loaded
from volt.vocabulary import Vocabulary

LEXICONS = st.dictionaries(
    st.text("abc▁", min_size=1, max_size=3), st.sampled_from([1.0, 2.0, 4.0, 8.0]), min_size=1
)
WORDS = st.text("abcd▁", min_size=1, max_size=6)
LINES = ["▁unlock ▁unlock ▁lock", "▁relock", "", "▁un ▁é"]
CHANCE = LineRng.of(3)


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    """A file with a small lexicon."""
    path = tmp_path / "lexicon.tsv"
    pieces = ["▁un", "lock", "▁u", "nl", "ock", "▁re", "loc", "▁l", *"▁unlockre"]
    path.write_text(
        "".join(f"{4 + k % 3}\t{piece}\n" for k, piece in enumerate(dict.fromkeys(pieces)))
    )
    return path


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """A file with a small vocabulary."""
    path = tmp_path / "tiny.volt"
    merges = (("l", "o"), ("c", "k</w>"), ("lo", "ck</w>"), ("u", "n"))
    tokens = (*"unlocke", *(f"{letter}</w>" for letter in "kunl"), "lo", "ck</w>", "lock</w>", "un")
    Vocabulary(merges=merges, tokens=tokens).save(path)
    return path


def sides(transform: Transform, lines: list[str], chance: LineRng = CHANCE) -> list[list[str]]:
    """The fields of lines behind a transform."""
    return transform(Batch.of(lines), chance).rows


@given(LEXICONS, WORDS, st.integers(1, 8), st.sampled_from([0.0, 0.5, float("inf")]))
def test_no_two_share_a_long_piece(
    counts: dict[str, float], word: str, n: int, theta: float
) -> None:
    """Of all pairs that can be drawn; both make the word, and all probability is theirs."""
    (found,) = disjoint(lexicon_segmenter(counts), [word], n=n, theta=theta)
    assert found.sides
    for one, other in found.sides:
        first, second = found.texts[one].split(" "), found.texts[other].split(" ")
        assert "".join(first) == "".join(second) == word
        assert not {piece for piece in first if len(piece.replace("▁", "")) > 1} & set(second)
    assert found.bounds[-1] == 1
    assert np.all(np.diff(found.bounds) >= 0)


def test_the_marker_is_no_character() -> None:
    """A marker with one character may be shared: '▁a' is as good as 'a'."""
    segmenter = lexicon_segmenter({"▁a": 8.0, "b": 8.0, "c": 8.0, "bc": 8.0})
    (found,) = disjoint(segmenter, ["▁abc"], n=5, theta=0.5)
    assert {(found.texts[one], found.texts[other]) for one, other in found.sides} >= {
        ("▁a bc", "▁a b c")
    }
    assert not long_pieces(["▁a", "a</w>", "▁"])
    assert long_pieces(["▁ab", "ab</w>"]) == {"▁ab", "ab</w>"}


def test_without_a_partner_the_second_is_the_characters() -> None:
    """Two segmentations that share every long piece are no pair; no piece of several characters is in characters."""
    segmenter = lexicon_segmenter({"abc": 8.0, "d": 8.0})
    (found,) = disjoint(segmenter, ["abcd"], n=1, theta=0.5)
    assert [(found.texts[one], found.texts[other]) for one, other in found.sides] == [
        ("abc d", "a b c d")
    ]


def test_pairs_are_drawn_by_their_scores(lexicon: Path) -> None:
    """The first ∝ score^theta, the second likewise among those that go with it: χ² over 2,000 lines."""
    model = lexicon_segmenter({"ab": 8.0, "a": 4.0, "b": 4.0, "bc": 2.0, "c": 4.0, "abc": 1.0})
    best = model.best(["abc"], 4)[0]
    first = shares_of([one.score for one in best], 0.5)
    expected = dict[tuple[str, str], float]()
    for one, share in zip(best, first, strict=True):
        others = [
            other for other in best if long_pieces(one.pieces).isdisjoint(long_pieces(other.pieces))
        ]
        weights = np.exp(0.5 * np.array([other.score for other in others]))
        for other, weight in zip(others, weights / weights.sum(), strict=True):
            expected[" ".join(one.pieces), " ".join(other.pieces)] = 2_000 * share * weight
    path = lexicon.with_name("other.tsv")
    path.write_text("8\tab\n4\ta\n4\tb\n2\tbc\n4\tc\n1\tabc\n")
    counts = Counter(
        (row[0], row[1]) for row in sides(MorfessorEmTaboo(path, n_samples=4), ["abc"] * 2_000)
    )
    assert counts.keys() <= expected.keys()
    distance = sum((counts[pair] - n) ** 2 / n for pair, n in expected.items())
    assert chdtrc(len(expected) - 1, distance) > 1e-4


def test_a_line_becomes_source_and_target(lexicon: Path) -> None:
    """Both spell it; a second field is replaced, and further ones stay."""
    rows = sides(MorfessorEmTaboo(lexicon, theta=0.0), [*LINES, "▁un\tx\ty"])
    assert [row[0].replace(" ", "") for row in rows] == [
        line.split("\t")[0].replace(" ", "") for line in [*LINES, "▁un"]
    ]
    assert [row[1].replace(" ", "") for row in rows] == [row[0].replace(" ", "") for row in rows]
    assert [len(row) for row in rows] == [2, 2, 2, 2, 3]
    assert rows != sides(MorfessorEmTaboo(lexicon, theta=0.0), [*LINES, "▁un\tx\ty"], LineRng.of(4))


def by_word(line: str) -> dict[str, set[str]]:
    """Word → the segmentations that it has in a line of marked words."""
    found = dict[str, set[str]]()
    for word in line.split("▁")[1:]:
        found.setdefault(word.replace(" ", ""), set()).add(word.strip())
    return found


def test_reordered_sides_agree(lexicon: Path) -> None:
    """In a line each word type has one segmentation on a side, and its pair on the other; lines differ."""
    lines = ["▁unlock ▁lock ▁unlock ▁relock\t▁relock ▁unlock ▁lock ▁unlock"] * 40
    rows = sides(MorfessorEmTabooReordered(lexicon, theta=0.0), lines)
    drawn = set[tuple[str, str]]()
    for source, target in rows:
        one, other = by_word(source), by_word(target)
        assert one.keys() == other.keys() == {"unlock", "lock", "relock"}
        assert all(len(found) == 1 for found in (*one.values(), *other.values()))
        for word in one:
            (first,), (second,) = one[word], other[word]
            assert long_pieces(first.split(" ")).isdisjoint(long_pieces(second.split(" ")))
        drawn.add((*one["unlock"], *other["unlock"]))
    assert len(drawn) > 3
    assert (
        sides(MorfessorEmTabooReordered(lexicon), ["▁un"])[0]
        == sides(MorfessorEmTabooReordered(lexicon), ["▁un\t▁un"])[0][:1]
    )


def test_taboo_does_what_the_two_do(lexicon: Path) -> None:
    """With the segmenter of Morfessor, the same lines by the same chance."""
    assert sides(Taboo(lexicon), LINES) == sides(MorfessorEmTaboo(lexicon), LINES)
    lines = ["▁unlock ▁lock\t▁lock ▁unlock"]
    assert sides(Taboo(lexicon, reordered=True), lines) == sides(
        MorfessorEmTabooReordered(lexicon), lines
    )


def test_taboo_with_a_vocabulary(vocabulary: Path) -> None:
    """Source and target decode to the text, and no word shares a piece of several characters with itself."""
    transform = loaded(
        Taboo(vocabulary, n_samples=16, segmenter="vocabulary", dropout=0.5), LoadedFiles()
    )
    rows = sides(transform, ["lock unlock un"] * 30)
    for row in rows:
        source, target = (re.findall(r"\S.*?</w>", side) for side in row)
        for one, other in zip(source, target, strict=True):
            assert long_pieces(one.split(" ")).isdisjoint(long_pieces(other.split(" ")))
    assert len(set(map(tuple, rows))) > 3
    assert {
        tuple(row) for row in sides(inverse([transform])[0], ["\t".join(row) for row in rows])
    } == {("lock unlock un",) * 2}
    assert inverse([transform]) == (Decode(vocabulary, None),)


def test_settled_it_takes_the_best_two(lexicon: Path) -> None:
    """The same for every chance; undone, both sides are the text."""
    transform = MorfessorEmTaboo(lexicon, marks="word")
    (best,), (back,), lines = (
        deterministic([transform]),
        inverse([transform]),
        ["unlock lock", "relock"],
    )
    rows = sides(best, lines)
    assert all(sides(best, lines, LineRng.of(seed)) == rows for seed in range(5))
    assert rows[0][0] != rows[0][1]
    assert sides(back, ["\t".join(row) for row in rows]) == [[line, line] for line in lines]
