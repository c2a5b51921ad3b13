"""Configurations of the dynamicdata loader are converted; each key that differs has a note."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.configurations import parse_config
from support.drawn import examples

from volt.errors import ConfigError
from volt.stream.config.dynamicdata import PARAMETERS, imported
from volt.stream.config.json_schema import transform_schema
from volt.stream.config.yaml_document import parse_yaml
from volt.stream.mixing.schedule import Schedule

OLD = """\
meta:
  shard:
    rootdir: shards
    share_vocab: true
    shard_size: 100000
    initial_shards: 10
    compress: true
    pretokenize: true
    predetokenize: false
  train:
    name: ural
    vocab_path: em.prune
    segmentation_model: em.prune
    mixing_weight_schedule: [40000, 160000]
    reverse: false
    drop_temperature: 2.5
    reorder_max_dist: 3
    switchout_temperature: 2.0
    seg_n_samples: 5
    seg_theta: 0.5
    max_len: 100
tasks:
  enet:
    type: para
    split: train
    weight: [10, 20.5, 80]
    n_shards: 4
    meta: {src_lang: en, trg_lang: et, extra_prefix: "<BT>"}
    transforms: [morfessor_em, lang_prefix_both, filter_too_long]
  mono:
    type: mono
    weight: [1, 1, 0]
    transforms: [duplicate_mono, reorder, drop, switchout, sentencepiece]
  taboo: {type: mono, share_inputs: mono, weight: 2, n_shards: 3, transforms: [deterministic_segmentation]}
  valid: {type: para, split: valid, weight: 1}
inputs:
  wmt: {src: a.en, trg: /data/a.et, task: enet, size: auto}
  more: {src: b.en, tgt: b.et, task: enet}
  ted: {mono: ted.fi, task: mono, size: 1234}
  dev: {src: dev.en, tgt: dev.et, task: valid}
"""


def test_all_values_are_converted():
    """imported converts tasks, inputs, weights, languages and parameters of a dynamicdata
    configuration."""
    new = imported(OLD, path="old.yaml", batch_samples=64).text
    values = parse_yaml(new, path="new.yaml").value
    assert values["schedule"] == {
        "points": [40000, 160000],
        "unit": "batches",
        "batch_samples": 64,
    }
    assert values["defaults"] == {
        "drop": {"temperature": 2.5},
        "reorder": {"max_dist": 3},
        "switchout": {"temperature": 2, "vocabulary": "em.prune"},
        "filter_too_long": {"max_len": 100},
        "morfessor_em": {"n_samples": 5, "theta": 0.5, "model": "em.prune"},
        "sentencepiece": {"nbest": 5, "theta": 0.5, "model": "em.prune"},
        "deterministic_segmentation": {"table": "em.prune"},
    }
    assert values["tasks"] == {
        "enet": {
            "type": "para",
            "weight": [10, 20.5, 80],
            "n_shards": 4,
            "inputs": {
                "wmt": {"src": "a.en", "tgt": "/data/a.et"},
                "more": {"src": "b.en", "tgt": "b.et"},
            },
            "src_lang": "en",
            "tgt_lang": "et",
            "extra_prefix": "<BT>",
            "transforms": ["morfessor_em", "lang_prefix_both", "filter_too_long"],
        },
        "mono": {
            "type": "mono",
            "inputs": {"ted": {"mono": "ted.fi"}},
            "weight": [1, 1, 0],
            "transforms": ["duplicate_mono", "reorder", "drop", "switchout", "sentencepiece"],
        },
        "taboo": {
            "type": "mono",
            "share_inputs": "mono",
            "weight": 2,
            "transforms": ["deterministic_segmentation"],
        },
        "valid": {
            "type": "para",
            "split": "valid",
            "inputs": {"dev": {"src": "dev.en", "tgt": "dev.et"}},
        },
    }


def without_models(old):
    """Return the configuration without transforms that read a model or a vocabulary."""
    for name in ("morfessor_em, ", ", switchout", ", sentencepiece", "deterministic_segmentation"):
        assert name in old
        old = old.replace(name, "")
    return old


def test_the_new_configuration_is_valid():
    """imported returns a valid configuration, whose transforms have the original's parameters."""
    new = imported(without_models(OLD), path="old.yaml").text
    config = parse_config(new, path="new.yaml")
    assert [source.weight for source in config.sources][:2] == [
        Schedule(((0, 10.0), (2560000, 20.5), (10240000, 80.0))),
        Schedule(((0, 1.0), (2560000, 1.0), (10240000, 0.0))),
    ]
    assert getattr(config.tasks[1].transforms[2], "temperature", None) == 2.5


@pytest.mark.parametrize(
    ("weight", "expected"), [("[2]", 2), ("[0]", 0), ("0", 0), ("0.0", 0), ("0.5", 0.5), ("7", 7)]
)
def test_a_single_weight_is_converted(weight, expected):
    """imported accepts a number as a task's weight, also 0, and, without a schedule, a list of one
    number."""
    old = f"tasks: {{a: {{type: mono, weight: {weight}}}, b: {{type: mono}}}}\n"
    text = imported(
        old + "inputs: {i: {mono: a.en, task: a}, j: {mono: b.en, task: b}}", path="o"
    ).text
    assert [source.weight for source in parse_config(text, path="new.yaml").sources] == [
        expected,
        1,
    ]


def test_each_key_that_differs_has_a_note():
    """imported notes every key that it omits or whose meaning differs, also in comments of the new
    file."""
    result = imported(OLD, path="old.yaml")
    keys = {note.partition(": ")[0] for note in result.notes}
    shard = ("rootdir", "share_vocab", "shard_size", "initial_shards", "compress", "pretokenize")
    assert keys == {
        *(f"meta.shard.{key}" for key in shard),
        *(f"meta.train.{key}" for key in ("name", "vocab_path", "mixing_weight_schedule")),
        "tasks.taboo.n_shards",
        "tasks.valid.weight",
        "inputs.ted.size",
    }
    assert result.text.startswith("".join(f"# {note}\n" for note in result.notes))
    assert any("of 64 samples, which is a guess" in note for note in result.notes)
    assert not any("guess" in note for note in imported(OLD, path="o", batch_samples=32).notes)
    lonely = imported(OLD.replace("max_len", "wb_noise_temperature"), path="o").notes
    assert (
        "meta.train.wb_noise_temperature: no transform of a task uses this parameter; it is omitted"
        in lonely
    )


def test_reversed_pairs_change_sides():
    """imported swaps the files of parallel tasks if the original has `reverse`, and notes it."""
    result = imported(OLD.replace("reverse: false", "reverse: true"), path="old.yaml")
    tasks = parse_yaml(result.text, path="n").value["tasks"]
    assert tasks["enet"]["inputs"]["wmt"] == {"src": "/data/a.et", "tgt": "a.en"}
    assert tasks["mono"]["inputs"]["ted"] == {"mono": "ted.fi"}
    assert any(note.startswith("meta.train.reverse: ") for note in result.notes)


def test_paths_lead_to_the_same_files(tmp_path, monkeypatch):
    """imported makes paths relative to the new file's folder."""
    monkeypatch.chdir(tmp_path)
    tasks = parse_yaml(imported(OLD, path="old.yaml", folder="conf/new").text, path="n").value[
        "tasks"
    ]
    assert tasks["enet"]["inputs"]["wmt"] == {"src": "../../a.en", "tgt": "/data/a.et"}


FAULTS = {
    "an unknown key": (
        ("share_vocab:", "sharevocab:"),
        4,
        "meta.shard.sharevocab: unknown key; did you mean share_voc",
    ),
    "an unknown parameter": (
        ("max_len", "max_length"),
        21,
        "meta.train.max_length: unknown key; did you mean max_len",
    ),
    "a key of a task": (
        ("n_shards: 4", "shards: 4"),
        27,
        "tasks.enet.shards: unknown key; did you mean n_shards?",
    ),
    "a task of nobody": (
        ("task: valid", "task: vald"),
        40,
        "inputs.dev.task: no task 'vald'; did you mean valid?",
    ),
    "an unknown transform": (
        ("switchout,", "swichout,"),
        33,
        "transforms[4]: unknown transform 'swichout'; did you mean",
    ),
    "other weights": (
        ("[10, 20.5, 80]", "[10, 20]"),
        26,
        "2 weights for 2 points of mixing_weight_schedule; give one",
    ),
    "no target": (
        ("tgt: b.et, ", ""),
        38,
        "inputs.more: task enet is of type para; give only src and tgt",
    ),
    "both spellings": (("trg: /data", "tgt: x, trg: /data"), 37, "give only src and tgt"),
    "two languages": (
        ("trg_lang: et", "trg_lang: et, tgt_lang: et"),
        28,
        "trg_lang and tgt_lang mean the same; remove one of",
    ),
    "shared by nobody": (
        ("share_inputs: mono", "share_inputs: mona"),
        34,
        "taboo.share_inputs: no task 'mona'",
    ),
    "no input": (
        ("share_inputs: mono, ", ""),
        34,
        "tasks.taboo: has no inputs; make it the task of an input",
    ),
}


@pytest.mark.parametrize(("change", "line", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_are_reported_with_their_lines(change, line, message):
    """imported refuses unknown and contradictory keys with file, line and remedy."""
    assert change[0] in OLD
    with pytest.raises(ConfigError) as error:
        imported(OLD.replace(*change), path="old.yaml")
    assert any(
        row.startswith(f"old.yaml:{line}: ") and message in row
        for row in str(error.value).split("\n")
    )


def test_missing_files_of_transforms_are_reported():
    """imported notes a transform without its file, with the old and the new key of the file."""
    lacking = OLD.replace("    vocab_path: em.prune\n    segmentation_model: em.prune\n", "")
    assert lacking != OLD
    notes = imported(lacking, path="o").notes
    assert (
        "meta.train.vocab_path: is missing, but switchout needs it; add defaults: {switchout: {vocabulary: FILE}}"
    ) in notes
    for name, option in (
        ("sentencepiece", "model"),
        ("morfessor_em", "model"),
        ("deterministic_segmentation", "table"),
    ):
        assert any(
            f"{name} needs it; add defaults: {{{name}: {{{option}: FILE}}}}" in note
            for note in notes
        )
        assert option in transform_schema(name)["required"]


def test_inputs_within_a_task_are_reported():
    """imported refuses inputs within a task, and shows the form with inputs at the top level."""
    message = r"o:1: tasks.a.inputs: inputs belong at the top level, as in inputs: \{NAME: \{src: FILE, tgt: FILE"
    with pytest.raises(ConfigError, match=message):
        imported("tasks: {a: {type: mono, inputs: {i: {mono: a.en}}}}\ninputs: {}", path="o")


def test_missing_inputs_are_reported(tmp_path, monkeypatch):
    """With check_files, `imported` reports in its notes each input file that is missing from the
    current folder, but does not check globs. Without check_files, it reports none."""
    monkeypatch.chdir(tmp_path)
    Path("a.en").write_text("low")
    old = "tasks: {a: {type: mono}}\ninputs: {i: {mono: a.en, task: a}, j: {mono: NAME, task: a}}\n"
    for name, n in (("a.en", 0), ("b.en", 1), ("*.en", 0), ("$NOWHERE_AT_ALL/x", 1)):
        notes = imported(
            old.replace("NAME", f'"{name}"'), path="o", folder="new", check_files=True
        ).notes
        assert notes == (f"inputs.j.mono: {name}: no such file; fix the path",) * n
    assert imported(old, path="o").notes == ()


@settings(max_examples=examples(20))
@given(st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True).map(sorted), st.data())
def test_schedules_are_converted_to_batches(points, data):
    """imported converts a schedule in minibatches to a schedule in batches of `batch_samples`
    samples."""
    n_weights, size = len(points) + 1, data.draw(st.integers(1, 9))
    weights = data.draw(st.lists(st.integers(1, 9), min_size=n_weights, max_size=n_weights))
    old = f"meta: {{train: {{mixing_weight_schedule: {points}}}}}\ntasks: {{a: {{type: mono, weight: {weights}}}}}\n"
    new = imported(old + "inputs: {i: {mono: a.en, task: a}}", path="o", batch_samples=size).text
    weight = parse_config(new, path="n").sources[0].weight
    assert weight.points == tuple(
        zip([0, *(point * size for point in points)], weights, strict=True)
    )


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_each_parameter_is_an_option_of_its_transforms(parameter):
    """PARAMETERS names only options that the transforms have."""
    for name, option in PARAMETERS[parameter].items():
        assert option in transform_schema(name)["properties"]
