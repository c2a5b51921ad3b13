"""Faults of configurations are reported together, each with its line and a remedy.

The files in `faults` contain faulty configurations: `=== title`, then YAML, with the expected
message after `#!` in the line of the fault.
"""

from pathlib import Path

import pytest
from support.configurations import STEPS, WMT, parse_config

from volt.errors import ConfigError

MARK = "  #! "


def faulty():
    """Return title → the text of a configuration, and the line and message of each fault."""
    result = {}
    for path in sorted(Path(__file__).parent.joinpath("faults").glob("*.txt")):
        for case in path.read_text().split("=== ")[1:]:
            title, *lines = case.rstrip("\n").split("\n")
            text = "".join(line.partition(MARK)[0] + "\n" for line in lines)
            marks = [
                (number, message)
                for number, line in enumerate(lines, 1)
                for message in line.split(MARK)[1:]
            ]
            assert f"{path.stem}: {title}" not in result
            result[f"{path.stem}: {title}"] = (text, marks)
    return result


FAULTY = faulty()


@pytest.mark.parametrize("title", FAULTY)
def test_each_fault_is_reported_at_its_line(title, tmp_path, monkeypatch):
    """A configuration's faults are reported in the order of their lines, each once, and nothing
    else is reported."""
    monkeypatch.chdir(tmp_path)
    Path("de.tsv").write_text("de\n")
    text, faults = FAULTY[title]
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    reported = str(error.value).split("\n")
    assert len(reported) == len(faults), reported
    for message, (line, expected) in zip(reported, faults, strict=True):
        assert message.startswith(f"stream.yaml:{line}: ")
        assert expected in message


MERGES = "".join(f"  a{i}: &a{i} {{<<: *a{i - 1}}}\n" for i in range(1, 2000))
BOMB = "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"x:\n  a0: &a0 {{x: 1}}\n{MERGES}<<: *a1999", "merge keys are nested too deep"),
        (
            f"a: &a [x,x,x,x,x,x,x,x,x,x]\n{BOMB}",
            "aliases make the file endless, or far too large",
        ),
    ],
)
def test_files_that_would_grow_are_refused(text, message):
    """A short configuration that merge keys or aliases would make large is refused."""
    with pytest.raises(ConfigError, match=f"^stream.yaml:1: .*{message}"):
        parse_config(text)


@pytest.mark.parametrize(
    "steps",
    [
        "{repeat: }, " * 300,
        "{choice: [{weight: 1, transforms: [{repeat: 200}]}]}, {repeat: 60}",
    ],
)
def test_transforms_that_would_fill_the_memory_are_refused(steps):
    """A configuration whose transforms turn one line into more than 10,000 lines is refused, also
    within a choice."""
    with pytest.raises(ConfigError, match=r"turn one line into more than 10,000 lines"):
        parse_config(f"sources: {{a: {{path: a, transforms: [{steps}]}}}}")


def test_at_most_thirty_faults_are_reported():
    """A configuration's faults of several kinds are sorted by line; after 30 faults, only the
    number of others is reported."""
    text = f"sed: 1\n{STEPS}      - lwoer\n      - multiply: 0\n    wieght: 2\n"
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    assert [int(row.split(":")[1]) for row in str(error.value).split("\n")] == [1, 7, 8, 9]
    for n, end in ((42, "unknown key.*\nand 13 more like these$"), (29, "unknown key.*[^\n]$")):
        with pytest.raises(ConfigError, match=f"\nstream.yaml:29: k28: {end}"):
            parse_config("".join(f"k{number}: 1\n" for number in range(n)))


@pytest.mark.parametrize(("n", "shown"), [(58, f"'{'x' * 58}'"), (59, f"'{'x' * 56}…")])
def test_long_values_are_shortened(n, shown):
    """A message about a value shows at most 60 characters of it."""
    with pytest.raises(ConfigError, match=f"seed: should be a valid integer, not {shown}$"):
        parse_config(f"seed: {'x' * n}\n{WMT}")


PAIRS = """\
sed: 1
sources: {s: {pair: {de: a, en: b}, transforms: [lower: [en]]}}
tasks:
  t:
    type: para
    inputs: {i: {src: a, tgt: b}}
    src_lang: de
    tgt_lang: en
    transforms: [lower: [tgt], lang_prefix_both, tag, length]
defaults: {tag: x, length: {max: MOST}}
transforms: [upper: [src]]
"""


def test_transforms_are_checked_if_another_key_is_wrong():
    """A configuration with a wrong key reports faults of transforms, too; names of fields, defaults
    and languages are known there."""
    sed = "stream.yaml:1: sed: unknown key; did you mean seed?"
    src = "transforms[1].upper.fields[1]: no field is called 'src'; choose from de, en"
    with pytest.raises(ConfigError) as error:
        parse_config(PAIRS.replace("MOST", "9"))
    assert str(error.value).split("\n") == [sed, f"stream.yaml:11: {src}"]
    with pytest.raises(ConfigError, match=r"\nstream.yaml:10: defaults.length.max: should be"):
        parse_config(PAIRS.replace("MOST", "x"))
