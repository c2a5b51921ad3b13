"""tiktoken itself with a ranks file loaded, to compare with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from volt.errors import missing
from volt.formats.protocol import USUAL, Peer
from volt.formats.tiktoken.ranks import ranks_of_gpt2
from volt.text.byte_alphabet import to_characters
from volt.text.special_tokens import SpecialTokens

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """tiktoken with the file loaded, GPT-2's pattern, and these special tokens; it finds the user's own in text.

    It has ids in common with VOLT if the file leaves room for the special tokens below its ranks.
    Raises MissingLibraryError if tiktoken is not installed.
    """
    ranks = ranks_of_gpt2(path)
    shares_ids = min(ranks.values()) >= len(special.all)
    names = dict(enumerate(special.all, 0 if shares_ids else max(ranks.values()) + 1))
    encoding, found = _encoding(path.name, ranks, names), set(special.user)

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [encoding.encode(line, allowed_special=found, disallowed_special=()) for line in lines]

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        return [[names.get(number) or spelled(number) for number in line] for line in ids(lines)]

    def spelled(number: int) -> str:
        return to_characters(encoding.decode_single_token_bytes(number))

    return Peer("tiktoken", pieces, ids if shares_ids else None)


def _encoding(name: str, ranks: Mapping[bytes, int], names: Mapping[int, str]) -> Any:
    """The library's encoder with these ranks. names: the special tokens by their ids."""
    try:
        import tiktoken
    except ImportError:
        raise missing("tiktoken") from None
    return tiktoken.Encoding(
        name,
        pat_str=GPT2_PATTERN,
        mergeable_ranks=dict(ranks),
        special_tokens={token: number for number, token in names.items()},
    )
