"""Ranks of tiktoken → merges, the pattern that splits text, and a byte-level vocabulary with the
ranks as ids.

A ranks file has a line for each token: its bytes in base64 and its rank, which is its id. tiktoken
joins the two neighbours whose joint bytes have the lowest rank, the leftmost on ties, until no
neighbours have a rank:

    ranks a 0, b 1, c 2, ab 3, bc 4, abc 5:  a b c → ab c → abc

`find_joins` returns the merges of VOLT's vocabulary, which merges by "ranks", too. Files do not
name the pattern that splits text, so `choose_pattern` picks it: VOLT recognises published files by
SHA-256. For other files it assumes GPT-2's pattern, if that splits almost no token and no other
published pattern fits as well.

>>> ranks = {bytes([byte]): byte for byte in range(256)} | {b"lo": 256, b"low": 258}
>>> vocabulary = vocabulary_of(Path("a"), ranks, PreTokenizer("bytes"), provenance={})
>>> vocabulary.ids["low"], len(vocabulary), vocabulary.pieces[257], vocabulary.merging
(258, 259, '', 'ranks')
"""

from __future__ import annotations

import binascii
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Literal

from volt.errors import VocabularyError, shown_path
from volt.formats.protocol import MOST_DIGITS, Pair, locate_errors
from volt.text.byte_alphabet import to_characters
from volt.text.patterns.cut_tokens import cut_tokens, leaves_gaps, n_cut
from volt.text.patterns.published import NAMED, drops_rest, of_matches
from volt.text.patterns.splitter import cut_alike
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.validation import MOST_IDS

PUBLISHED = (
    "gpt2",
    "cl100k",
    "o200k",
    "llama3",
    "qwen2",
    "qwen3.5",
    "tekken",
    "deepseek3",
    "kimi2",
)
SUPERBPE = "superbpe"  # splits almost no token of any file
KNOWN = {  # the first digits of the SHA-256 of a file → a description of the file, and its pattern
    "306cd27f03c1a714": ("r50k_base of OpenAI", "gpt2"),
    "94b5ca7dff4d0076": ("p50k_base of OpenAI", "gpt2"),
    "223921b76ee99bde": ("cl100k_base of OpenAI", "cl100k"),
    "446a9538cb6c348e": ("o200k_base of OpenAI", "o200k"),
    "b34b360dbb493e78": ("the multilingual file of Whisper", "gpt2"),
    "82e9d31979e92ab9": ("Llama 3's", "llama3"),
    "d0bdbaf59b0762c8": ("Llama 4's", "o200k"),
    "b2b1b8dfb5cc5f02": ("Qwen's first one", "qwen2"),
    "8dde380a6405e935": ("Qwen 3.6's", "qwen3.5"),
}
_N_DIGITS = 16  # of a SHA-256 in `KNOWN`
_ALIKE = {"gpt2": ("gpt2", "r50k")}  # patterns that cut alike
# The share of tokens that a fitting pattern may split: one in 10,000 of Whisper's multilingual file.
MOST_CUT = 0.001
TELLING = 10_000  # tokens, enough to contain numbers and signs that tell patterns apart
_N_HINTS = 4  # patterns that an error suggests
_N_TRIED = 20_000  # tokens, evenly spaced, on which the caller's pattern is tried
_MAKE_SURE = "make sure that it is the pattern that the publisher names."
NO_SPECIAL = SpecialTokens(None, None, None, None)
_NO_BYTES = (b"=", b"==")  # tiktoken reads these as a token without bytes, which occurs in no text
# `looks_like` needs these shares of the first lines to be valid, and to be valid and padded with "=".
_LEAST_VALID = 0.9
_LEAST_PADDED = 0.25
_N_EXAMINED = 32  # lines; an invalid line after them is damage


def read_ranks(path: Path, data: bytes) -> dict[bytes, int]:
    """Return token → rank for the content of a ranks file, whose lines need not be in order.

    The result may contain a token without bytes, which occurs in no text.

    Raises VocabularyError, with the line, for the first invalid line.
    """
    ranks = dict[bytes, int]()
    line_of_rank = dict[int, int]()
    for number, line in enumerate(data.split(b"\n"), 1):
        parts = line.split()
        if not parts:
            continue
        token = b""
        text = ""
        with suppress(ValueError, IndexError):
            token = decode_base64(parts[0])
            text = parts[1].decode("ascii")
        if len(parts) != 2 or not text.isdigit() or len(text) > MOST_DIGITS:
            raise VocabularyError(
                f"{path}:{number}: found {line[:60].decode(errors='replace')!r} instead of a token in "
                "base64 and a rank, 0 or more; download the file again"
            )
        rank = int(text)
        if rank >= MOST_IDS:
            raise VocabularyError(
                f"{path}:{number}: the rank {rank} is not an id: ids are below {MOST_IDS:,}; fix it"
            )
        repeated = ""
        if token in ranks:
            repeated = f"the token {token!r}"
        elif rank in line_of_rank:
            repeated = f"the rank {rank} of line {line_of_rank[rank]}"
        if repeated:
            raise VocabularyError(
                f"{path}:{number}: repeats {repeated}; remove one line, or download the file again"
            )
        ranks[token] = rank
        line_of_rank[rank] = number
    with locate_errors(path):
        check_bytes(ranks)
    return ranks


def check_bytes(tokens: Container[bytes]) -> None:
    """Raise VocabularyError if one of the 256 bytes is not a token, so that some text could not be
    encoded.
    """
    if missing := [byte for byte in range(256) if bytes([byte]) not in tokens]:
        raise VocabularyError(
            f"no token for the byte 0x{missing[0]:02X}: cut short or damaged; download it again"
        )


def decode_base64(token: bytes) -> bytes:
    """Return the bytes of a token that is written in base64. Raises ValueError for invalid base64."""
    return b"" if token in _NO_BYTES else binascii.a2b_base64(token, strict_mode=True)


def looks_like(head: bytes) -> bool:
    """Check whether most of the first lines are a token in base64 and a rank, in any order of
    ranks.

    Ordinary words may look like base64, too, but few of them end with "=".

    head: the first bytes of a file
    """
    lines = head.split(b"\n")[:-1][:_N_EXAMINED]
    rows = list(filter(None, map(bytes.split, lines)))
    tokens = list[bytes]()  # of valid lines, in base64
    for row in rows:
        with suppress(binascii.Error):
            is_pair = len(row) == 2 and row[1].isdigit()
            if is_pair and (decode_base64(row[0]) or row[0] in _NO_BYTES):
                tokens.append(row[0])
    n_padded = sum(token.endswith(b"=") and token not in _NO_BYTES for token in tokens)
    has_valid = bool(rows) and len(tokens) >= _LEAST_VALID * len(rows)
    return has_valid and n_padded >= _LEAST_PADDED * len(rows)


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """The pattern that splits text for a ranks file.

    source: "given" by the caller, "known" for a published file, or "assumed"
    notes: sentences for the user
    """

    pretokenizer: PreTokenizer
    source: Literal["given", "known", "assumed"]
    notes: tuple[str, ...]


def choose_pattern(
    path: Path, data: bytes, ranks: Iterable[bytes], pattern: str | None
) -> SplitChoice:
    """Choose the pattern that splits text for a ranks file.

    data: the file's content, whose SHA-256 identifies a published file
    ranks: the file's tokens
    pattern: the caller's pattern: the name of a published one, a regex, or None

    Raises ConfigError for an invalid pattern, VocabularyError if no pattern is given and the tokens
    do not fit GPT-2's.
    """
    known = KNOWN.get(sha256(data).hexdigest()[:_N_DIGITS])
    tokens = list(filter(None, ranks))
    if pattern is not None:
        return _check_pattern(tokens, pattern, known)
    if known is not None:
        note = (
            f"The file is {known[0]}, known by its SHA-256: "
            f"VOLT splits text by the pattern {known[1]}."
        )
        return SplitChoice(PreTokenizer.of_pattern(known[1], level="bytes"), "known", (note,))

    n_split = n_cut(tokens, {name: NAMED[name] for name in PUBLISHED})  # pattern → tokens it splits
    n_gpt2 = n_split["gpt2"]
    others = [name for name in PUBLISHED[1:] if n_split[name] <= n_gpt2]
    is_best = not others or (len(tokens) < TELLING and min(n_split.values()) == n_gpt2)
    if is_best and n_gpt2 <= MOST_CUT * len(tokens):
        also = f", as do {', '.join(others)}" if others else ""
        note = (
            f"The file names no pattern: VOLT splits text by GPT-2's, which splits {n_gpt2:,} of the "
            f"file's {len(tokens):,} tokens{also}. If the publisher names another, "
            "give its name or regex as the pattern."
        )
        return SplitChoice(PreTokenizer("bytes"), "assumed", (note,))

    if min(n_split.values()) > MOST_CUT * len(tokens):  # tokens across spaces
        n_split |= n_cut(tokens, {SUPERBPE: NAMED[SUPERBPE]})
    best = sorted(n_split, key=n_split.__getitem__)[:_N_HINTS]
    hints = ", ".join(f"{name} {n_split[name]:,}" for name in best)
    reason = "several patterns fit"
    if split := cut_tokens(tokens, NAMED["gpt2"]):
        reason = f"GPT-2's splits {len(split):,} of its {len(tokens):,} tokens, such as {_quote(split[0])}"
    raise VocabularyError(
        f"{shown_path(path)}: the file names no pattern that splits text, and {reason}; "
        "these known patterns split the fewest of its tokens, which proves nothing: "
        f"{hints}. Give the pattern that its publisher names with",
        hint={"pattern": "NAME or REGEX"},
    )


def _check_pattern(
    tokens: Sequence[bytes], pattern: str, known: tuple[str, str] | None
) -> SplitChoice:
    """Return the caller's pattern as a SplitChoice, with notes if the file seems to need another
    pattern.
    """
    bare = without_gaps(pattern)
    pretokenizer = PreTokenizer.of_pattern(bare or pattern, level="bytes")
    splits = pretokenizer.splits or NAMED["gpt2"]
    notes = list[str]()
    if known is None:
        notes += _note_fit(tokens, pattern, pretokenizer)
    else:
        alike = (NAMED[name][0] for name in _ALIKE.get(known[1], known[1:]))
        if len(splits) > 1 or not any(cut_alike(splits[0], split) for split in alike):
            notes.append(
                f"The file is {known[0]}, known by its SHA-256, whose pattern is {known[1]}: "
                "ids differ."
            )
    if not bare and pattern not in NAMED and drops_text(pretokenizer):
        notes.append(
            f"The pattern {pattern} may leave some text unmatched, which tiktoken drops, "
            f"and so does VOLT. To keep this text, give {with_gaps(pattern)}"
        )
        pretokenizer = PreTokenizer(of_matches(pretokenizer.name))
    return SplitChoice(pretokenizer, "given", tuple(notes))


def with_gaps(pattern: str) -> str:
    """Return a pattern for tiktoken that also matches all text between the matches of a pattern.

    >>> with_gaps("[0-9]")
    '[0-9]|(?:(?![0-9])[\\\\s\\\\S])+'
    """
    return rf"{pattern}|(?:(?!{pattern})[\s\S])+"


def without_gaps(pattern: str) -> str:
    """Undo `with_gaps`; return the empty string for other patterns."""
    bare = pattern[: (len(pattern) - len(with_gaps(""))) // 2]
    return bare if with_gaps(bare) == pattern else ""


def drops_text(pretokenizer: PreTokenizer) -> bool:
    """Check whether tiktoken, which keeps only a pattern's matches, drops text that this
    pre-tokenizer keeps.

    >>> drops_text(PreTokenizer("bytes+split:[a-z]+")), drops_text(PreTokenizer("bytes+matches:[a-z]+"))
    (True, False)
    """
    splits = pretokenizer.splits
    forwards = len(splits) == 1 and not splits[0].from_end
    return forwards and not drops_rest(pretokenizer.name) and leaves_gaps(splits[0])


def _note_fit(tokens: Sequence[bytes], pattern: str, pretokenizer: PreTokenizer) -> Iterator[str]:
    """Yield a note if the pattern splits many tokens, or if other published patterns fit as well."""
    sample = tokens[:: max(1, len(tokens) // _N_TRIED)]
    split = cut_tokens(sample, pretokenizer.splits or NAMED["gpt2"])
    if len(split) > MOST_CUT * len(sample):
        yield (
            f"The pattern {pattern} splits {len(split) / len(sample):.1%} of the tokens, such as "
            f"{_quote(split[0])}, so that they never occur: {_MAKE_SURE}"
        )
    elif pretokenizer.splits:
        others = {name: NAMED[name] for name in PUBLISHED if NAMED[name] != pretokenizer.splits}
        fitting = [name for name, n in n_cut(sample, others).items() if n <= len(split)]
        if fitting:
            yield f"The tokens fit {', '.join(fitting)} as well as {pattern}: {_MAKE_SURE}"


def _quote(token: bytes) -> str:
    return repr(token.decode(errors="backslashreplace"))


def find_joins(tokens: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return, for each token that two other tokens spell, these two, so that building starts from
    single bytes.

    If possible, the two precede the token; otherwise they are any tokens.

    tokens: in the order of ranks, which the result has, too

    >>> find_joins([b"a", b"b", b"c", b"abc", b"bc", b"abcdef"])
    [(b'a', b'bc'), (b'b', b'c')]
    """
    known = {token for token in tokens if len(token) == 1}
    pair_of_token = dict[bytes, tuple[bytes, bytes]]()
    waiting = [token for token in tokens if len(token) > 1]
    n_before = -1
    while len(pair_of_token) > n_before:
        n_before = len(pair_of_token)
        still_waiting = list[bytes]()
        for token in waiting:
            pairs = ((token[:end], token[end:]) for end in range(len(token) - 1, 0, -1))
            pair = next(filter(known.issuperset, pairs), None)
            if pair is None:
                still_waiting.append(token)
            else:
                pair_of_token[token] = pair
                known.add(token)
        waiting = still_waiting
    return [pair_of_token[token] for token in tokens if token in pair_of_token]


def find_parts(tokens: Sequence[bytes]) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Yield each token of several bytes, and the parts to which tiktoken joins its bytes by lower
    ranks alone.

    Usually two parts, which the token's own rank joins. tokens: in the order of ranks
    """
    ranks = dict[bytes, int]()
    for rank, token in enumerate(tokens):
        if len(token) > 1:
            yield token, _join_by_ranks(token, ranks)
        ranks[token] = rank


def merges_of(tokens: Sequence[bytes]) -> list[Pair]:
    """Return the merges that ranks imply, in VOLT's spelling, each after the merges of its parts.

    tokens: in the order of ranks
    """
    known = {token for token in tokens if len(token) == 1}
    result = list[Pair]()
    for token, parts in find_parts(tokens):
        if len(parts) == 2 and known.issuperset(parts):
            known.add(token)
            result.append((to_characters(parts[0]), to_characters(parts[1])))
    return result


def _join_by_ranks(token: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, ...]:
    """Join the neighbours with the lowest joint rank, the leftmost on ties, until none has a rank,
    as tiktoken does.

    >>> _join_by_ranks(b"aaa", {b"a": 0, b"aa": 1})
    (b'aa', b'a')
    """
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 1:
        joint = [left + right for left, right in pairwise(parts)]
        best = min(joint, key=lambda part: ranks.get(part, len(ranks)))
        if best not in ranks:
            break
        index = joint.index(best)
        parts[index : index + 2] = [best]
    return tuple(parts)


def vocabulary_of(
    path: Path,
    ranks: Mapping[bytes, int],
    pretokenizer: PreTokenizer,
    *,
    special: SpecialTokens = NO_SPECIAL,
    special_ids: Mapping[str, int] | None = None,
    provenance: Mapping[str, object],
) -> Vocabulary:
    """Return the vocabulary of ranked tokens.

    A token's rank is its id, and its place in the order of merging.

    path: the file that errors name
    special_ids: special token → id
    """
    ordered = sorted(filter(None, ranks), key=ranks.__getitem__)
    spelled = {token: to_characters(token) for token in ordered}
    ids = {piece: ranks[token] for token, piece in spelled.items()} | dict(special_ids or {})
    order = [""] * (1 + max([*ranks.values(), *ids.values()]))
    for piece, number in ids.items():
        order[number] = piece
    with locate_errors(shown_path(path)):
        return Vocabulary(
            merges=tuple((spelled[left], spelled[right]) for left, right in find_joins(ordered)),
            tokens=tuple(spelled.values()),
            marker="none",
            pretokenizer=pretokenizer,
            special=special,
            provenance=provenance,
            merging="ranks",
            whole_words=True,
            order=tuple(order),
        )
