"""Curves → one picture: for each corpus, the loss of every size against the best, and the picks of two rules.

>>> import numpy as np
>>> from experiments.evidence.curves import MEASURES
>>> curve = Curve("ted-fi", np.array([1000, 4000]), (np.array([2.5, 2.52]), np.array([2.0])))
>>> points([curve], MEASURES["text"])[0]
{'corpus': 'ted-fi', 'size': 1000, 'lost': 25.5}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from experiments.evidence.curves import Measure
from volt.comparison.page.charts import COLORS, CONFIG
from volt.trial.results import Curve

_WIDTH, _HEIGHT, _COLUMNS = 170, 120, 5
_RULES = ("balanced", "knee")


def picture(
    drawn: Sequence[Curve], measure: Measure, picks: Mapping[str, Mapping[str, int]]
) -> bytes:
    from vl_convert import vegalite_to_svg

    return vegalite_to_svg(chart(drawn, measure, picks).to_dict(), config=CONFIG).encode()


def chart(
    drawn: Sequence[Curve], measure: Measure, picks: Mapping[str, Mapping[str, int]]
) -> alt.ConcatChart:
    most = 1.05 * max(row["lost"] for row in points(drawn, measure)) or 1.0
    charts = [_small(curve, measure, picks[curve.corpus], most) for curve in drawn]
    return alt.concat(*charts, columns=_COLUMNS)


def _small(curve: Curve, measure: Measure, picks: Mapping[str, int], most: float) -> alt.LayerChart:
    rows = alt.Data(values=points([curve], measure))
    sizes = [500, 2_000, 8_000, 32_000]
    x = alt.X(
        "size:Q",
        title=None,
        scale=alt.Scale(type="log", domain=[450, 36_000]),
        axis=alt.Axis(values=sizes, labelExpr="datum.value / 1000 + ' k'", grid=False),
    )
    title = f"lost, {measure.unit}"
    y = alt.Y(
        "lost:Q",
        title=title,
        scale=alt.Scale(domain=[-0.03 * most, most], nice=False),
        axis=alt.Axis(tickCount=4),
    )
    line = (
        alt.Chart(rows).mark_line(point=alt.OverlayMarkDef(size=30), color=COLORS[0]).encode(x, y)
    )
    rules = alt.Scale(domain=[*_RULES], range=COLORS[1 : 1 + len(_RULES)])
    picked = (
        alt.Chart(alt.Data(values=[{"size": picks[rule], "rule": rule} for rule in _RULES]))
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.5)
        .encode(
            x="size:Q",
            color=alt.Color(
                "rule:N", scale=rules, legend=alt.Legend(title="picked by", orient="top")
            ),
        )
    )
    return alt.layer(picked, line).properties(width=_WIDTH, height=_HEIGHT, title=curve.corpus)


def points(drawn: Sequence[Curve], measure: Measure) -> list[dict[str, Any]]:
    return [
        {
            "corpus": curve.corpus,
            "size": int(size),
            "lost": round(measure.regret(curve, int(size)), 4),
        }
        for curve in drawn
        for size in curve.sizes
    ]
