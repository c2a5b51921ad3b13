"""Slow, obvious twins of what volt computes fast. They follow the definitions, on strings, and share no code with volt.

>>> learn({"low": 5, "lower": 2}, n_merges=2)
[('l', 'o'), ('lo', 'w</w>')]
>>> encode("lowlow", [("l", "o"), ("lo", "w</w>")])
['lo', 'w', 'low</w>']
"""

import math
from collections import Counter
from itertools import combinations, pairwise

import numpy as np

END, START = "</w>", "▁"
Pair = tuple[str, str]


def atoms(word, marker="suffix"):
    """The symbols that merging starts from.

    >>> atoms("low"), atoms("low", "prefix"), atoms("low", "none")
    (['l', 'o', 'w</w>'], ['▁', 'l', 'o', 'w'], ['l', 'o', 'w'])
    """
    if marker == "suffix":
        return [*word[:-1], word[-1] + END]
    return [START, *word] if marker == "prefix" else list(word)


def replace(symbols, pair):
    """Merge the pair wherever it stands, from left to right.

    >>> replace(list("aaab"), ("a", "a"))
    ['aa', 'a', 'b']
    """
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            merged.append("".join(pair))
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def fakes_the_end(pair, marker):
    """Check whether the pair's token would seem to end a word, but does not."""
    return marker == "suffix" and "".join(pair).endswith(END) and not pair[1].endswith(END)


def pair_counts(word_counts, symbols):
    """Count how often two symbols stand side by side; "aaa" holds ("a", "a") twice.

    >>> pair_counts({"aaa": 5}, {"aaa": list("aaa")})
    Counter({('a', 'a'): 10})
    """
    counts = Counter()
    for word, count in word_counts.items():
        for pair in pairwise(symbols[word]):
            counts[pair] += count
    return counts


def learn(word_counts, n_merges, marker="suffix", min_pair_count=2, first=()):
    """Merge the pair of the greatest (count, left, right), count everything again, and so on.

    first: merges that are applied before

    >>> learn({"ab": 1, "cd": 1}, 9, "none", 1)
    [('c', 'd'), ('a', 'b')]
    >>> learn({"ab": 1, "cde": 1}, 9, "none", 1, first=[("c", "d")])
    [('cd', 'e'), ('a', 'b')]
    """
    symbols = {word: merged(atoms(word, marker), first) for word in word_counts}
    merges = []
    while len(merges) < n_merges:
        counts = pair_counts(word_counts, symbols)
        allowed = [
            p for p, n in counts.items() if n >= min_pair_count and not fakes_the_end(p, marker)
        ]
        if not allowed:
            break
        best = max(allowed, key=lambda pair: (counts[pair], pair))
        symbols = {word: replace(parts, best) for word, parts in symbols.items()}
        merges.append(best)
    return merges


def learn_parity(
    sources,
    units,
    n_merges,
    marker="suffix",
    min_pair_count=2,
):
    """The same, but only in the source that has the most pieces per unit and a pair that occurs often enough.

    sources: of those that are equally bad the first chooses

    >>> learn_parity({"a": {"ab": 9}, "b": {"cdc": 2}}, {"a": 9, "b": 1}, 2, "none")
    [('d', 'c'), ('c', 'dc')]
    """
    symbols = {
        name: {word: atoms(word, marker) for word in words} for name, words in sources.items()
    }
    merges = []
    while len(merges) < n_merges:
        allowed = {}
        for name in sources:
            counts = pair_counts(sources[name], symbols[name])
            often = [
                p for p, n in counts.items() if n >= min_pair_count and not fakes_the_end(p, marker)
            ]
            if often:
                pieces = sum(
                    len(symbols[name][word]) * count for word, count in sources[name].items()
                )
                allowed[name] = (
                    float(pieces) / float(units[name]),
                    max(often, key=lambda pair: (counts[pair], pair)),
                )
        if not allowed:
            break
        best = allowed[max(allowed, key=lambda name: allowed[name][0])][
            1
        ]  # of equal ones, the first
        symbols = {
            name: {word: replace(found, best) for word, found in rows.items()}
            for name, rows in symbols.items()
        }
        merges.append(best)
    return merges


def returns(word_counts, merges, marker="suffix"):
    """Check whether a merged pair occurs in a word again, because a later merge makes one of its parts.

    >>> returns({"ab": 1}, [("a", "b</w>")])
    False
    """
    symbols = {word: atoms(word, marker) for word in word_counts}
    for rank, merge in enumerate(merges):
        symbols = {word: replace(parts, merge) for word, parts in symbols.items()}
        if any(
            pair in merges[: rank + 1] for parts in symbols.values() for pair in pairwise(parts)
        ):
            return True
    return False


def is_late(word, merges, marker="suffix"):
    """Check whether encoding a word applies a merge after one of a higher rank, unlike learning.

    >>> is_late("abcd", [("b", "c"), ("a", "b"), ("ab", "c"), ("abc", "d"), ("a", "bc")], "none")
    True
    """
    ranks, parts, highest = first_ranks(merges), atoms(word, marker), -1
    while found := [ranks[pair] for pair in pairwise(parts) if pair in ranks]:
        if min(found) < highest:
            return True
        highest = min(found)
        parts = replace(parts, merges[highest])
    return False


def first_ranks(merges):
    """Return the rank of each merge; of equal merges, the first counts."""
    return {merge: rank for rank, merge in reversed(list(enumerate(merges)))}


def merged(symbols, merges):
    """Apply the applicable merge of the lowest rank until none is left."""
    ranks, parts = first_ranks(merges), list(symbols)
    while found := [pair for pair in pairwise(parts) if pair in ranks]:
        parts = replace(parts, min(found, key=ranks.__getitem__))
    return parts


def split_back(token, merges, kept):
    """A token that is not kept becomes the two parts of its first merge, down to kept tokens and atoms.

    >>> split_back("abc", [("a", "b"), ("ab", "c")], {"a", "b", "c"})
    ['a', 'b', 'c']
    """
    made = next((merge for merge in merges if "".join(merge) == token), None)
    if token in kept or made is None:
        return [token]
    return [piece for part in made for piece in split_back(part, merges, kept)]


def encode(word, merges, kept=None, marker="suffix"):
    """Return the pieces of a word; without `kept`, every token is kept."""
    parts = merged(atoms(word, marker), merges)
    return (
        parts
        if kept is None
        else [piece for part in parts for piece in split_back(part, merges, kept)]
    )


def encode_dropped(word, merges, dropout, rng, marker="suffix"):
    """Return the pieces if each applicable pair is skipped with a probability at every step."""
    ranks, parts = first_ranks(merges), atoms(word, marker)
    while True:
        applicable = [
            i for i, pair in enumerate(pairwise(parts)) if pair in ranks and rng.random() >= dropout
        ]
        if not applicable:
            return parts
        parts = merge_places(parts, applicable, ranks)


def merge_places(parts, places, ranks):
    """Merge the pair of the lowest rank among those that start at `places`, from left to right.

    >>> merge_places(list("aaa"), [1], {("a", "a"): 0})
    ['a', 'aa']
    """
    best = min(
        (parts[i], parts[i + 1])
        for i in places
        if ranks[parts[i], parts[i + 1]] == min(ranks[parts[k], parts[k + 1]] for k in places)
    )
    result, i = [], 0
    while i < len(parts):
        joined = i in places and (parts[i], parts[i + 1]) == best
        result.append("".join(parts[i : i + 1 + joined]))
        i += 1 + joined
    return result


def dropout_distribution(word, merges, dropout, marker="suffix"):
    """The exact probability of every way in which dropout can encode a short word.

    >>> dropout_distribution("ab", [("a", "b</w>")], 0.25)
    {('a', 'b</w>'): 0.25, ('ab</w>',): 0.75}
    """
    ranks, outcomes = first_ranks(merges), Counter()
    waiting = {tuple(atoms(word, marker)): 1.0}
    while waiting:
        parts, prob = waiting.popitem()
        applicable = [i for i, pair in enumerate(pairwise(parts)) if pair in ranks]
        for n in range(len(applicable) + 1):
            for places in combinations(applicable, n):
                share = prob * (1 - dropout) ** n * dropout ** (len(applicable) - n)
                if places:
                    following = tuple(merge_places(parts, places, ranks))
                    waiting[following] = waiting.get(following, 0.0) + share
                else:
                    outcomes[parts] += share
    return dict(outcomes)


def token_counts(
    word_counts,
    merges,
    marker="suffix",
    kept=None,
):
    """Count how often each token occurs in the encoded corpus.

    >>> token_counts({"ab": 3, "b": 1}, [("a", "b</w>")])
    Counter({'ab</w>': 3, 'b</w>': 1})
    """
    counts = Counter()
    for word, count in word_counts.items():
        for piece in encode(word, merges, kept, marker):
            counts[piece] += count
    return counts


def token_length(token, marker="suffix"):
    """The characters of a token, markers not counted; a token of nothing but the marker has length 1.

    >>> token_length("low</w>"), token_length("▁", "prefix")
    (3, 1)
    """
    text = token.removesuffix(END) if marker == "suffix" else token.replace(START, "")
    return len(text) or 1


def entropy(counts, lengths, length="type"):
    """H = −(1/l) Σ P log P, with l the mean length of types or of occurrences.

    >>> round(entropy([1, 1], [1, 3]), 6)
    0.346574
    """
    total = sum(counts)
    bare = -sum(n / total * math.log(n / total) for n in counts if n > 0)
    weights = [1.0] * len(counts) if length == "type" else [n / total for n in counts]
    return bare / (sum(w * x for w, x in zip(weights, lengths, strict=True)) / sum(weights))


def chord_distances(entropies, sizes):
    """Return how far each point lies below the chord from the first to the last, at right angles, both axes scaled to 1.

    >>> [round(distance, 3) for distance in chord_distances([1.0, 0.0, 0.0], [0, 1, 2])]
    [0.0, 0.354, 0.0]
    """
    width, height = (sizes[-1] - sizes[0]) or 1, abs(entropies[-1] - entropies[0]) or 1
    points = [
        ((x - sizes[0]) / width, (y - entropies[0]) / height)
        for x, y in zip(sizes, entropies, strict=True)
    ]
    dx, dy = points[-1]
    return [(x * dy - y * dx) / (math.hypot(dx, dy) or 1) + 0.0 for x, y in points]


def best_path(word, scores, unknown, *, single=False, before=0.0):
    """Cut a word into pieces whose scores have the greatest sum. Return the pieces and the sum.

    A later candidate replaces an earlier one only if its sum is greater. A character that is not a
    piece is unknown.

    unknown: the score of an unknown character
    single: whether each sum is rounded to single precision, as in sentencepiece
    before: the sum of the line's scores before the word
    """

    def rounded(total):
        return float(np.float32(total)) if single else total

    longest = max(map(len, scores), default=1)
    sums = [before, *[-math.inf] * len(word)]
    starts = [0] * (len(word) + 1)
    for start in range(len(word)):
        if single and abs(sums[start]) > 100_000:
            sums[start:] = [rounded(total - sums[start]) for total in sums[start:]]
        for end in range(start + 1, min(start + longest, len(word)) + 1):
            piece = word[start:end]
            if piece not in scores and end > start + 1:
                continue
            total = rounded(sums[start] + scores.get(piece, unknown))
            if total > sums[end]:
                sums[end] = total
                starts[end] = start

    pieces = []
    end = len(word)
    while end > 0:
        pieces.append(word[starts[end] : end])
        end = starts[end]
    return pieces[::-1], sums[-1]


def fewest_pieces(counts, n_free):
    """The fewest pieces of counted words, over all ways to choose n_free tokens of several characters.

    >>> fewest_pieces({"abab": 9, "abb": 4}, 1)
    21
    """
    longer = {
        word[i:j] for word in counts for i, j in combinations(range(len(word) + 1), 2) if j - i > 1
    }
    choices = combinations(sorted(longer), min(n_free, len(longer)))
    return min(
        sum(n * path_length(word, set(tokens)) for word, n in counts.items()) for tokens in choices
    )


def path_length(word, tokens):
    """The fewest pieces of a word, with these tokens and all characters."""
    lengths = [0]
    for end in range(1, len(word) + 1):
        starts = [start for start in range(end) if start == end - 1 or word[start:end] in tokens]
        lengths.append(1 + min(lengths[start] for start in starts))
    return lengths[-1]
