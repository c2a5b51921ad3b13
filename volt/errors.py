"""Every error that VOLT raises on purpose: what was found, where, and what to do.

Sentences that many modules say are made here, so that they read alike everywhere.

>>> raise CorpusError("train.de:17: invalid UTF-8 byte 0xff; convert the file or pass errors='replace'")
Traceback (most recent call last):
    ...
volt.errors.CorpusError: train.de:17: invalid UTF-8 byte 0xff; convert the file or pass errors='replace'
"""

from __future__ import annotations

from typing import TypeVar


class VoltError(Exception):
    """Base class: the command line prints its text and exits with status 1.

    >>> issubclass(ConfigError, VoltError)
    True
    """


class ConfigError(VoltError):
    """An option or parameter is out of range, unknown, or contradicts another."""


class ArgumentError(ConfigError, TypeError):
    """An argument is of a type that cannot be meant; the text names the next step."""


class CorpusError(VoltError):
    """A text, table or file to be read is missing, damaged, empty or too small."""


class CandidateError(VoltError):
    """A list of merges cannot be used, or a size lies outside what it offers."""


class CriterionError(VoltError):
    """A criterion was asked of counts or sizes for which it is not defined."""


class TransportError(VoltError):
    """A transport problem is malformed or has no solution."""


class VocabularyError(VoltError):
    """A vocabulary file or object is foreign, damaged or inconsistent. place: the list and index of a bad entry."""

    def __init__(self, message: str, *, place: tuple[str, int] | None = None) -> None:
        super().__init__(message if place is None else f"{place[0]}, entry {place[1] + 1}: {message}")
        self.message, self.place = message, place


class StreamError(VoltError):
    """A stream cannot be opened, continued or computed: a source, transform, state or worker is at fault."""


class MissingLibraryError(VoltError):
    """An optional library is not installed; the text holds the pip command."""


class OutputError(VoltError):
    """A file cannot be written; what was there before is untouched."""


Kind = TypeVar("Kind", bound=VoltError)


def unreadable(path: object, error: OSError | ValueError, *, kind: type[Kind], remedy: str = "check the path") -> Kind:
    """What to raise, as an error of this kind, where a file cannot be read.

    >>> unreadable("a.txt", OSError(13, "Permission denied"), kind=CorpusError)
    CorpusError('a.txt: cannot be read: permission denied; check the path')
    """
    return kind(f"{path}: cannot be read: {reason(error)}; {remedy}")


def missing(library: str, *, extra: str = "interop", remedy: str = "") -> MissingLibraryError:
    """What to raise where an optional library is not installed. remedy: what can be done instead.

    >>> missing("tiktoken")
    MissingLibraryError("tiktoken is not installed; pip install 'volt-vocab[interop]'")
    """
    command = f"pip install 'volt-vocab[{extra}]'"
    return MissingLibraryError(f"{library} is not installed; {f'{command}, or {remedy}' if remedy else command}")


def reason(error: OSError | ValueError) -> str:
    """What the operating system says, or Python of a path that cannot be one, to stand inside a sentence.

    >>> reason(OSError(13, "Permission denied"))
    'permission denied'
    """
    return (getattr(error, "strerror", None) or str(error)).lower()
