"""Values of saved states are checked, and reported by their place."""

import pytest

from volt.errors import ArgumentError, StreamError
from volt.stream.running import state_validation
from volt.stream.running.state import State


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
def test_values_are_checked(check_one, good, bad):
    """Each check returns a valid value; it refuses an invalid value, and names its key."""
    assert [check_one(value, "x.y") for value in good] == good
    for value in bad:
        with pytest.raises(
            StreamError,
            match=r"^the state's x\.y is .*, not (a |an |)[a-z].*; use a state that a stream has written",
        ):
            check_one(value, "x.y")


def test_keys_and_checksums_are_checked():
    """check_keys refuses missing and unknown keys; the checksum does not depend on the keys'
    order."""
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
            State.from_json(wrong_state)
