"""tekken.json of Mistral: tiktoken's ranks with their pattern and special tokens, in one file.

    config           pattern; how many ids there are (default_vocab_size), and how many of them are special
                     (default_num_special_tokens), which come first
    vocab            a row for each token: its rank, its bytes in base64; those that no id is left for are not used
    special_tokens   a row for each that has a name; the others are called <SPECIAL_20>, <SPECIAL_21>, …

Special tokens are never found in text. Up to version 7 a file may leave them out, and they have known names.

>>> looks_like(b'{"config": {"pattern": "a", "default_num_special_tokens": 9'), looks_like(b'{"added_tokens": []')
(True, False)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volt.errors import ConfigError, VocabularyError, quoted, shown, shown_path
from volt.files.whole import read_text
from volt.formats.protocol import Peer
from volt.formats.tiktoken.building import vocabulary_of
from volt.formats.tiktoken.library import pattern_of, peer_of_ranks
from volt.formats.tiktoken.ranks import bytes_of, check_bytes
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.numbering import MOST_IDS

_KEYS = (b'"default_num_special_tokens"', b'"token_bytes"')
_UNNAMED = "<SPECIAL_{}>"
_ROLES = ("<unk>", "<s>", "</s>", "<pad>")
_USUAL = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # fmt: skip


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so is a tekken.json."""
    return head.lstrip()[:1] == b"{" and any(key in head for key in _KEYS)


@dataclass(frozen=True, slots=True)
class Tekken:
    """What a file says.

    pattern: what cuts text
    special: the special tokens by their ids
    ranks: the tokens with their ids, which follow those of the special tokens
    """

    pattern: str
    special: tuple[str, ...]
    ranks: Mapping[bytes, int]


def read(path: Path) -> Vocabulary:
    """The vocabulary in a file. Raises VocabularyError, with the file and the row, if it is damaged."""
    found = read_file(path)
    unk, bos, eos, pad = (token if token in found.special else None for token in _ROLES)
    control = tuple(token for token in found.special if token not in _ROLES)
    try:
        pretokenizer = PreTokenizer.of_pattern(found.pattern, level="bytes")
        special = SpecialTokens(unk, bos, eos, pad, control=control)
    except ConfigError as error:
        raise VocabularyError(f"{shown_path(path)}: {error}") from None
    return vocabulary_of(
        path,
        found.ranks,
        pretokenizer,
        special=special,
        special_ids={token: number for number, token in enumerate(found.special)},
        provenance={"format": "tekken", "lost": []},
    )


def original(path: Path, vocabulary: Vocabulary) -> Peer:
    """tiktoken, which mistral-common encodes with, loaded with what the file says, and the tokens of the vocabulary."""
    found = read_file(path)
    pattern = pattern_of(PreTokenizer.of_pattern(found.pattern, level="bytes"))
    return peer_of_ranks(path.name, pattern, found.ranks, vocabulary)


def read_file(path: Path) -> Tekken:
    """What a file says, checked. Raises VocabularyError, with the file and the row, if it is damaged."""
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
    found = data.get(name)
    if not isinstance(found, kind):
        raise VocabularyError(f"{shown_path(path)}: {name!r} is missing or no {kind.__name__}; restore the file")
    return found


def _number(path: Path, config: Mapping[str, Any], name: str) -> int:
    number: int = _entry(path, config, name, int)
    return number


def _token(path: Path, rank: int, row: Any) -> bytes:
    """The bytes of a row of `vocab`."""
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
    """The special tokens by their ids."""
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
