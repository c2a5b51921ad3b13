"""A slice of the campaign against configurations: what is wrong is refused with its line and a remedy, no more."""

from __future__ import annotations

import math

import pytest

from experiments.faults.configurations import as_table, campaign
from experiments.faults.right_configurations import RIGHT
from experiments.faults.wrong_configurations import REFUSED, Mutant, fits, mutants

MUTANTS = {(mutant.base, mutant.kind, mutant.told): mutant for mutant in mutants()}
SLICE = [
    ("whole", "not finite", "weight: .inf"),
    ("whole", "huge number", "block_lines: 99999999999999999999"),
    ("whole", "character", 'seed: "\\ud800"'),
    ("whole", "character", 'cache: "a\\0b"'),
    ("whole", "empty", "path: ''"),
    ("whole", "wrong type", "path: null"),
    ("whole", "brackets", "ends: open bracket"),
    ("whole", "quotes", "ends: open quote"),
    ("whole", "unknown key", "seed: key"),
    ("whole", "YAML 1.1", "blank: no"),
    ("whole", "out of range", "min_fields: -1"),
    ("steps", "empty", "pattern: ''"),
    ("steps", "out of range", "min: -1"),
    ("each", "not finite", "temperature: .inf"),
    ("mix", "wrong type", "by: true"),
    ("mix", "not finite", "temperature: .nan"),
    ("special", "mix", "a temperature that leaves nothing"),
    ("special", "mix", "an end"),
    ("special", "mix", "a pattern"),
    ("special", "steps", "where: ''"),
    ("special", "names", "nothing"),
    ("special", "names", "a tab"),
    ("special", "table", "a column that is missing"),
    ("special", "errors", "a file that is read"),
    ("batches", "out of range", "max_tokens: 0"),
    ("batches", "wrong type", "max_tokens: null"),
    ("batches", "misspelt key", "pad_to_multiple: key"),
    ("packs", "wrong type", "length: true"),
    ("special", "batches", "max_tokens: 9\n  shortest: 10"),
    ("special", "batches", "a path for a field"),
    ("special", "weights", "weight: {points: [[0, 0]]}"),
    ("special", "anchor", "a bomb"),
    ("special", "merge key", "a merge"),
    ("special", "whole file", "line ends of Windows"),
]


def test_a_slice_of_the_campaign_finds_nothing() -> None:
    """Each wrong configuration is refused with its place and a remedy, and each legal one is taken."""
    found = campaign([MUTANTS[one] for one in SLICE])
    assert [(mutant, told) for mutant, told in found if told.startswith("FOUND")] == []
    assert {mutant.told for mutant, told in found if told == "legal"} >= {"a merge", "line ends of Windows"}
    assert as_table(found).split("\n")[-1].split()[0] == "all"


def test_there_are_many_and_each_is_named_once() -> None:
    """The campaign has thousands of configurations, of all bases, and their names tell them apart."""
    assert len(MUTANTS) > 2000
    assert {base for base, _, _ in MUTANTS} == {*RIGHT, "special"}


def test_a_fault_of_the_judge_would_be_seen() -> None:
    """A right configuration that is said to be wrong is a finding, and so is a wrong one that is said to be right."""
    right = Mutant("planted", "none", "right", "sources: {one: {path: a.tsv}}\n", 1, False)
    wrong = Mutant("planted", "none", "wrong", "sources: {one: {paht: a.tsv}}\n", 1, True)
    elsewhere = Mutant("planted", "none", "elsewhere", "sources: {one: {paht: a.tsv}}\n", 7, False)
    assert [told.split()[:2] for _, told in campaign([right, wrong, elsewhere])] == [
        ["FOUND", "accepted"],
        ["FOUND", "refused"],
        ["FOUND", "status"],
    ]


@pytest.mark.parametrize(
    ("kind", "value", "is_legal"),
    [
        ("whole 1", True, False),
        ("whole 1", 3.0, True),
        ("number 0 1", math.nan, False),
        ("text", "a\tb", False),
        ("path null", None, True),
        ("bool", 1, False),
        ("file", "a.tsv", False),
        ("whole 0", REFUSED, False),
    ],
)
def test_what_is_legal_is_known_without_the_code_under_test(kind: str, value: object, is_legal: bool) -> None:
    """The campaign's own notion of a value that fits."""
    assert fits(kind, value) is is_legal
