"""subword-nmt codes → merges: a version line, then one merge a line, its parts with a space between them.

>>> read_merges("codes", b"#version: 0.2\\nl o\\nlo w</w>\\n").pairs
[('l', 'o'), ('lo', 'w</w>')]
"""

from __future__ import annotations

from pathlib import Path

from volt.errors import CandidateError
from volt.formats import MergeList

_VERSION = "#version: 0.2"


def read_merges(path: str | Path, data: bytes) -> MergeList:
    """The merges in a codes file of version 0.2. Raises CandidateError, with file and line, for anything else."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CandidateError(
            f"{path}:{line}: neither subword-nmt codes (UTF-8 text) nor a sentencepiece model"
        ) from None
    if lines[0].strip() != _VERSION:
        raise CandidateError(
            f"{path}:1: expected {_VERSION!r}, found {lines[0][:40]!r}; older codes mark word ends in another way: "
            "learn them again with subword-nmt 0.3"
        )
    rows = enumerate(lines[1 : None if lines[-1] else -1], 2)
    return MergeList([_pair(path, number, line) for number, line in rows], "suffix")


def _pair(path: str | Path, number: int, line: str) -> tuple[str, str]:
    parts = line.rstrip("\r").split(" ")
    if len(parts) != 2 or not all(parts):
        raise CandidateError(f"{path}:{number}: a merge is two parts with one space between them, not {line[:60]!r}")
    return parts[0], parts[1]
