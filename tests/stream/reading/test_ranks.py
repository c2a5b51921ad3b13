"""`from_environment`: the rank and world that a launcher has set."""

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
def test_a_rank_without_a_world_is_refused(pair):
    """from_environment refuses a rank without a world, or a world without a rank, and names both
    variables."""
    rank, world = pair
    assert from_environment({rank: "1", world: "2"}) == (1, 2)
    with pytest.raises(
        ConfigError, match=f"{rank}='1' is set, but {world} is not; set both, or neither"
    ):
        from_environment({rank: "1"})
    if world != "SLURM_NTASKS":
        with pytest.raises(ConfigError, match=f"{world}='2' is set, but {rank} is not"):
            from_environment({world: "2"})


def test_variables_that_slurm_always_sets_are_ignored():
    """from_environment ignores SLURM_NTASKS alone, and SLURM_PROCID=0 alone, which Slurm sets in
    all scripts."""
    assert (
        from_environment({"SLURM_NTASKS": "4"}) == from_environment({"SLURM_PROCID": "0"}) == (0, 1)
    )


def test_the_first_launcher_counts():
    """from_environment returns the first launcher's pair; an incomplete pair is not completed by
    another launcher."""
    assert from_environment({"RANK": "1", "WORLD_SIZE": "2", "PMI_RANK": "3"}) == (1, 2)
    with pytest.raises(ConfigError, match="RANK='1' is set"):
        from_environment({"RANK": "1", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"})
