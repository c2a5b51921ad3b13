"""Vocabulary → tiktoken's ranks file, with notes on what it loses and what tiktoken does differently."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

from volt.display import counted
from volt.errors import VocabularyError
from volt.files.atomic import write_atomic
from volt.formats.protocol import USUAL, located, refuse_scaffolding
from volt.formats.tiktoken.library import pattern_of
from volt.formats.tiktoken.ranks import drops_text, recovered
from volt.text.byte_alphabet import ALPHABET, to_bytes, to_characters
from volt.text.patterns.cut_tokens import cut_tokens
from volt.text.patterns.published import NAMED
from volt.vocabulary import Vocabulary

CLOSING_ORDER = "merges"  # ranks are ids, and tiktoken merges in their order


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the ranks. Returns a sentence for each property that is lost or that tiktoken handles differently.

    A rank is the token's id in VOLT. If ids do not follow the order of the merges, ranks are numbered from 0 instead.
    """
    with located(path):
        _refuse(vocabulary)
    output = [vocabulary.ids[token] for token in dict.fromkeys(vocabulary.made)]
    keeps_ids = output == sorted(output) and (
        not vocabulary.unmade or vocabulary.merging == "ranks"
    )
    tokens = list(vocabulary.tokens) if keeps_ids else _in_merge_order(vocabulary)
    ranks = vocabulary.ids if keeps_ids else {token: rank for rank, token in enumerate(tokens)}
    lines = (f"{base64.b64encode(to_bytes(token)).decode()} {ranks[token]}\n" for token in tokens)
    notes = list(_notes(vocabulary, path, tokens, keeps_ids))
    with write_atomic(path) as file:
        file.write("".join(lines).encode())
    return notes


def _refuse(vocabulary: Vocabulary) -> None:
    cut = vocabulary.pretokenizer
    if not cut.is_bytes or vocabulary.marker != "none":
        needs = f"tiktoken needs the pre-tokenizer bytes and the marker none, not {cut.name!r} and {vocabulary.marker!r}"
        raise VocabularyError(f"{needs}; count with", hint={"pretokenizer": "bytes"})
    try:
        pattern_of(cut)
    except VocabularyError as error:
        raise VocabularyError(f"{error}; export to huggingface, which can") from None
    refuse_scaffolding(vocabulary, "tiktoken")
    retained = set(vocabulary.tokens)
    faults = [f"{atom!r} is missing" for atom in ALPHABET if atom not in retained]
    faults += [f"{token!r} is not a byte" for token in vocabulary.atoms if token not in ALPHABET]
    if faults:
        what = f"tiktoken needs every byte as a token, and merges for all other tokens: {faults[0]}; count with"
        raise VocabularyError(what, hint={"pretokenizer": "bytes"})
    if cut.name != "bytes" or vocabulary.whole_words:
        return
    if crossing := cut_tokens([to_bytes(token) for token in vocabulary.tokens], NAMED["gpt2"]):
        what = f"splits {len(crossing):,} of the tokens, such as {to_characters(crossing[0])!r}, so they never occur"
        raise VocabularyError(
            f"GPT-2's pattern, which VOLT uses, {what}; remove them and their merges"
        )


def _in_merge_order(vocabulary: Vocabulary) -> list[str]:
    output = {token: rank for rank, token in reversed(list(enumerate(vocabulary.made)))}
    last = dict.fromkeys(vocabulary.unmade, len(output))
    return sorted(vocabulary.tokens, key=lambda token: last.get(token, output.get(token, -1)))


def _notes(
    vocabulary: Vocabulary, path: Path, tokens: Sequence[str], keeps_ids: bool
) -> Iterator[str]:
    special = vocabulary.special
    yield _snippet(vocabulary, path, keeps_ids)
    if vocabulary.counts:
        yield "The counts of the tokens are not in the file: the format has no place for them."
    if not keeps_ids:
        why = "tiktoken merges in the order of ids, but these ids do not follow the merges"
        remedy = "export it closed, in the order of merges, to keep the ids"
        yield f"Ids differ from VOLT's: {why}, so tokens are numbered anew from 0; {remedy}."
    if vocabulary.normalizer.name != "none":
        yield f"tiktoken does not normalise: apply {vocabulary.normalizer.name} to a text before you encode it."
    if drops_text(vocabulary.pretokenizer):
        yield "Text between the matches of the pattern becomes words in VOLT, but tiktoken drops it."
    if vocabulary.byte_fallback:
        yield "Byte fallback and its 256 tokens are not in the file, which never needs them: its tokens spell bytes."
    if special.all and special != USUAL:
        user = f" ({', '.join(special.user[:3])})" if special.user else ""
        yield f"The names of the special and user tokens{user} are not in the file, and are lost when it is read back."
    if special.user:
        allowed = ", ".join(map(repr, special.user))
        yield f"Encode with encode(text, allowed_special={{{allowed}}}, disallowed_special=())."
    starts = [(a, b) for a in special.user for b in special.all if b != a and b.startswith(a)]
    if starts:
        yield f"In {starts[0][1]} tiktoken may find {starts[0][0]}; VOLT takes the longer one."
    yield from _merge_notes(vocabulary, tokens)


def _merge_notes(vocabulary: Vocabulary, tokens: Sequence[str]) -> Iterator[str]:
    by_ranks = vocabulary.merging == "ranks"
    if by_ranks and vocabulary.whole_words:
        return
    first = {left + right: (left, right) for left, right in reversed(vocabulary.merges)}
    if len(first) < len(vocabulary.merges) and not by_ranks:
        yield "Later merges that make a token again are not in the file: tiktoken has one rank for each token."
    if not by_ranks and (unmade := vocabulary.unmade):
        what = f"{counted(len(unmade), 'token')} that no merge makes, such as {unmade[0]!r}"
        yield f"tiktoken may join parts of a word to {what}; in VOLT these tokens are whole words only."
    other = list[str]()
    for data, spelled in recovered([to_bytes(token) for token in tokens]):
        token, parts = to_characters(data), tuple(map(to_characters, spelled))
        if (len(parts) != 2) if by_ranks else (parts != first.get(token, parts)):
            other.append(token)
    if other:
        what = f"{len(other):,} tokens, such as {other[0]!r}, from other parts than the merges do"
        yield f"tiktoken makes {what}, because lower ranks join first: text with these may be split differently."


def _snippet(vocabulary: Vocabulary, path: Path, keeps_ids: bool) -> str:
    first, pattern = len(vocabulary.tokens), pattern_of(vocabulary.pretokenizer)
    special = {
        token: vocabulary.ids[token] if keeps_ids else first + number
        for number, token in enumerate(vocabulary.special.all)
    }
    shown = f'r"{pattern}"' if '"' not in pattern and not pattern.endswith("\\") else repr(pattern)
    return (
        "The special tokens and the pattern that splits text are not in the file; give them when you load it:\n"
        "    from base64 import b64decode  # tiktoken's own loader caches the first file of this name\n"
        "    from pathlib import Path\n"
        "    from tiktoken import Encoding\n"
        f"    rows = map(bytes.split, Path({str(path)!r}).read_bytes().splitlines())\n"
        "    ranks = {b64decode(token): int(rank) for token, rank in rows}\n"
        f"    Encoding({path.stem!r}, pat_str={shown}, mergeable_ranks=ranks, "
        f"special_tokens={special!r})"
    )
