"""The one place where commands load a MODEL: a VOLT vocabulary, or a foreign file as it is; "-" is stdin."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from volt.errors import ConfigError, VoltError
from volt_cli.console import say
from volt_cli.remedies import in_options

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary


def load_model(path: Path, *, beside: Collection[str] = ()) -> Vocabulary:
    """The vocabulary in a file, whose format is told by its content.

    beside: the texts that are read as well. Raises ConfigError if both are to come from stdin.

    What a foreign file does not tell is said on stderr, as `volt import` says it.
    """
    if str(path) != "-":
        return _read(path)
    if "-" in beside:
        raise ConfigError("-m -: stdin cannot hold both the vocabulary and the text; name a file for one of them")
    return _from_stdin()


def _read(path: Path) -> Vocabulary:
    from volt.formats.registry import is_own, read_vocabulary

    vocabulary = read_vocabulary(path)
    if vocabulary.provenance.get("lost") and not is_own(path):
        say_losses(path, vocabulary)
    return vocabulary


def say_losses(path: Path, vocabulary: Vocabulary) -> None:
    """Say on stderr what a foreign file did not tell, and what VOLT does differently, a line each."""
    for loss in vocabulary.provenance.get("lost", ()):
        say(f"note: {path}: {in_options(loss)}")


def _from_stdin() -> Vocabulary:
    """The vocabulary that stdin holds; messages call its file "stdin"."""
    import shutil
    import sys

    from volt.files.scratch import scratch_folder

    with scratch_folder() as folder:
        copy = folder / "stdin"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            return _read(copy)
        except VoltError as error:
            raise type(error)(str(error).replace(str(copy), "stdin")) from None
