"""Long samples in parts: no id is lost, and what stands before a part is the id before it in its line."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.batches import (
    Samples,
    collate,
    collate_packed,
    cut_samples,
    joined_samples,
    pack,
    taken_samples,
)
from volt.errors import ConfigError, StreamError

PAD, EOS = 1, 2
FEW = settings(deadline=None, max_examples=examples(60))
texts_of = st.lists(
    st.lists(st.integers(0, 9), max_size=20).map(lambda ids: [*ids, EOS]), min_size=1, max_size=8
)
sizes_of = st.integers(1, 9)


class Part(NamedTuple):
    """The twin of a sample: ids of a line, the line's number, where they start in it, and whether it ends there."""

    ids: list[int]
    number: int
    start: int
    is_last: bool


def parts_of(texts: list[list[int]], size: int) -> list[Part]:
    """Lines cut after every `size` ids, with slices."""
    return [
        Part(ids[start : start + size], number, start, start + size >= len(ids))
        for number, ids in enumerate(texts)
        for start in range(0, max(len(ids), 1), size)
    ]


def as_parts(samples: Samples) -> list[Part]:
    """Samples as their twins."""
    [name] = samples.fields
    ids = [samples[name][row].tolist() for row in range(len(samples))]
    starts, _, is_last = samples.parts_of(np.arange(len(samples)))
    rest = samples.numbers.tolist(), starts.tolist(), is_last.tolist()
    return [Part(*one) for one in zip(ids, *rest, strict=True)]


def packed_twin(texts: list[list[int]], packs: list[list[Part]], length: int) -> dict[str, Any]:
    """What `collate_packed` gives, with lists: each id of a part, beside the id before it in its line."""
    target, before, positions, mask, bounds = (
        list[Any](),
        list[Any](),
        list[Any](),
        list[Any](),
        {0},
    )
    for number, row in enumerate(packs):
        cells = [
            (ids, texts[line][start + k - 1] if start + k else EOS, k)
            for part, line, start, _ in row
            for k, ids in enumerate(part)
        ]
        blank = length - len(cells)
        target.append([cell[0] for cell in cells] + [PAD] * blank)
        before.append([cell[1] for cell in cells] + [PAD] * blank)
        positions.append([cell[2] for cell in cells] + [*range(blank)])
        mask.append([True] * len(cells) + [False] * blank)
        bounds |= {number * length + k for k, cell in enumerate(cells) if cell[2] == 0}
        bounds |= {number * length + len(cells), (number + 1) * length}
    segments = sorted(bounds)
    return {
        "id": [part.number for row in packs for part in row],
        "nsentences": sum(map(len, packs)),
        "ntokens": sum(len(part.ids) for row in packs for part in row),
        "target": target,
        "tgt_mask": mask,
        "net_input": {
            "src_tokens": before,
            "position_ids": positions,
            "cu_seqlens": segments,
            "max_seqlen": max(high - low for low, high in pairwise(segments)),
        },
    }


def listed(value: Any) -> Any:
    """Arrays as lists."""
    if isinstance(value, dict):
        return {name: listed(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@FEW
@given(st.lists(st.lists(st.integers(0, 9), max_size=20), min_size=1, max_size=8), sizes_of)
def test_parts_are_slices_of_their_lines(texts: list[list[int]], size: int) -> None:
    """Parts are what their twins are, so that those of a line, one after the other, are the line."""
    samples = Samples.of({"text": texts})
    cut = cut_samples(samples, size)
    assert as_parts(cut) == parts_of(texts, size)
    assert cut["text"].ids is samples["text"].ids
    for number, ids in enumerate(texts):
        assert [one for part in as_parts(cut) if part.number == number for one in part.ids] == ids


@FEW
@given(texts_of, sizes_of, st.integers(1, 3))
def test_parts_may_be_cut_again(texts: list[list[int]], size: int, times: int) -> None:
    """Cut after every `times · size` ids and then after every `size`, lines are cut after every `size`."""
    samples = Samples.of({"text": texts})
    assert as_parts(cut_samples(cut_samples(samples, times * size), size)) == as_parts(
        cut_samples(samples, size)
    )


@FEW
@given(texts_of, texts_of, sizes_of)
def test_samples_are_cut_before_or_after_they_are_joined(one: Any, other: Any, size: int) -> None:
    """Joined samples keep where each starts in its line, and whether its line ends there."""
    numbers = range(len(one), len(one) + len(other))
    wholes = [Samples.of({"text": one}), Samples.of({"text": other}, [*numbers])]
    cut = joined_samples([cut_samples(samples, size) for samples in wholes])
    assert (
        as_parts(cut)
        == as_parts(cut_samples(joined_samples(wholes), size))
        == parts_of(one + other, size)
    )
    twice = joined_samples([wholes[0], wholes[0]])  # parts that share an array
    assert [ids.tolist() for ids in twice["text"]] == one + one


@FEW
@given(texts_of, sizes_of, st.integers(0, 5), st.integers(0, 3))
def test_packs_of_parts_are_those_of_the_twin(
    texts: list[list[int]], size: int, spare: int, seed: int
) -> None:
    """Inputs are what stands before each id in its line, EOS before the first; positions start anew with each part."""
    cut, twins, length = (
        cut_samples(Samples.of({"text": texts}), size),
        parts_of(texts, size),
        size + spare,
    )
    rows = [one.rows.tolist() for one in pack(cut.lengths, length, seed=seed)]
    made = collate_packed(cut, rows, length=length, pad=PAD, eos=EOS)
    assert listed(made) == packed_twin(
        texts, [[twins[row] for row in some] for some in rows], length
    )


@FEW
@given(texts_of, sizes_of, st.data())
def test_rows_of_parts_are_those_of_whole_lines(
    texts: list[list[int]], size: int, data: st.DataObject
) -> None:
    """What one part a row reads and writes is a slice of what the whole line reads and writes."""
    cut, whole = cut_samples(Samples.of({"text": texts}), size), Samples.of({"text": texts})
    rows = data.draw(st.lists(st.integers(0, len(cut) - 1), min_size=1, max_size=6))
    made, full = (
        collate(cut, rows, pad=PAD, eos=EOS),
        collate(whole, range(len(texts)), pad=PAD, eos=EOS),
    )
    for at, row in enumerate(rows):
        line, start, n = *as_parts(cut)[row][1:3], int(cut.lengths[row, 0])
        for got, all_ids in (
            (made["target"], full["target"]),
            (made["net_input"]["src_tokens"], full["net_input"]["src_tokens"]),
        ):
            assert got[at, :n].tolist() == all_ids[line, start : start + n].tolist()


@FEW
@given(texts_of, sizes_of, st.integers(0, 3))
def test_cut_samples_are_packed_as_split_rows_are(
    texts: list[list[int]], size: int, seed: int
) -> None:
    """Packs of parts hold the segments that `pack` makes where it splits rows itself."""
    cut = cut_samples(Samples.of({"text": texts}), size)
    ours, split = (
        pack(cut.lengths, size, seed=seed),
        pack([*map(len, texts)], size, on_long="split", seed=seed),
    )
    assert cut.numbers[ours.segments.rows].tolist() == split.segments.rows.tolist()
    assert cut.parts_of(ours.segments.rows).starts.tolist() == split.segments.starts.tolist()
    assert ours.segments.sizes.tolist() == split.segments.sizes.tolist()


@FEW
@given(texts_of, sizes_of, st.data())
def test_some_parts_are_read_as_among_all(
    texts: list[list[int]], size: int, data: st.DataObject
) -> None:
    """Taken in any order, without the parts before them, they have the arrays that they have among all."""
    cut = cut_samples(Samples.of({"text": texts}), size)
    rows = data.draw(st.lists(st.integers(0, len(cut) - 1), min_size=1, max_size=6))
    some = taken_samples(cut, np.array(rows))
    made, wanted = (
        collate(some, range(len(rows)), pad=PAD, eos=EOS),
        collate(cut, rows, pad=PAD, eos=EOS),
    )
    assert listed(made) == listed(wanted)
    assert as_parts(some) == [as_parts(cut)[row] for row in rows]


def test_only_the_end_of_a_line_is_asked_for_eos() -> None:
    """A part within a line ends in any id; a line that lacks EOS is named, whichever part of it that is."""
    cut = cut_samples(Samples.of({"text": [[5, 6, 7, EOS], [5, 6, 7]]}, [40, 41]), 2)
    collate_packed(cut, [[0], [1], [2]], length=2, pad=PAD, eos=EOS)
    with pytest.raises(
        StreamError, match="line 41 of the stream: field 'text' does not end in EOS, the id 2"
    ):
        collate_packed(cut, [[0], [3]], length=2, pad=PAD, eos=EOS)


def test_what_cannot_be_cut_is_refused() -> None:
    """Parts of two fields would not belong to each other; a part has an id."""
    with pytest.raises(
        ConfigError, match="samples of src, tgt: only samples of one field can be split"
    ):
        cut_samples(Samples.of({"src": [[5]], "tgt": [[5]]}), 9)
    with pytest.raises(ConfigError, match="samples is a list; give a Samples"):
        cut_samples([[5]], 9)  # type: ignore[arg-type]
