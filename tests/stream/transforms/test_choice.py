"""choice: each line goes through one variant, in its place, whatever the others do."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import RAGGED, ROWS, apply

from volt.stream.transforms.case import Lower, Upper
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.column import Column
from volt.stream.transforms.documents import Repeat
from volt.stream.transforms.field_edits import Append
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.noise import Typos
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import LineFault, is_compiled, joins_lines, keeps_lines


@given(ROWS, st.integers(0, 1 << 32))
def test_choice_sends_each_line_through_one_variant(rows: list[list[str]], seed: int) -> None:
    """Each line becomes what one of the variants makes of it, in its place."""
    choice = Choice(
        (Variant(1.0), Variant(1.0, (Tag(text="A"), Tag(text="B"))), Variant(2.0, (Tag(text="C"),)))
    )
    for row, done in zip(rows, apply(choice, rows, seed=seed), strict=True):
        assert done[0] in (row[0], f"B A {row[0]}", f"C {row[0]}")
        assert done[1:] == row[1:]


@given(st.lists(st.sampled_from([0.0, 0.5, 1, 3.0]), min_size=1, max_size=5), st.integers(0, 99))
def test_a_variant_has_its_share_of_the_numbers(weights: list[float], seed: int) -> None:
    """The number of a line, below the sum of all weights, lies in the range of its variant; a weight of 0 has none."""
    if not sum(weights):
        return
    choice = Choice(
        tuple(Variant(weight, (Append(text=str(k)),)) for k, weight in enumerate(weights))
    )
    batch, rng = Batch.of(["x"] * 60), LineRng.of(seed)
    for number, row in zip(
        rng.uniform(batch.origins) * sum(weights), choice(batch, rng).rows, strict=True
    ):
        assert sum(weights[: int(row[1])]) <= number < sum(weights[: int(row[1]) + 1])


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 1 << 32))
def test_choice_keeps_the_order_whatever_variants_drop_or_repeat(
    numbers: list[int], seed: int
) -> None:
    """With variants that drop, repeat and keep lines, origins never fall, and repeats stand together."""
    from volt.stream.transforms.filters import Regex

    choice = Choice(
        (Variant(1.0), Variant(1.0, (Repeat(n=3),)), Variant(1.0, (Regex(pattern="[0-4]"),)))
    )
    batch = Batch((Column.of(list(map(str, numbers))),), None, np.arange(len(numbers)) + 100)
    done = choice(batch, LineRng.of("test", seed))
    assert done.origins.tolist() == sorted(done.origins.tolist())
    assert done.lines == [str(numbers[origin - 100]) for origin in done.origins.tolist()]
    assert {done.origins.tolist().count(origin) for origin in done.origins.tolist()} <= {1, 3}


def test_a_fault_inside_a_choice_names_the_line_of_the_whole_batch() -> None:
    """LineFault of a nested transform is reported by the index in the batch that the choice was given."""
    choice = Choice((Variant(1.0, (Repeat(n=2), Lower(fields=(2,)))),))
    with pytest.raises(LineFault) as fault:
        apply(choice, [["a", "b"], ["c"], ["d", "e"]])
    assert list(fault.value.reasons) == [1]


@given(RAGGED, st.integers(0, 1 << 32), st.data())
def test_what_a_choice_makes_of_a_line_depends_on_no_other(
    rows: list[list[str]], seed: int, data: st.DataObject
) -> None:
    """Some lines of a batch alone become what they became among the others, inside choices in choices too."""
    inner = Choice(
        (
            Variant(1.0, (Typos(rate=0.5),)),
            Variant(1.0, (Repeat(n=2), Typos(rate=0.5), Append(text="x"))),
        )
    )
    choice = Choice(
        (Variant(1.0), Variant(1.0, (Tag(text="A"), inner)), Variant(1.0, (inner, inner)))
    )
    batch, chance = Batch.of(["\t".join(row) for row in rows]), LineRng.of("test", seed)
    chosen = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool
    )
    among, alone = choice(batch, chance), choice(batch.take(chosen), chance)
    assert among.take(np.isin(among.origins, np.flatnonzero(chosen))).lines == alone.lines
    assert alone.origins.tolist() == [origin for origin in among.origins.tolist() if chosen[origin]]


def test_copies_draw_for_themselves() -> None:
    """Of 90 copies of a line, each draws its variant and what that does; copies made inside a variant too."""
    copies = Repeat(n=90)(Batch.of(["abcdefghijklmnopqrst"]), LineRng(1, 2))
    thirds = Choice(tuple(Variant(1.0, (Append(text=tag),)) for tag in "abc"))(
        copies, LineRng(3, 4)
    )
    tags = thirds.column(2).strings()
    assert all(abs(tags.count(tag) - 30) < 5 * 20**0.5 for tag in "abc")
    noisy = Choice((Variant(1.0, (Repeat(n=2), Typos(rate=1.0))),))(copies, LineRng(3, 4))
    assert len(set(noisy.lines)) == len(noisy) == 180


def test_a_choice_is_what_its_variants_are() -> None:
    """It is compiled, and keeps lines, if all steps are and do; it joins lines if one does."""
    for n in range(4):
        for steps in permutations((Lower(), Repeat(), Careless()), n):
            expected = (
                all(map(is_compiled, steps)),
                all(map(keeps_lines, steps)),
                any(map(joins_lines, steps)),
            )
            for variants in (
                [Variant(1.0), *(Variant(1.0, (step,)) for step in steps)],
                [Variant(1.0, steps)],
            ):
                choice = Choice(tuple(variants))
                assert (choice.is_compiled, choice.keeps_lines, choice.joins_lines) == expected


class Careless:
    """A transform that says only that it joins lines."""

    name = "careless"
    joins_lines = True

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return batch


def test_a_choice_copies_no_field_that_no_variant_changed() -> None:
    """Unchanged fields remain views into the same buffer; without changes, the batch is the same object."""
    batch = Batch.of([f"A{k}\tB{k}\tC{k}" for k in range(100)]).split(3)
    done = Choice((Variant(1.0), Variant(1.0, (Lower(),)), Variant(1.0, (Upper(),))))(
        batch, LineRng(1, 2)
    )
    assert done.columns[2].data is batch.columns[2].data
    assert Choice((Variant(1.0), Variant(0.0, (Lower(),))))(batch, LineRng(1, 2)) is batch


def test_choice_follows_its_weights() -> None:
    """Of 40,000 lines, each variant gets its share within five standard deviations; a weight of 0 gets none."""
    shares = {"a": 0.95, "b": 0.04, "c": 0.01, "d": 0.0}
    choice = Choice(
        tuple(Variant(100 * share, (Append(text=tag),)) for tag, share in shares.items())
    )
    tags = [row[1] for row in apply(choice, [["x"]] * 40_000)]
    for tag, share in shares.items():
        assert abs(tags.count(tag) - 40_000 * share) <= 5 * (40_000 * share * (1 - share)) ** 0.5
