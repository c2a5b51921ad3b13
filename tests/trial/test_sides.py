"""Laws of `SidesResult`, with made-up scores: the best pair, what others lose, and warnings."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from volt.trial.report import as_page
from volt.trial.results import TrainingChoice
from volt.trial.sides import SidesResult, score_translations

BITS = {
    (2000, 2000, 1): 1.02,
    (2000, 1000, 1): 1.0,
    (2000, 1000, 2): 1.02,
    (2000, 500, 1): 1.02,
    (4000, 1000, 1): 1.05,
    (1000, 1000, 1): 1.03,
}


def row(source, target, seed, bits):
    return {
        "key": f"{source} {target} {seed}",
        "source": source,
        "size": target,
        "seed": seed,
        "millions": [5.0],
        "dev": [bits],
        "test": [bits],
        "BLEU": 30.0 + seed,
        "chrF++": 50.0,
        "translations": ["a dog runs", "a cat sleeps on the mat"],
    }


ROWS = tuple(row(*trained, bits) for trained, bits in BITS.items())
REFERENCES = ["a dog runs", "the cat sleeps on the mat"]
RESULT = SidesResult(
    rows=ROWS,
    picks=(1520, 1414),
    first=(2000, 2000),
    requested=5_000_000,
    characters=5_000_000,
    signatures={"BLEU": "nrefs:1", "chrF++": "nrefs:1"},
    left=(),
)


def compared(result):
    """Return pair → how it compares with the best one."""
    return {(pair.source, pair.target): pair.bits for pair in result.pairs}


def test_the_best_pair_has_the_fewest_bits():
    """The answer states the pair with the smallest mean of its seeds, and the means of its
    scores."""
    assert (RESULT.best.source, RESULT.best.target, RESULT.best.seeds) == (2000, 1000, 2)
    assert RESULT.answer.startswith(
        "source 2,000, target 1,000: 1.0100 bits per character of unseen target text, "
        "BLEU 31.5, chrF++ 50.0; "
    )
    assert RESULT.notes == ["BLEU of 2 translations: nrefs:1", "chrF++ of 2 translations: nrefs:1"]
    assert all(note in as_page(RESULT) for note in RESULT.notes)
    data = json.loads(json.dumps(RESULT.data))
    assert data["best"] == data["pairs"][0]
    assert len(data["pairs"]) == 5


def test_the_best_pair_has_the_fewest_bits_of_the_table():
    """The bits of a pair are the mean of its own seeds, so none has fewer than the best pair, and
    differences follow from the bits."""
    rows = (row(250, 1000, 1, 3.8), row(1000, 1000, 1, 3.79), row(1000, 1000, 2, 3.85))
    result = replace(RESULT, rows=(*rows, row(500, 1000, 2, 3.9)))
    assert compared(result)[1000, 1000].bits == pytest.approx(3.82)
    for pair in result.pairs:
        assert pair.bits.more == pytest.approx(100 * (pair.bits.bits / 3.8 - 1))
        assert pair.bits.more >= 0
    assert {pair.seeds for pair in result.pairs} == {1, 2}


def test_intervals_follow_from_the_variance_between_seeds():
    """The interval of a difference is that of two means with one variance; one seed has none."""
    rows = (
        row(500, 500, 1, 1.0),
        row(500, 500, 2, 1.02),
        row(900, 500, 1, 1.1),
        row(900, 500, 2, 1.1),
    )
    values = compared(replace(RESULT, rows=rows))
    width = stats.t.ppf(0.975, 2) * np.sqrt(2 * (100 / 101) ** 2 / 2)  # in % of the mean, 1.01
    assert values[500, 500].margin is None
    assert values[900, 500].margin == pytest.approx(width)
    assert compared(replace(RESULT, rows=rows[::2]))[900, 500].margin is None


def test_other_choices_are_compared():
    """The report has what the pair next to the picks of `trained` loses, and the best pair of equal
    sizes."""
    assert {name: pair.target for name, pair in RESULT.others.items()} == {
        "trained": 2000,
        "one size for both": 2000,
    }
    assert RESULT.answer.endswith(
        "; pair tried that is nearest to the picks of trained, 1,520 and 1,414: 2,000 and 2,000, "
        "+1.0 % bits; one size for both: 2,000 and 2,000, +1.0 % bits."
    )
    equal = replace(RESULT, rows=(*ROWS, row(500, 500, 1, 1.01)))
    assert equal.others["one size for both"].target == 500
    best = replace(RESULT, rows=ROWS[::4])
    assert best.answer.endswith("414: the same sizes; one size for both: the same sizes.")
    alone = replace(RESULT, rows=ROWS[:1])
    assert alone.others == {}
    assert ";" not in alone.answer
    assert "2,000 + 1,000</span> tokens" in as_page(RESULT)


def test_warnings_name_what_is_missing():
    """Warnings count the trainings that the time did not allow, and the characters not read."""
    assert RESULT.warnings == []
    left = replace(RESULT, left=(TrainingChoice(1000, 2, source=2000),))
    assert "1 more training, among them another seed of the best sizes" in left.warnings[0]
    short = replace(RESULT, characters=500_000)
    assert "read 500,000 of 5 M characters; the best sizes fall" in short.warnings[0]


def test_translations_are_scored(monkeypatch):
    """`score_translations` agrees with sacrebleu; without it, a warning says what to install."""
    metrics = pytest.importorskip("sacrebleu.metrics")
    rows, signatures = score_translations(ROWS, REFERENCES)
    expected = metrics.CHRF(word_order=2).corpus_score(ROWS[0]["translations"], [REFERENCES])
    assert rows[0]["chrF++"] == expected.score
    assert signatures["chrF++"].startswith("nrefs:1|case:mixed")

    plain = [{name: row[name] for name in row if name not in RESULT.signatures} for row in ROWS]
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    rows, signatures = score_translations(plain, REFERENCES)
    result = replace(RESULT, rows=tuple(rows), signatures=signatures)
    assert "BLEU" not in result.answer
    assert "pip install 'volt-vocab[translation]', and run again" in result.warnings[0]
    assert "BLEU" not in as_page(result).partition("</header>")[2]
