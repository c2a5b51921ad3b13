"""Find the `Scheme` that treats text as another program's tokenizer.json does; note losses, or raise an error.

A "▁" for each space comes from Metaspace, or from a normaliser (Llama, Gemma). If no step cuts lines, a line is one
word for the library; VOLT cuts the line where no token spans the cut, which changes no piece. In notes, "there" means
the library, and "here" VOLT.

>>> level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
>>> read_foreign({"normalizer": {"type": "NFC"}, "pre_tokenizer": level}, {"vocab": {}})
Scheme(marker='none', normalizer='nfc', pretokenizer='bytes', users=(), end='</w>')
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

from volt.display import counted
from volt.errors import ConfigError, VocabularyError, quoted
from volt.formats.huggingface.pipeline_writing import (
    FINAL_SIGMA,
    PREPEND,
    SPACE_STEP,
    Json,
    Scheme,
    as_object,
    decoders,
)
from volt.formats.huggingface.split_patterns import cut_name
from volt.formats.protocol import Pair, named
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.patterns.published import drops_rest, splits_of
from volt.text.patterns.regex_parser import parse, sets_of
from volt.text.pretokenizer import IF_ABSENT, PER_SEGMENT, PreTokenizer
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import note_control_tokens, note_lone_end

_FORMS = {"NFC": "nfc", "NFKC": "nfkc", "Lowercase": "lowercase"}
_EACH_SPACE = " [^ ]*|[^ ]+"
_EACH_RUN = " +[^ ]*|[^ ]+"
_LINE = r"[\s\S]+"
# The library does not cut text with these pre-tokenizers.
_UNCUT = tuple(f"split:{pattern}" for pattern in (_EACH_SPACE, _EACH_RUN, _LINE))


def read_foreign(data: Json, model: Json, *, added: Sequence[str] = ()) -> Scheme:
    """Return the scheme that treats text as the sections of a tokenizer.json do. added: the added tokens"""
    steps = [step for step in flat(data.get("normalizer"), "normalizers") if step != FINAL_SIGMA]
    cuts = flat(data.get("pre_tokenizer"), "pretokenizers")
    spaces = list[Json]()
    for last in ([PREPEND, SPACE_STEP], [SPACE_STEP]):
        if not spaces and steps[-len(last) :] == last:
            spaces = last
    steps = steps[: len(steps) - len(spaces)]

    marker: Marker = "none"
    if model.get("end_of_word_suffix") == SUFFIX:
        marker = "suffix"
    if not spaces and not _is_metaspace(cuts[-1:]):
        name = _read_cut(cuts, model, added)
    elif marker == "suffix":
        raise VocabularyError(
            f"end_of_word_suffix and {PREFIX!r} mark words, but VOLT marks only one end; remove one"
        )
    else:
        marker, name = _read_spaces(spaces, cuts, model["vocab"])
    return Scheme(marker, read_normalizer(steps, name), name, ())


def _is_metaspace(steps: Sequence[Json]) -> bool:
    return any(step.get("type") == "Metaspace" for step in steps)


def flat(section: Any, name: str) -> list[Json]:
    """Return the steps of a section, with nested Sequences flattened. name: the key that holds a Sequence's steps"""
    if section is None:
        return []
    if not isinstance(section, dict):
        raise VocabularyError(
            f"{name}: found {section!r} instead of an object; download or export it again"
        )
    if section.get("type") == "Sequence" and isinstance(section.get(name), list):
        return [step for part in section[name] for step in flat(part, name)]
    return [section]


def read_normalizer(steps: Sequence[Json], cut: str) -> str:
    """Return the name of the normalizer that performs these steps. cut: the pre-tokenizer that follows"""
    drops_white = cut == "whitespace"
    if drops_rest(cut):
        [white] = sets_of(parse(r"\s"))
        [split] = splits_of(cut)
        sets = sets_of(parse(split.pattern))
        drops_white = all((characters & white).edges == () for characters in sets)
    kinds = [str(step.get("type")) for step in steps if not (drops_white and _is_about_white(step))]
    names = {_FORMS.get(kind, kind) for kind in kinds}
    with suppress(ConfigError, ValueError):
        ordered = sorted(names, key=[*_FORMS.values()].index)
        return Normalizer.parse("+".join(ordered) or "none").name
    raise VocabularyError(
        f"the normalizer {' + '.join(kinds)} is not NFC, NFKC, Lowercase, or Lowercase with NFC or "
        "NFKC; normalise the text yourself, and remove the step"
    )


def _is_about_white(step: Json) -> bool:
    """Check whether a step only replaces white space by white space, or removes it at the ends of a text."""
    if step.get("type") == "Strip":
        return True
    if step.get("type") != "Replace" or step.get("content") != " ":
        return False
    pattern = as_object(step.get("pattern"))
    is_space = pattern.get("String") in (" ", "\n", "\t", "  ")
    return is_space or pattern.get("Regex") in (r"\s+", r" {2,}", " +", r"\s")


def _read_spaces(
    spaces: Sequence[Json], cuts: Sequence[Json], vocab: Iterable[str]
) -> tuple[Marker, str]:
    """Return the marker and the pre-tokenizer of a file that writes spaces as "▁"."""
    place = "always" if PREPEND in spaces else "never"
    splits = False
    if _is_metaspace(cuts[-1:]):
        *cuts, last = cuts
        if last.get("replacement") != PREFIX:
            raise VocabularyError(
                f"Metaspace with {last.get('replacement')!r} for spaces; VOLT reads only {PREFIX!r}"
            )
        if place == "never":
            usual = "always" if last.get("add_prefix_space", True) else "never"
            place = str(last.get("prepend_scheme", usual))
        splits = bool(last.get("split", True))
    if spaces:
        cuts = list(filter(None, map(_unmarked, cuts)))
    elif any(PREFIX in str(step.get("pattern")) for step in cuts):
        raise VocabularyError(
            f"a step cuts text at {PREFIX!r} before Metaspace, which VOLT cannot do; remove the step"
        )
    if not cuts:
        name = _uncut(vocab, splits=splits, starts=place != "never")
        if place != "never" and PREPEND not in spaces:
            name += IF_ABSENT
        if place == "always":
            name += PER_SEGMENT
        return "none", name

    if splits:
        at_spaces = {"type": "Split", "pattern": {"Regex": _EACH_SPACE}, "behavior": "Isolated"}
        cuts = [*cuts, at_spaces]
    name = cut_name(cuts)
    if place == "never":
        return "none", name
    if place == "first" or PreTokenizer(name).keeps_spaces:
        raise VocabularyError(
            f"Metaspace puts '▁' ({place}) before words that {quoted(name, 100)} cuts, "
            "which VOLT cannot do; set its prepend_scheme to never"
        )
    return "prefix", name


def _unmarked(step: Json) -> Json | None:
    """Return a step that cuts text with spaces as `step` cuts text with "▁" instead; None if it never cuts."""
    kind = step.get("type")
    if kind in ("Digits", "Punctuation"):
        return step
    text = as_object(step.get("pattern")).get("String")
    if kind != "Split" or not isinstance(text, str):
        raise VocabularyError(
            f"{kind} splits text whose spaces are '▁' already, which VOLT cannot do; "
            "give the tokenizer's sentencepiece model, if it has one"
        )
    if " " in text and not step.get("invert"):
        return None
    return step | {"pattern": {"String": text.replace(PREFIX, " ")}}


def _uncut(vocab: Iterable[str], *, splits: bool, starts: bool) -> str:
    """Return the pre-tokenizer for lines that no step cuts, or that only Metaspace `splits`."""
    within = [token for token in vocab if PREFIX in token[1:]]
    names = ("metaspace-runs", f"split:{_EACH_RUN}")
    if splits or not within:
        names = ("metaspace", f"split:{_EACH_SPACE}")
    elif any(re.search(f"[^{PREFIX}]{PREFIX}", token) for token in within):
        names = ("metaspace-line", f"split:{_LINE}")
    return names[not starts]


def _read_cut(cuts: Sequence[Json], model: Json, added: Sequence[str]) -> str:
    if not cuts:
        raise VocabularyError(
            "no pre_tokenizer, but VOLT's words contain no spaces; "
            "add one, such as ByteLevel or Metaspace"
        )
    name = cut_name(cuts, isolated=added)
    cut = PreTokenizer(name)
    if not cut.keeps_spaces or cut.is_bytes:
        return name
    vocab = model["vocab"]
    for token in vocab:
        if " " in token:
            raise VocabularyError(
                f"{token!r} contains a space, but VOLT needs '▁'; write '▁' in model.vocab and "
                "model.merges, and after the other steps, put Metaspace with prepend_scheme never "
                "and split false"
            )
    marked = next((token for token in vocab if PREFIX in token), None)
    if marked and not any(PREFIX in str(step.values()) for step in cuts):
        raise VocabularyError(
            f"{marked!r} stands for spaces, but no step writes {PREFIX!r}; put Metaspace first"
        )
    if model.get("byte_fallback"):
        raise VocabularyError(
            "tokenizers turns a space into <0x20>, unlike VOLT; train with a space in the alphabet"
        )
    return name


_FLAGS = {  # flag → its effect on one token, and on several
    "lstrip": ("takes the white space before it", "take the white space before them"),
    "rstrip": ("takes the white space after it", "take the white space after them"),
    "single_word": ("is found as a whole word only", "are found as whole words only"),
}


def losses(data: Json, vocabulary: Vocabulary, *, is_own: bool) -> Iterator[str]:
    """Yield a sentence for each property that VOLT drops or handles differently. is_own: whether VOLT wrote the file"""
    model = data["model"]
    yield from _id_losses(data, model["vocab"], vocabulary)
    yield from _model_losses(model, vocabulary)
    yield from _surrounding_losses(data)
    yield from _decoding_losses(data, vocabulary)
    if not is_own:
        yield from _cut_losses(data, vocabulary)
        yield from added_losses(data["added_tokens"], vocabulary, data)


def _id_losses(data: Json, vocab: Json, vocabulary: Vocabulary) -> Iterator[str]:
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
    n_ids = len(vocab)
    ids = dict[str, int]()  # as the library numbers added tokens
    for row in data["added_tokens"]:
        token = row["content"]
        if not token:
            continue
        ids.setdefault(token, vocab.get(token, n_ids))
        n_ids += token not in vocab
        if ids[token] != row["id"]:
            yield (
                f"The added token {named([token])}, which model.vocab lacks, has the id {ids[token]} "
                f"there, {row['id']} here."
            )
            return


def _model_losses(model: Json, vocabulary: Vocabulary) -> Iterator[str]:
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
    result = "leave nothing here"
    if ours:
        result = f"are {ours} each here"
    if unk is None and ours is None:
        yield (
            "Unknown characters leave nothing, but pieces on both sides of one may join there, "
            "and not here."
        )
    elif unk is None:
        yield (
            f"Unknown characters leave nothing there, as the model names no unk_token, and {result}."
        )
    elif unk not in model["vocab"]:
        yield (
            f"Unknown characters raise an error there, as model.vocab lacks the unk_token {unk!r}, "
            f"and {result}."
        )
    elif unk != ours:
        yield (
            f"Unknown characters become the token {unk!r} there, which is not a special token, "
            f"and {result}."
        )


def _surrounding_losses(data: Json) -> Iterator[str]:
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


def _cut_losses(data: Json, vocabulary: Vocabulary) -> Iterator[str]:
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
    if normalizer.form == "none":
        return
    kinds = [step.get("type") for step in flat(data.get("normalizer"), "normalizers")]
    if "Lowercase" in kinds and not {"NFC", "NFKC"}.intersection(kinds[kinds.index("Lowercase") :]):
        yield (
            "A mark that combines with the small letter only, such as U+030A after W, stays separate "
            "there, not here."
        )
    yield (
        "Characters newer than the Unicode version of tokenizers stay as they are there, "
        "and are normalised here."
    )


def _decoding_losses(data: Json, vocabulary: Vocabulary) -> Iterator[str]:
    yield from letter_notes(vocabulary)

    def kinds(steps: Sequence[Json]) -> list[tuple[Any, Any]]:
        return [(step.get("type"), step.get("content")) for step in steps]

    theirs = flat(data.get("decoder"), "decoders")
    ours = decoders(Scheme.of(vocabulary), byte_fallback=vocabulary.byte_fallback)
    if not theirs:
        yield "The file names no decoder: decoded tokens have spaces between them there, and not here."
    elif kinds(theirs) != kinds(ours):
        yield "The decoder of the file is not imported: decoded text may have other spaces there."


def letter_notes(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield a note on special tokens that ByteLevel's decoder takes for letters of bytes."""
    tokens = [
        token
        for token in vocabulary.special.all
        if not token.isascii() and set(token) <= set(ALPHABET)
    ]
    if tokens and vocabulary.pretokenizer.is_bytes:
        yield (
            f"tokenizers decodes {named(tokens)} as the bytes that ByteLevel's letters spell, "
            "and VOLT as text."
        )


def added_losses(rows: Sequence[Json], vocabulary: Vocabulary, data: Json) -> Iterator[str]:
    """Yield differences between how the library finds added tokens in text and how VOLT finds user tokens.

    rows: the added tokens with their flags, in the library's order;  data: their tokenizer.json, or {}
    """
    special = vocabulary.special
    known = set(special.user)
    users = [row for row in rows if row["content"] in known]
    for flag, (verb, verbs) in _FLAGS.items():
        flagged = [row["content"] for row in users if row.get(flag)]
        others = [token for token in flagged if token not in special.flags.get(flag, ())]
        yield from _note(others, verb, verbs, f"there ({flag}), and not here.")

    late = [row["content"] for row in users if row.get("normalized")]
    raw = [row["content"] for row in users if not row.get("normalized")]
    strips = {*special.lstrip, *special.rstrip}
    moved = [token for token in late if _is_rewritten(token, data, vocabulary)]
    yield from _note(moved, "is", "are", "found in normalised text there, in raw text here.")
    for first, second in product(raw, late):
        takes_white = first in strips and second != second.strip()
        if second not in moved and (takes_white or _overlap(first, second)):
            yield (
                f"The added token {named([first])} is found before {named([second])} there; "
                "here, the longer one is found first."
            )
            break

    results = set(vocabulary.made)
    both = [row["content"] for row in users if _is_made(row["content"], results, data, vocabulary)]
    yield from _note(both, "is", "are", "also made by merges from other text there, and not here.")
    if users:
        yield from _neighbour_notes(vocabulary)


def _neighbour_notes(vocabulary: Vocabulary) -> Iterator[str]:
    names = named(vocabulary.special.user)
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


def _note(tokens: Sequence[str], verb: str, verbs: str, rest: str) -> Iterator[str]:
    if len(tokens) == 1:
        yield f"The added token {named(tokens)} {verb} {rest}"
    if len(tokens) > 1:
        yield f"The added tokens {named(tokens)} {verbs} {rest}"


def _is_rewritten(token: str, data: Json, vocabulary: Vocabulary) -> bool:
    """Check whether the steps before the library's search may change or make an added token.

    Steps that add "▁" are Prepend and Replace. NFC leaves the white space of ASCII alone.
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


def _is_made(token: str, results: set[str], data: Json, vocabulary: Vocabulary) -> bool:
    """Check whether merges may make an added token, too, from text with another spelling."""
    if token not in data.get("model", {}).get("vocab", ()):
        return False
    is_respelled = (
        vocabulary.marker != "none"
        or vocabulary.normalizer.name != "none"
        or PREFIX in token
        or (vocabulary.pretokenizer.is_bytes and not token.isascii())
    )
    return is_respelled and (len(token) == 1 or token in results)


def _overlap(one: str, other: str) -> bool:
    """Check whether two tokens may overlap in text."""
    if one in other or other in one:
        return True
    sizes = range(1, min(len(one), len(other)))
    return any(one[-n:] == other[:n] or other[-n:] == one[:n] for n in sizes)


def remade(merges: Sequence[Pair]) -> Iterator[Pair]:
    """Yield merges that may prevent their next use: a merge of lower rank joins their token with the next left part.

    This requires that an earlier merge makes the same token.
    """
    if len(set(map("".join, merges))) == len(merges):  # saves the search below
        return
    results = set[str]()
    uses = defaultdict[str, list[Pair]](list)  # part → the earlier merges that have it
    for left, right in merges:
        result = left + right
        reached = {result}
        waiting = list(results & reached)
        while waiting:
            part = waiting.pop()
            if (part, left) in uses[part]:
                yield left, right
                break
            new = {"".join(pair) for pair in uses[part]} - reached
            reached |= new
            waiting += new
        results.add(result)
        for part in {left, right}:
            uses[part].append((left, right))


def refuse(model: Json, data: Json, scheme: Scheme) -> None:
    """Raise VocabularyError if another program's file requires something that no scheme of VOLT can do."""
    name = scheme.pretokenizer
    if model.get("byte_fallback"):
        if scheme.marker == "suffix":
            raise VocabularyError(
                "byte_fallback spells the suffix of an unknown character as bytes, too; "
                "set it to false"
            )
        if name.startswith("bytes") and not model["vocab"].keys() >= set(ALPHABET):
            raise VocabularyError(
                "byte_fallback and ByteLevel, but not all letters of ByteLevel are tokens, "
                "which VOLT cannot do; train a tokenizer with all 256 letters"
            )
    if not model.get("ignore_merges"):
        return
    remedy = "set ignore_merges to false if every token is made by merges"
    cuts = flat(data.get("pre_tokenizer"), "pretokenizers")
    is_split = any(cut.get("type") == "Metaspace" and cut.get("split", True) for cut in cuts)
    if not is_split and name.startswith(("metaspace", *_UNCUT)):
        raise VocabularyError(
            f"ignore_merges looks up whole lines in tokenizers, but words in VOLT; {remedy}"
        )
    if scheme.marker != "none":
        raise VocabularyError(
            f"ignore_merges looks words up without their mark ({scheme.marker}), "
            f"which VOLT cannot do; {remedy}"
        )
