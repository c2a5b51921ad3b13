"""Candidates and a size → the vocabulary of that size, with the exact counts of its tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.learn.candidates import Candidates, Extended, Longs
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

_USUAL = SpecialTokens()


def vocabulary_at(
    candidates: Candidates,
    size: int,
    *,
    kept: NDArray[np.bool_] | None = None,
    special: SpecialTokens = _USUAL,
    byte_fallback: bool = False,
    provenance: dict[str, Any] | None = None,
) -> Vocabulary:
    """Return the vocabulary of a size, or the extended vocabulary with further tokens.

    kept: (size,) bool, which of its tokens the vocabulary has (default: all); the others are split back, and so are
        tokens that are spelled like a special one

    >>> from volt.learn import learn_bpe
    >>> candidates = learn_bpe({"low": 5, "lower": 2}, n_merges=2)
    >>> vocabulary = vocabulary_at(candidates, 8, kept=np.arange(8) != 6)
    >>> vocabulary.tokens[-1], vocabulary.counts[-1], vocabulary.scaffolding
    ('low</w>', 5, ('lo',))
    """
    if candidates.extends:
        return _extended(candidates, candidates.extends, size, kept, provenance or {})
    reserved = Vocabulary((), (), marker=candidates.marker, special=special, byte_fallback=byte_fallback).pieces
    kept = (np.ones(size, bool) if kept is None else kept) & ~np.isin(candidates.tokens_at(size), reserved)
    return vocabulary_of(
        candidates,
        merges=candidates.merges[: candidates.merges_at(size)],
        tokens=(token for token, keep in zip(candidates.tokens_at(size), kept, strict=True) if keep),
        counts=tuple(counts_of_kept(candidates, kept)[kept].tolist()),
        special=special,
        byte_fallback=byte_fallback,
        provenance=provenance or {},
    )


def _extended(
    candidates: Candidates,
    extended: Extended,
    size: int,
    retained: NDArray[np.bool_] | None,
    provenance: dict[str, Any],
) -> Vocabulary:
    old, tokens = extended.vocabulary, candidates.tokens_at(size)
    reserved = {piece for piece, kind in zip(old.pieces, old.kinds, strict=True) if kind != "token"}
    retained = (np.ones(size, bool) if retained is None else retained) & np.array(
        [token not in reserved for token in tokens], bool
    )
    retained[: len(extended.retained)] = extended.retained
    numbers, counts = np.flatnonzero(retained).tolist(), counts_of_kept(candidates, retained)
    own = set(old.tokens)
    new = tuple(tokens[number] for number in numbers if tokens[number] not in own)
    result = {tokens[number]: count for number, count in zip(numbers, counts[retained].tolist(), strict=True)}
    return replace(
        old,
        merges=tuple(candidates.merges[: candidates.merges_at(size)]),
        tokens=old.tokens + new,
        counts=tuple(result[token] for token in old.tokens + new),
        order=old.order and old.order + new,
        provenance=provenance,
    )


def vocabulary_of(
    candidates: Candidates, *, merges: Iterable[tuple[str, str]], tokens: Iterable[str], **rest: Any
) -> Vocabulary:
    """Return a vocabulary of some merges and tokens of the candidates. rest: its further fields"""
    return Vocabulary(
        merges=tuple(merges),
        tokens=tuple(tokens),
        marker=candidates.marker,
        normalizer=candidates.counts.normalizer,
        pretokenizer=candidates.counts.pretokenizer,
        **rest,
    )


def counts_of_kept(candidates: Candidates, kept: NDArray[np.bool_]) -> Longs:
    """Return exact counts of a size's tokens after dropped ones, not `kept`, are split back into their parts."""
    counts = candidates.counts_at(len(kept))
    results, first_merges = np.unique(candidates.results, return_index=True)
    parts = dict(zip(results.tolist(), candidates.parts[first_merges].tolist(), strict=True))
    split = np.flatnonzero(~kept)[::-1].tolist()
    for token in sorted(split, key=lambda token: -len(candidates.tokens[token])):  # after the tokens made of it
        for part in parts.get(token, ()):
            counts[part] += counts[token]
    return counts
