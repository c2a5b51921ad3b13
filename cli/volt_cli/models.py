"""The one place where commands load a MODEL: a VOLT vocabulary, or a foreign file as it is; "-" is stdin."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from volt.errors import ConfigError, VoltError
from volt.urls import name_of, url_of
from volt_cli.console import say
from volt_cli.remedies import in_options

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary


def load_model(path: Path, *, beside: Collection[str] = (), pattern: str | None = None) -> Vocabulary:
    """The vocabulary in a file, whose format is told by its content.

    beside: the texts that are read as well. Raises ConfigError if both are to come from stdin.
    pattern: what cuts text into words, where the file does not say it

    What a foreign file does not tell is said on stderr, as `volt import` says it.
    """
    if str(path) == "-" and "-" in beside:
        raise ConfigError("-m -: stdin cannot hold both the vocabulary and the text; name a file for one of them")
    with read_once(path) as place:
        return _read(place, pattern)


def _read(path: Path, pattern: str | None) -> Vocabulary:
    from volt.formats.registry import is_own, read_vocabulary

    vocabulary = read_vocabulary(path, pattern=pattern)
    if vocabulary.provenance.get("lost") and not is_own(path):
        say_losses(path, vocabulary)
    return vocabulary


def say_losses(path: Path, vocabulary: Vocabulary) -> None:
    """Say on stderr what a foreign file did not tell, and what VOLT does differently, a line each."""
    for loss in vocabulary.provenance.get("lost", ()):
        say(f"note: {name_of(path) or path}: {in_options(loss)}")


@contextmanager
def read_once(path: Path) -> Iterator[Path]:
    """The path; for stdin, a pipe or a URL, that of a copy, as what recognises a file reads it more than once.

    Messages call a copy by the name of what was copied.
    """
    import shutil
    import sys

    from volt.files.scratch import scratch_folder
    from volt.files.whole import is_pipe

    if url_of(path) is not None:
        from volt.formats.registry import model_at_hand

        with model_at_hand(path) as copy:
            yield copy
        return
    is_stdin = str(path) == "-"
    if not is_stdin and not is_pipe(path):
        yield path
        return
    with scratch_folder() as folder, nullcontext(sys.stdin.buffer) if is_stdin else path.open("rb") as source:
        copy = folder / ("stdin" if is_stdin else path.name)
        with copy.open("wb") as file:
            shutil.copyfileobj(source, file)
        try:
            yield copy
        except VoltError as error:
            raise type(error)(str(error).replace(str(copy), "stdin" if is_stdin else str(path))) from None
