"""A state is what a stream has written, or it is refused: by the name of what is wrong, or by its
checksum."""

import json
import random
import re
from copy import deepcopy

import pytest
from stream.running.support import STATE, UNREAD
from support.golden import check

from volt.errors import StreamError
from volt.stream.running.checkpoint import load_state, save_state
from volt.stream.running.state import Cursor, State
from volt.stream.running.state_validation import checksum


def add_checksum(stored):
    """Return a state with the checksum of its other values."""
    return {**stored, "checksum": checksum(stored)} if "checksum" in stored else stored


def test_a_state_survives_json_and_files(tmp_path):
    """State.from_json, save_state and load_state return an equal state; VOLT's version makes no
    difference."""
    assert State.from_json(json.loads(json.dumps(STATE.to_json()))) == STATE
    save_state(STATE.to_json(), tmp_path / "state.json")
    assert load_state(tmp_path / "state.json") == STATE.to_json()
    assert State.from_json(add_checksum(STATE.to_json() | {"volt": "9.9"})) == STATE


def list_keys(value, at=()):
    """Yield the keys that lead to each value in nested lists and mappings."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield (*at, key)
        yield from list_keys(inner, (*at, key))


def damage(draw, stored):
    """Return a state in which one value is changed, of another type, missing, or added."""
    stored = deepcopy(stored)
    where = draw.choice([*list_keys(stored)])
    holder = stored
    for key in where[:-1]:
        holder = holder[key]
    value = holder[where[-1]]
    kind = draw.randrange(4)
    if kind == 0:
        del holder[where[-1]]
    elif kind == 1:
        others = [
            None,
            True,
            -1,
            1.5,
            1 << 62,
            float("nan"),
            "",
            "1",
            [],
            {},
            [value],
            {"a": value},
            10**400,
        ]
        holder[where[-1]] = draw.choice(
            [other for other in others if other != value or type(other) is not type(value)]
        )
    elif kind == 2 and isinstance(value, int):
        holder[where[-1]] = value + draw.choice([-5, -1, 1, 5, 1 << 40])
    elif isinstance(holder, dict):
        holder[
            draw.choice(
                [key for key in ("x", "cursors", "lines", "", "n ", "unread") if key not in holder]
            )
        ] = value
    else:
        holder.append(deepcopy(value))
    return stored


def test_damaged_states_are_refused():
    """State.from_json refuses a state with any changed, missing or added value, at the latest by
    its checksum."""
    draw = random.Random(1)
    stored = STATE.to_json()
    for _ in range(100):
        damaged = damage(draw, stored)
        with pytest.raises(StreamError, match=r"state.*(use a state|start the stream anew)"):
            State.from_json(damaged)


def test_states_with_wrong_types_are_refused_despite_a_right_checksum():
    """State.from_json accepts a damaged state with a right checksum only if all values have the
    right types."""
    draw = random.Random(2)
    stored = STATE.to_json()
    refused = []
    for _ in range(200):
        try:
            found = State.from_json(add_checksum(damage(draw, stored)))
            again = State.from_json(found.to_json())
            assert json.dumps(again.to_json()) == json.dumps(
                found.to_json()
            )  # NaN may be among the values
        except StreamError as error:
            refused.append(str(error))
    assert len(refused) > 60
    assert not [
        message
        for message in refused
        if "checksum" in message and "has no 'checksum'" not in message
    ]


WRONG = {
    "the state has no 'since'": {"since": ...},
    "the state has an unknown key, cursors": {"cursors": {}},
    "the state's ended is 'wmt', not a list": {"ended": "wmt"},
    "the state's accepted is 7, not text": {"accepted": [7]},
    "the state's merged is 1.0, not a whole number": {"merged": 1.0},
    "the state's configuration.sources is 5, not a mapping": {"configuration": {"sources": 5}},
    "the state contains values that no stream writes": {"sources": {"wmt": 5}},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_values_are_named(message):
    """State.from_json names the wrong value of a state, even if the checksum is right."""
    stored = {
        key: value
        for key, value in {**STATE.to_json(), **WRONG[message]}.items()
        if value is not ...
    }
    with pytest.raises(StreamError, match=re.escape(message)):
        State.from_json(add_checksum(stored))


PLACES = {
    "the state contains values that no stream writes (KeyError('unread'))": {"unread": ...},
    "sources.wmt.start is -2, not a whole number from 0 up": {"start": -2},
    "the state contains values that no stream writes": {
        "unread": [{"epoch": 2, "ranges": [[1, 2, 3]], "begun": []}]
    },
    "sources.wmt.unread is 0, not a whole number from 1 up": {
        "unread": [
            {"epoch": 2, "ranges": [], "begun": [{"start": 0, "n_lines": 1, "outputs": [[[1, 0]]]}]}
        ]
    },
}


@pytest.mark.parametrize("message", PLACES)
def test_wrong_cursors_are_named(message):
    """State.from_json names the wrong value of a source's cursor, even if the checksum is right."""
    stored = STATE.to_json()
    source = {**stored["sources"]["wmt"], **PLACES[message]}
    stored["sources"]["wmt"] = {key: value for key, value in source.items() if value is not ...}
    with pytest.raises(StreamError, match=re.escape(message)):
        State.from_json(add_checksum(stored))


@pytest.mark.parametrize(
    ("message", "cursor", "options"),
    [
        ("start: no block of this rank begins at line 5 of epoch 0", Cursor(9, 0, 5, 1), {}),
        ("start: no block of this rank begins at line 40 of epoch 0", Cursor(9, 0, 40, 1), {}),
        ("begins at line 0 of epoch 0", Cursor(9, 0, 0, 1), {"rank": 1, "world": 2}),
        ("begins at line 16 of epoch 2", Cursor(9, 2, 16, 1, unread=UNREAD), {}),
        ("goes beyond the 39 lines", Cursor(9, 2, unread=UNREAD), {"n_lines": 39}),
    ],
)
def test_cursors_outside_the_source_are_refused(message, cursor, options):
    """Cursor.check refuses a cursor at a line where no block of the rank begins, or whose unread
    lines exceed the source."""
    with pytest.raises(
        StreamError, match=f"sources.wmt.*{message}.*use a state that a stream has written"
    ):
        cursor.check("wmt", **{"n_lines": 40, "block_lines": 8, **options})


def test_cursors_at_blocks_are_accepted():
    """Cursor.check accepts a cursor at a new or begun block of the rank, or before the first block."""
    for cursor in (Cursor(), Cursor(9, 0, 32, 1), Cursor(9, 1 << 40, 8, 0, 7)):
        cursor.check("wmt", n_lines=40, block_lines=8)
    for epoch, start, offset in ((2, None, 0), (2, 8, 1), (2, 28, 1), (3, 8, 1), (4, 0, 1)):
        Cursor(9, epoch, start, offset, unread=UNREAD).check("wmt", n_lines=40, block_lines=8)


@pytest.mark.parametrize("version", [1, 2, 3, 5, True, "4"])
def test_states_of_other_versions_are_refused(version):
    """State.from_json refuses a state of any version but 4, and names both versions."""
    with pytest.raises(
        StreamError, match=f"version {version}, cannot be continued; version 4 is needed"
    ):
        State.from_json(STATE.to_json() | {"version": version})


def test_the_json_of_a_state_does_not_change(tmp_path):
    """State.to_json of a state with all features equals the stored values, and is one line of a file."""
    cursors = {
        "é": Cursor(50, 3, 0, 5, unread=UNREAD),
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
