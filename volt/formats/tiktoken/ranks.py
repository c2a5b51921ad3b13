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
from volt.formats.protocol import MOST_DIGITS, located
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
MOST_CUT = 0.001  # share of tokens that a fitting pattern may split: one in 10,000 of Whisper's multilingual file
TELLING = 10_000  # tokens, among which there are enough numbers and signs to tell patterns apart
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
    known, tokens = (
        KNOWN.get(sha256(data).hexdigest()[:_N_DIGITS]),
        [token for token in ranks if token],
    )
    if pattern is not None:
        return _given(tokens, pattern, known)
    if known is not None:
        note = f"The file is {known[0]}, known by its SHA-256: VOLT splits text by the pattern {known[1]}."
        return SplitChoice(PreTokenizer.of_pattern(known[1], level="bytes"), "known", (note,))
    n_cuts = n_cut(tokens, {name: NAMED[name] for name in PUBLISHED})
    n_gpt2 = n_cuts["gpt2"]
    others = [name for name in PUBLISHED[1:] if n_cuts[name] <= n_gpt2]
    is_alone = not others or (len(tokens) < TELLING and min(n_cuts.values()) == n_gpt2)
    if is_alone and n_gpt2 <= MOST_CUT * len(tokens):
        fit = f"which splits {n_gpt2:,} of the file's {len(tokens):,} tokens"
        also = f", as do {', '.join(others)}" if others else ""
        note = f"The file names no pattern: VOLT splits text by GPT-2's, {fit}{also}. If the publisher names another, "
        return SplitChoice(
            PreTokenizer("bytes"), "assumed", (f"{note}give its name or regex as the pattern.",)
        )
    hints = ", ".join(
        f"{name} {n_cuts[name]:,}" for name in sorted(n_cuts, key=n_cuts.__getitem__)[:_N_HINTS]
    )
    fit = "several patterns fit"
    if cut := cut_tokens(tokens, NAMED["gpt2"]):
        fit = f"GPT-2's splits {len(cut):,} of its {len(tokens):,} tokens, such as {_shown(cut[0])}"
    raise VocabularyError(
        f"{shown_path(path)}: the file names no pattern that splits text, and {fit}; these known patterns split the "
        f"fewest of its tokens, which proves nothing: {hints}. Give the pattern that its publisher names with",
        hint={"pattern": "NAME or REGEX"},
    )


def _given(tokens: Sequence[bytes], pattern: str, known: tuple[str, str] | None) -> SplitChoice:
    pretokenizer = PreTokenizer.of_pattern(pattern, level="bytes")
    splits, notes = pretokenizer.splits or NAMED["gpt2"], list[str]()
    if known is None:
        notes += _cut_notes(tokens, pattern, pretokenizer)
    elif len(splits) > 1 or not any(
        cut_alike(splits[0], NAMED[name][0]) for name in _ALIKE.get(known[1], known[1:])
    ):
        notes.append(
            f"The file is {known[0]}, known by its SHA-256, whose pattern is {known[1]}: ids differ."
        )
    if drops_text(pretokenizer):
        notes.append(
            f"The pattern {pattern} may leave some text unmatched, which tiktoken drops, and so does VOLT."
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
        what = f"splits {len(cut) / len(some):.1%} of the tokens, such as {_shown(cut[0])}, so that they never occur"
        yield f"The pattern {pattern} {what}: {_MAKE_SURE}"
    elif pretokenizer.splits:
        n_cuts = n_cut(
            some, {name: NAMED[name] for name in PUBLISHED if NAMED[name] != pretokenizer.splits}
        )
        if others := [name for name, n in n_cuts.items() if n <= len(cut)]:
            yield f"The tokens fit {', '.join(others)} as well as {pattern}: {_MAKE_SURE}"


def _shown(token: bytes) -> str:
    return repr(token.decode(errors="backslashreplace"))


def joins(tokens: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return, for each token that two others spell, these two. Tokens, and so results, are in the order of ranks.

    The two are earlier tokens if possible, otherwise any tokens.

    >>> joins([b"a", b"b", b"c", b"abc", b"bc", b"abcdef"])
    [(b'a', b'bc'), (b'b', b'c')]
    """
    output, result = (
        {token for token in tokens if len(token) == 1},
        dict[bytes, tuple[bytes, bytes]](),
    )
    waiting, n_before = [token for token in tokens if len(token) > 1], -1
    while len(result) > n_before:
        n_before, later = len(result), list[bytes]()
        for token in waiting:
            pairs = ((token[:middle], token[middle:]) for middle in range(len(token) - 1, 0, -1))
            if pair := next(
                (pair for pair in pairs if pair[0] in output and pair[1] in output), None
            ):
                result[token] = pair
                output.add(token)
            else:
                later.append(token)
        waiting = later
    return [result[token] for token in tokens if token in result]


def recovered(tokens: Sequence[bytes]) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Yield each token of several bytes, and the parts to which lower ranks join these. tokens: in rank order"""
    ranks = dict[bytes, int]()
    for rank, token in enumerate(tokens):
        if len(token) > 1:
            yield token, _parts(token, ranks)
        ranks[token] = rank


def merges_of(tokens: Sequence[bytes]) -> list[tuple[str, str]]:
    """Return the merges that ranks imply, in VOLT's spelling, each after those of its parts. tokens: in rank order"""
    output, pairs = {token for token in tokens if len(token) == 1}, list[tuple[str, str]]()
    for token, parts in recovered(tokens):
        if len(parts) == 2 and output.issuperset(parts):
            output.add(token)
            pairs.append((to_characters(parts[0]), to_characters(parts[1])))
    return pairs


def _parts(token: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, ...]:
    """Join the neighbours with the lowest joint rank, the leftmost on ties, until none has a rank, as tiktoken does.

    >>> _parts(b"aaa", {b"a": 0, b"aa": 1})
    (b'aa', b'a')
    """
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 1:
        result = (
            (ranks.get(left + right, len(ranks)), place)
            for place, (left, right) in enumerate(pairwise(parts))
        )
        rank, place = min(result)
        if rank == len(ranks):
            break
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
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
    with located(shown_path(path)):
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


_MOSTLY, _PADDED = (
    0.9,
    0.25,
)  # the least shares of valid lines, and of padded ones, in the first lines
_N_TELLING = 32  # lines that are checked; an invalid line after them is damage
_NO_BYTES = (
    b"=",
    b"==",
)  # tiktoken's reader decodes these to a token without bytes, which occurs in no text


def looks_like(head: bytes) -> bool:
    """Check whether the first lines, except a few damaged ones, are each a token in base64 and a rank, in any order.

    Ordinary words may look like base64, too, but few of them end with "=".
    """
    rows = [line.split() for line in head.split(b"\n")[:-1][:_N_TELLING] if line.strip()]
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
    ranks, of_rank = dict[bytes, int](), dict[int, int]()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not (parts := line.split()):
            continue
        try:
            token, text = bytes_of(parts[0]), parts[1].decode("ascii")
        except (ValueError, IndexError):
            token, text = b"", ""
        if len(parts) != 2 or not text.isdigit() or len(text) > MOST_DIGITS:
            what = f"found {line[:60].decode(errors='replace')!r} instead of a token in base64 and a rank, 0 or more"
            raise VocabularyError(f"{path}:{number}: {what}; download the file again")
        if (rank := int(text)) >= MOST_IDS:
            raise VocabularyError(
                f"{path}:{number}: the rank {rank} is not an id: ids are below {MOST_IDS:,}; fix it"
            )
        if token in ranks or rank in of_rank:
            what = (
                f"the token {token!r}"
                if token in ranks
                else f"the rank {rank} of line {of_rank[rank]}"
            )
            raise VocabularyError(
                f"{path}:{number}: repeats {what}; remove one line, or download the file again"
            )
        ranks[token], of_rank[rank] = rank, number
    with located(path):
        check_bytes(ranks)
    return ranks
