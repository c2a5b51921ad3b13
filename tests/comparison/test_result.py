"""`Comparison`: its data are complete, and its measures agree."""

import json

import pytest
from comparison.inflected import SIZES, SYSTEMS

from volt.comparison.compare import compare


def test_parity_and_premium_follow_from_the_sources(both):
    """Parity is a source's fertility over the mean of all sources; the source with the fewest
    pieces has the premium 1."""
    for system in both.systems:
        measures = system.by_source.values()
        fertilities = [each.fertility for each in measures]
        expected = [2 * fertility / sum(fertilities) for fertility in fertilities]
        assert [each.parity for each in measures] == pytest.approx(expected)
        assert min(each.premium for each in measures) == 1
    assert both.corpus.aligned


def test_data_is_json_and_complete(both):
    """`Comparison.as_data` is valid JSON without NaN, and has the values of the comparison."""
    data = json.loads(json.dumps(both.as_data(), allow_nan=False))
    assert data["version"] == 1
    names = [system["name"] for system in data["systems"]]
    assert names == [system.name for system in both.systems]
    training = both.systems[0].training
    assert data["systems"][0]["training"]["entropy"] == training.entropy
    assert len({len(column) for column in data["tokens"].values()}) == 1
    assert len(data["samples"]["cuts"]) == len(data["samples"]["sizes"]) == len(both.search.steps)
    counts = [count for count in data["tokens"]["count"] if count is not None]
    n_types = sum(row["types"] for row in data["lengths"])
    n_pieces = sum(row["pieces"] for row in data["lengths"])
    assert n_types == len(counts) == both.search.vocabulary.size
    assert n_pieces == sum(counts) == training.n_pieces
    assert data["search"]["seconds"].keys() >= {"count", "learn", "search", "measure"}


def test_equal_texts_give_equal_comparisons(files):
    """Equal texts and options give equal data, except for times and memory."""
    results = []
    for _ in range(2):
        data = compare([files["train.en"]], systems=SYSTEMS[:2], sizes=SIZES).as_data()
        del data["made"], data["search"]["seconds"]
        for system in data["systems"]:
            del system["seconds"], system["memory_mb"]
        results.append(data)
    assert results[0] == results[1]
