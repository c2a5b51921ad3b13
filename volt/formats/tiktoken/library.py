"""Load a ranks file in tiktoken itself, to compare with VOLT. Its pattern and special tokens come from a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from volt.errors import ConfigError, VocabularyError, quoted
from volt.files.small_files import read_bytes
from volt.formats.protocol import Peer, needs
from volt.formats.tiktoken.reading import read_file
from volt.text.byte_alphabet import to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def peer(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load the file in tiktoken with the pattern and the special tokens of a vocabulary.

    Ranks are ids if they are VOLT's ids, too. Only user tokens are found in text.
    """
    ranks = read_file(path, read_bytes(path, kind=VocabularyError)).ranks
    pattern = pattern_of(vocabulary.pretokenizer)
    special = vocabulary.special
    ids = vocabulary.ids
    shares_ids = all(
        ids.get(to_characters(token)) == rank for token, rank in ranks.items() if token
    )
    special_ids = {token: ids[token] for token in special.all}
    if not shares_ids:
        n_ranks = max(ranks.values()) + 1
        special_ids = {token: number for number, token in enumerate(special.all, n_ranks)}
    with needs("tiktoken"):
        import tiktoken
    try:
        encoding = tiktoken.Encoding(
            path.name, pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens=special_ids
        )
    except ValueError as error:
        raise ConfigError(
            f"tiktoken cannot read the pattern {quoted(pattern, 200)}: {error}"
        ) from None
    names = {number: token for token, number in special_ids.items()}
    allowed = set(special.user)

    def encode(lines: Sequence[str]) -> list[list[int]]:
        return [
            encoding.encode(line, allowed_special=allowed, disallowed_special=()) for line in lines
        ]

    def spelled(number: int) -> str:
        return names.get(number) or to_characters(encoding.decode_single_token_bytes(number))

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        return [list(map(spelled, line_ids)) for line_ids in encode(lines)]

    return Peer("tiktoken", pieces, encode if shares_ids else None)


def pattern_of(pretokenizer: PreTokenizer) -> str:
    """Return the one pattern that splits text in tiktoken. Raises VocabularyError if there is no such pattern."""
    splits = pretokenizer.splits
    if not splits and pretokenizer.is_bytes:
        return GPT2_PATTERN
    if len(splits) != 1 or splits[0].from_end or not pretokenizer.is_bytes:
        raise VocabularyError(
            f"tiktoken cuts bytes by one pattern, so it cannot use {quoted(pretokenizer.name)}"
        )
    return splits[0].pattern
