"""A source as it is declared: paths, a weight, transforms, and how its lines are shuffled and checked.

>>> Source("digits", ["digits.tsv"], split_lines=2)
<Source 'digits': 1 path, weight 1, 0 transforms>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError
from volt.files.long_lines import MAX_LINE, checked_max_line
from volt.stream.mixing.schedule import Schedule, check_weight
from volt.stream.reading.checks import Checks
from volt.stream.transforms.choice import most_copies
from volt.stream.transforms.transform import MOST_COPIES, Transform

BLOCK_LINES = 1 << 17
BLOCK_BYTES = 64 << 20
SPLIT_LINES = 1 << 13

Shuffle = Literal["lines", "outputs", "none"]
_PATHS = "give a tuple of one path or more, such as ('train.tsv.gz',)"
_STEPS = "give a tuple of transforms, such as (Lower(fields=(1,)),), of volt.stream.transforms"


@dataclass(frozen=True, slots=True)
class Source:
    """What a stream reads under one name.

    name: how states, errors and summaries call it.
    paths: files (.tsv or text, plain or compressed; NAME.bin of indexed ids, or NAME), folders, globs.
    weight: its share of the mixture, a number or a `Schedule`.
    transforms: applied to each block, in this order.
    block_lines: a block holds this many lines, the last of an epoch perhaps fewer.
    block_bytes: a block holds fewer lines where those would have more bytes than this, on the average.
    split_lines: lines per piece, the unit that an epoch permutes; None keeps files whole.
    shuffle: "lines" permutes the lines of a block before its transforms; "outputs" permutes what comes out of them, for
        transforms that join consecutive lines; "none" reads the files in order.
    epochs: how often it is read before it ends; None means for ever.
    checks: what makes a line unfit.
    max_line: the most bytes of a line, beyond which a file is unreadable; None for no limit.
    names: of the fields. With them, paths are files that belong together line by line, one for each field, and behind
        them those of further pairs, whose lines follow; or, with `keys`, tables (JSON lines or Parquet).
    keys: for each name, the key or column of the tables that holds the field.

    >>> Source("wmt", ("train.tsv.gz",), epochs=0)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: source 'wmt': epochs=0 must be at least 1
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
        weight = f"weight {self.weight:g}" if isinstance(self.weight, float | int) else "a schedule of weights"
        parts = [counted(len(self.paths), "path"), weight, counted(len(self.transforms), "transform")]
        return f"<Source {arguments.shortened(repr(self.name))}: {', '.join(parts)}>"

    def __post_init__(self) -> None:
        arguments.text(self.name, "name", remedy="did you mean Source('name', paths)?")
        for name in ("block_lines", "block_bytes", "split_lines", "epochs"):
            value = getattr(self, name)
            optional = name in ("split_lines", "epochs")
            if not (value is None and optional) and arguments.whole(value, name) < 1:
                raise ConfigError(f"source {self.name!r}: {name}={value} must be at least 1")
        if self.shuffle not in ("lines", "outputs", "none"):
            raise ConfigError(f"source {self.name!r}: shuffle={self.shuffle!r}: choose lines, outputs or none")
        paths = arguments.several(self.paths, "paths", one=_PATHS, remedy=_PATHS)
        if not paths:
            raise ConfigError(f"source {self.name!r}: paths is empty; {_PATHS}")
        steps = arguments.several(self.transforms, "transforms", one=_STEPS, remedy=_STEPS)
        for place, step in enumerate(steps):
            if not isinstance(step, Transform) or isinstance(step, type):
                raise arguments.refusal(step, f"transforms[{place}]", _STEPS)
        if most_copies(steps) > MOST_COPIES:
            found = f"its transforms make more than {MOST_COPIES:,} lines of one"
            raise ConfigError(f"source {self.name!r}: {found}; leave some of repeat out")
        if self.names and not self.keys and len(paths) % len(self.names):
            found = f"{len(self.names)} names and {len(paths)} paths"
            raise ConfigError(f"source {self.name!r}: {found}; give files for each field, or keys of tables")
        if self.keys and len(self.keys) != len(self.names):
            raise ConfigError(f"source {self.name!r}: {len(self.names)} names and {len(self.keys)} keys; give as many")
        arguments.instance(self.checks, Checks, "checks", remedy="give volt.stream.Checks(min_fields=2), say")
        told = tuple(arguments.path(path, f"paths[{place}]") for place, path in enumerate(paths))
        for name, value in (("paths", told), ("transforms", tuple(steps))):
            object.__setattr__(self, name, value)  # a frozen dataclass takes lists as what was meant in no other way
        check_weight(self.weight, self.name)
        if isinstance(self.weight, Schedule) and not any(weight for _, weight in self.weight.points):
            raise ConfigError(
                f"source {self.name!r}: every weight of its schedule is 0; give one above 0, or leave it out"
            )
        checked_max_line(self.max_line)


def check_names(names: Sequence[str]) -> None:
    """Raise ConfigError if there are no sources, or two of one name.

    >>> check_names([])
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: sources []: a stream needs one or more, with distinct names
    """
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"sources {list(names)}: a stream needs one or more, with distinct names")
