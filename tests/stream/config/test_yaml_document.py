"""YAML is parsed as by safe_load, with the line of each value; keys and ambiguous values stay text."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.configurations import WMT, parse_config

from volt.errors import ConfigError
from volt.stream.config.yaml_document import parse_yaml
from volt.stream.transforms.case import Lower


@pytest.mark.parametrize(
    "text",
    [
        "[" * 9999,
        "[" * 51 + "]" * 51,
        "- " * 9999,
        "{" * 9999,
        "a:\n" + "".join(" " * n + "a:\n" for n in range(1, 1500)),
    ],
)
def test_deep_nesting_is_refused(text):
    """parse_yaml accepts values nested 50 deep; deeper values are refused with the line of the
    first of them."""
    line = 50 if text.startswith("a:") else 1
    with pytest.raises(
        ConfigError, match=rf"stream\.yaml:{line}: values are nested more than 50 deep; nest less"
    ):
        parse_config(text)
    assert parse_yaml("[" * 50 + "]" * 50, path="f").value
    within = "a: &a " + "[" * 25 + "]" * 25 + "\nb: "
    assert parse_yaml(within + "[" * 25 + "*a" + "]" * 25, path="f").value["b"]
    with pytest.raises(ConfigError, match="aliases make the file endless"):
        parse_yaml(within + "[" * 26 + "*a" + "]" * 26, path="f")


def test_keys_and_quoted_values_are_text():
    """Keys and quoted values that look like numbers are text; numbers may have underscores."""
    text = """sources: {no: {path: 'no'}, 1_0: {path: "010"}, on: {path: '1:30', block_lines: 1_000, weight: 0.5}}"""
    no, ten, on = parse_config(text).sources
    assert [source.name for source in (no, ten, on)] == ["no", "1_0", "on"]
    assert (no.paths, ten.paths, on.paths, on.block_lines) == (("no",), ("010",), ("1:30",), 1000)


def test_merge_keys_and_anchors():
    """Anchors and merge keys copy values, with the lines of the originals."""
    text = (
        WMT
        + "    transforms: &common\n      - lower\n  other:\n    path: b.tsv\n    transforms: *common\n"
    )
    first, second = parse_config(text).sources
    assert first.transforms == second.transforms == (Lower(),)
    merged = parse_yaml("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n", path="f")
    assert merged.value["b"] == {"x": 1, "y": 3}
    assert (merged.find_line(("b", "x")), merged.find_line(("b", "y"))) == (1, 4)


NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")  # which YAML 1.1 takes for text
TEXTS = st.text(max_size=8).filter(lambda text: not NUMBER.fullmatch(text))
SCALARS = st.one_of(st.integers(), st.booleans(), st.none(), TEXTS, st.floats(allow_nan=False))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
@example([{"\x85": False}, {"\x85": None, "\x86": None}])
@example(["\x85", "\x85", 0])
def test_values_equal_safe_load(value):
    """parse_yaml returns the values of yaml.safe_load, and a line for each."""
    import yaml

    text = yaml.safe_dump(value, allow_unicode=True)
    if yaml.safe_load(text) is None:
        return
    document = parse_yaml(text, path="f")
    assert document.value == yaml.safe_load(text)
    assert all(1 <= line <= text.count("\n") + 1 for line in document.lines.values())
