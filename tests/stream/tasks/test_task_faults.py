"""What is wrong with the tasks of a configuration is reported with its line and what to do, and all of it at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from streams import write_lines

from volt.errors import ConfigError, StreamError
from volt.stream.config.configuration import load_config, parse_config
from volt.stream.running.stream import Stream
from volt.stream.tasks.shard_writing import shard

HEAD = """\
schedule:
  points: [10, 20]
tasks:
  de_en:
    type: para
    inputs:
      wmt: {src: a.de, tgt: a.en}
"""
MONO = """\
  auto:
    type: mono
    inputs: {ted: {mono: ted.en}}
"""


def task(text: str) -> str:
    """A parallel task with one more key, in line 8."""
    return f"{HEAD}    {text}\n"


def other(text: str) -> str:
    """A second task of one side, in line 8, with this in line 10."""
    return f"{HEAD}  mono:\n    type: mono\n    {text}\n{MONO}"


def schedule(text: str) -> str:
    """A schedule, in line 1."""
    return (
        f"schedule: {text}\ntasks: {{t: {{type: mono, inputs: {{i: {{mono: a}}}}, weight: 2}}}}\n"
    )


FAULTS = {
    "unknown key": (task("wieght: 1"), 8, "tasks.de_en.wieght: unknown key; did you mean weight?"),
    "key of an input": (
        HEAD.replace("tgt:", "trg:"),
        7,
        "tasks.de_en.inputs.wmt.trg: unknown key; did you mean tgt?",
    ),
    "key of a schedule": (
        schedule("{points: [1], unti: batches}"),
        1,
        "schedule.unti: unknown key; did you mean unit",
    ),
    "type": (
        HEAD.replace("para", "parallel"),
        5,
        "tasks.de_en.type: should be 'para' or 'mono', not 'parallel'",
    ),
    "no type": (
        "tasks:\n  t:\n    inputs: {i: {mono: a}}\n",
        2,
        "tasks.t: key 'type' is missing; give it",
    ),
    "split": (
        task("split: test"),
        8,
        "tasks.de_en.split: should be 'train' or 'valid', not 'test'",
    ),
    "empty task": (
        "tasks:\n  t: {type: mono}\n",
        2,
        "tasks.t: has no inputs; give inputs: {NAME: {mono: FILE}}, or",
    ),
    "no tasks": ("tasks: {}\n", 1, "tasks: is empty; give at least one"),
    "no inputs": (
        "tasks:\n  t: {type: para, inputs: {}}\n",
        2,
        "has no inputs; give inputs: {NAME: {src: FILE, tgt: FILE}}",
    ),
    "empty input": (
        HEAD.replace("{src: a.de, tgt: a.en}", "{}"),
        7,
        "inputs.wmt: key 'src' is missing; type para",
    ),
    "para without tgt": (
        HEAD.replace(", tgt: a.en", ""),
        7,
        "key 'tgt' is missing; type para needs src and tgt",
    ),
    "para with mono": (
        HEAD.replace("}", ", mono: a}"),
        7,
        "wmt.mono: cannot be used with type para; give src and tgt",
    ),
    "mono with src": (
        other("inputs: {i: {src: a}}"),
        10,
        "inputs.i.src: cannot be used with type mono; give mono",
    ),
    "other number of files": (
        HEAD.replace("src: a.de", "src: [a.de, b.de]"),
        7,
        "wmt.tgt: has 1 file, but src has 2; give equally many",
    ),
    "a pattern for a side": (
        HEAD.replace("a.de", "'*.de'"),
        7,
        "wmt.src: *.de: a field takes one file",
    ),
    "shared by nobody": (
        other("share_inputs: auta"),
        10,
        "share_inputs: no task 'auta'; did you mean auto?",
    ),
    "shared with itself": (
        other("share_inputs: mono"),
        10,
        "share_inputs: names the task itself; name another",
    ),
    "shared in a chain": (
        other("share_inputs: auto2") + "  auto2: {type: mono, share_inputs: auto}\n",
        10,
        "share_inputs: auto2 has no inputs of its own; name the task whose inputs it shares, auto",
    ),
    "shared with another type": (
        other("share_inputs: de_en"),
        10,
        "de_en is of type para, this task of type",
    ),
    "shared beside inputs": (
        other("share_inputs: auto\n    inputs: {i: {mono: a}}"),
        11,
        "inputs: cannot be used with share_inputs",
    ),
    "shards of others": (
        other("share_inputs: auto\n    n_shards: 3"),
        11,
        "n_shards: cannot be used with",
    ),
    "no shards": (task("n_shards: 0"), 8, "n_shards: should be greater than 0, not 0"),
    "too few weights": (
        task("weight: [1, 2]"),
        8,
        "weight: 2 weights, and the schedule has 2 points; give 3",
    ),
    "too many weights": (
        task("weight: [1, 2, 3, 4]"),
        8,
        "weight: 4 weights, and the schedule has 2 points; give 3",
    ),
    "no weights": (task("weight: []"), 8, "weight: is empty; give at least one"),
    "a negative weight": (
        task("weight: [1, -2, 3]"),
        4,
        "weight -2.0 must be 0 or more, and finite",
    ),
    "weights that are all 0": (
        task("weight: [0, 0, 0]"),
        4,
        "every weight of its schedule is 0; give one above 0",
    ),
    "weights without a schedule": (
        task("weight: [1, 2]").split("\n", 2)[2],
        6,
        "a list of weights needs a schedule",
    ),
    "weight of validation": (
        task("split: valid\n    weight: 2"),
        9,
        "weight: has no effect in split valid, whose lines are read once each",
    ),
    "points out of order": (
        schedule("{points: [20, 10]}"),
        1,
        "points[2]: 10 is not above 20, the point before it",
    ),
    "points that repeat": (
        schedule("{points: [20, 20]}"),
        1,
        "points[2]: 20 is not above 20, the point before it",
    ),
    "point 0": (
        schedule("{points: [0]}"),
        1,
        "schedule.points[1]: 0 is not above 0; give rising points",
    ),
    "half a sample": (
        schedule("{points: [0.5]}"),
        1,
        "schedule.points[1]: should be a valid integer",
    ),
    "a point beyond": (schedule(f"{{points: [{1 << 62}]}}"), 1, "samples are too many to count"),
    "no points": (schedule("{points: []}"), 1, "schedule.points: is empty; give at least one"),
    "batches of no size": (
        schedule("{points: [1], unit: batches}"),
        1,
        "schedule.unit: the size of batches is unknown; give batch_samples",
    ),
    "samples in batches": (
        schedule("{points: [1], batch_samples: 2}"),
        1,
        "batch_samples: has no effect if",
    ),
    "updates of batches": (
        schedule("{points: [1], unit: batches, batch_samples: 2, update_batches: 2}"),
        1,
        "schedule.update_batches: has no effect if points count batches; remove it, or give another unit",
    ),
    "an unknown default": (
        HEAD + "defaults:\n  lwer: [1]\n",
        9,
        "defaults.lwer: unknown transform 'lwer'; did",
    ),
    "an option of a default": (
        HEAD + "defaults: {lower: {feilds: [1]}}\n",
        8,
        "defaults.lower.feilds: unknown key",
    ),
    "a value of a default": (
        HEAD + "defaults: {lower: {fields: x}}\n",
        8,
        "defaults.lower.fields: no field is called",
    ),
    "a name that is taken": (
        HEAD + "sources: {de_en: {path: a}}\n",
        4,
        "tasks.de_en: a source has the same name",
    ),
    "a step": (
        task("transforms:\n    - lwer"),
        9,
        "tasks.de_en.transforms[1]: unknown transform 'lwer'; did you mean",
    ),
    "a field": (
        task("transforms: [lower: [source]]"),
        8,
        "no field is called 'source'; did you mean src?",
    ),
}


@pytest.mark.parametrize(("text", "line", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_every_fault_is_reported_with_its_line(text: str, line: int, message: str) -> None:
    """One mistake gives one message, with file, line and remedy."""
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    assert message in str(error.value)
    assert str(error.value).startswith(f"stream.yaml:{line}: ")
    assert "\n" not in str(error.value)


def test_faults_of_tasks_are_reported_together() -> None:
    """Several mistakes are reported in the order of their lines, those of transforms also where a key is unknown."""
    text = (
        task("wieght: 2\n    transforms: [lwer]")
        + "  t: {type: mono, inputs: {i: {mono: a}}, transforms: [lower: [x]]}\n"
    )
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    assert [line.split(":")[1] for line in str(error.value).split("\n")] == ["8", "9", "10"]


def test_a_fault_elsewhere_makes_no_others() -> None:
    """Where a key is unknown, transforms are still looked at with what their task and the defaults say."""
    with pytest.raises(ConfigError) as error:
        parse_config("sed: 1\n" + task("transforms: [length]") + "defaults: {length: {max: 9}}\n")
    assert str(error.value) == "stream.yaml:1: sed: unknown key; did you mean seed?"
    with pytest.raises(ConfigError) as error:
        parse_config("sed: 1\n" + task("transforms: [length]") + "defaults: {length: {max: x}}\n")
    assert [line.split(":")[1] for line in str(error.value).split("\n")] == ["1", "10"]


def test_shards_are_read_where_a_folder_is_named(tmp_path: Path) -> None:
    """A task reads its shards, or those that it shares, and not its inputs; what is wrong with them has a line."""
    write_lines(tmp_path / "a.de", ["eins", "zwei", "drei"])
    write_lines(tmp_path / "a.en", ["one", "two", "three"])
    text = HEAD + "    n_shards: 2\n  again: {type: para, share_inputs: de_en}\nshards: made\n"
    (tmp_path / "s.yaml").write_text(text)
    made = tmp_path / "made"
    error_text = load_config(tmp_path / "s.yaml", use_shards=False)
    [manifest] = shard(error_text.tasks, made, lines=3)
    for side in ("de", "en"):
        (tmp_path / f"a.{side}").unlink()
    error_text = load_config(tmp_path / "s.yaml")
    assert [(source.name, source.names, source.paths) for source in error_text.sources] == [
        (name, ("src", "tgt"), manifest.paths) for name in ("de_en", "again")
    ]
    assert (error_text.shards, len(manifest.paths)) == (made, 4)
    with pytest.raises(ConfigError, match=r"a.de: no such file"):
        load_config(tmp_path / "s.yaml", use_shards=False)
    (tmp_path / "s.yaml").write_text(text.replace("shards: made", f"{MONO}shards: made"))
    with pytest.raises(
        ConfigError, match=r"s.yaml:10: tasks.auto: .*no shards of task 'auto'; make them: volt"
    ):
        load_config(tmp_path / "s.yaml")


def test_files_of_tasks_are_looked_for(tmp_path: Path) -> None:
    """Files that are not there are named with their lines; a target that is a line short is named with both counts."""
    (tmp_path / "s.yaml").write_text(HEAD + MONO)
    with pytest.raises(ConfigError) as error:
        load_config(tmp_path / "s.yaml")
    for line, key in ((7, "wmt.src"), (7, "wmt.tgt"), (10, "ted.mono")):
        assert any(
            f"s.yaml:{line}: " in error_text and key in error_text
            for error_text in str(error.value).split("\n")
        )
    for name, n in (("a.de", 3), ("a.en", 2), ("ted.en", 1)):
        write_lines(tmp_path / name, ["x"] * n)
    with pytest.raises(
        StreamError,
        match=r"source 'de_en': .*a.de has 3 lines, .*a.en has 2 lines; files of a pair",
    ):
        Stream.from_config(tmp_path / "s.yaml")
    (tmp_path / "ted.en").write_text("")
    with pytest.raises(StreamError, match=r"source 'auto': no line in .*ted.en; name other files"):
        Stream.from_config(tmp_path / "s.yaml", tasks=["auto"])


def test_a_choice_is_of_what_there_is() -> None:
    """A split that does not exist, and one name in place of a list, are refused."""
    with pytest.raises(ConfigError, match="split"):
        parse_config(HEAD, split="test")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="give a list of names of tasks"):
        parse_config(HEAD, tasks="de_en")
