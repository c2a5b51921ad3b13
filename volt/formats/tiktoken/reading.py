"""A file of ranks → byte-level vocabulary: tiktoken's lines, or tekken's JSON, which says more.

>>> recognises(Path("a.tiktoken"), b"IQ== 0\\n"), recognises(Path("tekken.json"), b'{"vocab": [{"token_bytes": ')
(True, True)
"""

from __future__ import annotations

from pathlib import Path

from volt.display import counted
from volt.errors import ConfigError, VocabularyError, quoted, shown_path
from volt.files.whole import read_head
from volt.formats.named import NAMES_NONE
from volt.formats.patterns import choose
from volt.formats.protocol import HEAD_SIZE, MergeList, Peer
from volt.formats.tiktoken import library, tekken
from volt.formats.tiktoken.building import vocabulary_of
from volt.formats.tiktoken.joins import merges_of
from volt.formats.tiktoken.ranks import looks_like, read_ranks
from volt.vocabulary import Vocabulary

BYTES = 256


def recognises(path: Path, head: bytes) -> bool:
    """Whether a file of this name, or one that begins so, holds ranks."""
    is_named = ".tiktoken" in path.suffixes[-2:] and bool(head)  # behind it may stand ".gz"
    return is_named or looks_like(head) or tekken.looks_like(head)


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read ranks as a byte-level vocabulary; ids are those of the file.

    tiktoken's file names no special tokens and no pattern: there are none of the former, and text is cut by the pattern
    of a published file, which its SHA-256 tells, or by GPT-2's, if the tokens fit it. `provenance["lost"]` says what
    the file does not hold.
    Raises VocabularyError, with file and line, if it is damaged, or goes with another pattern.
    """
    return read_with_pattern(path, merges=merges)


def read_with_pattern(path: Path, *, merges: Path | None = None, pattern: str | None = None) -> Vocabulary:
    """The same with text cut by a pattern: the name of a published one, or a regular expression."""
    if merges is not None:
        raise VocabularyError(f"{merges}: ranks imply the merges; leave out the merges file")
    if _is_tekken(path, pattern):
        return tekken.read(path)
    ranks = read_ranks(path)
    choice = choose(path, [token for token in ranks if token], pattern)
    provenance = {
        "format": "tiktoken",
        "pattern": choice.source,
        "lost": [*choice.notes, NAMES_NONE],
    }
    return vocabulary_of(path, ranks, choice.pretokenizer, provenance=provenance)


def read_merges(path: Path) -> MergeList:
    """The merges that ranks stand for, as candidates for a search: what cuts text is no matter here.

    Raises VocabularyError, with file and line, if the file is damaged.
    """
    if _is_tekken(path, None):
        found = tekken.read_file(path)
        ranks, cut = found.ranks, f"the pattern {quoted(found.pattern, 60)}"
    else:
        ranks, cut = read_ranks(path), "the pattern of its publisher, which it does not name"
    tokens = sorted(filter(None, ranks), key=ranks.__getitem__)
    pairs = merges_of(tokens)
    notes = [f"its merges are taken, which were made for words cut by {cut}; ids are not"]
    if left := len(tokens) - BYTES - len(pairs):
        notes.append(f"{counted(left, 'token')} that no two others make {'are' if left > 1 else 'is'} left out")
    return MergeList(pairs, "none", spells_bytes=True, notes=tuple(notes))


def original(path: Path, vocabulary: Vocabulary, *, pattern: str | None = None) -> Peer:
    """tiktoken with a file as its publisher has it, and the pattern and the special tokens that he names.

    vocabulary: what was read from the file, whose special tokens the library is told
    pattern: the name of a published one, or a regular expression as tiktoken reads it; without one, GPT-2's is assumed
        where the file names none
    """
    if _is_tekken(path, pattern):
        return tekken.original(path, vocabulary)
    return library.original(path, vocabulary, pattern=pattern)


def _is_tekken(path: Path, pattern: str | None) -> bool:
    """Whether this is a tekken.json. Raises ConfigError if a pattern is given for it, too."""
    if not tekken.looks_like(read_head(path, HEAD_SIZE, kind=VocabularyError)):
        return False
    if pattern is not None:
        raise ConfigError(
            f"{shown_path(path)}: a tekken.json says itself how text is cut into words; leave out the pattern"
        )
    return True
