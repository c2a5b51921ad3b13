"""Golden searches: picks, steps and reports of searches with all options."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from support.golden import check

import volt
from volt.choose.report import as_data, as_text
from volt.errors import CandidateError

SYLLABLES = [a + b for a in "klmnprst" for b in "aeiou"]
WORDS = {
    f"{SYLLABLES[n % 40]}{SYLLABLES[n * n % 37]}{'hen' * (n % 3)}": 1 + 9_000 // (n + 1)
    for n in range(60)
}
COUNTS = replace(
    volt.WordCounts.from_pairs(WORDS | {"æther": 7, "zoo": 1}), n_lines=1_234, n_bytes=5_678
)
CANDIDATES = volt.learn_bpe(COUNTS, 40)
OLD = volt.search(CANDIDATES, sizes=[30], select=30).vocabulary
MIXED = volt.mix({"b": COUNTS, "a": {"hen": 9}}, temperature=float("inf")).min_count(10)
PARAMETERS = volt.SearchParameters(
    length="occurrence",
    mass="characters",
    epsilon=0.5,
    row_tau=0.9,
    column_tau=0.7,
    min_share=0.2,
    threshold=0.01,
    max_iters=3,
)
SEARCHES = {
    "defaults": (volt.learn_bpe(COUNTS, 9), {}),
    "sizes": (CANDIDATES, {"sizes": [25, 31, 58], "select": "muv", "byte_fallback": True}),
    "rounded": (CANDIDATES, {"sizes": [40], "select": 33, "multiple_of": 8}),
    "parameters": (
        CANDIDATES,
        {
            "sizes": [30, 50],
            "parameters": PARAMETERS,
            "select": "scaling",
            "model": volt.LanguageModel(33e6, 60_000),
            "special": volt.SpecialTokens(user=("<u>",)),
        },
    ),
    "mixture": (
        volt.learn_bpe(MIXED, 20, coverage=0.99),
        {"sizes": [20, 23, 30], "select": "renyi"},
    ),
    "extension": (volt.extend_bpe(OLD, {"hen": 700, "hens": 1, "kaka": 2}), {"sizes": [31, 32]}),
}


def row(values):
    """Join values; floats have six digits, and tiny ones, which depend on rounding, are 0."""
    rounded = (
        f"{value if abs(value) > 1e-9 else 0:.6g}" if isinstance(value, float) else value
        for value in values.values()
    )
    return " ".join(map(str, rounded))


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_equal_the_golden_ones(name):
    """Searches with all options give the stored picks, steps, provenance, warnings and report."""
    candidates, options = SEARCHES[name]
    heard = []
    result = volt.search(candidates, **options, report=heard.append)
    assert heard == [*range(1, len(result.steps) + 1)]
    data = as_data(result, seconds={"count": 1.5})
    provenance = row(result.vocabulary.provenance | {"signature": "", "iterations": ""})
    picks = []
    for rule, pick in result.picks.items():
        edge = ", edge" if pick.on_edge else ""
        picks.append(f"{pick.size_text} ({rule}{edge})")
    console = Console(file=io.StringIO(), width=200)
    console.print(as_text(result, seconds={"count": 1.5, "learn": 0.25}, full=True), crop=False)
    shown = console.file.getvalue().partition("rule  ")
    rows = [
        line for line in shown[0].splitlines() if line.startswith(" ") and "version:" not in line
    ]
    rows += [line for line in shown[2].splitlines() if line.startswith(("left out", "seconds"))]
    found = [
        result.signature.rpartition("|")[0],
        row(data["best"] | {"n_iters": "", "remedy": ""}),
        "; ".join(picks),
        row(data["counts"]),
        provenance,
        data["composition"],
        *data["answer"],
        *data["warnings"],
        row(data["coverage"] or {}),
        row(data["cuts"]),
        *(" ".join(line.split()) for line in rows),
    ]
    assert data["seconds"] == {"count": 1.5}
    check(f"choose search {name}", found)


def test_rounding_up_needs_enough_merges():
    """`multiple_of` adds merges until the number of ids fits; if they run out, the error says how
    many.
    """
    assert volt.search(CANDIDATES, sizes=[40], select="fixed:0062", multiple_of=1).best.size == 62
    assert CANDIDATES.n_tokens == 63
    n_ids = len(volt.search(CANDIDATES, select=CANDIDATES.n_tokens).vocabulary.pieces)
    assert (
        volt.search(CANDIDATES, select=CANDIDATES.n_tokens - 1, multiple_of=n_ids).best.size
        == CANDIDATES.n_tokens
    )
    message = f"is {n_ids + 1}, but {n_ids:,} ids need 1 more merges; remove it, or learn more with"
    with pytest.raises(CandidateError, match=message):
        volt.search(CANDIDATES, select=CANDIDATES.n_tokens, multiple_of=n_ids + 1)
