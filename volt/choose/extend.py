"""A vocabulary and the word counts of another corpus → `Candidates` that extend the vocabulary.

    words → pieces of the vocabulary → further merges of these pieces → candidates:
    tokens without a merge | new characters | tokens that old merges make | tokens of new merges

Old merges apply as before, and new ones follow. In a vocabulary that merges by ranks, a new token
may merge with its neighbour into an old token, which changes the counts. For such a vocabulary, the
final counts come from encoding the words again with all merges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from volt import arguments
from volt.array_types import Bytes, Flags, Ints, Longs
from volt.count.word_counts import WordCounts, as_counts
from volt.encode.merge_tables import MergedWords, MergeTables, check_same_words, count_symbols
from volt.errors import CorpusError, VocabularyError
from volt.learn.bpe import (
    Replacements,
    build_trajectory,
    check_limits,
    is_hidden,
    learn_merges,
    remove_symbols,
    trace_merges,
)
from volt.learn.candidates import Candidates, Extended
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
    Raises CorpusError if the words were counted with other settings, or there are no words;
    VocabularyError for a unigram model.

    >>> old = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "w</w>", "lo"))
    >>> extend_bpe(old, {"low": 5, "slow": 2}, n_merges=1, new_atoms=False)
    <Candidates: 5 tokens, 3 atoms, 2 merges, suffix, from 7 words>
    """
    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    check_has_merges(vocabulary)
    counts = words_for(vocabulary, counts)
    report = arguments.function(report, "report")
    limits = check_limits(n_merges, min_pair_count)
    merged = MergedWords.of(vocabulary, counts)
    if new_atoms is None:
        new_atoms = not vocabulary.byte_fallback
    start = _start(merged, _find_unknown_codes(merged.atoms) if new_atoms else [])

    final: Bytes = np.zeros(len(start.tokens), np.uint8)
    if vocabulary.marker == "suffix":
        ends = {token for token in start.tokens[: start.n_first] if token.endswith(SUFFIX)}
        ends.update(left + right for left, right in vocabulary.merges if right in ends)
        final[:] = [token in ends for token in start.tokens]
    parts, n_replaced, next_count = learn_merges(
        start.words, start.tokens, final, *limits, marker=vocabulary.marker, report=report
    )
    return _candidates(vocabulary, counts, start, parts, n_replaced, next_count)


def check_has_merges(vocabulary: Vocabulary) -> None:
    """Raise VocabularyError for a unigram model."""
    if vocabulary.is_unigram:
        raise VocabularyError(
            "a unigram model has no merges, after which others could be learned; extend a vocabulary "
            "with merges, or train a larger unigram model with sentencepiece"
        )


def words_for(vocabulary: Vocabulary, counts: WordCounts | Mapping[str, int]) -> WordCounts:
    """Return word counts that have the vocabulary's normalizer and pre-tokenizer.

    Raises CorpusError if their settings differ or there are no words.
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
    """The words of a corpus, encoded with the vocabulary, from which merging continues.

    tokens: all tokens; those that no merge makes come first
    n_first: the number of tokens that no merge makes
    retained: (n_tokens,) whether the vocabulary has an id for each token
    words: the pieces of each distinct word, as indices into `tokens`
    atom_counts: (n_first,) the count of each token before any merge
    """

    tokens: list[str]
    n_first: int
    retained: Flags
    words: Words
    atom_counts: Longs


def _find_unknown_codes(atoms: Words) -> list[int]:
    """Return the codes of unknown characters, the most frequent first.

    An unknown character with the code c is stored as the symbol −1 − c.
    """
    is_unknown = atoms.symbols < 0
    sizes = np.diff(atoms.ends, prepend=0)
    counts = np.repeat(atoms.counts, sizes)[is_unknown]
    codes, code_indices = np.unique(-1 - atoms.symbols[is_unknown], return_inverse=True)
    code_counts = np.bincount(code_indices, counts.astype(float), len(codes))
    by_count = codes[np.lexsort((codes, -code_counts))]
    unknown: list[int] = by_count[~is_hidden(by_count)].tolist()
    return unknown


def _start(merged: MergedWords, new_codes: Sequence[int]) -> _Start:
    """Renumber the tokens of encoded words: those without a merge, new characters, all others."""
    tables = merged.tables
    is_made = tables.parts >= 0
    order = np.argsort(is_made, kind="stable")
    tokens = [tables.tokens[number] for number in order.tolist()]
    n_old = len(tokens) - int(is_made.sum())
    n_first = n_old + len(new_codes)
    tokens[n_old:n_old] = map(atom_text, new_codes)

    new_numbers = np.argsort(order).astype(np.int32)  # old number → new number
    new_numbers[is_made] += len(new_codes)
    new_symbols = {-1 - code: number for number, code in enumerate(new_codes, n_old)}
    retained = np.ones(len(tokens), bool)
    retained[new_numbers] = tables.retained > 0
    atoms = _renumber(merged.atoms, new_numbers, new_symbols)
    words = _renumber(merged.words, new_numbers, new_symbols)
    return _Start(tokens, n_first, retained, words, count_symbols(atoms, n_first))


def _renumber(words: Words, new_numbers: Ints, new_symbols: Mapping[int, int]) -> Words:
    """Replace the symbols of words by their new numbers.

    Unknown (negative) symbols that `new_symbols` does not map to a number are removed.
    """
    from volt.kernels.arrays import Words

    is_unknown = words.symbols < 0
    symbols = np.append(new_numbers, np.int32(-1))[np.maximum(words.symbols, 0)]
    symbols[is_unknown] = [new_symbols.get(code, -1) for code in words.symbols[is_unknown].tolist()]
    return Words(*remove_symbols(symbols < 0, symbols, words.ends, words.counts))


def _candidates(
    vocabulary: Vocabulary,
    counts: WordCounts,
    start: _Start,
    new_parts: Ints,
    n_replaced: Longs,
    next_count: int,
) -> Candidates:
    """Return the candidates of old and new merges.

    new_parts: (n_new_merges, 2) the numbers of the tokens that each new merge joins
    n_replaced: (n_new_merges,) the number of pairs that each new merge replaced
    next_count: the count of the most frequent pair that is not merged
    """
    texts = list(start.tokens)
    merges = list(vocabulary.merges)
    for left, right in new_parts.tolist():
        merges.append((texts[left], texts[right]))
        texts.append(texts[left] + texts[right])
    tokens = tuple(dict.fromkeys(texts))
    number_of = {token: number for number, token in enumerate(tokens)}
    rows = [(number_of[left], number_of[right], number_of[left + right]) for left, right in merges]
    table = np.array(rows, np.int32).reshape(-1, 3)
    parts = table[:, :2]
    results = table[:, 2]

    pairs = parts
    is_ranked = vocabulary.merging == "ranks"
    if is_ranked:
        pairs = _ranked_pairs(vocabulary, merges, parts, number_of)
    if not is_ranked and len(tokens) == len(texts):
        steps = np.arange(len(vocabulary.merges), len(merges))
        changes = Replacements(steps, steps, n_replaced)
    else:  # a new merge may make an old token, so old merges may follow
        one_by_one = vocabulary.merging in ("ranks", "steps")
        changes = trace_merges(start.words, pairs, results, None, one_by_one=one_by_one)

    first_counts = count_symbols(start.words, len(start.tokens))
    return Candidates(
        tokens=tokens,
        lengths=token_lengths(tokens, marker=vocabulary.marker),
        atom_counts=start.atom_counts,
        parts=parts,
        results=results,
        trajectory=build_trajectory(first_counts, pairs, results, changes),
        marker=vocabulary.marker,
        counts=counts,
        left=next_count,
        extends=Extended(vocabulary, start.retained, first_counts),
    )


def _ranked_pairs(
    vocabulary: Vocabulary,
    merges: Sequence[tuple[str, str]],
    parts: Ints,
    number_of: Mapping[str, int],
) -> Ints:
    """Return the pair of tokens that encoding by ranks joins at each merge, (n_merges, 2).

    It may differ from the merge's parts: "a bc" may be reached as "ab" and "c".
    """
    from volt.kernels.bpe_tables import pairs_met

    merged = replace(vocabulary, merges=tuple(merges), counts=(), order=())
    tables = MergeTables.of(merged)
    numbers = [number_of.get(token, -1) for token in tables.tokens]
    renumbered = np.array(numbers, np.int32)
    lefts, rights, ranks = pairs_met(tables.merges)
    pairs = parts.copy()
    pairs[ranks] = np.stack([renumbered[lefts], renumbered[rights]], axis=1)
    return pairs
