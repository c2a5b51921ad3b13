"""What a benchmark reports: rows of medians, and the claims that they are held against.

>>> Row("ids", "a", "volt", mb=2.0, seconds={"warm": 0.25}).seconds
{'warm': 0.25}
"""

from __future__ import annotations

from dataclasses import dataclass, field

from measure import BUSY

FORMAT = "volt-bench 1"
PHASES = ("make", "first", "cold", "warm", "wall")


@dataclass(frozen=True, slots=True)
class Row:
    """Medians of a job. seconds, spread: of each phase, and its fastest and slowest;  peak: MB of the largest process;
    others: cores that other processes kept busy;  ratios: seconds per MB ÷ those of `against`, by phase;  equal: how
    equal the results are."""

    case: str
    text: str
    program: str
    mb: float = 0.0
    threads: int = 1
    seconds: dict[str, float] = field(default_factory=dict)
    spread: dict[str, list[float]] = field(default_factory=dict)
    peak: float = 0.0
    others: float = 0.0
    n_runs: int = 0
    against: str = ""
    against_text: str = ""
    ratios: dict[str, float] = field(default_factory=dict)
    equal: str = ""
    note: str = ""
    error: str = ""

    @property
    def busy(self) -> bool:
        """Whether other processes made it slower."""
        return self.others > BUSY


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure that is aimed at. found: None if it was not measured;  at_least: else at most."""

    name: str
    wanted: float
    found: float | None
    at_least: bool = True
    unit: str = "×"

    @property
    def holds(self) -> bool:
        """Whether the figure is reached.

        >>> Claim("start", 0.3, 0.2, at_least=False).holds
        True
        """
        if self.found is None:
            return False
        return self.found >= self.wanted if self.at_least else self.found <= self.wanted
