r"""A file of ranks → byte-level vocabulary: tiktoken's lines, or Mistral's tekken.json.

tekken.json holds ranks with their pattern and special tokens:

    config           pattern; how many ids there are (default_vocab_size), and how many of them are special
                     (default_num_special_tokens), which come first
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
from volt.files.small_files import read_head, read_text
from volt.formats.protocol import HEAD_SIZE, MergeList, Peer
from volt.formats.tiktoken import library
from volt.formats.tiktoken.library import pattern_of, peer_of_ranks
from volt.formats.tiktoken.ranks import bytes_of, check_bytes, choose, looks_like, merges_of, read_ranks, vocabulary_of
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.ids import MOST_IDS
from volt.vocabulary.special_roles import NAMES_NONE

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
    """The content of a file.

    pattern: the pattern that cuts text
    special: the special tokens by their ids
    ranks: the tokens with their ids, which follow those of the special tokens
    """

    pattern: str
    special: tuple[str, ...]
    ranks: Mapping[bytes, int]


def read_tekken(path: Path) -> Vocabulary:
    """Return the vocabulary in a file. Raises VocabularyError, with the file and the row, if it is damaged."""
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
    """tiktoken, which mistral-common encodes with, loaded with what the file says, and the tokens of the vocabulary."""
    result = read_file(path)
    pattern = pattern_of(PreTokenizer.of_pattern(result.pattern, level="bytes"))
    return peer_of_ranks(path.name, pattern, result.ranks, vocabulary)


def read_file(path: Path) -> Tekken:
    """Return the content of a file. Raises VocabularyError, with the file and the row, if it is damaged."""
    data = _parsed(path)
    config = _entry(path, data, "config", dict)
    n_ids, n_special = (_number(path, config, key) for key in ("default_vocab_size", "default_num_special_tokens"))
    rows = _entry(path, data, "vocab", list)
    if not 0 <= n_special <= n_ids <= min(MOST_IDS, n_special + len(rows)):
        raise VocabularyError(
            f"{shown_path(path)}: {shown(n_ids)} ids, {shown(n_special)} of them special, do not go with its "
            f"{len(rows):,} tokens; restore the file"
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


def _parsed(path: Path) -> dict[str, Any]:
    text = read_text(path, kind=VocabularyError, remedy=", so no JSON; restore the file")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise VocabularyError(
            f"{shown_path(path)}:{line}: damaged or cut short here ({error}); restore the file"
        ) from None
    if not isinstance(data, dict):
        raise VocabularyError(f"{shown_path(path)}:1: no JSON object; restore the file")
    return data


def _entry(path: Path, data: Mapping[str, Any], name: str, kind: type) -> Any:
    result = data.get(name)
    if not isinstance(result, kind):
        raise VocabularyError(f"{shown_path(path)}: {name!r} is missing or no {kind.__name__}; restore the file")
    return result


def _number(path: Path, config: Mapping[str, Any], name: str) -> int:
    number: int = _entry(path, config, name, int)
    return number


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
            f"{rank} and token_bytes in base64 belong; restore the file"
        )
    return token


def _special(path: Path, data: Mapping[str, Any], n_special: int) -> tuple[str, ...]:
    rows = data.get("special_tokens")
    if rows is None:
        names = dict(enumerate(_USUAL))
    else:
        try:
            names = {row["rank"]: row["token_str"] for row in rows}
        except (LookupError, TypeError):
            names = {-1: ""}
        if len(names) < len(rows) or not all(type(number) is int for number in names):
            names = {-1: ""}
    special = tuple(names.pop(number, _UNNAMED.format(number)) for number in range(n_special))
    if names or len(set(special)) < n_special or not all(isinstance(token, str) for token in special):
        raise VocabularyError(
            f"{shown_path(path)}: 'special_tokens' is no list of tokens with ranks below {n_special:,}, each once; "
            "restore the file"
        )
    return special


BYTES = 256


def recognises(path: Path, head: bytes) -> bool:
    """Check whether a file of this name, or one that begins so, holds ranks."""
    is_named = ".tiktoken" in path.suffixes[-2:] and bool(head)  # behind it may stand ".gz"
    return is_named or looks_like(head) or looks_like_tekken(head)


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read ranks as a byte-level vocabulary; ids are those of the file.

    tiktoken's file names no special tokens and no pattern: there are none of the former, and text is cut by the pattern
    of a published file, which its SHA-256 tells, or by GPT-2's, if the tokens fit it. `provenance["lost"]` says what
    the file does not hold.
    Raises VocabularyError, with file and line, if it is damaged, or goes with another pattern.
    """
    return read_with_pattern(path, merges=merges)


def read_with_pattern(path: Path, *, merges: Path | None = None, pattern: str | None = None) -> Vocabulary:
    """Return the same with text cut by a pattern: the name of a published one, or a regular expression."""
    if merges is not None:
        raise VocabularyError(f"{merges}: ranks imply the merges; leave out the merges file")
    if _is_tekken(path, pattern):
        return read_tekken(path)
    ranks = read_ranks(path)
    choice = choose(path, [token for token in ranks if token], pattern)
    provenance = {
        "format": "tiktoken",
        "pattern": choice.source,
        "lost": [*choice.notes, NAMES_NONE],
    }
    return vocabulary_of(path, ranks, choice.pretokenizer, provenance=provenance)


def read_merges(path: Path) -> MergeList:
    """Return the merges that ranks stand for, as candidates for a search: what cuts text is no matter here.

    Raises VocabularyError, with file and line, if the file is damaged.
    """
    if _is_tekken(path, None):
        result = read_file(path)
        ranks, cut = result.ranks, f"the pattern {quoted(result.pattern, 60)}"
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
        return original_tekken(path, vocabulary)
    return library.original(path, vocabulary, pattern=pattern)


def _is_tekken(path: Path, pattern: str | None) -> bool:
    """Check whether this is a tekken.json. Raises ConfigError if a pattern is given for it, too."""
    if not looks_like_tekken(read_head(path, HEAD_SIZE, kind=VocabularyError)):
        return False
    if pattern is not None:
        raise ConfigError(
            f"{shown_path(path)}: a tekken.json says itself how text is cut into words; leave out the pattern"
        )
    return True
