"""GPT-2's merges.txt → vocabulary: merges over bytes, which look like subword-nmt's codes but mark no word ends.

Both files start with "#version: 0.2". GPT-2's spells bytes by its alphabet, a space as "Ġ", and holds no "</w>". With a
vocab.json beside it, the tokens stand in the order of its ids; without one, the bytes come first, then what the merges
make. Neither file names the pattern that cuts text into words: it is GPT-2's, or the file is refused as far as its
tokens tell.

>>> spells_bytes([("Ġ", "t"), ("Ġt", "h")]), spells_bytes([("t", "h"), ("th", "e</w>")])
(True, False)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from volt.errors import VocabularyError
from volt.files.whole import read_text
from volt.text.byte_alphabet import ALPHABET, to_bytes
from volt.text.gpt2 import cut_tokens, whole_characters
from volt.text.markers import PREFIX, SUFFIX
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

BESIDE = "vocab.json"
ASSUMED = "No merge holds '</w>' or 'Ġ': the file is taken for subword-nmt's, with no merge at the end of a word."
_CONTROLS = set(map(chr, (*range(9), 11, 12, *range(14, 32), 127)))


def spells_bytes(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether merges are over bytes: all letters are of the alphabet of bytes, and they spell spaces, or characters of
    several bytes, nothing that is in no text, and no "</w>"."""
    tokens = list(map("".join, pairs))
    if not set("".join(tokens)) <= set(ALPHABET):
        return False
    texts = [whole_characters(to_bytes(token)) or "" for token in tokens]
    if any("Ġ" in token for token in tokens):
        return True
    in_text = all(map(is_in_text, map(to_bytes, tokens)))
    return in_text and not "".join(texts).isascii() and not any(token.endswith(SUFFIX) for token in tokens)


def is_in_text(token: bytes) -> bool:
    """Whether bytes are part of some text without control characters.

    >>> is_in_text(b"l\\xc3"), is_in_text(b"\\xc3l"), is_in_text(b"l\\x05")
    (True, False, False)
    """
    text = whole_characters(token)
    return text is not None and _CONTROLS.isdisjoint(text)


def is_ambiguous(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether merges may be over bytes or characters: nothing in them tells."""
    tokens = list(map("".join, pairs))
    return bool(tokens) and not any(SUFFIX in token for token in tokens) and set("".join(tokens)) <= set(ALPHABET)


def marks_starts(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether merges mark the starts of words by "▁", and not their ends.

    >>> marks_starts([("▁", "t"), ("▁t", "h")])
    True
    """
    tokens = list(map("".join, pairs))
    return any(token.startswith(PREFIX) for token in tokens) and not any(SUFFIX in token for token in tokens)


def read(path: Path, pairs: Sequence[tuple[str, str]]) -> Vocabulary:
    """The vocabulary of merges over bytes, and of the vocab.json beside them if there is one.

    Raises VocabularyError if a token that merges use is not in vocab.json, or GPT-2's pattern cuts a token.
    """
    made = dict.fromkeys(map("".join, pairs))
    listed = _listed(path.with_name(BESIDE))
    tokens = tuple(token for token in listed or (*ALPHABET, *made) if token in made or token in ALPHABET)
    if missing := next((token for token in (*ALPHABET, *made) if token not in set(tokens)), None):
        raise VocabularyError(
            f"{path.with_name(BESIDE)}: no id for {missing!r}, which {path.name} makes or uses; restore it"
        )
    if cut := cut_tokens([to_bytes(token) for token in tokens]):
        raise VocabularyError(other_pattern(path, [to_bytes(token) for token in tokens], cut))
    last = {pair: rank for rank, pair in enumerate(pairs)}  # of equal merges tokenizers takes the last; none is usual
    try:
        return Vocabulary(
            merges=tuple(sorted(last, key=last.__getitem__)),
            tokens=tokens,
            marker="none",
            pretokenizer=PreTokenizer("bytes"),
            provenance={"format": "merges over bytes", "lost": list(_losses(path, tokens, listed))},
        )
    except VocabularyError as error:
        section, index = error.place or ("", 0)
        line = f":{index + 2}" if section == "merges" else ""
        raise VocabularyError(f"{path}{line}: {error.message}") from None


def other_pattern(path: Path, tokens: Sequence[bytes], cut: Sequence[bytes]) -> str:
    """What to say of a file, some of whose tokens GPT-2's pattern cuts.

    >>> other_pattern(Path("a"), [b"x", b"!x"], [b"!x"])[:43]
    "a: 1 of its 2 tokens, such as '!x', are cut"
    """
    return (
        f"{path}: {len(cut):,} of its {len(tokens):,} tokens, such as {cut[0].decode(errors='backslashreplace')!r}, "
        "are cut by GPT-2's pattern, which VOLT cuts text by: the file goes with another pattern, and VOLT would "
        "encode otherwise; choose one that goes with GPT-2's, such as r50k_base, or find a vocabulary on your corpus, "
        "counted with pretokenizer='bytes'"
    )


def _listed(path: Path) -> list[str]:
    """The tokens of a vocab.json by their ids; none if there is no such file."""
    if not path.exists():
        return []
    try:
        data = json.loads(read_text(path, kind=VocabularyError))
    except (ValueError, RecursionError) as error:
        raise VocabularyError(
            f"{path}:{getattr(error, 'lineno', 1)}: damaged or cut short ({error}); restore it"
        ) from None
    if not isinstance(data, dict) or not all(type(number) is int for number in data.values()):
        raise VocabularyError(f"{path}:1: no object of tokens with their ids; restore it, or move it elsewhere")
    return sorted(data, key=data.__getitem__)


def _losses(path: Path, tokens: Sequence[str], listed: Sequence[str]) -> Iterator[str]:
    """What the files do not tell, and how ids change."""
    yield "The file names no pattern: text is cut by GPT-2's, which fits all of its tokens."
    if not listed:
        yield f"There is no {BESIDE} beside {path.name}: ids are those of bytes, then of merges."
    elif len(listed) > len(tokens):
        others = [token for token in listed if token not in set(tokens)]
        yield f"{len(others):,} tokens of {BESIDE} that no merge makes are left out, such as {others[0]!r}."
    if listed:
        yield f"Ids differ from those of {BESIDE}: VOLT's special tokens come first."
