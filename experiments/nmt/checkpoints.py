"""All that a training is at a step, in one file that is whole or not there: model, optimizer, chance and data.

The file holds, beside what torch gives, the state of `volt.batches.Steps`: a few numbers that stand for everything
between the text and the model. It is written to another name and then renamed, so a kill leaves the one before.
What the options were is in it as well, since going on with others would be another training.

>>> check({"width": 256, "seed": 1}, {"width": 64, "seed": 1}, "run/checkpoint.pt")
Traceback (most recent call last):
    ...
volt.errors.ConfigError: run/checkpoint.pt is of a training with width 256, not 64; give that, or another --out
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from volt.errors import ConfigError
from volt.files.atomic import make_folder, write_atomic

_PARTS = {"options", "steps", "chances", "model", "optimizer"}
_REMEDY = "put a copy of it there, or remove it to train from the beginning"


def save(path: Path, **parts: Any) -> None:
    """Write a checkpoint, whole or not at all."""
    with write_atomic(path) as file:
        torch.save(parts, file)


def load(path: Path, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The checkpoint, or None where there is none yet. Raises ConfigError if it is of other options."""
    if not path.exists():
        return None
    found = read(path)
    check(found["options"], options, str(path))
    return found


def read(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """What a file of a checkpoint holds. Raises ConfigError if it is cut short, or no checkpoint."""
    try:
        found: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        missing = _PARTS - found.keys()
    except PermissionError:
        raise
    except Exception as error:  # other bytes raise whatever their unpickling comes upon
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"{path}: no whole checkpoint ({reason}); {_REMEDY}") from None
    if not missing and not isinstance(found["options"], dict):
        missing = {"options"}
    if missing:
        raise ConfigError(f"{path}: a checkpoint without {', '.join(sorted(missing))}; {_REMEDY}")
    return found


def fill(model: torch.nn.Module, weights: Mapping[str, Any], path: Path) -> None:
    """Give a model the weights of a checkpoint. Raises ConfigError if they are of another shape."""
    try:
        model.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError):
        told = "the vocabulary beside it has another number of ids, or the options are others"
        raise ConfigError(f"{path}: weights of another model: {told}; {_REMEDY}") from None


@contextmanager
def alone(run: Path) -> Iterator[None]:
    """Be the one training that writes into a folder, which is made. Raises ConfigError if another one does."""
    make_folder(run)
    folder = os.open(run, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = "wait for its end, or give another --out"
            raise ConfigError(f"{run}: another training writes into it; {told}") from None
        yield
    finally:
        os.close(folder)


def check(stored: Mapping[str, Any], given: Mapping[str, Any], path: str) -> None:
    """Raise ConfigError if options differ, with their names."""
    other = [name for name in {**stored, **given} if stored.get(name) != given.get(name)]
    if other:
        told = ", ".join(f"{name} {stored.get(name)}, not {given.get(name)}" for name in other)
        raise ConfigError(f"{path} is of a training with {told}; give that, or another --out")


def chance(device: torch.device) -> dict[str, torch.Tensor]:
    """Where the random numbers of this process stand, which dropout draws."""
    found = {"cpu": torch.get_rng_state()}
    return found | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def restore_chance(stored: Mapping[str, torch.Tensor], device: torch.device) -> None:
    """Draw on where `chance` was taken."""
    torch.set_rng_state(stored["cpu"])
    if device.type == "cuda" and "cuda" in stored:
        torch.cuda.set_rng_state(stored["cuda"], device)


def keep_lines(path: Path, n: int) -> int:
    """Keep the first lines of a log: those behind them belong to steps that the checkpoint does not know.

    Returns how many of the n lines are not there.
    """
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    with write_atomic(path) as file:
        file.writelines(islice(lines, n))
    return max(n - len(lines), 0)
