"""States, their values, their differences and their division, at their limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import check
from hypothesis import given
from hypothesis import strategies as st
from streams import write_lines

from volt.errors import ArgumentError, StreamError
from volt.stream import Source
from volt.stream.reading.open_source import open_source
from volt.stream.reading.unread_lines import FOREVER, LineBlock, UnreadLines
from volt.stream.running import state_validation
from volt.stream.running.checkpoint import check_own, load_state, save_state
from volt.stream.running.merging_states import _divided
from volt.stream.running.resuming import n_lines_before
from volt.stream.running.state import Cursor, FaultCounts, Opening, State, advanced, reached
from volt.stream.running.state_differences import differences, refuse_difference


def test_positions_move_with_turns() -> None:
    """Only blocks that are reached count, up to each source's last one with a line; reasons are summed."""
    block = LineBlock(0, 0, 4)

    def at(n: int, source: int, size: int, lines: int = 0) -> Opening:
        return Opening(
            n, source, Cursor(lines, n, 0), block, size, FaultCounts(4, {"utf": 1, "blank": n})
        )

    openings = [at(3, 0, 0), at(3, 0, 2), at(4, 1, 1), at(5, 0, 0), at(6, 0, 1, 2), at(6, 1, 0)]
    for n, places in (
        (3, []),
        (4, [0, 1]),
        (5, [0, 1, 2]),
        (6, [0, 1, 2]),
        (7, [0, 1, 2, 3, 4]),
        (99, [0, 1, 2, 3, 4]),
    ):
        assert reached(openings, n) == [openings[place] for place in places]
    state = State(3, {"a": Cursor(), "b": Cursor()}, {}, n_read=1, n_faults=2, reasons={"utf": 2})
    after = advanced(state, np.array([0, 1, 0]), openings)
    assert after == State(
        6,
        {"a": Cursor(2, 3, 0, 2), "b": Cursor(1, 4, 0, 1)},
        {},
        n_read=13,
        n_faults=15,
        reasons={"utf": 5, "blank": 10},
    )
    assert advanced(state, np.array([], np.int64), openings) == state


@pytest.mark.parametrize(
    ("check_one", "good", "bad"),
    [
        (state_validation.whole, [0, 1, (1 << 62) - 1], [-1, 1 << 62, True, 1.0, "1", None]),
        (lambda value, place: state_validation.whole(value, place, low=1), [1], [0]),
        (state_validation.text, ["", "a"], [1, None, b"a"]),
        (state_validation.mapping, [{}, {"a": 1}], [{1: 2}, [], "a", {"a": 1, 2: 3}]),
        (state_validation.listed, [[], (), [1]], ["a", {}, 1]),
    ],
)
def test_values_of_states(
    check_one: Callable[[Any, str], Any], good: list[Any], bad: list[Any]
) -> None:
    """A valid value of a state is returned; an invalid one is refused by its place."""
    assert [check_one(value, "x.y") for value in good] == good
    for value in bad:
        with pytest.raises(
            StreamError,
            match=r"^the state's x\.y is .*, not (a |an |)[a-z].*; use a state that a stream has written",
        ):
            check_one(value, "x.y")


def test_keys_of_states() -> None:
    """All of them, and no other; the checksum does not depend on their order."""
    state_validation.check_keys({"b": 1, "a": 2}, ("a", "b"))
    for wrong, message in (
        ({"a": 1}, "the state has no 'b'"),
        ({"a": 1, "b": 2, "c": 3}, "the state has an unknown key, c"),
    ):
        with pytest.raises(StreamError, match=message):
            state_validation.check_keys(wrong, ("a", "b"))
    sums = [
        state_validation.checksum(one)
        for one in ({"a": 1, "b": [2]}, {"b": [2], "a": 1, "checksum": "x"}, {"a": 1})
    ]
    assert (sums[0], len(sums[0])) == (sums[1], 32)
    assert sums[0] != sums[2]
    with pytest.raises(StreamError, match="contains values that are not JSON"):
        state_validation.check_checksum({"a": {1, 2}, "checksum": ""})
    for wrong_state in ([], "x", None):
        with pytest.raises(
            ArgumentError,
            match=r"state is .*; give the result of Stream\.state or volt\.stream\.load_",
        ):
            State.from_json(wrong_state)  # type: ignore[arg-type]


def test_states_stay_as_they_are(tmp_path: Path) -> None:
    """The JSON of a state with everything, bit for bit; in a file with one line."""
    deal = (
        UnreadLines(
            2,
            (range(8), range(20, 30)),
            (LineBlock(2, 8, 8, (range(3, FOREVER, 2), range(6, FOREVER, 2))),),
        ),
        UnreadLines(3, (range(40),)),
    )
    cursors = {
        "é": Cursor(50, 3, 0, 5, unread=deal),
        "b": Cursor(20, 0, 16, 4, 2, 3, grown=((1, 9),)),
    }
    state = State(
        70, cursors, {"seed": 1}, 60, {"é": 40}, ("b",), 90, 3, {"utf": 1}, ("weights",), 2
    )
    save_state(state.to_json(), tmp_path / "s.json")
    text = (tmp_path / "s.json").read_text()
    assert (text.count("\n"), "é" in text, load_state(tmp_path / "s.json")) == (
        1,
        True,
        state.to_json(),
    )
    assert State.from_json(state.to_json()) == state
    check(
        "stream state",
        {key: str(value) for key, value in state.to_json().items() if key != "volt"}
        | {"checksum": ""},
    )


@pytest.mark.parametrize(
    ("stored", "current", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {}, ["a: 1 in the state, none here"]),
        ({"a": None}, {"a": 0}, ["a: none in the state, 0 here"]),
        ({"b": 1, "a": 1}, {"a": 2, "b": 2}, ["a: 1", "b: 1"]),
        (
            {"sources": {"x": {"n": 1}}},
            {"sources": {"y": {"n": 1}}},
            ["sources.x: only in", "sources.y: not in"],
        ),
        (
            {"sources": {"x": {"n": 1}}},
            {"sources": {"x": {"n": 2}}},
            ["sources.x.n: 1 in the state, 2 here"],
        ),
        ({"z": {"x": {"n": 1}}}, {"z": {}}, ["z.x: {'n': 1} in the state, none here"]),
    ],
)
def test_differences_are_named(stored: Any, current: Any, expected: list[str]) -> None:
    """By their places, in the order of names."""
    result = differences(stored, current)
    assert len(result) == len(expected)
    assert all(one.startswith(start) for one, start in zip(result, expected, strict=True))


@pytest.mark.parametrize(
    ("change", "accept", "grown", "expected"),
    [
        ({}, (), (), ()),
        ({"mix": "x"}, ("weights",), (), ("weights",)),
        ({"mix": "x"}, (), (), "weights"),
        ({"sources": {"a": {"weight": 2}}}, ("weights", "data"), (), ("weights",)),
        ({"sources": {"a": {"weight": 1, "n_lines": 2}}}, ("data",), ("a",), ("data",)),
        ({"sources": {"a": {"weight": 1, "n_lines": 2}}}, (), ("a",), "data"),
        ({"sources": {"a": {"weight": 1, "n_lines": 2}}}, ("data",), ("b",), None),
        ({"sources": {"a": {"weight": 1}, "b": {}}}, ("sources",), (), ("sources",)),
        ({"seed": 2}, ("weights", "data"), (), None),
        ({"sources": {"a": {"weight": 2}, "b": {}}}, ("sources",), (), "sources.*weights"),
        ({"sources": {"a": {"weight": 1, "shuffle": 1}}}, ("data",), ("a",), None),
        ({"sources": {}}, ("sources",), (), None),
    ],
)
def test_differences_are_accepted_by_name(
    change: Any, accept: Any, grown: Any, expected: Any
) -> None:
    """Weights, added sources and appended lines; a refusal names what to pass, if that helps."""
    stored = {"seed": 1, "rank": 0, "sources": {"a": {"weight": 1}}}
    if isinstance(expected, tuple):
        assert (
            refuse_difference(stored, {**stored, **change}, accept=accept, grown=grown) == expected
        )
    else:
        ends = (
            "restore it there, or start anew$"
            if expected is None
            else rf"or start anew, or pass accept=\[.*{expected}"
        )
        with pytest.raises(StreamError, match=f"the state belongs to another stream: .*{ends}"):
            refuse_difference(stored, {**stored, **change}, accept=accept, grown=grown)


@pytest.mark.parametrize("before", [0, 1, 3, 4, 5, 6])
def test_appended_lines_are_recognised(tmp_path: Path, before: int) -> None:
    """However many there were before, in one file or several; a digest of other lines is not."""
    paths = [
        write_lines(tmp_path / name, [f"{name}{i}" for i in range(n)])
        for name, n in (("a", 4), ("b", 2))
    ]
    now = open_source(Source("s", tuple(paths), split_lines=2), seed=1)
    (tmp_path / "old").mkdir()
    texts = [f"{name}{i}" for name, n in (("a", 4), ("b", 2)) for i in range(n)][:before]
    old = [
        write_lines(tmp_path / "old" / name, own)
        for name in "ab"
        if (own := [t for t in texts if t[0] == name])
    ]
    if old:
        stored = open_source(Source("s", tuple(old), split_lines=2), seed=1).fingerprints
        assert n_lines_before(now, stored) == (before if before < 6 else None)
        assert n_lines_before(now, {**stored, "lines": "x"}) is None
    for wrong in ({}, {"n_lines": "3"}, {"n_lines": 0, "lines": ""}, {"n_lines": 7, "lines": ""}):
        assert n_lines_before(now, wrong) is None


def test_states_belong_to_ranks(tmp_path: Path) -> None:
    """A file with another rank's state is not written over; with an earlier one of its own, or another world, it is."""
    path = tmp_path / "s.json"
    check_own(path, 0, 2)
    for rank, world, is_refused in ((0, 2, False), (1, 2, True), (1, 3, False), (0, 1, False)):
        save_state(State(0, {}, {"rank": rank, "world": world}).to_json(), path)
        if is_refused:
            with pytest.raises(
                StreamError,
                match=r"s\.json: is the state of rank 1 of 2, but this is rank 0; give each",
            ):
                check_own(path, 0, 2)
        else:
            check_own(path, 0, 2)
        check_own(path, 0, 1)
    path.write_text("{}")
    check_own(path, 0, 2)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 20)), st.integers(1, 6))
def test_counts_are_divided(totals: dict[str, int], world: int) -> None:
    """Each total, and their sum, within one; nothing is lost."""
    shares = [_divided(totals, rank, world) for rank in range(world)]
    for name, total in totals.items():
        assert sorted(share[name] for share in shares) == sorted(
            (total + rank) // world for rank in range(world)
        )
    sums = [sum(share.values()) for share in shares]
    assert max(sums) - min(sums) <= 1
    assert sums == sorted(sums, reverse=True)
