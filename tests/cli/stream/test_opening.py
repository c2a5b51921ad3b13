"""`volt stream` with named pipelines, tasks and templates."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from support.commands import listed
from support.streams import write_lines

from volt.stream.running.stream import Stream

MTDATA = """\
#!/bin/sh
echo "downloading $5"
mkdir -p "$8/train-parts"
printf '%s\\n' "$5-0" "$5-1" | gzip > "$8/train-parts/$5.rus.gz"
printf '%s\\n' e0 e1 | gzip > "$8/train-parts/$5.eng.gz"
"""


def test_default_is_one_source_unchanged(volt_stream, stream_folder):
    """The pipeline default yields its file's lines once an epoch; --seed, --workers and --state
    work as with a configuration."""
    lines = (stream_folder / "one.tsv").read_text().splitlines()
    done = volt_stream("run default one.tsv --limit 200 --json")
    assert sorted(done.lines) == sorted(lines)
    assert json.loads(done.stderr)["sources"]["one.tsv"]["lines"] == 200
    assert volt_stream("run default one.tsv --limit 200 --seed 3 -q").lines != done.lines
    volt_stream("run default one.tsv --limit 90 --state s.json -q")
    rest = volt_stream("run default one.tsv --limit 110 --from-state s.json --workers 1 -q")
    assert rest.lines == done.lines[90:]


def test_multistream_equals_a_configuration(volt_stream, stream_folder):
    """The pipeline multistream mixes sources by --weights as a configuration does, and names them
    after their files."""
    config = (
        "sources: {one.tsv: {path: one.tsv, weight: 2}, two.tsv.gz: {path: two.tsv.gz, weight: 1}}"
    )
    (stream_folder / "mix.yaml").write_text(config)
    with Stream.from_config("mix.yaml") as stream:
        expected = b"".join(stream.blocks(limit=300))
    done = volt_stream("run multistream one.tsv two.tsv.gz --weights 2,1 --limit 300 -q")
    assert done.stdout == expected
    even = volt_stream("run multistream one.tsv two.tsv.gz --limit 300 -q").lines
    assert Counter(line[0] for line in even) == {"a": 150, "c": 150}
    (stream_folder / "x").mkdir()
    (stream_folder / "x" / "one.tsv").write_text("x\n")
    done = volt_stream("run multistream one.tsv x/one.tsv --limit 2 --json")
    assert set(json.loads(done.stderr)["sources"]) == {"one.tsv", "x/one.tsv"}


def test_example_tags_lines_and_changes_case(volt_stream, stream_folder):
    """The pipeline example gives two parallel lines for one back-translated line with a tag, and
    changes the case of some."""
    (stream_folder / "one.tsv").write_text(
        "".join(f"DAS Haus {n}\tTHE house {n}\n" for n in range(900))
    )
    done = volt_stream("run example one.tsv two.tsv.gz --weights 2,1 --limit 2700 -q")
    tagged = [line for line in done.lines if line.startswith("[BT] ")]
    assert len(tagged) == 900
    assert {line.lower() for line in tagged} == {f"[bt] c{n}\td{n}" for n in range(300)}
    kinds = Counter(line.split()[0] for line in done.lines if line not in tagged)
    assert set(kinds) == {"DAS", "das", "Das"}
    assert 40 <= kinds["das"] <= 110
    assert 5 <= kinds["Das"] <= 40


def test_mtdata_is_called_once_for_each_data_set(volt_stream, stream_folder, monkeypatch):
    """The pipeline mtdata calls MTData once for each data set, and writes nothing that MTData
    prints to stdout."""
    program = stream_folder / "bin" / "mtdata"
    program.parent.mkdir()
    program.write_text(MTDATA)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    command = "run mtdata A-1-eng-rus B-2-eng-rus --langs rus-eng --weights 3,1 --limit 8 -q"
    done = volt_stream(command)
    assert Counter(line[0] for line in done.lines) == {"A": 6, "B": 2}
    assert set(done.lines) == {
        f"{name}-eng-rus-{n}\te{n}" for name in ("A-1", "B-2") for n in (0, 1)
    }
    assert done.stderr == b"downloading A-1-eng-rus\ndownloading B-2-eng-rus\n"
    program.write_text("#!/bin/sh\nexit 3\n")
    assert volt_stream(command).lines == done.lines
    other = "run mtdata C-3 --langs rus-eng"
    assert "ended with status 3" in volt_stream(other, status=1).message
    program.unlink()
    assert "pip install mtdata" in volt_stream(other, status=1).message
    for wrong in ("rus-eng -- ../C", "rus-eng -- -o", "ru-en C", "../rus-eng C"):
        volt_stream(f"run mtdata --langs {wrong}", status=2)
    for path in (stream_folder / "cache" / "volt" / "mtdata").rglob("A*.rus.gz"):
        assert gzip.decompress(path.read_bytes()) == b"A-1-eng-rus-0\nA-1-eng-rus-1\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("default", "default has 0 sources; give 1"),
        ("default one.tsv two.tsv.gz", "default has 2 sources; give 1"),
        ("example one.tsv", "example has 1 source; give 2 (parallel, backtranslated)"),
        ("multistream", "multistream has 0 sources; give 1 or more"),
        (
            "multistream one.tsv two.tsv.gz --weights 2",
            "has 1 weight for 2 sources; give one for each",
        ),
        (
            "multistream one.tsv --weights x",
            "weights is x; give one number from 0 up for each source",
        ),
        ("multistream one.tsv --weights 0", "weights is 0; give one number"),
        ("multistream one.tsv one.tsv", "one.tsv is given twice"),
        (
            "default one.tsv --langs deu-eng",
            "default reads files, which need no language codes",
        ),
        ("mtdata X", "pass their codes, as in --langs deu-eng"),
        ("multistrem one.tsv", "did you mean the pipeline multistream?"),
        ("stream.yaml one.tsv", "stream.yaml: is a file with its own sources; remove one.tsv"),
        (
            "stream.yaml --weights 2,1",
            "stream.yaml: is a file with its own sources; remove 2,1",
        ),
    ],
)
def test_wrong_pipelines_are_usage_errors(arguments, message, volt_stream):
    """A wrong pipeline or option ends with status 2, an empty stdout, and an error that says what
    to give."""
    done = volt_stream(f"run {arguments}", status=2)
    assert done.stdout == b""
    assert message in done.message


def test_a_missing_source_is_reported(volt_stream):
    """The error for a missing source of a pipeline names the file."""
    assert b"none.tsv: no such file" in volt_stream("run default none.tsv", status=1).stderr


def test_a_file_named_like_a_pipeline_is_a_configuration(volt_stream, stream_folder):
    """A file with the name of a pipeline is read as a configuration, which takes no sources."""
    (stream_folder / "default").write_text("sources: {one: {path: one.tsv}}")
    assert set(json.loads(volt_stream("run default --limit 1 --json").stderr)["sources"]) == {"one"}
    message = volt_stream("run default one.tsv", status=2).stderr
    assert b"to run the pipeline default, move the file" in message
    (stream_folder / "multistream").mkdir()
    assert len(volt_stream("run multistream one.tsv --limit 3 -q").lines) == 3


def test_a_run_does_not_write_over_its_source(volt_stream, stream_folder):
    """--summary refuses the files that a pipeline reads."""
    before = (stream_folder / "one.tsv").read_bytes()
    assert b"one.tsv" in volt_stream("run default one.tsv --summary one.tsv", status=2).stderr
    assert (stream_folder / "one.tsv").read_bytes() == before


TASKS = """\
tasks:
  de_en: {type: para, inputs: {i: {src: a.de, tgt: a.en}}, weight: {{weight}}, transforms: [lower]}
  auto: {type: mono, inputs: {i: {mono: a.en}}, transforms: [multiply: 2]}
  dev: {type: para, split: valid, inputs: {i: {src: a.de, tgt: a.en}}, transforms: [upper]}
"""
OLD = "tasks: {a: {type: mono, weight: 2}}\ninputs: {i: {mono: a.en, task: a, size: 9}}\n"


@pytest.fixture
def tasks(stream_folder):
    """Write a template with three tasks."""
    for side in ("de", "en"):
        write_lines(stream_folder / f"a.{side}", [f"{side} Wort {i}" for i in range(20)])
    (stream_folder / "tasks.yaml").write_text(TASKS)
    (stream_folder / "old.yaml").write_text(OLD)
    return stream_folder / "tasks.yaml"


def test_options_of_tasks_equal_those_of_python(volt_stream, tasks):
    """--set and --task of `volt stream run` give the lines of `Stream.from_config` with values and
    tasks."""
    done = volt_stream("run tasks.yaml --set weight=3 --limit 80 -q")
    with Stream.from_config(tasks, values={"weight": 3}) as stream:
        assert done.stdout == b"".join(stream.blocks(limit=80))
    assert sum(line.startswith("de wort") for line in done.lines) == 60
    alone = volt_stream("run tasks.yaml --set weight=3 --task auto --limit 20 -q").lines
    assert sorted(alone) == sorted(f"en Wort {i}\ten Wort {i}" for i in range(20))


@pytest.mark.usefixtures("tasks")
def test_the_validation_split_is_in_order(volt_stream):
    """--split valid gives each line of the validation tasks once, in order; --task may name a
    training task."""
    command = "run tasks.yaml --set weight=3 --split valid -q"
    assert volt_stream(command).lines == [f"DE WORT {i}\tEN WORT {i}" for i in range(20)]
    alone = volt_stream(f"{command} --task auto").lines
    assert alone == [f"en Wort {i}\ten Wort {i}" for i in range(20)]


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize(
    ("command", "options"),
    [("preview", ""), ("plan", "--seconds 0.01"), ("audit", "--turns 100"), ("trace", "3")],
)
def test_every_command_of_a_stream_takes_tasks(volt_stream, command, options):
    """`preview`, `plan`, `audit` and `trace` take --split and --task."""
    for choice, names in (
        ("", {"de_en", "auto"}),
        ("--split valid", {"dev"}),
        ("--task auto", {"auto"}),
    ):
        line = f"{command} tasks.yaml {options} --set weight=3 --json {choice}"
        text = volt_stream(line).stdout.decode()
        found = {name for name in ("de_en", "auto", "dev") if f'"{name}"' in text}
        assert found <= names
        assert found == names or not choice


@pytest.mark.usefixtures("tasks")
def test_plan_and_audit_follow_the_weights_of_tasks(volt_stream):
    """For tasks with weights 3 and 1, `plan` counts three lines for one, and `audit` finds every
    line once."""
    options = "tasks.yaml --set weight=3 --json"
    plan = json.loads(volt_stream(f"plan {options} --at 400 --seconds 0.01").stdout)
    n_lines = {name: round(source["lines"]) for name, source in plan["sources"].items()}
    assert n_lines == {"de_en": 300, "auto": 100}
    audit = json.loads(volt_stream(f"audit {options} --content --turns 400").stdout)
    assert audit["exact"]
    assert [source["n_lines"] for source in audit["sources"]] == [20, 20]


@pytest.mark.usefixtures("tasks")
def test_expand_prints_the_filled_template(volt_stream):
    """`volt stream schema --expand` prints a template with its values filled in, byte by byte."""
    done = volt_stream("schema --expand tasks.yaml --set weight=3")
    assert done.stdout.decode() == TASKS.replace("{{weight}}", "3")
    plain = volt_stream("schema --expand stream.yaml")
    assert plain.stdout == Path("stream.yaml").read_bytes()
    assert b"tasks.NAME" in volt_stream("schema").stdout


FAULTS = {
    "a missing key": (
        "run tasks.yaml",
        "tasks.yaml:2: {{weight}} has no value; give --set weight, or",
    ),
    "another key": (
        "run tasks.yaml --set weigth=1",
        "'weigth' is not used: the file has no {{weigth}}",
    ),
    "no value": (
        "run tasks.yaml --set weight",
        "--set weight: no value; write --set weight=VALUE",
    ),
    "no key": (
        "run tasks.yaml --set =3",
        "--set =3: '' is not a key; give a word before =",
    ),
    "an option as a key": (
        "run tasks.yaml --set langs",
        "no value; write --set langs=VALUE",
    ),
    "an option as a key twice": (
        "run tasks.yaml --set min_count=1 --set min_count=2",
        "min_count=2: min_count is given twice",
    ),
    "an option without a place": (
        "run tasks.yaml --set min_count=1",
        "the file has no {{min_count}};",
    ),
    "a key twice": (
        "run tasks.yaml --set a=1 --set a=2",
        "--set a=2: a is given twice; remove one",
    ),
    "an unknown task": (
        "run tasks.yaml --set weight=1 --task dve",
        "no task 'dve'; did you mean dev",
    ),
    "a task of the other split": (
        "preview tasks.yaml --set weight=1 --task dev",
        "train; choose the split valid",
    ),
    "a split of no tasks": (
        "run stream.yaml --split valid",
        "tasks: no task is of split valid; name",
    ),
    "a pipeline": (
        "run default one.tsv --split valid",
        "remove --set, --split and --task",
    ),
    "nothing to expand": ("schema --set a=1", "--set needs --expand, and"),
    "two things at once": (
        "schema lower --expand tasks.yaml",
        "--expand excludes TRANSFORM and --json",
    ),
    "over its input": (
        "import-dynamicdata old.yaml -o old.yaml",
        "old.yaml, which is read; choose another",
    ),
    "what is no import": (
        "import-dynamicdata tasks.yaml -o x.yaml",
        "{{weight}} has no value",
    ),
    "what is no such file": (
        "import-dynamicdata stream.yaml -o x.yaml",
        "stream.yaml:1: seed: unknown key",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_wrong_options_of_tasks_write_nothing(volt_stream, tasks, arguments, message):
    """A wrong option of tasks or templates ends with status 2 and an error that names the option
    that helps."""
    before = listed(tasks.parent)
    done = volt_stream(arguments, status=2)
    assert message in done.message
    assert done.stdout == b""
    assert set(listed(tasks.parent)) <= {*before, "cache"}


def test_dynamicdata_is_imported(volt_stream, tasks):
    """`volt stream import-dynamicdata` writes a configuration that runs; its comments and stderr
    list the differences."""
    done = volt_stream("import-dynamicdata old.yaml -o new.yaml")
    assert b"note inputs.i.size: VOLT counts the lines; the size is omitted" in done.stderr
    assert Path("new.yaml").read_text().startswith("# inputs.i.size: VOLT counts the lines")
    assert len(volt_stream("run new.yaml --limit 20 -q").lines) == 20
    printed = volt_stream("import-dynamicdata old.yaml -o - -q")
    assert printed.stdout == Path("new.yaml").read_bytes()
    assert printed.stderr == b""
