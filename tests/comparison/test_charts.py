"""Charts show the comparison's own numbers, compile, and become pictures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import topics_comparison
from vl_convert import vegalite_to_vega

from volt.comparison.page.charts import shares, specifications, write_charts
from volt.errors import OutputError

NAMES = {"entropy", "muv", "profile", "lengths", "fertility"}
lengths_ = st.lists(
    st.builds(
        lambda n, t, p: {"length": n, "types": t, "pieces": p},
        *[st.integers(1, 40)] * 2,
        st.integers(0, 99),
    ),
    min_size=1,
    unique_by=lambda row: row["length"],
)


@pytest.fixture(scope="module")
def data():
    return topics_comparison().as_data()


@pytest.fixture(scope="module")
def specs(data):
    return specifications(data)


def values(spec):
    """The rows of each layer's data."""
    return [spec["datasets"][layer["data"]["name"]] for layer in spec.get("layer", [spec])]


def test_specifications_are_json_and_compile_to_vega(specs):
    """Every chart is plain JSON without NaN, holds its own data, and is valid Vega-Lite."""
    assert set(specs) == NAMES
    for spec in specs.values():
        text = json.dumps(spec, allow_nan=False)
        assert '"url"' not in text
        assert vegalite_to_vega(spec)["marks"]


def test_entropy_holds_every_step_and_every_pick(data, specs):
    """The transport's line is the search's steps; each rule's name stands at the size that it picks."""
    lines, _, picks, *_ = values(specs["entropy"])
    found = {row["size"]: row["value"] for row in lines if row["series"] == "after the transport"}
    assert found == {step["size"]: step["transport_entropy"] for step in data["search"]["steps"]}
    assert {(rule, row["size"]) for row in picks for rule in row["rules"].split(", ")} == {
        (rule, pick["size"]) for rule, pick in data["search"]["picks"].items()
    }
    assert [row["size"] for row in picks if row["chosen"]] == [data["search"]["pick"]["size"]]


def test_every_label_of_a_pick_is_drawn_once(specs):
    """The labels to the left and to the right together are the picks."""
    _, _, picks, *labels = values(specs["entropy"])
    assert [row for layer in labels for row in layer] == picks


def test_muv_lines_are_the_steps(data, specs):
    """MUV is that of the steps times a million, for the transport and for the sweep."""
    rows = next(layer for layer in values(specs["muv"]) if "series" in layer[0])
    for series, name in (("after the transport", "transport_muv"), ("BPE sweep", "muv")):
        found = {row["size"]: row["value"] for row in rows if row["series"] == series}
        assert found == {
            step["size"]: step[name] * 1e6
            for step in data["search"]["steps"]
            if step[name] is not None
        }


def test_profile_is_a_falling_part_of_the_token_table(data, specs):
    """Every point is a token's rank and count, counts fall with rank, and the first and the last used are there."""
    _, rows, _ = values(specs["profile"])
    tokens = data["tokens"]
    true = {
        rank: count for rank, count in zip(tokens["rank"], tokens["count"], strict=True) if count
    }
    assert all(true[row["rank"]] == row["count"] for row in rows)
    assert [row["count"] for row in rows] == sorted((row["count"] for row in rows), reverse=True)
    assert rows[0]["rank"] == min(true)
    assert rows[-1]["rank"] == max(true)


def test_fertility_is_by_source(data, specs):
    """A point per system and source, with the fertility of the JSON."""
    (rows,) = values(specs["fertility"])
    assert {(row["system"], row["source"]): row["fertility"] for row in rows} == {
        (system["name"], source): measures["fertility"]
        for system in data["systems"]
        for source, measures in system["by_source"].items()
    }


@given(lengths_)
@settings(deadline=None)
def test_shares_sum_to_one(lengths):
    """The shares of tokens sum to 1, and those of pieces to 1 or, where nothing occurs, to 0."""
    rows = shares(lengths)
    for name, key in (("tokens", "types"), ("pieces", "pieces")):
        total = sum(row["share"] for row in rows if row["of"] == name)
        assert total == pytest.approx(float(any(row[key] for row in lengths)))


def test_write_charts(data, tmp_path):
    """Every chart becomes a PNG and an SVG that loads nothing, in a folder that is made."""
    written = write_charts(data, tmp_path / "plots")
    assert {path.name for path in written} == {
        f"{name}.{ending}" for name in NAMES for ending in ("png", "svg")
    }
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        else:
            assert ElementTree.parse(path).getroot().tag.endswith("svg")
            assert "href=" not in path.read_text(encoding="utf-8").replace("xlink:href", "")


def test_write_charts_refuses_a_folder_that_cannot_be(data, tmp_path):
    """Where the folder's place is taken by a file, the error says so and names it."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="taken"):
        write_charts(data, tmp_path / "taken")
