"""Ranks → byte-level vocabulary that has them as ids, and joins by them.

>>> ranks = {bytes([byte]): byte for byte in range(256)} | {b"lo": 256, b"low": 258}
>>> vocabulary = vocabulary_of(Path("a"), ranks, PreTokenizer("bytes"), provenance={})
>>> vocabulary.ids["low"], len(vocabulary), vocabulary.pieces[257], vocabulary.merging
(258, 259, '', 'ranks')
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from volt.errors import ConfigError, VocabularyError, shown_path
from volt.formats.tiktoken.joins import joins
from volt.text.byte_alphabet import to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

NO_SPECIAL = SpecialTokens(None, None, None, None)


def vocabulary_of(
    path: Path,
    ranks: Mapping[bytes, int],
    pretokenizer: PreTokenizer,
    *,
    special: SpecialTokens = NO_SPECIAL,
    special_ids: Mapping[str, int] | None = None,
    provenance: Mapping[str, object],
) -> Vocabulary:
    """The vocabulary of tokens with these ids, of which the lower ones are joined first.

    path: named in errors
    special_ids: the ids of the special tokens
    Raises VocabularyError if a token is spelled like a special token.
    """
    ordered = sorted(filter(None, ranks), key=ranks.__getitem__)
    spelled = {token: to_characters(token) for token in ordered}
    order = [""] * (1 + max([*ranks.values(), *(special_ids or {}).values()]))
    for token, piece in spelled.items():
        order[ranks[token]] = piece
    for piece, number in (special_ids or {}).items():
        order[number] = piece
    try:
        return Vocabulary(
            merges=tuple((spelled[left], spelled[right]) for left, right in joins(ordered)),
            tokens=tuple(spelled.values()),
            marker="none",
            pretokenizer=pretokenizer,
            special=special,
            provenance=provenance,
            merging="ranks",
            whole_words=True,
            order=tuple(order),
        )
    except (VocabularyError, ConfigError) as error:
        raise VocabularyError(f"{shown_path(path)}: {error}") from None
