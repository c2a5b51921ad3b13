"""The protocol of a format, and helpers that several formats share.

A format is a module, or a sub-package, that has the functions of `Format`. It may also define
functions or constants with the names in `HOOKS`; `get_hook` returns the default for those that it
does not define.

>>> from volt.formats import marian
>>> get_hook(marian, "CLOSING_ORDER")
'ids'
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
USUAL_SPECIAL = SpecialTokens()  # <unk>, <s>, </s> and <pad>
HEAD_SIZE = 4096  # bytes that `recognises` gets
MOST_DIGITS = 1000  # of an id, a rank or a count in a file
_N_NAMED = 5  # tokens in one note


class Format(Protocol):
    """The functions that every format has."""

    def write(self, vocabulary: Vocabulary, path: Path) -> list[str]:
        """Write the format's files.

        Returns a sentence for each property that the files lack, or that the library handles
        differently. Raises VocabularyError if the files cannot store this vocabulary.
        """

    def read(self, path: Path, *, merges: Path | None = None) -> Vocabulary:
        """Read a file or folder.

        merges: a file of merges, for formats without merges

        Raises VocabularyError, with file and line, if a file is damaged.
        """

    def recognises(self, path: Path, head: bytes) -> bool:
        """Check whether a file or folder is likely of this format.

        head: the file's first `HEAD_SIZE` bytes; b"" for a folder
        """


def _only_path(path: Path) -> tuple[Path, ...]:
    return (path,)


# Functions and constants that a format may define → the default for formats that do not define them.
HOOKS: dict[str, Any] = {
    # `LoadPeer`: loads a file in the library of the format
    "peer": None,
    # (path, content) → `MergeList`: candidates for a search, if they are not the merges of the vocabulary
    "read_merges": None,
    # like `read`, with an argument `pattern`: for files that do not name the pattern that splits text
    "read_with_pattern": None,
    # whether `write` has an argument `chat_template`, because the library turns chats into text
    "STORES_TEMPLATES": False,
    # path → the `ListEntry` of each row: for files that only list tokens
    "read_rows": None,
    # path → the files that `write` writes, and those that `read` may read
    "files_written": _only_path,
    "files_read": _only_path,
    # the order of tokens for `Vocabulary.closed`: "merges" if ids are ranks of merges, else "ids"
    "CLOSING_ORDER": "ids",
    # whether user tokens may contain white space
    "STORES_WHITE_SPACE": False,
}


def get_hook(module: object, name: str) -> Any:
    """Return the function or constant of a format with this name in `HOOKS`, or the default."""
    return getattr(module, name, HOOKS[name])


@contextmanager
def require_library(library: str) -> Iterator[None]:
    """Replace an ImportError in the block by a MissingLibraryError with the pip command for the
    library.
    """
    try:
        yield
    except ImportError:
        raise missing(library) from None


@contextmanager
def locate_errors(path: object) -> Iterator[None]:
    """Replace a ConfigError or VocabularyError in the block by a VocabularyError whose message
    starts with a path.
    """
    try:
        yield
    except (ConfigError, VocabularyError) as error:
        raise error.reworded(f"{path}: {error.message}", VocabularyError) from None


def name_tokens(tokens: Sequence[str]) -> str:
    r"""Return the first few of many tokens as one text for a note.

    A token with white space is quoted.

    >>> print(name_tokens(["<url>", "\n", *"abcde"]))
    <url>, '\n', a, b, c and 2 others
    """
    shown = [token if token.split() == [token] else repr(token) for token in tokens[:_N_NAMED]]
    result = ", ".join(shown)
    if others := len(tokens) - len(shown):
        result += f" and {counted(others, 'other')}"
    return result


@dataclass(frozen=True, slots=True)
class Peer:
    """A library that loaded a file, with which VOLT is compared.

    pieces: lines → the library's pieces of each line, in VOLT's spelling
    ids: lines → the library's ids of each line; None if the library has no ids, or if its ids
        differ from VOLT's
    added: tokens that the library finds in text, and VOLT does not
    unk: the token that the library's pieces contain instead of unknown characters; None if they
        contain these
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

    marker: how the strings mark words
    spells_bytes: whether each character stands for a byte; such merges fit only word counts over
        bytes
    notes: a sentence for each assumption about the file
    """

    pairs: list[Pair]
    marker: Marker
    spells_bytes: bool = False
    notes: tuple[str, ...] = ()
