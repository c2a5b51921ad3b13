"""Laws of pre-tokenizers that contain their pattern: words, names, and the regexes that a loop can split by."""

from __future__ import annotations

import polars as pl
import pytest
from drawn import examples
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from patterns import any_texts, oracle, patterns, split_by

from volt.encode.offsets import word_spans
from volt.errors import ConfigError
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import to_bytes, to_characters
from volt.text.patterns.published import cutter_of_regex, name_of, of_matches, splits_of
from volt.text.patterns.splitter import Split, Splitter, WordCutter
from volt.text.pretokenizer import PreTokenizer

NAMES = ("cl100k", "o200k", "deepseek3", "digits3-right")
HIDDEN = "\U0010f007"


def split_slowly(cutter: WordCutter, line: str) -> list[str]:
    """Split, then spell word by word: the naive twin of the loop."""
    text = line.replace(SPACE, " ") if cutter.reads_marks else line
    words = cutter.splitter.split(text)
    if cutter.matches_only:
        matches = oracle(cutter.splitter.splits[0].pattern)(text)
        words = [text[start:end] for start, end in matches if start < end]
    return [
        to_characters(word.encode()) if cutter.is_bytes else word.replace(" ", SPACE)
        for word in words
    ]


@pytest.mark.parametrize("name", NAMES)
@given(text=any_texts)
@settings(max_examples=examples(25), deadline=None)
def test_words_are_those_of_the_regex_module(name: str, text: str) -> None:
    """At character level, ▁ stands for a space; at byte level, nothing is lost."""
    expected = split_by(name, oracle, text.replace(SPACE, " "))
    assert PreTokenizer.of_pattern(name).split(text) == [
        word.replace(" ", SPACE) for word in expected
    ]
    spelled = PreTokenizer.of_pattern(name, level="bytes").split(text)
    assert [to_bytes(word).decode() for word in spelled] == split_by(name, oracle, text)


@given(lines=st.lists(any_texts, max_size=6))
@example(lines=["", "a\nb", "", "c  ", "\r"])
@settings(max_examples=examples(40), deadline=None)
def test_the_loop_is_its_naive_twin(lines: list[str]) -> None:
    """Many lines, also of a column, are split as each alone; null has no words."""
    for cutter in (
        WordCutter(Splitter.of(Split(r" ?\p{L}+"))),
        WordCutter(
            Splitter.of(Split(r"\p{N}{1,3}", from_end=True), Split(r" ?\w+")), is_bytes=True
        ),
        WordCutter(Splitter.of(Split(r"\w+| ")), matches_only=True),
    ):
        expected = [split_slowly(cutter, line) for line in lines]
        assert [words.split(" ") if words else [] for words in cutter.cut_texts(lines)] == expected
        assert cutter.cut_series(pl.Series([*lines, None], dtype=pl.String)).to_list() == [
            *expected,
            [],
        ]


def test_lines_end_at_separators_and_carriage_returns() -> None:
    """The separator, and optionally a carriage return before it, is not part of a line."""
    cutter = WordCutter(Splitter.of(Split("[a-z]+|\r")))
    assert (
        cutter.cut_lines(b"a\r\n\r\n\nb\r\r\nc", separator=10).tobytes()
        == b"a \r\xff\r\xff\xffb \r \r\xffc\xff"
    )
    stripped = cutter.cut_lines(b"a\r\n\r\n\nb\r\r\nc\r", separator=10, strips_return=True)
    assert stripped.tobytes() == b"a\xff\xff\xffb \r\xffc\xff"
    assert cutter.cut_lines(b"", separator=10).tobytes() == b""


def test_hidden_user_tokens_are_words_of_their_own() -> None:
    """Whatever the pattern; at byte level, they are not spelled like other private characters."""
    assert PreTokenizer.of_pattern(r"\p{Co}+", level="bytes").split(
        f"a{HIDDEN}{HIDDEN}\U0010fffe"
    ) == [
        "a",
        HIDDEN,
        HIDDEN,
        to_characters("\U0010fffe".encode()),
    ]
    assert PreTokenizer.of_pattern(r"[^a]+").split(f" {HIDDEN} b") == [SPACE, HIDDEN, f"{SPACE}b"]


@given(pattern=patterns, lines=st.lists(any_texts, min_size=3, max_size=5))
@example(pattern="a++a", lines=["aaa"])
@settings(  # by chance most of the first ones are refused
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
def test_regexes_cut_as_their_own_engine_does(pattern: str, lines: list[str]) -> None:
    """The loop takes over a regex only where it finds what the Rust engine finds."""
    try:
        pretokenizer = PreTokenizer(f"regex:{pattern}")
    except ConfigError:
        assume(False)
    cutter = cutter_of_regex(pattern)
    if cutter is not None:
        texts = pl.Series("text", [line + SPACE for line in lines])
        found = texts.to_frame().select(pretokenizer.extract(pl.col("text"))).to_series()
        assert cutter.cut_series(texts).to_list() == found.to_list()


def test_which_regexes_the_loop_takes_over() -> None:
    """Those of its grammar, but no possessive ones, which Rust reads otherwise, and none that may be slow."""
    for pattern in (r"\w+|[^\w\s]+", r" ?\p{L}+|\s", "[^ ]+"):
        assert PreTokenizer(f"regex:{pattern}").cutter is not None
    for pattern in ("a++", r"\bfoo\b", "a*", "a*b|a", "(?s)."):
        assert PreTokenizer(f"regex:{pattern}").cutter is None
    assert PreTokenizer("gpt2").cutter is None


@pytest.mark.parametrize("level", ["characters", "bytes"])
@pytest.mark.parametrize("name", [*NAMES, "gpt2", r"\d|\D+", 'a"\\\\+', "split:|b"])
def test_a_name_holds_what_it_cuts_by(name: str, level: str) -> None:
    """Parsing the name gives the same pre-tokenizer; gpt2 keeps its old names."""
    cut = PreTokenizer.of_pattern(name, level=level)
    assert PreTokenizer.parse(cut.name) == cut
    assert cut.is_bytes == (level == "bytes")
    assert cut.keeps_spaces
    assert not cut.dummy_prefix
    assert cut.splits == splits_of(cut.name) if name != "gpt2" else cut.name in ("gpt2", "bytes")
    assert cut.splits == () or name_of(cut.splits) == cut.name.removeprefix("bytes+")
    assert (
        name in ("gpt2", "deepseek3", "digits3-right")
        or splits_of(of_matches(cut.name)) == cut.splits
    )


@given(text=any_texts)
@settings(max_examples=examples(25), deadline=None)
def test_spans_cover_the_text(text: str) -> None:
    """Words follow each other from the start of the text to its end."""
    for name in NAMES:
        for level in ("characters", "bytes"):
            spans = [
                span for _, *span in word_spans(PreTokenizer.of_pattern(name, level=level), text)
            ]
            assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])][
                : len(spans)
            ]
            assert not text or spans[-1][1] == len(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("split:a*", "could match the empty text"),
        ("bytes+split:(?<=a)b", "look-behind"),
        ("split:a*b|a", r"quadratic in the length.*a\{1,20\}b"),
        ("splits:[1]", "a JSON list of patterns must follow"),
        ('splits:[{"pattern": "a", "lazy": true}]', "a JSON list of patterns must follow"),
        ("splits:a+", "a JSON list of patterns must follow"),
        ("splits:[]", "no split is given"),
        ("bytes+gpt2", "unknown pre-tokenizer"),
    ],
)
def test_damaged_declarations_are_refused(name: str, message: str) -> None:
    """The error states the fault."""
    with pytest.raises(ConfigError, match=message):
        PreTokenizer(name)
