"""Every error that VOLT raises on purpose: what was found, where, and what to do.

>>> raise CorpusError("train.de:17: invalid UTF-8 byte 0xff; convert the file or pass errors='replace'")
Traceback (most recent call last):
    ...
volt.errors.CorpusError: train.de:17: invalid UTF-8 byte 0xff; convert the file or pass errors='replace'
"""


class VoltError(Exception):
    """Base class: the command line prints its text and exits with status 1."""


class ConfigError(VoltError):
    """An option or parameter is out of range, unknown, or contradicts another."""


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
