r"""`Transform`: the protocol of transforms with its optional members, and the files that transforms load.

A transform turns a `Batch` into a `Batch` and is pure: equal lines and an equal `LineRng` give an equal result, in any
process and in any company of other lines. It uses no other source of random numbers.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True, slots=True)
... class Upper:
...     name: str = "upper"
...     def __call__(self, batch: Batch, chance: LineRng) -> Batch:
...         return batch.map(str.upper)
>>> Upper()(Batch.of(["a\tb", "c"]), LineRng(1, 2)).lines
['A\tB', 'C']

Nothing is global. A stream owns its sources, which share one `LoadedFiles`: a vocabulary that three sources encode with
is loaded once. A worker receives copies of the sources with nothing loaded, and loads what it needs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Protocol, TypeVar, runtime_checkable

from volt import arguments
from volt.errors import ConfigError, StreamError
from volt.files.paths import mark_of
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.line_rng import LineRng

MOST_COPIES = 10_000  # of a line, or of a field


@runtime_checkable
class Transform(Protocol):
    """A transform or filter: a picklable object, by habit a frozen dataclass, with a name and a call.

    It may raise LineFault for the lines that it cannot take; the error policy then raises, skips or quarantines them.
    It may have a method `signature()`, which returns a JSON-able mapping of all that its result depends on; without
    one, that is its dataclass fields. It may have a method `opened(files)`, which returns the transform with its files
    loaded (volt.stream.transforms.transform); the stream calls it once, and then calls what it returned.

    Two more methods serve validation and translation, where nothing is drawn and no line is dropped. Without them the
    transform runs as it is, and its output needs no inverse.
    `deterministic()`: the transform to use instead, such as itself without sampling; None for noise and filters.
    `inverse()`: the transform that turns a system's output back into text; None if there is none.
    One that decodes fields says so by an attribute `decodes`: then the encoding before it is undone already.

    One that adds tokens of its own, such as tags, names them: `special_tokens()` is a tuple of texts. One that draws
    tokens has a method `excluding(tokens)`: the same transform, which draws none of these, as other steps add them.

    One that changes words says how, by an attribute `changes`: "spelling", "tokens" (which ones, and their order) or
    "pieces" (it makes them). It is refused after a step whose tags it would break (volt.stream.transforms.ordering).

    Three attributes, all False by default, say what a stream may rely on:
    is_compiled: it runs no Python code line by line, so threads can share the work.
    joins_lines: a line of its result depends on the neighbouring lines, so it is given whole blocks.
    keeps_lines: it gives one line for each, in order.

    >>> from volt.stream.transforms.case import Lower
    >>> isinstance(Lower(), Transform)
    True
    """

    @property
    def name(self) -> str:
        """The name in traces and errors."""

    def __call__(self, batch: Batch, chance: LineRng, /) -> Batch:
        """Return the batch, transformed.

        batch: some lines of one block
        chance: the only source of random numbers
        """


class LineFault(StreamError):
    """Some lines of the batch that a transform was given are unfit.

    reasons: index in that batch → what is wrong with the line, in one line; a traceback may follow in further lines.
    made: what became of the other lines, if that is known already.
    The pipeline takes these lines out, as the error policy says, and calls the transform again without them, unless it
    knows what became of the others.

    >>> raise LineFault({3: "2 fields, needs 3"})
    Traceback (most recent call last):
        ...
    volt.stream.transforms.transform.LineFault: 1 unfit lines, the first at index 3: 2 fields, needs 3
    """

    def __init__(self, reasons: Mapping[int, str], *, made: Batch | None = None) -> None:
        self.reasons = dict(arguments.mapping(reasons, "reasons", remedy="give a dict, index → what is wrong"))
        if not self.reasons:
            raise ConfigError("reasons is empty; say what is wrong with one line at least")
        self.made, first = made, min(self.reasons)
        super().__init__(f"{len(self.reasons)} unfit lines, the first at index {first}: {self.reasons[first]}")

    def __reduce__(self) -> tuple[partial[LineFault], tuple[dict[int, str]]]:
        return partial(LineFault, made=self.made), (self.reasons,)


def signature(transform: object) -> object:
    """Return all that a transform's result depends on, JSON-able: part of the configuration's fingerprint in a saved
    state.

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
    """Return the files that a transform's result depends on: those that it, or one inside it, names by a Path in a
    field.

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


def is_compiled(transform: object) -> bool:
    """Check whether it runs no Python code line by line."""
    return bool(getattr(transform, "is_compiled", False))


def joins_lines(transform: object) -> bool:
    """Check whether a line of its result depends on the neighbouring lines."""
    return bool(getattr(transform, "joins_lines", False))


def keeps_lines(transform: object) -> bool:
    """Check whether it gives one line for each, in order."""
    return bool(getattr(transform, "keeps_lines", False))


def deterministic(transforms: Iterable[Transform]) -> tuple[Transform, ...]:
    """Return transforms for validation and translation: they draw nothing and drop no line.

    >>> deterministic([])
    ()
    """
    result = [
        transform.deterministic() if hasattr(transform, "deterministic") else transform for transform in transforms
    ]
    return tuple(transform for transform in result if transform is not None)


def inverse(transforms: Iterable[Transform]) -> tuple[Transform, ...]:
    """Return the transforms that turn a system's output back into text: the last one is inverted first.

    Where a step decodes a field, the nearest encoding of that field before it needs no inverse.

    >>> from volt.stream.transforms.segmentations import JoinPieces, MorfessorEm
    >>> cut = MorfessorEm(Path("lexicon.tsv"))
    >>> inverse([cut]), inverse([cut, JoinPieces((1,))]), inverse([cut, JoinPieces()])
    ((JoinPieces(fields=None),), (JoinPieces(fields=(2,)),), ())
    """
    return _undone(transforms, Counter())


def _undone(transforms: Iterable[Transform], decoded: Counter[int]) -> tuple[Transform, ...]:
    """Return the inverses, last first. decoded: for each field, the number of encodings that later steps decode"""
    result, backwards = list[Transform](), list[Any](transforms)[::-1]
    for transform in backwards:
        if hasattr(transform, "heaviest"):  # a choice
            result += filter(None, [transform.in_a_row(_undone(transform.heaviest, decoded))])
        elif decodes(transform):
            decoded.update(decoded_fields(transform))
        elif (step := transform.inverse() if hasattr(transform, "inverse") else None) is not None:
            result += _left(step, decoded) if decodes(step) else [step]
    return tuple(result)


def decodes(transform: object) -> bool:
    """Check whether it decodes its fields, which were encoded before."""
    return bool(getattr(transform, "decodes", False))


def decoded_fields(transform: object) -> tuple[int, ...]:
    """Return the fields of a transform that decodes.

    >>> from volt.stream.transforms.segmentations import JoinPieces
    >>> decoded_fields(JoinPieces((2,))), decoded_fields(JoinPieces())
    ((2,), (1, 2))
    """
    result: tuple[int, ...] | None = getattr(getattr(transform, "transform", transform), "fields", None)
    return (1, 2) if result is None else result


def _left(step: Any, decoded: Counter[int]) -> list[Transform]:
    """Return a step that decodes, without the fields that were decoded already; these are taken from `decoded`."""
    fields = decoded_fields(step)
    left = tuple(field for field in fields if not decoded[field])
    decoded.subtract(field for field in fields if decoded[field])
    if left == fields:
        return [step]
    return [dataclasses.replace(step, fields=left)] if left else []


def special_tokens(transforms: Iterable[Transform]) -> tuple[str, ...]:
    """Return the tokens that transforms add to lines, such as tags, each once.

    >>> from volt.stream.transforms.edits import Tag
    >>> special_tokens([Tag(text="[BT] <de>"), Tag(text="[BT]")])
    ('[BT]', '<de>')
    """
    result = [
        token
        for transform in transforms
        if hasattr(transform, "special_tokens")
        for token in transform.special_tokens()
    ]
    return tuple(dict.fromkeys(result))


def excluding(transform: Transform, tokens: tuple[str, ...]) -> Transform:
    """Return a transform for lines to which other steps add these tokens, so that it draws none of them.

    >>> from volt.stream.transforms.vocabulary_noise import Switchout
    >>> excluding(Switchout(Path("words.tsv")), ("[BT]",)).without
    ('[BT]',)
    """
    own = getattr(transform, "excluding", None)
    if own is None:
        return transform
    result: Transform = own(tokens)
    return result


def _name_of(value: object) -> str:
    """Return a stable name for functions and other objects, without the address that repr() shows."""
    named = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{named}" if named else type(value).__qualname__


T = TypeVar("T")
Call = Callable[[Batch, LineRng], Batch]


class Kept:
    """Values that take long to make, by key: at most `most` of them, of which the one made first goes first.

    It goes before the next is made, and threads that want the same value wait for the first of them, since a value may
    be a whole file.

    A copy that is sent to another process is empty: its owner makes values of its own.

    >>> kept = Kept(most=1)
    >>> kept.get("a", lambda: 1), kept.get("a", lambda: 2), kept.get("b", lambda: 3), kept.get("a", lambda: 4)
    (1, 1, 3, 4)
    """

    def __init__(self, *, most: int) -> None:
        self._most, self._values, self._lock = most, dict[Hashable, Any](), RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key, made now if it is not there."""
        with self._lock:
            if key not in self._values:
                while len(self._values) >= self._most:
                    del self._values[next(iter(self._values))]
                self._values[key] = make()
            result: T = self._values[key]
        return result

    def __reduce__(self) -> tuple[Callable[..., Kept], tuple[int]]:
        return _empty, (self._most,)


def _empty(most: int) -> Kept:
    return Kept(most=most)


class LoadedFiles:
    """The contents of files, loaded once each; a file that has changed since is loaded again.

    A copy that is sent to another process is empty: its owner loads for itself.
    """

    def __init__(self) -> None:
        self._kept = Kept(most=1 << 10)

    def load(self, path: Path, read: Callable[[Path], T]) -> T:
        """Return what `read` makes of a file. Errors of `read` are passed on, and nothing is cached."""
        return self._kept.get((read, str(path), mark_of(path)), lambda: read(path))

    def __reduce__(self) -> tuple[type[LoadedFiles], tuple[()]]:
        return LoadedFiles, ()


@dataclass(frozen=True, slots=True)
class Opened:
    """A transform whose files are loaded.

    transform: as it was declared.
    call: what it does, with its files.
    values: its signature, with the fingerprints of the files.
    """

    transform: Transform
    call: Call
    values: dict[str, Any]

    @property
    def name(self) -> str:
        """The transform's name."""
        return self.transform.name

    @property
    def is_compiled(self) -> bool:
        """True if the transform runs no Python code line by line."""
        return is_compiled(self.transform)

    @property
    def joins_lines(self) -> bool:
        """True if a line of its result depends on the neighbouring lines."""
        return joins_lines(self.transform)

    @property
    def keeps_lines(self) -> bool:
        """True if it gives one line for each, in order."""
        return keeps_lines(self.transform)

    @property
    def decodes(self) -> bool:
        """True if the transform decodes its fields."""
        return decodes(self.transform)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return self.call(batch, chance)

    def deterministic(self) -> Transform | None:
        """Return the transform's deterministic form; its files are not loaded."""
        return next(iter(deterministic([self.transform])), None)

    def inverse(self) -> Transform | None:
        """Return the transform that undoes the transform; its files are not loaded."""
        return next(iter(inverse([self.transform])), None)

    def special_tokens(self) -> tuple[str, ...]:
        """Return the tokens that the transform adds to lines."""
        return special_tokens([self.transform])

    def signature(self) -> dict[str, Any]:
        """Return all that the result depends on."""
        return self.values


def loaded(transform: Transform, files: LoadedFiles) -> Transform:
    """Return a transform with its files loaded: what its method `loaded` gives, or itself if it has none.

    Raises VoltError if a file cannot be loaded.
    """
    own = getattr(transform, "opened", None)
    if own is None:
        return transform
    result: Transform = own(files)
    return result
