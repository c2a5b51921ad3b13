"""Laws of packs, and of samples that are split to fit into packs."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batching import as_lists, fewest_packs, naive_best_fit
from support.drawn import examples

from volt.batches import (
    Samples,
    collate,
    collate_packed,
    cut_samples,
    joined_samples,
    pack,
    taken_samples,
)
from volt.errors import StreamError, VoltError
from volt.kernels.batching import fit_best

PAD = 1
EOS = 2
FEW = settings(deadline=None, max_examples=examples(60))
lengths_of = st.lists(st.integers(0, 40), max_size=50)
seeds = st.integers(0, 3)
texts_of = st.lists(
    st.lists(st.integers(0, 9), max_size=20).map(lambda ids: [*ids, EOS]), min_size=1, max_size=8
)
sizes_of = st.integers(1, 9)


def spans(packs):
    """Return row → the start and end of its segments, in order."""
    result = {}
    segments = packs.segments
    for row, start, size in zip(*(values.tolist() for values in segments), strict=True):
        result.setdefault(row, []).append((start, start + size))
    return {row: sorted(bounds) for row, bounds in result.items()}


@given(lengths_of, st.integers(1, 50), seeds)
def test_each_row_is_whole_in_one_pack_or_listed(lengths, size, seed):
    """With on_long="report", `pack` puts each row whole into one pack, or lists it as too long or
    empty."""
    packs = pack(lengths, size, on_long="report", seed=seed)
    assert spans(packs) == {
        row: [(0, length)] for row, length in enumerate(lengths) if 0 < length <= size
    }
    assert packs.too_long.tolist() == [row for row, length in enumerate(lengths) if length > size]
    assert packs.empty.tolist() == [row for row, length in enumerate(lengths) if not length]


@given(lengths_of, st.integers(1, 50), seeds)
def test_split_rows_retain_all_tokens(lengths, size, seed):
    """With on_long="split", `pack` splits rows after every `size` tokens, and packs hold from 1 to
    `size` tokens. `padding_share` is the empty share."""
    packs = pack(lengths, size, on_long="split", seed=seed)
    assert spans(packs) == {
        row: [(start, min(start + size, length)) for start in range(0, length, size)]
        for row, length in enumerate(lengths)
        if length
    }
    assert not len(packs.too_long)
    sums = [int(one.sizes.sum()) for one in packs]
    assert all(1 <= total <= size for total in sums)
    share = 1 - sum(sums) / (len(sums) * size) if sums else 0.0
    assert packs.padding_share == pytest.approx(share)


@given(st.lists(st.integers(1, 12), max_size=9), st.integers(6, 15))
def test_packs_are_few(lengths, size):
    """For few rows, `pack` makes at most 11/9 of the least possible number of packs, plus one."""
    packs = pack(lengths, size, on_long="report")
    fewest = fewest_packs([length for length in lengths if length <= size], size)
    assert fewest <= len(packs) <= 11 / 9 * fewest + 1


@given(st.lists(st.integers(1, 40), max_size=50), st.integers(40, 90))
def test_each_row_goes_where_least_space_is_left(sizes, space):
    """The compiled loop `fit_best` leaves the same free space in packs as its naive twin, for sizes
    in any order."""
    n = len(sizes)
    tree = np.zeros(2 << space.bit_length(), np.uint8)
    tops = np.full(space + 1, -1, np.int64)
    packs = np.empty(n, np.int64)
    n_packs = fit_best(np.array(sizes, np.int64), space, tree, tops, np.empty(n, np.int64), packs)
    left = [space] * n_packs
    spaces = []
    for size, number in zip(sizes, packs.tolist(), strict=True):
        left[number] -= size
        spaces.append(left[number])
    assert spaces == naive_best_fit(sizes, space)


def test_packs_are_a_function_of_lengths_and_seeds():
    """Equal lengths, seed, epoch and window give equal packs; another seed, epoch or window gives
    others. Without shuffle, packs are in descending order of the length of their first row."""
    lengths = np.arange(200) % 17 + 1
    places = [{}, {"seed": 1}, {"epoch": 1}, {"window": 1}]
    rows = [pack(lengths, 20, **place).segments.rows.tolist() for place in places]
    assert rows == [pack(lengths.tolist(), 20, **place).segments.rows.tolist() for place in places]
    assert len(set(map(str, rows))) == 4
    firsts = [int(one.sizes[0]) for one in pack(lengths, 20, shuffle=False)]
    assert firsts == sorted(firsts, reverse=True)


def test_packs_are_a_sequence():
    """`Packs` has a length, can be empty, accepts negative indices, and raises IndexError after the
    last pack."""
    assert (len(pack([], 4)), list(pack([0], 4)), pack([], 4).padding_share) == (0, [], 0.0)
    packs = pack([3, 2], 3)
    assert packs[-1].rows.tolist() == packs[1].rows.tolist()
    with pytest.raises(IndexError):
        _ = packs[2]


class Part(NamedTuple):
    """A part of a line: ids, the line's number, where the ids start in it, and whether it ends there."""

    ids: list[int]
    number: int
    start: int
    is_last: bool


def parts_of(texts, size):
    """Split lines after every `size` ids, with slices."""
    result = []
    for number, ids in enumerate(texts):
        for start in range(0, max(len(ids), 1), size):
            result.append(Part(ids[start : start + size], number, start, start + size >= len(ids)))
    return result


def as_parts(samples):
    [name] = samples.fields
    ids = [samples[name][row].tolist() for row in range(len(samples))]
    starts, _, is_last = samples.parts_of(np.arange(len(samples)))
    others = (samples.numbers.tolist(), starts.tolist(), is_last.tolist())
    return list(map(Part, ids, *others))


def packed_twin(texts, packs, length):
    """Return what `collate_packed` returns, built from lists: each id, with the id before it."""
    rows = []
    starts = []
    for number, parts in enumerate(packs):
        row = []
        for ids, line, start, _ in parts:
            starts.append(number * length + len(row))
            before = [EOS, *texts[line]][start:]
            row += [(id_, before[k], k, True) for k, id_ in enumerate(ids)]
        if len(row) < length:
            starts.append(number * length + len(row))
        rows.append(row + [(PAD, PAD, k, False) for k in range(length - len(row))])
    target, before, positions, mask = (
        [[cell[k] for cell in row] for row in rows] for k in range(4)
    )
    bounds = [*starts, len(packs) * length]
    return {
        "id": [part.number for pack in packs for part in pack],
        "nsentences": sum(map(len, packs)),
        "ntokens": sum(len(part.ids) for part in chain.from_iterable(packs)),
        "target": target,
        "tgt_mask": mask,
        "net_input": {
            "src_tokens": before,
            "position_ids": positions,
            "cu_seqlens": bounds,
            "max_seqlen": max(high - low for low, high in pairwise(bounds)),
        },
    }


@FEW
@given(texts_of, texts_of, sizes_of, st.integers(1, 3))
def test_samples_are_split_before_or_after_joining(first, second, size, times):
    """`cut_samples` returns slices of lines, without a copy of their ids.

    The result is the same if samples are split before or after `joined_samples`, in one step or
    two.
    """
    numbers = range(len(first), len(first) + len(second))
    wholes = [Samples.of({"text": first}), Samples.of({"text": second}, [*numbers])]
    expected = parts_of(first + second, size)
    assert as_parts(cut_samples(joined_samples(wholes), size)) == expected
    cut = joined_samples([cut_samples(cut_samples(one, times * size), size) for one in wholes])
    assert as_parts(cut) == expected
    assert cut_samples(wholes[0], size)["text"].ids is wholes[0]["text"].ids
    twice = joined_samples([wholes[0], wholes[0]])  # parts that share an array
    assert [ids.tolist() for ids in twice["text"]] == first + first


@FEW
@given(texts_of, sizes_of, st.integers(0, 9), seeds)
def test_collate_packed_equals_its_twin(texts, size, spare, seed):
    """`collate_packed` equals a twin of lists: the input is the id before each id in its line, EOS
    first, and positions restart with each part."""
    cut = cut_samples(Samples.of({"text": texts}), size)
    twins = parts_of(texts, size)
    length = size + spare
    rows = [one.rows.tolist() for one in pack(cut.lengths, length, seed=seed)]
    step = collate_packed(cut, rows, length=length, pad=PAD, eos=EOS)
    assert step["net_input"]["cu_seqlens"].dtype == np.int32
    assert as_lists(step) == packed_twin(
        texts, [[twins[row] for row in own] for own in rows], length
    )


@FEW
@given(texts_of, sizes_of, st.data())
def test_rows_of_parts_are_slices_of_rows_of_lines(texts, size, data):
    """The rows of `collate` for parts of lines are slices of the rows for whole lines.

    `taken_samples` returns parts in any order.
    """
    whole = Samples.of({"text": texts})
    cut = cut_samples(whole, size)
    rows = data.draw(st.lists(st.integers(0, len(cut) - 1), min_size=1, max_size=6))
    taken = taken_samples(cut, np.array(rows))
    assert as_parts(taken) == [as_parts(cut)[row] for row in rows]
    step = collate(cut, rows, pad=PAD, eos=EOS)
    assert as_lists(collate(taken, range(len(rows)), pad=PAD, eos=EOS)) == as_lists(step)
    full = collate(whole, range(len(texts)), pad=PAD, eos=EOS)
    for at, part in enumerate(as_parts(taken)):
        end = part.start + len(part.ids)
        for name, of in (("target", full), ("src_tokens", full["net_input"])):
            array = step[name] if name in step else step["net_input"][name]
            own = of[name][part.number, part.start : end]
            assert array[at, : len(own)].tolist() == own.tolist()


@FEW
@given(texts_of, sizes_of, seeds)
def test_split_samples_are_packed_as_split_rows(texts, size, seed):
    """`pack` after `cut_samples` makes the segments that `pack` makes with on_long="split"."""
    cut = cut_samples(Samples.of({"text": texts}), size)
    ours = pack(cut.lengths, size, seed=seed).segments
    split = pack([*map(len, texts)], size, on_long="split", seed=seed).segments
    assert cut.numbers[ours.rows].tolist() == split.rows.tolist()
    assert cut.parts_of(ours.rows).starts.tolist() == split.starts.tolist()
    assert ours.sizes.tolist() == split.sizes.tolist()


def test_only_the_end_of_a_line_must_be_eos():
    """`collate_packed` accepts any last id of a part within a line, but names a line that does not
    end in EOS."""
    cut = cut_samples(Samples.of({"text": [[5, 6, 7, EOS], [5, 6, 7]]}, [40, 41]), 2)
    collate_packed(cut, [[0], [1], [2]], length=2, pad=PAD, eos=EOS)
    message = "line 41 of the stream: field 'text' does not end in EOS, the id 2"
    with pytest.raises(StreamError, match=message):
        collate_packed(cut, [[0], [3]], length=2, pad=PAD, eos=EOS)


WRONG = {
    "long": (
        lambda: pack([8, 9, 1], 8),
        "row 1 of 3 has 9 tokens; size is 8; raise it, .* to report or split$",
    ),
    "negative": (lambda: pack([1, -1], 4), r"lengths\[1\] is -1; give"),
    "sides": (lambda: pack([[1, 2]], 4), "lengths has 2 sides; give one number for each row"),
    "on_long": (
        lambda: pack([1], 4, on_long="crop"),
        "unknown on_long 'crop'; choose from raise, report, split",
    ),
    "two fields": (
        lambda: cut_samples(Samples.of({"src": [[5]], "tgt": [[5]]}), 9),
        "samples of src, tgt: only samples of one field can be split",
    ),
    "lists": (lambda: cut_samples([[5]], 9), "samples is a list; give a Samples"),
}


@pytest.mark.parametrize("case", WRONG)
def test_pack_and_cut_samples_refuse_wrong_arguments(case):
    """The errors of `pack` and `cut_samples` name the argument or the row, and say what to give."""
    call, message = WRONG[case]
    with pytest.raises(VoltError, match=f"^{message}"):
        call()
