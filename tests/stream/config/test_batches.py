"""The section `batches` of a configuration: limits, and options that go together."""

import json

import pytest
from support.configurations import parse_config

from volt.errors import ConfigError

ONE = "sources: {one: {path: a.tsv}}\nbatches:\n"


def section_of(text):
    """Return the section of a configuration."""
    section = parse_config(text, path="data/stream.yaml").batches
    assert section is not None
    return section


@pytest.mark.parametrize("key", ["length", "rows"])
def test_packs_have_limits(key):
    """The section `batches` accepts the largest size of a pack, and refuses one more with its key."""
    sizes = {"length": 8, "rows": 2}
    most = 1 << 24
    start = ONE + "  fields: {text: v.volt}\n  pack: "
    pack = section_of(start + json.dumps({**sizes, key: most})).options.pack
    assert getattr(pack, key) == most
    with pytest.raises(ConfigError, match=rf"batches\.pack\.{key}: .*16,?777,?216"):
        section_of(start + json.dumps({**sizes, key: most + 1}))


MOVING = "weight: {points: [[0, 1], [9, 2]]}"
EPOCHS = [
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
def test_an_epoch_of_several_sources(sources, message):
    """The section `batches` accepts window: epoch for several sources if all end, or if none ends
    and all weights are constant."""
    listed = ", ".join(
        f"s{number}: {{path: a.tsv, {options}}}" for number, options in enumerate(sources)
    )
    text = (
        f"sources: {{{listed}}}\nbatches: {{fields: {{a: v.volt}}, max_tokens: 9, window: epoch}}"
    )
    if not message:
        assert section_of(text).options.window == "epoch"
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
def test_options_that_fit_are_accepted(options):
    """The section `batches` accepts equal limits, and options that have no effect."""
    assert section_of(
        f"sources: {{one: {{path: a.tsv}}}}\nbatches: {{fields: {{a: v.volt}}, {options}}}"
    )
