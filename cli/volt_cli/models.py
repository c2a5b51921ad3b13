"""The one place where commands load a MODEL: a VOLT vocabulary, or a foreign file as it is; "-" is stdin."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from volt.errors import ConfigError, VoltError

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary


def load_model(path: Path, *, beside: Collection[str] = ()) -> Vocabulary:
    """The vocabulary in a file, whose format is told by its content.

    beside: the texts that are read as well. Raises ConfigError if both are to come from stdin.
    """
    from volt.formats.registry import read_vocabulary

    if str(path) != "-":
        return read_vocabulary(path)
    if "-" in beside:
        raise ConfigError("-m -: stdin cannot hold both the vocabulary and the text; name a file for one of them")
    return _from_stdin()


def _from_stdin() -> Vocabulary:
    """The vocabulary that stdin holds; messages call its file "stdin"."""
    import shutil
    import sys
    from tempfile import TemporaryDirectory

    from volt.formats.registry import read_vocabulary

    with TemporaryDirectory() as folder:
        copy = Path(folder, "stdin")
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            return read_vocabulary(copy)
        except VoltError as error:
            raise type(error)(str(error).replace(str(copy), "stdin")) from None
