"""How much memory counting and learning may take, as options of a command.

>>> Bounds().budget() is None, Bounds(memory="1G").budget().n_bytes
(True, 1073741824)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from volt.count.budget import Budget
    from volt.count.word_counts import WordCounts
    from volt.kernels.ready import Job


@dataclass(frozen=True)
class Bounds:
    """What holds counting within a memory."""

    PANEL = "Reading and counting"

    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="About what counting and learning may take, such as 2G; words beyond it go to the disk. The "
            "first use on a machine compiles, in 150 MB more. Default: any.",
            show_default=False,
        ),
    ] = None
    approximate: Annotated[
        bool,
        typer.Option(
            "--approximate", help="With --memory: forget the rarest words, and tell by how much counts are off."
        ),
    ] = False

    def budget(self) -> Budget | None:
        """The bytes; None for any number. Raises ConfigError if they are none, or too few."""
        from volt.count.budget import Budget

        return None if self.memory is None else Budget.of(self.memory)

    def check(self, counts: WordCounts) -> None:
        """Raise CorpusError if learning from so many words would take more."""
        if budget := self.budget():
            budget.check_learning(counts.table, approximate=self.approximate)

    def jobs(self, min_count: int) -> tuple[Job, ...]:
        """The compiled loops that are needed besides where words may be left out."""
        return ("certain",) if self.approximate or min_count > 1 else ()
