"""The rank of a process: checked, or read from the environment variables of a launcher."""

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


def check_rank(rank: int, world: int) -> tuple[int, int]:
    rank = arguments.whole(rank, "rank")
    world = arguments.whole(world, "world")
    if not 0 <= rank < world:
        raise ConfigError(
            f"rank {rank} of world {world}: give a rank of 0 or more, and a world above it"
        )
    return rank, world


def from_environment(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Return (rank, world) from the environment variables of torchrun, MPI or Slurm; (0, 1) if none
    is set.

    environment: the variables; by default `os.environ`

    Raises ConfigError if only the rank or only the world is set. SLURM_NTASKS or SLURM_PROCID=0
    alone is ignored, because Slurm sets it in all scripts.

    >>> from_environment({}), from_environment({"RANK": "1", "WORLD_SIZE": "2"})
    ((0, 1), (1, 2))
    """
    variables = os.environ if environment is None else arguments.mapping(environment, "environment")
    for rank, world in _NAMES:
        if rank in variables and world in variables:
            try:
                return check_rank(int(variables[rank]), int(variables[world]))
            except (ValueError, TypeError, ConfigError) as error:
                pair = f"{rank}={variables[rank]!r}, {world}={variables[world]!r}"
                raise ConfigError(f"{pair}: {error}; unset them") from None
        for name, missing in ((rank, world), (world, rank)):
            if name in variables and not _is_ignored(name, variables[name]):
                raise ConfigError(
                    f"{name}={variables[name]!r} is set, but {missing} is not; set both, or neither"
                )
    return 0, 1


def _is_ignored(name: str, value: str) -> bool:
    return name == "SLURM_NTASKS" or (name == "SLURM_PROCID" and value == "0")
