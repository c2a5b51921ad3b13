"""Configurations: what they mean, and that every fault is told with its line and what was meant."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import ConfigError, OutputError
from volt.stream.config.build import Configuration, load_config, parse_config
from volt.stream.config.schema import MOST_WORKERS, first_option, json_schema, transform_schema
from volt.stream.config.schema_text import as_text
from volt.stream.config.yaml import parse
from volt.stream.examples.recipes import RECIPES, write_recipe
from volt.stream.mixing.schedule import Schedule
from volt.stream.reading.faults import Policy, Tally
from volt.stream.reading.probable_pairs import probable_pairs
from volt.stream.running.stream import Stream
from volt.stream.transforms.case import Lower, Title, Upper
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.filters import Length, SkipBlank
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.tags_and_fields import Copy, Multiply, Tag
from volt.stream.transforms.where import Where
from volt_cli import options

FULL = """\
seed: 3
ends: drop
workers: 2
cache: cache
sources:
  wmt:
    path: [a.tsv, b.tsv]
    weight: {kind: linear, points: [[0, 1], [1e3, 2.5]]}
    shuffle: outputs
    epochs: 2
    block_lines: 1_000
    min_fields: 2
    transforms:
      - skip_blank
      - choice:
        - {weight: 0.95}
        - {weight: 4e-2, transforms: [lower: {fields: [1]}]}
        - weight: 0.01
          transforms: [title]
      - tag: "[BT]"
      - multiply: 3
      - copy: {from: 2, to: 1}
  other:
    path: c.tsv
transforms:
  - length: 100
errors: {on_fault: quarantine, quarantine: bad.jsonl, max_share: 0.1}
"""


def test_a_configuration_says_what_the_constructors_say(tmp_path: Path) -> None:
    """Every form of a step, nested choices, schedules and common transforms become the same objects as in Python."""
    for name in "abc":
        (tmp_path / f"{name}.tsv").write_text("x\ty\n")
    (tmp_path / "stream.yaml").write_text(FULL)
    found = load_config(tmp_path / "stream.yaml")
    wmt, other = found.sources
    noise = Choice((Variant(0.95), Variant(0.04, (Lower(fields=(1,)),)), Variant(0.01, (Title(),))))
    steps = (SkipBlank(), noise, Tag(text="[BT]"), Multiply(n=3), Copy(from_=2, to=1))
    assert wmt.transforms == (*steps, Length(max=100))
    assert other.transforms == (Length(max=100),)
    assert wmt.paths == (str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv"))
    assert wmt.weight == Schedule(((0, 1.0), (1000, 2.5)), "linear")
    assert (wmt.shuffle, wmt.epochs, wmt.block_lines, wmt.checks.min_fields) == ("outputs", 2, 1000, 2)
    assert found.policy == Policy("quarantine", str(tmp_path / "bad.jsonl"), None, 0.1)
    assert (found.seed, found.ends, found.n_workers, found.cache) == (3, "drop", 2, tmp_path / "cache")


def test_the_arguments_are_those_of_a_stream() -> None:
    """Every field of a configuration is an argument of Stream."""
    import inspect

    from volt.stream.running.stream import Stream

    assert {field.name for field in fields(Configuration)} <= set(inspect.signature(Stream).parameters)


WMT = "sources:\n  wmt:\n    path: a.tsv\n"
STEPS = WMT + "    transforms:\n      - skip_blank\n"


def source(text: str) -> str:
    """A source with one more key."""
    return f"{WMT}    {text}\n"


def step(text: str) -> str:
    """A source with one more transform."""
    return f"{STEPS}      - {text}\n"


FAULTS = {
    "unknown key": ("sed: 1\n" + WMT, 1, "sed: unknown key; did you mean seed?"),
    "unknown key of a source": (source("wieght: 1"), 4, "sources.wmt.wieght: unknown key; did you mean weight?"),
    "unknown key of a schedule": (
        source("weight:\n      point: [[0, 1]]"), 5, "sources.wmt.weight.point: unknown key; did you mean points?",
    ),
    "unknown key of errors": (WMT + "errors:\n  on_falt: skip\n", 5, "errors.on_falt: unknown key; did you mean"),
    "wrong type": ("seed: x\n" + WMT, 1, "seed: should be a valid integer, not 'x'"),
    "too many workers": ("workers: 1000000000\n" + WMT, 1, "workers: should be less than or equal to 256, not 1000"),
    "true is no number": ("seed: true\n" + WMT, 1, "seed: should be a valid integer, not True"),
    "a number in quotes": (source("weight: '1'"), 4, "sources.wmt.weight: should be a valid number, not '1'"),
    "missing path": ("sources:\n  wmt:\n    weight: 1\n", 2, "sources.wmt: key 'path' is missing; give it"),
    "empty path": ("sources:\n  wmt:\n    path: []\n", 3, "sources.wmt.path: is empty; give at least one"),
    "no sources": ("sources: {}\n", 1, "sources: is empty; give at least one"),
    "sources missing": ("seed: 1\n", 1, "key 'sources' is missing; give it"),
    "source is a list": ("sources:\n  wmt: [a.tsv]\n", 2, "sources.wmt: should be a mapping of keys to values"),
    "a list for everything": ("- a\n", 1, "should be a mapping of keys to values, not ['a']"),
    "bad weight": (source("weight: -1"), 4, "sources.wmt.weight: should be greater than or equal to 0, not -1"),
    "nan weight": (source("weight: .nan"), 4, "sources.wmt.weight: should be a finite number, not nan"),
    "bad schedule": (source("weight: {points: [[5, 1]]}"), 4, "sources.wmt.weight: schedule ((5, 1.0),): samples"),
    "choice of words": (source("shuffle: all"), 4, "sources.wmt.shuffle: should be 'lines', 'outputs' or 'none'"),
    "epochs": (source("epochs: 0"), 4, "sources.wmt.epochs: should be greater than or equal to 1, not 0"),
    "field bounds": (source("min_fields: 3\n    max_fields: 2"), 2, "no line can have that many fields"),
    "policy at odds": (WMT + "errors: {on_fault: quarantine}\n", 4, "errors: on_fault='quarantine' needs a quarantine"),
    "transforms no list": (source("transforms: {lower: }"), 4, "sources.wmt.transforms: should be a valid list"),
    "unknown transform": (step("lwoer"), 6, "transforms[2]: unknown transform 'lwoer'; did you mean lower"),
    "unknown option": (step("lower:\n          feilds: [1]"), 7, "lower.feilds: unknown key; did you mean"),
    "unknown option in a choice": (
        step("choice:\n        - weight: 1\n          transforms:\n          - lower: {x: 1}"), 9,
        "transforms[2].choice[1].transforms[1].lower.x: unknown key; choose from fields, if_cased",
    ),
    "bad weight in a choice": (step("choice:\n        - {weight: -1}"), 7, "weight: -1.0; give a number"),
    "choice of nothing": (step("choice: []"), 6, "choice: is empty; give at least one"),
    "choice of zeros": (step("choice: [{weight: 0}]"), 6, "the weights of the variants sum to 0"),
    "missing option": (step("ratio"), 6, "transforms[2]: key 'max' is missing; give it"),
    "bad regex": (step("regex: 'a(b'"), 6, "'a(b' is no regular expression: missing ), unterminated"),
    "bad regex by key": (step("match:\n          pattern: '*'"), 7, "match.pattern: '*' is no regular"),
    "bad number": (step("multiply:\n          n: 0"), 7, "multiply.n: 0; give 1 or more"),
    "two names": (step("{lower: , upper: }"), 6, "a transform is a name, or a name with its options, not"),
    "a number for a transform": (step("3"), 6, "a transform is a name, or a name with its options, not"),
    "field 0": (step("lower:\n          fields: [1, 0]"), 7, "lower.fields: 0; fields count from 1"),
    "a field beyond all": (step("copy: {from: 1, to: 70000}"), 6, "to: 70000; a field's number is 65,536 at most"),
    "field 0 as the first option": (step("lower: [0]"), 6, "lower: fields: 0; fields count from 1"),
    "field 0 of one option": (step("documents:\n          id_field: 0"), 7, "id_field: 0; fields count from 1"),
    "wrong type in a list": (step("lower: {fields: [1, 2.5]}"), 6, "lower.fields[2]: should be a valid"),
    "a name of no field": (step("lower: {fields: [1, x]}"), 6, "lower.fields[2]: no field is called 'x'; fields"),
    "a name of another field": (
        "sources:\n  a:\n    pair: {src: a, tgt: b}\n    transforms:\n    - copy: {from: srk}\n", 5,
        "copy.from: no field is called 'srk'; did you mean src?",
    ),
    "path and pair": (source("pair: {src: a, tgt: b}"), 2, "wmt: path and pair are both given; leave one out"),
    "half a pair": ("sources:\n  a:\n    pair: {src: a}\n", 3, "a.pair: has fewer than two files"),
    "a pattern for a field": ("sources: {a: {pair: {src: a, tgt: b*}}}\n", 1, "pair.tgt: b*: one file belongs to"),
    "an unset variable": ("sources: {a: {path: $NOWHERE_1/a}}\n", 1, "$NOWHERE_1/a: the variable NOWHERE_1 is not set"),
    "each and no star": ("each:\n  path: a.tsv\n", 2, "each.path: a.tsv: holds not one *; put it where"),
    "each and no file": ("each: {path: nowhere/*.tsv}\n", 1, "each.path: nowhere/*.tsv: no file matches this pattern"),
    "each and no path": ("each: {weight: 2}\n", 1, "each: give a path with one *, or a pair of such"),
    "each and many": ("each:\n  path: [a*, b*]\n", 2, "each.path: should be one pattern, not a list"),
    "each and cold": ("each:\n  path: a*\n  temperature: 0\n", 3, "each.temperature: should be greater than 0"),
    "missing vocabulary": (step("encode: no.volt"), 6, "no.volt: no such file; check the path"),
    "missing user file": (step("user: {file: no.py, function: f}"), 6, "no.py: no such file"),
    "common transforms": (WMT + "transforms:\n  - lwer\n", 5, "transforms[1]: unknown transform 'lwer'"),
    "key given twice": (source("path: b.tsv"), 4, "key 'path' is given twice; first in line 3"),
    "tab": ("sources:\n\twmt: 1\n", 2, "cannot start any token; indent with spaces"),
    "open bracket": ("sources: [1\n", 1, "no YAML: while parsing a flow sequence"),
    "a tag": ("sources: !!python/object:os.system x\n", 1, "could not determine a constructor"),
    "control character": ("sources:\n  wmt: \x01\n", 2, "no YAML: special characters are not allowed"),
    "empty file": ("# nothing\n", 1, "the file is empty"),
    "two documents": (WMT + "---\nseed: 1\n", 4, "expected a single document"),
    "a key that is a list": ("? [1]\n: 2\n", 1, "a key must be text"),
    "an alias of itself": ("seed: &a\n  - *a\n", 1, "aliases make the file endless"),
    "octal or not": (source("epochs: 010"), 4, "010 starts with 0: octal or not; write the number without"),
    "octal in YAML 1.2": (source("epochs: 0o10"), 4, "0o10 starts with 0"),
    "a number with zeros": (step("tag: 007"), 6, "007 starts with 0: octal or not"),
    "sexagesimal": ("seed: 1:30\n" + WMT, 1, "1:30 is 90 in YAML 1.1 and text in YAML 1.2; write 90, or quote it"),
    "sexagesimal fraction": (source("weight: 1:30.5"), 4, "1:30.5 is 90.5 in YAML 1.1 and text in YAML 1.2"),
    "a number for text": (step("tag: 7"), 6, "tag: should be a valid string, not 7; quote it"),
    "Norway": (source("path: [sv, no]").replace("    path: a.tsv\n", ""), 3, "no is false or text; write false"),
    "yes": (source("blank: Yes"), 4, "Yes is true or text; write true, or quote it if it is text: 'Yes'"),
    "on": ("cache: on\n" + WMT, 1, "on is true or text; write true, or quote it"),
    "merge keys without end": (
        "x:\n  a0: &a0 {x: 1}\n" + "".join(f"  a{i}: &a{i} {{<<: *a{i - 1}}}\n" for i in range(1, 2000)) + "<<: *a1999",
        1, "merge keys within merge keys",
    ),
    "a bomb": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)
        ), 1, "aliases make the file endless, or far too large",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), FAULTS.values(), ids=FAULTS)
def test_every_fault_is_told_with_its_line(text: str, line: int, message: str) -> None:
    """file:line, the place, what was found, and what to do."""
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    told = [row for row in str(error.value).split("\n") if message in row]
    assert told, str(error.value)
    assert told[0].startswith(f"stream.yaml:{line}: "), told[0]


def test_faults_are_told_together_in_the_order_of_lines() -> None:
    """One run tells of all that can be found at once."""
    text = "sed: 1\n" + STEPS + "      - lwoer\n      - multiply: 0\n    wieght: 2\n"
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    lines = [int(row.split(":")[1]) for row in str(error.value).split("\n")]
    assert lines == [1, 7, 8, 9]
    with pytest.raises(ConfigError, match=r":29: k28: unknown key.*\nand 13 more like these$"):
        parse_config("".join(f"k{number}: 1\n" for number in range(42)))


@pytest.mark.parametrize(
    "text", ["[" * 9999, "- " * 9999, "{" * 9999, "a:\n" + "".join(" " * n + "a:\n" for n in range(1, 1500))]
)
def test_values_within_values_have_an_end(text: str) -> None:
    """A file that is nested deeper than anybody writes is refused in words, with the line where it is too deep."""
    line = 50 if text.startswith("a:") else 1
    with pytest.raises(
        ConfigError, match=rf"stream\.yaml:{line}: values within values, more than 50 deep; write it flat"
    ):
        parse_config(text)


def test_names_that_yaml_takes_for_something_else_stay_text() -> None:
    """Keys are text whatever they look like; quoted values are too, and numbers may have underscores."""
    text = """sources: {no: {path: 'no'}, 1_0: {path: "010"}, on: {path: '1:30', block_lines: 1_000, weight: 0.5}}"""
    no, ten, on = parse_config(text).sources
    assert [source.name for source in (no, ten, on)] == ["no", "1_0", "on"]
    assert (no.paths, ten.paths, on.paths, on.block_lines) == (("no",), ("010",), ("1:30",), 1000)


def test_files_are_looked_for(tmp_path: Path) -> None:
    """A source file, model or function that is not there is told with its line before anything runs."""
    (tmp_path / "mine.py").write_text("def one(fields): return fields\n")
    (tmp_path / "bad.volt").write_text("{}")
    config = tmp_path / "stream.yaml"
    config.write_text(STEPS + "      - user: {file: mine.py, function: won}\n      - encode: bad.volt\n")
    with pytest.raises(ConfigError) as error:
        load_config(config)
    rows = str(error.value).split("\n")
    assert [row.split(":")[1] for row in rows] == ["3", "6", "7"]
    assert "a.tsv: no such file" in rows[0]
    assert "no function 'won'; did you mean one?" in rows[1]
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml")
    config.write_bytes(b"seed: 1\nx: \xff\n")
    with pytest.raises(ConfigError, match=r"stream.yaml:2: not UTF-8 text"):
        load_config(config)


@pytest.mark.parametrize(
    ("place", "told"),
    [("no/bad.jsonl", "no such folder"), (".", "it is a folder"), ("locked/bad.jsonl", "permission denied")],
)
def test_a_place_for_unfit_lines_is_tried_first(
    place: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarantine file that cannot be written is told when a configuration is read, and when a tally is made."""
    monkeypatch.chdir(tmp_path)
    Path("locked").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith("locked"))  # root may write anywhere
    Path("a.tsv").write_text("x\n")
    Path("stream.yaml").write_text(
        f"sources: {{a: {{path: a.tsv}}}}\nerrors: {{on_fault: quarantine, quarantine: {place}}}"
    )
    with pytest.raises(ConfigError, match=rf"stream.yaml:2: errors.quarantine: .*cannot be appended to: {told}"):
        load_config("stream.yaml")
    with pytest.raises(OutputError, match=f"cannot be appended to: {told}"):
        Tally(Policy("quarantine", place))


def test_spm_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sentencepiece, the line that needs it is told, with the pip command."""
    import sys

    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    (tmp_path / "spm.model").write_bytes(b"x")
    (tmp_path / "a.tsv").write_text("x\n")
    (tmp_path / "stream.yaml").write_text(STEPS + "      - spm_encode: spm.model\n")
    with pytest.raises(ConfigError, match=r"stream.yaml:6: .*pip install 'volt-vocab\[interop\]'"):
        load_config(tmp_path / "stream.yaml")


def test_merge_keys_and_anchors() -> None:
    """YAML's anchors and merge keys serve to write a common part once."""
    text = WMT + "    transforms: &common\n      - lower\n  other:\n    path: b.tsv\n    transforms: *common\n"
    first, second = parse_config(text).sources
    assert first.transforms == second.transforms == (Lower(),)
    merged = parse("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n", path="f")
    assert merged.value["b"] == {"x": 1, "y": 3}
    assert (merged.line(("b", "x")), merged.line(("b", "y"))) == (1, 4)


SCALARS = st.one_of(st.integers(), st.booleans(), st.none(), st.text(max_size=8), st.floats(allow_nan=False))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_values_are_those_of_safe_load(value: Any) -> None:
    """What is read is what yaml.safe_load reads (but keys are text, and dates stay text), and all has a line."""
    import yaml

    text = yaml.safe_dump(value, allow_unicode=True)
    if yaml.safe_load(text) is None:
        return
    document = parse(text, path="f")
    assert document.value == yaml.safe_load(text)
    assert all(1 <= line <= text.count("\n") + 1 for line in document.lines.values())


def test_a_pair_names_its_fields(tmp_path: Path) -> None:
    """Files of a pair are found, and options of transforms name fields instead of numbering them, also common ones."""
    for name in ("a.de", "a.en", "b.tsv"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "stream.yaml").write_text(
        """\
sources:
  wmt:
    pair: {src: a.de, tgt: a.en}
    transforms: [lower: [tgt], copy: {from: tgt, to: src}, choice: [{weight: 1, transforms: [title: {if_cased: src}]}]]
  same:
    pair: {tgt: a.en, src: a.de}
transforms:
  - upper: {fields: [src]}
""".replace(
            "[lower: [tgt], copy: {from: tgt, to: src}, choice:", "[lower: [tgt], {copy: {from: tgt, to: src}}, choice:"
        )
    )
    wmt, same = load_config(tmp_path / "stream.yaml").sources
    assert (wmt.paths, wmt.names) == ((str(tmp_path / "a.de"), str(tmp_path / "a.en")), ("src", "tgt"))
    titled = Choice((Variant(1.0, (Title(if_cased=1),)),))
    assert wmt.transforms == (Lower(fields=(2,)), Copy(from_=2, to=1), titled, Upper(fields=(1,)))
    assert same.transforms == (Upper(fields=(2,)),)
    document = """sources: {wmt: {pair: {src: a.de, tgt: a.en}, transforms: [where: "src <> ''"]}}"""
    (tmp_path / "where.yaml").write_text(document)
    assert load_config(tmp_path / "where.yaml").sources[0].transforms == (Where("src <> ''", ("src", "tgt")),)
    (tmp_path / "a.en").unlink()
    with pytest.raises(ConfigError, match=r"stream.yaml:3: sources.wmt.pair.tgt: .*a.en: no such file"):
        load_config(tmp_path / "stream.yaml")


def test_each_makes_a_source_of_every_file(tmp_path: Path) -> None:
    """Sources are called what * stands for, which {name} is too; weights are the lines' shares at the temperature."""
    for name, n in (("de", 1600), ("no", 100), ("x.y", 1)):
        (tmp_path / f"mono.{name}.tsv").write_text("x\n" * n)
        (tmp_path / f"{name}.src").write_text("x\n" * n)
        (tmp_path / f"{name}.tgt").write_text("x\n" * n)
    (tmp_path / "stream.yaml").write_text("""\
sources: {first: {path: de.src}}
each: {path: mono.*.tsv, temperature: 2, weight: 3, epochs: 1, transforms: [tag: "<2{name}>"]}
""")
    first, *found = load_config(tmp_path / "stream.yaml").sources
    assert first.weight == 1
    assert [source.name for source in found] == ["de", "no", "x.y"]
    assert [source.paths for source in found] == [(str(tmp_path / f"mono.{s.name}.tsv"),) for s in found]
    assert [source.weight for source in found] == pytest.approx([3 * 40 / 51, 3 * 10 / 51, 3 * 1 / 51])
    assert [source.transforms for source in found] == [(Tag(text=f"<2{source.name}>"),) for source in found]
    assert {source.epochs for source in found} == {1}
    (tmp_path / "stream.yaml").write_text(
        "each: {pair: {a: '*.src', b: '*.tgt'}, weight: {points: [[0, 1], [9, 2]]}, transforms: [lower: [b]]}"
    )
    de, no, _ = load_config(tmp_path / "stream.yaml").sources
    assert (de.paths, no.names) == ((str(tmp_path / "de.src"), str(tmp_path / "de.tgt")), ("a", "b"))
    assert isinstance(no.weight, Schedule)
    assert no.weight.points == ((0, pytest.approx(100 / 1701)), (9, pytest.approx(200 / 1701)))
    assert no.transforms == (Lower(fields=(2,)),)
    (tmp_path / "de.tgt").unlink()
    with pytest.raises(ConfigError, match=r"stream.yaml:1: each.pair.b: .*de.tgt: no such file"):
        load_config(tmp_path / "stream.yaml")
    (tmp_path / "stream.yaml").write_text("sources: {de: {path: de.src}}\neach: {path: '*.src'}")
    with pytest.raises(ConfigError, match=r"stream.yaml:2: each: the source 'de' is among sources, too"):
        load_config(tmp_path / "stream.yaml")


def test_home_and_variables_are_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` and `$NAME` stand for folders in every path that a configuration names."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CORPORA_1", str(tmp_path))
    (tmp_path / "a.tsv").write_text("x\n")
    (tmp_path / "f.py").write_text("def f(fields): return fields\n")
    text = """\
sources: {a: {path: ~/a.tsv, transforms: [user: {file: $CORPORA_1/f.py, function: f}]}, b: {path: "${CORPORA_1}/*.tsv"}}
cache: ~/cache
errors: {on_fault: quarantine, quarantine: $CORPORA_1/bad}
"""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "stream.yaml").write_text(text)
    found = load_config(tmp_path / "inside" / "stream.yaml")
    assert [source.paths for source in found.sources] == [(str(tmp_path / "a.tsv"),), (str(tmp_path / "*.tsv"),)]
    assert (found.cache, found.policy.quarantine) == (tmp_path / "cache", str(tmp_path / "bad"))
    for unset in ("cache: $NOWHERE_1", "errors: {on_fault: quarantine, quarantine: $NOWHERE_1/x}"):
        with pytest.raises(ConfigError, match=r"stream.yaml:4: .*the variable NOWHERE_1 is not set; set it"):
            parse_config(WMT + unset)


@pytest.mark.parametrize(
    ("paths", "pairs"),
    [
        (["a.no", "a.sl"], [("a.no", "a.sl")]),
        (["x/train_en.txt.gz", "x/train_de.txt.gz"], [("x/train_en.txt.gz", "x/train_de.txt.gz")]),
        (["f.deu_Latn", "f.eng_Latn"], [("f.deu_Latn", "f.eng_Latn")]),
        (["a.en", "b.de"], []),
        (["en/a.txt", "de/a.txt"], [("en/a.txt", "de/a.txt")]),
        (["a.gz", "a.xz"], []),
        (["a.01.gz", "a.02.gz"], []),
        (["a.dev.tsv", "a.old.tsv"], []),
    ],
)
def test_files_of_a_pair_that_are_mixed_are_warned_of(
    paths: list[str], pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Where names in one list differ in the language alone, a warning says how to write a pair; a pair has none."""
    assert probable_pairs(paths) == pairs
    warnings = parse_config(f"sources: {{wmt: {{path: {json.dumps(paths)}}}}}").warnings
    assert len(warnings) == len(pairs)
    for warning, pair in zip(warnings, pairs, strict=True):
        assert f"write pair: {{src: {pair[0]}, tgt: {pair[1]}}}" in warning
    assert parse_config("sources: {wmt: {pair: {src: a.no, tgt: a.sl}}}").warnings == ()


# The schema


def test_the_command_line_knows_the_limit_of_workers() -> None:
    """Its constant is the library's."""
    assert options.MOST_WORKERS == MOST_WORKERS


def test_every_key_is_documented() -> None:
    """No key of a configuration or transform lacks a description, in the JSON schema and in the text."""
    schema, text = json_schema(), as_text()
    models = {"(the file)": schema, **schema["$defs"]}
    for name, model in models.items():
        for key, option in model.get("properties", {}).items():
            assert option.get("description"), (name, key)
            assert f"\n  {key}: " in text
    assert set(TRANSFORMS) <= set(models)
    for name in TRANSFORMS:
        assert f"\n{name} — " in text
        assert transform_schema(name)["description"]
        assert first_option(name) in transform_schema(name)["properties"]


def _validator() -> Callable[[Any], None]:
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft202012Validator(json_schema()).validate  # type: ignore[no-any-return]


def test_the_json_schema_takes_what_the_program_takes(tmp_path: Path) -> None:
    """All examples fit the JSON schema, and a misspelt key does not."""
    jsonschema, validate = pytest.importorskip("jsonschema"), _validator()
    documents = [parse(FULL, path="f").value]
    for name in RECIPES:
        path, *_ = write_recipe(name, tmp_path / name)
        documents.append(parse(path.read_text(), path="f").value)
    for document in documents:
        validate(json.loads(json.dumps(document)))
    documents[0]["sources"]["wmt"]["transforms"][1]["choice"][1]["transforms"][0]["lower"]["feilds"] = [1]
    with pytest.raises(jsonschema.ValidationError):
        validate(documents[0])


def test_what_would_fill_the_memory_is_refused() -> None:
    """Transforms that repeat repeated lines, also within a choice, have an end."""
    for steps in ("{repeat: }, " * 3000, "{choice: [{weight: 1, transforms: [{repeat: 200}]}]}, {repeat: 60}"):
        with pytest.raises(ConfigError, match=r"more than 10,000 lines of one"):
            parse_config(f"sources: {{a: {{path: a, transforms: [{steps}]}}}}")


def test_tables_have_columns(tmp_path: Path) -> None:
    """`columns` names the fields of JSON lines; transforms may name them too, and lines are those of the keys."""
    (tmp_path / "a.jsonl").write_text('{"de": "Haus", "to": {"en": "house"}}\n{"de": "Tier", "to": {"en": "animal"}}\n')
    told = (
        "sources: {a: {path: a.jsonl, epochs: 1, columns: {src: de, tgt: to.en}, transforms: [upper: {fields: [tgt]}]}}"
    )
    (tmp_path / "stream.yaml").write_text(told)
    assert sorted(Stream.from_config(tmp_path / "stream.yaml")) == ["Haus\tHOUSE", "Tier\tANIMAL"]
    (tmp_path / "stream.yaml").write_text("sources: {a: {path: a.jsonl, columns: {}}}")
    with pytest.raises(ConfigError, match=r"stream.yaml:1: sources.a.columns: goes with path, and names one field"):
        Stream.from_config(tmp_path / "stream.yaml")
