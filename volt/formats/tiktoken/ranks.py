"""Ranks of tiktoken → merges, the pattern that splits text, and a byte-level vocabulary with the ranks as ids.

A ranks file has a line for each token: its bytes in base64 and its rank, which is its id. tiktoken joins the neighbours
whose joint bytes have the lowest rank. Files do not name their pattern. VOLT recognises published files by SHA-256. For
other files it assumes GPT-2's pattern, if that splits almost no token and no other published pattern fits as well.

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
# Share of tokens that a fitting pattern may split: one in 10,000 of Whisper's multilingual file.
MOST_CUT = 0.001
TELLING = 10_000  # tokens, enough to contain numbers and signs that tell patterns apart
KNOWN = {  # the first digits of the SHA-256 of a file → what it is, and its pattern
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
_N_DIGITS = 16
_N_HINTS = 4
_N_TRIED = 20_000  # tokens, evenly spaced, on which the caller's pattern is tried
_ALIKE = {"gpt2": ("gpt2", "r50k")}  # patterns that cut alike
_MAKE_SURE = "make sure that it is the pattern that the publisher names."


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """A pattern that splits text: given by the caller, known for a published file, or assumed.

    notes: sentences for the user
    """

    pretokenizer: PreTokenizer
    source: Literal["given", "known", "assumed"]
    notes: tuple[str, ...]


def choose(path: Path, data: bytes, ranks: Iterable[bytes], pattern: str | None) -> SplitChoice:
    """Choose the pattern that splits text for a file of ranks.

    data: the file's content, whose SHA-256 identifies a published file
    ranks: the file's tokens
    pattern: a name, a regex or None

    Raises ConfigError for an invalid pattern, VocabularyError if no pattern is given and the tokens do not fit GPT-2's.
    """
    known = KNOWN.get(sha256(data).hexdigest()[:_N_DIGITS])
    tokens = list(filter(None, ranks))
    if pattern is not None:
        return _given(tokens, pattern, known)
    if known is not None:
        note = (
            f"The file is {known[0]}, known by its SHA-256: "
            f"VOLT splits text by the pattern {known[1]}."
        )
        return SplitChoice(PreTokenizer.of_pattern(known[1], level="bytes"), "known", (note,))

    n_cuts = n_cut(tokens, {name: NAMED[name] for name in PUBLISHED})
    n_gpt2 = n_cuts["gpt2"]
    others = [name for name in PUBLISHED[1:] if n_cuts[name] <= n_gpt2]
    is_alone = not others or (len(tokens) < TELLING and min(n_cuts.values()) == n_gpt2)
    if is_alone and n_gpt2 <= MOST_CUT * len(tokens):
        also = f", as do {', '.join(others)}" if others else ""
        note = (
            f"The file names no pattern: VOLT splits text by GPT-2's, which splits {n_gpt2:,} of the "
            f"file's {len(tokens):,} tokens{also}. If the publisher names another, "
            "give its name or regex as the pattern."
        )
        return SplitChoice(PreTokenizer("bytes"), "assumed", (note,))

    fewest_cuts = sorted(n_cuts, key=n_cuts.__getitem__)[:_N_HINTS]
    hints = ", ".join(f"{name} {n_cuts[name]:,}" for name in fewest_cuts)
    fit = "several patterns fit"
    if cut := cut_tokens(tokens, NAMED["gpt2"]):
        fit = f"GPT-2's splits {len(cut):,} of its {len(tokens):,} tokens, such as {_shown(cut[0])}"
    raise VocabularyError(
        f"{shown_path(path)}: the file names no pattern that splits text, and {fit}; "
        "these known patterns split the fewest of its tokens, which proves nothing: "
        f"{hints}. Give the pattern that its publisher names with",
        hint={"pattern": "NAME or REGEX"},
    )


def _given(tokens: Sequence[bytes], pattern: str, known: tuple[str, str] | None) -> SplitChoice:
    pretokenizer = PreTokenizer.of_pattern(pattern, level="bytes")
    splits = pretokenizer.splits or NAMED["gpt2"]
    notes = list[str]()
    if known is None:
        notes += _cut_notes(tokens, pattern, pretokenizer)
    else:
        alike = (NAMED[name][0] for name in _ALIKE.get(known[1], known[1:]))
        if len(splits) > 1 or not any(cut_alike(splits[0], split) for split in alike):
            notes.append(
                f"The file is {known[0]}, known by its SHA-256, whose pattern is {known[1]}: "
                "ids differ."
            )
    if drops_text(pretokenizer):
        notes.append(
            f"The pattern {pattern} may leave some text unmatched, which tiktoken drops, "
            "and so does VOLT."
        )
        pretokenizer = PreTokenizer(of_matches(pretokenizer.name))
    return SplitChoice(pretokenizer, "given", tuple(notes))


def drops_text(pretokenizer: PreTokenizer) -> bool:
    """Check whether tiktoken, which keeps only a pattern's matches, drops text that this pre-tokenizer keeps.

    >>> drops_text(PreTokenizer("bytes+split:[a-z]+")), drops_text(PreTokenizer("bytes+matches:[a-z]+"))
    (True, False)
    """
    splits = pretokenizer.splits
    forwards = len(splits) == 1 and not splits[0].from_end
    return forwards and not drops_rest(pretokenizer.name) and leaves_gaps(splits[0])


def _cut_notes(tokens: Sequence[bytes], pattern: str, pretokenizer: PreTokenizer) -> Iterator[str]:
    some = tokens[:: max(1, len(tokens) // _N_TRIED)]
    cut = cut_tokens(some, pretokenizer.splits or NAMED["gpt2"])
    if len(cut) > MOST_CUT * len(some):
        yield (
            f"The pattern {pattern} splits {len(cut) / len(some):.1%} of the tokens, such as "
            f"{_shown(cut[0])}, so that they never occur: {_MAKE_SURE}"
        )
    elif pretokenizer.splits:
        others = {name: NAMED[name] for name in PUBLISHED if NAMED[name] != pretokenizer.splits}
        fitting = [name for name, n in n_cut(some, others).items() if n <= len(cut)]
        if fitting:
            yield f"The tokens fit {', '.join(fitting)} as well as {pattern}: {_MAKE_SURE}"


def _shown(token: bytes) -> str:
    return repr(token.decode(errors="backslashreplace"))


def joins(tokens: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return, for each token that two others spell, these two. Tokens, and so results, are in the order of ranks.

    The two are earlier tokens if possible, otherwise any tokens.

    >>> joins([b"a", b"b", b"c", b"abc", b"bc", b"abcdef"])
    [(b'a', b'bc'), (b'b', b'c')]
    """
    known = {token for token in tokens if len(token) == 1}
    result = dict[bytes, tuple[bytes, bytes]]()
    waiting = [token for token in tokens if len(token) > 1]
    n_before = -1
    while len(result) > n_before:
        n_before = len(result)
        later = list[bytes]()
        for token in waiting:
            pairs = ((token[:place], token[place:]) for place in range(len(token) - 1, 0, -1))
            pair = next(filter(known.issuperset, pairs), None)
            if pair is None:
                later.append(token)
            else:
                result[token] = pair
                known.add(token)
        waiting = later
    return [result[token] for token in tokens if token in result]


def recovered(tokens: Sequence[bytes]) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Yield each token of several bytes, and the parts to which lower ranks join these. tokens: in rank order"""
    ranks = dict[bytes, int]()
    for rank, token in enumerate(tokens):
        if len(token) > 1:
            yield token, _parts(token, ranks)
        ranks[token] = rank


def merges_of(tokens: Sequence[bytes]) -> list[Pair]:
    """Return the merges that ranks imply, in VOLT's spelling, each after those of its parts. tokens: in rank order"""
    known = {token for token in tokens if len(token) == 1}
    result = list[Pair]()
    for token, parts in recovered(tokens):
        if len(parts) == 2 and known.issuperset(parts):
            known.add(token)
            result.append((to_characters(parts[0]), to_characters(parts[1])))
    return result


def _parts(token: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, ...]:
    """Join the neighbours with the lowest joint rank, the leftmost on ties, until none has a rank, as tiktoken does.

    >>> _parts(b"aaa", {b"a": 0, b"aa": 1})
    (b'aa', b'a')
    """
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 1:
        joint = [left + right for left, right in pairwise(parts)]
        best = min(joint, key=lambda part: ranks.get(part, len(ranks)))
        if best not in ranks:
            break
        place = joint.index(best)
        parts[place : place + 2] = [best]
    return tuple(parts)


NO_SPECIAL = SpecialTokens(None, None, None, None)


def vocabulary_of(
    path: Path,
    ranks: Mapping[bytes, int],
    pretokenizer: PreTokenizer,
    *,
    special: SpecialTokens = NO_SPECIAL,
    special_ids: Mapping[str, int] | None = None,
    provenance: Mapping[str, object],
) -> Vocabulary:
    """Return the vocabulary of ranked tokens. A rank is an id, and a place in the order of merging.

    path: the file that errors name
    """
    ordered = sorted(filter(None, ranks), key=ranks.__getitem__)
    spelled = {token: to_characters(token) for token in ordered}
    ids = {piece: ranks[token] for token, piece in spelled.items()} | dict(special_ids or {})
    order = [""] * (1 + max([*ranks.values(), *ids.values()]))
    for piece, number in ids.items():
        order[number] = piece
    with locate_errors(shown_path(path)):
        return Vocabulary(
            merges=tuple((spelled[left], spelled[right]) for left, right in joins(ordered)),
            tokens=tuple(spelled.values()),
            marker="none",
            pretokenizer=pretokenizer,
            special=special,
            provenance=provenance,
            merging="ranks",
            whole_words=True,
            order=tuple(order),
        )


# The least shares of valid lines, and of padded ones, in the first lines.
_MOSTLY = 0.9
_PADDED = 0.25
_N_TELLING = 32  # lines that are checked; an invalid line after them is damage
_NO_BYTES = (b"=", b"==")  # tiktoken reads these as a token without bytes, which occurs in no text


def looks_like(head: bytes) -> bool:
    """Check whether the first lines, except a few damaged ones, are each a token in base64 and a rank, in any order.

    Ordinary words may look like base64, too, but few of them end with "=".
    """
    lines = head.split(b"\n")[:-1][:_N_TELLING]
    rows = list(filter(None, map(bytes.split, lines)))
    sound = list[bytes]()
    for row in rows:
        with suppress(binascii.Error):
            if len(row) == 2 and row[1].isdigit() and (bytes_of(row[0]) or row[0] in _NO_BYTES):
                sound.append(row[0])
    n_padded = sum(token.endswith(b"=") and token not in _NO_BYTES for token in sound)
    return bool(rows) and len(sound) >= _MOSTLY * len(rows) and n_padded >= _PADDED * len(rows)


def check_bytes(tokens: Container[bytes]) -> None:
    """Raise VocabularyError if a byte is not a token, so that not all text could be encoded."""
    if missing := [byte for byte in range(256) if bytes([byte]) not in tokens]:
        raise VocabularyError(
            f"no token for the byte 0x{missing[0]:02X}: cut short or damaged; download it again"
        )


def bytes_of(token: bytes) -> bytes:
    """Decode base64. Raises ValueError if it is invalid."""
    return b"" if token in _NO_BYTES else binascii.a2b_base64(token, strict_mode=True)


def read_ranks(path: Path, data: bytes) -> dict[bytes, int]:
    """Return token → rank for the content of a ranks file, whose lines need not be in order.

    A token without bytes occurs in no text. Raises VocabularyError with the first invalid line.
    """
    ranks = dict[bytes, int]()
    lines = dict[int, int]()  # rank → its line
    for number, line in enumerate(data.split(b"\n"), 1):
        parts = line.split()
        if not parts:
            continue
        token = b""
        text = ""
        with suppress(ValueError, IndexError):
            token = bytes_of(parts[0])
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
        elif rank in lines:
            repeated = f"the rank {rank} of line {lines[rank]}"
        if repeated:
            raise VocabularyError(
                f"{path}:{number}: repeats {repeated}; remove one line, or download the file again"
            )
        ranks[token] = rank
        lines[rank] = number
    with locate_errors(path):
        check_bytes(ranks)
    return ranks
