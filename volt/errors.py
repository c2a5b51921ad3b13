"""The errors that VOLT raises on purpose. A message says what is wrong, where, and what to do.

If an argument solves the problem, the error has two parts: a `message` that ends with "pass", and a
`hint`, the argument and its value. Python and the command line complete the message in their own
spelling:

    message                        hint                   in Python                  on the command line
    "…; convert the file or pass"  {"errors": "replace"}  "… pass errors='replace'"  "… pass --errors replace"

>>> raise CorpusError("train.de:17: invalid UTF-8 byte 0xff; convert the file or pass", hint={"errors": "replace"})
Traceback (most recent call last):
    ...
volt.errors.CorpusError: train.de:17: invalid UTF-8 byte 0xff; convert the file or pass errors='replace'

Below the error classes are functions that make errors which several modules raise, and functions
that make foreign text, such as a token or a path, safe to print and short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from typing import TypeVar

from volt.urls import bare, without_secrets

MOST_SHOWN = 60  # characters of a token, a line or a name that a message shows
# Limits of a whole message, so that a corrupt file of one long line does not fill the terminal.
_LONGEST_LINE = 2000  # characters of a line; a longer one is cut in its middle
_SHOWN_END = 500  # characters that are shown of the end of a line that is cut
_MOST_LINES = 500
_LONGEST_PATH = 4096  # characters; file systems allow no more

ErrorClass = TypeVar("ErrorClass", bound="VoltError")


class VoltError(Exception):
    """Base class of VOLT's errors. The command line prints the text, and exits with status 1.

    message: the text without the hint; unprintable characters are escaped, and secrets of URLs
        removed
    hint: argument → value; each argument alone solves the problem
    """

    def __init__(self, message: str = "", *, hint: Mapping[str, object] | None = None) -> None:
        self.message = bounded(message)
        self.hint = dict(hint or {})
        super().__init__(self.text(as_argument))

    def text(self, spell: Callable[[str, object], str]) -> str:
        """Return the message, completed by the hint.

        spell: a function of an argument's name and its value that returns them as the reader writes
            them

        >>> error = VoltError("the line is too long; pass", hint={"max_line": None})
        >>> error.text(lambda name, value: f"--{name} {value}")
        'the line is too long; pass --max_line None'
        """
        if not self.hint:
            return self.message
        return f"{self.message} {' or '.join(starmap(spell, self.hint.items()))}"

    def reworded(self, message: str, error_class: type[ErrorClass] | None = None) -> VoltError:
        """Return an error with another message, and with this error's hint.

        message: the text of the returned error
        error_class: the class of the returned error; by default, this error's class

        >>> error = VoltError("too long; pass", hint={"max_line": 9})
        >>> error.reworded("a.txt: too long; pass", CorpusError)
        CorpusError('a.txt: too long; pass max_line=9')
        """
        return (error_class or type(self))(message, hint=self.hint)


def as_argument(name: str, value: object) -> str:
    """Return an argument's name and its value as Python code.

    >>> as_argument("errors", "replace")
    "errors='replace'"
    """
    return f"{name}={value!r}"


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

    place: if one entry of a list is wrong, the list's name and the entry's index; the text then
        begins with them
    fault: the message without the place

    >>> error = VocabularyError("no merge makes it", place=("tokens", 2))
    >>> str(error), error.fault
    ('tokens, entry 3: no merge makes it', 'no merge makes it')
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
            list_name, index = place
            message = f"{list_name}, entry {index + 1}: {message}"
        super().__init__(message, hint=hint)


class StreamError(VoltError):
    """A source, transform, state or worker prevents opening, resuming or computing a stream."""


class MissingLibraryError(VoltError):
    """An optional library is not installed; the message contains the pip command."""


class OutputError(VoltError):
    """A file or folder cannot be written; the message says if nothing was changed."""


# Errors that several modules raise


def unreadable(
    path: object, error: OSError | ValueError, *, kind: type[ErrorClass], remedy: str = ""
) -> ErrorClass:
    """Return the error for a file that cannot be read.

    error: why the file cannot be read
    kind: the class of the returned error
    remedy: what to do, for the message; by default "check the path"

    >>> unreadable("a.txt", OSError(13, "Permission denied"), kind=CorpusError)
    CorpusError('a.txt: cannot be read: permission denied; check the path')
    """
    remedy = remedy or getattr(error, "remedy", "check the path")
    return kind(f"{shown_path(path)}: cannot be read: {reason(error)}; {remedy}")


def missing(library: str, *, extra: str = "interop", remedy: str = "") -> MissingLibraryError:
    """Return the error for an optional library that is not installed.

    extra: the extra of volt-vocab that installs the library
    remedy: what the user can do instead of installing it

    >>> missing("tiktoken")
    MissingLibraryError("tiktoken is not installed; pip install 'volt-vocab[interop]'")
    """
    message = f"{library} is not installed; pip install 'volt-vocab[{extra}]'"
    if remedy:
        message += f", or {remedy}"
    return MissingLibraryError(message)


def reason(error: OSError | ValueError) -> str:
    """Return the message of an error of Python or the operating system, in lower case, as part of a
    sentence.

    >>> reason(OSError(13, "Permission denied"))
    'permission denied'
    """
    return (getattr(error, "strerror", None) or str(error)).lower()


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, then the error that caused it, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


# Foreign text in messages


def visible(text: str) -> str:
    """Return a text in which unprintable characters are escaped, so that it cannot control the
    terminal.

    Unprintable are control characters, changes of the direction of writing, line ends, and bytes of
    a file name that are not UTF-8.

    >>> print(visible("a\\x1b[2J\\u202e\\n\\udcff"))
    a\\x1b[2J\\u202e\\n\\xff
    """
    if text.isprintable():
        return text
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    if character.isprintable():
        return character
    # Python's stand-in for a byte of a file name that is not UTF-8.
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def shown(text: object, most: int = MOST_SHOWN) -> str:
    """Return a name or a token for a message: escaped as by `visible`, and cut after `most`
    characters.

    >>> shown("low\\tlower"), shown("l" * 1_000_000, 3)
    ('low\\\\tlower', 'lll… (1,000,000 characters)')
    """
    text = str(text)
    return visible(text[:most]) + _describe_cut(text, most)


def quoted(text: str, most: int = MOST_SHOWN) -> str:
    """Return a text for a message: in quotation marks, as Python writes strings, and cut after
    `most` characters.

    >>> print(quoted("low\\x1b"), quoted("l" * 1_000_000, 3))
    'low\\x1b' 'lll'… (1,000,000 characters)
    """
    return repr(text[:most]) + _describe_cut(text, most)


def _describe_cut(text: str, most: int) -> str:
    if len(text) <= most:
        return ""
    return f"… ({len(text):,} characters)"


def shown_path(path: object) -> str:
    """Return a path or URL for a message: escaped as by `visible`; a URL without user, password and
    query.

    >>> print(shown_path("a\\nb.txt"), shown_path("https://me:secret@host/a.txt"))
    a\\nb.txt https://host/a.txt
    """
    return shown(bare(str(path)), _LONGEST_PATH)


def bounded(message: str) -> str:
    """Return a whole message that is safe to print: escaped, without secrets of URLs, and with long
    lines cut.

    >>> bounded("a\\x1bb\\nc"), len(bounded("x" * 1_000_000)) < 2_100
    ('a\\\\x1bb\\nc', True)
    """
    lines = without_secrets(message).split("\n", _MOST_LINES)
    if len(lines) > _MOST_LINES:
        lines[-1] = "…"
    return "\n".join(map(_bound_line, lines))


def _bound_line(line: str) -> str:
    line = visible(line)
    if len(line) <= _LONGEST_LINE:
        return line
    n_first = _LONGEST_LINE - _SHOWN_END - 50  # 50 for the words between
    n_omitted = len(line) - n_first - _SHOWN_END
    return f"{line[:n_first]}… ({n_omitted:,} characters left out) …{line[-_SHOWN_END:]}"
