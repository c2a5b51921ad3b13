r"""A file of ranks → byte-level vocabulary: tiktoken's lines, or Mistral's tekken.json.

    config           pattern; the number of ids (default_vocab_size), and of the special ones, which come first
                     (default_num_special_tokens)
    vocab            a row for each token: its rank, its bytes in base64; rows beyond the last id are not used
    special_tokens   a row for each named token; others are called <SPECIAL_20>, <SPECIAL_21>, …

Special tokens are never found in text. Up to version 7 a file may leave them out, and they have known names.

>>> recognises(Path("a.tiktoken"), b"IQ== 0\n"), recognises(Path("tekken.json"), b'{"vocab": [{"token_bytes": ')
(True, True)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volt.display import counted
from volt.errors import ConfigError, VocabularyError, quoted, shown, shown_path
from volt.files.small_files import read_head
from volt.formats.huggingface.tokens import load
from volt.formats.protocol import HEAD_SIZE, MergeList, Peer
from volt.formats.tiktoken import library
from volt.formats.tiktoken.library import pattern_of, peer_of_ranks
from volt.formats.tiktoken.ranks import bytes_of, check_bytes, choose, looks_like, merges_of, read_ranks, vocabulary_of
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.special_roles import NAMES_NONE
from volt.vocabulary.validation import MOST_IDS

_KEYS = (b'"default_num_special_tokens"', b'"token_bytes"')
_UNNAMED = "<SPECIAL_{}>"
_ROLES = ("<unk>", "<s>", "</s>", "<pad>")
_USUAL = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # fmt: skip


def looks_like_tekken(head: bytes) -> bool:
    """Check whether a file that begins so is a tekken.json."""
    return head.lstrip()[:1] == b"{" and any(key in head for key in _KEYS)


@dataclass(frozen=True, slots=True)
class Tekken:
    """The content of a tekken.json. Ids of special tokens come first, then those of ranks."""

    pattern: str
    special: tuple[str, ...]
    ranks: Mapping[bytes, int]


def read_tekken(path: Path) -> Vocabulary:
    """Return the vocabulary in a tekken.json."""
    result = read_file(path)
    unk, bos, eos, pad = (token if token in result.special else None for token in _ROLES)
    control = tuple(token for token in result.special if token not in _ROLES)
    try:
        pretokenizer = PreTokenizer.of_pattern(result.pattern, level="bytes")
        special = SpecialTokens(unk, bos, eos, pad, control=control)
    except ConfigError as error:
        raise VocabularyError(f"{shown_path(path)}: {error}") from None
    return vocabulary_of(
        path,
        result.ranks,
        pretokenizer,
        special=special,
        special_ids={token: number for number, token in enumerate(result.special)},
        provenance={"format": "tekken", "lost": []},
    )


def original_tekken(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load a tekken.json in tiktoken, as mistral-common does, with the special tokens of the vocabulary."""
    result = read_file(path)
    pattern = pattern_of(PreTokenizer.of_pattern(result.pattern, level="bytes"))
    return peer_of_ranks(path.name, pattern, result.ranks, vocabulary)


def read_file(path: Path) -> Tekken:
    """Return the content of a tekken.json. Raises VocabularyError, with the file and the row, if it is damaged."""
    data = load(path)
    config, rows = _entry(path, data, "config", dict), _entry(path, data, "vocab", list)
    n_ids, n_special = (_entry(path, config, key, int) for key in ("default_vocab_size", "default_num_special_tokens"))
    if not 0 <= n_special <= n_ids <= min(MOST_IDS, n_special + len(rows)):
        raise VocabularyError(
            f"{shown_path(path)}: {shown(n_ids)} ids, {shown(n_special)} of them special, do not go with its "
            f"{len(rows):,} tokens; download or export it again"
        )
    ranks = dict[bytes, int]()
    for rank, row in enumerate(rows[: n_ids - n_special]):
        token = _token(path, rank, row)
        if token in ranks:
            raise VocabularyError(
                f"{shown_path(path)}: vocab, row {rank + 1}: repeats {token!r} of row {ranks[token] - n_special + 1}"
            )
        ranks[token] = n_special + rank
    check_bytes(path, ranks)
    return Tekken(_entry(path, config, "pattern", str), _special(path, data, n_special), ranks)


def _entry(path: Path, data: Mapping[str, Any], name: str, kind: type) -> Any:
    result = data.get(name)
    if not isinstance(result, kind):
        raise VocabularyError(f"{shown_path(path)}: {name!r} is missing or not a {kind.__name__}; download it again")
    return result


def _token(path: Path, rank: int, row: Any) -> bytes:
    """Return the bytes of a row of `vocab`."""
    try:
        token = bytes_of(row["token_bytes"].encode())
        is_sound = row["rank"] == rank
    except (LookupError, TypeError, AttributeError, ValueError):
        token, is_sound = b"", False
    if not token or not is_sound:
        raise VocabularyError(
            f"{shown_path(path)}: vocab, row {rank + 1}: found {quoted(json.dumps(row), 100)} where the rank "
            f"{rank} and token_bytes in base64 belong; download or export it again"
        )
    return token


def _special(path: Path, data: Mapping[str, Any], n_special: int) -> tuple[str, ...]:
    rows = data.get("special_tokens")
    try:
        names = dict(enumerate(_USUAL)) if rows is None else {row["rank"]: row["token_str"] for row in rows}
        is_sound = (rows is None or len(names) == len(rows)) and all(type(number) is int for number in names)
    except (LookupError, TypeError):
        names, is_sound = {}, False
    special = tuple(names.pop(number, _UNNAMED.format(number)) for number in range(n_special))
    if names or not is_sound or len(set(special)) < n_special or not all(isinstance(token, str) for token in special):
        raise VocabularyError(
            f"{shown_path(path)}: 'special_tokens' is not a list of tokens with ranks below {n_special:,}, each once; "
            "download or export it again"
        )
    return special


def recognises(path: Path, head: bytes) -> bool:
    """Check whether a file of this name, or one that begins so, holds ranks."""
    is_named = ".tiktoken" in path.suffixes[-2:] and bool(head)  # behind it may stand ".gz"
    return is_named or looks_like(head) or looks_like_tekken(head)


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read ranks as a byte-level vocabulary; ids are those of the file. `choose` picks the pattern."""
    return read_with_pattern(path, merges=merges)


def read_with_pattern(path: Path, *, merges: Path | None = None, pattern: str | None = None) -> Vocabulary:
    """Read ranks with a pattern that cuts text: the name of a published one, or a regular expression."""
    if merges is not None:
        raise VocabularyError(f"{merges}: ranks imply the merges; remove the merges file")
    if _is_tekken(path, pattern):
        return read_tekken(path)
    ranks = read_ranks(path)
    choice = choose(path, [token for token in ranks if token], pattern)
    provenance = {"format": "tiktoken", "pattern": choice.source, "lost": [*choice.notes, NAMES_NONE]}
    return vocabulary_of(path, ranks, choice.pretokenizer, provenance=provenance)


def read_merges(path: Path) -> MergeList:
    """Return the merges that ranks stand for, as candidates for a search, whatever cuts text."""
    if _is_tekken(path, None):
        result = read_file(path)
        ranks, cut = result.ranks, f"the pattern {quoted(result.pattern, 60)}"
    else:
        ranks, cut = read_ranks(path), "the pattern of its publisher, which it does not name"
    tokens = sorted(filter(None, ranks), key=ranks.__getitem__)
    pairs = merges_of(tokens)
    notes = [f"its merges are taken, which were made for words cut by {cut}; ids are not"]
    if left := len(tokens) - 256 - len(pairs):
        notes.append(f"{counted(left, 'token')} that no two others make {'are' if left > 1 else 'is'} left out")
    return MergeList(pairs, "none", spells_bytes=True, notes=tuple(notes))


def original(path: Path, vocabulary: Vocabulary, *, pattern: str | None = None) -> Peer:
    """Load a file in tiktoken as its publisher does. pattern: a name or a regular expression, if the file names none"""
    if _is_tekken(path, pattern):
        return original_tekken(path, vocabulary)
    return library.original(path, vocabulary, pattern=pattern)


def _is_tekken(path: Path, pattern: str | None) -> bool:
    """Check whether this is a tekken.json. Raises ConfigError if a pattern is given for it, too."""
    if not looks_like_tekken(read_head(path, HEAD_SIZE, kind=VocabularyError)):
        return False
    if pattern is not None:
        raise ConfigError(f"{shown_path(path)}: a tekken.json defines how text is split into words; remove the pattern")
    return True
