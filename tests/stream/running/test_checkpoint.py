"""`save_state` and `load_state`: states in files, or refused with the path."""

import json
import random

import pytest
from stream.running.support import STATE

from volt.errors import StreamError
from volt.stream.running.checkpoint import check_rank_of_file, load_state, save_state
from volt.stream.running.state import State


def test_a_file_of_another_rank_is_not_overwritten(tmp_path):
    """check_rank_of_file refuses a file with another rank's state; it allows the same rank, another
    world, and other files."""
    path = tmp_path / "s.json"
    check_rank_of_file(path, 0, 2)
    for rank, world, is_refused in ((0, 2, False), (1, 2, True), (1, 3, False), (0, 1, False)):
        save_state(State(0, {}, {"rank": rank, "world": world}).to_json(), path)
        if is_refused:
            with pytest.raises(
                StreamError,
                match=r"s\.json: is the state of rank 1 of 2, but this is rank 0; give each",
            ):
                check_rank_of_file(path, 0, 2)
        else:
            check_rank_of_file(path, 0, 2)
        check_rank_of_file(path, 0, 1)
    path.write_text("{}")
    check_rank_of_file(path, 0, 2)


def test_damaged_files_are_refused(tmp_path):
    """If bytes of a state's file are changed, missing or repeated, load_state raises an error that
    starts with the path. It accepts the file only if the state that it reads is unchanged."""
    draw = random.Random(3)
    path = tmp_path / "state.json"
    refused = []
    save_state(STATE.to_json(), path)
    data = path.read_bytes()
    for number in range(100):
        at = draw.randrange(len(data) - 1)
        damaged = bytearray(data)
        if number % 3 == 0:
            damaged[at] ^= 1 << draw.randrange(8)
        elif number % 3 == 1:
            del damaged[at:]
        else:
            damaged[at:at] = damaged[at : at + draw.randrange(1, 9)]
        path.write_bytes(damaged)
        try:
            assert load_state(path) == STATE.to_json()
        except StreamError as error:
            refused.append(str(error))
    assert len(refused) > 90
    assert all(message.startswith(f"{path}: ") for message in refused)


def test_a_saved_state_is_loaded_equal(make, tmp_path):
    """load_state returns the state that save_state has written to a small file."""
    stream = make()
    list(stream.blocks(limit=50))
    save_state(stream.state(), tmp_path / "state.json")
    assert load_state(tmp_path / "state.json") == json.loads(json.dumps(stream.state()))
    assert (tmp_path / "state.json").stat().st_size < 4000
