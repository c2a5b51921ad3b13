"""Values that threads share are made once; values that cannot be shared are refused."""

from __future__ import annotations

import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from volt.stream.transforms.spm import SpmEncode
from volt.stream.transforms.transform import SharedCache, is_compiled


class Large:
    """Stands for a file in memory."""


def test_a_value_is_made_by_one_thread_alone():
    """Four threads that want the same value at once get one and the same."""
    kept, made, start = SharedCache(most=1), list[Large](), threading.Barrier(4)

    def make():
        time.sleep(0.02)
        made.append(Large())
        return made[-1]

    def want(_):
        start.wait()
        return kept.get("a", make)

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(want, range(4))) == set(made)
    assert len(made) == 1


def test_the_old_value_goes_before_the_next_is_made():
    """At no time are more values held than may be, so that of whole files there are not two."""
    kept = SharedCache(most=1)
    old = weakref.ref(kept.get("a", Large))
    assert old() is not None
    assert kept.get("b", lambda: old() is None), (
        "the first was still there while the second was made"
    )


@pytest.mark.parametrize(
    ("alpha", "nbest", "expected"),
    [(None, -1, True), (0.1, -1, True), (0.1, 1, True), (0.1, 8, False)],
)
def test_the_n_best_encodings_are_for_processes(alpha, nbest, expected):
    """Where the library works line by line under Python's lock, workers are processes."""
    assert is_compiled(SpmEncode(Path("m.model"), alpha=alpha, nbest=nbest)) is expected
