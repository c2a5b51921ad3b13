"""Pieces by the definition of each way to merge, and vocabularies that nobody learned."""

from itertools import pairwise

import naive
from hypothesis import strategies as st

from volt.vocabulary import Vocabulary

LETTERS = "abc"


def rank_finder(merges, merging):
    """Return the rank at which two neighbours join, or None."""
    if merging == "ranks":
        of_results = {"".join(merge): rank for rank, merge in reversed(list(enumerate(merges)))}
        return lambda left, right: of_results.get(left + right)
    of_pairs = naive.first_ranks(merges)
    return lambda left, right: of_pairs.get((left, right))


def one_by_one(symbols, merges, merging):
    """Join the leftmost neighbours of the lowest rank until no two join."""
    return _join(symbols, merges, merging, lambda: True)


def _join(symbols, merges, merging, is_applied):
    """Join neighbours as `one_by_one` does, of those for which `is_applied` returns True."""
    rank = rank_finder(merges, merging)
    parts = list(symbols)
    while True:
        ranks = [(rank(*pair), index) for index, pair in enumerate(pairwise(parts))]
        found = [row for row in ranks if row[0] is not None and is_applied()]
        if not found:
            return parts
        _, index = min(found)
        parts[index : index + 2] = [parts[index] + parts[index + 1]]


def encoded(word, vocabulary):
    """Return the pieces of a word by definition."""
    atoms = naive.atoms(word, vocabulary.marker)
    if vocabulary.whole_words and (whole := "".join(atoms)) in vocabulary.tokens:
        return [whole]
    if vocabulary.merging == "pairs":
        parts = naive.merged(atoms, vocabulary.merges)
    else:
        parts = one_by_one(atoms, vocabulary.merges, vocabulary.merging)
    return [
        piece
        for part in parts
        for piece in naive.split_back(part, vocabulary.merges, vocabulary.tokens)
    ]


@st.composite
def merge_lists(draw, *, marker="none", later=False, longest=11):
    """Atoms, and merges that nobody learned: several make the same, some are never used.

    later: whether a merge may need what only a later one makes
    longest: the most letters of what merges make
    """
    atoms = (
        list(LETTERS)
        + [f"{letter}</w>" for letter in LETTERS * (marker == "suffix")]
        + ["▁"] * (marker == "prefix")
    )
    tokens = list(atoms)
    merges = []
    for _ in range(draw(st.integers(0, 14))):
        left = draw(st.sampled_from([token for token in tokens if not token.endswith("</w>")]))
        right = draw(st.sampled_from([token for token in tokens if not token.startswith("▁")]))
        if len((left + right).removesuffix("</w>").removeprefix("▁")) <= longest:
            merges.append((left, right))
            tokens.append(left + right)
    return atoms, draw(st.permutations(merges)) if later else merges


@st.composite
def vocabularies(draw, *, longest=11):
    """Draw vocabularies of any way to merge, any marker, and some of the tokens."""
    merging = draw(st.sampled_from(["pairs", "steps", "ranks"]))
    marker = draw(st.sampled_from(["suffix", "prefix", "none"]))
    atoms, merges = draw(merge_lists(marker=marker, later=merging == "ranks", longest=longest))
    tokens = [*atoms, *map("".join, merges)]
    whole_words = draw(st.booleans())
    if whole_words:
        more = draw(
            st.lists(st.text(LETTERS + "y", min_size=1, max_size=min(longest, 5)), max_size=9)
        )
        tokens += ["".join(naive.atoms(word, marker)) for word in more] + more
    tokens = draw(st.permutations(list(dict.fromkeys(tokens))))
    return Vocabulary(
        tuple(merges),
        tuple(tokens[: draw(st.integers(0, len(tokens)))]),
        marker=marker,
        merging=merging,
        whole_words=whole_words,
    )


def dropped(word, merges, merging, dropout, rng):
    """Return the pieces of a word if each applicable pair is skipped with a probability."""
    if merging == "pairs":
        return naive.encode_dropped(word, merges, dropout, rng, "none")
    return _join(word, merges, merging, lambda: rng.random() >= dropout)
