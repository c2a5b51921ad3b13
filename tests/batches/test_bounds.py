"""No array of a step holds more than max_tokens places, padding included, whatever the options are."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from steps_of_streams import PAIRS, TEXTS, stream_of
from streams import write_lines

from volt import Vocabulary
from volt.batches import ByTokens, Layout, Steps, token_batches
from volt.errors import ConfigError, StreamError

N = 60  # pairs, of up to 21 ids
widths = st.integers(1, 40)
rules = st.fixed_dictionaries(
    {"multiple": st.integers(1, 9)},
    optional={
        "max_sentences": st.integers(1, 20),
        "sort": st.sampled_from(["length", "sides"]),
        "max_length": st.integers(1, 25),
        "min_length": st.just(1),
        "shuffle": st.booleans(),
        "buckets": st.sets(st.integers(1, 40), min_size=1, max_size=4).map(sorted),
        "noise": st.floats(0, 1),
    },
)


def arrays_of(step: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """Return the arrays of ids and masks, which have a row for each sample."""
    found = {**step, **step["net_input"]}.values()
    return [array for array in found if isinstance(array, np.ndarray) and array.ndim == 2]


@settings(deadline=None, max_examples=examples(200))
@given(rules, st.integers(20, 400), widths, st.integers(1, 3), st.integers(5, 80), st.booleans())
def test_arrays_stay_within_max_tokens(
    options: dict[str, Any], most: int, padded: int, world: int, window: int, alone: bool
) -> None:
    """Steps of one or two fields, in all ranks: rows times width at most, widths are multiples, and no line is lost."""
    with tempfile.TemporaryDirectory() as folder:
        found, totals = list[int](), None
        for rank in range(world):
            try:
                steps = Steps(
                    stream_of(Path(folder), N),
                    TEXTS if alone else PAIRS,
                    ByTokens(max_tokens=most, on_long="report", **options),
                    window=window,
                    rank=rank,
                    world=world,
                    layout=Layout(pad_to_multiple=padded),
                    ahead=False,
                )
            except ConfigError:
                fits = most >= padded and max(options.get("buckets", [0])) <= most - most % padded
                assert not fits or (
                    options.get("noise")
                    and (options.get("sort") == "sides" or "shuffle" in options)
                )
                return
            for step in steps:
                found += step["id"].tolist()
                for array in arrays_of(step):
                    assert array.size <= most
                    assert array.shape[1] % padded == 0
            totals = steps.totals
        assert totals is not None
        assert (
            len(found)
            == len(set(found))
            == N - totals.n_too_long - totals.n_too_short - totals.n_left
        )


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(20, 300), widths, st.lists(st.integers(1, 19), min_size=1, max_size=30))
def test_a_configuration_bounds_its_arrays(most: int, padded: int, lengths: list[int]) -> None:
    """The steps of a YAML file have no larger arrays; what cannot fit is refused with the line of its key."""
    with tempfile.TemporaryDirectory() as folder:
        Vocabulary((), ("w</w>",)).save(Path(folder, "v.volt"))
        write_lines(Path(folder, "a.tsv"), [" ".join("w" * n) for n in lengths])
        Path(folder, "s.yaml").write_text(
            "sources: {a: {path: a.tsv, epochs: 1}}\nbatches:\n  fields: {text: v.volt}\n  pad: </s>\n"
            f"  max_tokens: {most}\n  on_long: report\n  pad_to_multiple: {padded}\n"
        )
        if padded > most:
            with pytest.raises(
                ConfigError, match=r"s.yaml:7: batches.pad_to_multiple: .*more than max_tokens"
            ):
                Steps.from_config(Path(folder, "s.yaml"))
            return
        with Steps.from_config(Path(folder, "s.yaml")) as steps:
            sizes = [array.size for step in steps for array in arrays_of(step)]
        assert all(size <= most for size in sizes)
        assert steps.totals.n_samples + steps.totals.n_too_long == len(lengths)


def test_a_sample_too_long_for_its_padding_is_named(tmp_path: Path) -> None:
    """One that fits alone, but not with its padding, is refused like any that is too long, and the error says why."""
    steps = Steps(
        stream_of(tmp_path, N),
        PAIRS,
        ByTokens(max_tokens=28),
        layout=Layout(pad_to_multiple=16),
        ahead=False,
    )
    with pytest.raises(
        StreamError, match=r"has \d+ ids; max_tokens with pad_to_multiple=16 is 16; raise it"
    ):
        list(steps)
    with pytest.raises(
        StreamError, match=r"has 20 tokens; max_tokens with pad_to_multiple=16 is 16"
    ):
        token_batches([3, 20], max_tokens=28, pad_to_multiple=16)
    with pytest.raises(
        ConfigError, match=r"pad_to_multiple is 64, more than max_tokens, 28: no row fits; lower it"
    ):
        Steps(
            stream_of(tmp_path, N),
            PAIRS,
            ByTokens(max_tokens=28),
            layout=Layout(pad_to_multiple=64),
        )
    with pytest.raises(
        ConfigError, match=r"the last of buckets is 20, padded to 32, more than max_tokens, 28"
    ):
        token_batches([3], max_tokens=28, pad_to_multiple=16, buckets=[8, 20])
