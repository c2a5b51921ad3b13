"""Every fault of a configuration is reported with its line and what was meant."""

from __future__ import annotations

import pytest
from configurations import STEPS, WMT

from volt.errors import ConfigError
from volt.stream.config.configuration import parse_config


def source(text: str) -> str:
    """A source with one more key."""
    return f"{WMT}    {text}\n"


def step(text: str) -> str:
    """A source with one more transform."""
    return f"{STEPS}      - {text}\n"


FAULTS = {
    "unknown key": ("sed: 1\n" + WMT, 1, "sed: unknown key; did you mean seed?"),
    "unknown key of a source": (
        source("wieght: 1"),
        4,
        "sources.wmt.wieght: unknown key; did you mean weight?",
    ),
    "unknown key of a schedule": (
        source("weight:\n      point: [[0, 1]]"),
        5,
        "sources.wmt.weight.point: unknown key; did you mean points?",
    ),
    "unknown key of errors": (
        WMT + "errors:\n  on_falt: skip\n",
        5,
        "errors.on_falt: unknown key; did you mean",
    ),
    "wrong type": ("seed: x\n" + WMT, 1, "seed: should be a valid integer, not 'x'"),
    "true is no number": ("seed: true\n" + WMT, 1, "seed: should be a valid integer, not True"),
    "a number in quotes": (
        source("weight: '1'"),
        4,
        "sources.wmt.weight: should be a valid number, not '1'",
    ),
    "missing path": (
        "sources:\n  wmt:\n    weight: 1\n",
        2,
        "sources.wmt: key 'path' is missing; give it",
    ),
    "empty path": (
        "sources:\n  wmt:\n    path: []\n",
        3,
        "sources.wmt.path: is empty; give at least one",
    ),
    "no sources": ("sources: {}\n", 1, "sources: is empty; give at least one"),
    "sources missing": ("seed: 1\n", 1, "key 'sources' is missing; give it"),
    "source is a list": (
        "sources:\n  wmt: [a.tsv]\n",
        2,
        "sources.wmt: should be a mapping of keys to values",
    ),
    "a list for everything": ("- a\n", 1, "should be a mapping of keys to values, not ['a']"),
    "bad weight": (
        source("weight: -1"),
        4,
        "sources.wmt.weight: should be greater than or equal to 0, not -1",
    ),
    "nan weight": (
        source("weight: .nan"),
        4,
        "sources.wmt.weight: should be a finite number, not nan",
    ),
    "bad schedule": (
        source("weight: {points: [[5, 1]]}"),
        4,
        "sources.wmt.weight: schedule ((5, 1.0),): samples",
    ),
    "choice of words": (
        source("shuffle: all"),
        4,
        "sources.wmt.shuffle: should be 'lines', 'outputs' or 'none'",
    ),
    "field bounds": (source("min_fields: 3\n    max_fields: 2"), 2, "no line can meet both limits"),
    "policy at odds": (
        WMT + "errors: {on_fault: quarantine}\n",
        4,
        "errors: on_fault='quarantine': give a",
    ),
    "transforms no list": (
        source("transforms: {lower: }"),
        4,
        "sources.wmt.transforms: should be a valid list",
    ),
    "unknown transform": (
        step("lwoer"),
        6,
        "transforms[2]: unknown transform 'lwoer'; did you mean lower",
    ),
    "unknown option": (
        step("lower:\n          feilds: [1]"),
        7,
        "lower.feilds: unknown key; did you mean",
    ),
    "unknown option in a choice": (
        step("choice:\n        - weight: 1\n          transforms:\n          - lower: {x: 1}"),
        9,
        "transforms[2].choice[1].transforms[1].lower.x: unknown key; choose from fields, if_cased",
    ),
    "bad weight in a choice": (
        step("choice:\n        - {weight: -1}"),
        7,
        "weight: -1.0; give a number",
    ),
    "choice of nothing": (step("choice: []"), 6, "choice: is empty; give at least one"),
    "choice of zeros": (step("choice: [{weight: 0}]"), 6, "the weights of the variants sum to 0"),
    "missing option": (step("ratio"), 6, "transforms[2]: key 'max' is missing; give it"),
    "bad regex": (
        step("regex: 'a(b'"),
        6,
        "'a(b' is not a regular expression: missing ), unterminated",
    ),
    "bad regex by key": (
        step("match:\n          pattern: '*'"),
        7,
        "match.pattern: '*' is not a regular",
    ),
    "bad number": (
        step("multiply:\n          n: 0"),
        7,
        "multiply.n: 0; give a number from 1 to 10,000",
    ),
    "two names": (
        step("{lower: , upper: }"),
        6,
        "expected a name, or one name with its indented options",
    ),
    "a number for a transform": (
        step("3"),
        6,
        "expected a name, or one name with its indented options",
    ),
    "field 0": (
        step("lower:\n          fields: [1, 0]"),
        7,
        "lower.fields: 0; fields count from 1",
    ),
    "a field beyond all": (
        step("copy: {from: 1, to: 70000}"),
        6,
        "to: 70000; a field's number is 65,536 at most",
    ),
    "field 0 as the first option": (step("lower: [0]"), 6, "lower: fields: 0; fields count from 1"),
    "field 0 of one option": (
        step("documents:\n          id_field: 0"),
        7,
        "id_field: 0; fields count from 1",
    ),
    "wrong type in a list": (
        step("lower: {fields: [1, 2.5]}"),
        6,
        "lower.fields[2]: should be a valid",
    ),
    "a name of no field": (
        step("lower: {fields: [1, x]}"),
        6,
        "lower.fields[2]: no field is called 'x'; give",
    ),
    "a name of another field": (
        "sources:\n  a:\n    pair: {src: a, tgt: b}\n    transforms:\n    - copy: {from: srk}\n",
        5,
        "copy.from: no field is called 'srk'; did you mean src?",
    ),
    "path and pair": (
        source("pair: {src: a, tgt: b}"),
        2,
        "wmt: path and pair are both given; remove one of them",
    ),
    "half a pair": ("sources:\n  a:\n    pair: {src: a}\n", 3, "a.pair: has fewer than two files"),
    "a pattern for a field": (
        "sources: {a: {pair: {src: a, tgt: b*}}}\n",
        1,
        "pair.tgt: b*: a field takes one file",
    ),
    "an unset variable": (
        "sources: {a: {path: $NOWHERE_1/a}}\n",
        1,
        "$NOWHERE_1/a: the variable NOWHERE_1 is not set",
    ),
    "each and no star": (
        "each:\n  path: a.tsv\n",
        2,
        "each.path: a.tsv: does not contain exactly one *; put",
    ),
    "each and no file": (
        "each: {path: nowhere/*.tsv}\n",
        1,
        "each.path: nowhere/*.tsv: no file matches this pattern",
    ),
    "each and no path": (
        "each: {weight: 2}\n",
        1,
        "each: give a path with one *, or a pair of such",
    ),
    "each and many": (
        "each:\n  path: [a*, b*]\n",
        2,
        "each.path: should be one pattern, not a list",
    ),
    "missing vocabulary": (step("encode: no.volt"), 6, "no.volt: no such file; check the path"),
    "missing user file": (step("user: {file: no.py, function: f}"), 6, "no.py: no such file"),
    "common transforms": (
        WMT + "transforms:\n  - lwer\n",
        5,
        "transforms[1]: unknown transform 'lwer'",
    ),
    "key given twice": (source("path: b.tsv"), 4, "key 'path' repeats line 3; remove one"),
    "tab": ("sources:\n\twmt: 1\n", 2, "cannot start any token; indent with spaces"),
    "open bracket": ("sources: [1\n", 1, "not YAML: while parsing a flow sequence"),
    "a tag": ("sources: !!python/object:os.system x\n", 1, "could not determine a constructor"),
    "control character": (
        "sources:\n  wmt: \x01\n",
        2,
        "not YAML: special characters are not allowed",
    ),
    "empty file": ("# nothing\n", 1, "the file is empty"),
    "two documents": (WMT + "---\nseed: 1\n", 4, "expected a single document"),
    "a key that is a list": ("? [1]\n: 2\n", 1, "a key must be text"),
    "an alias of itself": ("seed: &a\n  - *a\n", 1, "aliases make the file endless"),
    "octal or not": (
        source("epochs: 010"),
        4,
        "010 starts with 0, so it may be octal; write the number without",
    ),
    "octal in YAML 1.2": (source("epochs: 0o10"), 4, "0o10 starts with 0"),
    "a number with zeros": (step("tag: 007"), 6, "007 starts with 0, so it may be octal"),
    "sexagesimal": (
        "seed: 1:30\n" + WMT,
        1,
        "1:30 is 90 in YAML 1.1 and text in YAML 1.2; write 90, or quote it",
    ),
    "sexagesimal fraction": (
        source("weight: 1:30.5"),
        4,
        "1:30.5 is 90.5 in YAML 1.1 and text in YAML 1.2",
    ),
    "a number for text": (step("tag: 7"), 6, "tag: should be a valid string, not 7; quote it"),
    "Norway": (
        source("path: [sv, no]").replace("    path: a.tsv\n", ""),
        3,
        "no is false or text; write false",
    ),
    "yes": (
        source("blank: Yes"),
        4,
        "Yes is true or text; write true, or quote it if it is text: 'Yes'",
    ),
    "on": ("cache: on\n" + WMT, 1, "on is true or text; write true, or quote it"),
    "merge keys without end": (
        "x:\n  a0: &a0 {x: 1}\n"
        + "".join(f"  a{i}: &a{i} {{<<: *a{i - 1}}}\n" for i in range(1, 2000))
        + "<<: *a1999",
        1,
        "merge keys are nested too deep",
    ),
    "a bomb": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n"
            for a, b in zip("abcdef", "bcdefg", strict=True)
        ),
        1,
        "aliases make the file endless, or far too large",
    ),
}


@pytest.mark.parametrize(("text", "line", "message"), FAULTS.values(), ids=FAULTS)
def test_every_fault_is_reported_with_its_line(text: str, line: int, message: str) -> None:
    """file:line, the place, what was found, and what to do."""
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    error_text = [row for row in str(error.value).split("\n") if message in row]
    assert error_text, str(error.value)
    assert error_text[0].startswith(f"stream.yaml:{line}: "), error_text[0]


def test_faults_are_reported_together_in_the_order_of_lines() -> None:
    """One run tells of all that can be found at once."""
    text = "sed: 1\n" + STEPS + "      - lwoer\n      - multiply: 0\n    wieght: 2\n"
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    lines = [int(row.split(":")[1]) for row in str(error.value).split("\n")]
    assert lines == [1, 7, 8, 9]
    with pytest.raises(ConfigError, match=r":29: k28: unknown key.*\nand 13 more like these$"):
        parse_config("".join(f"k{number}: 1\n" for number in range(42)))
    with pytest.raises(
        ConfigError, match=r"\nstream.yaml:29: k28: unknown key; choose from [^\n]*$"
    ):
        parse_config("".join(f"k{number}: 1\n" for number in range(29)))


@pytest.mark.parametrize(("n", "shown"), [(58, f"'{'x' * 58}'"), (59, f"'{'x' * 56}…")])
def test_long_values_are_shortened(n: int, shown: str) -> None:
    """A value of up to 60 characters is shown as it is."""
    with pytest.raises(ConfigError, match=f"seed: should be a valid integer, not {shown}$"):
        parse_config(f"seed: {'x' * n}\n{WMT}")


def test_transforms_are_checked_beside_other_faults() -> None:
    """Names of fields, defaults and languages of tasks and pairs are known, though another key is wrong."""
    text = (
        "sed: 1\nsources: {s: {pair: {de: a, en: b}, transforms: [lower: [en]]}}\n"
        "tasks: {t: {type: para, inputs: {i: {src: a, tgt: b}}, src_lang: de, tgt_lang: en, transforms: [lower: [tgt], "
        "lang_prefix_both, tag]}}\ndefaults: {tag: x}\ntransforms: [upper: [src]]\n"
    )
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    assert [row.partition(": ")[2] for row in str(error.value).split("\n")] == [
        "sed: unknown key; did you mean seed?",
        "transforms[1].upper.fields[1]: no field is called 'src'; choose from de, en",
    ]


def test_what_would_fill_the_memory_is_refused() -> None:
    """Transforms that repeat repeated lines, also within a choice, have an end."""
    for steps in (
        "{repeat: }, " * 300,
        "{choice: [{weight: 1, transforms: [{repeat: 200}]}]}, {repeat: 60}",
    ):
        with pytest.raises(ConfigError, match=r"turn one line into more than 10,000 lines"):
            parse_config(f"sources: {{a: {{path: a, transforms: [{steps}]}}}}")
