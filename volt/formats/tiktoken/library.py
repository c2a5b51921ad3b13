"""A ranks file loaded in tiktoken itself, to compare with. The caller gives the pattern and special tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from volt.errors import ConfigError, VocabularyError, missing, quoted
from volt.formats.protocol import USUAL, Peer
from volt.formats.tiktoken.ranks import choose, read_ranks
from volt.text.characters import to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """Load the file in tiktoken with its pattern and these special tokens; it finds the user's own in text."""
    ranks = read_ranks(path)
    pattern = pattern_of(choose(path, [token for token in ranks if token], None).pretokenizer)
    shares_ids = min(ranks.values()) >= len(special.all)
    names = dict(enumerate(special.all, 0 if shares_ids else max(ranks.values()) + 1))
    return _peer(path.name, pattern, ranks, names, user=special.user, shares_ids=shares_ids)


def peer_of(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load an exported file in tiktoken with the pattern and the special tokens of its vocabulary."""
    ranks, special = read_ranks(path), vocabulary.special
    shares_ids = all(vocabulary.ids.get(to_characters(token)) == rank for token, rank in ranks.items() if token)
    first = max(ranks.values()) + 1
    names = {vocabulary.ids[token] if shares_ids else first + at: token for at, token in enumerate(special.all)}
    pattern = pattern_of(vocabulary.pretokenizer)
    return _peer(path.name, pattern, ranks, names, user=special.user, shares_ids=shares_ids)


def original(path: Path, vocabulary: Vocabulary, *, pattern: str | None = None) -> Peer:
    """Load a file in tiktoken as its publisher does: ranks are ids, and special tokens are the vocabulary's."""
    ranks = read_ranks(path)
    choice = choose(path, [token for token in ranks if token], pattern)
    return peer_of_ranks(path.name, pattern_of(choice.pretokenizer), ranks, vocabulary)


def peer_of_ranks(name: str, pattern: str, ranks: Mapping[bytes, int], vocabulary: Vocabulary) -> Peer:
    """Load these ranks in tiktoken with the special tokens of a vocabulary; it finds the user's own in text."""
    names = {vocabulary.ids[token]: token for token in vocabulary.special.all}
    return _peer(name, pattern, ranks, names, user=vocabulary.special.user, shares_ids=True)


def pattern_of(pretokenizer: PreTokenizer) -> str:
    """Return the one pattern that cuts text for tiktoken. Raises VocabularyError if VOLT cuts otherwise."""
    splits = pretokenizer.splits
    if not splits and pretokenizer.is_bytes:
        return GPT2_PATTERN
    if len(splits) != 1 or splits[0].from_end or not pretokenizer.is_bytes:
        raise VocabularyError(
            f"tiktoken cuts the bytes of text by one pattern, not by {quoted(pretokenizer.name, 200)}"
        )
    return splits[0].pattern


def _peer(
    name: str, pattern: str, ranks: Mapping[bytes, int], names: Mapping[int, str], *, user: Sequence[str],
    shares_ids: bool,
) -> Peer:  # fmt: skip
    """Return the library with these ranks. names: special tokens by id;  user: those that are found in text"""
    try:
        import tiktoken
    except ImportError:
        raise missing("tiktoken") from None
    special, allowed = {token: number for number, token in names.items()}, set(user)
    try:
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens=special)
    except ValueError as error:
        raise ConfigError(f"tiktoken does not read the pattern {quoted(pattern, 200)}: {error}") from None

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [encoding.encode(line, allowed_special=allowed, disallowed_special=()) for line in lines]

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        return [[names.get(number) or spelled(number) for number in line] for line in ids(lines)]

    def spelled(number: int) -> str:
        return to_characters(encoding.decode_single_token_bytes(number))

    return Peer("tiktoken", pieces, ids if shares_ids else None)
