"""Helpers that transforms share do what their names say, also at their edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.column import Column, concatenated, holding_bytes
from volt.stream.transforms.documents import Repeat
from volt.stream.transforms.filters import needed_text
from volt.stream.transforms.line_batch import Batch, joined
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.ordering import _is_tag
from volt.stream.transforms.random_segmentation import JoinPieces, MorfessorEm, marked_where_none_is
from volt.stream.transforms.tags import Tag, Untag
from volt.stream.transforms.transform import files, inverse, max_copies, special_tokens

RNG = LineRng(1, 2)


def test_lines_are_kept_by_a_function() -> None:
    """`keep` drops the lines for which the function is false, with their origins."""
    assert Batch.of(["a", "", "c"]).keep(bool).origins.tolist() == [0, 2]


def test_batches_are_joined_in_order() -> None:
    """Lines split into other numbers of fields are joined; no batch makes an empty one."""
    assert joined([Batch.of(["a"]), Batch.of(["b\tc"]).split(2)]).lines == ["a", "b\tc"]
    assert len(joined([])) == 0


def test_columns_are_text_if_any_is() -> None:
    """Ids beside text become numbers with spaces between them."""
    ids = Column.of_ids(np.array([5, 6], np.int32), np.array([0, 2]))
    assert concatenated([Column.of(["a"]), ids]).strings() == ["a", "5 6"]


def test_bytes_are_looked_for_in_values_that_are_there() -> None:
    """A missing value holds no byte."""
    assert holding_bytes(Column.of(["a1", "b", None]), b"123").tolist() == [True, False, False]


def test_copies_multiply_along_steps_and_not_across_variants() -> None:
    """The most lines that steps make of one is the product of the steps' numbers, of a choice the greatest."""
    assert max_copies([Repeat(3), Choice((Variant(1.0, (Repeat(4),)), Variant(1.0)))]) == 12


def test_a_tag_is_taken_off_where_it_was_put() -> None:
    """Text that holds the tag elsewhere stays; a line of nothing but the tag becomes empty."""
    lines = ["a\t<en> a house", "b\ta <en>", "c\t<en>"]
    assert Untag(Tag(text="<en>"))(Batch.of(lines), RNG).lines == ["a\ta house", "b\ta <en>", "c\t"]


def test_special_tokens_are_the_words_of_tags_once() -> None:
    """A tag of two words adds two tokens; a repeated one is named once."""
    assert special_tokens([Tag(text="[BT] <de>"), Tag(text="[BT]")]) == ("[BT]", "<de>")


@pytest.mark.parametrize(
    ("text", "is_tag"),
    [("<de>", True), ("[BT]", True), ("__2de__", True), ("German:", False), ("-", False)],
)
def test_a_tag_has_signs_around_it(text: str, *, is_tag: bool) -> None:
    """Text that starts or ends with a letter, or is one sign, is no tag."""
    assert _is_tag(text) == is_tag


def test_the_longest_text_that_a_match_needs() -> None:
    """Escaped signs belong to the text, classes end it."""
    assert needed_text([["a", r"\d", "b", r"\."], ["c"]]) == "b."


def test_marks_are_added_to_values_without_any() -> None:
    """A value that holds a marker stays as it is, and so does an empty one."""
    assert marked_where_none_is(Column.of(["a low", "▁a low", ""])).strings() == [
        "▁a ▁low",
        "▁a low",
        "",
    ]


def test_a_step_that_decodes_spares_an_encoding_its_inverse() -> None:
    """Fields that a later step decodes are left out of the inverse."""
    cut = MorfessorEm(Path("lexicon.tsv"))
    assert inverse([cut]) == (JoinPieces(),)
    assert inverse([cut, JoinPieces((1,))]) == (JoinPieces((2,)),)
    assert inverse([cut, JoinPieces()]) == ()


def test_paths_and_signatures_are_collected_from_inside() -> None:
    """Mappings and tuples are walked."""
    assert files((Path("a.volt"), {"model": Path("b.model")}, "text")) == [
        Path("a.volt"),
        Path("b.model"),
    ]
