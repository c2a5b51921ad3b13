"""What a stream keeps of where it stood: little, however long it runs, and enough to go back."""

from __future__ import annotations

import numpy as np
import pytest

from volt.errors import StreamError
from volt.stream.running import recall as recalling
from volt.stream.running.recall import Recall
from volt.stream.running.state import Cursor, State

N_LINES = 1 << 23


def two_sources(n: int, *, block_lines: int) -> State:
    """Where a stream stands after n lines that two sources gave by turns, from blocks of so many lines."""
    at = Cursor(n // 2, 0, n // 2 // block_lines, n // 2 % block_lines)
    return State(n, {"a": at, "b": at}, {})


def test_small_blocks_do_not_pile_up_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state is kept for each block, of the latest blocks only; what is too long ago is told."""
    monkeypatch.setattr(recalling, "_MOST_CURSORS", 100)
    kept, n = Recall(N_LINES), 0
    for n in range(0, 4000, 4):
        kept.add(two_sources(n, block_lines=2), np.array([0, 1, 0, 1]))
    assert len(kept._runs) == 50
    assert [kept.at(back, n=n).n for back in (n + 4 - 200, n - 100, n, n + 4)] == [n + 4 - 200, n - 100, n, n + 4]
    with pytest.raises(StreamError, match=f"line 3 is not within the lines {n + 4 - 200} to {n} "):
        kept.at(3, n=n)


def test_a_block_is_kept_once_in_however_small_pieces_it_is_given() -> None:
    """Turns within the same blocks are added to what is there, and every line of them is found again."""
    kept = Recall(N_LINES)
    for n in range(0, 1000, 2):
        kept.add(two_sources(n, block_lines=10_000), np.array([0, 1]))
    assert len(kept._runs) == 1
    for n in range(0, 1001, 2):
        assert kept.at(n, n=1000) == two_sources(n, block_lines=10_000)


def test_a_window_is_as_long_as_asked() -> None:
    """Of single-line blocks, no more than the window is kept."""
    kept = Recall(10)
    for n in range(0, 100, 2):
        kept.add(two_sources(n, block_lines=1), np.array([0, 1]))
    assert kept.at(90, n=100).n == 90
    with pytest.raises(StreamError, match="raise recall"):
        kept.at(88, n=100)
