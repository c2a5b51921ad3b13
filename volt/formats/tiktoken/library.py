"""Load a ranks file in tiktoken itself, as a `Peer` with which `volt.formats.check` compares VOLT.

A ranks file contains only tokens and their ranks. The pattern that splits text and the special
tokens come from the vocabulary that was read from the file or written to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from volt.errors import ConfigError, VocabularyError, quoted
from volt.files.small_files import read_bytes
from volt.formats.protocol import Peer, require_library
from volt.formats.tiktoken.reading import read_file
from volt.text.byte_alphabet import to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

# GPT-2's pattern as tiktoken spells it: it splits as the original does, and faster.
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def peer(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load a ranks file in tiktoken, with the pattern and the special tokens of a vocabulary.

    tiktoken's ids are ranks. The peer has ids only if each token's rank is its id in the
    vocabulary. Otherwise special tokens get the ids after the ranks. tiktoken finds only user
    tokens in text, as VOLT does.

    Raises VocabularyError if the file is damaged, or if tiktoken cannot split as the vocabulary
    does; ConfigError if tiktoken cannot read the pattern.
    """
    rank_of_bytes = read_file(path, read_bytes(path, kind=VocabularyError)).ranks
    pattern = pattern_of(vocabulary.pretokenizer)
    special = vocabulary.special
    ids = vocabulary.ids
    ranks_are_ids = all(
        ids.get(to_characters(token)) == rank for token, rank in rank_of_bytes.items() if token
    )
    special_ids = {token: ids[token] for token in special.all}
    if not ranks_are_ids:
        first_free_id = max(rank_of_bytes.values()) + 1
        special_ids = {token: number for number, token in enumerate(special.all, first_free_id)}

    with require_library("tiktoken"):
        import tiktoken
    try:
        encoding = tiktoken.Encoding(
            path.name,
            pat_str=pattern,
            mergeable_ranks=dict(rank_of_bytes),
            special_tokens=special_ids,
        )
    except ValueError as error:
        raise ConfigError(
            f"tiktoken cannot read the pattern {quoted(pattern, 200)}: {error}"
        ) from None
    special_of_id = {number: token for token, number in special_ids.items()}
    user = set(special.user)

    def encode_ids(lines: Sequence[str]) -> list[list[int]]:
        return [
            encoding.encode(line, allowed_special=user, disallowed_special=()) for line in lines
        ]

    def spell(number: int) -> str:
        token = special_of_id.get(number)
        return token or to_characters(encoding.decode_single_token_bytes(number))

    def encode_pieces(lines: Sequence[str]) -> list[list[str]]:
        return [list(map(spell, line_ids)) for line_ids in encode_ids(lines)]

    return Peer("tiktoken", encode_pieces, encode_ids if ranks_are_ids else None)


def pattern_of(pretokenizer: PreTokenizer) -> str:
    """Return the pattern with which tiktoken splits text as a pre-tokenizer does.

    Raises VocabularyError unless the pre-tokenizer is over bytes and splits by one pattern.
    """
    splits = pretokenizer.splits
    if not splits and pretokenizer.is_bytes:
        return GPT2_PATTERN
    if len(splits) != 1 or splits[0].from_end or not pretokenizer.is_bytes:
        raise VocabularyError(
            f"tiktoken cuts bytes by one pattern, so it cannot use {quoted(pretokenizer.name)}"
        )
    return splits[0].pattern
