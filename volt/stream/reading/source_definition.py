"""`Source`: the declaration of a source: paths, weight, transforms, shuffling, and checks of lines.

`open_source` opens what a `Source` declares. Lines are always checked for UTF-8; `Checks` cost
time, and run only where they are declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.array_types import Flags, Longs
from volt.display import counted
from volt.errors import ConfigError
from volt.stream.mixing.schedule import Schedule, check_weight
from volt.stream.transforms.column_measurements import find_blank_values, measure_lengths
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.options import MOST_COPIES
from volt.stream.transforms.transform import Transform, max_copies

# defaults: a block of 64 MiB at most, so that a stream of many sources fits into memory
BLOCK_LINES = 1 << 17
BLOCK_BYTES = 64 << 20
SPLIT_LINES = 1 << 13

Shuffle = Literal["lines", "outputs", "none"]
_PATHS = "give a tuple of one path or more, such as ('train.tsv.gz',)"
_STEPS = "give a tuple of transforms from volt.stream.transforms, such as (Lower(fields=(1,)),)"


@dataclass(frozen=True, slots=True)
class Checks:
    """Conditions that lines must meet.

    min_fields, max_fields: limits on the number of fields.
    max_chars: maximum number of characters.
    blank: allow lines without text.

    >>> Checks(max_chars=3, blank=False).reasons(Batch.of(["long", "", "ok"]))
    {0: 'too long: 4 characters, allows 3', 1: 'blank: no text'}
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
            limits = f"min_fields={self.min_fields}, max_fields={self.max_fields}"
            raise ConfigError(f"{limits}: no line can meet both limits; change one")

    @property
    def any(self) -> bool:
        """True if anything is checked."""
        return self != Checks()

    def reasons(self, batch: Batch) -> dict[int, str]:
        """Return line index → reason, for unfit lines.

        batch: the lines to check
        """
        reasons = self._find_blank(batch) | self._find_too_long(batch) | self._check_columns(batch)
        return dict(sorted(reasons.items()))

    def _check_columns(self, batch: Batch) -> dict[int, str]:
        if self.min_fields <= 1 and self.max_fields is None:
            return {}
        n_fields = np.maximum(batch.n_fields, 1)
        reason = f"columns: {{}} fields, needs at least {self.min_fields}"
        result = _list_reasons(n_fields < self.min_fields, n_fields, reason)
        if self.max_fields is not None:
            reason = f"columns: {{}} fields, allows {self.max_fields}"
            result |= _list_reasons(n_fields > self.max_fields, n_fields, reason)
        return result

    def _find_too_long(self, batch: Batch) -> dict[int, str]:
        if self.max_chars is None:
            return {}
        n_chars = np.full(len(batch), -1)  # a tab stands between two fields
        for column in batch.all_columns():
            n_chars += measure_lengths(column, "characters") + column.present
        n_chars = np.maximum(n_chars, 0)
        reason = f"too long: {{}} characters, allows {self.max_chars}"
        return _list_reasons(n_chars > self.max_chars, n_chars, reason)

    def _find_blank(self, batch: Batch) -> dict[int, str]:
        if self.blank:
            return {}
        is_blank = np.ones(len(batch), bool)
        for column in batch.all_columns():
            is_blank &= find_blank_values(column)
        return dict.fromkeys(np.flatnonzero(is_blank).tolist(), "blank: no text")


def _list_reasons(unfit: Flags, numbers: Longs, reason: str) -> dict[int, str]:
    """Return line index → reason, with the line's number in place of {}, for unfit lines."""
    return {index: reason.format(numbers[index]) for index in np.flatnonzero(unfit).tolist()}


@dataclass(frozen=True, slots=True)
class Source:
    """The lines that a stream reads under one name.

    name: the name in states, errors and summaries.
    paths: files (.tsv or text, plain or compressed; NAME.bin or NAME for indexed ids), folders,
        globs.
    weight: the weight in the mixture, a number or a `Schedule`.
    transforms: the transforms applied to each block, in this order.
    block_lines: the maximum number of lines in a block.
    block_bytes: the maximum average number of bytes in a block.
    split_lines: lines per segment, the unit that an epoch permutes; None keeps files whole.
    shuffle: "lines" permutes the lines of a block before its transforms; "outputs" permutes after
        them, for transforms that join consecutive lines; "none" reads the files in order.
    epochs: how often to read the source; None for no end.
    checks: conditions that lines must meet.
    max_line: the maximum number of bytes of a line; a file that exceeds it is unreadable. None for
        no limit.
    names: the fields' names, if they have names. `paths` then lists tables if `keys` are given,
        else line-aligned files, the fields in turn (src, tgt, src, tgt).
    keys: for each name, the JSON key or column name in the tables.

    >>> Source("digits", ["digits.tsv"], split_lines=2)
    <Source 'digits': 1 path, weight 1, 0 transforms>
    """

    name: str
    paths: tuple[str, ...]
    weight: float | Schedule = 1.0
    transforms: tuple[Transform, ...] = ()
    block_lines: int = BLOCK_LINES
    block_bytes: int = BLOCK_BYTES
    split_lines: int | None = SPLIT_LINES
    shuffle: Shuffle = "lines"
    epochs: int | None = None
    checks: Checks = field(default_factory=Checks)
    max_line: int | None = MAX_LINE
    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def __repr__(self) -> str:
        name = arguments.shortened(repr(self.name))
        weight = "a schedule of weights"
        if not isinstance(self.weight, Schedule):
            weight = f"weight {self.weight:g}"
        steps = counted(len(self.transforms), "transform")
        return f"<Source {name}: {counted(len(self.paths), 'path')}, {weight}, {steps}>"

    def __post_init__(self) -> None:
        arguments.text(self.name, "name", remedy="did you mean Source('name', paths)?")
        for name in ("block_lines", "block_bytes", "split_lines", "epochs"):
            value = getattr(self, name)
            is_optional = name in ("split_lines", "epochs")
            if not (value is None and is_optional) and arguments.whole(value, name) < 1:
                raise ConfigError(f"source {self.name!r}: {name}={value} must be at least 1")
        paths = arguments.several(self.paths, "paths", one=_PATHS, remedy=_PATHS)
        steps = arguments.several(self.transforms, "transforms", one=_STEPS, remedy=_STEPS)
        for index, step in enumerate(steps):
            if not isinstance(step, Transform) or isinstance(step, type):
                raise arguments.refusal(step, f"transforms[{index}]", _STEPS)
        problem = self._find_problem(len(paths), max_copies(steps))
        if problem:
            raise ConfigError(f"source {self.name!r}: {problem}")
        arguments.instance(
            self.checks, Checks, "checks", remedy="give volt.stream.Checks: Checks(min_fields=2)"
        )
        checked = tuple(arguments.path(path, f"paths[{index}]") for index, path in enumerate(paths))
        # the only way to set fields of a frozen dataclass
        object.__setattr__(self, "paths", checked)
        object.__setattr__(self, "transforms", tuple(steps))
        check_weight(self.weight, self.name)
        checked_max_line(self.max_line)

    def _find_problem(self, n_paths: int, n_copies: int) -> str:
        n_names = len(arguments.several(self.names, "names"))
        n_keys = len(arguments.several(self.keys, "keys"))
        if self.shuffle not in get_args(Shuffle):
            return f"shuffle={self.shuffle!r}: choose lines, outputs or none"
        if not n_paths:
            return f"paths is empty; {_PATHS}"
        if n_copies > MOST_COPIES:
            return f"its transforms turn one line into more than {MOST_COPIES:,} lines; remove or lower some `repeat`"
        if n_names and not n_keys and n_paths % n_names:
            return f"{n_names} names and {n_paths} paths; give one file for each field, or keys of tables"
        if n_keys not in (0, n_names):
            return f"{n_names} names and {n_keys} keys; give one key for each name"
        if isinstance(self.weight, Schedule) and not any(
            weight for _, weight in self.weight.points
        ):
            return "every weight of its schedule is 0; give one above 0, or remove it"
        return ""


def check_names(names: Sequence[str]) -> None:
    if not names or len(set(names)) != len(names):
        raise ConfigError(
            f"sources {list(names)}: a stream needs one or more sources, with distinct names"
        )
