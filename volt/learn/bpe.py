"""WordCounts → `Candidates`: merges, and with them the exact token counts of every vocabulary size.

When merge (a, b) → ab makes r replacements, weighted by word count,

    n(ab) += r,   n(a) −= r,   n(b) −= r

so the counts after any number of merges are sums over the recorded replacements, and nothing is
encoded again. The merges, including the choice among ties, equal those of subword-nmt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from volt import arguments
from volt.array_types import Array, Bytes, Flags, Ints, Longs
from volt.count.coverage import Coverage, coverage_of
from volt.count.word_counts import as_counts
from volt.errors import CandidateError, CorpusError
from volt.files.threads import run_watched
from volt.learn.candidates import Candidates, Trajectory
from volt.text.atoms import (
    SUFFIX,
    Marker,
    atom_code,
    atom_codes,
    atom_text,
    check_marker,
    token_lengths,
)
from volt.text.byte_alphabet import ALPHABET
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN
from volt.vocabulary.validation import as_pairs

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts
    from volt.kernels.arrays import Words
    from volt.kernels.learn import Sources

Report = Callable[[int], object]

N_SURE = 30_000  # merges that are learned if no number is given
COMMON = 500  # occurrences of the best pair that justify further merges
MOST_REQUESTED = 10**9


def learn_bpe(
    counts: WordCounts | Mapping[str, int],
    n_merges: int | None = None,
    *,
    marker: Marker | None = None,
    min_pair_count: int = 2,
    coverage: float = 1.0,
    report: Report | None = None,
) -> Candidates:
    """Learn merges, as many as requested, or fewer if no remaining pair occurs `min_pair_count`
    times.

    counts: the result of `count_words`, or a mapping of words to their counts
    n_merges: how many merges to learn, 0 or more; None learns 30,000, and more if their pairs occur
        at least 500 times
    min_pair_count: how often a pair must occur to be merged, 1 or more
    marker: "suffix", "prefix" or "none"; None is "none" if pre-tokens keep their spaces, otherwise
        "suffix"
    coverage: the share of all characters, spaces included, that the atoms must cover; rarer
        characters are dropped
    report: called with the number of merges done, several times a second
    Raises CandidateError, CorpusError or ConfigError if a number is out of range or exceeds 64
    bits.

    >>> learn_bpe({"low": 5, "lower": 2}, n_merges=2)
    <Candidates: 8 tokens, 6 atoms, 2 merges, suffix, from 7 words>
    """
    counts = as_counts(counts)
    report = arguments.function(report, "report")
    limits = check_limits(n_merges, min_pair_count)
    marker = choose_marker(marker, counts)
    covered = coverage_of(counts, coverage)
    words, atom_codes = _number_atoms(counts, marker, covered)
    atoms = list(map(atom_text, atom_codes))
    is_final = np.array([code & 1 for code in atom_codes], np.uint8)
    parts, replaced, left = learn_merges(
        words, atoms, is_final, *limits, marker=marker, report=report
    )
    ranks = np.arange(len(parts))
    results = np.arange(len(atoms), len(atoms) + len(parts), dtype=np.int32)
    changes = Replacements(ranks, ranks, replaced)
    return _build_candidates(
        counts, words, atoms, parts, results, changes, marker, left=left, coverage=covered
    )


def check_limits(n_merges: int | None, min_pair_count: int) -> tuple[int | None, int]:
    kind = CandidateError
    if n_merges is not None:
        n_merges = arguments.whole(n_merges, "n_merges", low=0, high=MOST_REQUESTED, kind=kind)
    most = 2**63 - 1
    return n_merges, arguments.whole(min_pair_count, "min_pair_count", low=1, high=most, kind=kind)


def choose_marker(marker: Marker | None, counts: WordCounts) -> Marker:
    if marker is None:
        if counts.pretokenizer.keeps_spaces:
            return "none"
        return "suffix"
    check_marker(marker)
    return marker


def learn_merges(
    words: Words,
    tokens: Sequence[str],
    is_final: Bytes,
    n_merges: int | None,
    min_pair_count: int,
    *,
    marker: Marker,
    report: Report | None,
    sources: Sources | None = None,
) -> tuple[Ints, Longs, int]:
    """Learn merges of words that consist of `tokens`. Merge k makes token len(tokens) + k.

    sources: by default, all words are of one source; see `volt.kernels.learn`
    is_final: (n_tokens,), 1 for tokens that end with the end-of-word marker
    Returns the two tokens of each merge, (n, 2); how many replacements each merge makes, (n,); and
    the count of the most frequent pair that is not merged.
    """
    from volt.kernels.bpe_tables import MOST
    from volt.kernels.learn import Limits, learn

    # Each merge removes a symbol from some word, and one symbol of each word remains.
    most = max(0, min(MOST - len(tokens), len(words.symbols) - len(words.ends)))
    limits = Limits(most, min_pair_count, n_sure=N_SURE, common=COMMON)
    if n_merges is not None:
        limits = Limits(min(n_merges, most), min_pair_count, n_sure=n_merges, common=min_pair_count)
    end_marker = SUFFIX if marker == "suffix" else ""
    learned, left = run_watched(
        lambda progress: learn(words, tokens, is_final, end_marker, limits, progress, sources),
        report=report,
    )
    parts = learned.merges
    if n_merges is not None and n_merges > len(parts) == MOST - len(tokens) and left:
        raise CandidateError(
            f"n_merges is {n_merges:,}; at most {len(parts):,} merges can be learned; ask for fewer"
        )
    return parts, learned.replacements, left


def replay_bpe(
    counts: WordCounts | Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    marker: Marker | None = None,
    report: Report | None = None,
) -> Candidates:
    """Return the candidates of existing merges on these counts, such as merges from a subword-nmt
    file.

    counts: the result of `count_words`, or a mapping of words to their counts
    merges: pairs of strings, in order
    marker: "suffix", "prefix" or "none", as the merges are spelled; None as in `learn_bpe`
    report: called with the number of words done, several times a second
    Raises CandidateError if a merge joins a token that is neither an atom nor made by an earlier
    merge.

    >>> replay_bpe({"abc": 3}, [("a", "b"), ("ab", "c</w>")]).counts_at(5).tolist()
    [0, 0, 0, 0, 3]
    """
    counts = as_counts(counts)
    report = arguments.function(report, "report")
    pairs = as_pairs(merges, kind=CandidateError)
    marker = choose_marker(marker, counts)
    words, atom_codes = _number_atoms(counts, marker)
    atoms, table = number_merges(pairs, atom_codes, marker)
    parts = table[:, :2]
    results = table[:, 2]
    changes = trace_merges(words, parts, results, report)
    return _build_candidates(counts, words, atoms, parts, results, changes, marker)


def number_merges(
    merges: Sequence[tuple[str, str]], atom_codes: Sequence[int], marker: Marker
) -> tuple[list[str], Ints]:
    """Replace the strings of merges by token numbers.

    Returns the atoms: first those of `atom_codes`, then others that merges contain. Also returns
    one row for each merge, (n_merges, 3): the numbers of its left part, its right part and its
    result.
    Raises CandidateError if a merge joins a token that is neither an atom nor made by an earlier
    merge.

    >>> number_merges([("l", "o"), ("lo", "w")], [2 * ord("l"), 2 * ord("o")], "none")
    (['l', 'o', 'w'], array([[0, 1, 3],
           [3, 2, 4]], dtype=int32))
    """
    numbers = {atom_text(code): number for number, code in enumerate(atom_codes)}
    for part in chain.from_iterable(merges):  # atoms that are only in merges occur 0 times
        if atom_code(part, marker=marker) is not None:
            numbers.setdefault(part, len(numbers))
    atoms = list(numbers)
    rows = []
    for rank, (left, right) in enumerate(merges):
        for part in (left, right):
            if part not in numbers:
                merge = f"merge {rank + 1}, {left!r} + {right!r}"
                raise CandidateError(f"{merge}: no earlier merge makes {part!r}")
        result = numbers.setdefault(left + right, len(numbers))
        rows.append((numbers[left], numbers[right], result))
    return atoms, np.array(rows, np.int32).reshape(-1, 3)


class Replacements(NamedTuple):
    """The replacements that added merges cause: r in the equation above. All arrays are (n,).

    steps: the index of the merge that is added
    ranks: the index of the merge that is applied: `steps`, or less if the added merge makes a token
        that an earlier merge also makes, and joins
    counts: how many replacements are made, weighted by the counts of their words
    """

    steps: Longs
    ranks: Longs
    counts: Longs


def _number_atoms(
    counts: WordCounts, marker: Marker, coverage: Coverage | None = None
) -> tuple[Words, list[int]]:
    """Number atoms from the most frequent one, 0. Return the words as numbers, and the code of each
    number."""
    from volt.kernels.arrays import Words

    codes, ends, word_counts = split_into_atoms(counts, marker, coverage)
    code_counts = np.repeat(word_counts, np.diff(ends, prepend=0)).astype(float)
    always = []
    if counts.pretokenizer.is_bytes:
        always = [2 * ord(character) for character in ALPHABET]
    n_by_code = np.bincount(codes, code_counts, minlength=max(always, default=0) + 1)
    distinct = np.union1d(np.flatnonzero(n_by_code), always).astype(np.int64)
    ordered = distinct[np.lexsort((distinct, -n_by_code[distinct]))]
    numbers = np.zeros(len(n_by_code), np.int32)
    numbers[ordered] = np.arange(len(ordered))
    return Words(numbers[codes], ends, word_counts), ordered.tolist()


def split_into_atoms(
    counts: WordCounts, marker: Marker, coverage: Coverage | None = None
) -> tuple[Longs, Longs, Longs]:
    """Return the codes of the words' atoms, where each word's codes end, and the count of each
    word.

    User tokens (hidden characters) and uncovered characters are removed; the words are split there.
    Raises CorpusError if the words contain more atoms than 64 bits can count.
    """
    codes, ends = atom_codes(counts.words, marker=marker)
    word_counts = counts.counts.astype(np.int64)
    is_removed = is_hidden(codes)
    if coverage is not None:
        is_removed |= np.isin(codes >> 1, coverage.codes)
    if is_removed.any():
        codes, ends, word_counts = remove_symbols(is_removed, codes, ends, word_counts)

    lengths = np.diff(ends, prepend=0)
    if float(lengths @ word_counts.astype(float)) > 2.0**62:  # the rounding error is far smaller
        pairs = zip(lengths.tolist(), word_counts.tolist(), strict=True)
        total = sum(length * n for length, n in pairs)
        if total >= 2**63:
            raise CorpusError(
                f"the words contain {total} atoms, more than 64 bits can count; scale the counts down"
            )
    return codes, ends, word_counts


def is_hidden(codes: Longs) -> Flags:
    """Check which codes belong to characters that stand for user tokens."""
    characters = codes >> 1
    return np.asarray((characters >= FIRST_HIDDEN) & (characters <= LAST_HIDDEN))


def remove_symbols(
    is_removed: Flags, symbols: Array, ends: Longs, counts: Longs
) -> tuple[Array, Longs, Longs]:
    """Remove some symbols from words, and split the words there. Return symbols, ends and counts of
    the parts.

    >>> remove_symbols(np.array([0, 1, 0, 0]) > 0, np.array([7, 8, 9, 5]), np.array([3, 4]), np.array([2, 6]))
    (array([7, 9, 5]), array([1, 2, 3]), array([2, 2, 6]))
    """
    is_retained = ~is_removed
    lengths = np.diff(ends, prepend=0)
    words = np.repeat(np.arange(len(ends)), lengths)[is_retained]
    # Neighbours that were split differ in the number of symbols removed before them.
    parts = words + np.cumsum(is_removed)[is_retained]
    part_starts = np.flatnonzero(np.diff(parts, prepend=-1))
    part_ends = np.append(part_starts[1:], len(words))[: len(part_starts)]
    return symbols[is_retained], part_ends, counts[words[part_starts]]


def trace_merges(
    words: Words, parts: Ints, results: Ints, report: Report | None, *, one_by_one: bool = False
) -> Replacements:
    """Return how often each merge applies in encoding, as merges are added one by one.

    parts, results: (n_merges, 2) and (n_merges,), token numbers
    one_by_one: whether encoding compares all pairs again after each replacement; see
        `volt.kernels.apply_bpe`
    """
    from volt.kernels.bpe_tables import MOST, ranked_merges
    from volt.kernels.trace import trace

    n = max(len(parts), int(results.max(initial=0)) + 1)
    if n > MOST:
        raise CandidateError(f"{n:,} candidates, but the limit is {MOST:,}; ask for fewer merges")
    merges = ranked_merges(parts[:, 0], parts[:, 1], results, one_by_one=one_by_one)
    regular, late, late_counts = run_watched(
        lambda progress: trace(words, merges, progress), report=report
    )
    ranks = np.arange(len(regular))
    return Replacements(
        steps=np.append(ranks, late >> 32),
        ranks=np.append(ranks, late & 0xFFFFFFFF),
        counts=np.append(regular, late_counts),
    )


def _build_candidates(
    counts: WordCounts,
    words: Words,
    atoms: list[str],
    parts: Ints,
    results: Ints,
    changes: Replacements,
    marker: Marker,
    **facts: Any,
) -> Candidates:
    tokens = list(atoms)
    for (first, second), result in zip(parts.tolist(), results.tolist(), strict=True):
        if result == len(tokens):
            tokens.append(tokens[first] + tokens[second])
    atom_counts = np.zeros(len(atoms), np.int64)
    symbol_counts = np.repeat(words.counts, np.diff(words.ends, prepend=0))
    np.add.at(atom_counts, words.symbols, symbol_counts)
    trajectory = build_trajectory(atom_counts, parts, results, changes)
    lengths = token_lengths(tokens, marker=marker)
    return Candidates(
        tuple(tokens), lengths, atom_counts, parts, results, trajectory, marker, counts, **facts
    )


def build_trajectory(
    first_counts: Longs, parts: Ints, results: Ints, changes: Replacements
) -> Trajectory:
    """Sum up the changes that merges make to each token's count, merge by merge.

    first_counts: (n,), the counts of the first tokens before any merge; all other tokens start at 0
    """
    ranks = changes.ranks
    n_merges = max(1, len(results))
    changed_tokens = np.column_stack([results, parts]).astype(np.int64)[ranks]
    amounts = np.outer(changes.counts, [1, -1, -1])
    # Each sum has the key token · n_merges + merge, so keys sort by token, then by merge.
    all_keys = changed_tokens * n_merges + changes.steps[:, None]
    keys, key_indices = np.unique(all_keys, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, key_indices.ravel(), amounts.ravel())

    tokens, merges = np.divmod(keys, n_merges)
    totals = np.cumsum(sums)
    first_of_token = np.searchsorted(tokens, tokens)  # the index of the token's first sum
    totals_before_token = (totals - sums)[first_of_token]
    counts = np.append(first_counts, np.zeros(len(results), np.int64))
    after = counts[tokens] + totals - totals_before_token
    return Trajectory(tokens.astype(np.int32), merges.astype(np.int32), after - sums, after)
