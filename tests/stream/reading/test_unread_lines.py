"""`UnreadLines` agrees with plain sets of outputs, however often the number of ranks changes."""

from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.errors import StreamError
from volt.stream.reading.unread_lines import (
    FOREVER,
    LineBlock,
    UnreadLines,
    find_unread,
    join_ranges,
    rank_blocks,
)

WORLDS = st.integers(1, 7)
LENGTHS = st.one_of(st.integers(1, 30), st.integers(1, 1_000_000))
AMOUNTS = st.lists(st.integers(0, 40), min_size=7, max_size=7)  # outputs that each rank delivers

Outputs = list[tuple[int, int]]  # a line, and the number of one of its outputs


def every(first, step):
    return range(first, FOREVER, step)


@st.composite
def output_ranges(draw):
    """Disjoint ranges of outputs: some residues of a number, each from some output on."""
    step = draw(st.integers(1, 5))
    residues = sorted(draw(st.sets(st.integers(0, step - 1), min_size=1)))
    firsts = sorted(residue + step * draw(st.integers(0, 4)) for residue in residues)
    return tuple(every(first, step) for first in firsts)


def list_outputs(block, table):
    """Return a block's unread outputs, in order. table: the number of outputs of each line"""
    outputs = Outputs()
    for line in range(block.start, block.start + block.n_lines):
        outputs += [(line, number) for number in range(table[line])]
    return [outputs[index] for index in block.unread_outputs(len(outputs)).tolist()]


def all_outputs(unread, block_lines, table):
    blocks = unread.blocks(block_lines)
    return list(chain.from_iterable(list_outputs(block, table) for block in blocks))


def deliver(share, n, block_lines, table):
    """Return a share after n outputs were delivered, and these outputs."""
    result = Outputs()
    rest = share
    for block in share.blocks(block_lines):
        own = list_outputs(block, table)[: n - len(result)]
        rest = share.skip_to(block.start, len(own), block_lines=block_lines)
        result += own
        if len(result) == n:
            break
    return rest, result


@settings(max_examples=examples(150))
@given(
    table=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    block_lines=st.integers(1, 12),
    epoch=st.integers(0, 3),
    runs=st.lists(st.tuples(WORLDS, AMOUNTS), max_size=6),
)
def test_shares_and_merges_agree_with_sets(table, block_lines, epoch, runs):
    """Shares are disjoint, complete and even, to within an output of each begun block; skip_to
    removes delivered outputs; merge loses and repeats none."""
    unread = find_unread(epoch, len(table), ())
    expected = set(all_outputs(unread, block_lines, table))
    for world, amounts in runs:
        shares = [unread.share(rank, world) for rank in range(world)]
        outputs = chain.from_iterable(all_outputs(own, block_lines, table) for own in shares)
        assert sorted(outputs) == sorted(expected)
        assert np.ptp([own.n_lines for own in shares]) <= 1
        for begun in zip(*(own.begun for own in shares), strict=True):
            assert np.ptp([len(list_outputs(block, table)) for block in begun]) <= 1

        rest = []
        for own, amount in zip(shares, amounts, strict=False):
            left, read = deliver(own, amount, block_lines, table)
            expected -= set(read)
            rest.append(left)
        unread = UnreadLines.merge(epoch, rest)
        assert sorted(all_outputs(unread, block_lines, table)) == sorted(expected)


@given(st.integers(1, 200), st.lists(WORLDS, max_size=4))
def test_untouched_shares_merge_to_the_whole(n_lines, worlds):
    """merge of all shares of unread lines, with nothing read in between, returns the same unread
    lines."""
    unread = find_unread(0, n_lines, ()).skip_to(0, 1, block_lines=8)
    for world in worlds:
        assert UnreadLines.merge(0, [unread.share(rank, world) for rank in range(world)]) == unread


@given(output_ranges(), st.integers(0, 5), st.integers(0, 20), st.sampled_from([0, 7, 100]))
def test_skip_outputs_removes_the_first_unread_outputs(earlier, first, n, size):
    """LineBlock.skip_outputs(n) has all unread outputs but the first n, for any number of
    outputs."""
    block = LineBlock(0, 0, 1, every(first, 2), (earlier,))
    after = block.skip_outputs(n).unread_outputs(size).tolist()
    assert after == block.unread_outputs(size).tolist()[n:]


@given(LENGTHS, WORLDS, st.integers(1, 200_000), st.integers(1, 3))
def test_ranks_cover_every_epoch_evenly(n, world, block, epochs):
    """The blocks of all ranks have each line once per epoch, and ranks differ by at most one line
    after each epoch."""
    block = max(block, n // 50)
    totals = np.zeros(world, np.int64)
    ranks = [
        list(rank_blocks(n, block, rank=rank, world=world, epochs=epochs)) for rank in range(world)
    ]
    assert all(blocks == sorted(blocks) for blocks in ranks)
    for epoch in range(epochs):
        own = [[one for one in blocks if one.epoch == epoch] for blocks in ranks]
        ends = [0]
        for one in sorted(chain(*own)):
            assert one.start == ends[-1]
            assert 0 < one.n_lines <= block
            ends.append(one.start + one.n_lines)
        assert ends[-1] == n
        totals += [sum(one.n_lines for one in blocks) for blocks in own]
        assert np.ptp(totals) <= 1


@given(st.integers(1, 6), st.integers(7, 20))
def test_shares_of_short_sources_rotate(n, world):
    """If a source of n lines has more ranks than lines, each rank has n lines in `world` epochs."""
    ranks = [list(rank_blocks(n, 4, rank=rank, world=world, epochs=world)) for rank in range(world)]
    assert {sum(block.n_lines for block in blocks) for blocks in ranks} == {n}
    assert any(all(block.epoch for block in blocks) for blocks in ranks)


@given(LENGTHS, WORLDS, st.integers(1, 50), st.data())
def test_rank_blocks_start_at_a_block(n, world, n_blocks, data):
    """rank_blocks yields the block at `start` and the later ones; it refuses a line at which no
    block starts."""
    block = max(1, n // n_blocks)
    rank = data.draw(st.integers(0, world - 1))

    def blocks(start=None):
        return list(rank_blocks(n, block, rank=rank, world=world, epochs=3, start=start))

    whole = blocks()
    if whole:
        place = data.draw(st.integers(0, len(whole) - 1))
        assert blocks(whole[place].address) == whole[place:]
    line = data.draw(st.integers(0, 2 * n))
    if (1, line) not in {one.address for one in whole}:
        with pytest.raises(StreamError, match=f"begins at line {line:,} of epoch 1"):
            blocks((1, line))


def test_whole_epochs_follow_epochs_in_progress():
    """rank_blocks yields whole epochs after the last epoch in `unread`, up to the source's last
    epoch."""
    unread = (UnreadLines(3, (range(2, 4),)), UnreadLines(4))
    blocks = rank_blocks(4, 9, unread=unread, epochs=6)
    assert [block[:3] for block in blocks] == [(3, 2, 2), (5, 0, 4)]
    blocks = rank_blocks(4, 9, unread=unread, start=(7, 0))
    assert [block[:3] for block in islice(blocks, 2)] == [(7, 0, 4), (8, 0, 4)]


def begun_shares(begun, world):
    return [UnreadLines(0, (), begun).share(rank, world).begun for rank in range(world)]


def test_remainders_of_begun_blocks_rotate():
    """share gives the first outputs of different begun blocks to different ranks."""
    begun = tuple(LineBlock(0, start, 1, every(1, 2)) for start in range(4))
    for own in begun_shares(begun, 4):
        assert len({block.outputs.start for block in own}) > 1


@pytest.mark.parametrize("n", [64, 65, 68, 69])
def test_outputs_of_64_begun_blocks_are_split(n):
    """share splits the outputs of the last 64 begun blocks; it gives each earlier one as a whole to
    one rank."""
    begun = tuple(LineBlock(0, start, 1, every(1, 1)) for start in range(n))
    shares = begun_shares(begun, 4)
    n_whole = -(-(n - 64) // 4) * 4
    assert [len(own) for own in shares] == [n_whole // 4 + n - n_whole] * 4
    whole = [block.start for block in chain(*shares) if block in begun]
    assert sorted(whole) == list(range(n_whole))


@given(st.permutations([(0, 4), (1, 8), (5, 8), (2, 12), (6, 12), (10, 12), (3, 4)]))
def test_complete_ranges_are_joined(pairs):
    """join_ranges joins ranges that were split several times to the original range; incomplete ones
    keep their outputs."""
    ranges = [every(*pair) for pair in pairs]
    assert join_ranges(ranges) == (every(0, 1),)
    rest = join_ranges(ranges[1:])
    assert rest != (every(0, 1),)
    blocks = [LineBlock(0, 0, 1, earlier=(outputs,)) for outputs in (tuple(ranges[1:]), rest)]
    assert blocks[0].unread_outputs(200).tolist() == blocks[1].unread_outputs(200).tolist()


@settings(deadline=None, max_examples=examples(25))
@given(st.sets(st.tuples(st.integers(0, 11), st.sampled_from([1, 2, 3, 4, 6, 12])), max_size=8))
def test_joined_ranges_have_the_same_outputs(pairs):
    """join_ranges returns the same outputs in at most as many ranges; joining these again changes
    nothing."""
    disjoint = []
    seen = set()
    for first, step in sorted(pairs):
        outputs = set(range(first, 60, step))
        if not seen & outputs:
            disjoint.append(every(first, step))
            seen |= outputs
    result = join_ranges(disjoint)
    assert sorted(chain(*(range(one.start, 60, one.step) for one in result))) == sorted(seen)
    assert len(result) <= len(disjoint)
    assert join_ranges(result) == result


def test_neighbouring_ranges_of_lines_are_merged():
    """merge joins ranges of lines that touch, in whatever order they come."""
    shares = [UnreadLines(0, (range(4, 6), range(9, 12))), UnreadLines(0, (range(2), range(2, 4)))]
    assert UnreadLines.merge(0, shares).ranges == (range(6), range(9, 12))
