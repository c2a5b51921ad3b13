r"""A file of ranks → byte-level vocabulary: tiktoken's lines, or Mistral's tekken.json.

    config           pattern; the number of ids (default_vocab_size), and of the special ones, which come first
                     (default_num_special_tokens)
    vocab            a row for each token: its rank and its bytes in base64; rows after the last id are not used
    special_tokens   a row for each named token; others are called <SPECIAL_20>, <SPECIAL_21>, …

Special tokens are never found in text. A file of version 7 or earlier may omit them: their names are known.

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
from volt.files.small_files import read_bytes
from volt.formats.huggingface.tokens import load
from volt.formats.protocol import HEAD_SIZE, MergeList
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


def _vocabulary_of_tekken(path: Path, result: Tekken) -> Vocabulary:
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


def read_tekken(path: Path, content: bytes) -> Tekken:
    """Parse a tekken.json. Raises VocabularyError, with the file and the row, if it is damaged."""
    data = load(path, content)
    config, rows = _entry(path, data, "config", dict), _entry(path, data, "vocab", list)
    n_ids, n_special = (_entry(path, config, key, int) for key in ("default_vocab_size", "default_num_special_tokens"))
    if not 0 <= n_special <= n_ids <= min(MOST_IDS, n_special + len(rows)):
        numbers = f"{shown(n_ids)} ids, {shown(n_special)} of them special, do not go with its {len(rows):,} tokens"
        raise VocabularyError(f"{shown_path(path)}: {numbers}; download or export it again")
    ranks = dict[bytes, int]()
    for rank, row in enumerate(rows[: n_ids - n_special]):
        token = _token(path, rank, row)
        if token in ranks:
            first = ranks[token] - n_special + 1
            raise VocabularyError(f"{shown_path(path)}: vocab, row {rank + 1}: repeats {token!r} of row {first}")
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
        what = f"found {quoted(json.dumps(row), 100)} instead of the rank {rank} and token_bytes in base64"
        raise VocabularyError(f"{shown_path(path)}: vocab, row {rank + 1}: {what}; download or export it again")
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
        what = f"'special_tokens' is not a list of tokens with ranks below {n_special:,}, each once"
        raise VocabularyError(f"{shown_path(path)}: {what}; download or export it again")
    return special


def recognises(path: Path, head: bytes) -> bool:
    """Check whether a file's name or first bytes are typical of ranks."""
    is_named = ".tiktoken" in path.suffixes[-2:] and bool(head)  # ".gz" may follow
    return is_named or looks_like(head) or looks_like_tekken(head)


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read ranks as a byte-level vocabulary with the file's ids. `choose` picks the pattern."""
    return read_with_pattern(path, merges=merges)


def read_with_pattern(path: Path, *, merges: Path | None = None, pattern: str | None = None) -> Vocabulary:
    """Read ranks with a pattern that cuts text: the name of a published one, or a regular expression."""
    if merges is not None:
        raise VocabularyError(f"{merges}: ranks imply the merges; remove the merges file")
    data = read_bytes(path, kind=VocabularyError)
    if is_tekken(path, data, pattern):
        return _vocabulary_of_tekken(path, read_tekken(path, data))
    ranks = read_ranks(path, data)
    choice = choose(path, data, ranks, pattern)
    provenance = {"format": "tiktoken", "pattern": choice.source, "lost": [*choice.notes, NAMES_NONE]}
    return vocabulary_of(path, ranks, choice.pretokenizer, provenance=provenance)


def read_merges(path: Path) -> MergeList:
    """Return the merges that ranks stand for, as candidates for a search, whatever cuts text."""
    data = read_bytes(path, kind=VocabularyError)
    if is_tekken(path, data, None):
        result = read_tekken(path, data)
        ranks, cut = result.ranks, f"the pattern {quoted(result.pattern, 60)}"
    else:
        ranks, cut = read_ranks(path, data), "the pattern of its publisher, which it does not name"
    tokens = sorted(filter(None, ranks), key=ranks.__getitem__)
    pairs = merges_of(tokens)
    notes = [f"its merges are taken, which were made for words cut by {cut}; ids are not"]
    if left := len(tokens) - 256 - len(pairs):
        notes.append(f"{counted(left, 'token')} that no two others make {'are' if left > 1 else 'is'} left out")
    return MergeList(pairs, "none", spells_bytes=True, notes=tuple(notes))


def is_tekken(path: Path, data: bytes, pattern: str | None) -> bool:
    """Check whether a file's content is a tekken.json. Raises ConfigError if a pattern is given for it, too."""
    if (result := looks_like_tekken(data[:HEAD_SIZE])) and pattern is not None:
        raise ConfigError(f"{shown_path(path)}: a tekken.json defines how text is split into words; remove the pattern")
    return result
