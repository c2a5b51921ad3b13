"""Work in threads: results in order, and errors in their place."""

from __future__ import annotations

import pytest

from volt.files.threads import in_order


@pytest.mark.parametrize("n_threads", [1, 4])
def test_errors_come_in_order(n_threads: int) -> None:
    """Results before an error are delivered, then the error."""
    results = in_order(lambda number: 1 // number, [1, 1, 0, 1], n_threads=n_threads)
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize("n_threads", [1, 4])
def test_errors_of_what_makes_the_items_come_behind_the_results(n_threads: int) -> None:
    """If making the third item fails, the first two results are delivered, then the error."""
    results = in_order(lambda number: 1 // number, (1 // number for number in [1, 1, 0]), n_threads=n_threads)
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
