"""Tables, data and charts of small comparisons equal the stored ones."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from support.golden import check, digest, rounded

from volt.choose.scaling_law import LanguageModel
from volt.choose.search import search
from volt.choose.size_steps import SearchParameters
from volt.comparison.columns import FORMS
from volt.comparison.compare import compare
from volt.comparison.library_training import MAX_WORD
from volt.comparison.measures import MOST_UNKNOWN
from volt.comparison.muv_study import CURVE_POINTS, FLOORS, GRID, GRID_STEP, muv_study
from volt.comparison.page.charts import specifications
from volt.comparison.tables import pick_table, report_tables, source_tables
from volt.comparison.texts import N_SAMPLES, SAMPLE_LENGTHS, UNSEEN_SHARE
from volt.learn.bpe import learn_bpe

TEXTS = {
    "en.txt": "low lower lowest\nnew newer newest\nwide wider widest\nlow new wide\n",
    "xx.txt": "wol rewol tsewol\nwen rewen tsewen\nediw rediw tsediw\nwol wen zzz\n",
    "test.txt": "low wester lowest\nwest new wide\n",
}
SYSTEMS = ("volt muv", "volt fixed:22", "bpe 24", "volt fixed:22, separate")


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Write two texts with equally many lines, and a held-out one."""
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        Path(name).write_text(text * 50)


def timeless(data):
    """Replace times and memory, and leave out rules that pick what others pick."""
    for row in data["systems"]:
        row.update(
            {name: None if row[name] is None else 1_234.5 for name in ("seconds", "memory_mb")}
        )
    return data | {"systems": [system for system in data["systems"] if system["name"] in SYSTEMS]}


@pytest.mark.usefixtures("texts")
def test_a_comparison_equals_the_golden_one():
    """Every table and chart of a small comparison equals the stored one."""
    comparison = compare(
        ["en=en.txt", "xx=xx.txt"],
        heldout=["en=test.txt"],
        systems=["bpe:20", "bpe:24", "bpe:20"],
        sizes=(18, 22, 26),
        select="fixed:22",
        temperature=2,
        separate=True,
        samples=["low newest", "zoo"],
        model=LanguageModel(1e9, 2048),
    )
    data = timeless(comparison.as_data())
    tables = {
        table.name: [
            " | ".join(column.head for column in table.columns),
            *(" | ".join(cell.text for cell in row) for row in table.rows),
        ]
        for table in (pick_table(data), *report_tables(data), *source_tables(data))
    }
    rows = {
        name: rounded([*spec["datasets"].values()]) for name, spec in specifications(data).items()
    }
    charts = {name: digest(json.dumps(values).encode()) for name, values in rows.items()}
    check("comparison charts", charts)
    check("comparison tables", tables)
    check(
        "comparison data",
        {
            "lengths": str([(*row.values(),) for row in data["lengths"]]),
            "cuts": [str(cuts) for cuts in data["samples"]["cuts"]],
            "counts": [str(counts) for counts in data["samples"]["counts"]],
            "tokens": "; ".join(" ".join(map(str, row)) for row in comparison.tokens.rows()),
            "problems": data["problems"],
            "phases": " ".join(data["search"]["seconds"]),
            "repr": repr(comparison),
        },
    )


def test_a_study_equals_the_golden_one():
    """The grid, the argmaxes, the curve and the warnings of a study equal the stored ones."""
    counts = {word: n + 2 for n, word in enumerate("".join(TEXTS.values()).split())}
    result = search(learn_bpe(counts, 30), sizes=(20, 25, 30))
    study = asdict(
        muv_study(result, parameters=SearchParameters(), grid=(20, 24, 28, 99), grid_step=4)
    )
    rows = {name: [_row(row) for row in study[name]] for name in ("grid", "argmaxes")}
    curve = {
        name: " ".join(f"{value:.4g}" for value in column)
        for name, column in study["curve"].items()
    }
    check("comparison study", rows | {"curve": curve, "warnings": study["warnings"]})


def _row(row):
    return " | ".join(
        f"{value:.5g}" if isinstance(value, float) else str(value) for value in row.values()
    )


def test_forms_and_limits_equal_the_golden_ones():
    """Each form of a column formats numbers at its limits as stored; constants of the comparison do
    not change."""
    values = (0, 1, -1, 0.0009994, 0.001, 0.5, 99.95, 100, 1234.5, 1e-7, 12_345_678)
    limits = (
        GRID,
        FLOORS,
        GRID_STEP,
        CURVE_POINTS,
        SAMPLE_LENGTHS,
        N_SAMPLES,
        UNSEEN_SHARE,
        MOST_UNKNOWN,
        MAX_WORD,
    )
    check("comparison limits", list(map(str, limits)))
    check("comparison forms", {name: " | ".join(map(form, values)) for name, form in FORMS.items()})
