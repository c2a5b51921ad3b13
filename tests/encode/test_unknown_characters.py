"""Unknown characters become bytes, an unknown token or nothing: the same of many lines at once as of each."""

from __future__ import annotations

import pytest
from batches import any_lines, plain_ids
from drawn import examples
from hypothesis import example, given, settings

from volt.encode.encoder import Encoder
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

CUTS = [
    "whitespace",
    "unicode",
    "gpt2",
    "metaspace",
    "metaspace-runs",
    "metaspace-line",
    r"split: ?\w+",
]
EDGES = "\x7f\x80 \u07ff\u0800 \ud7ff\ue000 \uffff\U00010000 \U000fffff\U0010ffff"  # of the sizes of UTF-8


def encoder(
    cut: str, marker: str, *, byte_fallback: bool, unk: str | None = "<unk>", user: bool = False
) -> Encoder:
    """Of a few tokens, one of which ends with a character that is known inside it alone."""
    tokens = (
        ("a", "b", "lo", "w", "é", "▁", "▁lo") if marker == "none" else ("a", "b", "lo", "w", "é")
    )
    special = SpecialTokens(unk, None, None, None, user=("<url>",) if user else ())
    merges = (("l", "o"), ("▁", "lo")) if marker == "none" else (("l", "o"),)
    return Encoder(
        Vocabulary(
            merges,
            tokens,
            marker=marker,
            pretokenizer=PreTokenizer.parse(cut),
            special=special,
            byte_fallback=byte_fallback,
        )
    )


@pytest.mark.parametrize("cut", CUTS)
@given(any_lines)
@example([EDGES, f"lo{EDGES}low", "low 中文 naïve 😀 <url>"])
@settings(deadline=None, max_examples=examples(20))
def test_many_lines_have_the_ids_of_each(cut: str, lines: list[str]) -> None:
    """With byte tokens or without, with an unknown token or none, and beside user tokens."""
    markers = ["suffix", "prefix"] if cut == "whitespace" else ["none"]
    for marker in markers:
        for options in (
            {"byte_fallback": True},
            {"byte_fallback": False},
            {"byte_fallback": False, "unk": None},
            {"byte_fallback": True, "user": True},
        ):
            made = encoder(cut, marker, **options)
            assert [ids.tolist() for ids in made.encode_batch(lines, n_threads=1)] == plain_ids(
                made, lines
            )
            assert made.decode_batch(made.encode_batch(lines)) == [
                made.decode_ids(ids) for ids in plain_ids(made, lines)
            ]
