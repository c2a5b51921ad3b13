"""tiktoken's ranks file: a line for each token, its bytes in base64 and its rank, which is its id.

>>> looks_like(b"IQ== 0\\nIg== 1\\n"), looks_like(b"low 2\\nlo 1\\n")
(True, False)
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from pathlib import Path

from volt.errors import VocabularyError
from volt.files.whole import read_bytes
from volt.formats.protocol import MOST_DIGITS
from volt.vocabulary.numbering import MOST_IDS

_MOSTLY, _PADDED = 0.9, 0.25  # shares of the first lines
_N_TELLING = 32  # lines; what is wrong behind them is damage
_NO_BYTES = (b"=", b"==")  # what tiktoken's reader takes for a token without bytes: its rank is that of no text


def looks_like(head: bytes) -> bool:
    """Whether the first lines, but for a few that are damaged, are each the base64 of bytes and a rank, in any order.

    Words of a list may look like base64 too, but next to none of them ends with "=".
    """
    rows = [line.split() for line in head.split(b"\n")[:-1][:_N_TELLING] if line.strip()]
    sound = [row[0] for row in rows if len(row) == 2 and row[1].isdigit() and _is_base64(row[0])]
    n_padded = sum(token.endswith(b"=") and token not in _NO_BYTES for token in sound)
    return bool(rows) and len(sound) >= _MOSTLY * len(rows) and n_padded >= _PADDED * len(rows)


def _is_base64(token: bytes) -> bool:
    try:
        return bool(bytes_of(token)) or token in _NO_BYTES
    except binascii.Error:
        return False


def read_ranks(path: Path) -> dict[bytes, int]:
    """The ranks in a file by their tokens, which need not be in order. A token of no bytes occurs in no text.

    Raises VocabularyError, with file and line, if it is damaged, repeats a token or a rank, or lacks a byte.
    """
    data = read_bytes(path, kind=VocabularyError)
    ranks = _fast(data)
    if ranks is None:
        ranks = _ranks_by_lines(path, data.split(b"\n"))
    check_bytes(path, ranks)
    return ranks


def check_bytes(path: Path, tokens: Iterable[bytes]) -> None:
    """Raise VocabularyError if a byte is no token, so that not all text could be encoded."""
    single = {token for token in tokens if len(token) == 1}
    missing = next((byte for byte in range(256) if bytes([byte]) not in single), None)
    if missing is not None:
        raise VocabularyError(
            f"{path}: no token for the byte 0x{missing:02X}: cut short or none of tiktoken's files; restore it"
        )


def _fast(data: bytes) -> dict[bytes, int] | None:
    """The ranks of a file without fault; None where a look at each line must tell what is wrong."""
    lines = data.split(b"\n")
    parts = data.split()
    if not all(line.count(b" ") == 1 for line in lines if line) or len(parts) % 2:
        return None
    try:
        found = dict(zip(map(bytes_of, parts[::2]), map(int, parts[1::2]), strict=True))
    except ValueError:  # of int, and of binascii
        return None
    numbers = set(found.values())
    is_sound = len(found) == len(numbers) == len(parts) // 2 and bool(numbers)
    return found if is_sound and min(numbers) >= 0 and max(numbers) < MOST_IDS else None


def bytes_of(token: bytes) -> bytes:
    """What base64 stands for. Raises ValueError if it is none.

    >>> bytes_of(b"bG8="), bytes_of(b"=")
    (b'lo', b'')
    """
    return b"" if token in _NO_BYTES else binascii.a2b_base64(token, strict_mode=True)


def _ranks_by_lines(path: Path, lines: Iterable[bytes]) -> dict[bytes, int]:
    """The same, line by line. Raises VocabularyError with the first line that is wrong."""
    ranks, of_rank = dict[bytes, int](), dict[int, int]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        token, rank = _row(path, number, line)
        if token in ranks or rank in of_rank:
            what = f"the token {token!r}" if token in ranks else f"the rank {rank} of line {of_rank[rank]}"
            raise VocabularyError(f"{path}:{number}: repeats {what}; remove one line, or restore the file")
        ranks[token], of_rank[rank] = rank, number
    return ranks


def _row(path: Path, number: int, line: bytes) -> tuple[bytes, int]:
    """The token and the rank of one line."""
    parts = line.split()
    try:
        token, rank = bytes_of(parts[0]), parts[1].decode("ascii")
    except (ValueError, IndexError):
        token, rank = b"", ""
    if len(parts) != 2 or not rank.isdigit() or len(rank) > MOST_DIGITS:
        shown = line[:60].decode(errors="replace")
        raise VocabularyError(
            f"{path}:{number}: found {shown!r} where a token in base64 and a rank, 0 or more, belong; restore the file"
        )
    if int(rank) >= MOST_IDS:
        raise VocabularyError(f"{path}:{number}: the rank {rank} is no id: {MOST_IDS:,} ids are the most; restore it")
    return token, int(rank)
