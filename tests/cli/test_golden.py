"""Golden values: the figures that commands print; names, defaults and bounds of their options."""

import re

import pytest
from support.commands import TEXT, all_commands, status_of
from support.golden import check, digest

from volt.vocabulary import Vocabulary

CONFIG = """\
seed: 3
errors: {on_fault: skip}
batches: {fields: {text: m.volt}, max_tokens: 64, window: 40, bos: true}
sources:
  all: {path: corpus.txt, transforms: [upper, drop: {rate: 0.3}]}
  few: {path: few.txt, max_fields: 1, transforms: [length: {max: 3, unit: words}, repeat: 2]}
"""
TASKS = """\
tasks: {two: {type: mono, inputs: {all: {mono: corpus.txt}}, n_shards: 2, transforms: [drop: {rate: 0.3}, tag: <a>]}}
"""
LINES = {
    "search": ["search corpus.txt --json"],
    "search --all": ["search corpus.txt", "search corpus.txt --all --candidates 9 --force"],
    "search --parity": [
        "search a=corpus.txt b=few.txt --parity -o p.volt",
        "search a=corpus.txt b=few.txt --parity --json -o p.volt",
    ],
    "search --per-source": [
        "search a=corpus.txt b=few.txt --per-source",
        "search a=corpus.txt b=few.txt --per-source --json",
    ],
    "encode": [
        "encode -m m.volt few.txt",
        "encode -m m.volt few.txt corpus.txt -o out/",
        "encode -m m.volt few.txt -o out/",
    ],
    "binarize": ["binarize -m m.volt few.txt -o b --bos 1 --prepend 4"],
    "decode": ["decode -m m.volt --form ids ids.txt"],
    "inspect": ["inspect -m m.volt cat the zoo -n 3", "inspect -m m.volt --json"],
    "export": [
        "export -m m.volt --to fairseq -o dict.txt",
        "export -m m.volt --to tokens -o - --closed",
    ],
    "import": ["import m.volt -o n.volt"],
    "compare": ["compare corpus.txt --heldout few.txt --with bpe:14 --markdown r.md -q"],
    "shrink": [
        "shrink m.volt --to 16 --on corpus.txt -o s.volt",
        "shrink m.volt --to 16 --on few.txt -o s.volt --map s.json --json",
    ],
    "shard": ["shard tasks.yaml --lines 30 --workers 1 -o shards"],
    "translate-input": ["translate-input tasks.yaml --task two ids.txt"],
    "translate-output": ["translate-output tasks.yaml --task two ids.txt"],
    "stream run": [
        "stream run stream.yaml --limit 12 --log-every 6",
        "stream run stream.yaml --limit 5 --seed 4 --json --state a.json",
        "stream run stream.yaml --limit 3 --seed 4 --state a.json --resume",
    ],
    "stream preview": [
        "stream preview stream.yaml -n 2",
        "stream preview stream.yaml -n 2 --from 3 --changed --json",
    ],
    "stream plan": [
        "stream plan stream.yaml --seconds 0.01 --at 99",
        "stream plan stream.yaml --seconds 0.01 --at 1e3 --json",
    ],
    "stream audit": [
        "stream audit stream.yaml --turns 60",
        "stream audit stream.yaml --world 2 --epochs 2 --turns 50 --content --json",
    ],
    "stream trace": [
        "stream trace stream.yaml 7",
        "stream trace stream.yaml 7 --rank 1 --world 2 --json",
    ],
    "stream batches": [
        "stream batches stream.yaml -n 6 --every 3",
        "stream batches stream.yaml -n 6 --state b.json -q",
        "stream batches stream.yaml -n 1 --state b.json --resume",
    ],
    "stream batches --world": ["stream batches stream.yaml -n 4 --world 2 --every 2 --json"],
    "stream example": ["stream example"],
    "stream debug": [
        "stream debug tasks.yaml --lines 2",
        "stream debug tasks.yaml --lines 1 --json",
    ],
    "stream vocabulary": [
        "stream vocabulary tasks.yaml --lines 20",
        "stream vocabulary tasks.yaml --lines 9 --top 3 -o v.tsv",
    ],
    "stream import-dynamicdata": ["stream import-dynamicdata old.yaml -o new.yaml"],
    "stream cache": ["stream cache none", "stream cache none --prune --json"],
    "stream merge-states": [
        "stream run stream.yaml --limit 9 -q --state c.json",
        "stream merge-states c.json -o - --world 2",
    ],
    "stream skip": [
        "stream run stream.yaml --limit 9 -q --state c.json --force",
        "stream skip stream.yaml c.json 9:12 -o d.json",
        "stream trace stream.yaml 10 --state d.json",
    ],
}
UNSTEADY = re.compile(
    r"[\d,.]+ (?=s\b|per second|tokens/s|lines/s|steps/s|MB)|(?<=_second\": )[\d.]+"
    r"|(?<=seconds\": )[\d.]+|(?<=first_wait\": )[\d.]+|(?<=memory\": )\d+"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write two texts, a vocabulary, ids, and two configurations."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    few = "the low cat\nthat had\n\nthe hat zoo\nso\tmad\nhe had a mat\n"
    for name, text in {
        "corpus.txt": TEXT[: len(TEXT) // 5],
        "few.txt": few,
        "ids.txt": "4 5 6\n7\n",
        "stream.yaml": CONFIG,
        "tasks.yaml": TASKS + CONFIG.partition("sources")[0],
        "old.yaml": "tasks: {a: {type: mono, weight: 2}}\ninputs: {i: {mono: few.txt, task: a, size: 9}}\n",
    }.items():
        (tmp_path / name).write_text(text)
    merges = (("t", "h"), ("a", "t</w>"), ("th", "e</w>"), ("c", "at</w>"), ("h", "at</w>"))
    tokens = (
        *"thcasom",
        "e</w>",
        "t</w>",
        "n</w>",
        "d</w>",
        "at</w>",
        "the</w>",
        "cat</w>",
        "hat</w>",
    )
    Vocabulary(merges, tokens, counts=tuple(range(15))).save("m.volt")
    return tmp_path


@pytest.mark.parametrize("command", LINES)
def test_options_and_output_equal_the_stored_ones(command, folder, capfdbinary):
    """The options, defaults, bounds and printed text of each command, except times, equal the
    stored ones."""
    shown = {} if " --" in command else {"options": _options(command)}
    for line in LINES[command]:
        status = status_of(line.split())
        shown[line] = " | ".join(
            filter(None, (_steady(part.decode()) for part in capfdbinary.readouterr()))
        )
        assert status == 0, shown[line]
    check(f"cli {command}", shown)


def _steady(text):
    """Return the printed text without times; a digest of a long text."""
    text = re.sub(r'"seconds": \{[^}]*\}|version:[\d.]+', "_", text)
    text = re.sub(r"^compiling, .*\n|^seconds .*\n(?: {10}.*\n)*", "", text, flags=re.MULTILINE)
    text = re.sub(
        r"[\d.]+e-1\d", "0", UNSTEADY.sub("_ ", text)
    )  # rounding errors, which depend on the processor
    text = re.sub(r"\d+\.\d{5,}", lambda number: f"{float(number[0]):.5g}", text)
    return text if len(text) < 900 else digest(text.encode())


def _options(command):
    """Return names, values, defaults and bounds of a command's options, in order."""
    rows = []
    for option in all_commands()[command].params:
        default = "computed" if callable(option.default) else option.default
        limits = {name: getattr(option, name, None) for name in ("min", "max")}
        bounds = [f"{name} {limit}" for name, limit in limits.items() if limit is not None]
        default = "required" if option.required else "" if default in (None, "") else f"= {default}"
        hidden = "unshown" * (option.show_default is False)
        rows.append(
            " ".join(filter(None, [*option.opts, option.metavar, default, *bounds, hidden]))
        )
    return "; ".join(rows)
