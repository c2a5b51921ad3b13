"""The one place where commands load a MODEL: a VOLT vocabulary, or a foreign file as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from volt_cli.console import say
from volt_cli.remedies import in_options

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary


def load_model(path: Path) -> Vocabulary:
    """The vocabulary in a file, whose format is told by its content.

    What a foreign file does not tell is said on stderr, as `volt import` says it.
    """
    from volt.formats.registry import is_own, read_vocabulary

    vocabulary = read_vocabulary(path)
    if vocabulary.provenance.get("lost") and not is_own(path):
        say_losses(path, vocabulary)
    return vocabulary


def say_losses(path: Path, vocabulary: Vocabulary) -> None:
    """Say on stderr what a foreign file did not tell, and what VOLT does differently, a line each."""
    for loss in vocabulary.provenance.get("lost", ()):
        say(f"note: {path}: {in_options(loss)}")
