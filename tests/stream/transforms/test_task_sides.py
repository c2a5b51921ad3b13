"""What tasks do to the sides of a line: a target of the source, languages in front, no line that is too long."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_lines import LINES, tokens_of

import volt
from volt.errors import ConfigError
from volt.stream.config.configuration import parse_config
from volt.stream.transforms.field_edits import DuplicateMono
from volt.stream.transforms.filters import FilterTooLong
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.tags import LangPrefixBoth
from volt.stream.transforms.transform import deterministic

CHANCE = LineRng(1, 2)


@given(LINES)
def test_a_monolingual_line_gets_two_sides(values: list[str]) -> None:
    """The second is the first, as views into the same bytes."""
    done = DuplicateMono()(Batch.of(values), CHANCE)
    assert done.lines == [f"{value}\t{value}" for value in values]
    assert done.columns[0] is done.columns[1]


@given(LINES)
def test_languages_stand_before_the_source(values: list[str]) -> None:
    """The source alone gets them, in this order, without a space behind them where it is empty; they are what a
    vocabulary needs."""
    tags = LangPrefixBoth("de", "en", "<BT> <x>")
    done = tags(Batch.of([f"{value}\tb" for value in values]), CHANCE).lines
    assert done == [f"<FROM_de> <TO_en> <BT> <x>{value and f' {value}'}\tb" for value in values]
    assert tags.special_tokens() == ("<FROM_de>", "<TO_en>", "<BT>", "<x>")
    assert LangPrefixBoth("de", "en").special_tokens() == ("<FROM_de>", "<TO_en>")
    assert deterministic([tags]) == (tags,)


@given(
    st.lists(st.tuples(LINES.map(" ".join), LINES.map(" ".join)), max_size=6), st.integers(0, 12)
)
def test_lines_that_are_too_long_go(pairs: list[tuple[str, str]], most: int) -> None:
    """A line stays if both its sides have few enough tokens; the others of a batch do not matter."""
    fitting = [pair for pair in pairs if all(len(tokens_of(side)) <= most for side in pair)]
    assert FilterTooLong(most)(Batch.of(["\t".join(pair) for pair in pairs]), CHANCE).lines == [
        "\t".join(pair) for pair in fitting
    ]


def test_a_transform_without_options_takes_none() -> None:
    """An option is refused where it stands, as one that the transform does not know."""
    with pytest.raises(
        ConfigError,
        match=r"^stream.yaml:1: .*duplicate_mono.5: unknown key; no key is allowed; remove it",
    ):
        parse_config("{sources: {a: {path: a, transforms: [duplicate_mono: 5]}}}")


STREAM = """
sources:
  ted:
    path: ted.en
    transforms:
      - duplicate_mono
      - drop: 1.0
      - reorder
      - switchout: {vocabulary: tokens.txt, rate: 0.2}
      - insertion: tokens.txt
      - wb_noise: {vocabulary: tokens.txt, fields: [1]}
      - filter_too_long: 12
      - lang_prefix_both: {src_lang: en, tgt_lang: en}
"""


def test_no_line_is_lost_at_validation() -> None:
    """Nothing takes the filter's place."""
    assert deterministic([FilterTooLong(5), DuplicateMono()]) == (DuplicateMono(),)


def test_a_stream_of_a_noisy_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration names them all, short options included; one and two workers give the same lines."""
    monkeypatch.chdir(tmp_path)
    Path("ted.en").write_text(
        "".join(f"{k} ▁the ▁house by ▁the {'▁sea ' * (k % 9)}\n" for k in range(300))
    )
    Path("tokens.txt").write_text("5\t▁the\n4\tthe\n3\tsea\n2\t▁sea\n1\thouse\n", encoding="utf-8")
    Path("stream.yaml").write_text(STREAM)
    texts = []
    for n_workers in (1, 2):
        with volt.Stream.from_config("stream.yaml", n_workers=n_workers) as stream:
            texts.append(list(islice(stream, 400)))
    assert texts[0] == texts[1]
    for line in texts[0]:
        source, target = line.split("\t")
        assert source.startswith("<FROM_en> <TO_en> ")
        assert len(source.split()) <= 14
        assert len(target.split()) <= 12
