"""Checkpoints: `save_state` writes the state of a stream to a file, and `load_state` reads it.

`read_state` also reads other states, such as those of steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from volt import arguments
from volt.errors import StreamError, shown_path
from volt.files.atomic import write_atomic
from volt.files.paths import is_file
from volt.files.small_files import read_bytes
from volt.stream.running.state import State

_MOST_BYTES = 1 << 28  # of a file


def save_state(state: Mapping[str, Any], path: str | Path) -> None:
    """Write a state to a file, atomically.

    state: from `Stream.state`
    path: the file's path

    Raises OutputError if the file cannot be written, StreamError if the state is invalid.

    >>> from volt.stream.running.state import Cursor
    >>> save_state(State(3, {"wmt": Cursor(3)}, {}).to_json(), "/dev/null")
    """
    values = State.from_json(state).to_json()
    with write_atomic(arguments.path(path)) as file:
        file.write((json.dumps(values, ensure_ascii=False) + "\n").encode())


def load_state(path: str | Path) -> dict[str, Any]:
    """Read a saved state, for `Stream.restore`.

    path: the file's path

    Raises StreamError if the file cannot be read or is not a state.

    >>> load_state("/nowhere/state.json")
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: /nowhere/state.json: cannot be read: no such file or directory; check
    the path
    """
    stored = read_state(path)
    try:
        State.from_json(stored)
    except StreamError as error:
        raise StreamError(f"{shown_path(path)}: {error}") from None
    return stored


def read_state(path: str | Path) -> dict[str, Any]:
    """Read a saved state of lines or of steps, without checking its values."""
    path = arguments.path(path)
    try:
        stored = json.loads(read_bytes(path, kind=StreamError, most=_MOST_BYTES))
    except (ValueError, RecursionError) as error:
        fault = f"is not JSON ({error})"
    else:
        if isinstance(stored, dict):
            return stored
        fault = "is not a state"
    raise StreamError(f"{shown_path(path)}: {fault}; give a file that a stream has written")


def check_rank_of_file(path: str | Path, rank: int, world: int) -> None:
    """Raise StreamError if a file, which a rank is about to write, contains the state of another
    rank."""
    if world == 1 or not is_file(path):
        return
    try:
        stored = load_state(path)["configuration"]
    except StreamError:
        return
    if stored.get("world") == world and stored.get("rank", rank) != rank:
        owner = f"is the state of rank {stored['rank']} of {world}, but this is rank {rank}"
        raise StreamError(
            f"{shown_path(path)}: {owner}; give each rank its own file, or remove this one"
        )
