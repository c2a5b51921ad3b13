"""`volt stream` with tasks and templates: --split, --task, --set, and the import of dynamicdata's configurations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Run, listed
from streams import write_lines

from volt.stream.running.stream import Stream

TASKS = """\
tasks:
  de_en: {type: para, inputs: {i: {src: a.de, tgt: a.en}}, weight: {{weight}}, transforms: [lower]}
  auto: {type: mono, inputs: {i: {mono: a.en}}, transforms: [multiply: 2]}
  dev: {type: para, split: valid, inputs: {i: {src: a.de, tgt: a.en}}, transforms: [upper]}
"""
OLD = "tasks: {a: {type: mono, weight: 2}}\ninputs: {i: {mono: a.en, task: a, size: 9}}\n"


@pytest.fixture
def tasks(stream_folder: Path) -> Path:
    """A configuration with three tasks, which is a template."""
    for side in ("de", "en"):
        write_lines(stream_folder / f"a.{side}", [f"{side} Wort {i}" for i in range(20)])
    (stream_folder / "tasks.yaml").write_text(TASKS)
    (stream_folder / "old.yaml").write_text(OLD)
    return stream_folder / "tasks.yaml"


def test_run_mixes_tasks_as_python_does(volt_stream: Run, tasks: Path) -> None:
    """The values of a template come from --set; --task takes some tasks alone."""
    done = volt_stream("run", tasks, "--set", "weight=3", "--limit", 80, "-q")
    with Stream.from_config(tasks, values={"weight": 3}) as stream:
        assert done.stdout == b"".join(stream.blocks(limit=80))
    assert sum(line.startswith("de wort") for line in done.lines) == 60
    alone = volt_stream(
        "run", tasks, "--set", "weight=3", "--task", "auto", "--limit", 20, "-q"
    ).lines
    assert sorted(alone) == sorted(f"en Wort {i}\ten Wort {i}" for i in range(20))


def test_a_split_comes_once_and_in_order(volt_stream: Run, tasks: Path) -> None:
    """--split valid gives the tasks of that split; with --task, a training task as validation sees it."""
    options = ("--set", "weight=3", "--split", "valid", "-q")
    assert volt_stream("run", tasks, *options).lines == [
        f"DE WORT {i}\tEN WORT {i}" for i in range(20)
    ]
    assert volt_stream("run", tasks, *options, "--task", "auto").lines == [
        f"en Wort {i}\ten Wort {i}" for i in range(20)
    ]


@pytest.mark.parametrize(
    "command", [["preview"], ["plan", "--seconds", 0.01], ["audit", "--turns", 100], ["trace", 3]]
)
def test_every_command_of_a_stream_takes_tasks(
    volt_stream: Run, tasks: Path, command: list[object]
) -> None:
    """preview, plan, audit and trace look at the split and the tasks that are asked for."""
    name, *more = command
    error_text = ("--set", "weight=3", "--json")
    train = volt_stream(name, tasks, *more, *error_text).stdout.decode()
    valid = volt_stream(name, tasks, *more, *error_text, "--split", "valid").stdout.decode()
    alone = volt_stream(name, tasks, *more, *error_text, "--task", "auto").stdout.decode()
    names = [
        {name for name in ("de_en", "auto", "dev") if f'"{name}"' in error_text}
        for error_text in (train, valid, alone)
    ]
    assert names[0] <= {"de_en", "auto"}
    assert names[1:] == [{"dev"}, {"auto"}]


def test_plan_and_audit_count_what_tasks_are_owed(volt_stream: Run, tasks: Path) -> None:
    """The plan has three lines of the one task for one of the other; the audit finds every line once."""
    plan = json.loads(
        volt_stream(
            "plan", tasks, "--set", "weight=3", "--at", 400, "--seconds", 0.01, "--json"
        ).stdout
    )
    assert {name: round(part["lines"]) for name, part in plan["sources"].items()} == {
        "de_en": 300,
        "auto": 100,
    }
    audit = json.loads(
        volt_stream(
            "audit", tasks, "--set", "weight=3", "--content", "--turns", 400, "--json"
        ).stdout
    )
    assert audit["exact"]
    assert [source["n_lines"] for source in audit["sources"]] == [20, 20]


def test_the_schema_shows_what_a_template_becomes(volt_stream: Run, tasks: Path) -> None:
    """--expand prints the text, byte by byte."""
    done = volt_stream("schema --expand", tasks, "--set", "weight=3")
    assert done.stdout.decode() == TASKS.replace("{{weight}}", "3")
    plain = volt_stream("schema --expand stream.yaml")
    assert plain.stdout == Path("stream.yaml").read_bytes()
    assert b"tasks.NAME" in volt_stream("schema").stdout


FAULTS = {
    "a missing key": (
        ["run", "tasks.yaml"],
        "tasks.yaml:2: {{weight}} has no value; give --set weight, or",
    ),
    "another key": (
        ["run", "tasks.yaml", "--set", "weigth=1"],
        "'weigth' is not used: the file has no {{weigth}}",
    ),
    "no value": (
        ["run", "tasks.yaml", "--set", "weight"],
        "--set weight: gives no value; write --set weight=VALUE",
    ),
    "no key": (
        ["run", "tasks.yaml", "--set", "=3"],
        "--set =3: '' is not a key; give a word before =",
    ),
    "an option as a key": (
        ["run", "tasks.yaml", "--set", "langs"],
        "gives no value; write --set langs=VALUE",
    ),
    "an option as a key twice": (
        ["run", "tasks.yaml", "--set", "min_count=1", "--set", "min_count=2"],
        "min_count=2: min_count is given twice",
    ),
    "an option without a place": (
        ["run", "tasks.yaml", "--set", "min_count=1"],
        "the file has no {{min_count}};",
    ),
    "a key twice": (
        ["run", "tasks.yaml", "--set", "a=1", "--set", "a=2"],
        "--set a=2: a is given twice; remove one",
    ),
    "an unknown task": (
        ["run", "tasks.yaml", "--set", "weight=1", "--task", "dve"],
        "no task 'dve'; did you mean dev",
    ),
    "a task of the other split": (
        ["preview", "tasks.yaml", "--set", "weight=1", "--task", "dev"],
        "train; choose the split valid",
    ),
    "a split of no tasks": (
        ["run", "stream.yaml", "--split", "valid"],
        "tasks: no task is of split valid; name",
    ),
    "a pipeline": (
        ["run", "default", "one.tsv", "--split", "valid"],
        "remove --set, --split and --task",
    ),
    "nothing to expand": (["schema", "--set", "a=1"], "--set needs --expand, and"),
    "two things at once": (
        ["schema", "lower", "--expand", "tasks.yaml"],
        "--expand excludes TRANSFORM and --json",
    ),
    "over its input": (
        ["import-dynamicdata", "old.yaml", "-o", "old.yaml"],
        "old.yaml, which is read; choose another",
    ),
    "what is no import": (
        ["import-dynamicdata", "tasks.yaml", "-o", "x.yaml"],
        "{{weight}} has no value",
    ),
    "what is no such file": (
        ["import-dynamicdata", "stream.yaml", "-o", "x.yaml"],
        "stream.yaml:1: seed: unknown key",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_what_cannot_be_done_is_reported(
    volt_stream: Run, tasks: Path, arguments: list[str], message: str
) -> None:
    """Status 2, a message with the remedy as an option, nothing on stdout, and no file written."""
    before = listed(tasks.parent)
    done = volt_stream(*arguments, status=2)
    assert message in done.stderr.decode()
    assert done.stdout == b""
    assert [name for name in listed(tasks.parent) if name != "cache"] == [
        name for name in before if name != "cache"
    ]


def test_dynamicdata_is_imported(volt_stream: Run, tasks: Path) -> None:
    """The new file is there, runs, and names what differs; stderr says the same; -o - is stdout."""
    done = volt_stream("import-dynamicdata old.yaml -o new.yaml")
    assert b"note inputs.i.size: VOLT counts the lines; the size is omitted" in done.stderr
    assert Path("new.yaml").read_text().startswith("# inputs.i.size: VOLT counts the lines")
    assert len(volt_stream("run new.yaml --limit", 20, "-q").lines) == 20
    printed = volt_stream("import-dynamicdata old.yaml -o - -q")
    assert printed.stdout == Path("new.yaml").read_bytes()
    assert printed.stderr == b""
