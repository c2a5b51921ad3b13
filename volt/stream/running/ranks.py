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

    Raises ConfigError if one is no number or the rank is not below the world.

    >>> from_environment({})
    (0, 1)
    """
    found = os.environ if environment is None else arguments.mapping(environment, "environment")
    for rank, world in _NAMES:
        if rank in found and world in found:
            try:
                return check_rank(int(found[rank]), int(found[world]))
            except (ValueError, TypeError, ConfigError) as error:
                raise ConfigError(f"{rank}={found[rank]!r}, {world}={found[world]!r}: {error}; unset them") from None
    return 0, 1


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
