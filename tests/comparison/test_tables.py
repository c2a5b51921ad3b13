"""Tables: a measure has one name, and brief tables are parts of full ones."""

import pytest
from support.pages import topics_comparison
from support.screens import printed, words

from volt.choose.scaling_law import LanguageModel
from volt.comparison.columns import FORMS, MEASURES, SYSTEM, legend
from volt.comparison.compare import compare
from volt.comparison.tables import (
    as_markdown,
    as_text,
    corpus_table,
    cost_table,
    pick_table,
    report_tables,
    source_tables,
    study_tables,
    system_tables,
    verdict,
    warnings,
)
from volt.comparison.texts import NamedText


@pytest.fixture(scope="module")
def data():
    return topics_comparison().as_data()


@pytest.fixture(scope="module")
def full(data):
    """Return the tables of the page, by name."""
    tables = [corpus_table(data), pick_table(data), cost_table(data)]
    tables += [*system_tables(data), *source_tables(data), *study_tables(data)]
    return {table.name: table for table in tables}


def test_a_brief_table_is_a_part_of_the_full_one(data, full):
    """A brief table has the caption, cells and highlighted row of the full table, without columns
    that are details."""
    shared = [table for table in report_tables(data) if table.name in full]
    assert {table.name for table in shared} >= {"sources", "costs", "systems-training", "argmaxes"}
    for table in shared:
        whole = full[table.name]
        places = [whole.columns.index(column) for column in table.columns]
        assert (table.caption, table.strong) == (whole.caption, whole.strong)
        assert table.rows == tuple(tuple(row[place] for place in places) for row in whole.rows)
        assert all(column.detail for column in whole.columns if column not in table.columns)


def test_a_measure_has_one_name(data, full):
    """A measure has the same label, abbreviation, meaning and form in every table, except the grid
    of MUV-search."""
    measures = {column.key: column for column in MEASURES}
    tables = [table for table in (*report_tables(data), *full.values()) if table.name != "grid"]
    columns = [column for table in tables for column in table.columns if column.key in measures]
    assert {column.key for column in columns} == set(measures)
    assert all(column == measures[column.key] for column in columns)


def test_columns_of_a_table_have_distinct_names(data, full):
    """Labels and abbreviations differ within a table, and FORMS has the form of every column."""
    for table in (*report_tables(data), *full.values()):
        for attribute in ("label", "head"):
            names = [getattr(column, attribute) for column in table.columns]
            assert len(set(names)) == len(names)
        assert {column.form for column in table.columns} <= set(FORMS)


def test_the_legend_explains_every_brief_measure(data):
    """The note under the table of measures explains every column of the brief table."""
    table = next(table for table in report_tables(data) if table.name == "systems-training")
    assert table.note == legend(MEASURES)
    assert all(f"{column.head}: {column.title}." in table.note for column in table.columns[1:])


def test_serving_costs_are_a_column_with_a_model():
    """Tables always show tokens per byte, but operations per byte only with a language model."""
    words = {f"{a}{b}{c}": 5 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
    text = NamedText("en", words)
    for model in (None, LanguageModel(1e6, 64)):
        data = compare(text, heldout=text, systems="bpe:30", model=model).as_data()
        heads = [column.key for column in system_tables(data)[0].columns]
        assert "tokens_per_byte" in heads
        assert ("serving_flops_per_byte" in heads) == (model is not None)
        for system in data["systems"]:
            for part in ("training", "heldout"):
                measures = system[part]
                rate = measures["n_pieces"] / measures["n_bytes"]
                assert measures["tokens_per_byte"] == pytest.approx(rate)
                expected = None
                if model:
                    expected = pytest.approx(2 * (1e6 + 64 * measures["n_types"]) * rate)
                assert measures["serving_flops_per_byte"] == expected
        names = [system["name"] for system in data["systems"]]
        assert ("volt scaling" in names) == (model is not None)


def test_tables_by_source_show_the_json(data):
    """Tables of one measure by source have the JSON's values of every system and source."""
    sources = [source["name"] for source in data["corpus"]["sources"]]
    tables = {table.name: table for table in report_tables(data)}
    for key in ("fertility", "continued_word_rate", "parity"):
        rows = [[cell.value for cell in row] for row in tables[f"{key}-by-source"].rows]
        for system, row in zip(data["systems"], rows, strict=True):
            values = [system["by_source"][name][key] for name in sources]
            assert row == [system["name"], *values]
    shares = [[cell.value for cell in row[1:]] for row in tables["share-by-source"].rows]
    assert shares == [[system["shares"][name] for name in sources] for system in data["systems"]]


def test_tables_show_the_numbers_of_the_data(both):
    """The Markdown shows every measure of the data, and follows a change of the data."""
    data = both.as_data()
    text = as_markdown(data)
    for system in data["systems"]:
        assert f"| {system['seconds']:.2f} |" in text
        for part in ("training", "heldout"):
            measures = system[part]
            bits = FORMS["millions"](measures["bits"])
            assert f"| {measures['n_pieces']:,} | {bits} | {measures['entropy']:.4f} |" in text
    data["systems"][0]["training"]["entropy"] = 9.87654321
    assert "9.8765" in as_markdown(data)
    assert "9.8765" not in text
    assert all(warning[:30] in text for warning in warnings(data))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_tables_fit_any_terminal(both, width):
    """No line of `as_text` is wider than the terminal, and every word and number is whole."""
    data = both.as_data()
    shown = printed([as_text(data, full=True)], width)
    assert max(map(len, shown.splitlines())) <= width
    assert words(shown) == words(printed([as_text(data, full=True)], 1000))
    for table in report_tables(data, full=False):
        for row in table.rows:
            for cell in row:
                assert words(shown) >= set(cell.text.split())


def test_the_first_screen_is_short_and_begins_with_a_verdict(both):
    """Without `full`, a terminal shows at most 40 lines: a verdict and the chosen and foreign systems.

    The verdict names the system with the fewest pieces of the held-out text.
    """
    data = both.as_data()
    shown = printed([as_text(data)], 120)
    assert len(shown.splitlines()) <= 40
    rules = {*data["search"]["picks"]} - {data["search"]["pick"]["rule"]}
    assert not {f"volt {rule}" for rule in rules} & {
        line.split("  ")[0] for line in shown.split("\n")
    }
    systems = [each for each in data["systems"] if each["rule"] not in rules]
    shortest = min(systems, key=lambda each: each["heldout"]["n_pieces"])
    assert f"shortest with {shortest['name']} ({shortest['size']:,} tokens)" in verdict(data)[0]
    assert shown.startswith("verdict   ")


def test_a_verdict_does_not_rank_unknown_text(both):
    """A verdict says that the chosen system, or every system, is not ranked."""
    data = both.as_data()
    for system in data["systems"]:
        if system["name"] == data["chosen"]:
            system["heldout"]["fertility"] = None
    assert (
        verdict(data)[-1] == f"{data['chosen']} is not ranked, because too many pieces are unknown."
    )
    for system in data["systems"]:
        system["heldout"]["fertility"] = None
    assert verdict(data) == ["No system can be ranked on the held-out text."]


def test_long_names_are_shortened_in_the_middle():
    """The name of a system, which may be a path, takes at most 60 characters in a table."""
    name = "/data/" + "x" * 150 + "/en.volt"
    cell = SYSTEM.cell({"name": name})
    assert cell.text == f"/data/{'x' * 24}…{'x' * 21}/en.volt"
    assert cell.value == name
    assert SYSTEM.cell({"name": "bpe 50"}).text == "bpe 50"
