"""Vocabulary → tiktoken's ranks file: a line for each token, its bytes in base64 and its rank.

A rank is both an id and a place in the order of merging. Ids of the vocabulary are kept if the
results of merges have rising ids; otherwise tokens are numbered anew. The file has neither counts,
special tokens nor the pattern that splits text, so `write` returns notes, one of which is Python
code that loads the file with these.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from volt.display import counted
from volt.errors import VocabularyError
from volt.files.atomic import write_atomic
from volt.formats.protocol import USUAL_SPECIAL, locate_errors
from volt.formats.tiktoken.ranks import find_parts
from volt.formats.tiktoken.reading import pattern_of
from volt.text.byte_alphabet import ALPHABET, to_bytes, to_characters
from volt.text.patterns.cut_tokens import cut_tokens
from volt.text.patterns.published import NAMED
from volt.vocabulary import Vocabulary

CLOSING_ORDER = "merges"  # ranks are ids, and tiktoken merges in their order


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the ranks.

    Returns a sentence for each property that is lost or that tiktoken handles differently.

    A rank is the token's id in VOLT. If ids do not follow the order of the merges, ranks are
    numbered from 0 instead.
    """
    with locate_errors(path):
        _refuse(vocabulary)
    made_ids = [vocabulary.ids[token] for token in dict.fromkeys(vocabulary.made)]
    is_ordered = made_ids == sorted(made_ids)
    keeps_ids = is_ordered and (vocabulary.merging == "ranks" or not vocabulary.unmade)
    tokens = list(vocabulary.tokens)
    ranks = vocabulary.ids
    if not keeps_ids:
        merge_ranks = {token: rank for rank, token in enumerate(dict.fromkeys(vocabulary.made))}
        merge_ranks |= dict.fromkeys(vocabulary.unmade, len(merge_ranks))
        tokens.sort(key=lambda token: merge_ranks.get(token, -1))
        ranks = {token: rank for rank, token in enumerate(tokens)}
    notes = list(_note_differences(vocabulary, path, tokens, keeps_ids=keeps_ids))
    with write_atomic(path) as file:
        for token in tokens:
            file.write(b"%b %d\n" % (base64.b64encode(to_bytes(token)), ranks[token]))
    return notes


def _refuse(vocabulary: Vocabulary) -> None:
    cut = vocabulary.pretokenizer
    if not cut.is_bytes or vocabulary.marker != "none":
        raise VocabularyError(
            f"tiktoken needs the pre-tokenizer bytes and the marker none, not {cut.name!r} and "
            f"{vocabulary.marker!r}; count with",
            hint={"pretokenizer": "bytes"},
        )
    try:
        pattern_of(cut)
    except VocabularyError as error:
        raise VocabularyError(f"{error}; export to huggingface, which can") from None
    if scaffolding := vocabulary.scaffolding:
        raise VocabularyError(
            f"the vocabulary is pruned: {len(scaffolding):,} tokens, such as {scaffolding[0]!r}, are "
            "made and split back into their parts, which tiktoken cannot do; export it closed"
        )
    retained = set(vocabulary.tokens)
    faults = [f"{atom!r} is missing" for atom in ALPHABET if atom not in retained]
    faults += [f"{token!r} is not a byte" for token in vocabulary.atoms if token not in ALPHABET]
    if faults:
        raise VocabularyError(
            "tiktoken needs every byte as a token, and merges for all other tokens: "
            f"{faults[0]}; count with",
            hint={"pretokenizer": "bytes"},
        )
    if cut.name != "bytes" or vocabulary.whole_words:
        return
    if crossing := cut_tokens(list(map(to_bytes, vocabulary.tokens)), NAMED["gpt2"]):
        raise VocabularyError(
            f"GPT-2's pattern, which VOLT uses, splits {len(crossing):,} of the tokens, such as "
            f"{to_characters(crossing[0])!r}, so they never occur; remove them and their merges"
        )


def _note_differences(
    vocabulary: Vocabulary, path: Path, tokens: Sequence[str], *, keeps_ids: bool
) -> Iterator[str]:
    special = vocabulary.special
    yield _note_loading(vocabulary, path, keeps_ids=keeps_ids)
    if vocabulary.counts:
        yield "The counts of the tokens are not in the file: the format has no place for them."
    if not keeps_ids:
        yield (
            "Ids differ from VOLT's: tiktoken merges in the order of ids, but these ids do not "
            "follow the merges, so tokens are numbered anew from 0; "
            "export it closed, in the order of merges, to keep the ids."
        )
    if vocabulary.normalizer.name != "none":
        yield (
            f"tiktoken does not normalise: apply {vocabulary.normalizer.label} to a text "
            "before you encode it."
        )
    if vocabulary.byte_fallback:
        yield (
            "Byte fallback and its 256 tokens are not in the file, which never needs them: "
            "its tokens spell bytes."
        )
    if special.all and special != USUAL_SPECIAL:
        names = ""
        if special.user:
            names = f" ({', '.join(special.user[:3])})"
        yield (
            f"The names of the special and user tokens{names} are not in the file, "
            "and are lost when it is read back."
        )
    if special.user:
        allowed = ", ".join(map(repr, special.user))
        yield f"Encode with encode(text, allowed_special={{{allowed}}}, disallowed_special=())."
    for user, other in product(special.user, special.all):
        if other != user and other.startswith(user):
            yield f"In {other} tiktoken may find {user}; VOLT takes the longer one."
            break
    yield from _note_merges(vocabulary, tokens)


def _note_merges(vocabulary: Vocabulary, tokens: Sequence[str]) -> Iterator[str]:
    by_ranks = vocabulary.merging == "ranks"
    if by_ranks and vocabulary.whole_words:
        return
    first_merge = {left + right: (left, right) for left, right in reversed(vocabulary.merges)}
    if not by_ranks:
        if len(first_merge) < len(vocabulary.merges):
            yield (
                "Later merges that make a token again are not in the file: "
                "tiktoken has one rank for each token."
            )
        if unmade := vocabulary.unmade:
            yield (
                f"tiktoken may join parts of a word to {counted(len(unmade), 'token')} that no merge "
                f"makes, such as {unmade[0]!r}; in VOLT these tokens are whole words only."
            )
    different = list[str]()
    for data, joined in find_parts(list(map(to_bytes, tokens))):
        token = to_characters(data)
        parts = tuple(map(to_characters, joined))
        usual = first_merge.get(token, parts)
        if (by_ranks and len(parts) != 2) or (not by_ranks and parts != usual):
            different.append(token)
    if different:
        yield (
            f"tiktoken makes {len(different):,} tokens, such as {different[0]!r}, from other parts than the "
            "merges do, because lower ranks join first: text with these may be split differently."
        )


def _note_loading(vocabulary: Vocabulary, path: Path, *, keeps_ids: bool) -> str:
    special = {token: vocabulary.ids[token] for token in vocabulary.special.all}
    if not keeps_ids:
        special = {token: number for number, token in enumerate(special, vocabulary.size)}
    pattern = pattern_of(vocabulary.pretokenizer)
    is_raw = '"' not in pattern and not pattern.endswith("\\")
    shown = f'r"{pattern}"' if is_raw else repr(pattern)
    return (
        "The special tokens and the pattern that splits text are not in the file; "
        "give them when you load it:\n"
        "    from base64 import b64decode  # tiktoken's own loader caches the first file of this name\n"
        "    from pathlib import Path\n"
        "    from tiktoken import Encoding\n"
        f"    rows = map(bytes.split, Path({str(path)!r}).read_bytes().splitlines())\n"
        "    ranks = {b64decode(token): int(rank) for token, rank in rows}\n"
        f"    Encoding({path.stem!r}, pat_str={shown}, mergeable_ranks=ranks, "
        f"special_tokens={special!r})"
    )
