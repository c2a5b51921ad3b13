"""What a dataset of steps cannot take, or cannot know: options, states and iterations, with what to do instead.

It needs no PyTorch.

>>> str(unknown_place(is_broken_off=True)).partition(";")[0]
'an iteration was broken off, and its workers had read ahead of you'
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

from volt import arguments
from volt.batches.steps import Steps
from volt.display import counted
from volt.errors import ConfigError, StreamError, VoltError, quoted
from volt.ext.position import Position
from volt.stream.running.stream import Stream

_RELOAD = "load_state_dict() the state to go on from"
_STATE_OF = "where a loader's state was loaded, dataset.load_state_dict(StreamDataset.state_of(it)) instead"
_NO_OPTIONS = {"self", "path", "options", "sources", "rank", "world", "files"}


def refusing(error: VoltError) -> Iterator[dict[str, Any]]:
    """No steps, but an error."""
    raise error
    yield


def iterated_again() -> StreamError:
    """What to raise where an iterator goes on that is not the last one."""
    return StreamError("the dataset has been iterated again, or loaded, since; take a new iterator")


def yes_or_no(value: Any, name: str) -> bool:
    """True or False as it is. Raises ArgumentError for anything else.

    >>> yes_or_no(True, "tell")
    True
    """
    if not isinstance(value, bool):
        raise arguments.refusal(value, name, "give True or False")
    return value


def known_options(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options of what opens the steps. Raises ConfigError, with the name, for one that it does not take."""
    if callable(config):
        try:
            inspect.signature(config).bind(rank=0, world=1, **options)
        except TypeError as error:
            raise ConfigError(f"config cannot be called with rank, world and the options: {error}") from None
        except ValueError:  # it has no signature
            return options
        return options
    makers = Steps.from_config, Stream.from_config, Stream.__init__
    names = {name for maker in makers for name in inspect.signature(maker).parameters} - _NO_OPTIONS
    if unknown := sorted({*options} - names):
        told = ", ".join(sorted(names))
        raise ConfigError(f"StreamDataset has no option {quoted(unknown[0])}; options are {told}")
    return options


def unknown_place(is_broken_off: bool) -> StreamError:
    """What to raise where it is not known where to go on."""
    if is_broken_off:
        found = "an iteration was broken off, and its workers had read ahead of you"
        return StreamError(f"{found}; say epoch=… to end iterations after so many steps, or {_RELOAD}")
    found = "workers of an earlier iteration read this dataset, and they have ended"
    return StreamError(
        f"{found}; say persistent_workers=True, or repeat=True to start again each time, or {_RELOAD}: {_STATE_OF}"
    )


def parsed(text: str) -> Any:
    """The state that a batch holds. Raises StreamError if it is none.

    >>> parsed("{}")
    {}
    """
    try:
        return json.loads(text)
    except ValueError:
        raise StreamError("state is a text that holds no JSON; give the state of a batch") from None


def check_worker(position: Position, worker: tuple[int, int] | None, world: int) -> None:
    """Raise StreamError if a state is that of another worker."""
    if position.worker is None or (position.worker == worker and position.world == world):
        return
    number, of = position.worker
    found = f"this is the state of worker {number} of {of} of a loader, for {counted(position.world, 'rank')}"
    raise StreamError(
        f"{found}; take StreamDataset.state_of(loader's state), and load_state_dict() it before you iterate"
    )
