"""Typos and punctuation noise: what a naive twin in plain Python makes, and the laws that a reader can see."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from splitmix import Drawn, mixed

from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.noise import KINDS, Kind, Punctuation, Typos, _marks

ANY = st.characters(exclude_characters="\t\n", exclude_categories=["Cs"])
SHORT = st.one_of(st.text(ANY, max_size=12), st.text(st.sampled_from("ab é一𐐀"), max_size=12))
VALUES = st.one_of(
    st.lists(SHORT, max_size=8), st.lists(SHORT.map(lambda text: text * 60), max_size=1)
)
MARKED = st.lists(st.text(st.sampled_from("ab .,!’'。一 é𐐀"), max_size=10), max_size=8)
SOME_KINDS = st.lists(st.sampled_from(KINDS), min_size=1, unique=True).map(tuple)
RATES = st.sampled_from([0.0, 0.003, 0.05, 0.5, 1.0])


def seeds_of(chance: LineRng, n: int) -> list[int]:
    """The seeds of field 1 of so many lines."""
    return [int(word) for word in chance.at(1).words(np.arange(n))]


# Typos


def misspelt(value: str, seed: int, rate: float, kinds: tuple[Kind, ...]) -> str:
    """The naive twin: one character after the other."""
    drawn, out, place, is_bare = Drawn(seed), "", 0, True
    hits = hits_of(drawn, rate)
    while place < len(value):
        letter, following = value[place], value[place + 1 : place + 2]
        place += 1
        if letter <= " " or not next(hits):
            out, is_bare = out + letter, letter <= " "
            continue
        kind, written = kinds[int(drawn.fraction() * len(kinds))], letter
        if kind == "swap" and following > " ":
            written, place = following + letter, place + 1
        elif kind == "drop" and (following > " " or not is_bare):
            written = ""
        elif kind in ("insert", "replace"):
            other = character_of(value, letter, Drawn(mixed(drawn.state)))
            written = other + letter if kind == "insert" else other
        out, is_bare = out + written, is_bare and not written
    return out


def hits_of(drawn: Drawn, rate: float) -> Iterator[bool]:
    """For each character, whether it is hit. A number is drawn behind each that is, and behind 256 that are not."""
    while True:
        left, limit = 1.0, drawn.fraction()
        for _ in range(256):
            left *= 1.0 - rate
            yield left <= limit
            if left <= limit:
                break


def character_of(value: str, otherwise: str, drawn: Drawn) -> str:
    """A character that is no space: bytes are drawn until one is the first of such a character."""
    firsts = [x for letter in value for x in (letter, *[""] * (len(letter.encode()) - 1))]
    tries = (firsts[int(drawn.fraction() * len(firsts))] for _ in range(64))
    return next((letter for letter in tries if letter > " "), otherwise)


@given(VALUES, RATES, SOME_KINDS, st.integers(0, 99))
def test_typos_are_those_of_plain_python(
    values: list[str], rate: float, kinds: tuple[Kind, ...], seed: int
) -> None:
    """The compiled loop misspells as one that goes from character to character."""
    chance = LineRng.of(seed)
    twin = [
        misspelt(value, word, rate, kinds)
        for value, word in zip(values, seeds_of(chance, len(values)), strict=True)
    ]
    assert Typos(rate=rate, kinds=kinds)(Batch.of(values), chance).lines == twin


@given(VALUES, RATES, SOME_KINDS, st.integers(0, 99))
def test_typos_keep_words_and_scripts(
    values: list[str], rate: float, kinds: tuple[Kind, ...], seed: int
) -> None:
    """Words stay as many, none becomes empty, and no character appears that the value did not have."""
    done = Typos(rate=rate, kinds=kinds)(Batch.of(values), LineRng.of(seed)).lines
    for value, noisy in zip(values, done, strict=True):
        assert set(noisy) <= set(value)
        assert list(map(bool, noisy.split(" "))) == list(map(bool, value.split(" ")))


def test_the_rate_is_that_of_characters() -> None:
    """Of 250,000 characters, as many are hit as the rate says, within five standard deviations, in any place."""
    n, size, rate = 5_000, 50, 0.01
    done = Typos(rate=rate, kinds=("insert",))(Batch.of(["a" * size] * n), LineRng(1, 2)).column(1)
    assert abs(int(done.sizes.sum()) - n * size - n * size * rate) < 5 * (n * size * rate) ** 0.5
    some = Typos(rate=rate, kinds=("replace",))(Batch.of(["ab" * 25] * n), LineRng(1, 2)).lines
    changed = np.array(
        [[a != b for a, b in zip(line, "ab" * 25, strict=True)] for line in some]
    ).sum(axis=0)
    expected = n * rate / 2  # half of those that replace a character are the same
    assert (abs(changed - expected) < 5 * expected**0.5).all()


# Punctuation


@given(MARKED, RATES, RATES, st.integers(0, 99))
def test_punctuation_changes_marks_and_spaces_alone(
    values: list[str], drop: float, final: float, seed: int
) -> None:
    """All other characters stay, in order; nothing becomes blank; two spaces stand together only where they did."""
    done = Punctuation(drop=drop, final=final)(Batch.of(values), LineRng.of(seed)).lines
    for value, noisy in zip(values, done, strict=True):
        assert bare(noisy) == bare(value)
        assert bool(noisy.strip()) == bool(value.strip())
        assert "  " in value or "  " not in noisy
        assert len(noisy) <= len(value) + 1


def bare(text: str) -> str:
    """A text without its marks and spaces."""
    return "".join(letter for letter in text if letter not in " .,!’'。")


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("Well , I don't know .", "Well I don't know"),
        ("“Yes,” he said: 3.5 e-mails!", "Yes he said 3.5 e-mails"),
        ("l’été, (déjà)", "l’été déjà"),
        ("你好，世界。", "你好世界"),
        ("...", "..."),
        (" . ", " . "),
    ],
)
def test_dropping_all_marks(value: str, made: str) -> None:
    """Marks go, with the space that would be one too many; those inside words stay, and a value of marks alone."""
    assert Punctuation(drop=1.0, final=0.0)(Batch.of([value]), LineRng(1, 2)).lines == [made]


ENDS = {
    "A house.": "A house",
    "A house": "A house.",
    "What, really?!": "What, really",
    "Wait ...": "Wait",
    "你好。": "你好",
    "你好": "你好。",
    "カタ": "カタ。",
    "नमस्ते।": "नमस्ते",
    "(so)": "(so)",
    "?": "?",
    "𐐀": "𐐀.",
    "": "",
}


def test_the_final_mark() -> None:
    """What ends a sentence goes, or a full stop of the script comes where the value ends in no mark."""
    _marks.cache_clear()
    assert Punctuation(drop=0.0, final=1.0)(Batch.of([*ENDS]), LineRng(1, 2)).lines == [
        *ENDS.values()
    ]


def test_without_probabilities_nothing_changes() -> None:
    """Where nothing is drawn, a value stays as it is, spaces at its ends and all."""
    values = [" a , b . ", "a  ", "", "  ", "a-b ."]
    assert Punctuation(drop=0.0, final=0.0)(Batch.of(values), LineRng(1, 2)).lines == values
    assert Typos(rate=0.0)(Batch.of(values), LineRng(1, 2)).lines == values


def test_punctuation_follows_its_probabilities() -> None:
    """Of 20,000 commas and 10,000 ends, as many change as the options say, within five standard deviations."""
    n = 10_000
    done = Punctuation(drop=0.05, final=0.0)(Batch.of(["a, b, c"] * n), LineRng(1, 2)).lines
    assert abs("".join(done).count(",") - 2 * n * 0.95) < 5 * (2 * n * 0.05) ** 0.5
    ends = Punctuation(drop=0.0, final=0.1)(Batch.of(["a"] * n), LineRng(1, 2)).lines
    assert abs(ends.count("a.") - n * 0.1) < 5 * (n * 0.1) ** 0.5


# Both
