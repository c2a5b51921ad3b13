"""Comparison data → charts: one Vega-Lite specification each, for the page, for PNG and for SVG.

entropy     entropy over size: after the transport, and of plain BPE
muv         marginal utility (Eq. 1) over size
profile     count over rank of the chosen vocabulary's tokens
lengths     for each length, its share of the vocabulary's tokens and of the text's pieces
fertility   pieces per word of every system, by source

The first two are curves with marks at the sizes that the rules pick. A chart consists of layers; a
layer draws rows of data (dicts) as lines, points, bars or texts, and maps their keys to x, y and
colour.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TypeVar

import altair as alt

from volt.comparison.columns import Data
from volt.files.atomic import make_folder, write_atomic

Row = dict[str, Any]
Side = Literal["left", "right"]
_TRANSPORT = "after the transport"  # names of lines
_SWEEP = "BPE sweep"
Drawn = TypeVar("Drawn", alt.Chart, alt.LayerChart)
# The style of all charts. Each colour has a contrast of at least 3:1 on a white and on a dark ground.
CONFIG: dict[str, Any] = json.loads(Path(__file__).with_name("charts.json").read_bytes())
COLORS: list[str] = CONFIG["range"]["category"]
WIDTH = 640
HEIGHT = 300
MAX_POINTS = 400  # points of the profile
_LINE = 14  # pixels of a line of labels
_CHARACTER = 7  # pixels
LONGEST = 16  # characters; longer tokens share the last bar
RARE = 100  # the count at which the profile has a horizontal line


def specifications(data: Data) -> dict[str, Any]:
    """Return the specification of each chart of `Comparison.as_data`, by name."""
    charts: dict[str, alt.LayerChart | alt.Chart] = {"entropy": entropy_chart(data)}
    if any(step["muv"] is not None for step in data["search"]["steps"]):
        charts["muv"] = muv_chart(data)
    charts["profile"] = profile_chart(data["tokens"])
    charts["lengths"] = lengths_chart(data["lengths"])
    charts["fertility"] = fertility_chart(data)
    return {name: chart.to_dict() for name, chart in charts.items()}


def write_charts(data: Data, folder: str | Path) -> list[Path]:
    """Write NAME.png (twice the size, for print) and NAME.svg for every chart, all or none."""
    from vl_convert import vegalite_to_png, vegalite_to_svg

    make_folder(folder)
    pictures = dict[Path, bytes]()
    for name, chart in specifications(data).items():
        pictures[Path(folder, f"{name}.png")] = vegalite_to_png(chart, config=CONFIG, scale=2)
        pictures[Path(folder, f"{name}.svg")] = vegalite_to_svg(chart, config=CONFIG).encode()
    with ExitStack() as together:  # files are replaced when all have been written
        for path, picture in pictures.items():
            file = together.enter_context(write_atomic(path))
            file.write(picture)
            file.flush()
    return list(pictures)


def entropy_chart(data: Data) -> alt.LayerChart:
    curve = data["study"]["curve"]
    steps = data["search"]["steps"]
    rows = [_row(step["size"], step["transport_entropy"], _TRANSPORT) for step in steps]
    for size, entropy in zip(curve["sizes"], curve["entropies"], strict=True):
        if size >= steps[0]["size"]:
            rows.append(_row(size, entropy, _SWEEP))
    return _curve_chart(
        data,
        rows,
        heights={step["size"]: step["entropy"] for step in steps},
        points=[],
        scale=alt.Scale(zero=False),
        title="entropy, nats per character",
        name="entropy",
    )


def muv_chart(data: Data) -> alt.LayerChart:
    """Return the chart of MUV per million tokens over size.

    The axis is logarithmic if all lines are positive.
    """
    curve = data["study"]["curve"]
    first, *steps = data["search"]["steps"]
    steps = [step for step in steps if step["muv"] is not None]
    heights = {step["size"]: step["muv"] * 1e6 for step in steps}
    rows = [_row(step["size"], step["transport_muv"] * 1e6, _TRANSPORT) for step in steps]
    rows += [_row(size, muv, _SWEEP) for size, muv in heights.items()]
    is_positive = all(row["value"] > 0 for row in rows)

    points = []
    for size, muv in zip(curve["sizes"][1:], curve["muv"], strict=True):
        if size >= first["size"] and (muv > 0 or not is_positive):
            points.append({"size": size, "value": muv * 1e6})
    scale = alt.Scale(type="symlog", constant=1)
    if is_positive:
        scale = alt.Scale(type="log", nice=False)
    return _curve_chart(
        data,
        rows,
        heights=heights,
        points=points,
        scale=scale,
        title="MUV, nats per character and million tokens",
        name="MUV",
    )


def _row(size: int, value: float, series: str) -> Row:
    return {"size": size, "value": value, "series": series}


def _curve_chart(
    data: Data,
    rows: list[Row],
    heights: Mapping[int, float],
    *,
    points: list[Row],
    scale: alt.Scale,
    title: str,
    name: str,
) -> alt.LayerChart:
    """Return a chart of lines over size, with the picks of the rules.

    rows: the points of the lines: size, value, and series, the name of the line
    heights: size → the value at which a pick of that size is marked
    points: further points without a line
    scale, title: of the vertical axis
    name: name of the value in tooltips
    """
    ticks = alt.Axis(tickCount=5)
    if scale.to_dict().get("type") == "log":
        powers = [10.0**k for k in range(-6, 7)]
        ticks = alt.Axis(values=[value for power in powers for value in (power, 3 * power)])
    axes: dict[str, Any] = {
        "x": alt.X(
            "size:Q",
            title="vocabulary size, tokens",
            axis=alt.Axis(format=",d", tickCount=6),
            scale=alt.Scale(nice=False, zero=False),
        ),
        "y": alt.Y("value:Q", title=title, scale=scale, axis=ticks),
    }
    tooltip = [_integer_tooltip("size"), alt.Tooltip("value:Q", title=name, format=",.4f")]
    lines = _chart_of(rows).encode(**axes)
    color = alt.Color("series:N", sort=None)
    dash = alt.StrokeDash("series:N", sort=None)

    layers = []
    if points:
        circles = _chart_of(points).mark_circle(color=COLORS[6], opacity=0.35, size=8)
        layers.append(circles.encode(**axes))
    layers.append(lines.mark_line().encode(color=color, strokeDash=dash))
    invisible = lines.mark_point(opacity=0, size=60, filled=True)
    layers.append(invisible.encode(tooltip=["series:N", *tooltip]))
    layers += _pick_layers(data, heights, axes, tooltip)
    description = f"{name} over vocabulary size, with what every rule picks"
    return _with_size(alt.LayerChart(layer=layers), description)


def _pick_layers(
    data: Data, heights: Mapping[int, float], axes: Mapping[str, Any], tooltip: list[alt.Tooltip]
) -> list[alt.Chart]:
    """Return the layers that mark the picked sizes and name their rules."""
    picks = []
    for pick in picked_sizes(data):
        if pick["size"] in heights:
            picks.append({**pick, "value": heights[pick["size"]]})
    if not picks:
        return []

    points = _chart_of(picks).mark_point(filled=True, size=90, color=COLORS[5], opacity=1)
    layers = [
        points.encode(
            **axes,
            tooltip=[alt.Tooltip("rules:N", title="picked by"), *tooltip],
            shape=alt.condition("datum.chosen", alt.value("diamond"), alt.value("circle")),
        )
    ]
    steps = data["search"]["steps"]
    smallest = steps[0]["size"]
    pixels = WIDTH / max(steps[-1]["size"] - smallest, 1)
    for pick, (level, side) in zip(picks, _place_labels(picks, smallest, pixels), strict=True):
        label = _chart_of([pick]).mark_text(baseline="top", align=side)
        layers.append(label.encode(x=axes["x"], y=alt.value(_LINE * level), text="rules:N"))
    lines = _chart_of(picks).mark_rule(color=COLORS[6], opacity=0.4)
    return [lines.encode(x=axes["x"]), *layers]


def _place_labels(picks: list[Row], smallest: int, pixels: float) -> list[tuple[int, Side]]:
    """Return for each label its line from the top, from 0, and its alignment, so that none overlap.

    pixels: the width of a token
    """
    ends = list[float]()  # of the labels of each line, in pixels
    places = list[tuple[int, Side]]()
    for pick in picks:
        x = (pick["size"] - smallest) * pixels
        width = _CHARACTER * len(pick["rules"])
        side: Side = "left"
        start = x
        if x + width > WIDTH:
            side = "right"
            start = x - width
        free = [level for level, end in enumerate(ends) if end <= start]
        level = free[0] if free else len(ends)
        ends[level : level + 1] = [start + width]
        places.append((level, side))
    return places


def picked_sizes(data: Data) -> list[Row]:
    """Return each picked size: index of its step, size, rules, and whether it is chosen."""
    search = data["search"]
    rules = dict[int, list[str]]()
    for rule, pick in search["picks"].items():
        rules.setdefault(pick["index"], []).append(rule)
    return [
        {
            "index": index,
            "size": search["steps"][index]["size"],
            "rules": ", ".join(rules[index]),
            "chosen": index == search["pick"]["index"],
        }
        for index in sorted(rules)
    ]


def profile_chart(tokens: Data) -> alt.LayerChart:
    """Return the chart of count over rank of the chosen vocabulary's used tokens.

    A line marks the count 100.
    """
    ranked = zip(tokens["rank"], tokens["count"], strict=True)
    used = sorted((rank, count) for rank, count in ranked if count)
    rows = [{"rank": rank, "count": count} for rank, count in _thin_out(used)]
    rule = _chart_of([{"count": RARE}]).mark_rule(strokeDash=[4, 4], color=COLORS[6])
    powers = [10**k for k in range(16)]
    decades = alt.Axis(values=powers, format=",d")
    x = alt.X(
        "rank:Q",
        title="rank",
        axis=decades,
        scale=alt.Scale(type="log", nice=False),
    )
    y = alt.Y(
        "count:Q",
        title="count",
        axis=decades,
        scale=alt.Scale(type="log"),
    )
    base = _chart_of(rows).encode(x=x, y=y)
    line = base.mark_line(color=COLORS[0], interpolate="step-after")
    points = base.mark_point(color=COLORS[0], size=40, opacity=0, filled=True)
    layers = [
        rule.encode(y="count:Q"),
        line,
        points.encode(tooltip=[_integer_tooltip("rank"), _integer_tooltip("count")]),
    ]
    description = "Token counts of the chosen vocabulary by rank, both logarithmic"
    return _with_size(alt.LayerChart(layer=layers), description)


def lengths_chart(lengths: Sequence[Row]) -> alt.Chart:
    bars = _chart_of(length_shares(lengths)).mark_bar()
    order = [f"{n}" for n in range(1, LONGEST)] + [f"{LONGEST}+"]
    chart: alt.Chart = bars.encode(
        x=alt.X("label:O", title="length, characters", sort=order, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("of:N", sort=["tokens", "pieces"]),
        y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%")),
        color=alt.Color("of:N", sort=["tokens", "pieces"]),
        tooltip=["label:O", "of:N", alt.Tooltip("share:Q", format=".2%")],
    ).transform_calculate(label=f"datum.length < {LONGEST} ? '' + datum.length : '{LONGEST}+'")
    return _with_size(chart, "Share of tokens and of their pieces by length in characters")


def fertility_chart(data: Data) -> alt.Chart:
    rows = []
    for system in data["systems"]:
        by_source = system["by_source"] or {"training text": system["training"]}
        for source, measures in by_source.items():
            fertility = measures["fertility"]
            if fertility is not None:
                rows.append({"system": system["name"], "source": source, "fertility": fertility})
    x = alt.X(
        "fertility:Q",
        title="pieces per word",
        axis=alt.Axis(tickCount=8),
        scale=alt.Scale(zero=False),
    )
    points = _chart_of(rows).mark_point(filled=True, size=70, opacity=0.9)
    chart: alt.Chart = points.encode(
        x=x,
        y=alt.Y("system:N", title=None, sort=None, axis=alt.Axis(labelLimit=170)),
        color=alt.Color("source:N", sort=None),
        shape=alt.Shape("source:N", sort=None),
        tooltip=["system:N", "source:N", alt.Tooltip("fertility:Q", format=".3f")],
    )
    height = max(120, 24 * len(data["systems"]))
    return _with_size(chart, "Pieces per word of every system by source", height=height)


def length_shares(lengths: Sequence[Row]) -> list[Row]:
    """Return each length's share of all tokens and of all pieces.

    Length 16 includes greater lengths.
    """
    sums = {"tokens": Counter[int](), "pieces": Counter[int]()}
    for row in lengths:
        length = min(LONGEST, row["length"])
        sums["tokens"][length] += row["types"]
        sums["pieces"][length] += row["pieces"]
    rows = []
    for length in sorted(sums["tokens"]):
        for name, counts in sums.items():
            share = counts[length] / max(1, counts.total())
            rows.append({"length": length, "of": name, "share": share})
    return rows


def _with_size(chart: Drawn, description: str, *, height: int = HEIGHT) -> Drawn:
    return chart.properties(width=WIDTH, height=height, description=description)


def _chart_of(rows: list[Row]) -> alt.Chart:
    return alt.Chart({"values": rows})


def _integer_tooltip(name: str) -> alt.Tooltip:
    return alt.Tooltip(f"{name}:Q", title=name, format=",d")


def _thin_out(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return at most `MAX_POINTS` pairs, evenly spaced in the logarithm of their position."""
    if not pairs:
        return []
    exponents = [k / (MAX_POINTS - 1) for k in range(MAX_POINTS)]
    ranks = {round(len(pairs) ** exponent) for exponent in exponents}
    return [pairs[rank - 1] for rank in sorted(ranks)]
