"""Laws of pre-tokenizers that contain their pattern: words, names, and the regexes that a loop can split by."""

import polars as pl
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.patterns import any_texts, oracle, patterns, split_by
from support.slow_spans import find_word_spans

from volt.errors import ConfigError
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import to_bytes, to_characters
from volt.text.patterns.published import cutter_of_regex, name_of, of_matches, splits_of
from volt.text.patterns.splitter import Split, Splitter
from volt.text.patterns.word_cutter import WordCutter
from volt.text.pretokenizer import PreTokenizer

NAMES = ("cl100k", "o200k", "deepseek3", "digits3-right")
HIDDEN = "\U0010f007"


def split_slowly(cutter, line):
    """Split, then spell word by word: a slow reference for the loop."""
    text = line.replace(SPACE, " ") if cutter.reads_mark_as_space else line
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
def test_words_equal_matches_of_the_regex_module(name, text):
    """The words of published patterns equal the matches of the module `regex`; in bytes, they join
    to the text.
    """
    expected = split_by(name, oracle, text.replace(SPACE, " "))
    assert PreTokenizer.of_pattern(name).split(text) == [
        word.replace(" ", SPACE) for word in expected
    ]
    spelled = PreTokenizer.of_pattern(name, level="bytes").split(text)
    assert [to_bytes(word).decode() for word in spelled] == split_by(name, oracle, text)


@given(lines=st.lists(any_texts, max_size=6))
@example(lines=["", "a\nb", "", "c  ", "\r"])
@settings(max_examples=examples(40), deadline=None)
def test_the_loop_equals_a_slow_reference(lines):
    """`WordCutter` splits lines and columns as a slow reference splits each line; null has no
    words.
    """
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


def test_lines_end_at_separators_and_carriage_returns():
    """`cut_lines` ends lines at the separator and, with `strips_return`, drops a carriage return
    before it.
    """
    cutter = WordCutter(Splitter.of(Split("[a-z]+|\r")))
    assert (
        cutter.cut_lines(b"a\r\n\r\n\nb\r\r\nc", separator=10).tobytes()
        == b"a \r\xff\r\xff\xffb \r \r\xffc\xff"
    )
    stripped = cutter.cut_lines(b"a\r\n\r\n\nb\r\r\nc\r", separator=10, strips_return=True)
    assert stripped.tobytes() == b"a\xff\xff\xffb \r\xffc\xff"
    assert cutter.cut_lines(b"", separator=10).tobytes() == b""


def test_hidden_user_tokens_are_words_of_their_own():
    """Every pattern makes a hidden user token a word; in bytes, other private characters are
    spelled as bytes.
    """
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
def test_regexes_are_split_as_by_rust(pattern, lines):
    """If the loop can split by a regex, its words equal the matches of the Rust engine."""
    try:
        pretokenizer = PreTokenizer(f"regex:{pattern}")
    except ConfigError:
        assume(False)
    cutter = cutter_of_regex(pattern)
    if cutter is not None:
        texts = pl.Series("text", [line + SPACE for line in lines])
        found = texts.to_frame().select(pretokenizer.extract(pl.col("text"))).to_series()
        assert cutter.cut_series(texts).to_list() == found.to_list()


def test_regexes_that_the_loop_supports():
    """`cutter_of_regex` returns None for possessive regexes, which Rust reads differently, and for
    slow or unsupported ones.
    """
    for pattern in (r"\w+|[^\w\s]+", r" ?\p{L}+|\s", "[^ ]+"):
        assert PreTokenizer(f"regex:{pattern}").cutter is not None
    for pattern in ("a++", r"\bfoo\b", "a*", "a*b|a", "(?s)."):
        assert PreTokenizer(f"regex:{pattern}").cutter is None
    assert PreTokenizer("gpt2").cutter is None


@pytest.mark.parametrize("level", ["characters", "bytes"])
@pytest.mark.parametrize("name", [*NAMES, "gpt2", r"\d|\D+", 'a"\\\\+', "split:|b"])
def test_a_name_contains_its_splits(name, level):
    """Parsing the name returns the same pre-tokenizer; gpt2 has its own short names."""
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
def test_spans_cover_the_text(text):
    """Each word starts where the last one ended, and the last word ends at the end of the text."""
    for name in NAMES:
        for level in ("characters", "bytes"):
            spans = [
                span
                for _, *span in find_word_spans(PreTokenizer.of_pattern(name, level=level), text)
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
        ("splits:[]", "no split is given"),
        ("bytes+gpt2", "unknown pre-tokenizer"),
    ],
)
def test_damaged_declarations_are_refused(name, message):
    """A name with an invalid pattern is refused, and the error states the fault."""
    with pytest.raises(ConfigError, match=message):
        PreTokenizer(name)


@pytest.mark.parametrize(
    "name", ["split:\ud800", "regex:a\ud800", "bytes+matches:a\udc00", 'splits:["\\ud800"]']
)
def test_lone_surrogates_in_patterns_are_refused(name):
    """A pattern that a file cannot store is refused."""
    with pytest.raises(ConfigError, match=r"contains the lone surrogate U\+D[8C]00"):
        PreTokenizer(name)


@pytest.mark.parametrize(
    "splits",
    [
        "a+",
        '"ab"',
        '{"a": 1}',
        "[1]",
        '[{"pattern": "b", "from_end": "no"}]',
        '[{"pattern": "b", "from_end": null}]',
        '[{"pattern": "b", "from_end": 1.5}]',
        '[{"pattern": []}]',
        '[{"from_end": true}]',
        '[{"pattern": "b", "x": 1}]',
    ],
)
def test_splits_are_a_list_of_patterns(splits):
    """Other JSON after "splits:" is refused."""
    with pytest.raises(ConfigError, match="a JSON list of patterns must follow"):
        PreTokenizer(f"splits:{splits}")


def test_long_repetitions_are_compiled_or_refused():
    """A pattern with forty repetitions is compiled; one whose check would take minutes is refused."""
    assert PreTokenizer("split:.{40}|.").split("a" * 45) == ["a" * 40, *"aaaaa"]
    with pytest.raises(ConfigError, match=r"pairs of states.*repeat fewer times"):
        PreTokenizer("split:.{1000}|.")
