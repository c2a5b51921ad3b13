"""Every transform with all of its options: its lines for two seeds, and its properties, do not change."""

import json
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from stream.transforms.support import FIRST, STEPS, TRANSFORMS_FOR
from support.golden import check

from volt.stream.transforms import transform as steps
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import LineFault, LoadedFiles, Transform, open_transform

TEXT = [
    "Low low lower, 3.5% don't (so).\tDie „Nieder“ ÉTÉ ΟΔΟΣ\tx",
    "the low house\tdas Haus\tx",
    "",
    "  a  b \t \ty\tz",
    "你好，世界\tß ǆ e\u0301",
    "low low low low low low low low\tnewest newest\t",
]
PIECES = ["▁low ▁low er ▁a ▁b", "▁a\t▁b a ▁low", "", "▁b ▁b ▁b ▁b ▁b ▁b ▁b ▁b\t▁low er"]
StepOf = Callable[[str], Transform]


def batch_of(kind):
    """Return the lines for a kind of rows; their numbers start at 5."""
    if kind == "ids":
        ids = np.array([4, 5, 5, 7, 2, 2, 30, 31, 2, 5], np.int32)
        column = Column.of_ids(ids, np.array([0, 4, 5, 5, 8, 10]))
        return Batch((column, column.take([4, 3, 2, 1, 1])), None, np.arange(5) + 5)
    documents = [f"a {k}\td\t{'x' if k <= 6 else 'y'}" for k in range(10)]
    batch = Batch.of({"text": TEXT, "pieces": PIECES, "documents": documents}[kind])
    return Batch(batch.columns, batch.rest, np.arange(len(batch)) + 5)


def outputs_of(step, batch, rng):
    """Return each line with its number, "=" for an unchanged field, and the reasons of unfit lines."""
    try:
        result = step(batch, rng)
    except LineFault as fault:
        unfit = [f"{batch.origins[index]}! {reason}" for index, reason in fault.reasons.items()]
        if fault.result is not None:
            return unfit
        others = batch.take(np.delete(np.arange(len(batch)), list(fault.reasons)))
        return unfit + outputs_of(step, others, rng)

    inputs = dict(zip(batch.origins, batch.rows, strict=True))
    lines = []
    for origin, row in zip(result.origins, result.rows, strict=True):
        pairs = zip(row, inputs[origin] + [""] * len(row), strict=False)
        fields = ["=" if new == old and new else new for new, old in pairs]
        lines.append(f"{origin} " + "\t".join(fields))
    return lines


EVERY_ROW = pytest.mark.parametrize(
    ("kind", "row"),
    [(kind, row) for kind, rows in TRANSFORMS_FOR.items() for row in rows.splitlines()],
)


def test_every_transform_has_a_row():
    """A new transform needs a row in TRANSFORMS_FOR of tests/stream/transforms/support.py, and its golden values."""
    assert FIRST.keys() == TRANSFORMS.keys()


@EVERY_ROW
def test_lines_do_not_change(folder, step_of, kind, row):
    """Each transform gives the stored lines for two seeds, so that its results and random numbers
    stay the same."""
    step = open_transform(step_of(row), LoadedFiles())
    results = []
    for seed in (1, 2):
        outputs = outputs_of(step, batch_of(kind), LineRng.of(seed, "s", 0, 0))
        results.append(" | ".join(outputs))
    text = " ‖ ".join(dict.fromkeys(results))
    check(f"transforms {kind} {row}", text.replace(f"{folder}/", ""))


@EVERY_ROW
def test_lines_do_not_depend_on_other_lines(step_of, kind, row):
    """Each transform gives a line alone, or in another order, the same result as within its batch."""
    step = open_transform(step_of(row), LoadedFiles())
    if steps.joins_lines(step):
        return
    batch = batch_of(kind)
    rng = LineRng.of(1, "s", 0, 0)
    expected = sorted(outputs_of(step, batch, rng))
    order = np.arange(len(batch))[::-1]
    assert sorted(outputs_of(step, batch.take(order), rng)) == expected
    alone = []
    for number in order:
        alone += outputs_of(step, batch.take([number]), rng)
    assert sorted(alone) == expected


@EVERY_ROW
def test_validation_is_not_random(step_of, kind, row):
    """The transforms that replace a transform in validation give the same lines for any seed. A
    transform that draws random numbers therefore needs a method `deterministic`."""
    replacements = steps.make_deterministic([step_of(row)])
    for step in replacements:
        opened = open_transform(step, LoadedFiles())
        first, second = (
            outputs_of(opened, batch_of(kind), LineRng.of(seed, "s", 0, 0)) for seed in (1, 2)
        )
        assert first == second


PROPERTIES = (
    steps.is_compiled,
    steps.joins_lines,
    steps.keeps_lines,
    steps.decodes,
)
# Names of transforms whose properties depend on the options
SEVERAL = {"taboo", "bitext", "choice", "spm_encode", "encode", "user"}


@pytest.mark.parametrize(
    "row", [row for row in STEPS if row in FIRST.values() or row.partition(":")[0] in SEVERAL]
)
def test_properties_do_not_change(folder, step_of, row):
    """Each transform's signature, which is part of states, and the properties that streams rely on
    equal the stored ones."""
    step = step_of(row)
    names = [each.__name__ for each in PROPERTIES if each(step)]
    names.append(step.changes.replace("nothing", ""))
    head = (
        f"{step.name}: {' '.join(names)} {steps.max_copies([step])} {steps.special_tokens([step])}"
    )
    related = (step, steps.make_deterministic([step]), steps.invert([step]))
    values = steps.signature(step)
    values = json.dumps({key: value for key, value in values.items() if key != "library"})
    text = " | ".join([f"{head} {step!r}", *map(repr, related[1:]), values])
    check(f"transforms traits {row}", text.replace(f"{folder}/", ""))

    assert pickle.loads(pickle.dumps(step)) == step
    opened = open_transform(step, LoadedFiles())
    assert steps.signature(opened) == steps.signature(step)
    assert (opened.name, *(each(opened) for each in PROPERTIES)) == (
        step.name,
        *(each(step) for each in PROPERTIES),
    )
    assert steps.make_deterministic([opened]) == related[1]
    assert steps.invert([opened]) == related[2]
