"""Work in threads: results in order, and errors in their place."""

from __future__ import annotations

from collections.abc import Iterator

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
    results = in_order(
        lambda number: 1 // number, (1 // number for number in [1, 1, 0]), n_threads=n_threads
    )
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_what_is_awaited_comes_before_more_is_asked_for(n_threads: int) -> None:
    """Behind an awaited item, its result and all before it are given before the next item is asked for."""
    results = list[int]()

    def items() -> Iterator[int]:
        for number in range(40):
            yield number
            assert len(results) == number + 1 or number % 7 not in (0, 5)

    for result in in_order(
        lambda number: number, items(), n_threads=n_threads, is_awaited=lambda n: n % 7 in (0, 5)
    ):
        results.append(result)
    assert results == list(range(40))
