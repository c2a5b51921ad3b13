"""The errors that VOLT raises on purpose. Each says what is wrong, where, and what to do.

Messages that several modules use are defined here, so that their wording is the same everywhere.

If the remedy is an argument with a value, the message ends before it, and the error stores it as
its `hint`, because Python and the command line spell arguments differently.

>>> raise CorpusError("train.de:17: invalid UTF-8 byte 0xff; convert the file or pass", hint={"errors": "replace"})
Traceback (most recent call last):
    ...
volt.errors.CorpusError: train.de:17: invalid UTF-8 byte 0xff; convert the file or pass errors='replace'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from typing import TypeVar

from volt.urls import bare, without_secrets

MOST_SHOWN = 60  # characters that a message shows of a token, a line or a name
_LONGEST = 2000  # characters of a message's line
_TAIL = 500  # characters that are shown of the end of a longer line
_MOST_LINES = 500


def visible(text: str) -> str:
    """Return a text with its unprintable characters escaped.

    These include control characters, changes of direction, line ends, and bytes of a file name that
    are not UTF-8.

    >>> print(visible("a\\x1b[2J\\u202e\\n\\udcff"))
    a\\x1b[2J\\u202e\\n\\xff
    """
    if text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character.isprintable():
        return character
    # Python's stand-in for a byte of a file name that is not UTF-8.
    if "\udc80" <= character <= "\udcff":
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
    """Return a text in quotation marks, as Python writes strings, cut after `most` characters.

    >>> print(quoted("low\\x1b"), quoted("l" * 1_000_000, 3))
    'low\\x1b' 'lll'… (1,000,000 characters)
    """
    return repr(text[:most]) + _rest(text, most)


def _rest(text: str, most: int) -> str:
    if len(text) <= most:
        return ""
    return f"… ({len(text):,} characters)"


def shown_path(path: object) -> str:
    """Return a printable path, uncut if a file system allows it; a URL without its secrets.

    >>> print(shown_path("a\\nb.txt"), shown_path("https://me:secret@host/a.txt"))
    a\\nb.txt https://host/a.txt
    """
    return shown(bare(str(path)), 4096)


def bounded(message: str) -> str:
    """Return a message that is safe to print: escaped, without secrets, and very long lines cut.

    >>> bounded("a\\x1bb\\nc"), len(bounded("x" * 1_000_000)) < 2_100
    ('a\\\\x1bb\\nc', True)
    """
    lines = without_secrets(message).split("\n", _MOST_LINES)
    if len(lines) > _MOST_LINES:
        lines[-1] = "…"
    return "\n".join(map(_bounded_line, lines))


def _bounded_line(line: str) -> str:
    line = visible(line)
    if len(line) <= _LONGEST:
        return line
    start = _LONGEST - _TAIL - 50
    return f"{line[:start]}… ({len(line) - start - _TAIL:,} characters left out) …{line[-_TAIL:]}"


Kind = TypeVar("Kind", bound="VoltError")


def as_argument(name: str, value: object) -> str:
    """Return an argument and its value as Python spells them.

    >>> as_argument("errors", "replace")
    "errors='replace'"
    """
    return f"{name}={value!r}"


class VoltError(Exception):
    """Base class of VOLT's errors: the command line prints the text and exits with status 1.

    message: the text before the hint, which may end in "; pass"; `bounded` makes it safe to print
    hint: argument → value; each of these arguments solves the problem
    """

    def __init__(self, message: str = "", *, hint: Mapping[str, object] | None = None) -> None:
        self.message = bounded(message)
        self.hint = dict(hint or {})
        super().__init__(self.text(as_argument))

    def text(self, spelled: Callable[[str, object], str]) -> str:
        """Return the message with its hint.

        spelled: argument, value → how the reader writes them

        >>> VoltError("too long; pass", hint={"max_line": None}).text(lambda name, value: f"{name}: {value}")
        'too long; pass max_line: None'
        """
        if not self.hint:
            return self.message
        return f"{self.message} {' or '.join(starmap(spelled, self.hint.items()))}"

    def reworded(self, message: str, kind: type[Kind] | None = None) -> VoltError:
        """Return an error with another message and this error's hint.

        message: the new text before the hint
        kind: class of the new error; by default, this error's class

        >>> VoltError("too long; pass", hint={"max_line": 9}).reworded("a.txt: too long; pass", CorpusError)
        CorpusError('a.txt: too long; pass max_line=9')
        """
        return (kind or type(self))(message, hint=self.hint)


class VoltWarning(UserWarning):
    """Base class of VOLT's warnings, such as that a foreign file is treated differently."""


class ConfigError(VoltError):
    """An option or parameter is out of range, unknown, or contradicts another."""


class ArgumentError(ConfigError, TypeError):
    """An argument has a type that is not accepted; the message says what to pass instead."""


class CorpusError(VoltError):
    """A text, table or file to be read is missing, damaged, empty or too small."""


class CandidateError(VoltError):
    """A list of merges cannot be used, or does not allow a requested size."""


class CriterionError(VoltError):
    """A criterion is not defined for these counts or sizes."""


class TransportError(VoltError):
    """A transport problem is malformed or has no solution."""


class VocabularyError(VoltError):
    """A vocabulary, or the file to read it from, is damaged, inconsistent or in an unknown format.

    place: the list and index of a bad entry; the attribute `fault` is the message without that
        place
    """

    def __init__(
        self,
        message: str,
        *,
        place: tuple[str, int] | None = None,
        hint: Mapping[str, object] | None = None,
    ) -> None:
        self.fault = bounded(message)
        self.place = place
        if place is not None:
            message = f"{place[0]}, entry {place[1] + 1}: {message}"
        super().__init__(message, hint=hint)


class StreamError(VoltError):
    """A source, transform, state or worker prevents opening, resuming or computing a stream."""


class MissingLibraryError(VoltError):
    """An optional library is not installed; the message contains the pip command."""


class OutputError(VoltError):
    """A file or folder cannot be written; the message says if nothing was changed."""


def unreadable(
    path: object, error: OSError | ValueError, *, kind: type[Kind], remedy: str = ""
) -> Kind:
    """Return an error of class `kind` for a file that cannot be read.

    remedy: by default, to check the path

    >>> unreadable("a.txt", OSError(13, "Permission denied"), kind=CorpusError)
    CorpusError('a.txt: cannot be read: permission denied; check the path')
    """
    remedy = remedy or getattr(error, "remedy", "check the path")
    return kind(f"{shown_path(path)}: cannot be read: {reason(error)}; {remedy}")


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def missing(library: str, *, extra: str = "interop", remedy: str = "") -> MissingLibraryError:
    """Return the error for an optional library that is not installed.

    remedy: an alternative to installing it

    >>> missing("tiktoken")
    MissingLibraryError("tiktoken is not installed; pip install 'volt-vocab[interop]'")
    """
    message = f"{library} is not installed; pip install 'volt-vocab[{extra}]'"
    if remedy:
        message += f", or {remedy}"
    return MissingLibraryError(message)


def reason(error: OSError | ValueError) -> str:
    """Return a message of the operating system or Python in lower case, as part of a sentence.

    >>> reason(OSError(13, "Permission denied"))
    'permission denied'
    """
    return (getattr(error, "strerror", None) or str(error)).lower()
