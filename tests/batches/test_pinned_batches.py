"""Batches, packs, deals and steps that follow from options and seeds, as earlier versions made them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from golden import check, digest, golden
from steps_of_streams import PAIRS, TEXTS, bits, stream_of

from volt.batches import (
    ByPacks,
    ByTokens,
    Layout,
    SampleFormat,
    Samples,
    Steps,
    pack,
    padding_share,
    token_batches,
)

LENGTHS = [(1 + 7 * n % 11, 1 + 5 * n % 13) for n in range(24)]
OPTIONS: dict[str, dict[str, Any]] = {
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


def rows_of(batches: Any) -> str:
    """Return the rows of batches, or of packs, as text."""
    return " | ".join(" ".join(map(str, rows.tolist())) for rows in batches)


def test_batches() -> None:
    """Each option of token_batches gives the rows, in order, the widths, the lists and the padding that it gave."""
    found = {}
    for name, options in OPTIONS.items():
        made = token_batches(LENGTHS, max_tokens=45, **options)
        lists = [made.longest, made.left, made.too_long, made.too_short]
        shares = [round(padding_share(made, LENGTHS, to_longest=one), 4) for one in (False, True)]
        found[name] = [rows_of(made), rows_of(lists), *shares]
    check("batches of tokens", found)


def test_packs_and_deals() -> None:
    """Packs and deals of all seeds are those that they were."""
    sizes = [one for one, _ in LENGTHS] + [40, 0]
    places: dict[str, dict[str, int]] = {
        "default": {},
        "seed": {"seed": 1},
        "epoch": {"epoch": 1},
        "window": {"window": 1},
    }
    found = {}
    for name, place in places.items():
        packs = pack(sizes, 16, on_long="split", **place)
        found[name] = [rows_of(one.rows for one in packs)]
    packs = pack(sizes, 16, on_long="report", shuffle=False)
    found["in order"] = [
        rows_of(one.rows for one in packs),
        rows_of([packs.too_long, packs.empty]),
        packs.padding_share,
    ]
    check("batches in packs", found)


RULES: dict[str, tuple[SampleFormat, ByTokens | ByPacks, dict[str, Any]]] = {
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
def test_steps_and_states(name: str, tmp_path: Path) -> None:
    """Steps have the arrays and totals that they had, and continue from a state that was saved then."""
    form, rule, options = RULES[name]
    steps, other = (
        Steps(stream_of(tmp_path, 80), form, rule, **{"window": 20, **options}) for _ in range(2)
    )
    other.restore(steps.state())
    assert other.state() == steps.state()
    first = digest(repr(bits(steps, 5)).encode())
    lines = [one["n_lines"] for one in steps.state()["stretches"]]
    found = {
        "first": first,
        "lines of stretches": " ".join(map(str, lines)),
        "state": json.dumps(steps.state()),
    }
    found["rest"] = digest(repr(bits(steps)).encode())
    own = {
        name: value
        for name, value in asdict(steps.totals).items()
        if name not in ("seconds", "too_long")
    }
    found["totals"] = " ".join(map(str, own.values()))
    stored = golden(f"batches as steps, {name}", found)
    assert {**found, "state": ""} == {**stored, "state": ""}
    other.restore(json.loads(stored["state"]))
    assert digest(repr(bits(other)).encode()) == found["rest"]


def test_rows_that_packs_lack_are_listed() -> None:
    """Rows without ids are too short, rows beyond a pack too long, and the rest waits for the next window."""
    samples = Samples.of({"text": [[5] * n for n in (5, 0, 40, 8, 7, 1, 0)]})
    rule = ByPacks(length=8, rows=1, on_long="report", shuffle=False)
    for is_last, n_steps, left in ((True, 3, []), (False, 2, [0])):
        made = rule.planned(samples, world=1, is_last=is_last)
        lists = [made.batches.too_short, made.batches.too_long, made.batches.left]
        assert [made.n_steps, *(rows.tolist() for rows in lists)] == [n_steps, [1, 6], [2], left]
        assert sorted([*made.rows_of(made.n_steps).tolist(), *left]) == [0, 3, 4, 5]
