"""The loop that cuts by tables agrees with a naive twin, on any bytes, and reads no text more often than is named."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from drawn import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from patterns import any_texts, patterns

from volt.errors import ConfigError
from volt.kernels.regex_cutting import SplitTables, cut_texts, end_of_replaced
from volt.text.patterns import NAMED, Split, Splitter, named_splitter

PIECES = (
    b"a,7, ,\n,\xc3\xa9,\xe6\xbc\xa2,\xf0\x9f\x99\x82,\xcc\x81,\x80,\xbf,\xc0,\xc1,\xc3,\xe0\x9f,\xe0\xa0,\xed\xa0\x80,"
    b"\xef\xbf,\xf0\x8f,\xf0\x90\x80,\xf4\x8f\xbf,\xf4\x90,\xf5,\xff"
).split(b",")
any_bytes = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=12).map(b"".join)
SPLITTERS = [
    named_splitter("gpt2"),
    named_splitter("deepseek3"),
    Splitter.of(*NAMED["digits3-right"], *NAMED["o200k"]),
    Splitter.of(Split(r"\ufffd+|[a-z]\ufffd?", from_end=True)),
]
HOSTILE = {
    "spaces": " " * 500 + "x",
    "line ends and spaces": ("\n" + " " * 50) * 10 + "x",
    "capitals": "A" * 500,
    "marks": "é\u0301" * 250,
    "quotes": "'r" * 250,
    "signs": "/!" * 250,
    "digits": "1" * 500,
    "returns": "\r\n \n" * 125,
    "all": "a A\u01051 !\n\t'" * 60,
}


def replaced(data: bytes) -> tuple[str, list[int]]:
    """The text with U+FFFD for what is not UTF-8, and where each character ends in the bytes (by Python's decoder)."""
    text, ends, start = "", [], 0
    while start < len(data):
        end = next(end for end in range(start + 1, len(data) + 1) if _is_first(data, start, end))
        text, start = text + data[start:end].decode(errors="replace"), end
        ends.append(end)
    return text, ends


def _is_first(data: bytes, start: int, end: int) -> bool:
    """Whether one character ends here: what Python makes of all the rest begins with what it makes of these bytes."""
    head, rest = data[start:end].decode(errors="replace"), data[end:].decode(errors="replace")
    return len(head) == 1 and head + rest == data[start:].decode(errors="replace")


def naive_span(kinds: list[int], start: int, tables: SplitTables) -> tuple[list[int], int]:
    """Where the words of a span of classes end; and how many classes were looked at."""
    place, begun, ends, looks = 0, 0, list[int](), 0
    while place < len(kinds):
        row, at, found = start, place, place
        while row:
            move = int(tables.moves[row + (kinds[at] if at < len(kinds) else tables.end)])
            found, row, at, looks = at if move & 1 else found, move >> 1, at + 1, looks + 1
        if found > place:
            ends += [place] * (begun < place) + [found]
            begun = found
        place = max(found, place + 1)
    return ends + [len(kinds)] * (begun < len(kinds)), looks


def naive_cut(text: str, tables: SplitTables) -> tuple[list[int], int]:
    """Where the words end, in characters, by splits one after the other; and how many characters were looked at."""
    kinds = [int(tables.classes[ord(character)]) for character in text]
    bounds, looks = [0, len(text)] if text else [0], 0
    for split in tables.splits.tolist():
        made, start, from_end = [0], split >> 1, split & 1
        for begin, end in pairwise(bounds):
            found, n = naive_span(kinds[begin:end][:: -1 if from_end else 1], start, tables)
            looks += n
            size = end - begin
            made += (
                [begin + size - place for place in [*found[-2::-1], 0]]
                if from_end
                else [begin + place for place in found]
            )
        bounds = made
    return bounds[1:], looks


@settings(max_examples=examples(50))
@given(
    texts=st.lists(any_bytes | any_texts.map(str.encode), max_size=3),
    number=st.integers(0, len(SPLITTERS) - 1),
)
def test_texts_are_cut_as_by_a_naive_twin(texts: list[bytes], number: int) -> None:
    """Also bytes that are not UTF-8: they count as Python's U+FFFD. Each text is cut by itself."""
    tables, size = SPLITTERS[number].tables, sum(map(len, texts))
    bounds = np.cumsum([0, *map(len, texts)])
    ends, spare, n_words = (
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(len(texts), np.int64),
    )
    n = cut_texts(np.frombuffer(b"".join(texts), np.uint8), bounds, tables, ends, spare, n_words)
    expected = list[list[int]]()
    for start, data in zip(bounds.tolist(), texts, strict=False):
        text, places = replaced(data)
        expected.append([start + places[end - 1] for end in naive_cut(text, tables)[0]])
    assert ends[:n].tolist() == [end for found in expected for end in found]
    assert n_words.tolist() == [len(found) for found in expected]


@settings(max_examples=examples(50))
@given(data=any_bytes)
def test_one_replacement_stands_for_as_many_bytes_as_in_python(data: bytes) -> None:
    """Wherever Python's decoder puts U+FFFD for bytes, the loop goes on behind the same bytes."""
    text, ends = replaced(data)
    for start, end, character in zip([0, *ends], ends, text, strict=False):
        if character == "\ufffd" and data[start:end] != b"\xef\xbf\xbd":
            assert end_of_replaced(np.frombuffer(data, np.uint8), start, len(data)) == end


@pytest.mark.parametrize("name", NAMED)
def test_named_patterns_look_at_a_character_three_times_at_most(name: str) -> None:
    """A split is known to be linear; on hostile texts it looks at 3 n + 1 classes or fewer, ends of spans included."""
    splitter = named_splitter(name)
    assert splitter.is_linear
    for kind, text in HOSTILE.items():
        assert naive_cut(text, splitter.tables)[1] <= 3 * len(splitter.splits) * len(text) + 1, kind


@pytest.mark.parametrize("pattern", ["a*b|a", "a+b", r"\s*\n|\s", "(?:aa)*b|a|b"])
def test_patterns_that_read_on_in_vain_are_not_called_linear(pattern: str) -> None:
    """Their effort on a long run is that of a triangle, and no more."""
    splitter, n = Splitter.of(Split(pattern)), 60
    looks = max(naive_cut(text * n, splitter.tables)[1] for text in ("a", " "))
    assert n * n / 4 < looks <= (n + 1) * (n + 2) / 2
    assert not splitter.is_linear


@settings(max_examples=examples(20))
@given(
    pattern=patterns,
    word=st.text("aAb 0.'\n\té漢", min_size=1, max_size=3),
    head=st.sampled_from(["", "\n", "a", " "]),
)
@example(pattern=r"a\s*\n|a|\s+b|\s{2}", word=" ", head="a")
def test_what_is_called_linear_is_linear(pattern: str, word: str, head: str) -> None:
    """Where a text is twice as long, it takes about twice the looks, not four times.

    Patterns that are refused are not tried, nor those with many states, of which there are too many pairs.
    """
    try:
        splitter = Splitter.of(Split(pattern))
    except ConfigError:
        return
    if sum(len(one.moves) - 1 for one in splitter.automata) <= 50 and splitter.is_linear:
        few, many = (naive_cut(head + word * n, splitter.tables)[1] for n in (30, 60))
        assert many <= 2.5 * few + 20


@settings(max_examples=examples(50))
@given(data=any_bytes)
def test_the_splitter_gives_the_ends_of_the_loop(data: bytes) -> None:
    """In bytes, rising to the end of the data, with no word empty."""
    ends = SPLITTERS[0].ends(data).tolist()
    assert ends == sorted(set(ends))
    assert ends[-1:] == [len(data)][: len(data)]
