"""Mixtures as examples, and strategies that generate weights, schedules and mixtures."""

from hypothesis import strategies as st

from volt.stream import Schedule

STEPS = Schedule(((0, 1.0), (6, 0.0), (12, 3.0)))
LINE = Schedule(((0, 1.0), (10, 3.0), (20, 0.0)), "linear")
LATE = Schedule(((0, 0.0), (8, 1.0)), "linear")
MIXTURES = {
    "one": (0.3,),
    "equal": (1.0, 1.0, 1.0),
    "weights": (3.0, 1.0, 0.0, 0.1),
    "steps": (STEPS, 1.0),
    "line": (LINE, 1.0, 0.5),
    "late": (1.0, LATE),
    "alone": (Schedule(((0, 1.0), (5, 0.0), (9, 2.0))), Schedule(((0, 0.0), (5, 1.0), (9, 0.0)))),
    "from nothing": (
        Schedule(((0, 2.0), (10, 0.0)), "linear"),
        Schedule(((0, 0.0), (10, 1.0)), "linear"),
    ),
    "stairs": (Schedule(((0, 1.0), (400, 9.0)), "linear"), 5.0),
    "constant": (Schedule(((0, 2.0), (9, 2.0)), "linear"), 1.0),
}


values = st.one_of(st.floats(0.001, 1000), st.sampled_from([0.0, 1.0, 1e-6, 0.1, 1 / 3]))


@st.composite
def schedules(draw):
    """A schedule with up to five points within 400 samples."""
    samples = sorted({0, *draw(st.lists(st.integers(1, 150), max_size=4))})
    points = tuple((sample, draw(values)) for sample in samples)
    return Schedule(points, draw(st.sampled_from(["steps", "linear"])))


weights = st.one_of(values, schedules())
# the first weight keeps the sum above 0
mixtures = st.builds(
    lambda first, others: (first, *others), st.floats(0.001, 10), st.lists(weights, max_size=7)
)
