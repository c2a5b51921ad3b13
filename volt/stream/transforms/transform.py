"""`Transform`, base classes of transforms, the properties that a stream reads, and a cache of loaded files.

A stream's sources share one `LoadedFiles`. A worker receives copies without loaded files.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from pathlib import Path
from threading import RLock
from types import NoneType
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from volt import arguments
from volt.errors import ConfigError, StreamError
from volt.files.paths import mark_of
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng

T = TypeVar("T")
Call = Callable[[Batch, LineRng], Batch]
_CAPITAL = re.compile("(?<!^)(?=[A-Z])")


@runtime_checkable
class Transform(Protocol):
    """A transform or filter: a picklable object, usually a frozen dataclass, with a name and a call.

    It is pure: a line's result depends only on the line and the `LineRng`, not on other lines of the batch. It raises
    LineFault for unfit lines.

    Optional attributes, by default False:
    is_compiled: it does not run Python code for each line, so threads can share the work.
    joins_lines: result lines depend on neighbouring lines, so it receives whole blocks.
    keeps_lines: it returns one line for each input line, in order.
    decodes: it decodes its fields, so that `inverse` ignores the preceding encoding.
    max_copies: the largest number of lines that it makes from one line; by default 1.
    changes: "spelling", "tokens" (which tokens, in which order) or "pieces" (splits text); see `check_order`.

    Optional methods:
    `signature()`: a JSON mapping of everything that the result depends on; by default the dataclass fields.
    `opened(files)`: the transform with its files loaded; the stream calls it once.
    `deterministic()`: the transform for validation and translation, which is not random and drops no line, or None.
    `inverse()`: the transform that turns a system's output back into text, or None.
    `special_tokens()`: a tuple of the tokens that it adds, such as tags.
    `excluding(tokens)`: the same transform, but never drawing these tokens.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, slots=True)
    ... class Upper:
    ...     name: str = "upper"
    ...     def __call__(self, batch: Batch, rng: LineRng) -> Batch:
    ...         return batch.map(str.upper)
    >>> Upper()(Batch.of(["a"]), LineRng(1, 2)).lines
    ['A']
    """

    @property
    def name(self) -> str:
        """The name in traces and errors."""

    def __call__(self, batch: Batch, rng: LineRng, /) -> Batch:
        """Return the transformed batch.

        batch: lines of one block
        rng: the only source of random numbers
        """


class LineFault(StreamError):
    """Some lines of a transform's batch are unfit.

    reasons: line index in the batch → problem, optionally followed by a traceback.
    result: the result for the other lines; if None, the transform is called again without the unfit lines.

    >>> LineFault({3: "2 fields, needs 3"})
    LineFault('1 unfit lines, the first at index 3: 2 fields, needs 3')
    """

    def __init__(self, reasons: Mapping[int, str], *, result: Batch | None = None) -> None:
        self.reasons = dict(
            arguments.mapping(reasons, "reasons", remedy="give a dict, index → problem")
        )
        if not self.reasons:
            raise ConfigError("reasons is empty; give the problem of at least one line")
        self.result, first = result, min(self.reasons)
        super().__init__(
            f"{len(self.reasons)} unfit lines, the first at index {first}: {self.reasons[first]}"
        )

    def __reduce__(self) -> tuple[partial[LineFault], tuple[dict[int, str]]]:
        return partial(LineFault, result=self.result), (self.reasons,)


def signature(transform: object) -> object:
    """Return everything that a transform's result depends on, as JSON values."""
    own = getattr(transform, "signature", None)
    if callable(own):
        return own()
    if dataclasses.is_dataclass(transform) and not isinstance(transform, type):
        values = {
            field.name: signature(getattr(transform, field.name))
            for field in dataclasses.fields(transform)
        }
        return {"type": type(transform).__name__, **values}
    if isinstance(transform, Mapping):
        return {str(key): signature(value) for key, value in transform.items()}
    if isinstance(transform, str | int | float | bool | None):
        return transform
    if isinstance(transform, Iterable):
        return [signature(item) for item in transform]
    name = getattr(transform, "__qualname__", None)  # repr() would show an address
    return f"{transform.__module__}.{name}" if name else type(transform).__qualname__


def files(transform: object) -> list[Path]:
    if isinstance(transform, Path):
        return [transform]
    if dataclasses.is_dataclass(transform) and not isinstance(transform, type):
        transform = [getattr(transform, field.name) for field in dataclasses.fields(transform)]
    elif isinstance(transform, Mapping):
        transform = list(transform.values())
    return (
        [path for item in transform for path in files(item)]
        if isinstance(transform, list | tuple)
        else []
    )


def is_compiled(transform: object) -> bool:
    return bool(getattr(declared(transform), "is_compiled", False))


def joins_lines(transform: object) -> bool:
    return bool(getattr(declared(transform), "joins_lines", False))


def keeps_lines(transform: object) -> bool:
    return bool(getattr(declared(transform), "keeps_lines", False))


def decodes(transform: object) -> bool:
    return bool(getattr(declared(transform), "decodes", False))


def decoded_fields(transform: object) -> tuple[int, ...]:
    result: tuple[int, ...] | None = getattr(declared(transform), "fields", None)
    return (1, 2) if result is None else result


def declared(transform: Any) -> Any:
    return transform.transform if isinstance(transform, Opened) else transform


def deterministic(transforms: Iterable[Transform]) -> tuple[Transform, ...]:
    steps = map(declared, transforms)
    result = [step.deterministic() if hasattr(step, "deterministic") else step for step in steps]
    return tuple(step for step in result if step is not None)


def inverse(
    transforms: Iterable[Transform], decoded: Counter[int] | None = None
) -> tuple[Transform, ...]:
    """Return the transforms that turn a system's output back into text, in reverse order.

    decoded: field → how many encodings to ignore, because later steps decode the field
    """
    result, decoded = list[Transform](), Counter[int]() if decoded is None else decoded
    for transform in reversed([declared(step) for step in transforms]):
        if hasattr(transform, "heaviest"):  # a choice
            result += filter(None, [transform.in_a_row(inverse(transform.heaviest, decoded))])
        elif decodes(transform):
            decoded.update(decoded_fields(transform))
        elif (step := transform.inverse() if hasattr(transform, "inverse") else None) is not None:
            fields = decoded_fields(step) if decodes(step) else ()
            left = tuple(field for field in fields if not decoded[field])
            decoded.subtract(field for field in fields if decoded[field])
            if left == fields:
                result.append(step)
            elif left:
                result.append(dataclasses.replace(step, fields=left))
    return tuple(result)


def max_copies(transforms: Iterable[Transform]) -> int:
    return prod(getattr(transform, "max_copies", 1) for transform in transforms)


def special_tokens(transforms: Iterable[Transform]) -> tuple[str, ...]:
    steps = [step for step in map(declared, transforms) if hasattr(step, "special_tokens")]
    return tuple(dict.fromkeys(token for step in steps for token in step.special_tokens()))


def excluding(transform: Transform, tokens: tuple[str, ...]) -> Transform:
    result: Transform = (
        transform.excluding(tokens) if hasattr(transform, "excluding") else transform
    )
    return result


class SharedCache:
    """A cache of slow values that threads share. The oldest value is dropped first. A copy is empty."""

    def __init__(self, *, most: int) -> None:
        self._most, self._values, self._lock = most, dict[Hashable, Any](), RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            if key not in self._values:
                while len(self._values) >= self._most:
                    del self._values[next(iter(self._values))]
                self._values[key] = make()
            result: T = self._values[key]
        return result

    def __reduce__(self) -> tuple[partial[SharedCache], tuple[()]]:
        return partial(SharedCache, most=self._most), ()


class LoadedFiles:
    """The contents of files, each loaded once, and again after the file changes. A copy is empty."""

    def __init__(self) -> None:
        self._cache = SharedCache(most=1 << 10)

    def load(self, path: Path, read: Callable[[Path], T]) -> T:
        return self._cache.get((read, str(path), mark_of(path)), lambda: read(path))


@dataclass(frozen=True, slots=True)
class Opened:
    transform: Transform
    call: Call
    values: dict[str, Any]

    @property
    def name(self) -> str:
        return self.transform.name

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return self.call(batch, rng)

    def signature(self) -> dict[str, Any]:
        return self.values


def loaded(transform: Transform, files: LoadedFiles) -> Transform:
    result: Transform = transform.opened(files) if hasattr(transform, "opened") else transform
    return result


@cache
def _checks(kind: type[Any]) -> list[tuple[str, bool, Callable[[Any, str], object]]]:
    hints, result = (
        get_type_hints(kind, include_extras=True),
        list[tuple[str, bool, Callable[[Any, str], object]]](),
    )
    for option in dataclasses.fields(kind):
        args = get_args(hint := hints[option.name])
        for one in args if NoneType in args else (hint,):
            names = (
                [partial(arguments.choice, choices=get_args(one))]
                if get_origin(one) is Literal
                else []
            )
            result += [
                (option.name, NoneType in args, check)
                for check in getattr(one, "__metadata__", names)
            ]
    return result


class ConfiguredTransform:
    """Base class of transforms that a configuration can name; `name` is the class name in snake case.

    The function in an option's type checks the option. Attribute docstrings become the schema's descriptions.
    """

    __slots__ = ()
    name: ClassVar[str]
    __pydantic_config__: ClassVar[dict[str, object]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "alias_generator": lambda name: name.rstrip("_"),  # `from_` is `from` in YAML
    }

    def __init_subclass__(cls) -> None:
        cls.name = _CAPITAL.sub("_", cls.__name__).lower()

    def __post_init__(self) -> None:
        for option, is_optional, check in _checks(type(self)):  # type: ignore[arg-type]  # mypy: a class is not Hashable
            value = getattr(self, option)
            if value is not None or not is_optional:
                object.__setattr__(self, option, check(value, option.rstrip("_")))
        self.check()

    def check(self) -> None:
        """Raise ConfigError if options contradict each other."""


class LineTransform(ConfiguredTransform):
    __slots__ = ()
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True


class FileTransform(ConfiguredTransform):
    __slots__ = ()

    def load(self, files: LoadedFiles) -> tuple[Call, dict[str, str]]:
        """Return a function that applies the loaded files, and option → its file's fingerprint."""
        raise NotImplementedError

    def opened(self, files: LoadedFiles) -> Opened:
        call, fingerprints = self.load(files)
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        options = {
            name.rstrip("_"): signature(getattr(self, name))
            for name in names
            if name not in fingerprints
        }
        return Opened(self, call, {"type": type(self).__name__, **options, **fingerprints})

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def signature(self) -> dict[str, Any]:
        return self.opened(LoadedFiles()).values
