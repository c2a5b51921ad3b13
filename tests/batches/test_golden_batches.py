"""Golden values: batches, packs and steps of all options and seeds equal those of earlier versions."""

import json
from dataclasses import asdict

import pytest
from support.golden import check, digest, golden
from support.steps_of_streams import PAIRS, TEXTS, bits, stream_of

from volt.batches import (
    ByPacks,
    ByTokens,
    Layout,
    Steps,
    pack,
    padding_share,
    token_batches,
)

LENGTHS = [(1 + 7 * n % 11, 1 + 5 * n % 13) for n in range(24)]
OPTIONS = {
    "default": {},
    "seed": {"seed": 1},
    "epoch": {"epoch": 1},
    "window": {"window": 1},
    "noise": {"noise": 0.3},
    "other noise": {"noise": 0.3, "seed": 1},
    "in order": {"shuffle": False},
    "sides": {"sort": "sides"},
    "multiple": {"multiple": 3},
    "ranks": {"world": 3},
    "sentences": {"max_sentences": 2},
    "padded": {"pad_to_multiple": 5},
    "buckets": {"buckets": [4, 9, 13]},
    "lengths": {"min_length": 4, "max_length": 10, "on_long": "report"},
}


def rows_of(batches):
    """Return the rows of batches, or of packs, as text."""
    return " | ".join(" ".join(map(str, rows.tolist())) for rows in batches)


def test_token_batches_equal_those_of_earlier_versions():
    """Rows, widths, lists and padding of `token_batches` equal the golden values, for each
    option."""
    values = {}
    for name, options in OPTIONS.items():
        batches = token_batches(LENGTHS, max_tokens=45, **options)
        others = [batches.longest, batches.left, batches.too_long, batches.too_short]
        shares = [padding_share(batches, LENGTHS, to_longest=is_one) for is_one in (False, True)]
        rounded = [round(share, 4) for share in shares]
        values[name] = [rows_of(batches), rows_of(others), *rounded]
    check("batches of tokens", values)


def test_packs_equal_those_of_earlier_versions():
    """The packs of each seed, and the packs without shuffle, equal the golden values."""
    sizes = [length for length, _ in LENGTHS] + [40, 0]
    values = {}
    for name in ("default", "seed", "epoch", "window"):
        packs = pack(sizes, 16, on_long="split", **OPTIONS[name])
        values[name] = [rows_of(one.rows for one in packs)]
    packs = pack(sizes, 16, on_long="report", shuffle=False)
    rows = rows_of(one.rows for one in packs)
    values["in order"] = [rows, rows_of([packs.too_long, packs.empty]), packs.padding_share]
    check("batches in packs", values)


RULES = {
    "tokens": (PAIRS, ByTokens(max_tokens=64), {"world": 2}),
    "tokens of few lines": (
        PAIRS,
        ByTokens(max_tokens=64, max_length=18, on_long="report"),
        {"window": 3, "world": 2},
    ),
    "noise": (
        PAIRS,
        ByTokens(max_tokens=64, noise=0.2, buckets=(8, 16, 21)),
        {"layout": Layout(pad_to_multiple=4), "world": 2, "rank": 1},
    ),
    "layout": (PAIRS, ByTokens(max_tokens=64), {"layout": Layout(7, False, True, 8, "int32")}),
    "one text": (TEXTS, ByTokens(max_tokens=64), {}),
    "packs": (TEXTS, ByPacks(length=24, rows=2), {"world": 2, "rank": 1}),
    "packs of few lines": (TEXTS, ByPacks(length=18, rows=2, on_long="report"), {"window": 3}),
    "split": (
        TEXTS,
        ByPacks(length=12, rows=3, on_long="split"),
        {"layout": Layout(dtype="int32")},
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_steps_and_states_equal_those_of_earlier_versions(name, tmp_path):
    """Arrays and totals of `Steps` equal the golden values, and steps continue from a state that an
    earlier version saved."""
    form, rule, options = RULES[name]
    steps, other = (
        Steps(stream_of(tmp_path, 80), form, rule, **{"window": 20, **options}) for _ in range(2)
    )
    other.restore(steps.state())
    assert other.state() == steps.state()
    first = digest(repr(bits(steps, 5)).encode())
    state = steps.state()
    values = {
        "first": first,
        "lines of stretches": " ".join(str(stretch["n_lines"]) for stretch in state["stretches"]),
        "state": json.dumps(state),
        "rest": digest(repr(bits(steps)).encode()),
    }
    totals = asdict(steps.totals)
    del totals["seconds"], totals["too_long"]
    values["totals"] = " ".join(map(str, totals.values()))
    stored = golden(f"batches as steps, {name}", values)
    assert {**values, "state": ""} == {**stored, "state": ""}
    other.restore(json.loads(stored["state"]))
    assert digest(repr(bits(other)).encode()) == values["rest"]
