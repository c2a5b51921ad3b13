"""The loop that cuts text by tables agrees with a naive twin on any bytes, in linear time if the splitter says so."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.patterns import any_texts, patterns

from volt.errors import ConfigError
from volt.kernels.regex_cutting import cut_texts, invalid_end
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


def replaced(data):
    """Decode bytes as Python does, with U+FFFD for invalid bytes. Return the text, and where each character ends."""
    text, ends, start = "", [], 0
    while start < len(data):
        end = next(end for end in range(start + 1, len(data) + 1) if _is_first(data, start, end))
        text, start = text + data[start:end].decode(errors="replace"), end
        ends.append(end)
    return text, ends


def _is_first(data, start, end):
    """Check that data[start:end] is one character, which does not depend on the bytes after it."""
    head, rest = data[start:end].decode(errors="replace"), data[end:].decode(errors="replace")
    return len(head) == 1 and head + rest == data[start:].decode(errors="replace")


def naive_span(kinds, start, tables):
    """Return where the words of a span of classes end, and how many classes were read."""
    place, begun, ends, looks = 0, 0, [], 0
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


def naive_cut(text, tables):
    """Apply all splits. Return where the words end, in characters, and how many characters were read."""
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
def test_cut_texts_equals_a_naive_twin(texts, number):
    """`cut_texts` cuts each text as a naive twin does; invalid bytes count as U+FFFD, as in Python."""
    tables, size = SPLITTERS[number].tables, sum(map(len, texts))
    bounds = np.cumsum([0, *map(len, texts)])
    ends, spare, n_words = (np.empty(n, np.int64) for n in (size, size, len(texts)))
    data = np.frombuffer(b"".join(texts), np.uint8)
    n = cut_texts(data, bounds[:-1], bounds[1:], tables, ends, spare, n_words)
    expected = []
    for start, data in zip(bounds.tolist(), texts, strict=False):
        text, places = replaced(data)
        expected.append([start + places[end - 1] for end in naive_cut(text, tables)[0]])
    assert ends[:n].tolist() == [end for found in expected for end in found]
    assert n_words.tolist() == [len(found) for found in expected]


@settings(max_examples=examples(50))
@given(data=any_bytes)
def test_invalid_end_continues_where_pythons_decoder_does(data):
    """After invalid bytes, `invalid_end` returns the byte at which the decoder of Python continues."""
    text, ends = replaced(data)
    for start, end, character in zip([0, *ends], ends, text, strict=False):
        if character == "\ufffd" and data[start:end] != b"\xef\xbf\xbd":
            assert invalid_end(np.frombuffer(data, np.uint8), start, len(data)) == end


@pytest.mark.parametrize("name", NAMED)
def test_named_patterns_read_a_character_at_most_three_times(name):
    """Named patterns are known to be linear: on hostile texts of n characters, each split reads 3 n
    + 1 classes or fewer."""
    splitter = named_splitter(name)
    assert splitter.is_linear
    for kind, text in HOSTILE.items():
        assert naive_cut(text, splitter.tables)[1] <= 3 * len(splitter.splits) * len(text) + 1, kind


@pytest.mark.parametrize("pattern", ["a*b|a", "a+b", r"\s*\n|\s", "(?:aa)*b|a|b"])
def test_patterns_with_quadratic_time_are_not_called_linear(pattern):
    """Patterns that read between n² / 4 and (n + 1)(n + 2) / 2 classes of n equal characters are
    not reported as linear."""
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
def test_patterns_called_linear_take_linear_time(pattern, word, head):
    """If a pattern is reported as linear, a text of twice the length needs about twice the reads,
    not four times. Patterns that are refused, or have many states, are skipped."""
    try:
        splitter = Splitter.of(Split(pattern))
    except ConfigError:
        return
    if sum(len(one.moves) - 1 for one in splitter.automata) <= 50 and splitter.is_linear:
        few, many = (naive_cut(head + word * n, splitter.tables)[1] for n in (30, 60))
        assert many <= 2.5 * few + 20


@settings(max_examples=examples(50))
@given(data=any_bytes)
def test_ends_of_words_rise_to_the_end_of_the_data(data):
    """The ends of words that `cut_texts` writes are positions of bytes that rise to the end of the
    data, so no word is empty."""
    room = np.empty(len(data), np.int64)
    n_words = np.empty(1, np.int64)
    bounds = np.zeros(1, np.int64), np.array([len(data)])
    tables = SPLITTERS[0].tables
    n = cut_texts(np.frombuffer(data, np.uint8), *bounds, tables, room, room.copy(), n_words)
    ends = room[:n].tolist()
    assert ends == sorted(set(ends))
    assert ends[-1:] == [len(data)][: len(data)]
