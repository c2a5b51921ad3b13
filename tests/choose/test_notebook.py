"""Words and pieces as people read them: bytes that spell text as text, others as escapes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from volt import WordCounts, learn_bpe, search
from volt.choose.search import readable_cuts, sample_cuts
from volt.text.byte_alphabet import readable, to_characters
from volt.text.pretokenizer import PreTokenizer

FEW = ("--sizes", "280:300:10")
TEXT = (
    "საქართველო საქართველოს ლამაზია სიყვარულისთვის განსაკუთრებით\nDonaudampfschifffahrt großartigerweise\n"
    * 5
)


def counted(text):
    """Count the words of a text, spelled by bytes."""
    cut = PreTokenizer("bytes")
    return WordCounts.from_pairs(
        [(word, 1) for line in text.splitlines() for word in cut.split(line)], pretokenizer=cut
    )


@given(st.text())
def test_readable_inverts_to_characters(text):
    """The characters of a text's bytes are readable as the text."""
    assert readable(to_characters(text.encode())) == text


@given(st.binary())
def test_invalid_bytes_are_escaped(data):
    """Bytes that are not UTF-8 are shown as <0xNN>."""
    parts = re.split(r"(<0x[0-9A-F]{2}>)", readable(to_characters(data)))
    back = b"".join(
        bytes([int(part[3:5], 16)]) if place % 2 else part.encode()
        for place, part in enumerate(parts)
    )
    assert back == data or b"<0x" in data


def test_sampled_words_are_long_words_of_the_text():
    """Sample words have eight letters, not eight bytes, and their pieces spell them."""
    result = search(learn_bpe(counted(TEXT), 120))
    cuts = list(readable_cuts(sample_cuts(result.candidates, result.vocabulary), result.vocabulary))
    assert len(cuts) > 3
    for word, pieces in cuts:
        assert word in TEXT.split()
        assert len(word) >= 8
        assert word.encode() == re.sub(
            rb"<0x(..)>", lambda found: bytes([int(found[1], 16)]), pieces.replace("|", "").encode()
        )
    shown = result._repr_html_()
    assert "საქართველო" in shown
    assert "áĥ" not in shown


def test_the_report_shows_text(run):
    """`volt search --level bytes` prints words as text; the JSON has the pieces of the vocabulary."""
    with open("georgian.txt", "w", encoding="utf-8") as file:
        file.write(TEXT)
    shown = run("search", "georgian.txt", "--level", "bytes", *FEW, "-o", "x.volt").stdout.decode()
    assert "სიყვარულისთვის" in shown
    assert "áĥ" not in shown
    assert (
        "áĥ"
        in run(
            "search", "georgian.txt", "--level", "bytes", *FEW, "--json", "-o", "x.volt"
        ).stdout.decode()
    )


def test_control_characters_are_escaped(run):
    """Control characters of words are printed as escapes."""
    with open("hostile.txt", "w", encoding="utf-8") as file:
        file.write("\x1b[2J\u202e " * 20)
    shown = run(
        "search", "hostile.txt", "--level", "bytes", "--sizes", "258:260:1", "-o", "x.volt"
    ).stdout.decode()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b" in shown
