"""What a format is: the functions that its module has, and what they take and give.

A format is a module, or a sub-package, that has the functions of `Format`. Where a real library cuts text with its
files, it also has `peer`, a `LoadPeer`. It may have `CLOSING_ORDER`, see `volt.formats.registry.closing_order`, and
`files_written` and `files_read`, a path → the files that `write` writes, and that `read` may read; without them, PATH.
Where files do not say how text is cut into words, it has `read_with_pattern`: `read` with one more argument, `pattern`.
Where its library must be told what a file does not hold, it has functions that give a `Peer`: `original`, a foreign
file, its vocabulary and the pattern → the library as its publisher loads it; `peer_of`, an exported file and its
vocabulary → the same.

>>> from volt.formats.token_list import tokens
>>> [hasattr(tokens, name) for name in ("write", "read", "recognises", "peer")]
[True, True, True, False]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from volt.text.characters import Marker
from volt.text.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary

USUAL = SpecialTokens()
HEAD_SIZE = 4096  # bytes that `recognises` is shown
MOST_DIGITS = 1000  # of an id, a rank or a count


class Format(Protocol):
    """The functions that every format has."""

    def write(self, vocabulary: Vocabulary, path: Path) -> list[str]:
        """Write the format's files. Returns a sentence for everything that they cannot carry or that the library does
        differently. Raises VocabularyError if they cannot hold this vocabulary."""

    def read(self, path: Path, *, merges: Path | None = None) -> Vocabulary:
        """Read what is at `path`. merges: a file of merges, for formats that hold none.

        Raises VocabularyError, with file and line, for damage."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Check whether a file that starts with `head`, or a folder, whose head is empty, is likely of this format."""


class LoadPeer(Protocol):
    """The function `peer` of a format that a real library cuts text with."""

    def __call__(self, path: Path, *, special: SpecialTokens = USUAL) -> Peer:
        """Return the library with the file loaded, and with these special tokens where it takes them from its caller.

        Raises MissingLibraryError if the library is not installed."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A real library with a file loaded.

    pieces: lines → the pieces of each, in VOLT's spelling
    ids: lines → the ids of each; None if the library has no ids, or others than the vocabulary that was exported to it
    """

    library: str
    pieces: Callable[[Sequence[str]], list[list[str]]]
    ids: Callable[[Sequence[str]], list[list[int]]] | None = None


@dataclass(frozen=True, slots=True)
class MergeList:
    """Merges by rank, and how their strings are written.

    marker: the word marker in them
    spells_bytes: whether their letters stand for bytes, so that they fit counts of bytes only
    notes: a sentence for everything that was assumed
    """

    pairs: list[tuple[str, str]]
    marker: Marker
    spells_bytes: bool = False
    notes: tuple[str, ...] = ()
