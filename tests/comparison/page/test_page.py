"""The page contains the comparison's JSON, shows its numbers, and runs only its own scripts."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.pages import Page, hostile_comparison, topics_comparison

from volt.comparison.columns import MEASURES, Table, TableColumn
from volt.comparison.page.page import (
    count_changes,
    embed_json,
    render_page,
    visible,
    write_page,
    write_plots,
)
from volt.comparison.tables import (
    corpus_table,
    cost_table,
    pick_table,
    source_tables,
    study_tables,
    system_tables,
)
from volt.errors import ConfigError, OutputError
from volt.learn.bpe import learn_bpe

FAST = settings(deadline=None, max_examples=examples(50))
MEASURE_KEYS = [column.key for column in MEASURES]
SCALES = {"percent": 100, "fine percent": 100, "millionths": 1e6, "millions": 1e-6}  # by form


@pytest.fixture(scope="module")
def text():
    return render_page(topics_comparison())


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.fixture(scope="module")
def data():
    return topics_comparison().as_data()


def test_embedded_json_is_the_comparison(page, data):
    """The JSON embedded in the page equals `Comparison.as_data`."""
    assert page.embedded("comparison") == json.loads(json.dumps(data))


@pytest.mark.parametrize("part", ["training", "heldout"])
def test_system_tables_show_the_json(page, data, part):
    """Each cell of the page's tables of systems has the value of the JSON."""
    expected = [
        [system["name"], system["size"], *(system[part][key] for key in MEASURE_KEYS)]
        for system in data["systems"]
    ]
    assert page.rows(f"systems-{part}") == expected


def test_other_tables_show_the_json(page, data):
    """The page's tables of picks, costs, grid and argmaxes have the values of the JSON."""
    picks = data["search"]["picks"].values()
    assert page.rows("picks") == [
        [pick[key] for key in ("rule", "size", "why", "on_edge")] for pick in picks
    ]
    keys = "name size n_scaffolding muv rule seconds memory_mb on_edge why cost_note"
    rows = [{**system, "muv": system["training"]["muv"]} for system in data["systems"]]
    assert page.rows("costs") == [[row[key] for key in keys.split()] for row in rows]
    for name, key in (("grid", "grid"), ("argmaxes", "argmaxes")):
        assert page.rows(name) == [list(row.values()) for row in data["study"][key]]


@pytest.mark.parametrize(
    ("name", "key"), [("by-source", "by_source"), ("heldout-by-source", "heldout_by_source")]
)
def test_source_tables_show_the_json(page, data, name, key):
    """Each row of the page's tables of sources has the shares, parity, premium and measures of a
    system and a source."""
    keys = ["parity", "premium", *MEASURE_KEYS]
    assert page.rows(name) == [
        [system["name"], source, system["shares"].get(source), *(measures[one] for one in keys)]
        for system in data["systems"]
        for source, measures in system[key].items()
    ]


def page_tables(data):
    """Return the tables that the page shows without scripts."""
    tables = [corpus_table(data), cost_table(data), pick_table(data)]
    return [*tables, *system_tables(data), *source_tables(data), *study_tables(data)]


def test_shown_numbers_are_their_values(page, data):
    """A cell shows its value, rounded and in its column's unit; a dash stands for null, and only
    for null."""
    n_numbers = 0
    for table in page_tables(data):
        shown_rows = [row for row in page.tables[table.name] if row]
        assert len(shown_rows) == len(table.rows)
        for row in shown_rows:
            for (shown, value), column in zip(row, table.columns, strict=True):
                assert (shown == "–") == (value is None)
                if isinstance(value, int | float) and not isinstance(value, bool):
                    n_numbers += 1
                    number = float(shown.replace(",", "").removesuffix("%"))
                    digits = len(shown.partition(".")[2].rstrip("%").partition("e")[0])
                    error = abs(value * SCALES.get(column.form, 1) - number)
                    assert error <= max(0.5001 * 10**-digits, 0.006 * abs(number)), (shown, value)
    assert n_numbers > 300
    assert set(page.tables) == {table.name for table in page_tables(data)} | {"token-table"}


def test_the_chosen_system_is_highlighted(data):
    """The highlighted row of each table is the chosen system's."""
    for one in system_tables(data):
        assert one.strong is not None
        assert one.rows[one.strong][0].value == data["chosen"]


def test_the_policy_allows_only_the_scripts(page):
    """The page's content security policy allows the hashes of its two scripts, and nothing else."""
    policy = next(str(a["content"]) for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    running = [text for attributes, text in page.scripts if attributes.get("type") is None]
    hashes = {f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in running}
    assert len(running) == 2
    assert set(re.findall(r"'sha256-[^']+'", policy)) == hashes
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "http" not in policy


@pytest.mark.parametrize("make", [topics_comparison, hostile_comparison])
def test_markup_loads_and_runs_nothing(make):
    """No tag of the page refers to another file, no attribute is an event handler, and all tags are
    known."""
    known = Page(render_page(topics_comparison()))
    tags = {tag for tag, _ in known.tags}
    for tag, attributes in Page(render_page(make())).tags:
        assert tag in tags
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        assert str(attributes.get("href", "#")).startswith("#")


def test_hostile_tokens_are_embedded_unchanged():
    """Tokens such as </script> are unchanged in the page's JSON."""
    comparison = hostile_comparison()
    embedded = Page(render_page(comparison)).embedded("comparison")
    assert tuple(embedded["tokens"]["token"]) == comparison.search.candidates.tokens
    assert any("</script>" in token for token in embedded["tokens"]["token"])


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@FAST
def test_embedded_json_round_trips(value):
    """`embed_json` returns text without markup characters, which an HTML parser and JSON read back
    unchanged."""
    text = embed_json(value)
    assert not re.search("[<>&\u2028\u2029\u202a-\u202e\u2066-\u2069]", text)
    parts = []

    class Reader(HTMLParser):
        def handle_data(self, data):
            parts.append(data)

    Reader().feed(f'<script type="application/json">{text}</script>')
    assert json.loads("".join(parts)) == value == json.loads(text)


@given(st.text())
def test_visible_text_has_no_control_characters(text):
    """`visible` spells out control and direction characters, and leaves printable ASCII."""
    shown = visible(text)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", shown)
    if text.isascii() and text.isprintable():
        assert shown == text


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 9), min_size=1),
    st.data(),
)
@FAST
def test_changes_lead_to_the_counts(words, data):
    """The values of `count_changes`, assigned one size after another, are at each size the counts at
    that size, and 0 for tokens beyond it."""
    candidates = learn_bpe(words, n_merges=30)
    possible = range(candidates.n_atoms, candidates.n_tokens + 1)
    sizes = sorted(data.draw(st.sets(st.sampled_from(possible), min_size=1)))
    counts = np.zeros(candidates.n_tokens, np.int64)
    for size, (tokens, now) in zip(sizes, count_changes(candidates, sizes), strict=True):
        counts[tokens] = now
        assert counts[:size].tolist() == candidates.counts_at(size).tolist()
        assert not counts[size:].any()


def test_slider_data_describes_every_step(page):
    """`slider_data` has the merges and dropped tokens of each size, and samples split into
    pre-tokens."""
    search, slider = topics_comparison().search, page.embedded("slider")
    assert slider["sizes"] == [step.size for step in search.steps]
    assert slider["n_merges"] == [search.candidates.merges_at(step.size) for step in search.steps]
    assert slider["dropped"] == [np.flatnonzero(~step.kept).tolist() for step in search.steps]
    assert slider["samples"] == [line.split() for _, line in topics_comparison().samples.samples]


def test_missing_values_are_dashes():
    """A table shows a null or missing value as a dash."""
    made = Table("t", "", [TableColumn("b", "", "", "count")], [{"b": None}, {}, {"b": 1000}])
    assert [row[0].text for row in made.rows] == ["–", "–", "1,000"]
    assert [row[0].value for row in made.rows] == [None, None, 1000]
    assert TableColumn("x", "", "", "yes").cell({"x": True}).text == "yes"


def test_a_page_is_written_completely_or_not_at_all(text, tmp_path):
    """`write_page` leaves no file behind if the page cannot be written."""
    write_page(topics_comparison(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text
    with pytest.raises(OutputError, match="cannot be written"):
        write_page(topics_comparison(), tmp_path / "absent" / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_reports_do_not_overwrite_texts(tmp_path):
    """`write_page` and `write_plots` refuse to replace a file that the comparison has read, even
    through links."""
    comparison = topics_comparison()
    facts = {}
    for name, link in (("corpus", "lengths.svg"), ("heldout", "page.html")):
        path = tmp_path / f"{name}.txt"
        path.write_text("low")
        (tmp_path / link).symlink_to(path)
        source = replace(comparison.corpus.sources[0], files=(str(path),))
        facts[name] = replace(comparison.corpus, sources=(source,))
    comparison = replace(comparison, **facts)
    with pytest.raises(ConfigError, match="which is read"):
        write_page(comparison, tmp_path / "page.html")
    with pytest.raises(ConfigError, match="which is read"):
        write_plots(comparison, tmp_path)
    assert all((tmp_path / f"{name}.txt").read_text() == "low" for name in facts)


def test_write_plots_draws_every_chart_of_the_page(page, tmp_path, monkeypatch):
    """`write_plots` draws the page's specifications as PNG and SVG."""
    drawn = {"png": [], "svg": []}
    for ending, picture in (("png", b"a picture"), ("svg", "a picture")):

        def draw(chart, ending=ending, picture=picture, **options):
            drawn[ending].append(chart)
            return picture

        monkeypatch.setattr(f"vl_convert.vegalite_to_{ending}", draw)
    names = {path.stem for path in write_plots(topics_comparison(), tmp_path)}
    charts = page.embedded("charts")["charts"]
    assert names == set(charts)
    expected = list(charts.values())
    assert json.loads(json.dumps(drawn)) == {"png": expected, "svg": expected}
