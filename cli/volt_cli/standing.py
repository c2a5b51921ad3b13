"""What stands where `volt search` writes unasked: replaced if it is of the same corpus, otherwise refused.

Whoever searches the same corpus with other options wants the new vocabulary; whoever has another corpus of the same
name would lose one that nobody meant to give up. Options change the words, so the same corpus is also told by its lines
and bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.errors import ConfigError, VocabularyError

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts

_FINGERPRINT = re.compile(r"\|corpus:([0-9a-f]+)\|")
_REMEDY = "name a place with -o, or replace it with --force"


@dataclass(frozen=True, slots=True)
class Standing:
    """A vocabulary that a search has written. provenance: what it says of its corpus."""

    place: Path
    provenance: dict[str, Any]

    def refuse_other(self, counts: WordCounts) -> None:
        """Raise ConfigError if it was made from another corpus than these counts."""
        told = self.provenance
        found = _FINGERPRINT.search(told["signature"])
        same_words = found is not None and found[1] == counts.fingerprint
        same_size = counts.n_bad_lines > 0 or counts.n_bytes == told.get("bytes")  # mended lines have other bytes
        if not same_words and not (same_size and counts.n_lines == told.get("lines")):
            raise ConfigError(
                f"{self.place}: exists, and was made from another corpus ({told.get('words', '?')} words; this one has "
                f"{counts.total}); {_REMEDY}"
            )


def standing(place: Path) -> Standing | None:
    """The vocabulary at a place, None if there is no file. Raises ConfigError if it is not from a search.

    >>> standing(Path("/nowhere/corpus.volt")) is None
    True
    """
    from volt.vocabulary import Vocabulary

    if not place.is_file():
        return None
    try:
        provenance = dict(Vocabulary.load(place).provenance)
    except VocabularyError:
        raise ConfigError(f"{place}: exists, and is no vocabulary that can be read; {_REMEDY}") from None
    if not isinstance(provenance.get("signature"), str):
        raise ConfigError(f"{place}: exists, and was not made by volt search; {_REMEDY}")
    return Standing(place, provenance)
