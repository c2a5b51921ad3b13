"""The errors that VOLT raises on purpose. Each says what is wrong, where, and what to do.

Messages that several modules use are written here, so that they read alike everywhere.

A message that would end with an argument and its value omits them. The error carries them as its `hint`, because Python
and the command line spell them differently.

>>> raise CorpusError("train.de:17: invalid UTF-8 byte 0xff; convert the file or pass", hint={"errors": "replace"})
Traceback (most recent call last):
    ...
volt.errors.CorpusError: train.de:17: invalid UTF-8 byte 0xff; convert the file or pass errors='replace'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import starmap
from typing import TypeVar

from volt.urls import bare, without_secrets

MOST_SHOWN = 60  # characters of a token, a line or a name in a message
_LONGEST, _TAIL = 2000, 500  # characters of a line of a message, and of its end
_MOST_LINES = 500


def visible(text: str) -> str:
    """Return a text with invisible characters as escapes: control characters, changes of direction, line ends, and
    bytes of a file name that are not UTF-8.

    >>> print(visible("a\\x1b[2J\\u202e\\n\\udcff"))
    a\\x1b[2J\\u202e\\n\\xff
    """
    return text if text.isprintable() else "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # how Python holds a byte of a file name that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def shown(text: object, most: int = MOST_SHOWN) -> str:
    """Return a name or a token in printable form (`visible`), cut after `most` characters.

    >>> shown("low\\tlower"), shown("l" * 1_000_000, 3)
    ('low\\\\tlower', 'lll… (1,000,000 characters)')
    """
    text = str(text)
    return visible(text[:most]) + _rest(text, most)


def quoted(text: str, most: int = MOST_SHOWN) -> str:
    """Return the same in quotation marks, as Python writes strings.

    >>> print(quoted("low\\x1b"), quoted("l" * 1_000_000, 3))
    'low\\x1b' 'lll'… (1,000,000 characters)
    """
    return repr(text[:most]) + _rest(text, most)


def _rest(text: str, most: int) -> str:
    return f"… ({len(text):,} characters)" if len(text) > most else ""


def shown_path(path: object) -> str:
    """Return the name of a file for people; whole, unless it is longer than a file system takes. A URL loses its
    secrets.

    >>> print(shown_path("a\\nb.txt"), shown_path("https://me:secret@host/a.txt"))
    a\\nb.txt https://host/a.txt
    """
    return shown(bare(str(path)), 4096)


def bounded(message: str) -> str:
    """Return a message that is safe to print: `visible` lines, no secrets in URLs, and a very long line without its
    middle.

    >>> bounded("a\\x1bb\\nc"), len(bounded("x" * 1_000_000)) < 2_100
    ('a\\\\x1bb\\nc', True)
    """
    first, *others = without_secrets(message).split("\n", _MOST_LINES)
    lines = [first, *others[: _MOST_LINES - 1], *["…"] * (len(others) == _MOST_LINES)]
    return "\n".join(map(_bounded_line, lines))


def _bounded_line(line: str) -> str:
    line = visible(line)
    if len(line) <= _LONGEST:
        return line
    start = _LONGEST - _TAIL - 50
    return f"{line[:start]}… ({len(line) - start - _TAIL:,} characters left out) …{line[-_TAIL:]}"


Kind = TypeVar("Kind", bound="VoltError")


def as_argument(name: str, value: object) -> str:
    """Return an argument of Python.

    >>> as_argument("errors", "replace")
    "errors='replace'"
    """
    return f"{name}={value!r}"


class VoltError(Exception):
    """Base class: the command line prints its text and exits with status 1.

    message: made fit to be printed, whatever it quotes (see `bounded`); ends before the hint, as "; pass" does
    hint: arguments, each of which solves the problem, with their values
    """

    def __init__(self, message: str = "", *, hint: Mapping[str, object] | None = None) -> None:
        self.message, self.hint = bounded(message), dict(hint or {})
        super().__init__(self.text(as_argument))

    def text(self, spelled: Callable[[str, object], str]) -> str:
        """Return the message with its hint.

        spelled: returns an argument and its value as the reader writes them

        >>> VoltError("too long; pass", hint={"max_line": None}).text(lambda name, value: f"{name}: {value}")
        'too long; pass max_line: None'
        """
        return f"{self.message} {' or '.join(starmap(spelled, self.hint.items()))}" if self.hint else self.message

    def reworded(self, message: str, kind: type[Kind] | None = None) -> VoltError:
        """Return an error with another message and this error's hint.

        message: replaces the message
        kind: class of the new error; by default, this error's

        >>> VoltError("too long; pass", hint={"max_line": 9}).reworded("a.txt: too long; pass", CorpusError)
        CorpusError('a.txt: too long; pass max_line=9')
        """
        return (kind or type(self))(message, hint=self.hint)


class ConfigError(VoltError):
    """An option or parameter is out of range, unknown, or contradicts another."""


class ArgumentError(ConfigError, TypeError):
    """An argument is of a type that cannot be meant; the text names the next step."""


class CorpusError(VoltError):
    """A text, table or file to be read is missing, damaged, empty or too small."""


class CandidateError(VoltError):
    """A list of merges cannot be used, or a size lies outside what it offers."""


class CriterionError(VoltError):
    """A criterion is not defined for these counts or sizes."""


class TransportError(VoltError):
    """A transport problem is malformed or has no solution."""


class VocabularyError(VoltError):
    """A vocabulary file or object is not VOLT's, is damaged or inconsistent.

    place: the list and index of a bad entry; fault: the message without it
    """

    def __init__(
        self, message: str, *, place: tuple[str, int] | None = None, hint: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message if place is None else f"{place[0]}, entry {place[1] + 1}: {message}", hint=hint)
        self.fault, self.place = bounded(message), place


class StreamError(VoltError):
    """A stream cannot be opened, continued or computed: a source, transform, state or worker is at fault."""


class MissingLibraryError(VoltError):
    """An optional library is not installed; the message contains the pip command."""


class OutputError(VoltError):
    """A file cannot be written; what was there before is untouched."""


def unreadable(path: object, error: OSError | ValueError, *, kind: type[Kind], remedy: str = "") -> Kind:
    """Return the error, of this kind, for a file that cannot be read. remedy: replaces the usual one.

    >>> unreadable("a.txt", OSError(13, "Permission denied"), kind=CorpusError)
    CorpusError('a.txt: cannot be read: permission denied; check the path')
    """
    remedy = remedy or getattr(error, "remedy", "check the path")
    return kind(f"{shown_path(path)}: cannot be read: {reason(error)}; {remedy}")


def missing(library: str, *, extra: str = "interop", remedy: str = "") -> MissingLibraryError:
    """Return the error for an optional library that is not installed. remedy: an alternative.

    >>> missing("tiktoken")
    MissingLibraryError("tiktoken is not installed; pip install 'volt-vocab[interop]'")
    """
    command = f"pip install 'volt-vocab[{extra}]'"
    return MissingLibraryError(f"{library} is not installed; {f'{command}, or {remedy}' if remedy else command}")


def reason(error: OSError | ValueError) -> str:
    """Return the message of the operating system, or of Python for an invalid path, as part of a sentence.

    >>> reason(OSError(13, "Permission denied"))
    'permission denied'
    """
    return (getattr(error, "strerror", None) or str(error)).lower()
