"""What is done to lines of ids, such as those of NAME.bin and of lists in tables. Ids move as views.

>>> column = Column.of_ids(np.array([7, 8, 2, 2], np.int32), np.array([0, 3, 4]))
>>> stripped(column, 2).strings()
['7 8', '']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from volt import arguments
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.chance import Chance
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import Fields, with_fields
from volt.stream.transforms.options import ConfiguredTransform, check_fields
from volt.stream.transforms.transform import LineFault


@dataclass(frozen=True, slots=True)
class StripEos(ConfiguredTransform):
    """Take the end-of-sentence id off lines of ids that end with it, once; a line without it stays as it is."""

    name: ClassVar[str] = "strip_eos"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    id: int = 2
    """The id, which is 2 in VOLT's vocabularies and in fairseq's."""
    fields: Fields | None = None
    """The fields of ids; by default 1 and, where a line has it, 2."""

    def __post_init__(self) -> None:
        arguments.whole(self.id, "id", low=0)
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        batch, numbers = with_fields(batch, self.fields)
        columns = {number: batch.columns[number - 1] for number in numbers if batch.columns[number - 1].present.any()}
        reasons = dict[int, str]()
        for number, column in columns.items():
            texts = () if column.is_ids else np.flatnonzero(column.present).tolist()
            reasons |= dict.fromkeys(texts, f"field {number} is text, and strip_eos takes ids")
        if reasons:
            raise LineFault(reasons)
        return batch.with_columns({number: stripped(column, self.id) for number, column in columns.items()})


def stripped(column: Column, eos: int) -> Column:
    """Values of ids without the id `eos` at their ends; a missing one stays so."""
    held = np.flatnonzero(column.sizes > 0)
    sizes = column.sizes.copy()
    sizes[held] -= column.data[column.starts[held] + sizes[held] - 1] == eos
    return Column(column.data, column.starts, sizes)
