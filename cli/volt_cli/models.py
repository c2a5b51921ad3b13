"""The one place where commands load a MODEL: a VOLT vocabulary, or a foreign file as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary


def load_model(path: Path) -> Vocabulary:
    """The vocabulary in a file, whose format is told by its content."""
    from volt.formats.registry import read_vocabulary

    return read_vocabulary(path)
