"""What travels through a stream's transforms: the lines of one block, and where each came from.

A line is one sample: tab-separated fields as text, without its line end. A transform turns a `Batch` into a `Batch`
and is pure: the same batch and the same generator give the same result, in any process. Besides the batch it gets a
generator of its own, keyed by (seed, source, block, position of the transform), and no other source of chance.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True, slots=True)
... class Upper:
...     name: str = "upper"
...     def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
...         return batch.map(str.upper)
>>> Upper()(Batch.of(["a\\tb", "c"]), np.random.default_rng(0)).lines
['A\\tB', 'C']
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, StreamError

MOST_COPIES = 10_000  # of a line, or of a field


@dataclass(frozen=True, slots=True)
class Batch:
    """The lines of a block on their way through its transforms.

    lines: samples, without line ends.
    origins: (n_lines,) int64; for each line, the index inside its source block of the line that it was made from.

    A transform that drops or repeats a line drops or repeats its origin too; where it joins lines, it gives the origin
    of one of them.

    >>> Batch.of(["a", "b", "c"]).take([2, 0]).origins.tolist()
    [2, 0]
    """

    lines: list[str]
    origins: NDArray[np.int64]

    @classmethod
    def of(cls, lines: Sequence[str]) -> Batch:
        """A fresh block: line k comes from line k.

        lines: samples, without line ends

        >>> Batch.of(["a", "b"]).origins.tolist()
        [0, 1]
        """
        found = arguments.several(lines, "lines", one="did you mean Batch.of([line])?")
        return cls(list(found), np.arange(len(found)))

    def __repr__(self) -> str:
        return f"<Batch: {counted(len(self), 'line')}>"

    def __len__(self) -> int:
        return len(self.lines)

    def map(self, function: Callable[[str], str]) -> Batch:
        """Each line through a function, one to one.

        function: of a line

        >>> Batch.of(["a", "b"]).map(str.upper).lines
        ['A', 'B']
        """
        return Batch([function(line) for line in self.lines], self.origins)

    def with_lines(self, lines: list[str]) -> Batch:
        """The same origins with other lines, one to one.

        lines: as many as there are

        Raises StreamError if the number differs.

        >>> Batch.of(["a", "b"]).with_lines(["x", "y"]).lines
        ['x', 'y']
        """
        if len(lines) != len(self.lines):
            raise StreamError(f"{len(lines)} lines were made from {len(self.lines)}; say their origins with take()")
        return Batch(lines, self.origins)

    def take(self, indices: Sequence[int] | NDArray[np.int64] | NDArray[np.bool_]) -> Batch:
        """Some of the lines.

        indices: of lines, repeats allowed, or a boolean mask

        >>> Batch.of(["a", "b", "c"]).take(np.array([True, False, True])).lines
        ['a', 'c']
        """
        chosen = np.asarray(indices)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        return Batch([self.lines[index] for index in chosen.tolist()], self.origins[chosen])

    def keep(self, wanted: Callable[[str], bool]) -> Batch:
        """The lines that are wanted.

        wanted: whether a line is kept

        >>> Batch.of(["a", "", "c"]).keep(bool).origins.tolist()
        [0, 2]
        """
        return self.take(np.fromiter(map(wanted, self.lines), dtype=bool, count=len(self.lines)))


@runtime_checkable
class Transform(Protocol):
    """What a transform or filter is: a picklable object, by habit a frozen dataclass, with a name and a call.

    It may raise LineFault for the lines that it cannot take; the error policy then raises, skips or quarantines them.
    It may have a method `signature()`, which returns a JSON-able mapping of all that its result depends on; without
    one, that is its dataclass fields. It may have a method `opened(files)`, which returns the transform with its files
    loaded (volt.stream.transforms.opening); the stream calls it once, and then calls what it returned.

    >>> from volt.stream.transforms.case_and_tags import Lower
    >>> isinstance(Lower(), Transform)
    True
    """

    @property
    def name(self) -> str:
        """How traces and errors call it."""

    def __call__(self, batch: Batch, rng: np.random.Generator, /) -> Batch:
        """The batch, transformed.

        batch: of one block
        rng: the only source of chance
        """


class LineFault(StreamError):
    """Some lines of the batch that a transform was given are unfit.

    reasons: index in that batch → what is wrong with the line.
    The pipeline takes these lines out, as the error policy says, and calls the transform again without them.

    >>> raise LineFault({3: "2 fields, needs 3"})
    Traceback (most recent call last):
        ...
    volt.stream.transforms.batch.LineFault: 1 unfit lines, the first at index 3: 2 fields, needs 3
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        self.reasons = dict(arguments.mapping(reasons, "reasons", remedy="give a dict, index → what is wrong"))
        if not self.reasons:
            raise ConfigError("reasons is empty; say what is wrong with one line at least")
        first = min(self.reasons)
        super().__init__(f"{len(self.reasons)} unfit lines, the first at index {first}: {self.reasons[first]}")

    def __reduce__(self) -> tuple[type[LineFault], tuple[dict[int, str]]]:
        return LineFault, (self.reasons,)


def fields(line: str) -> list[str]:
    """The tab-separated fields of a line.

    >>> fields("a\\t\\tb")
    ['a', '', 'b']
    """
    return line.split("\t")


def signature(transform: object) -> object:
    """All that a transform's result depends on, JSON-able: part of the configuration's fingerprint in a saved state.

    >>> signature(("a", 1, None))
    ['a', 1, None]
    """
    own = getattr(transform, "signature", None)
    if callable(own):
        return own()
    if dataclasses.is_dataclass(transform) and not isinstance(transform, type):
        named = {field.name: signature(getattr(transform, field.name)) for field in dataclasses.fields(transform)}
        return {"type": type(transform).__name__, **named}
    if isinstance(transform, Mapping):
        return {str(key): signature(value) for key, value in transform.items()}
    if isinstance(transform, str | int | float | bool | None):
        return transform
    if isinstance(transform, Iterable):
        return [signature(item) for item in transform]
    return _name_of(transform)


def files(transform: object) -> list[Path]:
    """The files that a transform's result depends on: those that it, or one inside it, names by a Path in a field.

    >>> files((Path("a.volt"), {"model": Path("b.model")}, "text"))
    [PosixPath('a.volt'), PosixPath('b.model')]
    """
    if isinstance(transform, Path):
        return [transform]
    if dataclasses.is_dataclass(transform) and not isinstance(transform, type):
        return files([getattr(transform, field.name) for field in dataclasses.fields(transform)])
    if isinstance(transform, Mapping):
        return files(list(transform.values()))
    if isinstance(transform, list | tuple):
        return [path for item in transform for path in files(item)]
    return []


def _name_of(value: object) -> str:
    """A stable name for functions and other objects, without the address that repr() shows."""
    named = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{named}" if named else type(value).__qualname__
