"""The texts that a comparison is given, in any of their forms → `NamedText`s.

>>> from volt.count.word_counts import WordCounts
>>> as_texts(NamedText("en", WordCounts.from_pairs({"low": 2})), "sources")
[<NamedText 'en': 1 word, 2 in all, 0 files>]
>>> as_texts(["en=train.en", "train.de"], "sources")
['en=train.en', 'train.de']
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from volt import arguments
from volt.comparison.named_texts import NamedText, match_names, read_sources, unseen_characters
from volt.count.word_counts import WordCounts
from volt.errors import ConfigError

Text = str | os.PathLike[str] | NamedText
Given = Text | Iterable[Text]


def as_texts(given: Given, name: str) -> list[str | NamedText]:
    """Named texts, read or as NAME=FILE, of which a single one may stand by itself.

    name: of the argument, for errors
    Raises ConfigError if one is neither.
    """
    listed = (
        [given] if isinstance(given, str | os.PathLike | NamedText | WordCounts) else arguments.several(given, name)
    )
    return [_text(text, f"{name}[{place}]") for place, text in enumerate(listed)]


def _text(text: str | os.PathLike[str] | NamedText, name: str) -> str | NamedText:
    if isinstance(text, str | os.PathLike):
        return arguments.path(text, name)
    remedy = "give NAME=FILE, or volt.comparison.NamedText('name', counts)"
    return arguments.instance(text, NamedText, name, remedy=remedy)


def read_both(
    training: Sequence[str | NamedText], heldout: Sequence[str | NamedText], max_line: int | None
) -> tuple[tuple[NamedText, ...], tuple[NamedText, ...], list[str]]:
    """The training texts, the held-out texts under the names of those, and what is to be said of them.

    max_line: the most bytes of a line of text; None for no limit
    Raises ConfigError if two texts have the same name.
    Raises CorpusError if one cannot be read.
    """
    texts, others = _read(training, max_line), _read(heldout, max_line)
    held, notes = match_names([text.name for text in texts], others)
    return texts, held, [*notes, *filter(None, (unseen_characters(texts, text) for text in held))]


def _read(texts: Sequence[str | NamedText], max_line: int | None) -> tuple[NamedText, ...]:
    """The texts, read and counted where they are files. Raises ConfigError if two have the same name."""
    files = iter(read_sources([text for text in texts if isinstance(text, str)], max_line=max_line))
    found = tuple(text if isinstance(text, NamedText) else next(files) for text in texts)
    names = [text.name for text in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"source names {', '.join(names)} are not distinct; give each a name of its own")
    return found
