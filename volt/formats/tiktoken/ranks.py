"""tiktoken's ranks file: a line for each token, its bytes in base64 and its rank, which is its id."""

from __future__ import annotations

import base64
import binascii
from itertools import pairwise
from pathlib import Path

from volt.errors import VocabularyError
from volt.files.whole import read_bytes
from volt.formats.byte_merges import other_pattern
from volt.formats.protocol import MOST_DIGITS
from volt.text.gpt2 import cut_tokens


def recognises(path: Path, head: bytes) -> bool:
    """Whether the first lines are the base64 of bytes with ranks that count up.

    >>> recognises(Path("a.tiktoken"), b"IQ== 0\\nIg== 1\\n"), recognises(Path("list"), b"low 2\\nlo 1\\n")
    (True, False)
    """
    lines = head.split(b"\n")[:-1]
    rows = [line.split() for line in lines if line.strip()]
    if not rows or not all(len(row) == 2 and row[1].isdigit() for row in rows):
        return False
    try:
        data = [base64.b64decode(token, validate=True) for token, _ in rows]
    except binascii.Error:
        return False
    return len(data[0]) == 1 and all(int(b) == int(a) + 1 for (_, a), (_, b) in pairwise(rows))


def ranks_of_gpt2(path: Path) -> dict[bytes, int]:
    """The ranks in a file. Raises VocabularyError if it is damaged or GPT-2's pattern cuts one of its tokens."""
    ranks = read_ranks(path)
    if cut := cut_tokens(list(ranks)):
        raise VocabularyError(other_pattern(path, list(ranks), cut))
    return ranks


def read_ranks(path: Path) -> dict[bytes, int]:
    """The ranks in a file, checked."""
    lines = read_bytes(path, kind=VocabularyError).split(b"\n")
    ranks, of_rank = dict[bytes, int](), dict[int, int]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        token, rank = _row(path, number, line)
        if token in ranks or rank in of_rank:
            what = f"the token {token!r}" if token in ranks else f"the rank {rank}, as line {of_rank[rank]} does,"
            raise VocabularyError(f"{path}:{number}: repeats {what}; remove one line")
        ranks[token], of_rank[rank] = rank, number
    missing = next((byte for byte in range(256) if bytes([byte]) not in ranks), None)
    if missing is not None:
        raise VocabularyError(f"{path}: no token for the byte 0x{missing:02X}: cut short or none of tiktoken's files")
    return ranks


def _row(path: Path, number: int, line: bytes) -> tuple[bytes, int]:
    """The token and the rank of one line."""
    parts = line.split()
    try:
        token, rank = base64.b64decode(parts[0], validate=True), parts[1].decode("ascii")
    except (ValueError, IndexError):
        token, rank = b"", ""
    if len(parts) != 2 or not token or not rank.isdigit() or len(rank) > MOST_DIGITS:
        shown = line[:60].decode(errors="replace")
        raise VocabularyError(f"{path}:{number}: found {shown!r} where a token in base64 and a rank, 0 or more, belong")
    return token, int(rank)
