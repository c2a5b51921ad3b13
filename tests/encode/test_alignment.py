"""Laws of alignment: where normalised characters and pre-tokens stand in the text that they came from."""

import sys
import unicodedata

import pytest
from drawn import examples
from hypothesis import example, given, settings
from texts import LOSSLESS, NAMES, REGEXES, texts

from volt.encode.offsets import align, word_spans
from volt.errors import CorpusError
from volt.text.atoms import SPACE
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer


@pytest.mark.parametrize("name", NAMES)
@given(text=texts)
@example(text="ΑΣ ΑΣΑ e\u0301\u0327 ﬁ")
@settings(max_examples=examples(50))
def test_alignment_covers_the_line(name: str, text: str) -> None:
    """Spans are ordered, cover the line, and normalising what a run of spans covers gives its characters."""
    normalizer = Normalizer.parse(name)
    normalized, spans = align(normalizer, text)
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
    assert align(Normalizer("nfc"), "xe\u0301y")[1].tolist() == [[0, 1], [1, 3], [3, 4]]
    assert align(Normalizer("nfkc"), "½a")[1].tolist() == [[0, 1], [0, 1], [0, 1], [1, 2]]
    assert align(Normalizer("nfkc"), "ㄱㅏx")[1].tolist() == [[0, 2], [2, 3]]
    assert align(Normalizer(lowercase=True), "İΣ")[1].tolist() == [[0, 1], [0, 1], [1, 2]]


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
    text, spans = align(Normalizer("nfkc"), line)
    assert text == unicodedata.normalize("NFKC", line)
    assert len(joiners) > 900
    assert (spans[:, 1] - spans[:, 0]).max() == 2


def test_long_marks_are_linear() -> None:
    """A hundred thousand marks on one letter, and as many sigmas, are aligned at once."""
    text, spans = align(Normalizer("nfc", lowercase=True), "E" + "\u0301" * 100_000 + "Σ" * 100_000)
    assert len(text) == len(spans) == 200_000


@pytest.mark.parametrize("name", ["whitespace", *LOSSLESS, *REGEXES])
@given(text=texts)
@example(text="foobar foo  a▁ a")
@settings(max_examples=examples(60))
def test_spans_cut_out_the_words(name: str, text: str) -> None:
    """A span holds its word, up to the spaces that are shown as ▁ and the dummy one."""
    pretokenizer = PreTokenizer(name)
    spans = word_spans(pretokenizer, text)
    assert [word for word, _, _ in spans] == pretokenizer.split(text)
    position = 0
    for index, (word, start, end) in enumerate(spans):
        assert position <= start <= end <= len(text)
        dummy = SPACE if pretokenizer.dummy_prefix and index == 0 else ""
        assert dummy + text[start:end].replace(" ", SPACE) == word
        position = end


@pytest.mark.parametrize("name", ["whitespace", *LOSSLESS, *REGEXES])
def test_nothing_has_no_spans(name: str) -> None:
    """The empty text has no pre-token, and no character."""
    assert word_spans(PreTokenizer(name), "") == []
    assert align(Normalizer("nfc"), "")[1].shape == (0, 2)


def test_lone_surrogates_are_reported() -> None:
    """Invalid text is refused with its position, not with a UnicodeEncodeError."""
    for call in (
        lambda text: align(Normalizer(), text),
        lambda text: word_spans(PreTokenizer("gpt2"), text),
        PreTokenizer().split,
        PreTokenizer("gpt2").split,
        Normalizer("nfc").normalize,
    ):
        with pytest.raises(
            CorpusError, match=r"lone surrogate U\+D800 at character 2 .*errors='replace'"
        ):
            call("ab\ud800")
