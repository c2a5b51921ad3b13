"""The charts show the comparison's numbers, compile, and become pictures."""

import json
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pages import topics_comparison
from vl_convert import vegalite_to_vega

from volt.comparison.page.charts import (
    _CHARACTER,
    WIDTH,
    _place_labels,
    length_shares,
    specifications,
    write_charts,
)
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
    """Return the rows of each layer."""
    return [spec["datasets"][layer["data"]["name"]] for layer in spec.get("layer", [spec])]


def test_specifications_are_json_and_compile_to_vega(specs):
    """Every chart's specification is JSON without NaN, contains its data, and is valid Vega-Lite."""
    assert set(specs) == NAMES
    for spec in specs.values():
        text = json.dumps(spec, allow_nan=False)
        assert '"url"' not in text
        assert vegalite_to_vega(spec)["marks"]


def test_the_entropy_chart_shows_every_step_and_pick(data, specs):
    """The entropy chart has a point for each step of the search, and each rule's name at its size."""
    lines, _, picks, *_ = values(specs["entropy"])
    shown = {row["size"]: row["value"] for row in lines if row["series"] == "after the transport"}
    assert shown == {step["size"]: step["transport_entropy"] for step in data["search"]["steps"]}
    assert {(rule, row["size"]) for row in picks for rule in row["rules"].split(", ")} == {
        (rule, pick["size"]) for rule, pick in data["search"]["picks"].items()
    }
    assert [row["size"] for row in picks if row["chosen"]] == [data["search"]["pick"]["size"]]


def test_every_label_of_a_pick_is_drawn_once(specs):
    """The labels above the points are together all picks."""
    _, _, lines, picks, *labels = values(specs["entropy"])
    assert [row for layer in labels for row in layer] == picks == lines


def test_labels_do_not_overlap():
    """Labels in one line do not overlap, for any sizes, and none leaves the chart to the right."""
    draw = Random(7)
    for _ in range(100):
        sizes = sorted(draw.sample(range(100, 9_000), 7))
        picks = [{"size": size, "rules": "r" * draw.randint(4, 30)} for size in sizes]
        pixels = WIDTH / 9_000
        spans = []
        for pick, (level, side) in zip(picks, _place_labels(picks, 0, pixels), strict=True):
            width = _CHARACTER * len(pick["rules"])
            start = pick["size"] * pixels - width * (side == "right")
            assert start + width <= WIDTH
            spans.append((level, start, start + width))
        spans.sort()
        for (level, _, end), (next_level, start, _) in pairwise(spans):
            assert level < next_level or end <= start


def test_the_muv_chart_shows_the_steps(data, specs):
    """Both lines of the MUV chart have the MUV of the steps, per million tokens."""
    rows = next(layer for layer in values(specs["muv"]) if "series" in layer[0])
    for series, name in (("after the transport", "transport_muv"), ("BPE sweep", "muv")):
        shown = {row["size"]: row["value"] for row in rows if row["series"] == series}
        steps = [step for step in data["search"]["steps"] if step[name] is not None]
        assert shown == {step["size"]: step[name] * 1e6 for step in steps}


def test_the_profile_shows_ranks_and_falling_counts(data, specs):
    """Every point of the profile chart is a token's rank and count, from the first to the last used
    token."""
    _, rows, _ = values(specs["profile"])
    tokens = data["tokens"]
    ranked = zip(tokens["rank"], tokens["count"], strict=True)
    counts = {rank: count for rank, count in ranked if count}
    assert all(counts[row["rank"]] == row["count"] for row in rows)
    shown = [row["count"] for row in rows]
    assert shown == sorted(shown, reverse=True)
    assert (rows[0]["rank"], rows[-1]["rank"]) == (min(counts), max(counts))


def test_the_fertility_chart_shows_systems_and_sources(data, specs):
    """Every point of the fertility chart is the fertility of a system on a source."""
    (rows,) = values(specs["fertility"])
    assert {(row["system"], row["source"]): row["fertility"] for row in rows} == {
        (system["name"], source): measures["fertility"]
        for system in data["systems"]
        for source, measures in system["by_source"].items()
    }


@given(lengths_)
@settings(deadline=None)
def test_length_shares_sum_to_one(lengths):
    """`length_shares` returns shares of tokens that sum to 1, and shares of pieces that sum to 1
    or, without pieces, to 0."""
    rows = length_shares(lengths)
    for name, key in (("tokens", "types"), ("pieces", "pieces")):
        total = sum(row["share"] for row in rows if row["of"] == name)
        assert total == pytest.approx(float(any(row[key] for row in lengths)))


def test_charts_are_written_as_png_and_svg(data, tmp_path):
    """`write_charts` writes every chart as a PNG, and as an SVG that loads nothing, into a new
    folder."""
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


def test_a_folder_that_cannot_be_created_is_an_error(data, tmp_path):
    """The error of `write_charts` names a folder that cannot be created."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="taken"):
        write_charts(data, tmp_path / "taken")
