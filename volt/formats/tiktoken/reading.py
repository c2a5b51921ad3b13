"""tiktoken's ranks file → byte-level vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from volt.errors import VocabularyError
from volt.formats.tiktoken.joins import recovered
from volt.formats.tiktoken.ranks import ranks_of_gpt2
from volt.text.byte_alphabet import to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read a ranks file as a byte-level vocabulary that cuts text as GPT-2 does; tokens stay in the order of ranks.

    The file names no special tokens and no pattern: special tokens get VOLT's usual names, and a file that goes with
    another pattern is refused, as far as its tokens tell. `provenance["lost"]` says what the file does not hold.
    Raises VocabularyError, with file and line, if it is damaged, its tokens are none that merges make, or GPT-2's
    pattern cuts one of them.
    """
    if merges is not None:
        raise VocabularyError(f"{merges}: tiktoken's ranks imply the merges; leave out the merges file")
    ranks = ranks_of_gpt2(path)
    tokens = sorted(ranks, key=ranks.__getitem__)
    pairs = dict(recovered(tokens))
    for token in tokens:
        if len(token) > 1 and len(pairs[token]) != 2:
            raise VocabularyError(
                f"{path}: the token {token!r} of rank {ranks[token]} is not made of two of lower rank, but of "
                f"{len(pairs[token])}; no merges give this file. Restore it"
            )
    named = {token: to_characters(token) for token in tokens}
    merge_list = tuple((to_characters(left), to_characters(right)) for left, right in pairs.values())
    try:
        vocabulary = Vocabulary(
            merges=merge_list, tokens=tuple(named.values()), marker="none", pretokenizer=PreTokenizer("bytes")
        )
    except VocabularyError as error:
        raise VocabularyError(f"{path}: {error}") from None
    return replace(
        vocabulary, provenance={"format": "tiktoken", "lost": list(_losses(vocabulary, sorted(ranks.values())))}
    )


def _losses(vocabulary: Vocabulary, ranks: Sequence[int]) -> Iterator[str]:
    """What a file does not tell, and how ids change. ranks: in rising order."""
    yield "The file names no pattern: text is cut by GPT-2's, which fits all of its tokens."
    yield "The file names no special tokens: they get VOLT's usual names."
    first = len(vocabulary.special.all)
    if ranks[-1] - ranks[0] >= len(ranks):
        yield f"Ids differ from ranks, which leave out numbers: tokens are numbered from {first} in their order."
    elif ranks[0] != first:
        yield f"Ids differ from ranks: the token of rank {ranks[0]} has the id {first}, behind the special tokens."
