"""The text of a codes file → its merges: subword-nmt's of both versions, and fastBPE's, which have counts.

>>> read_merges("codes", b"#version: 0.2\\nl o\\nlo w</w>\\n").pairs
[('l', 'o'), ('lo', 'w</w>')]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from volt.errors import CandidateError
from volt.files.whole import decoded
from volt.formats import byte_merges
from volt.formats.protocol import MergeList
from volt.text.markers import SUFFIX

VERSION, _OLD = "#version: 0.2", "#version: 0.1"


def read_merges(path: str | Path, data: bytes) -> MergeList:
    """The merges in a codes file; those of version 0.1 are rewritten, see `_from_01`.

    GPT-2's merges.txt looks alike, and is known by its letters, see `volt.formats.byte_merges`.
    Raises CandidateError, with file and line, for anything else.
    """
    told = ", so no subword-nmt codes, and no sentencepiece model; give one of these"
    lines = decoded(path, data, kind=CandidateError, remedy=told).split("\n")
    if not data.strip():
        raise CandidateError(f"{path}:1: empty; restore the codes")
    named = lines[0].startswith("#version:")
    if named and lines[0].strip() not in (VERSION, _OLD):
        raise CandidateError(
            f"{path}:1: expected {VERSION!r} or {_OLD!r}, found {lines[0][:40]!r}; learn the codes again with "
            "subword-nmt 0.3"
        )
    rows = list(enumerate(lines[named : None if lines[-1] else -1], 1 + named))
    is_counted = not named and bool(rows) and is_counted_line(rows[0][1])
    pairs = [(number, *_pair(path, number, line, is_counted=is_counted)) for number, line in rows]
    plain = [(left, right) for _, left, right in pairs]
    if byte_merges.spells_bytes(plain):
        return MergeList(plain, "none", spells_bytes=True)
    _refuse_others(path, plain)
    notes = (byte_merges.ASSUMED,) * byte_merges.is_ambiguous(plain)
    is_new = is_counted or lines[0].strip() == VERSION
    return MergeList(plain if is_new else list(_from_01(path, pairs)), "suffix", notes=notes)


def _refuse_others(path: str | Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Raise CandidateError for merges that are written alike, but mark words in another way."""
    if byte_merges.marks_starts(pairs):
        raise CandidateError(
            f"{path}: its merges mark words by '▁' in front and none by '</w>', so these are no codes of subword-nmt; "
            "give the tokenizer.json or the sentencepiece model that they come from"
        )
    bare = [(left.removesuffix(SUFFIX), right.removesuffix(SUFFIX)) for left, right in pairs]
    if byte_merges.spells_bytes([(left, right) for left, right in bare if left and right]):
        raise CandidateError(
            f"{path}: its merges spell bytes, as GPT-2's do, and mark word ends by '</w>', as CLIP's do; they do not "
            "tell how words are cut: give the tokenizer.json that goes with them"
        )


def _from_01(path: str | Path, rows: Sequence[tuple[int, str, str]]) -> Iterator[tuple[str, str]]:
    """Merges of version 0.1 → merges of version 0.2 that cut every word alike.

    In 0.1 "</w>" is a symbol of its own behind the last character, so x and "</w>" merge at some rank, or never. Until
    then x is merged as elsewhere, afterwards only as "x</w>". In 0.2 the last symbol is "x</w>" from the start: each
    merge of an x that can stand there unjoined is needed for it too, right behind, because the end comes last. That is
    exact as long as no token is made by two merges, for then ranks only rise while a word is encoded.

    >>> list(_from_01("codes", [(1, "l", "o"), (2, "o", "</w>"), (3, "lo", "w"), (4, "b", "o</w>")]))
    [('l', 'o'), ('l', 'o</w>'), ('lo', 'w'), ('lo', 'w</w>'), ('b', 'o</w>')]
    """
    joined = {left: number for number, left, right in reversed(rows) if right == SUFFIX}
    made, unjoined, new = {SUFFIX}, set[str](), dict[tuple[str, str], None]()
    for number, left, right in rows:
        for part in (left, right):
            if len(part) > 1 and part not in made:
                raise CandidateError(f"{path}:{number}: no character and no earlier merge makes {part!r}; restore it")
        made.add(left + right)
        if right.endswith(SUFFIX):
            new |= {(left, right): None} if right != SUFFIX else {}
        else:
            new[left, right] = None
            if (len(right) == 1 or right in unjoined) and joined.get(right, number) >= number:
                new[left, right + SUFFIX] = None
                unjoined.add(left + right)
    return _makeable(new)


def _makeable(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The merges without those that cannot apply, because nothing makes a part of theirs.

    >>> list(_makeable([("l", "o"), ("lo", "w</w>"), ("a", "bc</w>")]))
    [('l', 'o'), ('lo', 'w</w>')]
    """
    made = set[str]()
    for pair in pairs:
        if all(len(part) == 1 or len(part.removesuffix(SUFFIX)) == 1 or part in made for part in pair):
            made.add("".join(pair))
            yield pair


def _pair(path: str | Path, number: int, line: str, *, is_counted: bool) -> tuple[str, str]:
    """The merge in a line. is_counted: whether its count stands behind it, as fastBPE writes it."""
    parts = line.rstrip("\r").split(" ")
    if is_counted and len(parts) == 3 and parts[2].isdecimal():
        parts.pop()
    elif is_counted:
        raise CandidateError(
            f"{path}:{number}: a merge is two parts and a count here, with a space between two, not {line[:60]!r}; "
            "restore it"
        )
    if len(parts) != 2 or not all(parts):
        raise CandidateError(
            f"{path}:{number}: a merge is two parts with one space between them, not {line[:60]!r}; restore it"
        )
    return parts[0], parts[1]


def is_counted_line(line: str) -> bool:
    """Whether a line is a merge and its count, as fastBPE writes it.

    >>> is_counted_line("t h 5712"), is_counted_line("t h")
    (True, False)
    """
    parts = line.rstrip("\r").split(" ")
    return len(parts) == 3 and all(parts) and parts[2].isdecimal()


def recognises(path: Path, head: bytes) -> bool:
    """Whether a file that starts so holds subword-nmt codes: they name their version, or are as those of 0.1.

    So do codes of fastBPE, which have counts.

    >>> recognises(Path("codes"), b"#version: 0.2\\nl o\\n"), recognises(Path("list"), b"lo\\n")
    (True, False)
    """
    return head.startswith(b"#version: 0.") or _is_old(head)


def _is_old(head: bytes) -> bool:
    """Whether this is codes that may lack a version line: pairs of strings, some at word ends, or such with counts.

    >>> _is_old(b"l o\\no </w>\\n"), _is_old(b"the 5\\nof 3\\n"), _is_old(b"t h 9\\nth e</w> 7\\n")
    (True, False, True)
    """
    rows = [line.rstrip(b"\r").split(b" ") for line in head.split(b"\n")[:-1]]
    n = 3 if rows and len(rows[0]) == 3 and all(len(row) == 3 and row[2].isdigit() for row in rows) else 2
    return all(len(row) == n and all(row) for row in rows) and any(row[1].endswith(b"</w>") for row in rows)
