"""Laws of normalisation and pre-tokenisation."""

import sys
import unicodedata

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.errors import ConfigError, CorpusError
from volt.text import SPACE, Normalizer, PreTokenizer

SPACES = [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()]
TRICKY = [
    *SPACES,
    *"aAbßΣσςİı'sтÉé0١½²ﬁ漢カガｶﾞ가각ᄀ가ㄱㅏ▁.,!-_🙂👩‍💻",
    "\u0301",
    "\u0327",
    "\u200b",
    "\u200d",
    "\ufeff",
]
texts = st.lists(st.sampled_from(TRICKY) | st.characters(codec="utf-8"), max_size=30).map("".join)
NAMES = ["none", "nfc", "nfkc", "lowercase", "nfc+lowercase", "nfkc+lowercase"]
LOSSLESS = ["unicode", "gpt2", "metaspace"]
REGEXES = [r"regex:\w+|[^\w\s]+", r"regex:(?s) ?.", r"regex:\bfoo\b", r"regex:a*", r"regex: |\w+"]


@pytest.mark.parametrize("name", NAMES)
def test_normalizer_names_round_trip(name: str) -> None:
    """parse and name are inverse."""
    assert Normalizer.parse(name).name == name


@pytest.mark.parametrize("name", ["whitespace", *LOSSLESS, *REGEXES])
def test_pretokenizer_names_round_trip(name: str) -> None:
    """parse and name are inverse."""
    assert PreTokenizer.parse(name).name == name


def test_unknown_names_are_refused_with_the_choices() -> None:
    """A wrong name is answered with the right ones, a wrong regex with its reason."""
    with pytest.raises(ConfigError, match="choose from none, lowercase, nfc"):
        Normalizer.parse("NFD")
    with pytest.raises(ConfigError, match="choose from none, nfc, nfkc"):
        Normalizer("nfd")
    with pytest.raises(ConfigError, match="whitespace, unicode, metaspace, gpt2, bytes, regex:PATTERN"):
        PreTokenizer.parse("spaces")
    with pytest.raises(ConfigError, match="unclosed group"):
        PreTokenizer.parse("regex:(a")


@given(texts)
def test_normal_forms_are_unicode(text: str) -> None:
    """nfc and nfkc are Python's, on what Python's Unicode version knows."""
    if all(unicodedata.category(c) != "Cn" for c in text):
        assert Normalizer("nfc").normalize(text) == unicodedata.normalize("NFC", text)
        assert Normalizer("nfkc").normalize(text) == unicodedata.normalize("NFKC", text)
        assert Normalizer("none", lowercase=True).normalize(text) == text.lower()


@pytest.mark.parametrize("name", NAMES)
@given(text=texts)
@example(text="J\u030c")
@settings(max_examples=50)
def test_normalizing_is_idempotent(name: str, text: str) -> None:
    """Normalising twice is normalising once."""
    once = Normalizer.parse(name).normalize(text)
    assert Normalizer.parse(name).normalize(once) == once


@pytest.mark.parametrize("name", NAMES)
@given(text=texts)
@example(text="ΑΣ ΑΣΑ e\u0301\u0327 ﬁ")
@settings(max_examples=50)
def test_alignment_covers_the_line(name: str, text: str) -> None:
    """Spans are ordered, cover the line, and normalising what a run of spans covers gives its characters."""
    normalizer = Normalizer.parse(name)
    normalized, spans = normalizer.align(text)
    assert normalized == normalizer.normalize(text)
    assert spans.shape == (len(normalized), 2)
    pairs = [tuple(span) for span in spans.tolist()]
    groups = sorted(set(pairs))
    assert pairs == sorted(pairs)
    assert [start for start, _ in groups] == [0, *(end for _, end in groups)][: len(groups)]
    assert not groups or groups[-1][1] == len(text)
    parts = [normalizer.normalize(text[start:end]) for start, end in groups]
    joined = "".join(parts)
    assert joined.replace("ς", "σ") == normalized.replace("ς", "σ")
    assert [len(part) for part in parts] == [pairs.count(group) for group in groups]


def test_alignment_of_known_lines() -> None:
    """Composed, expanded and swapped characters point at what they were made from."""
    assert Normalizer("nfc").align("xe\u0301y")[1].tolist() == [[0, 1], [1, 3], [3, 4]]
    assert Normalizer("nfkc").align("½a")[1].tolist() == [[0, 1], [0, 1], [0, 1], [1, 2]]
    assert Normalizer("nfkc").align("ㄱㅏx")[1].tolist() == [[0, 2], [2, 3]]
    assert Normalizer(lowercase=True).align("İΣ")[1].tolist() == [[0, 1], [0, 1], [1, 2]]


def test_every_combining_character_is_in_a_segment() -> None:
    """No character that NFKC may join to the one before it starts a segment of its own."""
    joiners = [
        c
        for c in map(chr, range(sys.maxunicode + 1))
        if (first := unicodedata.normalize("NFKD", c)[0])
        and (unicodedata.combining(first) or 0x1160 <= ord(first) < 0x1200)
        and not 0xD800 <= ord(c) < 0xE000
    ]
    line = "".join(f"ガ{c}" for c in joiners)
    text, spans = Normalizer("nfkc").align(line)
    assert text == unicodedata.normalize("NFKC", line)
    assert len(joiners) > 900
    assert (spans[:, 1] - spans[:, 0]).max() == 2


def test_long_marks_are_linear() -> None:
    """A hundred thousand marks on one letter, and as many sigmas, are aligned at once."""
    text, spans = Normalizer("nfc", lowercase=True).align("E" + "\u0301" * 100_000 + "Σ" * 100_000)
    assert len(text) == len(spans) == 200_000


@given(texts)
@settings(max_examples=300)
def test_whitespace_is_str_split(text: str) -> None:
    """The default pre-tokeniser is str.split(), whatever the text."""
    assert PreTokenizer().split(text) == text.split()


def decoded(pretokenizer: PreTokenizer, words: list[str]) -> str:
    text = "".join(words).replace(SPACE, " ")
    return text[1:] if pretokenizer.dummy_prefix else text


@pytest.mark.parametrize("name", LOSSLESS)
@given(text=texts)
@settings(max_examples=150)
def test_pretokens_join_back(name: str, text: str) -> None:
    """Concatenating pre-tokens gives the text back, a literal ▁ having become a space."""
    pretokenizer = PreTokenizer(name)
    words = pretokenizer.split(text)
    assert decoded(pretokenizer, words) == text.replace(SPACE, " ")
    assert all(word and " " not in word for word in words)


@pytest.mark.parametrize("name", ["whitespace", *LOSSLESS, *REGEXES])
@given(column=st.lists(texts, max_size=5))
@settings(max_examples=40)
def test_a_column_is_split_as_its_strings(name: str, column: list[str]) -> None:
    """Counting's expression over a column and encoding's split of a string agree."""
    pretokenizer, normalizer = PreTokenizer(name), Normalizer.parse("nfkc+lowercase")
    frame = pl.DataFrame({"text": column}, schema={"text": pl.String})
    lists = frame.select(pretokenizer.extract(normalizer.apply(pl.col("text")))).to_series().to_list()
    assert lists == [pretokenizer.split(normalizer.normalize(text)) for text in column]


@pytest.mark.parametrize("name", ["whitespace", *LOSSLESS, *REGEXES])
@given(text=texts)
@example(text="foobar foo  a▁ a")
@settings(max_examples=60)
def test_spans_cut_out_the_words(name: str, text: str) -> None:
    """A span holds its word, up to the spaces that are shown as ▁ and the dummy one."""
    pretokenizer = PreTokenizer(name)
    spans = pretokenizer.spans(text)
    assert [word for word, _, _ in spans] == pretokenizer.split(text)
    position = 0
    for index, (word, start, end) in enumerate(spans):
        assert position <= start <= end <= len(text)
        dummy = SPACE if pretokenizer.dummy_prefix and index == 0 else ""
        assert dummy + text[start:end].replace(" ", SPACE) == word
        position = end


@given(
    st.lists(
        st.sampled_from([*" \t\n\r\x0b\x1c\x85\xa0\u2003\u3000'sredvltmaZé0١½²漢-_!.▁🙂", "'ll", "\u0301"]),
        max_size=25,
    )
)
@example(["\t", "\t", "a"])
@settings(max_examples=300)
def test_gpt2_is_gpt2(parts: list[str]) -> None:
    """The emulated lookahead cuts where the tokenizers library's ByteLevel pre-tokeniser cuts."""
    pre_tokenizers = pytest.importorskip("tokenizers").pre_tokenizers
    text = "".join(parts)
    oracle = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    expected = [span for _, span in oracle.pre_tokenize_str(text.replace(SPACE, " "))]
    assert [(start, end) for _, start, end in PreTokenizer("gpt2").spans(text)] == expected


@given(st.text(alphabet=" ▁ab\t\u3000é", max_size=12))
def test_metaspace_is_sentencepieces(text: str) -> None:
    """Every pre-token starts with its ▁; only U+0020 and ▁ count as spaces."""
    expected = [f"{SPACE}{part}" for part in text.replace(SPACE, " ").split(" ")] if text else []
    assert PreTokenizer("metaspace").split(text) == expected


def test_unicode_keeps_marks_and_separates_numbers() -> None:
    """Words are letters with their marks; numbers and other symbols stand apart."""
    assert PreTokenizer("unicode").split("l'e\u0301té 2024!?  ok") == (
        ["▁l", "'", "e\u0301té", "▁2024", "!?", "▁▁", "ok"]
    )


@pytest.mark.parametrize(
    ("name", "keeps", "dummy"),
    [
        ("whitespace", False, False),
        ("unicode", True, True),
        ("gpt2", True, False),
        ("metaspace", True, True),
        (r"regex:\S+", False, False),
        (r"regex:(?s).", True, False),
    ],
)
def test_what_is_kept_is_declared(name: str, keeps: bool, dummy: bool) -> None:
    """keeps_spaces and dummy_prefix say how to decode."""
    assert (PreTokenizer(name).keeps_spaces, PreTokenizer(name).dummy_prefix) == (keeps, dummy)


@pytest.mark.parametrize("name", ["whitespace", *LOSSLESS, *REGEXES])
def test_nothing_has_no_pretokens(name: str) -> None:
    """The empty line has no pre-token, not even a dummy."""
    assert PreTokenizer(name).split("") == PreTokenizer(name).spans("") == []


def test_lone_surrogates_are_told() -> None:
    """What is not text is refused with its position, not with a UnicodeEncodeError."""
    for function in (
        PreTokenizer().split,
        PreTokenizer("gpt2").spans,
        Normalizer("nfc").normalize,
        Normalizer().align,
    ):
        with pytest.raises(CorpusError, match=r"lone surrogate U\+D800 at character 2 .*errors='replace'"):
            function("ab\ud800")
