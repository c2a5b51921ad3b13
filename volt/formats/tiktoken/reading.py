r"""A file of ranks → byte-level vocabulary: tiktoken's lines, or Mistral's tekken.json; a `Peer`.

    config           pattern; default_vocab_size, the number of ids; default_num_special_tokens, the
                     number of special ids, which come first
    vocab            a row for each token: its rank and its bytes in base64; rows after the last id
                     are not used
    special_tokens   a row for each named special token; the others are called <SPECIAL_20>, …

Special tokens are never found in text. A file of version 7 or earlier may omit them, because their
names are fixed.

`peer` loads the file in tiktoken itself, with the pattern and the special tokens of a vocabulary,
because tiktoken's files contain neither.

>>> recognises(Path("a.tiktoken"), b"IQ== 0\n")
True
>>> recognises(Path("tekken.json"), b'{"vocab": [{"token_bytes": ')
True
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from volt.display import counted
from volt.errors import ConfigError, VocabularyError, quoted, shown, shown_path
from volt.files.small_files import read_bytes
from volt.formats.huggingface.folder import load
from volt.formats.huggingface.pipeline_writing import Json
from volt.formats.protocol import HEAD_SIZE, MergeList, Peer, locate_errors, require_library
from volt.formats.tiktoken.ranks import (
    check_bytes,
    choose_pattern,
    decode_base64,
    drops_text,
    looks_like,
    merges_of,
    read_ranks,
    vocabulary_of,
    with_gaps,
)
from volt.text.byte_alphabet import to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import NAMES_NONE
from volt.vocabulary.validation import MOST_IDS

# GPT-2's pattern as tiktoken spells it: it splits as the original does, and faster.
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
# One of these is near the start of a tekken.json.
_TEKKEN_KEYS = (b'"default_num_special_tokens"', b'"token_bytes"')
_UNNAMED = "<SPECIAL_{}>"
_ROLES = ("<unk>", "<s>", "</s>", "<pad>")
# The special tokens of files that do not list them, by id
_USUAL_NAMES = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] "
    "[/TOOL_RESULTS] [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] "
    "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
)


def looks_like_tekken(head: bytes) -> bool:
    """Check whether a file that begins with `head` is a tekken.json."""
    return head.lstrip()[:1] == b"{" and any(key in head for key in _TEKKEN_KEYS)


class RanksFile(NamedTuple):
    """The content of a ranks file.

    ranks: token → rank
    pattern, special: only in a tekken.json: the pattern that splits text; the special tokens, whose
        ids are 0, 1, …
    """

    ranks: Mapping[bytes, int]
    pattern: str | None = None
    special: tuple[str, ...] = ()


def read_file(path: Path, data: bytes, *, pattern: str | None = None) -> RanksFile:
    """Parse a ranks file of either kind.

    data: the file's content
    pattern: the caller's pattern, which a tekken.json does not allow

    Raises VocabularyError, with line or row, for damage; ConfigError for a pattern and a
    tekken.json.
    """
    if not looks_like_tekken(data[:HEAD_SIZE]):
        return RanksFile(read_ranks(path, data))
    if pattern is not None:
        raise ConfigError(
            f"{shown_path(path)}: a tekken.json defines how text is split into words; remove the pattern"
        )
    content = load(path, data)
    with locate_errors(shown_path(path)):
        return _read_tekken(content)


def _read_tekken(data: Json) -> RanksFile:
    config = _entry(data, "config", dict)
    rows = _entry(data, "vocab", list)
    n_ids = _entry(config, "default_vocab_size", int)
    n_special = _entry(config, "default_num_special_tokens", int)
    if not 0 <= n_special <= n_ids <= min(MOST_IDS, n_special + len(rows)):
        raise VocabularyError(
            f"{shown(n_ids)} ids, {shown(n_special)} of them special, do not match its "
            f"{len(rows):,} tokens; download or export it again"
        )
    ranks = dict[bytes, int]()
    for index, row in enumerate(rows[: n_ids - n_special]):
        token = _read_token(index, row)
        first = ranks.setdefault(token, n_special + index) - n_special
        if first != index:
            raise VocabularyError(f"vocab, row {index + 1}: repeats {token!r} of row {first + 1}")
    check_bytes(ranks)
    return RanksFile(ranks, _entry(config, "pattern", str), _read_special(data, n_special))


def _entry(data: Json, name: str, kind: type) -> Any:
    if not isinstance(result := data.get(name), kind):
        raise VocabularyError(f"{name!r} is missing or not a {kind.__name__}; download it again")
    return result


def _read_token(rank: int, row: Any) -> bytes:
    with suppress(LookupError, TypeError, AttributeError, ValueError):
        token = decode_base64(row["token_bytes"].encode())
        if token and row["rank"] == rank:
            return token
    raise VocabularyError(
        f"vocab, row {rank + 1}: found {quoted(json.dumps(row), 100)} instead of the rank {rank} "
        "and token_bytes in base64; download or export it again"
    )


def _read_special(data: Json, n_special: int) -> tuple[str, ...]:
    """Return the special tokens of a tekken.json in the order of their ids, 0 to n_special - 1."""
    rows = data.get("special_tokens")
    names = dict[int, str](enumerate(_USUAL_NAMES.split()))
    is_valid = True
    if rows is not None:
        try:
            names = {row["rank"]: row["token_str"] for row in rows}
            is_valid = len(names) == len(rows) and {*map(type, names)} <= {int}
        except (LookupError, TypeError):
            is_valid = False
    special = tuple(names.pop(number, _UNNAMED.format(number)) for number in range(n_special))
    are_texts = {*map(type, special)} <= {str}
    if not (is_valid and are_texts) or names or len(set(special)) < n_special:
        raise VocabularyError(
            f"'special_tokens' must list each rank below {n_special:,} at most once; export it again"
        )
    return special


def recognises(path: Path, head: bytes) -> bool:
    """Check whether a file's name or first bytes are typical of ranks files."""
    is_named = bool(head) and ".tiktoken" in path.suffixes[-2:]
    return is_named or looks_like(head) or looks_like_tekken(head)


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read ranks as a byte-level vocabulary with the file's ids, and a pattern that
    `choose_pattern` picks.
    """
    return read_with_pattern(path, merges=merges)


def read_with_pattern(
    path: Path, *, merges: Path | None = None, pattern: str | None = None
) -> Vocabulary:
    """Read ranks with a pattern that splits text: the name of a published pattern, or a regular
    expression.
    """
    if merges is not None:
        raise VocabularyError(f"{merges}: ranks imply the merges; remove the merges file")
    data = read_bytes(path, kind=VocabularyError)
    file = read_file(path, data, pattern=pattern)
    if file.pattern is not None:
        return _vocabulary_of_tekken(path, file)
    choice = choose_pattern(path, data, file.ranks, pattern)
    lost = [*choice.notes, NAMES_NONE]
    provenance = {"format": "tiktoken", "pattern": choice.source, "lost": lost}
    return vocabulary_of(path, file.ranks, choice.pretokenizer, provenance=provenance)


def _vocabulary_of_tekken(path: Path, file: RanksFile) -> Vocabulary:
    unk, bos, eos, pad = (token if token in file.special else None for token in _ROLES)
    control = tuple(token for token in file.special if token not in _ROLES)
    with locate_errors(shown_path(path)):
        pretokenizer = PreTokenizer.of_pattern(str(file.pattern), level="bytes")
        special = SpecialTokens(unk, bos, eos, pad, control=control)
    return vocabulary_of(
        path,
        file.ranks,
        pretokenizer,
        special=special,
        special_ids={token: number for number, token in enumerate(file.special)},
        provenance={"format": "tekken", "lost": []},
    )


def read_merges(path: str | Path, data: bytes) -> MergeList:
    """Return the merges that ranks imply, as candidates for a search, which needs no pattern."""
    file = read_file(Path(path), data)
    cut = "the pattern of its publisher, which it does not name"
    if file.pattern is not None:
        cut = f"the pattern {quoted(file.pattern, 60)}"
    tokens = sorted(filter(None, file.ranks), key=file.ranks.__getitem__)
    pairs = merges_of(tokens)
    notes = [
        f"only its merges are taken, which were made for words cut by {cut}; its ids are not used"
    ]
    if n_left_out := len(tokens) - 256 - len(pairs):
        left_out = counted(n_left_out, "token is", "tokens are")
        notes.append(f"{left_out} left out, which no two other tokens spell")
    return MergeList(pairs, "none", spells_bytes=True, notes=tuple(notes))


def peer(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load a ranks file in tiktoken, with the pattern and the special tokens of a vocabulary.

    tiktoken's ids are ranks. The peer has ids only if each token's rank is its id in the
    vocabulary. Otherwise special tokens get the ids after the ranks. tiktoken finds only user
    tokens in text, as VOLT does.

    Raises VocabularyError if the file is damaged, or if tiktoken cannot split as the vocabulary
    does; ConfigError if tiktoken cannot read the pattern.
    """
    rank_of_bytes = read_file(path, read_bytes(path, kind=VocabularyError)).ranks
    pattern = pattern_of(vocabulary.pretokenizer)
    special = vocabulary.special
    ids = vocabulary.ids
    ranks_are_ids = all(
        ids.get(to_characters(token)) == rank for token, rank in rank_of_bytes.items() if token
    )
    special_ids = {token: ids[token] for token in special.all}
    if not ranks_are_ids:
        first_free_id = max(rank_of_bytes.values()) + 1
        special_ids = {token: number for number, token in enumerate(special.all, first_free_id)}

    with require_library("tiktoken"):
        import tiktoken
    try:
        encoding = tiktoken.Encoding(
            path.name,
            pat_str=pattern,
            mergeable_ranks=dict(rank_of_bytes),
            special_tokens=special_ids,
        )
    except ValueError as error:
        raise ConfigError(
            f"tiktoken cannot read the pattern {quoted(pattern, 200)}: {error}"
        ) from None
    special_of_id = {number: token for token, number in special_ids.items()}
    user = set(special.user)

    def encode_ids(lines: Sequence[str]) -> list[list[int]]:
        return [
            encoding.encode(line, allowed_special=user, disallowed_special=()) for line in lines
        ]

    def spell(number: int) -> str:
        token = special_of_id.get(number)
        return token or to_characters(encoding.decode_single_token_bytes(number))

    def encode_pieces(lines: Sequence[str]) -> list[list[str]]:
        return [list(map(spell, line_ids)) for line_ids in encode_ids(lines)]

    return Peer("tiktoken", encode_pieces, encode_ids if ranks_are_ids else None)


def pattern_of(pretokenizer: PreTokenizer) -> str:
    """Return the pattern with which tiktoken splits text as a pre-tokenizer does.

    Raises VocabularyError unless the pre-tokenizer is over bytes and splits by one pattern.
    """
    splits = pretokenizer.splits
    if not splits and pretokenizer.is_bytes:
        return GPT2_PATTERN
    if len(splits) != 1 or splits[0].from_end or not pretokenizer.is_bytes:
        raise VocabularyError(
            f"tiktoken cuts bytes by one pattern, so it cannot use {quoted(pretokenizer.name)}"
        )
    pattern = splits[0].pattern
    return with_gaps(pattern) if drops_text(pretokenizer) else pattern
