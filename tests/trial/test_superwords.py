"""Laws of `SuperwordResult`, with made-up scores: what it compares, how sure it is, what it warns of."""

import json
from dataclasses import replace

import numpy as np
import pytest

from volt.trial.report import as_page
from volt.trial.results import TrainingChoice
from volt.trial.superwords import SuperwordResult, compare

N_CHARACTERS = 1_000_000


def row(superwords, seed, bits, operations=1.0):
    """Return a result with five readings; the bits fall by 0.1 between two readings."""
    scores = [bits + 0.1 * n for n in (4, 3, 2, 1, 0)]
    return {
        "size": 1000,
        "superwords": superwords,
        "seed": seed,
        "crossing": superwords // 2,
        "tokens": round(5 * N_CHARACTERS / (4 if superwords else 3)),
        "millions": [1.0, 2.0, 3.0, 4.0, 5.0],
        "operations": [operations * n for n in (1, 2, 3, 4, 5)],
        "dev": scores,
        "test": scores,
    }


RESULT = SuperwordResult(
    rows=(row(0, 1, 2.0), row(100, 1, 2.02, 0.8), row(0, 2, 2.01), row(100, 2, 2.04, 0.8)),
    size=1000,
    n_characters=N_CHARACTERS,
    requested=5 * N_CHARACTERS,
    characters=5 * N_CHARACTERS,
    left=(),
)


def test_trainings_are_compared_at_the_same_text_and_at_the_same_operations():
    """At the same text, whole trainings are compared; at the same operations, longer ones end where
    the cheapest one ends. The differences are means of training pairs with the same seed.
    """
    without, with_100 = RESULT.numbers
    assert without.same_text.bits == pytest.approx(2.005)
    assert with_100.same_text.more == pytest.approx((1.0 + 100 * (2.04 / 2.01 - 1)) / 2)
    assert without.same_operations.bits == pytest.approx(2.105)  # after 4 of 5 readings
    assert with_100.same_operations.bits == with_100.same_text.bits == pytest.approx(2.03)
    assert with_100.same_operations.more < 0 < with_100.same_text.more
    assert RESULT.best == with_100
    assert RESULT.answer.startswith("100 superwords among 1,000 tokens save 25.0% of the pieces. ")
    assert without.pieces_per_character == pytest.approx(1 / 3)


def test_an_interval_needs_two_seeds():
    """A margin is Student's, from the variance between seeds of all numbers; one seed has none."""
    one_seed = replace(RESULT, rows=RESULT.rows[:2])
    assert one_seed.numbers[1].same_text.margin is None
    assert one_seed.answer.endswith("one seed cannot show how sure this is.")
    bits = {0: (2.0, 2.0), 1: (2.02, 2.04), 2: (2.0, 2.0), 3: (2.06,)}
    by_seed = {number: dict(enumerate(values)) for number, values in bits.items()}
    without, first, second, third = compare(by_seed).values()
    assert (without.more, without.margin) == (0, 0)
    spread = np.sqrt(0.5 / 2)  # two numbers have two seeds; the differences are 1, 2 and 0, 0
    assert first.margin == second.margin == pytest.approx(4.3027 * spread / np.sqrt(2), rel=1e-4)
    assert third.margin == pytest.approx(4.3027 * spread, rel=1e-4)


def test_the_verdict_follows_from_the_interval():
    """Superwords are called worth it only if they need fewer bits at the same operations, and the
    interval excludes 0.
    """
    unsure = replace(RESULT, rows=(*RESULT.rows[:3], row(100, 2, 2.05, 0.8)))
    assert "only shorten sequences" in unsure.answer
    clear = (row(0, 1, 2.0), row(0, 2, 2.0), row(90, 1, 2.02, 0.8), row(90, 2, 2.0201, 0.8))
    assert "worth it where operations are limited" in replace(RESULT, rows=clear).answer
    worse = replace(RESULT, rows=(*clear[:2], row(90, 1, 2.3, 0.9), row(90, 2, 2.3001, 0.9)))
    assert "only shorten sequences" in worse.answer
    assert worse.best.superwords == 0


def test_warnings_name_what_the_time_did_not_allow():
    """Warnings report shorter and missing trainings, and tokens without spaces."""
    assert RESULT.warnings == []
    left = replace(RESULT, requested=9 * N_CHARACTERS, left=(TrainingChoice(1000, 2, 100),))
    shorter, missing = left.warnings
    assert "allows each training to read 5 M of 9 M characters" in shorter
    assert missing.startswith("the time was over before 1 more training: ")
    rows = tuple({**one, "crossing": 0} for one in RESULT.rows)
    assert replace(RESULT, rows=rows).warnings == [
        "no token contains a space, so no superwords were compared"
    ]
    alone = replace(RESULT, rows=RESULT.rows[::2])
    assert alone.answer == "0 superwords: no other number was tried."


def test_all_forms_of_the_report_have_the_same_values():
    """JSON data and the page have the answer, and a row for each number."""
    data = json.loads(json.dumps(RESULT.data, allow_nan=False))
    assert data["best"] == 100
    assert [number["superwords"] for number in data["superwords"]] == [0, 100]
    page = as_page(RESULT)
    assert '<span class="big">100</span> superwords' in page
    assert data["answer"].split(":")[0] in page
