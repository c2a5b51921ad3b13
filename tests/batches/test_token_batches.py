"""Laws of token batches: each row once, never too many tokens, multiples of 8, and the same wherever they are made."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from batching import fairseq_batches, naive_batches, naive_steps, share_of_padding
from hypothesis import given
from hypothesis import strategies as st

from volt.batches import TokenBatches, padding_share, token_batches
from volt.kernels.batching import cut_steps

sides = st.integers(1, 3)
lengths_of = sides.flatmap(
    lambda n: st.lists(st.tuples(*[st.integers(0, 40)] * n), min_size=1, max_size=70)
)
Lengths = list[tuple[int, ...]]


@st.composite
def every_option(draw: st.DrawFn) -> dict[str, Any]:
    """All options of token_batches at random, but on_long, some of them not given."""
    most = draw(st.integers(1, 300))
    given: dict[str, Any] = {
        "max_tokens": most,
        "multiple": draw(st.integers(1, 9)),
        "world": draw(st.integers(1, 7)),
    }
    given["pad_to_multiple"] = padded = draw(st.just(1) | st.integers(1, most))
    rest: dict[str, st.SearchStrategy[Any]] = {
        "max_sentences": st.integers(1, 20),
        "max_length": st.integers(5, 50),
        "buckets": st.lists(
            st.integers(1, min(most - most % padded, 45)), min_size=1, max_size=4, unique=True
        ).map(sorted),
        "shuffle": st.booleans(),
        "sort": st.sampled_from(["length", "sides"]),
        "epoch": st.integers(0, 3),
        "window": st.integers(0, 3),
        "seed": st.integers(-1, 1 << 70),
    }
    given |= draw(st.fixed_dictionaries({}, optional=rest))
    if given.get("shuffle", True) and given.get("sort") != "sides":
        given["noise"] = draw(st.floats(0, 1))
    return {**given, "min_length": draw(st.integers(1, min(5, limit_of(given))))}


def limit_of(given: dict[str, Any]) -> int:
    """The most tokens of a row."""
    fitting = given["max_tokens"] - given["max_tokens"] % given["pad_to_multiple"]
    limit: int = min(fitting, given.get("max_length", 50), *given.get("buckets", [300])[-1:])
    return limit


options = every_option()


def made(lengths: Lengths, given: dict[str, Any]) -> TokenBatches:
    return token_batches(lengths, on_long="report", **given)


@given(lengths_of, options)
def test_each_row_is_in_one_batch_or_listed(lengths: Lengths, given: dict[str, Any]) -> None:
    """Batches, too long, too short and left are all rows, each once; those listed are what their list says."""
    batches, longest = made(lengths, given), [max(row) for row in lengths]
    limit = limit_of(given)
    listed = [batches.too_long, batches.too_short, batches.left]
    assert sorted(np.concatenate([batches.order, *listed]).tolist()) == list(range(len(lengths)))
    assert batches.too_long.tolist() == [
        row for row, length in enumerate(longest) if length > limit
    ]
    assert batches.too_short.tolist() == [
        row for row, n in enumerate(longest) if n < given["min_length"]
    ]
    assert len(batches.left) < given["world"]


@given(lengths_of, options)
def test_rows_are_left_only_where_a_batch_is_one_row(
    lengths: Lengths, given: dict[str, Any]
) -> None:
    """Rows are left where there is no step, or a step in which a rank gets a single row."""
    batches = made(lengths, given)
    assert not len(batches.left) or not len(batches) or batches.sizes.min() == 1


@given(lengths_of, options)
def test_no_batch_is_empty_or_too_large(lengths: Lengths, given: dict[str, Any]) -> None:
    """Rows times the longest side of the step, and so of the batch, stay within max_tokens, rows within the most."""
    batches = made(lengths, given)
    for rows, longest, cost in zip(batches, batches.longest, batches.costs, strict=True):
        assert 1 <= len(rows) <= given.get("max_sentences", len(lengths))
        assert max(max(lengths[row]) for row in rows) <= longest
        assert len(rows) * longest == cost <= given["max_tokens"]
        assert longest % given["pad_to_multiple"] == 0


@given(lengths_of, options)
def test_the_batches_of_a_step_cost_the_same_within_a_sentence(
    lengths: Lengths, given: dict[str, Any]
) -> None:
    """In each step, and summed up over all steps, ranks have as many batches, and as many rows within one."""
    batches, world = made(lengths, given), given["world"]
    steps = batches.sizes.reshape(-1, world)
    assert (batches.longest.reshape(-1, world) == batches.longest[::world, None]).all()
    for costs, longest in zip(
        batches.costs.reshape(-1, world), batches.longest[::world], strict=True
    ):
        assert costs.max() - costs.min() <= longest
    uneven = np.ptp(steps, axis=1) > 0
    assert uneven.sum() <= 1
    assert np.ptp(batches.costs.reshape(-1, world).sum(axis=0), axis=0) <= batches.longest.max(
        initial=0
    )


@given(lengths_of, options)
def test_sizes_are_multiples_where_so_many_fit(lengths: Lengths, given: dict[str, Any]) -> None:
    """All but the last two steps, of all ranks together, are a multiple of 8 for each rank, or below 8 for each."""
    given = {**given, "shuffle": False, "noise": 0.0}
    sizes = made(lengths, given).sizes.reshape(-1, given["world"])
    for size in sizes[:-2].ravel().tolist():
        assert size % given["multiple"] == 0 or size < given["multiple"]
    if given["world"] == 1 and len(sizes) > 1:
        assert sizes[-2, 0] % given["multiple"] == 0 or sizes[-2, 0] < given["multiple"]


@given(lengths_of, options, st.data())
def test_ranks_share_the_batches(
    lengths: Lengths, given: dict[str, Any], data: st.DataObject
) -> None:
    """Batch i is for rank i % world, and a rank's own batches are numbered through."""
    batches = made(lengths, given)
    rank = data.draw(st.integers(0, given["world"] - 1))
    mine = batches.of_rank(rank)
    assert [rows.tolist() for rows in mine] == [
        rows.tolist() for rows in list(batches)[rank :: given["world"]]
    ]
    assert [mine[number].tolist() for number in range(len(mine))] == [
        rows.tolist() for rows in mine
    ]
    assert mine.costs.tolist() == batches.costs[rank :: given["world"]].tolist()


@given(lengths_of, options)
def test_batches_are_a_function_of_what_is_given(lengths: Lengths, given: dict[str, Any]) -> None:
    """Twice the same, for lists and for arrays of any width."""
    one, two = made(lengths, given), made(np.array(lengths, np.uint16).tolist(), given)
    three = token_batches(np.asfortranarray(np.array(lengths, np.uint8)), on_long="report", **given)
    for other in (two, three):
        assert one.order.tolist() == other.order.tolist()
        assert one.ends.tolist() == other.ends.tolist()


@given(st.lists(lengths_of, max_size=3), options)
def test_windows_lose_no_row(windows: list[Lengths], given: dict[str, Any]) -> None:
    """Where rows that are left go into the next window, each is in one batch of one window, listed, or left last."""
    left, done, longest = (
        list[int](),
        list[int](),
        [max(row) for lengths in windows for row in lengths],
    )
    n = 0
    for window, lengths in enumerate(windows):
        rows, n = [*left, *range(n, n + len(lengths))], n + len(lengths)
        batches = made([(longest[row],) for row in rows], {**given, "window": window})
        done += [rows[row] for row in (*batches.order, *batches.too_long, *batches.too_short)]
        left = [rows[row] for row in batches.left]
    assert sorted([*done, *left]) == list(range(n))
    assert len(left) < given["world"]


@given(
    st.lists(st.integers(1, 40), max_size=60),
    st.integers(40, 300),
    st.integers(1, 30),
    st.integers(1, 9),
    sides,
)
def test_steps_are_cut_as_the_rule_says(
    longest: list[int], max_tokens: int, most: int, multiple: int, world: int
) -> None:
    """The loop does what its naive twin does, in whatever order rows come."""
    ends = np.empty(len(longest) // world, np.int64)
    n_steps = cut_steps(np.array(longest, np.int64), max_tokens, most, multiple, world, ends)
    assert ends[:n_steps].tolist() == naive_steps(longest, max_tokens, most, multiple, world)


@given(lengths_of, options)
def test_without_chance_batches_are_those_of_the_twin(
    lengths: Lengths, given: dict[str, Any]
) -> None:
    """Every batch has the rows that the rule gives it, in their order, whatever the options are."""
    batches = made(lengths, {**given, "shuffle": False, "noise": 0.0})
    kept = [
        row
        for row, sides in enumerate(lengths)
        if given["min_length"] <= max(sides) <= limit_of(given)
    ]
    assert [rows.tolist() for rows in batches] == naive_batches(lengths, kept, given)


@given(st.sets(st.integers(1, 90), max_size=60), options)
def test_chance_permutes_steps_of_unequal_rows(lengths: set[int], given: dict[str, Any]) -> None:
    """Where no two rows are equally long, batches are those without chance, step by step, in another order."""
    given = {**given, "noise": 0.0} | (
        {"buckets": range(1, limit_of(given) + 1)} if "buckets" in given else {}
    )
    ours, still = (
        made([(n,) for n in lengths], {**given, "shuffle": shuffle}) for shuffle in (True, False)
    )
    steps = [
        sorted(np.split(one.order, one.ends[given["world"] - 1 :: given["world"]]), key=list)
        for one in (ours, still)
    ]
    assert [rows.tolist() for rows in steps[0]] == [rows.tolist() for rows in steps[1]]
    assert sorted(ours.longest) == sorted(still.longest)


@given(st.lists(st.integers(1, 90), max_size=60), options)
def test_noise_swaps_only_rows_of_like_length(lengths: list[int], given: dict[str, Any]) -> None:
    """Where a row is shorter than one of another step by more than noise can be, none of its step is so much longer."""
    given = {
        name: value for name, value in given.items() if name not in {"sort", "shuffle", "buckets"}
    }
    noise, world = given.setdefault("noise", 0.1), given["world"]
    rows = made([(n,) for n in lengths], given)
    steps = [
        [lengths[row] for row in step]
        for step in np.split(rows.order, rows.ends[world - 1 :: world])[:-1]
    ]
    spans = [(min(step), max(step)) for step in steps]
    for (low, high), (other_low, other_high) in combinations(spans, 2):
        is_before = low * (1 + noise) < other_high * (1 - noise)
        assert not (is_before and other_low * (1 + noise) < high * (1 - noise))


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=80),
    st.integers(40, 400),
)
def test_sorted_by_sides_batches_are_those_of_fairseq(
    lengths: list[tuple[int, int]], max_tokens: int
) -> None:
    """With its order and 8, the sizes of batches, and the lengths in each, are those of fairseq's algorithm."""
    ours = token_batches(lengths, max_tokens=max_tokens, sort="sides", shuffle=False)
    theirs = fairseq_batches(lengths, max_tokens)
    assert [sorted(lengths[row] for row in rows) for rows in ours] == [
        sorted(lengths[row] for row in rows) for rows in theirs
    ]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=60),
    st.integers(40, 400),
)
def test_the_share_of_padding_is_that_of_rectangles(
    lengths: list[tuple[int, int]], max_tokens: int
) -> None:
    """It is what lies in the rectangles of both sides beside tokens."""
    batches = token_batches(lengths, max_tokens=max_tokens, seed=1)
    naive = share_of_padding([rows.tolist() for rows in batches], lengths)
    assert abs(padding_share(batches, lengths) - naive) < 1e-12
    assert (
        abs(
            padding_share(batches, lengths, to_longest=True)
            - (1 - np.sum(lengths) / batches.costs.sum() / 2)
        )
        < 1e-12
    )


def test_no_rank_always_has_the_longest_row() -> None:
    """The rank that gets the last row of a step is another one in the next."""
    batches = token_batches(np.arange(1, 200), max_tokens=2000, world=3, shuffle=False)
    longest = [
        [int(rows.max()) for rows in list(batches)[step : step + 3]]
        for step in range(0, len(batches), 3)
    ]
    assert {step.index(max(step)) for step in longest} == {0, 1, 2}
