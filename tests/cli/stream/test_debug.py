"""`volt stream debug` and `volt stream vocabulary`: tables, pages, JSON lines, and counts of subwords."""

import json
from collections import Counter
from pathlib import Path

import pytest
from support.commands import listed
from support.screens import printed, too_wide
from support.streams import write_lines

from volt.stream.checking.trace import debug
from volt.stream.running.stream import Stream
from volt_cli.stream.debug import line_parts

CONFIG = """\
seed: 2
errors: {on_fault: skip}
sources: {wmt: {path: one.tsv}}
tasks:
  de_en:
    type: para
    src_lang: de
    tgt_lang: en
    inputs: {i: {src: a.de, tgt: a.en}}
    epochs: 1
    transforms:
      - length: {max: 6, unit: words}
      - lower: [src]
      - drop: {rate: 0.3}
      - deterministic_segmentation: {table: table.tsv, fields: [1]}
      - repeat: 2
      - lang_prefix_both
  auto: {type: mono, inputs: {i: {mono: a.en}}, transforms: [duplicate_mono, tag: {text: {{tag}}}]}
"""
SET = "--set tag=<2en>"
DE_EN = f"tasks.yaml {SET} --task de_en"
GERMAN = [
    "Ein Haus",
    "eins zwei drei vier fünf sechs sieben",
    "Unbekannt",
    "<script>alert(1)</script> \x1b[31mrot",
]


@pytest.fixture
def tasks(stream_folder):
    """Write a configuration with two tasks and a source."""
    write_lines(stream_folder / "a.de", GERMAN)
    write_lines(stream_folder / "a.en", ["a house", "x", "y", "z " * 60 + "z"])
    words = [word for line in GERMAN[:2] + GERMAN[3:] for word in line.lower().split(" ")]
    write_lines(stream_folder / "table.tsv", [f"{word}\t{word[:2]} {word[2:]}" for word in words])
    (stream_folder / "tasks.yaml").write_text(CONFIG)
    return stream_folder / "tasks.yaml"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_a_terminal(tasks, width):
    """No line of `volt stream debug` is wider than the terminal, with or without colours."""
    with Stream.from_config(tasks, values={"tag": "<2en>"}, tasks=["de_en"]) as stream:
        for line in debug(stream, n_lines=9):
            for is_plain in (False, True):
                _, *parts = line_parts(
                    line, only_changes=False, is_plain=is_plain
                )  # but for the path, which is whole
                shown = printed(parts, width)
                assert too_wide(shown, width) == []
                assert all(word in shown for word in ("before", "after"))


def test_a_table_shows_every_step(volt_stream, tasks):
    """`volt stream debug` shows dropped and unfit lines with the step that dropped them, and
    escapes control characters."""
    shown = volt_stream(f"debug {tasks} {SET} --task de_en --lines 9").stdout.decode()
    first, dropped, unfit, hostile = shown.split("\n\n")
    assert first.split("\n")[0].split() == ["de_en", f"{tasks.parent}/a.de:1"]
    assert "[-Ein" in first
    assert "{+<FROM_de> <TO_en>+}" in first
    assert " ".join(dropped.split()).startswith(
        f"de_en {tasks.parent}/a.de:2 step before after length "
    )
    assert " dropped" in dropped
    assert "lower" not in dropped
    assert "unfit  deterministic_segmentation: " in unfit
    assert "table.tsv lacks the word 'unbekannt'" in unfit
    assert "lang_prefix_both" not in unfit
    assert "\\x1b[31mrot" in hostile
    assert "\x1b" not in shown


@pytest.mark.usefixtures("tasks")
def test_json_equals_the_result_of_python(volt_stream):
    """`volt stream debug --json` prints the values of `debug` in Python, for the chosen tasks and
    split."""
    for words, options in (
        ("--task de_en", {"tasks": ["de_en"]}),
        ("--task auto --split valid", {"tasks": ["auto"], "split": "valid"}),
        ("", {}),
    ):
        lines = volt_stream(f"debug tasks.yaml {SET} {words} --lines 3 --json").lines
        with Stream.from_config("tasks.yaml", values={"tag": "<2en>"}, **options) as stream:
            values = [line.to_json() for line in debug(stream, n_lines=3)]
        assert [*map(json.loads, lines)] == json.loads(json.dumps(values))


@pytest.mark.usefixtures("tasks")
def test_the_text_after_the_last_step_is_what_run_writes(volt_stream):
    """The texts after the last step of `volt stream debug` are the lines of `volt stream run` for
    the task."""
    written = Counter(volt_stream(f"run {DE_EN} -q").lines)
    traces = map(json.loads, volt_stream(f"debug {DE_EN} --json").lines)
    assert Counter(text for line in traces for text in line["text"]) == written


@pytest.mark.usefixtures("tasks")
def test_changed_hides_steps_without_effect(volt_stream):
    """`volt stream debug --changed` hides the steps that did not change the line."""
    shown = volt_stream(f"debug {DE_EN} --lines 1 --changed").stdout
    assert b"as it was" not in shown
    assert b"length" not in shown
    assert b"lower" in shown


@pytest.mark.usefixtures("tasks")
def test_a_page_contains_no_script(volt_stream):
    """`volt stream debug --html` writes a page to a file or stdout; it contains no script, whatever
    the lines contain."""
    done = volt_stream(f"debug {DE_EN} --html page.html")
    assert (done.stdout, done.stderr) == (b"", b"wrote page.html\n")
    page = Path("page.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    assert volt_stream(f"debug {DE_EN} --html -").stdout.decode() == page
    both = volt_stream(f"debug {DE_EN} --html again.html --json")
    assert both.stdout == volt_stream(f"debug {DE_EN} --json").stdout != b""
    assert Path("again.html").read_text() == page


@pytest.mark.usefixtures("tasks")
def test_subwords_are_counted(volt_stream):
    """`volt stream vocabulary` writes the counts of N lines to stdout or a file; --top keeps the
    most frequent and the special tokens."""
    lines = volt_stream(f"run {DE_EN} -q").lines
    counts = Counter(token for line in lines for token in line.replace("\t", " ").split(" "))
    ordered = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    rows = volt_stream(f"vocabulary {DE_EN}").lines
    assert rows == [f"{n}\t{token}" for token, n in ordered]
    command = f"vocabulary tasks.yaml {SET}"
    done = volt_stream(f"{command} --task auto --lines 8 --top 1 -o v.tsv")
    assert done.message == "wrote v.tsv: 1 token of 8 lines\n"
    assert Path("v.tsv").read_text() == "8\t<2en>\n"
    mixed = f"{command} --lines 50 -q"
    assert volt_stream(mixed) == volt_stream(f"{mixed} --workers 1")


FAULTS = {
    "over an input": ("debug --html a.de", "a.de: would be written over"),
    "over the configuration": (
        "debug --html tasks.yaml",
        "would be written over tasks.yaml",
    ),
    "both to stdout": (
        "debug --html - --json",
        "--json and --html would both write to stdout",
    ),
    "no lines": ("debug --lines 0", "greater than or equal to 1"),
    "an unknown task": ("debug --task auot", "no task 'auot'; did you mean auto?"),
    "a source": (
        "vocabulary --task wmt",
        "tasks.yaml:3: sources.wmt: is a source, not a task; choose",
    ),
    "counts over an input": ("vocabulary -o table.tsv", "table.tsv: would be written over"),
    "counts over the configuration": (
        "vocabulary -o tasks.yaml",
        "would be written over tasks.yaml",
    ),
    "none at the top": ("vocabulary --top 0", "greater than or equal to 1"),
}


@pytest.mark.parametrize(("arguments", "message"), FAULTS.values(), ids=FAULTS)
def test_wrong_options_write_nothing(volt_stream, tasks, arguments, message):
    """After a wrong option of `debug` or `vocabulary`, the status is 2, stdout is empty, and no
    file is written."""
    before = {path.name: path.read_bytes() for path in tasks.parent.iterdir() if path.is_file()}
    command, _, options = arguments.partition(" ")
    done = volt_stream(f"{command} tasks.yaml {SET} {options}", status=2)
    assert message in " ".join(done.message.split())
    assert done.stdout == b""
    assert all((tasks.parent / name).read_bytes() == content for name, content in before.items())
    assert set(listed(tasks.parent)) <= {*before, "cache"}
