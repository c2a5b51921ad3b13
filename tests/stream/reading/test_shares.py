"""Ranks divide each epoch exactly and evenly, whatever its length; what is left is divided again among other ranks."""

from __future__ import annotations

from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import StreamError
from volt.stream.reading.distributed_sampler import (
    BlockRange,
    Deal,
    EpochLayout,
    Pick,
    Remains,
    parts,
    permutation,
    read_order,
)

WORLDS = st.integers(1, 7)
LENGTHS = st.one_of(st.integers(1, 30), st.integers(1, 1_000_000))


@st.composite
def spans(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    """Rising spans that do not overlap, some of them side by side."""
    bounds = sorted(draw(st.sets(st.integers(0, 40), max_size=12)))
    return tuple(zip(bounds[::2], bounds[1::2], strict=False))


@st.composite
def picks(draw: st.DrawFn) -> tuple[Pick, ...]:
    """Disjoint picks of the outputs of a part: some of the classes modulo a number, each from somewhere on."""
    step = draw(st.integers(1, 5))
    classes = sorted(draw(st.sets(st.integers(0, step - 1), min_size=1)))
    return tuple(sorted((number + step * draw(st.integers(0, 4)), step) for number in classes))


@given(LENGTHS, WORLDS, st.integers(1, 200_000), st.integers(1, 3))
def test_ranks_cover_every_epoch_evenly(n: int, world: int, block: int, epochs: int) -> None:
    """Each epoch comes whole, no line twice, and ranks differ by at most one line after each epoch."""
    block = max(block, n // 50)
    read = [list(parts(n, block, rank=rank, world=world, epochs=epochs)) for rank in range(world)]
    totals = np.zeros(world, np.int64)
    for epoch in range(epochs):
        own = [[part for part in rank if part.epoch == epoch] for rank in read]
        end = 0
        for part in sorted(chain(*own)):
            assert part.start == end
            assert 0 < part.n_lines <= block
            end += part.n_lines
        assert end == n
        lines = [sum(part.n_lines for part in rank) for rank in own]
        assert max(lines) - min(lines) <= 1
        totals += lines
        assert np.ptp(totals) <= 1
    assert all(rank == sorted(rank) for rank in read)


@given(st.integers(1, 6), st.integers(7, 20))
def test_a_source_shorter_than_the_world_goes_round(n: int, world: int) -> None:
    """In `world` epochs each rank gets each line number of shares once: n lines each; in one epoch some get none."""
    read = [list(parts(n, 4, rank=rank, world=world, epochs=world)) for rank in range(world)]
    assert {sum(part.n_lines for part in rank) for rank in read} == {n}
    assert [] in [list(parts(n, 4, rank=rank, world=world, epochs=1)) for rank in range(world)]
    assert next(parts(n, 4, rank=world - 1, world=world)).n_lines == 1


@given(LENGTHS, WORLDS, st.integers(1, 50), st.data())
def test_a_rank_begins_anywhere(n: int, world: int, pieces: int, data: st.DataObject) -> None:
    """Started at the address of a part, the parts are those from there on; at another line it is refused."""
    block, rank = max(1, n // pieces), data.draw(st.integers(0, world - 1))
    read = list(parts(n, block, rank=rank, world=world, epochs=3))
    for place in data.draw(st.lists(st.integers(0, len(read) - 1), max_size=3)) if read else []:
        begun = parts(n, block, rank=rank, world=world, epochs=3, start=read[place].address)
        assert list(begun) == read[place:]
    line = data.draw(st.integers(0, 2 * n))
    if (1, line) not in {part.address for part in read}:
        with pytest.raises(StreamError, match=f"begins at line {line:,} of epoch 1"):
            next(parts(n, block, rank=rank, world=world, epochs=3, start=(1, line)))


@given(spans(), st.lists(picks(), max_size=5), WORLDS, st.integers(0, 5), st.integers(1, 9))
def test_what_remains_is_divided(
    lines: tuple, chosen: list, world: int, epoch: int, block: int
) -> None:  # type: ignore[type-arg]
    """Shares of what is left of an epoch: its lines and outputs once, lines and each part's outputs within one."""
    begun = tuple(BlockRange(epoch, 100 + place, 1, one) for place, one in enumerate(chosen))
    remains = Remains(epoch, lines, begun)
    given_out = [list(remains.share(rank, world).parts(block)) for rank in range(world)]
    fresh = [[part for part in rank if not (part.start >= 100)] for rank in given_out]
    assert sorted(
        line
        for rank in fresh
        for part in rank
        for line in range(part.start, part.start + part.n_lines)
    ) == [line for start, end in lines for line in range(start, end)]
    sizes = [sum(part.n_lines for part in rank) for rank in fresh]
    assert max(sizes) - min(sizes) <= 1
    for part in begun:
        outputs = [
            own.chosen(60).tolist() for rank in given_out for own in rank if own.start == part.start
        ]
        assert sorted(chain(*outputs)) == part.chosen(60).tolist()
        assert len(outputs) == world


@given(picks(), st.integers(0, 20))
def test_what_is_left_of_a_part(chosen: tuple[Pick, ...], offset: int) -> None:
    """Outputs after the first ones that are chosen are those that are chosen afterwards, of any number of outputs."""
    part = BlockRange(0, 0, 1, chosen)
    for n in (0, 7, 100):
        assert part.left(offset).chosen(n).tolist() == part.chosen(n).tolist()[offset:]


def test_whole_epochs_follow_a_deal() -> None:
    """After what is left of the epochs that were begun come whole ones, up to the last."""
    deal: Deal = (Remains(3, ((2, 4),)), Remains(4))
    assert [part[:3] for part in parts(4, 9, deal=deal, epochs=6)] == [(3, 2, 2), (5, 0, 4)]
    assert [part[:3] for part in islice(parts(4, 9, deal=deal, start=(7, 0)), 2)] == [
        (7, 0, 4),
        (8, 0, 4),
    ]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=20),
    WORLDS,
    st.integers(1, 12),
    st.integers(0, 3),
)
def test_slices_are_the_lines_of_the_epoch(
    sizes: list[int], world: int, block: int, epoch: int
) -> None:
    """The slices of all parts of all ranks, in order, are the pieces in the epoch's order."""
    pieces, order = np.array(sizes), permutation(len(sizes), 1, "a", epoch)
    found = list[tuple[int, int]]()
    for part in sorted(
        part
        for rank in range(world)
        for part in parts(sum(sizes), block, rank=rank, world=world, epochs=epoch + 1)
    ):
        if part.epoch == epoch:
            layout = EpochLayout(order, np.zeros_like(order), np.cumsum(pieces[order]))
            slices = read_order(layout, start=part.start, n_lines=part.n_lines)
            assert sum(one.n_lines for one in slices) == part.n_lines
            found += [
                (one.piece, one.first + line) for one in slices for line in range(one.n_lines)
            ]
    assert found == [(piece, line) for piece in order.tolist() for line in range(sizes[piece])]


@given(spans(), st.lists(picks(), max_size=4), st.integers(1, 9), st.integers(0, 9), st.data())
def test_what_is_left_after_a_part_in_use(
    lines: tuple[tuple[int, int], ...],
    chosen: list[tuple[Pick, ...]],
    block: int,
    offset: int,
    data: st.DataObject,
) -> None:
    """Of a part in use some outputs are gone; all of what comes behind it is there, and nothing that came before."""
    share = Remains(
        0,
        lines,
        tuple(BlockRange(0, 100 + 50 * place, 50, one) for place, one in enumerate(chosen)),
    )
    whole = list(share.parts(block))
    if whole:
        place = data.draw(st.integers(0, len(whole) - 1))
        left = share.after(whole[place].start, offset, block)
        expected = [whole[place].left(offset), *whole[place + 1 :]]
        assert sorted(_outputs(left, block)) == sorted(
            out for part in expected for out in _outputs_of(part)
        )


def _outputs(remains: Remains, block: int) -> list[int]:
    return [output for part in remains.parts(block) for output in _outputs_of(part)]


def _outputs_of(part: BlockRange) -> list[int]:
    """Each line gives one output."""
    return [part.start + output for output in part.chosen(part.n_lines).tolist()]


def test_what_does_not_divide_goes_round() -> None:
    """The first outputs of begun parts, and of several picks of one, go to different ranks; many picks to one rank."""
    begun = tuple(BlockRange(0, start, 1, ((1, 2), (2, 2))) for start in range(4))
    firsts = [
        {part.picks[0][0] for part in Remains(0, (), begun).share(rank, 4).begun}
        for rank in range(4)
    ]
    assert all(len(first) > 1 for first in firsts)
    assert [part.picks for part in Remains(0, (), begun[:1]).share(0, 4).begun] == [
        ((1, 8), (4, 8))
    ]
    many = BlockRange(0, 0, 1, tuple((first, 30) for first in range(1, 20)))
    assert [Remains(0, (), (many,)).share(rank, 3).begun for rank in range(3)] == [(many,), (), ()]
