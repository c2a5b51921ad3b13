"""`Transform`, base classes of transforms, the properties that a stream reads, and a cache of
loaded files.

A stream's sources share one `LoadedFiles`. A worker receives copies without loaded files.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
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
from volt.stream.transforms.column import Longs
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng

T = TypeVar("T")
Call = Callable[[Batch, LineRng], Batch]
Loaded = tuple[Call, dict[str, str]]  # a function, and option → the fingerprint of its file
Changes = Literal["nothing", "tokens", "spelling", "pieces", "anything"]
_Check = Callable[[Any, str], object]
_CAPITAL = re.compile("(?<!^)(?=[A-Z])")


@runtime_checkable
class Transform(Protocol):
    """A transform or filter: a picklable object, usually a frozen dataclass, with a name and a
    call.

    It is pure: a line's result depends only on the line and the `LineRng`, not on other lines of
    the batch. It raises LineFault for unfit lines.

    Optional attributes, by default False:
    is_compiled: it does not run Python code for each line, so threads can share the work.
    joins_lines: result lines depend on neighbouring lines, so it receives whole blocks.
    keeps_lines: it returns one line for each input line, in order.
    decodes: it decodes its fields, so that `inverse` ignores the preceding encoding.

    Other optional attributes:
    max_copies: the largest number of lines that it makes from one line; by default 1.
    fields: the numbers of the fields that it changes; by default, or if None, 1 and 2.
    changes: what it changes in its fields, see `check_order`; by default "anything". "nothing":
        every word stays whole; "tokens": which tokens there are, or their order; "spelling":
        characters; "pieces": it splits text.
    to: for an encoder with a vocabulary, the form of its output, "pieces" or "ids".
    heaviest: for a choice, the transforms of the variant that validation and translation use.

    Optional methods:
    `signature()`: a JSON mapping of everything that the result depends on; by default the dataclass
        fields.
    `opened(files)`: the transform with its files loaded; the stream calls it once.
    `deterministic()`: the transform for validation and translation, which is not random and drops
        no line, or None.
    `inverse()`: the transform that turns a system's output back into text, or None.
    `special_tokens()`: a tuple of the tokens that it adds, such as tags.
    `excluding(tokens)`: the same transform, but never drawing these tokens.
    `moved(fields)`: for a mapping from fields to whatever they contain, the same mapping after the
        transform.

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
    result: the result for the other lines; if None, the transform is called again without the unfit
        lines.

    >>> LineFault({3: "2 fields, needs 3"})
    LineFault('1 unfit lines, the first at index 3: 2 fields, needs 3')
    """

    def __init__(self, reasons: Mapping[int, str], *, result: Batch | None = None) -> None:
        remedy = "give a dict, index → problem"
        self.reasons = dict(arguments.mapping(reasons, "reasons", remedy=remedy))
        if not self.reasons:
            raise ConfigError("reasons is empty; give the problem of at least one line")

        self.result = result
        first = min(self.reasons)
        super().__init__(
            f"{len(self.reasons)} unfit lines, the first at index {first}: {self.reasons[first]}"
        )

    def __reduce__(self) -> tuple[partial[LineFault], tuple[dict[int, str]]]:
        return partial(LineFault, result=self.result), (self.reasons,)

    def renumbered(self, numbers: Longs) -> LineFault:
        """Return the fault for a batch in another order.

        numbers: (n,) the number in that batch of each line of this fault's batch
        """
        return LineFault({int(numbers[i]): reason for i, reason in self.reasons.items()})


def signature(transform: object) -> object:
    """Return everything that a transform's result depends on, as JSON values."""
    own = getattr(transform, "signature", None)
    if callable(own):
        return own()
    if _has_options(transform):
        return {"type": type(transform).__name__, **signatures(options_of(transform))}
    if isinstance(transform, Mapping):
        return signatures(transform)
    if isinstance(transform, str | int | float | bool | None):
        return transform
    if isinstance(transform, Iterable):
        return [signature(item) for item in transform]
    name = getattr(transform, "__qualname__", None)  # repr() would show an address
    return f"{transform.__module__}.{name}" if name else type(transform).__qualname__


def signatures(values: Mapping[Any, object]) -> dict[str, object]:
    return {str(key): signature(value) for key, value in values.items()}


def _has_options(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def options_of(transform: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(transform)]
    return {name: getattr(transform, name) for name in names}


def files(value: object) -> list[Path]:
    """Return the paths in a transform's options, or inside mappings, lists and tuples."""
    if isinstance(value, Path):
        return [value]
    if _has_options(value):
        value = options_of(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return []
    return list(chain.from_iterable(map(files, value)))


def is_compiled(transform: object) -> bool:
    return bool(getattr(declared(transform), "is_compiled", False))


def joins_lines(transform: object) -> bool:
    return bool(getattr(declared(transform), "joins_lines", False))


def keeps_lines(transform: object) -> bool:
    return bool(getattr(declared(transform), "keeps_lines", False))


def decodes(transform: object) -> bool:
    return bool(getattr(declared(transform), "decodes", False))


def changed_fields(transform: object) -> tuple[int, ...]:
    return getattr(declared(transform), "fields", None) or (1, 2)


def declared(transform: Any) -> Any:
    return transform.transform if isinstance(transform, Opened) else transform


def deterministic(transforms: Iterable[Transform]) -> tuple[Transform, ...]:
    result = list[Transform | None]()
    for step in map(declared, transforms):
        result.append(step.deterministic() if hasattr(step, "deterministic") else step)
    return tuple(step for step in result if step is not None)


def inverse(
    transforms: Iterable[Transform], decoded: Counter[int] | None = None
) -> tuple[Transform, ...]:
    """Return the transforms that turn a system's output back into text, in reverse order.

    decoded: field → how many encodings to ignore, because later steps decode the field
    """
    result = list[Transform]()
    if decoded is None:
        decoded = Counter()

    for transform in reversed(list(map(declared, transforms))):
        if hasattr(transform, "heaviest"):
            result += inverse(transform.heaviest, decoded)
        elif decodes(transform):
            decoded.update(changed_fields(transform))
        elif hasattr(transform, "inverse"):
            result += _still_needed(transform.inverse(), decoded)
    return tuple(result)


def _still_needed(step: Any, decoded: Counter[int]) -> list[Transform]:
    """Return an inverse without the fields that are decoded already, which then count as decoded
    once less."""
    if step is None or not decodes(step):
        return [] if step is None else [step]

    fields = changed_fields(step)
    left = tuple(field for field in fields if not decoded[field])
    decoded.subtract(field for field in fields if decoded[field])
    if left == fields:
        return [step]
    return [dataclasses.replace(step, fields=left)] if left else []


def max_copies(transforms: Iterable[Transform]) -> int:
    return prod(getattr(transform, "max_copies", 1) for transform in transforms)


def special_tokens(transforms: Iterable[Transform]) -> tuple[str, ...]:
    result = dict[str, None]()
    for step in map(declared, transforms):
        if hasattr(step, "special_tokens"):
            result |= dict.fromkeys(step.special_tokens())
    return tuple(result)


def excluding(transform: Transform, tokens: tuple[str, ...]) -> Transform:
    result: Transform = transform
    if hasattr(transform, "excluding"):
        result = transform.excluding(tokens)
    return result


class SharedCache:
    """A cache of slow values that threads share. The oldest value is dropped first. A copy is
    empty."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._values = dict[Hashable, Any]()
        self._lock = RLock()

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
    """The contents of files, each loaded once, and again after the file changes. A copy is
    empty."""

    def __init__(self) -> None:
        self._cache = SharedCache(most=1 << 10)

    def load(self, path: Path, read: Callable[[Path], T]) -> T:
        return self._cache.get((read, str(path), mark_of(path)), lambda: read(path))


@dataclass(frozen=True, slots=True)
class Opened:
    """A transform whose files are loaded. values: its signature"""

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
    result: Transform = transform
    if hasattr(transform, "opened"):
        result = transform.opened(files)
    return result


@cache
def _checks(kind: type[Any]) -> list[tuple[str, bool, _Check]]:
    """Return the checks in the types of a class's options: name, whether None is allowed, and
    function."""
    result = list[tuple[str, bool, _Check]]()
    hints = get_type_hints(kind, include_extras=True)
    for option in dataclasses.fields(kind):
        hint = hints[option.name]
        members = get_args(hint)
        is_optional = NoneType in members

        for member in members if is_optional else (hint,):
            checks = getattr(member, "__metadata__", ())
            if get_origin(member) is Literal:
                checks = (partial(arguments.choice, choices=get_args(member)),)
            result += [(option.name, is_optional, check) for check in checks]
    return result


class ConfiguredTransform:
    """Base class of transforms that a configuration can name; `name` is the class name in snake
    case.

    The function in an option's type checks the option. Attribute docstrings become the schema's
    descriptions.
    """

    __slots__ = ()
    name: ClassVar[str]
    changes: ClassVar[Changes] = "nothing"
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

    def load(self, files: LoadedFiles) -> Loaded:
        """Return a function that applies the loaded files, and their fingerprints."""
        raise NotImplementedError

    def opened(self, files: LoadedFiles) -> Opened:
        call, fingerprints = self.load(files)
        values: dict[str, Any] = {"type": type(self).__name__}
        for name, value in options_of(self).items():
            if name not in fingerprints:
                values[name.rstrip("_")] = signature(value)
        return Opened(self, call, values | fingerprints)

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def signature(self) -> dict[str, Any]:
        return self.opened(LoadedFiles()).values
