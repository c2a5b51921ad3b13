"""Helpers that transforms share do what their names say, also at their edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volt.errors import ConfigError
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import Schedule, shares_of
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.column import Column, concatenated, holding_bytes
from volt.stream.transforms.filters import needed_text
from volt.stream.transforms.line_batch import Batch, joined
from volt.stream.transforms.line_edits import Repeat, joined_runs
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import check_fields, field_number
from volt.stream.transforms.ordering import _is_tag
from volt.stream.transforms.random_segmentation import JoinPieces, MorfessorEm, marked_where_none_is
from volt.stream.transforms.tags import Tag, Untag
from volt.stream.transforms.transform import SharedCache, files, inverse, max_copies, signature, special_tokens

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


def test_runs_of_lines_become_one() -> None:
    """Each run is one value, with the separator between two lines."""
    assert joined_runs(Column.of(["a", "b", "c"]), np.array([0, 2, 3]), separator="-").strings() == ["a-b", "c"]


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
    ("text", "is_tag"), [("<de>", True), ("[BT]", True), ("__2de__", True), ("German:", False), ("-", False)]
)
def test_a_tag_has_signs_around_it(text: str, *, is_tag: bool) -> None:
    """Text that starts or ends with a letter, or is one sign, is no tag."""
    assert _is_tag(text) == is_tag


def test_fields_count_from_one_and_are_named_once() -> None:
    """Field 0 and a repeated field are refused."""
    assert field_number(2) == 2
    with pytest.raises(ConfigError, match="field: 0; fields count from 1, the first is field 1"):
        field_number(0)
    with pytest.raises(ConfigError, match="fields: 2 is given twice; name each field once"):
        check_fields((2, 2))


def test_the_longest_text_that_a_match_needs() -> None:
    """Escaped signs belong to the text, classes end it."""
    assert needed_text([["a", r"\d", "b", r"\."], ["c"]]) == "b."


def test_draws_with_a_name_are_independent_and_bounds_are_included() -> None:
    """`at` gives other numbers for the same lines; whole numbers reach both ends."""
    lines = np.arange(64)
    assert not np.isin(RNG.at("limit").words(lines), RNG.words(lines)).any()
    assert set(RNG.integers(lines, 4, 6).tolist()) == {4, 5, 6}


def test_marks_are_added_to_values_without_any() -> None:
    """A value that holds a marker stays as it is, and so does an empty one."""
    assert marked_where_none_is(Column.of(["a low", "▁a low", ""])).strings() == ["▁a ▁low", "▁a low", ""]


def test_a_step_that_decodes_spares_an_encoding_its_inverse() -> None:
    """Fields that a later step decodes are left out of the inverse."""
    cut = MorfessorEm(Path("lexicon.tsv"))
    assert inverse([cut]) == (JoinPieces(),)
    assert inverse([cut, JoinPieces((1,))]) == (JoinPieces((2,)),)
    assert inverse([cut, JoinPieces()]) == ()


def test_the_oldest_value_leaves_a_full_cache() -> None:
    """A value is computed once while it is in the cache, and again after it has left."""
    cache = SharedCache(most=1)
    values = [cache.get(key, lambda n=n: n) for n, key in enumerate("aaba")]
    assert values == [0, 0, 2, 3]


def test_paths_and_signatures_are_collected_from_inside() -> None:
    """Mappings and tuples are walked; a signature is JSON-able."""
    assert files((Path("a.volt"), {"model": Path("b.model")}, "text")) == [Path("a.volt"), Path("b.model")]
    assert signature(("a", 1, None)) == ["a", 1, None]


def test_a_mixture_ends_with_its_last_source_of_weight() -> None:
    """The others share the turns of a source that ended; without any weight there is no mixture."""
    mixture = Mixture((3.0, 1.0)).end(0)
    assert mixture is not None
    assert mixture.turns(2).tolist() == [1, 1]
    assert Mixture((1.0, 0.0)).end(0) is None
    assert Mixture((3.0, 1.0)).shares() == [0.75, 0.25]
    assert Mixture((3.0, 1.0), counts=np.array([7, 3])).owed() == [7.5, 2.5]


def test_shares_end_and_start_where_weights_do() -> None:
    """A stretch ends at the next point of a schedule; without weights there is a first idle sample."""
    assert shares_of([Schedule(((0, 1.0), (100, 3.0))), 1.0]).lengths(70)[1].tolist()[:1] == [30]
    assert shares_of([Schedule(((0, 1.0), (100, 0.0)))], may_end=True).until(7) == 100
    assert Schedule(((0, 1.0), (101, 3.0))).of_rank(1, 4).points == ((0, 1.0), (25, 3.0))
    with pytest.raises(ConfigError, match=r"weight 1e-30 of 1\.0 at sample 0 rounds to 0"):
        shares_of([1.0, 1e-30])
