"""A vocabulary and counts of another corpus → candidates: the vocabulary's merges, then new ones.

Words are encoded with the vocabulary, and merging continues from there, so the old merges apply as
before, and new ones follow. In a vocabulary that merges by ranks, a new token may merge with its
neighbour into an old token, which changes the counts. For such a vocabulary, the final counts come
from encoding the words again with all merges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.count.word_counts import WordCounts, as_counts
from volt.encode.merge_tables import MergedWords, MergeTables, check_same_words, occurrences
from volt.errors import CorpusError
from volt.learn.bpe import (
    Flags,
    Replacements,
    build_trajectory,
    check_limits,
    is_hidden,
    learn_merges,
    remove_symbols,
    trace_merges,
)
from volt.learn.candidates import Candidates, Extended, Ints, Longs
from volt.text.atoms import SUFFIX, atom_text, token_lengths
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.arrays import Words


def extend_bpe(
    vocabulary: Vocabulary,
    counts: WordCounts | Mapping[str, int],
    n_merges: int | None = None,
    *,
    min_pair_count: int = 2,
    new_atoms: bool | None = None,
    report: Callable[[int], object] | None = None,
) -> Candidates:
    """Learn `n_merges` merges after those of a vocabulary, or fewer if no pair is left to merge.

    vocabulary: the vocabulary to extend, perhaps another library's, or pruned
    counts: the result of `count_words` with the vocabulary's settings, or a mapping of words to
        their counts
    n_merges, min_pair_count, report: as in `learn_bpe`, for the new merges
    new_atoms: whether unknown characters become tokens; by default, unless the vocabulary spells
        them by bytes

    In the vocabulary that `volt.search` makes of the result, old tokens keep their ids, and new
    tokens follow.
    Raises CorpusError if the words were counted with other settings, or there are no words.

    >>> old = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "w</w>", "lo"))
    >>> extend_bpe(old, {"low": 5, "slow": 2}, n_merges=1, new_atoms=False)
    <Candidates: 5 tokens, 3 atoms, 2 merges, suffix, from 7 words>
    """
    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    counts = words_for(vocabulary, counts)
    report = arguments.function(report, "report")
    limits = check_limits(n_merges, min_pair_count)
    merged = MergedWords.of(vocabulary, counts)
    if new_atoms is None:
        new_atoms = not vocabulary.byte_fallback
    start = _start(merged, _unknown(merged.atoms) if new_atoms else [])

    final: Flags = np.zeros(len(start.tokens), np.uint8)
    if vocabulary.marker == "suffix":
        ends = {token for token in start.tokens[: start.n_first] if token.endswith(SUFFIX)}
        ends.update(left + right for left, right in vocabulary.merges if right in ends)
        final[:] = [token in ends for token in start.tokens]
    parts, replaced, left = learn_merges(
        start.words, start.tokens, final, *limits, marker=vocabulary.marker, report=report
    )
    return _candidates(vocabulary, counts, start, parts, replaced, left)


def words_for(vocabulary: Vocabulary, counts: WordCounts | Mapping[str, int]) -> WordCounts:
    """Return counts with the vocabulary's settings.

    Raises CorpusError if settings differ or there are no words.
    """
    if isinstance(counts, Mapping):
        normalizer = vocabulary.normalizer
        pretokenizer = vocabulary.pretokenizer
        counts = WordCounts.from_pairs(counts, normalizer=normalizer, pretokenizer=pretokenizer)
    counts = as_counts(counts)
    check_same_words(vocabulary, counts)
    if not counts.n_words:
        raise CorpusError("there are no words; give a corpus that contains some")
    return counts


@dataclass(frozen=True, slots=True)
class _Start:
    """The words after the vocabulary's merges, and all tokens; tokens that no merge makes first."""

    tokens: list[str]
    n_first: int  # tokens that no merge makes
    retained: NDArray[np.bool_]  # whether every vocabulary keeps each token
    words: Words
    atom_counts: Longs  # (n_first,), before any merge


def _unknown(atoms: Words) -> list[int]:
    """Return the codes of unknown characters, the most frequent first."""
    is_unknown = atoms.symbols < 0
    counts = np.repeat(atoms.counts, np.diff(atoms.ends, prepend=0))[is_unknown]
    codes, places = np.unique(-1 - atoms.symbols[is_unknown], return_inverse=True)
    sums = np.bincount(places, counts.astype(float), len(codes))
    ordered = codes[np.lexsort((codes, -sums))]
    unknown: list[int] = ordered[~is_hidden(ordered)].tolist()
    return unknown


def _start(merged: MergedWords, new_codes: Sequence[int]) -> _Start:
    tables = merged.tables
    is_made = tables.parts >= 0
    order = np.argsort(is_made, kind="stable")
    tokens = [tables.tokens[number] for number in order.tolist()]
    n_old = len(tokens) - int(is_made.sum())
    n_first = n_old + len(new_codes)
    tokens[n_old:n_old] = map(atom_text, new_codes)

    numbers = np.argsort(order).astype(np.int32)
    numbers[is_made] += len(new_codes)
    new_symbols = {-1 - code: number for number, code in enumerate(new_codes, n_old)}
    retained = np.ones(len(tokens), bool)
    retained[numbers] = tables.retained > 0
    atoms = _renumbered(merged.atoms, numbers, new_symbols)
    words = _renumbered(merged.words, numbers, new_symbols)
    return _Start(tokens, n_first, retained, words, occurrences(atoms, n_first))


def _renumbered(words: Words, numbers: Ints, new_symbols: Mapping[int, int]) -> Words:
    """Renumber the symbols of words; remove unknown (negative) ones without a new number."""
    from volt.kernels.arrays import Words

    is_unknown = words.symbols < 0
    symbols = np.append(numbers, np.int32(-1))[np.maximum(words.symbols, 0)]
    symbols[is_unknown] = [new_symbols.get(code, -1) for code in words.symbols[is_unknown].tolist()]
    return Words(*remove_symbols(symbols < 0, symbols, words.ends, words.counts))


def _candidates(
    vocabulary: Vocabulary,
    counts: WordCounts,
    start: _Start,
    new_parts: Ints,
    replaced: Longs,
    left: int,
) -> Candidates:
    texts = list(start.tokens)
    merges = list(vocabulary.merges)
    for first, second in new_parts.tolist():
        merges.append((texts[first], texts[second]))
        texts.append(texts[first] + texts[second])
    tokens = tuple(dict.fromkeys(texts))
    numbers = {token: number for number, token in enumerate(tokens)}
    rows = [(numbers[one], numbers[other], numbers[one + other]) for one, other in merges]
    table = np.array(rows, np.int32).reshape(-1, 3)
    parts = table[:, :2]
    results = table[:, 2]

    pairs = parts
    if vocabulary.merging == "ranks":
        pairs = _ranked_pairs(vocabulary, merges, parts, numbers)
    if vocabulary.merging != "ranks" and len(tokens) == len(texts):
        steps = np.arange(len(vocabulary.merges), len(merges))
        changes = Replacements(steps, steps, replaced)
    else:  # a new merge may make an old token, so old merges may follow
        one_by_one = vocabulary.merging in ("ranks", "steps")
        changes = trace_merges(start.words, pairs, results, None, one_by_one=one_by_one)

    first_counts = occurrences(start.words, len(start.tokens))
    return Candidates(
        tokens=tokens,
        lengths=token_lengths(tokens, marker=vocabulary.marker),
        atom_counts=start.atom_counts,
        parts=parts,
        results=results,
        trajectory=build_trajectory(first_counts, pairs, results, changes),
        marker=vocabulary.marker,
        counts=counts,
        left=left,
        extends=Extended(vocabulary, start.retained, first_counts),
    )


def _ranked_pairs(
    vocabulary: Vocabulary,
    merges: Sequence[tuple[str, str]],
    parts: Ints,
    numbers: Mapping[str, int],
) -> Ints:
    """Return the parts of merges, or the other pair of tokens that encoding joins by a merge."""
    from volt.kernels.bpe_tables import pairs_met

    tables = MergeTables.of(replace(vocabulary, merges=tuple(merges), counts=(), order=()))
    renumbered = np.array([numbers.get(token, -1) for token in tables.tokens], np.int32)
    lefts, rights, ranks = pairs_met(tables.merges)
    pairs = parts.copy()
    pairs[ranks] = np.stack([renumbered[lefts], renumbered[rights]], axis=1)
    return pairs
