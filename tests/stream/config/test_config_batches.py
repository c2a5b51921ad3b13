"""The section `batches` of a configuration: what it says is given on, and each fault is reported with its line."""

from __future__ import annotations

import json

import pytest

from volt.errors import ConfigError
from volt.stream.config.batches import Batches
from volt.stream.config.configuration import parse_config

ONE = "sources: {one: {path: a.tsv}}\nbatches:\n"
TWO = ONE + "  fields: {src: v.volt, tgt: v.volt}\n"
LEFT_OUT = "cannot be used with pack, whose rows have one length; remove one"


def error_text(text: str) -> Batches:
    """What the section of a configuration says."""
    found = parse_config(text, path="data/stream.yaml").batches
    assert found is not None
    return found


@pytest.mark.parametrize("key", ["length", "rows"])
def test_packs_have_limits(key: str) -> None:
    """The largest value of each key is accepted; one more is refused with its key."""
    sizes, most = {"length": 8, "rows": 2}, 1 << 24
    start = ONE + "  fields: {text: v.volt}\n  pack: "
    pack = error_text(start + json.dumps({**sizes, key: most})).options.pack
    assert getattr(pack, key) == most
    with pytest.raises(ConfigError, match=rf"batches\.pack\.{key}: .*16,?777,?216"):
        error_text(start + json.dumps({**sizes, key: most + 1}))


FAULTS: dict[str, tuple[str, int, str]] = {
    "nothing": (ONE.replace("batches:", "batches: {}"), 2, "batches: key 'fields' is missing"),
    "no field": (
        ONE + "  fields: {}\n  max_tokens: 9\n",
        3,
        "batches.fields: is empty; give at least one",
    ),
    "neither way": (
        TWO,
        2,
        "batches: key 'max_tokens' is missing; give it, or pack: {length: N, rows: N}",
    ),
    "both ways": (
        ONE + "  fields: {a: v.volt}\n  max_tokens: 9\n  pack: {length: 8, rows: 2}\n",
        4,
        LEFT_OUT,
    ),
    "of the other way": (
        ONE + "  fields: {a: v.volt}\n  noise: 0.1\n  pack: {length: 8, rows: 2}\n",
        4,
        LEFT_OUT,
    ),
    "padding of packs": (
        ONE + "  fields: {a: v.volt}\n  left_pad_target: true\n  pack: {length: 8, rows: 2}\n",
        4,
        LEFT_OUT,
    ),
    "on_long of packs": (
        ONE + "  fields: {a: v.volt}\n  pack: {length: 8, rows: 2}\n  on_long: report\n",
        5,
        "on_long: cannot be used with pack, whose rows have one length; remove one, or write it into pack",
    ),
    "two fields in packs": (
        TWO + "  pack: {length: 8, rows: 2}\n",
        3,
        "batches.fields: src, tgt are 2 fields, but packs contain one",
    ),
    "three fields": (
        ONE + "  fields: {a: v.volt, b: v.volt, c: v.volt}\n  max_tokens: 9\n",
        3,
        "a, b, c are 3 fields, but batches",
    ),
    "no name": (
        ONE + "  fields: {'2': v.volt}\n  max_tokens: 9\n",
        3,
        "fields.2: '2' is not a name for a field; give",
    ),
    "no path": (
        ONE + "  fields: {a: ''}\n  max_tokens: 9\n",
        3,
        "batches.fields.a: is empty; name a file",
    ),
    "a number": (
        ONE + "  fields: {a: 3}\n  max_tokens: 9\n",
        3,
        "batches.fields.a: should be a valid string, not 3",
    ),
    "no vocabulary": (
        ONE + "  fields: {a: {prefix: [x]}}\n  max_tokens: 9\n",
        3,
        "key 'vocabulary' is missing",
    ),
    "unknown key of a field": (
        ONE + "  fields:\n    a: {vocabulary: v, prefx: []}\n",
        4,
        "did you mean prefix?",
    ),
    "unknown key": (
        TWO + "  max_token: 9\n",
        4,
        "batches.max_token: unknown key; did you mean max_tokens?",
    ),
    "unknown key of a pack": (
        TWO + "  pack: {size: 9}\n",
        4,
        "batches.pack.size: unknown key; choose from length",
    ),
    "a window in words": (
        TWO + "  max_tokens: 9\n  window: all\n",
        5,
        "window: should be 'epoch', not 'all'",
    ),
    "a window of halves": (
        TWO + "  max_tokens: 9\n  window: 1.5\n",
        5,
        "window: should be a valid integer",
    ),
    "truncate what": (
        TWO + "  max_tokens: 9\n  beyond: truncate\n",
        5,
        "beyond: needs max_length, beyond which",
    ),
    "noise of sides": (
        TWO + "  max_tokens: 9\n  sort: sides\n  noise: 0.1\n",
        6,
        "noise: cannot be used with sort",
    ),
    "noise in order": (
        TWO + "  max_tokens: 9\n  noise: 0.1\n  shuffle: false\n",
        5,
        "noise: is random, but shuffle",
    ),
    "nothing between": (
        TWO + "  max_tokens: 9\n  longest: 5\n  shortest: 6\n",
        6,
        "shortest: is 6, more than longest, 5; lower",
    ),
    "nothing fits": (
        TWO + "  max_tokens: 9\n  shortest: 10\n",
        5,
        "shortest: is 10, more than max_tokens, 9; low",
    ),
    "buckets that fall": (
        TWO + "  max_tokens: 9\n  buckets: [3, 3]\n",
        5,
        "batches.buckets[2]: is 3, after 3; give",
    ),
    "a bucket too large": (
        TWO + "  max_tokens: 9\n  buckets: [3, 5, 10]\n",
        5,
        "buckets: the last is 10, above max",
    ),
    "no bucket": (
        TWO + "  max_tokens: 9\n  buckets: []\n",
        5,
        "batches.buckets: is empty; give at least one",
    ),
    "a source that is none": (
        ONE + "  fields: {a: v.volt}\n  max_tokens: 9\n  left_pad_source: false\n",
        5,
        "works only with two fields",
    ),
    "another order": (
        "sources: {one: {pair: {src: a, tgt: b}}}\nbatches: {fields: {tgt: v.volt, src: v.volt}, max_tokens: 9}\n",
        2,
        "batches.fields: source 'one' has the order src, tgt; use this order",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_reported_with_its_line(name: str) -> None:
    """File, line and key, what is wrong, and what to do."""
    text, line, message = FAULTS[name]
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    [found] = [one for one in str(caught.value).split("\n") if message in one]
    assert found.startswith(f"stream.yaml:{line}: ")


MOVING = "weight: {points: [[0, 1], [9, 2]]}"
EPOCHS: list[tuple[list[str], str]] = [
    ([MOVING], ""),
    (["epochs: 1", f"epochs: 2, {MOVING}"], ""),
    (["weight: 2", "weight: 1"], ""),
    (
        ["weight: 2", MOVING],
        "is epoch, but the weight of s1 changes, so there is no epoch; give a number of samples",
    ),
    (
        ["epochs: 1", "weight: 1"],
        "is epoch, but some sources end and some do not, so there is no epoch; give a",
    ),
    (["epochs: 1", MOVING], "is epoch, but some sources end and some do not"),
]


@pytest.mark.parametrize(("sources", "message"), EPOCHS)
def test_an_epoch_of_several_sources(sources: list[str], message: str) -> None:
    """A window may be an epoch of one source; of several if all end, or if none does and their weights stay."""
    listed = ", ".join(
        f"s{number}: {{path: a.tsv, {options}}}" for number, options in enumerate(sources)
    )
    text = (
        f"sources: {{{listed}}}\nbatches: {{fields: {{a: v.volt}}, max_tokens: 9, window: epoch}}"
    )
    if not message:
        assert error_text(text).options.window == "epoch"
        return
    with pytest.raises(ConfigError, match=f"^stream.yaml:2: batches.window: {message}"):
        parse_config(text)


@pytest.mark.parametrize(
    "options",
    [
        "max_tokens: 9, buckets: [3, 9]",
        "max_tokens: 9, shortest: 9",
        "max_tokens: 9, longest: 5, shortest: 5",
        "max_tokens: 9, beyond: truncate, max_length: 3",
        "max_tokens: 9, noise: 1",
        "max_tokens: 1, noise: 0.0, sort: sides",
        "max_tokens: 9, shuffle: false, sort: sides",
        "pack: {length: 8, rows: 2}, shuffle: false",
        "max_tokens: 9, left_pad_target: true",
    ],
)
def test_options_that_fit_are_accepted(options: str) -> None:
    """Values may be equal where one must not be above the other, and an option that has no effect is no fault."""
    assert error_text(
        f"sources: {{one: {{path: a.tsv}}}}\nbatches: {{fields: {{a: v.volt}}, {options}}}"
    )


def test_all_faults_are_reported_at_once() -> None:
    """Those of the section beside those of the sources."""
    text = "sources: {one: {path: a.tsv, transforms: [length: {min: 3, max: 2}]}}\nbatches:\n"
    with pytest.raises(ConfigError) as caught:
        parse_config(text + "  fields: {src: v.volt}\n  beyond: truncate\n")
    assert [line.split(": ")[0] for line in str(caught.value).split("\n")] == [
        "stream.yaml:1",
        "stream.yaml:2",
        "stream.yaml:4",
    ]
