"""`Cost`: a call's seconds and peak memory."""

import numpy as np

from volt.comparison.time_and_memory import Cost, measure_cost


def test_costs_are_measured():
    """`measure_cost` returns the seconds of a call and, on Linux, its peak memory."""
    # More than freed memory can contain.
    n_bytes, cost = measure_cost(lambda: np.ones(100_000_000, np.uint8).size)
    assert n_bytes == 100_000_000
    assert cost.seconds > 0
    assert cost.memory_mb is None or 90 < cost.memory_mb < 180


def test_costs_are_added():
    """The sum of two costs has all seconds, and the greater peak memory."""
    assert Cost(1, None) + Cost(2, 5) == Cost(3, 5)
    assert Cost(1, 7) + Cost(2, 5) == Cost(3, 7)
