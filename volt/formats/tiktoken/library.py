"""Load a ranks file in tiktoken itself, to compare with VOLT. The caller gives the pattern and special tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from volt.errors import ConfigError, VocabularyError, quoted
from volt.files.small_files import read_bytes
from volt.formats.protocol import USUAL, Peer, needs
from volt.formats.tiktoken.ranks import choose, read_ranks
from volt.formats.tiktoken.reading import read_file
from volt.text.byte_alphabet import to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """Load the file in tiktoken with its pattern and these special tokens; only user tokens are found in text."""
    ranks, pattern = _ranks_and_pattern(path, None)
    shares_ids = min(ranks.values()) >= len(special.all)
    return _renumbered(path, pattern, ranks, special, shares_ids=shares_ids)


def peer_of(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load an exported file in tiktoken with the pattern and the special tokens of its vocabulary."""
    ranks = read_ranks(path, read_bytes(path, kind=VocabularyError))
    pattern = pattern_of(vocabulary.pretokenizer)
    ids = vocabulary.ids
    if all(ids.get(to_characters(token)) == rank for token, rank in ranks.items() if token):
        return peer_of_ranks(path.name, pattern, ranks, vocabulary)
    return _renumbered(path, pattern, ranks, vocabulary.special, shares_ids=False)


def original(path: Path, vocabulary: Vocabulary, *, pattern: str | None = None) -> Peer:
    """Load a file in tiktoken as its publisher does: ranks are ids, and special tokens come from the vocabulary.

    pattern: a name or a regular expression, if the file names no pattern
    """
    ranks, pattern = _ranks_and_pattern(path, pattern)
    return peer_of_ranks(path.name, pattern, ranks, vocabulary)


def peer_of_ranks(
    name: str, pattern: str, ranks: Mapping[bytes, int], vocabulary: Vocabulary
) -> Peer:
    """Load these ranks in tiktoken with a vocabulary's special tokens; only user tokens are found in text."""
    special = vocabulary.special
    special_ids = {token: vocabulary.ids[token] for token in special.all}
    return _peer(name, pattern, ranks, special_ids, special, shares_ids=True)


def _renumbered(
    path: Path,
    pattern: str,
    ranks: Mapping[bytes, int],
    special: SpecialTokens,
    *,
    shares_ids: bool,
) -> Peer:
    first = 0 if shares_ids else max(ranks.values()) + 1
    special_ids = {token: number for number, token in enumerate(special.all, first)}
    return _peer(path.name, pattern, ranks, special_ids, special, shares_ids=shares_ids)


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


def _ranks_and_pattern(path: Path, pattern: str | None) -> tuple[Mapping[bytes, int], str]:
    data = read_bytes(path, kind=VocabularyError)
    file = read_file(path, data, pattern=pattern)
    if file.pattern is None:
        cut = choose(path, data, file.ranks, pattern).pretokenizer
    else:
        cut = PreTokenizer.of_pattern(file.pattern, level="bytes")
    return file.ranks, pattern_of(cut)


def _peer(
    name: str,
    pattern: str,
    ranks: Mapping[bytes, int],
    special_ids: dict[str, int],
    special: SpecialTokens,
    *,
    shares_ids: bool,
) -> Peer:
    with needs("tiktoken"):
        import tiktoken
    try:
        encoding = tiktoken.Encoding(
            name, pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens=special_ids
        )
    except ValueError as error:
        raise ConfigError(
            f"tiktoken cannot read the pattern {quoted(pattern, 200)}: {error}"
        ) from None
    names = {number: token for token, number in special_ids.items()}
    allowed = set(special.user)

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [
            encoding.encode(line, allowed_special=allowed, disallowed_special=()) for line in lines
        ]

    def spelled(number: int) -> str:
        return names.get(number) or to_characters(encoding.decode_single_token_bytes(number))

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        return [list(map(spelled, line_ids)) for line_ids in ids(lines)]

    return Peer("tiktoken", pieces, ids if shares_ids else None)
