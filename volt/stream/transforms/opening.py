"""What is opened once and kept by its owner: the files that transforms use, and what reading keeps between blocks.

Nothing here is global. A stream opens its sources, owns them, and lets them go with itself; they share one
`LoadedFiles`, so a vocabulary that three sources encode with is loaded once. A worker receives copies of the sources
with nothing loaded, and loads for itself what it needs.

>>> files = LoadedFiles()
>>> files.load(Path("a.txt"), lambda path: path.name), Kept(most=1).get("one", lambda: 1)
('a.txt', 1)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from volt.files.sizes import mark_of
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.chance import Chance
from volt.stream.transforms.transform import (
    Transform,
    decodes,
    is_compiled,
    joins_lines,
    keeps_lines,
    settled,
    special_tokens,
    undone,
)

T = TypeVar("T")
Call = Callable[[Batch, Chance], Batch]


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
        """The value of a key, made now if it is not there."""
        with self._lock:
            if key not in self._values:
                while len(self._values) >= self._most:
                    del self._values[next(iter(self._values))]
                self._values[key] = make()
            found: T = self._values[key]
        return found

    def __reduce__(self) -> tuple[Callable[..., Kept], tuple[int]]:
        return _empty, (self._most,)


def _empty(most: int) -> Kept:
    return Kept(most=most)


class LoadedFiles:
    """What files hold, loaded once each; a file that has changed since is loaded again.

    A copy that is sent to another process is empty: its owner loads for itself.
    """

    def __init__(self) -> None:
        self._kept = Kept(most=1 << 10)

    def load(self, path: Path, read: Callable[[Path], T]) -> T:
        """What `read` makes of a file. Whatever `read` raises is passed on, and nothing is kept."""
        return self._kept.get((read, str(path), mark_of(path)), lambda: read(path))

    def __reduce__(self) -> tuple[type[LoadedFiles], tuple[()]]:
        return LoadedFiles, ()


@dataclass(frozen=True, slots=True)
class Opened:
    """A transform whose files are loaded.

    transform: as it was declared.
    call: what it does, with the files at hand.
    told: its signature, with the fingerprints of the files.
    """

    transform: Transform
    call: Call
    told: dict[str, Any]

    @property
    def name(self) -> str:
        """The transform's name."""
        return self.transform.name

    @property
    def is_compiled(self) -> bool:
        """Whether the transform runs no Python code line by line."""
        return is_compiled(self.transform)

    @property
    def joins_lines(self) -> bool:
        """Whether a line of its result depends on the lines beside it."""
        return joins_lines(self.transform)

    @property
    def keeps_lines(self) -> bool:
        """Whether it gives one line for each, in order."""
        return keeps_lines(self.transform)

    @property
    def decodes(self) -> bool:
        """Whether the transform decodes its fields."""
        return decodes(self.transform)

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        return self.call(batch, chance)

    def settled(self) -> Transform | None:
        """What takes the transform's place where nothing is drawn; its files are not loaded."""
        return next(iter(settled([self.transform])), None)

    def undone(self) -> Transform | None:
        """What undoes the transform; its files are not loaded."""
        return next(iter(undone([self.transform])), None)

    def special_tokens(self) -> tuple[str, ...]:
        """The tokens that the transform adds to lines."""
        return special_tokens([self.transform])

    def signature(self) -> dict[str, Any]:
        """All that the result depends on."""
        return self.told


def opened(transform: Transform, files: LoadedFiles) -> Transform:
    """A transform with its files loaded: what its method `opened` gives, or itself if it has none.

    Raises VoltError if a file cannot be loaded.
    """
    own = getattr(transform, "opened", None)
    if own is None:
        return transform
    found: Transform = own(files)
    return found
