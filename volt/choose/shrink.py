"""A vocabulary and the counts of a corpus → the same with fewer ids, and a map from old ids to new ones.

Tokens that the corpus misses least are dropped, one after the other (see volt.choose.dropping). What others are merged
from becomes scaffolding; merges that nothing needs any longer are left out. What is left keeps its order.

Text whose pieces are all left has the same pieces: new ids are new_ids[old ids]. All other text is still spelled the
same, decoded.

>>> old = Vocabulary(merges=(("l", "o"), ("lo", "w"), ("a", "b")), tokens=("l", "o", "w", "a", "b", "lo", "low", "ab"),
...                  marker="none")
>>> shrunk = shrink(old, {"low": 9, "lo": 3, "ab": 1}, to=11)
>>> shrunk.vocabulary.tokens, shrunk.new_ids.tolist()
(('l', 'o', 'w', 'a', 'b', 'lo', 'low'), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.choose.dropping import Drops, exactly_counted
from volt.choose.extend import words_for
from volt.display import counted
from volt.errors import VocabularyError
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """A vocabulary with fewer ids.

    vocabulary: what is left, with the counts of the corpus
    new_ids: (n_old_ids,) int64, the new id of each old one, −1 for what was dropped: copy row i of an embedding to row
        new_ids[i]
    n_pieces_before, n_pieces: how many pieces the corpus took, and takes; unknown characters count as one
    """

    vocabulary: Vocabulary
    new_ids: NDArray[np.int64]
    n_pieces_before: int
    n_pieces: int

    def __repr__(self) -> str:
        ids = f"{len(self.vocabulary):,} of {counted(len(self.new_ids), 'id')}"
        return f"<Shrunk: {ids}, {self.n_pieces:,} pieces instead of {self.n_pieces_before:,}>"


def shrink(
    vocabulary: Vocabulary,
    counts: WordCounts | Mapping[str, int],
    *,
    to: int,
    closed: bool = False,
    keep_atoms: bool = True,
) -> Shrunk:
    """Drop the tokens that a corpus misses least, until so many ids are left.

    vocabulary: what shrinks; it may be a foreign one, and pruned
    counts: what `count_words` returns with the vocabulary's normaliser, pre-tokeniser and special tokens, or a mapping
        of words to their counts
    to: the number of ids, special tokens and bytes included
    closed: whether tokens stay that others are merged from, so that no new scaffolding is made; other libraries' files
        hold none
    keep_atoms: whether all atoms stay; otherwise those that the corpus lacks may go, and are then unknown characters
    Special tokens, byte tokens and the atoms of bytes always stay.
    Raises VocabularyError if there are fewer ids than that, or more must stay; CorpusError if the words were made in
    another way than the vocabulary's, or there are none.

    >>> old = Vocabulary(merges=(("l", "o"), ("lo", "w")), tokens=("l", "o", "w", "lo", "low"), marker="none")
    >>> shrink(old, {"low": 9, "lo": 3}, to=8)
    <Shrunk: 8 of 9 ids, 15 pieces instead of 12>
    """
    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary", call="volt.shrink({}, counts, to=N)")
    counts, to = (
        words_for(vocabulary, counts, call="volt.shrink(vocabulary, {}, to=N)"),
        arguments.whole(to, "to", low=1),
    )
    n_ids = len(vocabulary.ids)
    if to > n_ids:
        raise VocabularyError(f"to is {to:,}, and the vocabulary has {counted(n_ids, 'id')}; give {n_ids:,} or fewer")
    drops = Drops.of(vocabulary, counts, closed=closed, keep_atoms=keep_atoms)
    before = drops.n_pieces
    if drops.drop(n_ids - to) < n_ids - to:
        raise VocabularyError(_too_few(drops, to, closed=closed, keep_atoms=keep_atoms))
    left, n_pieces = exactly_counted(drops.vocabulary(), counts)
    told = {"ids": n_ids, "fingerprint": vocabulary.fingerprint, "corpus": counts.fingerprint}
    left = replace(left, provenance={**vocabulary.provenance, "shrunk_from": told})
    new_ids = np.array([left.ids.get(piece, -1) for piece in vocabulary.pieces], np.int64)
    return Shrunk(left, new_ids, before, n_pieces)


def _too_few(drops: Drops, to: int, *, closed: bool, keep_atoms: bool) -> str:
    """Why no more can be dropped. drops: after everything has been dropped that may be"""
    left = drops.vocabulary()
    n, kinds = len(left.ids), Counter(left.kinds)
    atoms = set(left.atoms)
    n_atoms = sum(token in atoms for token in left.tokens)
    told = {"special token": n - kinds["token"] - kinds["byte"] - kinds["marker"], "byte token": kinds["byte"]}
    told["lone end of a word"] = kinds["marker"]
    told |= {"atom": n_atoms, "token of which others are made": kinds["token"] - n_atoms}
    what = ", ".join(
        counted(number, name, name.replace("token", "tokens") if "token " in name else "")
        for name, number in told.items()
        if number
    )
    ways = [f"give {n:,} or more", *(["leave out closed"] * closed), *(["give keep_atoms=False"] * keep_atoms)]
    return f"to is {to:,}, and {counted(n, 'id')} are the fewest that can be left: {what}; {', or '.join(ways)}"
