"""Note what VOLT loses or does differently when it reads a tokenizer.json of another program.

Each function yields sentences for `Vocabulary.notes`. In these, "there" means the library
`tokenizers`, and "here" VOLT. What a file contains and VOLT cannot do at all is an error, raised by
`pipeline_reading` and `tokens`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from volt.display import counted
from volt.formats.huggingface import unigram
from volt.formats.huggingface.pipeline_reading import flatten
from volt.formats.huggingface.pipeline_writing import Json, Scheme, decoders
from volt.formats.protocol import name_tokens
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import note_control_tokens, note_lone_end

# A flag of added tokens → what added tokens with this flag do in the library
_FLAG_EFFECTS = {
    "lstrip": "take the white space before them",
    "rstrip": "take the white space after them",
    "single_word": "are found as whole words only",
}


def note_import(data: Json, vocabulary: Vocabulary, *, is_own: bool) -> Iterator[str]:
    """Yield a sentence for each property of a tokenizer.json that VOLT drops or handles
    differently.

    vocabulary: the vocabulary that was read from the file
    is_own: whether VOLT wrote the file
    """
    model = data["model"]
    yield from _note_ids(data, model["vocab"], vocabulary)
    if vocabulary.is_unigram:
        yield from unigram.notes(model, vocabulary)
    else:
        yield from _note_model(model, vocabulary)
    yield from _note_surroundings(data)
    yield from _note_decoding(data, vocabulary)
    if not is_own:
        yield from _note_cuts(data, vocabulary)
        yield from note_added(data["added_tokens"], vocabulary, data)


def _note_ids(data: Json, vocab: Json, vocabulary: Vocabulary) -> Iterator[str]:
    yield from note_control_tokens(vocabulary)
    retained = {*vocabulary.ids, *vocabulary.scaffolding}
    if lost := [token for token in vocab if token not in retained]:
        yield (
            f"{counted(len(lost), 'token')} that no merge makes: left out, such as {lost[0]!r}, "
            "their ids not used."
        )
    if vocabulary.marker == "suffix" and SUFFIX in vocabulary.ids and SUFFIX not in vocab:
        yield note_lone_end(vocabulary)
    for token in BYTE_TOKENS * vocabulary.byte_fallback:
        if token not in vocab:
            yield f"VOLT adds the token {token}, id {vocabulary.ids[token]}, which no text needs."
    # The library ignores the id in the row of an added token that model.vocab lacks, and gives it the next id.
    n_ids = len(vocab)
    library_ids = dict[str, int]()
    for row in data["added_tokens"]:
        token = row["content"]
        if not token:
            continue
        library_ids.setdefault(token, vocab.get(token, n_ids))
        n_ids += token not in vocab
        if library_ids[token] != row["id"]:
            yield (
                f"The added token {name_tokens([token])}, which model.vocab lacks, has the id {library_ids[token]} "
                f"there, {row['id']} here."
            )
            return


def _note_model(model: Json, vocabulary: Vocabulary) -> Iterator[str]:
    if model.get("dropout"):
        yield (
            f"The dropout of the file, {model['dropout']}, is not imported: give it when you encode."
        )
    ids = vocabulary.ids
    letters = {*ALPHABET}
    if vocabulary.marker == "suffix":
        letters.update(letter + SUFFIX for letter in ALPHABET)
    cut = vocabulary.pretokenizer
    if vocabulary.byte_fallback or (cut.is_bytes and letters <= ids.keys()):
        return

    unk = model.get("unk_token")  # only this counts there, not roles in other files
    ours = vocabulary.special.unk
    if vocabulary.fuse_unk and cut.keeps_spaces and PREFIX not in ids:
        yield (
            f"Unknown words in a row are one {ours} there, as {PREFIX!r} is no token, "
            "and one each here."
        )
    in_volt = "leave nothing here"
    if ours:
        in_volt = f"are {ours} each here"
    if unk is None and ours is None:
        yield (
            "Unknown characters leave nothing, but pieces on both sides of one may join there, "
            "and not here."
        )
    elif unk is None:
        yield (
            f"Unknown characters leave nothing there, as the model names no unk_token, and {in_volt}."
        )
    elif unk not in model["vocab"]:
        yield (
            f"Unknown characters raise an error there, as model.vocab lacks the unk_token {unk!r}, "
            f"and {in_volt}."
        )
    elif unk != ours:
        yield (
            f"Unknown characters become the token {unk!r} there, which is not a special token, "
            f"and {in_volt}."
        )


def _note_surroundings(data: Json) -> Iterator[str]:
    if data.get("truncation"):
        yield "Truncation is not imported: lines are encoded whole."
    if data.get("padding"):
        yield "Padding is not imported: lines keep their own length."
    post = data.get("post_processor")
    if not isinstance(post, dict) or post.get("type") == "ByteLevel":
        return
    template = post.get("single")
    if post.get("type") == "TemplateProcessing" and isinstance(template, list):
        n_lines = sum("Sequence" in str(part) for part in template)
        if n_lines != 1:
            yield (
                "The template of the post-processor returns a line "
                f"{n_lines} times there, once here."
            )
    yield (
        f"Tokens that the post-processor ({post.get('type')}) adds to a line are added here only on "
        "request."
    )


def _note_cuts(data: Json, vocabulary: Vocabulary) -> Iterator[str]:
    cut = vocabulary.pretokenizer
    normalizer = vocabulary.normalizer
    section = json.dumps(data.get("pre_tokenizer"))
    steps = section + json.dumps(data.get("normalizer"))
    if vocabulary.byte_fallback:
        yield (
            "In a run of byte tokens that is not UTF-8, all decode to U+FFFD there, and only invalid "
            "ones here."
        )
    if cut.keeps_spaces and not cut.is_bytes and json.dumps(PREFIX)[1:-1] not in steps:
        yield f"{PREFIX!r} in text is a space here, and a character of its own there."
    if normalizer.lowercase and vocabulary.special.user and cut.isolates_users:
        yield (
            "Text that lowercasing turns into an added token that the pattern names is cut otherwise "
            "there."
        )
    if '"Digits"' in section:
        yield "Numbers newer than Unicode 16 may be numbers there, and are not here."
    if normalizer.lowercase:
        yield "'Σ' at the end of a word is lowered to 'ς' here, and to 'σ' there."
    uses_unicode = any(row[0].startswith("nf") for row in normalizer.rows)
    if normalizer.form == "none" and not uses_unicode:
        return
    kinds = [step.get("type") for step in flatten(data.get("normalizer"), "normalizers")]
    if "Lowercase" in kinds and not {"NFC", "NFKC"}.intersection(kinds[kinds.index("Lowercase") :]):
        yield (
            "A mark that combines with the small letter only, such as U+030A after W, stays separate "
            "there, not here."
        )
    yield (
        "Characters newer than the Unicode version of tokenizers stay as they are there, "
        "and are normalised here."
    )


def _note_decoding(data: Json, vocabulary: Vocabulary) -> Iterator[str]:
    yield from note_byte_letters(vocabulary)

    def kinds(steps: Sequence[Json]) -> list[tuple[Any, Any]]:
        return [(step.get("type"), step.get("content")) for step in steps]

    theirs = flatten(data.get("decoder"), "decoders")
    if vocabulary.is_unigram:
        theirs = list(unigram.spell_decoder(theirs, vocabulary))
    ours = decoders(Scheme.of(vocabulary), byte_fallback=vocabulary.byte_fallback)
    if not theirs:
        yield "The file names no decoder: decoded tokens have spaces between them there, and not here."
    elif kinds(theirs) != kinds(ours):
        yield "The decoder of the file is not imported: decoded text may have other spaces there."


def note_byte_letters(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield a note on special tokens that ByteLevel's decoder takes for letters of bytes."""
    tokens = [
        token
        for token in vocabulary.special.all
        if not token.isascii() and set(token) <= set(ALPHABET)
    ]
    if tokens and vocabulary.pretokenizer.is_bytes:
        yield (
            f"tokenizers decodes {name_tokens(tokens)} as the bytes that ByteLevel's letters spell, "
            "and VOLT as text."
        )


def note_added(rows: Sequence[Json], vocabulary: Vocabulary, data: Json) -> Iterator[str]:
    """Yield a sentence for each difference between how the library and VOLT find added tokens in
    text.

    rows: the added tokens with their flags, in the library's order
    vocabulary: a vocabulary with these tokens, some of them as user tokens
    data: the tokenizer.json of the rows; {} if they are from other files
    """
    special = vocabulary.special
    known = set(special.user)
    users = [row for row in rows if row["content"] in known]
    for flag, effect in _FLAG_EFFECTS.items():
        flagged = [row["content"] for row in users if row.get(flag)]
        others = [token for token in flagged if token not in special.flags.get(flag, ())]
        yield from _note_tokens(others, f"{effect} there ({flag}), and not here")

    in_normalized = [row["content"] for row in users if row.get("normalized")]
    in_raw = [row["content"] for row in users if not row.get("normalized")]
    stripping = {*special.lstrip, *special.rstrip}
    rewritten = [token for token in in_normalized if _may_be_rewritten(token, data, vocabulary)]
    yield from _note_tokens(rewritten, "are found in normalised text there, in raw text here")
    for first, second in product(in_raw, in_normalized):
        takes_white = first in stripping and second != second.strip()
        if second not in rewritten and (takes_white or _may_overlap(first, second)):
            yield (
                f"The added token {name_tokens([first])} is found before {name_tokens([second])} there; "
                "here, the longer one is found first."
            )
            break

    results = set(vocabulary.made)
    also_made = [
        row["content"] for row in users if _is_also_made(row["content"], results, data, vocabulary)
    ]
    if vocabulary.is_unigram:
        also_made = []  # they are pieces of paths here, too
    yield from _note_tokens(
        also_made, "are also made by merges from other text there, and not here"
    )
    if users:
        yield from _note_neighbours(vocabulary)


def _note_neighbours(vocabulary: Vocabulary) -> Iterator[str]:
    names = name_tokens(vocabulary.special.user)
    cut = vocabulary.pretokenizer.name
    if vocabulary.marker == "suffix" and SUFFIX in vocabulary.ids:
        yield (
            f"User tokens ({names}) cut words there: text before them ends in '</w>', "
            "but no lone '</w>' follows."
        )
    if cut == "unicode":
        yield (
            f"'▁' may precede text after a user token ({names}) there; "
            "here it may precede the token at a line start."
        )
    if cut.startswith("regex:"):
        yield (
            f"Text is cut at user tokens ({names}) before it is cut into words there, "
            "and afterwards here."
        )


def _note_tokens(tokens: Sequence[str], difference: str) -> Iterator[str]:
    """Yield the sentence that some added tokens have this difference; nothing if there are none."""
    if tokens:
        yield f"Some added tokens {difference}: {name_tokens(tokens)}."


def _may_be_rewritten(token: str, data: Json, vocabulary: Vocabulary) -> bool:
    """Check whether the normalizer, before the library looks for an added token, may change this
    token or make it.

    The steps Prepend and Replace add "▁". NFC does not change the white space of ASCII.
    """
    section = json.dumps(data.get("normalizer"))
    if '"Prepend"' in section:
        return True
    special = vocabulary.special
    takes_white = token in special.lstrip + special.rstrip
    if '"Replace"' in section and (takes_white or " " in token or PREFIX in token):
        return True
    form = vocabulary.normalizer.name
    is_inert = form == "nfc" and token.isascii() and token.isspace()
    return form != "none" and not is_inert


def _is_also_made(token: str, results: set[str], data: Json, vocabulary: Vocabulary) -> bool:
    """Check whether merges may also make an added token, from text with another spelling.

    results: the results of merges
    """
    if token not in data.get("model", {}).get("vocab", ()):
        return False
    is_respelled = (
        vocabulary.marker != "none"
        or vocabulary.normalizer.name != "none"
        or PREFIX in token
        or (vocabulary.pretokenizer.is_bytes and not token.isascii())
    )
    return is_respelled and (len(token) == 1 or token in results)


def _may_overlap(one: str, other: str) -> bool:
    """Check whether two tokens may overlap in text."""
    if one in other or other in one:
        return True
    sizes = range(1, min(len(one), len(other)))
    return any(one[-n:] == other[:n] or other[-n:] == one[:n] for n in sizes)
