"""A state in a file: written whole or not at all, and looked at before it is used.

>>> import tempfile
>>> from volt.stream.running.state import Cursor
>>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
...     save_state(State(3, {"wmt": Cursor(3)}, {}).to_json(), file.name)
...     load_state(file.name)["n"]
3
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from volt import arguments
from volt.errors import StreamError, shown_path
from volt.files.atomic import write_atomic
from volt.files.sizes import is_file
from volt.files.whole import read_bytes
from volt.stream.running.state import State

_MOST = 1 << 28  # bytes of a file


def save_state(state: Mapping[str, Any], path: str | Path) -> None:
    """Write what `Stream.state` gives, whole or not at all.

    state: what `Stream.state` gives
    path: where to

    Raises OutputError if the place cannot be written, StreamError if it is no state.

    >>> import tempfile
    >>> from volt.stream.running.state import Cursor
    >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
    ...     save_state(State(3, {"wmt": Cursor(3)}, {}).to_json(), file.name)
    ...     load_state(file.name)["n"]
    3
    """
    told = State.from_json(state).to_json()
    with write_atomic(arguments.path(path)) as file:
        file.write((json.dumps(told, ensure_ascii=False) + "\n").encode())


def load_state(path: str | Path) -> dict[str, Any]:
    """Read a saved state, for `Stream.restore`.

    path: of the file

    Raises StreamError if the file cannot be read or is no state.

    >>> load_state("/nowhere/state.json")
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: /nowhere/state.json: cannot be read: no such file or directory; check the path
    """
    place = shown_path(path := arguments.path(path))
    try:
        stored = json.loads(read_bytes(path, kind=StreamError, most=_MOST))
    except (ValueError, RecursionError) as error:
        raise StreamError(f"{place}: not JSON ({error}); take a file that a stream has written") from error
    if not isinstance(stored, dict):
        raise StreamError(f"{place}: no state of a stream; take a file that a stream has written")
    try:
        State.from_json(stored)
    except StreamError as error:
        raise StreamError(f"{place}: {error}") from None
    return stored


def check_own(path: str | Path, rank: int, world: int) -> None:
    """Raise StreamError if a file holds the state of another rank of so many, which a state of this one would replace.

    path: of a file that a state is to be written to; there may be none, or one that holds no state

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
    ...     save_state(State(0, {}, {"rank": 1, "world": 2}).to_json(), file.name)
    ...     check_own(file.name, 1, 2)
    """
    if world == 1 or not is_file(path):
        return
    try:
        found = load_state(path)["configuration"]
    except StreamError:
        return
    if found.get("world") == world and found.get("rank", rank) != rank:
        raise StreamError(
            f"{shown_path(path)}: holds the state of rank {found['rank']} of {world}, and this is rank {rank}; "
            "give each rank a file of its own, or remove this one"
        )
