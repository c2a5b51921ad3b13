"""Batches as arrays, against twins that build lists from the description of fairseq's layout."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.batches import Samples, collate, collate_packed, to_torch
from volt.errors import ConfigError, MissingLibraryError, StreamError, VoltError

PAD, EOS = 1, 2
FEW = settings(deadline=None, max_examples=examples(50))
own_ids = st.lists(st.integers(0, 9), max_size=6)  # the id of padding among them
sides = own_ids.map(lambda ids: [*ids, EOS])
Rows = list[list[int]]


def padded(rows: Rows, multiple: int, *, left: bool) -> Rows:
    """Rows filled up to the longest, rounded up to a multiple."""
    width = max(map(len, rows))
    while width % multiple:
        width += 1
    return [
        [PAD] * (width - len(row)) + row if left else row + [PAD] * (width - len(row))
        for row in rows
    ]


def moved(row: list[int]) -> list[int]:
    """EOS moved from the end to the front; nothing of nothing."""
    return [EOS, *row[:-1]] if row else []


def twin(
    pairs: list[tuple[list[int], list[int]]],
    numbers: list[int],
    multiple: int,
    left: tuple[bool, bool],
) -> Any:
    """What fairseq's description of a batch says, with lists."""
    source, target = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {
        "id": numbers,
        "nsentences": len(pairs),
        "ntokens": sum(map(len, target)),
        "net_input": {
            "src_tokens": padded(source, multiple, left=left[0]),
            "src_lengths": [len(row) for row in source],
            "prev_output_tokens": padded([moved(row) for row in target], multiple, left=left[1]),
        },
        "target": padded(target, multiple, left=left[1]),
        "src_mask": [
            [cell is not None for cell in row] for row in holes(source, multiple, left=left[0])
        ],
        "tgt_mask": [
            [cell is not None for cell in row] for row in holes(target, multiple, left=left[1])
        ],
    }


def holes(rows: Rows, multiple: int, *, left: bool) -> list[list[int | None]]:
    """Padded rows with None for padding, which an id cannot be mistaken for."""
    marked = padded([[cell + 100 for cell in row] for row in rows], multiple, left=left)
    return [[None if cell == PAD else cell for cell in row] for row in marked]


def listed(value: Any) -> Any:
    """Arrays as lists."""
    if isinstance(value, dict):
        return {name: listed(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@FEW
@given(
    st.lists(st.tuples(own_ids | sides, sides | st.just([])), min_size=1, max_size=6),
    st.data(),
    st.integers(1, 9),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from([np.int64, np.int32]),
)
def test_collate_lays_out_what_fairseq_does(
    pairs: Any, data: Any, multiple: int, left: tuple[bool, bool], dtype: type[np.integer[Any]]
) -> None:
    """For any rows in any order, empty sides, either padding, multiples and types."""
    numbers = [10 * k for k in range(len(pairs))]
    samples = Samples.of(
        {"src": [pair[0] for pair in pairs], "tgt": [pair[1] for pair in pairs]}, numbers
    )
    rows = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=8))
    made = collate(
        samples,
        rows,
        pad=PAD,
        eos=EOS,
        pad_to_multiple=multiple,
        left_pad_source=left[0],
        left_pad_target=left[1],
        dtype=dtype,
    )
    assert listed(made) == twin(
        [pairs[row] for row in rows], [numbers[row] for row in rows], multiple, left
    )
    tokens = (
        made["target"],
        made["net_input"]["src_tokens"],
        made["net_input"]["prev_output_tokens"],
    )
    assert {array.dtype for array in tokens} == {np.dtype(dtype)}
    assert all(array.flags.c_contiguous and array.flags.writeable for array in tokens)


def test_the_source_is_padded_left_and_the_target_right() -> None:
    """By default, as in translation."""
    made = collate(
        Samples.of({"src": [[5, 2], [2]], "tgt": [[2], [6, 2]]}), [0, 1], pad=PAD, eos=EOS
    )
    assert made["net_input"]["src_tokens"].tolist() == [[5, 2], [1, 2]]
    assert made["target"].tolist() == [[2, 1], [6, 2]]


@FEW
@given(st.lists(sides, min_size=1, max_size=6), st.integers(1, 9))
def test_a_language_model_reads_what_stands_before_each_id(texts: Rows, multiple: int) -> None:
    """One field is its own target; input and target have the same places."""
    made = collate(
        Samples.of({"text": texts}), range(len(texts)), pad=PAD, eos=EOS, pad_to_multiple=multiple
    )
    assert made["net_input"].keys() == {"src_tokens", "src_lengths"}
    assert made["target"].tolist() == padded(texts, multiple, left=False)
    assert made["net_input"]["src_tokens"].tolist() == padded(
        [moved(row) for row in texts], multiple, left=False
    )
    assert made["tgt_mask"].sum(axis=1).tolist() == made["net_input"]["src_lengths"].tolist()


@FEW
@given(st.lists(st.lists(sides, min_size=1, max_size=4), min_size=1, max_size=4), st.integers(0, 3))
def test_packed_rows_hold_their_samples_one_after_the_other(packs: list[Rows], spare: int) -> None:
    """Inputs, targets and positions are those of each sample alone; every segment is one sample, or a row's padding."""
    length = max(sum(map(len, pack)) for pack in packs) + spare
    samples = Samples.of({"text": [row for pack in packs for row in pack]})
    bounds = np.cumsum([0, *map(len, packs)]).tolist()
    rows = [list(range(low, high)) for low, high in pairwise(bounds)]
    made = collate_packed(samples, rows, length=length, pad=PAD, eos=EOS)
    net, starts = made["net_input"], [0]
    for number, pack in enumerate(packs):
        filled = sum(map(len, pack))
        blank = length - filled
        assert made["target"][number].tolist() == [*chain.from_iterable(pack), *[PAD] * blank]
        assert net["src_tokens"][number].tolist() == [
            *chain.from_iterable(map(moved, pack)),
            *[PAD] * blank,
        ]
        assert net["position_ids"][number].tolist() == [
            k for n in [*map(len, pack), blank] for k in range(n)
        ]
        assert made["tgt_mask"][number].tolist() == [True] * filled + [False] * blank
        for n in [*map(len, pack), *[blank] * (blank > 0)]:
            starts.append(starts[-1] + n)
    assert net["cu_seqlens"].tolist() == starts
    assert net["cu_seqlens"].dtype == np.int32
    assert net["max_seqlen"] == max(np.diff(starts))
    assert (made["nsentences"], made["ntokens"]) == (len(samples), int(made["tgt_mask"].sum()))


def tensors(value: Any) -> Any:
    """All values of nested dicts that are no dicts."""
    return (
        [leaf for one in value.values() for leaf in tensors(one)]
        if isinstance(value, dict)
        else [value]
    )


def test_torch_tensors_share_the_memory_of_the_arrays() -> None:
    """What is written to one is read in the other; numbers stay numbers."""
    torch = pytest.importorskip("torch")
    made = collate(Samples.of({"src": [[5, 2]], "tgt": [[2]]}), [0], pad=PAD, eos=EOS)
    shared = to_torch(made)
    for array, tensor in zip(tensors(made), tensors(shared), strict=True):
        if isinstance(array, np.ndarray):
            assert tensor.data_ptr() == array.ctypes.data
            assert tensor.tolist() == array.tolist()
        else:
            assert tensor is array
    assert shared["target"].dtype == torch.int64
    assert shared["src_mask"].dtype == torch.bool
    for step, message in (
        ("low", "give the result of collate or collate_packed"),
        ({"id": np.array(["low"])}, "an array of <U3; give arrays of numbers"),
    ):
        with pytest.raises(VoltError, match=message):
            to_torch(step)


def test_without_torch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the command."""
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingLibraryError, match=r"torch.*pip install 'volt-vocab\[torch\]'"):
        to_torch({})


PAIRS = Samples.of({"src": [[5, 2], [2]], "tgt": [[6, 2], [7]]})
TEXT = Samples.of({"text": [[5, 2], [2], [7, 8, 2]]})


@pytest.mark.parametrize(
    ("error", "message", "make"),
    [
        (
            ConfigError,
            "rows: no sample 2; there are 2, from 0 to 1",
            lambda: collate(PAIRS, [0, 2], pad=1, eos=2),
        ),
        (ConfigError, "rows: no sample -1", lambda: collate(PAIRS, np.array([-1]), pad=1, eos=2)),
        (
            ConfigError,
            "rows is empty; a batch needs one or more",
            lambda: collate(PAIRS, [], pad=1, eos=2),
        ),
        (
            ConfigError,
            "give indices of samples",
            lambda: collate(PAIRS, np.array([0.5]), pad=1, eos=2),
        ),
        (
            ConfigError,
            "give indices of samples",
            lambda: collate(PAIRS, np.array([[0]]), pad=1, eos=2),
        ),
        (
            ConfigError,
            "rows[0] is 0.5 (float); give a whole number",
            lambda: collate(PAIRS, [0.5], pad=1, eos=2),
        ),  # type: ignore[list-item]
        (
            ConfigError,
            "give int64 or int32",
            lambda: collate(PAIRS, [0], pad=1, eos=2, dtype=np.int16),
        ),
        (
            ConfigError,
            "give int64 or int32",
            lambda: collate(PAIRS, [0], pad=1, eos=2, dtype="whole"),
        ),
        (ConfigError, "samples is a list; give a Samples", lambda: collate([], [0], pad=1, eos=2)),  # type: ignore[arg-type]
        (
            ConfigError,
            "a batch has a source and a target, or one field",
            lambda: collate(Samples.of({name: [[2]] for name in "abc"}), [0], pad=1, eos=2),
        ),
        (
            StreamError,
            "line 1 of the stream: field 'tgt' does not end in EOS, the id 2; make samples with eos=True",
            lambda: collate(PAIRS, [0, 1], pad=1, eos=2),
        ),
        (
            ConfigError,
            "packs take samples of one field",
            lambda: collate_packed(PAIRS, [[0]], length=9, pad=1, eos=2),
        ),
        (ConfigError, "packs is empty", lambda: collate_packed(TEXT, [], length=9, pad=1, eos=2)),
        (
            ConfigError,
            "rows is empty",
            lambda: collate_packed(TEXT, [[0], []], length=9, pad=1, eos=2),
        ),
        (
            ConfigError,
            "packs[1] has 4 ids, more than length=3; give it fewer samples",
            lambda: collate_packed(TEXT, [[0], [1, 2]], length=3, pad=1, eos=2),
        ),
    ],
)
def test_what_cannot_be_collated_is_refused(
    error: type[VoltError], message: str, make: Callable[[], object]
) -> None:
    """In one line that says what was found and what to do."""
    with pytest.raises(error) as found:
        make()
    assert message in str(found.value)
    assert "\n" not in str(found.value)
