"""`Transform`, base classes of transforms, and functions that read a transform's properties.

A transform's attributes and methods are optional, except a name and a call; a stream reads them
through the functions of this module, which know the defaults. `open_transform` loads a transform's
files and wraps it as `Opened`; `unwrap` is the way back.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
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
from volt.array_types import Longs
from volt.errors import ConfigError, StreamError
from volt.files.paths import mark_of
from volt.stream.transforms.line_batch import Batch, LineRng

T = TypeVar("T")
Call = Callable[[Batch, LineRng], Batch]
Loaded = tuple[Call, dict[str, str]]  # a function; option → the fingerprint of the option's file
Changes = Literal["nothing", "tokens", "spelling", "pieces", "anything"]
_Check = Callable[[Any, str], object]
_MOST_FILES = 1 << 10  # in a `LoadedFiles`
_CAPITAL = re.compile("(?<!^)(?=[A-Z])")  # the place before a capital inside a class name


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
    decodes: it decodes its fields, so that the preceding encoding need not be inverted.

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

    def renumbered(self, indices: Longs) -> LineFault:
        """Return the fault for a batch with other indices.

        indices: (n,) the index in that batch of each line of this fault's batch
        """
        return LineFault({int(indices[i]): reason for i, reason in self.reasons.items()})


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
        for option, is_optional, check in _list_checks(type(self)):  # type: ignore[arg-type]  # mypy: a class is not Hashable
            value = getattr(self, option)
            if value is not None or not is_optional:
                object.__setattr__(self, option, check(value, option.rstrip("_")))
        self.check()

    def check(self) -> None:
        """Raise ConfigError if options contradict each other."""


@cache
def _list_checks(transform_class: type[Any]) -> list[tuple[str, bool, _Check]]:
    """Return (name, whether None is allowed, function) for each check in the types of options."""
    result = list[tuple[str, bool, _Check]]()
    hints = get_type_hints(transform_class, include_extras=True)
    for option in dataclasses.fields(transform_class):
        hint = hints[option.name]
        members = get_args(hint)
        is_optional = NoneType in members

        for member in members if is_optional else (hint,):
            checks = getattr(member, "__metadata__", ())
            if get_origin(member) is Literal:
                checks = (partial(arguments.choice, choices=get_args(member)),)
            result += [(option.name, is_optional, check) for check in checks]
    return result


class LineTransform(ConfiguredTransform):
    """Base class of compiled transforms that return one line for each line."""

    __slots__ = ()
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True


class FileTransform(ConfiguredTransform):
    """Base class of transforms that load files.

    newer_options: options that the signature lacks while they are None, so that a stream accepts the
        states of versions without them
    """

    __slots__ = ()
    newer_options: ClassVar[tuple[str, ...]] = ()

    def load(self, files: LoadedFiles) -> Loaded:
        """Return a function that applies the loaded files, and the files' fingerprints."""
        raise NotImplementedError

    def opened(self, files: LoadedFiles) -> Opened:
        call, fingerprints = self.load(files)
        values: dict[str, Any] = {"type": type(self).__name__}
        for name, value in list_options(self).items():
            is_unset = value is None and name in self.newer_options
            if name not in fingerprints and not is_unset:
                values[name.rstrip("_")] = signature(value)
        return Opened(self, call, values | fingerprints)

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def signature(self) -> dict[str, Any]:
        return self.opened(LoadedFiles()).values


@dataclass(frozen=True, slots=True)
class Opened:
    """A transform whose files are loaded.

    transform: the transform, without files
    call: a function that applies the loaded files
    values: the transform's signature
    """

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


def open_transform(transform: Transform, files: LoadedFiles) -> Transform:
    """Return a transform with its files loaded."""
    result: Transform = transform
    if hasattr(transform, "opened"):
        result = transform.opened(files)
    return result


def unwrap(transform: Any) -> Any:
    """Return the transform in an `Opened`; return another transform unchanged."""
    return transform.transform if isinstance(transform, Opened) else transform


def is_compiled(transform: object) -> bool:
    return _declares(transform, "is_compiled")


def joins_lines(transform: object) -> bool:
    return _declares(transform, "joins_lines")


def keeps_lines(transform: object) -> bool:
    return _declares(transform, "keeps_lines")


def decodes(transform: object) -> bool:
    return _declares(transform, "decodes")


def _declares(transform: object, attribute: str) -> bool:
    return bool(getattr(unwrap(transform), attribute, False))


def changed_fields(transform: object) -> tuple[int, ...]:
    return getattr(unwrap(transform), "fields", None) or (1, 2)


def max_copies(transforms: Iterable[Transform]) -> int:
    return prod(getattr(transform, "max_copies", 1) for transform in transforms)


def special_tokens(transforms: Iterable[Transform]) -> tuple[str, ...]:
    result = dict[str, None]()
    for step in map(unwrap, transforms):
        if hasattr(step, "special_tokens"):
            result |= dict.fromkeys(step.special_tokens())
    return tuple(result)


def exclude_tokens(transform: Transform, tokens: tuple[str, ...]) -> Transform:
    """Return the transform, which never draws these tokens."""
    result: Transform = transform
    if hasattr(transform, "excluding"):
        result = transform.excluding(tokens)
    return result


def make_deterministic(transforms: Iterable[Transform]) -> tuple[Transform, ...]:
    """Return the transforms for validation, which are not random and drop no line."""
    result = list[Transform | None]()
    for step in map(unwrap, transforms):
        result.append(step.deterministic() if hasattr(step, "deterministic") else step)
    return tuple(step for step in result if step is not None)


def invert(
    transforms: Iterable[Transform], n_decoded: Counter[int] | None = None
) -> tuple[Transform, ...]:
    """Return the transforms that turn a system's output back into text, in reverse order.

    Encode, then Decode: nothing is left to invert, because Decode has undone one encoding.

    n_decoded: field → how many encodings of it later steps have undone, which is updated
    """
    result = list[Transform]()
    if n_decoded is None:
        n_decoded = Counter()

    for transform in reversed(list(map(unwrap, transforms))):
        if hasattr(transform, "heaviest"):
            result += invert(transform.heaviest, n_decoded)
        elif decodes(transform):
            n_decoded.update(changed_fields(transform))
        elif hasattr(transform, "inverse"):
            result += _skip_decoded(transform.inverse(), n_decoded)
    return tuple(result)


def _skip_decoded(inverse: Any, n_decoded: Counter[int]) -> list[Transform]:
    """Return an inverse for its fields that no later step has decoded; count the others as used."""
    if inverse is None:
        return []
    if not decodes(inverse):
        return [inverse]

    fields = changed_fields(inverse)
    encoded_fields = tuple(field for field in fields if not n_decoded[field])
    n_decoded.subtract(field for field in fields if n_decoded[field])
    if encoded_fields == fields:
        return [inverse]
    return [dataclasses.replace(inverse, fields=encoded_fields)] if encoded_fields else []


def signature(value: object) -> object:
    """Return everything that the result of a transform, or an option's value, depends on, as JSON
    values."""
    own = getattr(value, "signature", None)
    if callable(own):
        return own()
    if _has_options(value):
        return {"type": type(value).__name__, **_sign_values(list_options(value))}
    if isinstance(value, Mapping):
        return _sign_values(value)
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Iterable):
        return [signature(item) for item in value]
    name = getattr(value, "__qualname__", None)  # repr() would show an address
    return f"{value.__module__}.{name}" if name else type(value).__qualname__


def _sign_values(values: Mapping[Any, object]) -> dict[str, object]:
    return {str(key): signature(value) for key, value in values.items()}


def find_files(value: object) -> list[Path]:
    """Return the paths in a transform's options, or inside mappings, lists and tuples."""
    if isinstance(value, Path):
        return [value]
    if _has_options(value):
        value = list_options(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return []
    return list(chain.from_iterable(map(find_files, value)))


def _has_options(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def list_options(transform: Any) -> dict[str, Any]:
    """Return the name and value of each option."""
    names = [field.name for field in dataclasses.fields(transform)]
    return {name: getattr(transform, name) for name in names}


class SharedCache:
    """A cache of slow values, which threads share; a pickled copy is empty.

    most: the maximum number of values; the oldest value is dropped first
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._values = dict[Hashable, Any]()
        self._lock = RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key. make: a function that makes the value if it is not cached"""
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
    """The contents of files, each loaded once, and again after the file changes. A pickled copy, such
    as in a worker process, is empty."""

    def __init__(self) -> None:
        self._cache = SharedCache(most=_MOST_FILES)

    def load(self, path: Path, read: Callable[[Path], T]) -> T:
        """Return read(path), cached until the file's size or time of change differs."""
        return self._cache.get((read, str(path), mark_of(path)), lambda: read(path))


def fingerprint_of(content: bytes) -> str:
    """Return a digest of 16 hexadecimal digits.

    >>> fingerprint_of(b"low")
    '8b165bb3fea16d65'
    """
    return blake2b(content, digest_size=8).hexdigest()
