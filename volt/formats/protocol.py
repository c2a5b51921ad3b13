"""The protocol of a format: a module, or a sub-package, with the functions of `Format` and any hooks of `HOOKS`.

>>> from volt.formats import marian
>>> hook(marian, "files_written")(Path("a.yml")) == (Path("a.yml"),), hook(marian, "CLOSING_ORDER")
(True, 'ids')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from volt.display import counted
from volt.errors import ConfigError, VocabularyError, missing
from volt.text.atoms import Marker
from volt.text.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary

Pair: TypeAlias = tuple[str, str]  # the two parts of a merge
USUAL = SpecialTokens()
HEAD_SIZE = 4096  # bytes that `recognises` gets
_N_NAMED = 5  # tokens in one note
MOST_DIGITS = 1000  # of an id, a rank or a count


class Format(Protocol):
    """The functions that every format has."""

    def write(self, vocabulary: Vocabulary, path: Path) -> list[str]:
        """Write the format's files. Returns a sentence for each property that is lost or that the library changes.

        Raises VocabularyError if they cannot store this vocabulary."""

    def read(self, path: Path, *, merges: Path | None = None) -> Vocabulary:
        """Read a file or folder.

        merges: a file of merges, for formats without merges
        Raises VocabularyError, with file and line, for damage."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Check whether a file or folder is likely of this format. head: the file's first bytes; b"" for a folder"""


def only_path(path: Path) -> tuple[Path, ...]:
    return (path,)


# What a format may also define, and the default. A function that no format needs to define is None by default.
HOOKS: dict[str, Any] = {
    # `LoadPeer`, if a library encodes text with the format's files
    "peer": None,
    # path, content → `MergeList`, candidates for a search, if they are not the merges of the vocabulary
    "read_merges": None,
    # `read` with an argument `pattern`, if files do not name the pattern that splits text
    "read_with_pattern": None,
    # whether `write` has an argument `chat_template`, because the library turns chats into text
    "STORES_TEMPLATES": False,
    # path → the `ListEntry` of each row, if files only list tokens
    "read_rows": None,
    # path → the files that `write` writes, and those that `read` may read
    "files_written": only_path,
    "files_read": only_path,
    # the order of tokens for `Vocabulary.closed`: "merges" if ids are ranks of merges, else "ids"
    "CLOSING_ORDER": "ids",
    # whether user tokens may contain white space
    "STORES_WHITE_SPACE": False,
}


def hook(module: object, name: str) -> Any:
    """Return a format's own version of a hook, or the default."""
    return getattr(module, name, HOOKS[name])


@contextmanager
def needs(library: str) -> Iterator[None]:
    """Replace the ImportError of an optional library by an error with the pip command."""
    try:
        yield
    except ImportError:
        raise missing(library) from None


@contextmanager
def located(path: object) -> Iterator[None]:
    """Convert an error to a VocabularyError with the path of a file before the message."""
    try:
        yield
    except (ConfigError, VocabularyError) as error:
        raise error.reworded(f"{path}: {error.message}", VocabularyError) from None


def named(tokens: Sequence[str]) -> str:
    r"""Return the first few tokens for a note; those with white space are quoted.

    >>> print(named(["<url>", "\n", *"abcde"]))
    <url>, '\n', a, b, c and 2 others
    """
    shown = [token if token.split() == [token] else repr(token) for token in tokens[:_N_NAMED]]
    result = ", ".join(shown)
    if others := len(tokens) - len(shown):
        result += f" and {counted(others, 'other')}"
    return result


@dataclass(frozen=True, slots=True)
class Peer:
    """A library with a file loaded, to compare with VOLT.

    pieces: lines → the pieces of each line, in VOLT's spelling
    ids: lines → the ids of each line; None if the library has no ids, or if its ids differ from VOLT's
    added: tokens that the library, unlike VOLT, finds in text, where it cuts a line before it normalises the parts
    unk: the token by which the library replaces unknown characters in its pieces, which then hide them
    """

    library: str
    pieces: Callable[[Sequence[str]], list[list[str]]]
    ids: Callable[[Sequence[str]], list[list[int]]] | None = None
    added: tuple[str, ...] = ()
    unk: str | None = None


# A file, and the vocabulary that was written to it or read from it → the library with this file loaded.
LoadPeer: TypeAlias = "Callable[[Path, Vocabulary], Peer]"


@dataclass(frozen=True, slots=True)
class MergeList:
    """Merges by rank, and how their strings are written.

    spells_bytes: whether characters of merges stand for bytes; such merges fit only word counts over bytes
    notes: a sentence for each assumption about the file
    """

    pairs: list[Pair]
    marker: Marker
    spells_bytes: bool = False
    notes: tuple[str, ...] = ()
