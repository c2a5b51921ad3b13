"""Candidates and a size → the vocabulary of that size, with the exact counts of its tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.learn.candidates import Candidates, Longs
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
    """Return the vocabulary of a size.

    If the candidates extend a vocabulary, add new tokens to that vocabulary.

    kept: (size,) bool, which tokens the vocabulary has (default: all); tokens spelled like a
        special token are always left out. Encoding splits tokens that are left out into their parts

    >>> from volt.learn import learn_bpe
    >>> candidates = learn_bpe({"low": 5, "lower": 2}, n_merges=2)
    >>> vocabulary = vocabulary_at(candidates, 8, kept=np.arange(8) != 6)
    >>> vocabulary.tokens[-1], vocabulary.counts[-1], vocabulary.scaffolding
    ('low</w>', 5, ('lo',))
    """
    merges = candidates.merges[: candidates.merges_at(size)]
    extends = candidates.extends
    if extends:
        base = extends.vocabulary
    else:
        facts = {"special": special, "byte_fallback": byte_fallback}
        base = vocabulary_of(candidates, merges=(), tokens=(), **facts)
    pieces = zip(base.pieces, base.kinds, strict=True)
    reserved = {piece for piece, kind in pieces if kind != "token"}

    tokens = candidates.tokens_at(size)
    retained = np.array([token not in reserved for token in tokens], bool)
    if kept is not None:
        retained &= kept
    if extends:
        retained[: len(extends.retained)] = extends.retained
    exact = counts_of_kept(candidates, retained)
    counts = dict(zip(compress(tokens, retained), exact[retained].tolist(), strict=True))

    new = tuple(token for token in counts if token not in base.ids)
    return replace(
        base,
        merges=tuple(merges),
        tokens=base.tokens + new,
        counts=tuple(counts[token] for token in base.tokens + new),
        order=base.order and base.order + new,
        provenance=provenance or {},
    )


def vocabulary_of(
    candidates: Candidates, *, merges: Iterable[tuple[str, str]], tokens: Iterable[str], **rest: Any
) -> Vocabulary:
    """Return a vocabulary of some of the candidates' merges and tokens.

    rest: further fields of `Vocabulary`
    """
    return Vocabulary(
        merges=tuple(merges),
        tokens=tuple(tokens),
        marker=candidates.marker,
        normalizer=candidates.counts.normalizer,
        pretokenizer=candidates.counts.pretokenizer,
        **rest,
    )


def counts_of_kept(candidates: Candidates, kept: NDArray[np.bool_]) -> Longs:
    """Return the exact count of each of the first `len(kept)` tokens.

    A token not `kept` counts as its parts.
    """
    counts = candidates.counts_at(len(kept))
    dropped = np.flatnonzero(~kept)[::-1].tolist()
    if not dropped:
        return counts

    results, first_merges = np.unique(candidates.results, return_index=True)
    parts = dict(zip(results.tolist(), candidates.parts[first_merges].tolist(), strict=True))
    dropped.sort(key=lambda token: -len(candidates.tokens[token]))  # the longest, made of others
    for token in dropped:
        for part in parts.get(token, ()):
            counts[part] += counts[token]
    return counts
