"""A vocabulary and the counts of another corpus → candidates: the vocabulary's merges first, then new ones.

Words are encoded with the vocabulary, and merging continues from there, so the old merges apply as before, and new ones
follow. In a vocabulary that merges by ranks, a new token may merge with its neighbour into an old token, which changes
the counts. For such a vocabulary, the final counts come from encoding the words again with all merges.
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
    checked_limits,
    is_hidden,
    learn_merges,
    traced,
    trajectory_of,
    without,
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
    counts: the result of `count_words` with the vocabulary's settings, or a mapping of words to their counts
    n_merges, min_pair_count, report: as in `learn_bpe`, for the new merges
    new_atoms: whether unknown characters become tokens; by default, unless the vocabulary spells them by bytes

    In the vocabulary that `volt.search` makes of the result, old tokens keep their ids, and new tokens follow.
    Raises CorpusError if the words were counted with other settings, or there are no words.

    >>> old = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "w</w>", "lo"))
    >>> extend_bpe(old, {"low": 5, "slow": 2}, n_merges=1, new_atoms=False)
    <Candidates: 5 tokens, 3 atoms, 2 merges, suffix, from 7 words>
    """
    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    counts = words_for(vocabulary, counts)
    report = arguments.function(report, "report")
    limits = checked_limits(n_merges, min_pair_count)
    merged = MergedWords.of(vocabulary, counts)
    adds_atoms = not vocabulary.byte_fallback if new_atoms is None else bool(new_atoms)
    start = _start(merged, _unknown(merged.atoms) if adds_atoms else [])
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
    """Return counts with the vocabulary's settings. Raises CorpusError if settings differ or there are no words."""
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
    """The words after the vocabulary's merges, and the tokens reordered: tokens that no merge makes come first."""

    tokens: list[str]
    n_first: int  # tokens that no merge makes
    retained: NDArray[np.bool_]  # whether every vocabulary keeps each token

    words: Words
    atom_counts: Longs  # (n_first,), before any merge


def _unknown(atoms: Words) -> list[int]:
    occurrences_of = np.repeat(atoms.counts, np.diff(atoms.ends, prepend=0))[atoms.symbols < 0]
    codes, places = np.unique(-1 - atoms.symbols[atoms.symbols < 0], return_inverse=True)
    n = np.bincount(places, occurrences_of.astype(float), len(codes))
    result = codes[np.lexsort((codes, -n))]
    return [int(code) for code in result[~is_hidden(result)]]


def _start(merged: MergedWords, new_codes: Sequence[int]) -> _Start:
    tables = merged.tables
    is_made = tables.parts >= 0
    n_old = int((~is_made).sum())
    n_first = n_old + len(new_codes)
    merges, unmade = (np.flatnonzero(flags).tolist() for flags in (is_made, ~is_made))
    tokens = (
        [tables.tokens[n] for n in unmade]
        + [*map(atom_text, new_codes)]
        + [tables.tokens[n] for n in merges]
    )
    numbers = (
        np.where(is_made, np.cumsum(is_made) + n_first, np.cumsum(~is_made)).astype(np.int32) - 1
    )
    news = {-1 - code: n_old + place for place, code in enumerate(new_codes)}
    retained = np.ones(len(tokens), bool)
    retained[numbers] = tables.retained > 0
    atoms = _renumbered(merged.atoms, numbers, news)
    words = _renumbered(merged.words, numbers, news)
    return _Start(tokens, n_first, retained, words, occurrences(atoms, n_first))


def _renumbered(words: Words, numbers: Ints, news: Mapping[int, int]) -> Words:
    """Renumber the symbols of words, and remove unknown (negative) ones that `news` does not map to a number."""
    from volt.kernels.arrays import Words

    unknown, places = np.unique(words.symbols[words.symbols < 0], return_inverse=True)
    symbols = np.append(numbers, np.int32(-1))[np.maximum(words.symbols, 0)]
    symbols[words.symbols < 0] = np.array(
        [news.get(one, -1) for one in unknown.tolist()], np.int32
    )[places]
    return Words(*without(symbols < 0, symbols, words.ends, words.counts))


def _candidates(
    vocabulary: Vocabulary,
    counts: WordCounts,
    start: _Start,
    parts: Ints,
    replaced: Longs,
    left: int,
) -> Candidates:
    output = list(start.tokens)
    for first, second in parts.tolist():
        output.append(output[first] + output[second])
    numbers = {token: number for number, token in enumerate(dict.fromkeys(output))}
    merges = [*vocabulary.merges, *((output[one], output[other]) for one, other in parts.tolist())]
    rows = [(numbers[one], numbers[other], numbers[one + other]) for one, other in merges]
    table = np.array(rows, np.int32).reshape(-1, 3)
    before = occurrences(start.words, len(start.tokens))
    pairs = table[:, :2]
    if vocabulary.merging == "ranks":
        pairs, changes = _ranked(vocabulary, start, merges, table, numbers)
    elif len(numbers) == len(output):
        steps = np.arange(len(vocabulary.merges), len(rows))
        changes = Replacements(steps, steps, replaced)
    else:  # a new merge makes an old token that was unreachable, so old merges may follow
        changes = traced(
            start.words, table[:, :2], table[:, 2], None, one_by_one=vocabulary.merging == "steps"
        )
    return Candidates(
        tokens=tuple(numbers),
        lengths=token_lengths(tuple(numbers), marker=vocabulary.marker),
        atom_counts=start.atom_counts,
        parts=table[:, :2],
        results=table[:, 2],
        trajectory=trajectory_of(before, pairs, table[:, 2], changes),
        marker=vocabulary.marker,
        counts=counts,
        left=left,
        extends=Extended(vocabulary, start.retained, before),
    )


def _ranked(
    vocabulary: Vocabulary,
    start: _Start,
    merges: Sequence[tuple[str, str]],
    table: Ints,
    numbers: Mapping[str, int],
) -> tuple[Ints, Replacements]:
    from volt.kernels.bpe_tables import pairs_met

    tables = MergeTables.of(replace(vocabulary, merges=tuple(merges), counts=(), order=()))
    renumbered = np.array([numbers.get(token, -1) for token in tables.tokens], np.int32)
    lefts, rights, ranks = pairs_met(tables.merges)
    pairs = table[:, :2].copy()
    pairs[ranks] = np.stack([renumbered[lefts], renumbered[rights]], axis=1)
    return pairs, traced(start.words, pairs, table[:, 2], None, one_by_one=True)
