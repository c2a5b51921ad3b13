"""`volt stream preview`, `trace`, `plan`, `audit`, `schema` and `example`."""

import gzip
import json

import pytest
from support.stream_commands import expected

from volt.stream.example_streams import RECIPES

MIXED = "mix: {temperature: %s}\nsources:\n  de: {path: de.tsv}\n  lb: {path: lb.tsv}\n"
PIPELINE = "multistream %s one.tsv two.tsv.gz --weights 2,1"
SAME = "sources: {one.tsv: {path: one.tsv, weight: 2}, two.tsv.gz: {path: two.tsv.gz, weight: 1}}"


@pytest.fixture
def mixed(stream_folder):
    """Write a configuration of 90 lines of de and 10 of lb, at temperature 2."""
    for name, n in (("de", 90), ("lb", 10)):
        (stream_folder / f"{name}.tsv").write_text("".join(f"{name} {i}\n" for i in range(n)))
    (stream_folder / "mix.yaml").write_text(MIXED % 2)
    return stream_folder / "mix.yaml"


@pytest.fixture
def read_json(volt_stream):
    """Run a command with --json, and return its output."""
    return lambda command: json.loads(volt_stream(f"{command} --json").stdout)


def test_preview_shows_every_step(volt_stream):
    """`volt stream preview` prints the number of each line, its text, and the text after each
    transform."""
    message = volt_stream("preview stream.yaml -n 12").stdout.decode()
    texts = [line.replace("\t", "  ⇥  ") for line in expected(12)]
    heads = [row for row in message.split("\n") if row.startswith("line ")]
    assert [row.split()[1] for row in heads] == [str(n) for n in range(12)]
    assert all(text in message for text in (*texts, "repeat", "as it was"))
    assert b"as it was" not in volt_stream("preview stream.yaml --changed").stdout
    later = volt_stream("preview stream.yaml -n 1 --from 11").stdout.decode()
    assert texts[11] in later


def test_preview_prints_json(volt_stream, read_json):
    """`volt stream preview --json` prints one array of lines."""
    for n in (3, 1):
        assert [row["n"] for row in read_json(f"preview stream.yaml -n {n}")] == list(range(n))


def test_trace_finds_the_line_in_its_file(volt_stream, stream_folder, read_json):
    """`volt stream trace` names the file and line that contain the line's text before the
    transforms."""
    texts = {
        "one": (stream_folder / "one.tsv").read_text().splitlines(),
        "two": gzip.decompress((stream_folder / "two.tsv.gz").read_bytes()).decode().splitlines(),
    }
    lines = expected(641)
    for n in (0, 17, 640):
        trace = read_json(f"trace stream.yaml {n}")
        assert trace["text"] == lines[n]
        assert texts[trace["source"]][trace["line"] - 1] == trace["raw"]
        assert lines[n].lower().removeprefix("[bt] ") == trace["raw"]
    assert b"line 17" in volt_stream("trace stream.yaml 17").stdout
    assert "numbered from 0" in volt_stream("trace stream.yaml -- -1", status=2).message


def test_plan_compares_speed_with_demand(volt_stream, read_json):
    """`volt stream plan --at N` plans N lines in total; a stream slower than --demand ends with
    status 1."""
    plan = read_json("plan stream.yaml --at 1e4 --seconds 0.2")
    sources = plan["sources"]
    assert sum(source["lines"] for source in sources.values()) == pytest.approx(10_000)
    assert sources["two"]["epochs"] == pytest.approx(sources["two"]["lines"] / 300)
    assert plan["lines_per_second"] > 0
    done = volt_stream("plan stream.yaml --seconds 0.2 --demand 1e12", status=1)
    assert "fewer than --demand 1,000,000,000,000" in done.message
    assert b"memory for data" in done.stdout


def test_a_plan_shows_a_virtual_epoch(mixed, volt_stream, read_json):
    """`volt stream plan` shows the lines, share and passes of each source in a virtual epoch, as
    table and JSON."""
    command = f"plan {mixed} --at 240 --seconds 0.01"
    rows = [" ".join(line.split()) for line in volt_stream(command).lines]
    start = rows.index("in a virtual epoch of 120 lines")
    assert rows[start + 2 : start + 4] == ["de 90 75.00% 1.00", "lb 30 25.00% 3.00"]
    plan = read_json(command)
    assert plan["epoch_lines"] == 120
    source = plan["sources"]["lb"]
    assert (source["share"], source["epochs"], source["epoch_passes"]) == (0.25, 6, 3)


def test_a_virtual_epoch_reads_the_largest_source_once(mixed, volt_stream):
    """After two virtual epochs, whose length the summary states, the largest source has been read
    twice."""
    summary = mixed.with_name("summary.json")
    volt_stream(f"run {mixed} --limit 240 --summary {summary}")
    values = json.loads(summary.read_text())
    assert (values["epoch_lines"], values["n"]) == (120, 240)
    sources = values["sources"]
    assert {name: (source["lines"], source["epochs"]) for name, source in sources.items()} == {
        "de": (180, 2),
        "lb": (60, 6),
    }


def test_a_temperature_that_gives_a_source_no_lines_is_refused(mixed, volt_stream):
    """The error for a temperature at which a source would give no lines names the line of the
    configuration."""
    mixed.write_text("# a comment\n" + MIXED % 0.05)
    message = " ".join(volt_stream(f"run {mixed}", status=2).message.split())
    assert "mix.yaml:2: mix: temperature 0.05 leaves nothing to source 'lb'" in message


def test_audit_finds_every_line_once(volt_stream, read_json):
    """`volt stream audit` finds every line once per epoch for any number of ranks, and compares the
    content of files."""
    audit = read_json("audit stream.yaml --epochs 3 --content --world 3")
    assert audit["exact"] is True
    assert [source["content"] for source in audit["sources"]] == [True, True]
    done = volt_stream("audit stream.yaml --turns 1e4")
    assert b"not read" in done.stdout
    assert "exact: every line once per epoch" in done.message


@pytest.mark.parametrize(
    ("command", "number", "options"),
    [
        ("preview", "", "-n 3 --seed 4"),
        ("trace", "7", "--seed 4"),
        ("audit", "", "--turns 50 --content"),
    ],
)
def test_a_pipeline_equals_a_configuration(read_json, stream_folder, command, number, options):
    """A pipeline and a configuration with equal files and weights give equal lines in `preview`,
    `trace` and `audit`."""
    (stream_folder / "same.yaml").write_text(SAME)
    named = read_json(f"{command} {PIPELINE % number} {options}")
    assert named == read_json(f"{command} same.yaml {number} {options}")


def test_a_pipeline_is_planned(read_json):
    """`volt stream plan` of two sources with weights 2 and 1 takes 20 of 30 lines from the first."""
    plan = read_json(f"plan {PIPELINE % ''} --at 30 --seconds 0.01")
    assert [source["lines"] for source in plan["sources"].values()] == [20, 10]


@pytest.mark.parametrize("command", ["preview", "debug", "plan", "audit", "trace", "vocabulary"])
def test_commands_refuse_unknown_pipelines(volt_stream, command):
    """All commands that read a stream refuse wrong sources and unknown pipelines with the error of
    `run`."""
    number = "0" if command == "trace" else ""
    for arguments, message in (
        (f"stream.yaml {number} one.tsv", "is a file with its own sources; remove one.tsv"),
        (f"example {number} one.tsv", "example has 1 source; give 2"),
        (f"exampel {number}", "did you mean the pipeline example?"),
    ):
        assert message in volt_stream(f"{command} {arguments}", status=2).message


def test_schema_documents_every_key(volt_stream, read_json):
    """`volt stream schema` documents all keys or one transform as text, and with --json as a JSON
    schema."""
    assert b"block_lines: whole number" in volt_stream("schema").stdout
    assert read_json("schema")["$defs"]["tag"]["properties"]["text"]["type"] == "string"
    assert volt_stream("schema tag copy").stdout.startswith(b"tag \xe2\x80\x94 Put a tag")
    assert "did you mean lower" in volt_stream("schema lwoer", status=2).message


def test_examples_are_listed_and_run(volt_stream):
    """`volt stream example` lists all examples, and each can be written and run."""
    names = [row.split()[0] for row in volt_stream("example").lines]
    assert names == list(RECIPES)
    for name in names:
        volt_stream(f"example {name} -o ex/{name}")
        assert len(volt_stream(f"run ex/{name}/stream.yaml --limit 300 -q").lines) == 300
    refused = volt_stream("example mixing -o ex/mixing", status=1)
    assert "exists; choose another folder" in refused.message
    assert "did you mean mixing" in volt_stream("example mixin", status=2).message
