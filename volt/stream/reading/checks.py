"""What makes a line unfit before any transform sees it: too few or too many fields, too long, blank.

Whether a line is UTF-8 is always checked. The checks here are made only where a source declares them, since each of
them takes time for every line.

>>> Checks(min_fields=2).reasons(Batch.of(["a\\tb", "c"]))
{1: 'columns: 1 fields, needs at least 2'}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column, Longs, Mask
from volt.stream.transforms.measures import blank, lengths


@dataclass(frozen=True, slots=True)
class Checks:
    """What a line must be like.

    min_fields, max_fields: how many fields it may have.
    max_chars: how many characters it may have.
    blank: whether it may be empty, or hold nothing but white space.

    >>> Checks(min_fields=3, max_fields=2)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: min_fields=3, max_fields=2: no line can have that many fields; change one
    """

    min_fields: int = 0
    max_fields: int | None = None
    max_chars: int | None = None
    blank: bool = True

    def __post_init__(self) -> None:
        for name in ("min_fields", "max_fields", "max_chars"):
            value = getattr(self, name)
            if value is not None or name == "min_fields":
                arguments.whole(value, name, low=0)
        if self.max_fields is not None and self.max_fields < max(1, self.min_fields):
            found = f"min_fields={self.min_fields}, max_fields={self.max_fields}"
            raise ConfigError(f"{found}: no line can have that many fields; change one")

    @property
    def any(self) -> bool:
        """Whether anything is checked.

        >>> Checks().any, Checks(blank=False).any
        (False, True)
        """
        return self != Checks()

    def reasons(self, batch: Batch) -> dict[int, str]:
        """Index → what is wrong, for each unfit line. Nothing is counted that is not limited.

        batch: the lines

        >>> Checks(max_chars=3, blank=False).reasons(Batch.of(["long", "", "ok"]))
        {0: 'too long: 4 characters, allows 3', 1: 'blank: no text'}
        """
        reasons = self._blank(batch) | self._too_long(batch) | self._columns(batch)
        return dict(sorted(reasons.items()))

    def _columns(self, batch: Batch) -> dict[int, str]:
        if self.min_fields <= 1 and self.max_fields is None:
            return {}
        n_fields = np.maximum(batch.n_fields, 1)
        few = _told(n_fields < self.min_fields, n_fields, f"columns: {{}} fields, needs at least {self.min_fields}")
        if self.max_fields is None:
            return few
        return few | _told(n_fields > self.max_fields, n_fields, f"columns: {{}} fields, allows {self.max_fields}")

    def _too_long(self, batch: Batch) -> dict[int, str]:
        if self.max_chars is None:
            return {}
        n_chars = np.full(len(batch), -1)  # a tab stands between two fields
        for column in _columns_of(batch):
            n_chars += lengths(column, "characters") + column.present
        n_chars = np.maximum(n_chars, 0)
        return _told(n_chars > self.max_chars, n_chars, f"too long: {{}} characters, allows {self.max_chars}")

    def _blank(self, batch: Batch) -> dict[int, str]:
        if self.blank:
            return {}
        is_blank = np.ones(len(batch), bool)
        for column in _columns_of(batch):
            is_blank &= blank(column)
        return dict.fromkeys(np.flatnonzero(is_blank).tolist(), "blank: no text")


def _columns_of(batch: Batch) -> tuple[Column, ...]:
    return batch.columns if batch.rest is None else (*batch.columns, batch.rest)


def _told(unfit: Mask, numbers: Longs, reason: str) -> dict[int, str]:
    """The reason for each unfit line, with its number in the place of {}."""
    return {index: reason.format(numbers[index]) for index in np.flatnonzero(unfit).tolist()}
