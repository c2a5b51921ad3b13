"""The merges of a tokenizer.json: pairs of tokens by rank, all of them where a rank belongs to what a merge makes.

tokenizers merges only pairs that it is told. Where any neighbours that spell a token may join, as in tiktoken, every
pair of tokens that spells it is listed, at its rank. The library then takes the lower of these pairs first, and not the
one further left, as VOLT does; so of two pairs that can overlap the one that is left of the other is listed first. Only
in a token that repeats one string, such as "aaa", either may be left of the other.

>>> from volt.vocabulary import Vocabulary
>>> vocabulary = Vocabulary((("l", "o"), ("lo", "w"), ("o", "w")), ("l", "o", "w", "lo", "low", "ow"), merging="ranks")
>>> merges_of(vocabulary)
[('l', 'o'), ('l', 'ow'), ('lo', 'w'), ('o', 'w')]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from volt.vocabulary import Vocabulary

Pair = tuple[str, str]


def merges_of(vocabulary: Vocabulary) -> list[Pair]:
    """The merges by rank, each once."""
    if vocabulary.merging != "ranks":
        return list(dict.fromkeys(vocabulary.merges))
    made = dict.fromkeys(map("".join, vocabulary.merges))
    known = {*made, *vocabulary.atoms}
    return [pair for token in made for pair in _pairs(token, known)]


def _pairs(token: str, known: Collection[str]) -> Iterator[Pair]:
    """The pairs of tokens that spell a token, the left one of two that can overlap first.

    >>> list(_pairs("aba", {"a", "b", "ab", "ba"})), list(_pairs("aab", {"a", "b", "aa", "ab"}))
    ([('ab', 'a'), ('a', 'ba')], [('a', 'ab'), ('aa', 'b')])
    """
    half = len(token) // 2
    for place in range(1, half + 1):
        places = (place, len(token) - place)
        is_right = token.endswith(token[:place]) and not token.startswith(token[place:])
        for at in dict.fromkeys(reversed(places) if is_right else places):
            if token[:at] in known and token[at:] in known:
                yield token[:at], token[at:]
