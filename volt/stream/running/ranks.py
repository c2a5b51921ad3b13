"""Which part of a stream is this process's: rank and world, as launchers tell them.

>>> from_environment({"RANK": "1", "WORLD_SIZE": "4"})
(1, 4)
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from volt import arguments
from volt.errors import ConfigError

_NAMES = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def from_environment(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Rank and world from the variables of torchrun, MPI or Slurm, or (0, 1) if none are set.

    environment: the variables; by default those of this process

    The first launcher counts of which a variable is set. Half a pair is refused: each process would read all lines.
    Slurm sets one of its own in scripts and shells that are no task: SLURM_NTASKS alone, or SLURM_PROCID=0 alone, says
    nothing.

    Raises ConfigError if one is set without the other, or is no number, or the rank is not below the world.

    >>> from_environment({})
    (0, 1)
    >>> from_environment({"RANK": "1"})
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: RANK='1' is set, and WORLD_SIZE is not; set both, or unset it
    """
    found = os.environ if environment is None else arguments.mapping(environment, "environment")
    for rank, world in _NAMES:
        if rank in found and world in found:
            try:
                return check_rank(int(found[rank]), int(found[world]))
            except (ValueError, TypeError, ConfigError) as error:
                raise ConfigError(f"{rank}={found[rank]!r}, {world}={found[world]!r}: {error}; unset them") from None
        _check_half(rank, world, found)
    return 0, 1


def _check_half(rank: str, world: str, found: Mapping[str, str]) -> None:
    """Raise ConfigError if one of two variables is set that go together."""
    for one, other in ((rank, world), (world, rank)):
        says_nothing = one == "SLURM_NTASKS" or (one == "SLURM_PROCID" and found.get(one) == "0")
        if one in found and not says_nothing:
            raise ConfigError(f"{one}={found[one]!r} is set, and {other} is not; set both, or unset it")


def check_rank(rank: int, world: int) -> tuple[int, int]:
    """Both, if the rank is one of the world's.

    >>> check_rank(2, 2)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: rank 2 of world 2: ranks count from 0 to world − 1
    """
    rank, world = arguments.whole(rank, "rank"), arguments.whole(world, "world")
    if not 0 <= rank < world:
        raise ConfigError(f"rank {rank} of world {world}: ranks count from 0 to world − 1")
    return rank, world
