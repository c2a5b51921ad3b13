"""What makes a line unfit before any transform sees it: too few or too many fields, too long, blank.

Whether a line is UTF-8 is always checked. The checks here are made only where a source declares them, since each of
them takes time for every line.

>>> Checks(min_fields=2).reasons(["a\\tb", "c"])
{1: 'columns: 1 fields, needs at least 2'}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from volt import arguments
from volt.errors import ConfigError


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
                arguments.whole(value, name)
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

    def reasons(self, lines: Sequence[str]) -> dict[int, str]:
        """Index → what is wrong, for each unfit line.

        lines: without line ends
        """
        return dict(self._faults(lines)) if self.any else {}

    def _faults(self, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
        most_chars = self.max_chars if self.max_chars is not None else float("inf")
        most_fields = self.max_fields if self.max_fields is not None else float("inf")
        for index, line in enumerate(lines):
            n_fields = line.count("\t") + 1
            if n_fields < self.min_fields:
                yield index, f"columns: {n_fields} fields, needs at least {self.min_fields}"
            elif n_fields > most_fields:
                yield index, f"columns: {n_fields} fields, allows {self.max_fields}"
            elif len(line) > most_chars:
                yield index, f"too long: {len(line)} characters, allows {self.max_chars}"
            elif not self.blank and not line.strip():
                yield index, "blank: no text"
