"""`choice` sends each line through one variant, in place, independently of other lines."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream.transforms.support import RAGGED, apply

from volt.stream.transforms.case import Lower, Upper
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.column import Column
from volt.stream.transforms.documents import Repeat
from volt.stream.transforms.field_edits import Append
from volt.stream.transforms.filters import Regex
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.noise import Typos
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import LineFault, is_compiled, joins_lines, keeps_lines

RNG = LineRng(1, 2)
SEEDS = st.integers(0, 1 << 32)


def choice_of(*variants):
    """Return a choice of variants of equal weight."""
    return Choice(tuple(Variant(1.0, transforms) for transforms in variants))


@given(st.lists(st.sampled_from([0.0, 0.5, 1, 3.0]), min_size=1, max_size=5), st.integers(0, 99))
def test_weights_divide_the_random_numbers(weights, seed):
    """Choice sends a line through the variant whose range of cumulative weights contains the line's
    random number."""
    if not sum(weights):
        return
    variants = [Variant(weight, (Append(text=str(k)),)) for k, weight in enumerate(weights)]
    batch = Batch.of(["x"] * 60)
    rng = LineRng.of(seed)
    drawn = rng.uniform(batch.origins) * sum(weights)
    for number, row in zip(drawn, Choice(tuple(variants))(batch, rng).rows, strict=True):
        variant = int(row[1])
        assert sum(weights[:variant]) <= number < sum(weights[: variant + 1])


@given(st.lists(st.integers(0, 9), max_size=30), SEEDS)
def test_lines_stay_in_order(numbers, seed):
    """Choice with variants that drop and repeat lines returns lines in order, with repeats next to
    each other."""
    choice = choice_of((), (Repeat(n=3),), (Regex(pattern="[0-4]"),))
    batch = Batch((Column.of(list(map(str, numbers))),), None, np.arange(len(numbers)) + 100)
    result = choice(batch, LineRng.of("test", seed))
    origins = result.origins.tolist()
    assert origins == sorted(origins)
    assert result.lines == [str(numbers[origin - 100]) for origin in origins]
    assert set(map(origins.count, origins)) <= {1, 3}


def test_faults_have_indices_of_the_whole_batch():
    """Choice reports an unfit line of a variant with its index in the whole batch."""
    with pytest.raises(LineFault) as fault:
        apply(choice_of((Repeat(n=2), Lower(fields=(2,)))), [["a", "b"], ["c"], ["d", "e"]])
    assert list(fault.value.reasons) == [1]


@given(RAGGED, SEEDS, st.data())
def test_lines_do_not_depend_on_other_lines(rows, seed, data):
    """Choice gives each line the same result in a part of a batch as in the whole batch, also with
    choices inside choices."""
    typos = Typos(rate=0.5)
    inner = choice_of((typos,), (Repeat(n=2), typos, Append(text="x")))
    choice = choice_of((), (Tag(text="A"), inner), (inner, inner))
    batch = Batch.of(["\t".join(row) for row in rows])
    rng = LineRng.of("test", seed)
    flags = st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))
    is_chosen = np.array(data.draw(flags), bool)
    whole = choice(batch, rng)
    part = choice(batch.take(is_chosen), rng)
    expected = whole.take(np.isin(whole.origins, np.flatnonzero(is_chosen)))
    assert part.lines == expected.lines
    assert part.origins.tolist() == expected.origins.tolist()


def test_copies_draw_other_numbers():
    """Choice draws independently for each copy of a line: its variant, and the random numbers of
    the variant's steps."""
    copies = Repeat(n=90)(Batch.of(["abcdefghijklmnopqrst"]), RNG)
    thirds = choice_of(*((Append(text=tag),) for tag in "abc"))(copies, LineRng(3, 4))
    tags = thirds.column(2).strings()
    assert all(abs(tags.count(tag) - 30) < 5 * 20**0.5 for tag in "abc")
    noisy = choice_of((Repeat(n=2), Typos(rate=1.0)))(copies, LineRng(3, 4))
    assert len(set(noisy.lines)) == len(noisy) == 180


class Joining:
    """A transform that declares only that it joins lines."""

    name = "joining"
    joins_lines = True

    def __call__(self, batch, rng):
        return batch


def test_a_choice_has_the_properties_of_its_steps():
    """Choice is compiled, and keeps lines, if all its steps do; it joins lines if one step does."""
    for n in range(4):
        for steps in permutations((Lower(), Repeat(), Joining()), n):
            for choice in (choice_of((), *((step,) for step in steps)), choice_of(steps)):
                assert choice.is_compiled == all(map(is_compiled, steps))
                assert choice.keeps_lines == all(map(keeps_lines, steps))
                assert choice.joins_lines == any(map(joins_lines, steps))


def test_unchanged_fields_are_not_copied():
    """Choice leaves the buffer of an unchanged field as it is, and returns the same batch object if
    no line changes."""
    batch = Batch.of([f"A{k}\tB{k}\tC{k}" for k in range(100)]).split(3)
    result = choice_of((), (Lower(),), (Upper(),))(batch, RNG)
    assert result.columns[2].data is batch.columns[2].data
    assert Choice((Variant(1.0), Variant(0.0, (Lower(),))))(batch, RNG) is batch
