"""`volt stream debug` and `volt stream vocabulary`: tables, pages, JSON lines, and counts of subwords."""

from __future__ import annotations

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
SET = ("--set", "tag=<2en>")
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
    """No line is wider than the terminal, with colours or with marks."""
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
    """Dropped and unfit lines are shown with their step; control characters are escaped."""
    shown = volt_stream("debug", tasks, *SET, "--task", "de_en", "--lines", 9).stdout.decode()
    first, dropped, unfit, hostile = shown.split("\n\n")
    assert first.split("\n")[0].split() == ["de_en", f"{tasks.parent}/a.de:1"]
    assert "[-Ein" in first
    assert "{+<FROM_de> <TO_en>+}" in first
    assert dropped.split()[:6] == [
        "de_en",
        f"{tasks.parent}/a.de:2",
        "step",
        "before",
        "after",
        "length",
    ]
    assert " dropped" in dropped
    assert "lower" not in dropped
    assert "unfit  deterministic_segmentation: " in unfit
    assert "table.tsv lacks the word 'unbekannt'" in unfit
    assert "lang_prefix_both" not in unfit
    assert "\\x1b[31mrot" in hostile
    assert "\x1b" not in shown


def test_json_has_a_line_for_each_line(volt_stream, tasks):
    """The JSON lines equal the result in Python, for the chosen tasks and split."""
    for options in ({"tasks": ["de_en"]}, {"tasks": ["auto"], "split": "valid"}, {}):
        words = [
            f"--{key.removesuffix('s')}={value[0] if key == 'tasks' else value}"
            for key, value in options.items()
        ]
        found = volt_stream("debug", tasks, *SET, *words, "--lines", 3, "--json").lines
        with Stream.from_config(tasks, values={"tag": "<2en>"}, **options) as stream:
            assert [*map(json.loads, found)] == json.loads(
                json.dumps([line.to_json() for line in debug(stream, n_lines=3)])
            )


def test_the_last_texts_are_lines_of_run(volt_stream, tasks):
    """The texts after the last step are the lines of `volt stream run` for this task."""
    ran = Counter(volt_stream("run", tasks, *SET, "--task", "de_en", "-q").lines)
    found = map(json.loads, volt_stream("debug", tasks, *SET, "--task", "de_en", "--json").lines)
    assert Counter(text for line in found for text in line["text"]) == ran


def test_only_changes(volt_stream, tasks):
    """--changed hides the steps without an effect."""
    shown = volt_stream(
        "debug", tasks, *SET, "--task", "de_en", "--lines", 1, "--changed"
    ).stdout.decode()
    assert "as it was" not in shown
    assert "length" not in shown
    assert "lower" in shown


def test_a_page_is_written_whole(volt_stream, tasks):
    """The page goes to a file or to stdout, and contains no script, whatever the lines contain."""
    error_text = volt_stream("debug", tasks, *SET, "--task", "de_en", "--html", "page.html")
    assert (error_text.stdout, error_text.stderr) == (b"", b"wrote page.html\n")
    page = Path("page.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    assert (
        volt_stream("debug", tasks, *SET, "--task", "de_en", "--html", "-").stdout.decode() == page
    )
    both = volt_stream("debug", tasks, *SET, "--task", "de_en", "--html", "again.html", "--json")
    assert (
        both.stdout == volt_stream("debug", tasks, *SET, "--task", "de_en", "--json").stdout != b""
    )
    assert Path("again.html").read_text() == page


def test_subwords_are_counted(volt_stream, tasks):
    """Counts of N lines go to stdout or a file; --top keeps the most frequent and the special
    tokens."""
    counted = volt_stream("vocabulary", tasks, *SET, "--task", "de_en").lines
    lines = volt_stream("run", tasks, *SET, "--task", "de_en", "-q").lines
    counts = Counter(token for line in lines for token in line.replace("\t", " ").split(" "))
    assert counted == [
        f"{n}\t{token}" for token, n in sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    ]
    error_text = volt_stream(
        "vocabulary", tasks, *SET, "--task", "auto", "--lines", 8, "--top", 1, "-o", "v.tsv"
    )
    assert error_text.stderr == b"wrote v.tsv: 1 token of 8 lines\n"
    assert Path("v.tsv").read_text() == "8\t<2en>\n"
    mixed = ("vocabulary", tasks, *SET, "--lines", 50, "-q")
    assert volt_stream(*mixed).stdout == volt_stream(*mixed, "--workers", 1).stdout


FAULTS = {
    "over an input": (["debug", "--html", "a.de"], "a.de: would be written over"),
    "over the configuration": (
        ["debug", "--html", "tasks.yaml"],
        "would be written over tasks.yaml",
    ),
    "both to stdout": (
        ["debug", "--html", "-", "--json"],
        "--json and --html would both write to stdout",
    ),
    "no lines": (["debug", "--lines", "0"], "greater than or equal to 1"),
    "an unknown task": (["debug", "--task", "auot"], "no task 'auot'; did you mean auto?"),
    "a source": (
        ["vocabulary", "--task", "wmt"],
        "tasks.yaml:3: sources.wmt: is a source, not a task; choose",
    ),
    "counts over an input": (["vocabulary", "-o", "table.tsv"], "table.tsv: would be written over"),
    "counts over the configuration": (
        ["vocabulary", "-o", "tasks.yaml"],
        "would be written over tasks.yaml",
    ),
    "none at the top": (["vocabulary", "--top", "0"], "greater than or equal to 1"),
}


@pytest.mark.parametrize(("arguments", "message"), FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_done_is_reported(volt_stream, tasks, arguments, message):
    """The status is 2; nothing is printed on stdout, and no file is written."""
    before = {path.name: path.read_bytes() for path in tasks.parent.iterdir() if path.is_file()}
    done = volt_stream(arguments[0], tasks.name, *arguments[1:], *SET, status=2)
    assert message in " ".join(done.stderr.decode().split())
    assert done.stdout == b""
    assert {
        path.name: path.read_bytes() for path in tasks.parent.iterdir() if path.is_file()
    } == before
    assert set(listed(tasks.parent)) <= {*before, "cache"}
