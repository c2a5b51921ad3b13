"""The section `batches` of a configuration: what it says is given on, and each fault is reported with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from volt import Vocabulary
from volt.batches.batching_rules import ByPacks, ByTokens
from volt.batches.collation import Layout
from volt.batches.from_config import read_steps
from volt.errors import ConfigError
from volt.stream.config.batches import Batches
from volt.stream.config.configuration import load_config, parse_config

ONE = "sources: {one: {path: a.tsv}}\nbatches:\n"
TWO = ONE + "  fields: {src: v.volt, tgt: v.volt}\n"
LEFT_OUT = "cannot be used with pack, whose rows have one length; remove one"
FULL = (
    TWO.replace("src: v.volt", "src: {vocabulary: v.volt, prefix: [lo]}")
    + """\
  holds: pieces
  bos: true
  eos: false
  max_length: 100
  beyond: truncate
  unknown: refuse
  max_tokens: 4096
  max_sentences: 256
  multiple: 4
  noise: 0.1
  longest: 80
  shortest: 2
  buckets: [16, 80]
  on_long: report
  window: epoch
  pad: </s>
  pad_to_multiple: 8
  left_pad_source: false
  left_pad_target: true
  dtype: int32
"""
)


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Lines of two fields, two vocabularies, and one that is damaged."""
    (tmp_path / "a.tsv").write_text("lo w\tlo\nw\tw\n")
    Vocabulary((("l", "o"),), ("l", "o", "w", "lo")).save(tmp_path / "v.volt")
    Vocabulary((), ("o", "l")).save(tmp_path / "w.volt")
    (tmp_path / "bad.volt").write_text((tmp_path / "v.volt").read_text()[:40])
    return tmp_path


def parts_of(folder: Path, text: str, **options: Any) -> Any:
    """What a configuration in a folder says."""
    (folder / "stream.yaml").write_text(text)
    return read_steps(folder / "stream.yaml", **options)


LATE: dict[str, tuple[str, int, str]] = {
    "missing": (
        ONE + "  fields:\n    src: no.volt\n  max_tokens: 9\n",
        4,
        "batches.fields.src: .*/no.volt: no such",
    ),
    "missing, in full": (
        ONE + "  fields:\n    src:\n      vocabulary: no.volt\n  max_tokens: 9\n",
        5,
        "batches.fields.src.vocabulary: .*/no.volt: no such file; check the path",
    ),
    "damaged": (
        ONE + "  fields:\n    src: bad.volt\n  max_tokens: 9\n",
        4,
        "batches.fields.src: .*/bad.volt",
    ),
    "no token": (
        ONE
        + "  fields:\n    src:\n      vocabulary: v.volt\n      prefix: [<2en>]\n  max_tokens: 9\n",
        6,
        "batches.fields.src.prefix: no token '<2en>' in the vocabulary of src; add it",
    ),
    "too short": (
        TWO.replace("  fields", "  max_length: 1\n  fields") + "  max_tokens: 9\n",
        3,
        "batches.max_length: max_length is 1, and .* of src take 1; give 2 or more",
    ),
    "no padding": (
        TWO + "  max_tokens: 9\n  pad: <hole>\n",
        5,
        "batches.pad: no token '<hole>' in the vocabulary of",
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_what_only_a_vocabulary_knows_has_its_line_too(folder: Path, name: str) -> None:
    """Files that are missing or damaged, tokens that a vocabulary lacks, and what does not fit it."""
    text, line, message = LATE[name]
    with pytest.raises(ConfigError, match=rf"^{folder}/stream\.yaml:{line}: {message}"):
        parts_of(folder, text)


def test_each_key_is_passed_to_its_class(folder: Path) -> None:
    """All keys of the section become arguments, two of them under another name; paths are relative to the file."""
    parts = parts_of(folder, FULL)
    samples = {name: getattr(parts.samples, name) for name in ("holds", "bos", "eos", "max_length")}
    assert samples == {"holds": "pieces", "bos": True, "eos": False, "max_length": 100}
    assert (parts.samples.beyond, parts.samples.unknown) == ("truncate", "refuse")
    assert parts.samples.prefix == {"src": ["lo"], "tgt": []}
    assert parts.batches == ByTokens(
        max_tokens=4096,
        max_sentences=256,
        multiple=4,
        noise=0.1,
        max_length=80,
        min_length=2,
        buckets=(16, 80),
        on_long="report",
    )
    assert parts.layout == Layout(
        pad=dict.fromkeys(("src", "tgt"), parts.samples.vocabularies["src"].ids["</s>"]),
        pad_to_multiple=8,
        left_pad_source=False,
        left_pad_target=True,
        dtype="int32",
    )
    assert parts.window == "epoch"
    packs = parts_of(folder, ONE + "  fields: {text: v.volt}\n  pack: {length: 8, rows: 2}\n")
    assert packs.batches == ByPacks(length=8, rows=2)


def test_a_right_section_makes_samples_and_batches(folder: Path) -> None:
    """A vocabulary that is named twice is loaded once; the options of a stream are taken, too."""
    parts = parts_of(folder, TWO + "  max_tokens: 9\n  window: 5\n", seed=7, n_workers=1)
    with parts.stream:
        assert (parts.stream.seed, parts.stream.n_workers, parts.window) == (7, 1, 5)
    assert parts.samples.vocabularies["src"] is parts.samples.vocabularies["tgt"]
    assert parts.batches == ByTokens(max_tokens=9)
    other = parts_of(folder, TWO.replace("tgt: v", "tgt: w") + "  pad: o\n  max_tokens: 9\n")
    assert len(set(other.layout.pad.values())) == 2
    assert other.vocabularies == (str(folder / "v.volt"), str(folder / "w.volt"))
    assert load_config(folder / "stream.yaml").named[-2:] == (
        str(folder / "v.volt"),
        str(folder / "w.volt"),
    )
    assert parts_of(folder, TWO + "  pad: <unk>\n  max_tokens: 9\n").layout.pad == {
        "src": 0,
        "tgt": 0,
    }


def test_a_vocabulary_may_be_the_prefix_of_a_model(folder: Path) -> None:
    """NAME stands for NAME.model, as the trainer of SentencePiece names its files."""
    (folder / "m.model").touch()
    (folder / "stream.yaml").write_text(ONE + "  fields:\n    src: m\n  max_tokens: 9\n")
    assert load_config(folder / "stream.yaml").named[-1] == str(folder / "m")


def test_a_file_without_the_section_is_refused(folder: Path) -> None:
    """With what to write; and a rank that the world has not, before anything is read."""
    with pytest.raises(
        ConfigError,
        match=r"stream\.yaml: key 'batches' is missing; add it, as in batches: \{fields",
    ):
        parts_of(folder, "sources: {one: {path: a.tsv}}\n")
    with pytest.raises(ConfigError, match="rank 2 of world 2: give a rank"):
        parts_of(folder, "not YAML: [", rank=2, world=2)
