"""Candidates learned without rare words → how many of the first merges are those of all words.

Let K_s(q) be how often pair q occurs in the words that were kept after the first s merges, c the count of the pair p
that is merged next, and U(q) the least of how often any two atoms that are neighbours in the text of q are neighbours
in what was left out. Then merge s + 1 is that of all words, if the s before are, and every other pair q has

    K_s(q) + U(q) < c,   or equals it and loses the tie to p

Proof. Wherever q occurs, two atoms of its text are neighbours, at a place that no other occurrence shares; so it occurs
at most U(q) times in what was left out, whatever merges were made there. All words together are the kept and the left
out, so they have q at most K_s(q) + U(q) times, and p at least c times: p is their best pair, too. So, by induction,
the first merges are the same.  ∎

A pair that the kept words do not hold has K_s(q) = 0; for these, c must be above the greatest U. No case needs more:

    markers      a character with "</w>" is an atom of its own, for U as well; so is "▁" before a word, and left-out
                 words count their first character behind it
    alphabet     an atom that only left-out words hold is in U, and in no K
    bytes        are characters of an alphabet of 256
    user tokens  are in no pair, and cut words: U is at most too great
    coverage     decides by the kept words alone which characters are left out; "all words" then leave out the same

>>> from volt.count.word_counts import WordCounts
>>> from volt.learn.bpe import learn_bpe
>>> counts = WordCounts.from_pairs({"low": 9, "lower": 6, "er": 1, "we": 2}).min_count(3)
>>> candidates = learn_bpe(counts, n_merges=4)
>>> candidates.merges, certain_merges(candidates)
([('l', 'o'), ('lo', 'w</w>'), ('w', 'e'), ('we', 'r</w>')], 2)
"""

from __future__ import annotations

import numpy as np

from volt import arguments
from volt.count.left_out import MOST_COUNT
from volt.files.threads import run_watched
from volt.learn.bpe import _code_points, _text_starts, _words
from volt.learn.candidates import Candidates
from volt.text.characters import SUFFIX, atom_text


def certain_merges(candidates: Candidates) -> int | None:
    """Return how many of the first merges are those of all words, with those that `min_count` or a memory left out.

    candidates: what `learn_bpe` returns

    Later merges could differ; they need not. None if that is not known: for merges that were not learned by counts
    alone, and for counts that were rescaled after words had been left out.

    >>> from volt.learn.bpe import learn_bpe
    >>> certain_merges(learn_bpe({"low": 5, "lower": 2}, n_merges=3))
    3
    """
    arguments.instance(candidates, Candidates, "candidates", call="volt.certain_merges({})")
    counts = candidates.counts
    if candidates.left is None or candidates.parity or candidates.extends:
        return None
    if not (most := counts.left_out_pairs.most):
        return candidates.n_merges
    return _replayed(candidates) if most < MOST_COUNT else None


def _replayed(candidates: Candidates) -> int:
    from volt.kernels.arrays import TokenStrings
    from volt.kernels.certain import Others, count_certain

    words, codes = _words(candidates.counts, candidates.marker, candidates.coverage)
    if float(words.counts @ np.diff(words.ends, prepend=0).astype(float)) > 4.0 * MOST_COUNT:
        return 0  # sums of both might leave 64 bits
    atoms, final = [atom_text(code) for code in codes], np.array([code & 1 for code in codes], np.uint8)
    texts = TokenStrings(_code_points("".join(atoms)), _text_starts(atoms, candidates.n_merges))
    pairs, result, rest = candidates.counts.left_out_pairs.seams(candidates.marker)
    others = Others(pairs, result, rest, max(rest, int(result.max(initial=0))))
    n_marker = len(SUFFIX) if candidates.marker == "suffix" else 0
    return run_watched(
        lambda progress: count_certain(words, texts, final, n_marker, candidates.parts, others, progress)
    )
