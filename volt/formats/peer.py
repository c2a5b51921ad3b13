"""What the format modules share: a list of merges, a real library with a file loaded, the usual special tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from volt.text.markers import Marker
from volt.text.special_tokens import SpecialTokens

USUAL = SpecialTokens()
HEAD_SIZE = 4096  # bytes that `recognises` is shown


@dataclass(frozen=True, slots=True)
class MergeList:
    """Merges by rank, and the word marker that their strings are written with."""

    pairs: list[tuple[str, str]]
    marker: Marker


@dataclass(frozen=True, slots=True)
class Peer:
    """A real library with a file loaded: lines → pieces in VOLT's spelling, and → ids where the library has ids that a
    VOLT vocabulary exported to it shares (None: it has no ids of its own)."""

    library: str
    pieces: Callable[[Sequence[str]], list[list[str]]]
    ids: Callable[[Sequence[str]], list[list[int]]] | None = None
