"""Differences between a state and a stream are named, and accepted by name."""

import pytest

from volt.errors import StreamError
from volt.stream.running.state_differences import differences, refuse_difference


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
def test_differences_are_listed_by_key(stored, current, expected):
    """differences returns one line per different value, with its key, in the order of keys."""
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
def test_differences_are_accepted_by_kind(change, accept, grown, expected):
    """refuse_difference accepts weights, added sources and appended lines if `accept` names them;
    else the error does."""
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
