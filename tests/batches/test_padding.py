"""Padding of two vocabularies: each field is filled with its own id, and the target's EOS is what counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.batches import Samples, collate, collate_packed
from volt.errors import ConfigError

FEW = settings(deadline=None, max_examples=examples(40))
Pairs = list[tuple[list[int], list[int]]]
own_ids = st.lists(st.integers(0, 9), max_size=6)
pairs_of = st.lists(st.tuples(own_ids, own_ids), min_size=1, max_size=5)
fill = st.integers(0, 99)
PAIRS = Samples.of({"src": [[5, 2], [2, 2, 2]], "tgt": [[6, 7, 3], [3]]})
TEXT = Samples.of({"text": [[5, 2], [2]]})


@FEW
@given(pairs_of, fill, fill, st.integers(0, 9), st.booleans())
def test_each_field_is_filled_with_its_own_id(
    pairs: Pairs, src: int, tgt: int, eos: int, left: bool
) -> None:
    """Arrays are those of one id, but where the masks are false, and input starts with the target's EOS."""
    samples = Samples.of(
        {"src": [pair[0] for pair in pairs], "tgt": [[*pair[1], eos] for pair in pairs]}
    )
    rows = range(len(pairs))
    sides: dict[str, Any] = {"left_pad_source": left, "left_pad_target": not left}
    made = collate(samples, rows, pad={"src": src, "tgt": tgt}, eos={"tgt": eos}, **sides)
    alike = collate(samples, rows, pad=0, eos=eos, **sides)
    for name, mask, pad in (
        ("src_tokens", "src_mask", src),
        ("prev_output_tokens", "tgt_mask", tgt),
    ):
        assert made[mask].tolist() == alike[mask].tolist()
        wanted = np.where(alike[mask], alike["net_input"][name], pad)
        assert made["net_input"][name].tolist() == wanted.tolist()
    assert made["target"].tolist() == np.where(alike["tgt_mask"], alike["target"], tgt).tolist()


def test_one_field_may_be_named_too() -> None:
    """A language model has one vocabulary, whose ids are given alone or by the name of its field."""
    made: list[Callable[..., Any]] = [
        lambda **ids: collate(TEXT, [0, 1], **ids),
        lambda **ids: collate_packed(TEXT, [[0], [1]], length=4, **ids),
    ]
    for make in made:
        named, alone = make(pad={"text": 7}, eos={"text": 2}), make(pad=7, eos=2)
        assert named["target"].tolist() == alone["target"].tolist()
        assert (
            named["net_input"]["src_tokens"].tolist() == alone["net_input"]["src_tokens"].tolist()
        )


@pytest.mark.parametrize(
    ("message", "make"),
    [
        (
            "pad lacks field 'src'; give one number for all, or one for each of src, tgt",
            lambda: collate(PAIRS, [0], pad={"tgt": 1}, eos=3),
        ),
        (
            "pad: no field 'de' in these samples; choose from src, tgt",
            lambda: collate(PAIRS, [0], pad={"de": 1}, eos=3),
        ),
        ("eos lacks field 'tgt'", lambda: collate(PAIRS, [0], pad=1, eos={"src": 2})),
        ("pad is None; give a whole number", lambda: collate(PAIRS, [0], pad=None, eos=3)),  # type: ignore[arg-type]
        (
            "pad: no field 'src' in these",
            lambda: collate_packed(TEXT, [[0]], length=4, pad={"src": 1}, eos=2),
        ),
        (
            "eos: no field 'src' in these",
            lambda: collate_packed(TEXT, [[0]], length=4, pad=1, eos={"src": 1}),
        ),
    ],
)
def test_ids_of_other_fields_are_refused(message: str, make: Callable[[], object]) -> None:
    """One line that says which field lacks its id, and what to give."""
    with pytest.raises(ConfigError) as found:
        make()
    assert message in str(found.value)
