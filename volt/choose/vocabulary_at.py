"""Candidates and a size → the `Vocabulary` of that size, with the exact count of each token.

A size has the first so many candidates. A vocabulary may leave some of them out: merges still pass
through them, but encoding splits them back into the two parts that their merge joined. Their
occurrences then count for these parts. In a corpus of 5 words "low" and 2 words "lo", after the
merges l o → lo and lo w → low:

    token                              l   o   w   lo   low
    count if all tokens are kept       0   0   0    2     5
    count if "lo" is left out          2   2   0    -     5
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from volt.array_types import Flags, Longs
from volt.learn.candidates import Candidates
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

_DEFAULT_SPECIAL = SpecialTokens()


def vocabulary_at(
    candidates: Candidates,
    size: int,
    *,
    kept: Flags | None = None,
    special: SpecialTokens = _DEFAULT_SPECIAL,
    byte_fallback: bool = False,
    provenance: dict[str, Any] | None = None,
) -> Vocabulary:
    """Return the vocabulary with the first `size` candidates, or with those of them that are kept.

    Candidates that extend a vocabulary add their new tokens to that vocabulary. Candidates that are
    spelled like a special token are always left out.

    kept: (size,) bool, whether the vocabulary has each candidate; all by default

    >>> from volt.learn import learn_bpe
    >>> candidates = learn_bpe({"low": 5, "lower": 2}, n_merges=2)
    >>> vocabulary = vocabulary_at(candidates, 8, kept=np.arange(8) != 6)
    >>> vocabulary.tokens[-1], vocabulary.counts[-1], vocabulary.scaffolding
    ('low</w>', 5, ('lo',))
    """
    extends = candidates.extends
    if extends:
        base = extends.vocabulary
    else:
        base = vocabulary_of(
            candidates, merges=(), tokens=(), special=special, byte_fallback=byte_fallback
        )
    reserved = set(base.pieces) - set(base.tokens)

    tokens = candidates.tokens_at(size)
    retained = np.array([token not in reserved for token in tokens], bool)
    if kept is not None:
        retained &= kept
    if extends:
        retained[: len(extends.retained)] = extends.retained
    exact_counts = recount_split_tokens(candidates, retained)
    counts = dict(zip(compress(tokens, retained), exact_counts[retained].tolist(), strict=True))

    new_tokens = tuple(token for token in counts if token not in base.ids)
    return replace(
        base,
        pretokenizer=base.pretokenizer if extends else candidates.pretokenizer_at(size),
        merges=tuple(candidates.merges[: candidates.merges_at(size)]),
        tokens=base.tokens + new_tokens,
        counts=tuple(counts[token] for token in base.tokens + new_tokens),
        order=base.order and base.order + new_tokens,
        provenance=provenance or {},
    )


def vocabulary_of(
    candidates: Candidates,
    *,
    merges: Iterable[tuple[str, str]],
    tokens: Iterable[str],
    **fields: Any,
) -> Vocabulary:
    """Return a vocabulary with some of the candidates' merges and tokens, and further fields."""
    return Vocabulary(
        merges=tuple(merges),
        tokens=tuple(tokens),
        marker=candidates.marker,
        normalizer=candidates.counts.normalizer,
        pretokenizer=candidates.counts.pretokenizer,
        **fields,
    )


def recount_split_tokens(candidates: Candidates, kept: Flags) -> Longs:
    """Return the count of each of the first candidates after those not kept were split.

    kept: (size,) bool; a candidate that is not kept passes its count on to its two parts, and is
        then meaningless in the result, (size,) int64
    """
    counts = candidates.counts_at(len(kept))
    split_tokens = np.flatnonzero(~kept)[::-1].tolist()
    if not split_tokens:
        return counts

    results, first_merges = np.unique(candidates.results, return_index=True)
    parts = candidates.parts[first_merges].tolist()
    parts_of = dict(zip(results.tolist(), parts, strict=True))
    # A part is shorter than its token, so a token receives all its counts before it is split.
    split_tokens.sort(key=lambda token: -len(candidates.tokens[token]))
    for token in split_tokens:
        for part in parts_of.get(token, ()):
            counts[part] += counts[token]
    return counts
