"""Ranks of launchers: both variables of a pair, or none."""

from __future__ import annotations

import pytest

from volt.errors import ConfigError
from volt.stream import from_environment

PAIRS = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_half_a_pair_is_refused(pair):
    """Each process would read all lines; the error names both variables."""
    rank, world = pair
    assert from_environment({rank: "1", world: "2"}) == (1, 2)
    with pytest.raises(
        ConfigError, match=f"{rank}='1' is set, but {world} is not; set both, or neither"
    ):
        from_environment({rank: "1"})
    if world != "SLURM_NTASKS":
        with pytest.raises(ConfigError, match=f"{world}='2' is set, but {rank} is not"):
            from_environment({world: "2"})


def test_what_slurm_sets_beside_tasks_says_nothing():
    """A shell of salloc has the number of tasks, and a script of sbatch may have a rank 0 alone: neither is a rank."""
    assert (
        from_environment({"SLURM_NTASKS": "4"}) == from_environment({"SLURM_PROCID": "0"}) == (0, 1)
    )


def test_the_first_launcher_counts():
    """A whole pair hides what comes after it; half a pair is not made good by another launcher."""
    assert from_environment({"RANK": "1", "WORLD_SIZE": "2", "PMI_RANK": "3"}) == (1, 2)
    with pytest.raises(ConfigError, match="RANK='1' is set"):
        from_environment({"RANK": "1", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"})
