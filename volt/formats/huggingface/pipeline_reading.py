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
from itertools import product
from operator import itemgetter
from typing import Any

from volt.display import counted
from volt.errors import ConfigError, VocabularyError, quoted
from volt.formats.huggingface.pipeline_writing import (
    FINAL_SIGMA,
    Json,
    Scheme,
    decoders,
    replace_step,
)
from volt.formats.huggingface.split_patterns import cut_name
from volt.formats.protocol import named
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.patterns.published import drops_rest, splits_of
from volt.text.patterns.regex_parser import parse, sets_of
from volt.text.pretokenizer import IF_ABSENT, PER_SEGMENT, PreTokenizer
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import control_notes, lone_end_note

_FORMS = {"NFC": "nfc", "NFKC": "nfkc", "Lowercase": "lowercase"}
_SPACE = replace_step(" ", PREFIX)
_PREPEND = {"type": "Prepend", "prepend": PREFIX}
_EACH_SPACE, _EACH_RUN, _LINE = " [^ ]*|[^ ]+", " +[^ ]*|[^ ]+", r"[\s\S]+"
_UNCUT = tuple(
    f"split:{pattern}" for pattern in (_EACH_SPACE, _EACH_RUN, _LINE)
)  # not cut by the library


def read_foreign(data: Json, model: Json, *, added: Sequence[str] = ()) -> Scheme:
    """Return the scheme that treats text as the sections of a tokenizer.json do. added: the added tokens"""
    suffix = model.get("end_of_word_suffix") == SUFFIX
    steps = [step for step in flat(data.get("normalizer"), "normalizers") if step != FINAL_SIGMA]
    cuts = flat(data.get("pre_tokenizer"), "pretokenizers")
    spaces = next(
        (last for last in ([_PREPEND, _SPACE], [_SPACE]) if steps[-len(last) :] == last), []
    )
    steps = steps[: len(steps) - len(spaces)]
    marks_spaces = bool(spaces or (cuts and cuts[-1].get("type") == "Metaspace"))
    if suffix and marks_spaces:
        raise VocabularyError(
            f"end_of_word_suffix and {PREFIX!r} mark words, but VOLT marks only one end; remove one"
        )
    if marks_spaces:
        marker, name = _read_spaces(spaces, cuts, model["vocab"])
    else:
        marker, name = "suffix" if suffix else "none", _read_cut(cuts, model, added)
    return Scheme(marker, read_normalizer(steps, name), name, ())


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
    drops_white = cut == "whitespace" or (drops_rest(cut) and _matches_no_white(cut))
    kinds = [str(step.get("type")) for step in steps if not (drops_white and _is_about_white(step))]
    names = list(dict.fromkeys(_FORMS.get(kind, kind) for kind in kinds))
    try:
        return Normalizer.parse(
            "+".join(sorted(names, key=["nfc", "nfkc", "lowercase"].index)) or "none"
        ).name
    except (ConfigError, ValueError):
        what = f"the normalizer {' + '.join(kinds)} is not NFC, NFKC, Lowercase, or Lowercase with NFC or NFKC"
        raise VocabularyError(f"{what}; normalise the text yourself, and remove the step") from None


def _matches_no_white(cut: str) -> bool:
    [white], [split] = sets_of(parse(r"\s")), splits_of(cut)
    return all((characters & white).edges == () for characters in sets_of(parse(split.pattern)))


def _is_about_white(step: Json) -> bool:
    """Check whether a step only replaces white space by white space, or removes it at the ends of a text."""
    if step.get("type") == "Strip":
        return True
    pattern = step.get("pattern")
    known = isinstance(pattern, dict) and (
        pattern.get("Regex") in (r"\s+", r" {2,}", " +", r"\s")
        or pattern.get("String") in (" ", "\n", "\t", "  ")
    )
    return step.get("type") == "Replace" and known and step.get("content") == " "


def _read_spaces(
    spaces: Sequence[Json], cuts: Sequence[Json], vocab: Iterable[str]
) -> tuple[Marker, str]:
    scheme, splits = ("always" if _PREPEND in spaces else "never"), False
    if cuts and cuts[-1].get("type") == "Metaspace":
        *cuts, last = cuts
        if last.get("replacement") != PREFIX:
            raise VocabularyError(
                f"Metaspace with {last.get('replacement')!r} for spaces; VOLT reads only {PREFIX!r}"
            )
        usual = "always" if last.get("add_prefix_space", True) else "never"
        scheme = str(last.get("prepend_scheme", usual)) if scheme == "never" else scheme
        splits = bool(last.get("split", True))
    if not spaces and any(PREFIX in str(step.get("pattern")) for step in cuts):
        raise VocabularyError(
            f"a step cuts text at {PREFIX!r} before Metaspace, which VOLT cannot do; remove the step"
        )
    if cuts and spaces:
        cuts = [step for step in map(_unmarked, cuts) if step]
    if not cuts:
        name = _uncut(vocab, splits=splits, starts=scheme != "never")
        name += IF_ABSENT * (scheme != "never" and _PREPEND not in spaces)
        return "none", name + PER_SEGMENT * (scheme == "always")
    at_spaces = {"type": "Split", "pattern": {"Regex": _EACH_SPACE}, "behavior": "Isolated"}
    name = cut_name([*cuts, *[at_spaces] * splits])
    keeps = PreTokenizer(name).keeps_spaces
    if scheme == "never":
        return "none", name
    if keeps or scheme == "first":
        what = f"Metaspace puts '▁' ({scheme}) before words that {quoted(name, 100)} cuts"
        raise VocabularyError(f"{what}, which VOLT cannot do; set its prepend_scheme to never")
    return "prefix", name


def _unmarked(step: Json) -> Json | None:
    """Return a step that cuts text with spaces as `step` cuts text with "▁" instead; None if it never cuts."""
    result = step.get("pattern")
    text = result.get("String") if isinstance(result, dict) else None
    if step.get("type") in ("Digits", "Punctuation"):
        return step
    if step.get("type") == "Split" and isinstance(text, str):
        return (
            None
            if " " in text and not step.get("invert")
            else step | {"pattern": {"String": text.replace(PREFIX, " ")}}
        )
    what = f"{step.get('type')} splits text whose spaces are '▁' already, which VOLT cannot do"
    raise VocabularyError(f"{what}; give the tokenizer's sentencepiece model, if it has one")


def _uncut(vocab: Iterable[str], *, splits: bool, starts: bool) -> str:
    within = [token for token in vocab if PREFIX in token[1:]] if not splits else []
    if not within:
        return "metaspace" if starts else f"split:{_EACH_SPACE}"
    runs = not any(re.search(f"[^{PREFIX}]{PREFIX}", token) for token in within)
    if starts:
        return "metaspace-runs" if runs else "metaspace-line"
    return f"split:{_EACH_RUN if runs else _LINE}"


def _read_cut(cuts: Sequence[Json], model: Json, added: Sequence[str]) -> str:
    if not cuts:
        raise VocabularyError(
            "no pre_tokenizer, but VOLT's words contain no spaces; add one, such as ByteLevel or Metaspace"
        )
    name, vocab = cut_name(cuts, isolated=added), model["vocab"]
    cut = PreTokenizer(name)
    if not cut.keeps_spaces or cut.is_bytes:
        return name
    if spaced := next((token for token in vocab if " " in token), None):
        remedy = "after the other steps, put Metaspace with prepend_scheme never and split false"
        what = f"{spaced!r} contains a space, but VOLT needs '▁'; write '▁' in model.vocab and model.merges"
        raise VocabularyError(f"{what}, and {remedy}")
    marked = next((token for token in vocab if PREFIX in token), None)
    if marked and not any(PREFIX in str(one.values()) for one in cuts):
        raise VocabularyError(
            f"{marked!r} stands for spaces, but no step writes {PREFIX!r}; put Metaspace first"
        )
    if model.get("byte_fallback") and " " not in vocab:
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
        yield from added_losses(data.get("added_tokens") or [], vocabulary, data)


def _id_losses(data: Json, vocab: Json, vocabulary: Vocabulary) -> Iterator[str]:
    yield from control_notes(vocabulary)
    retained = {*vocabulary.ids, *vocabulary.scaffolding}
    if lost := [token for token in vocab if token not in retained]:
        yield f"{counted(len(lost), 'token')} that no merge makes: left out, such as {lost[0]!r}, their ids not used."
    if vocabulary.marker == "suffix" and SUFFIX in vocabulary.ids and SUFFIX not in vocab:
        yield lone_end_note(vocabulary)
    for token in BYTE_TOKENS * vocabulary.byte_fallback:
        if token not in vocab:
            yield f"VOLT adds the token {token}, id {vocabulary.ids[token]}, which no text needs."
    ids, n_new = dict[str, int](), 0
    for row in filter(itemgetter("content"), data.get("added_tokens") or []):
        token = row["content"]
        ids.setdefault(
            token, vocab.get(token, len(vocab) + n_new)
        )  # as the library numbers added tokens
        n_new += token not in vocab
        if ids[token] != row["id"]:
            numbers = f"has the id {ids[token]} there, {row['id']} here"
            yield f"The added token {named([token])}, which model.vocab lacks, {numbers}."
            return


def _model_losses(model: Json, vocabulary: Vocabulary) -> Iterator[str]:
    letters = {
        letter + end
        for letter in ALPHABET
        for end in {"", SUFFIX * (vocabulary.marker == "suffix")}
    }
    knows_all = vocabulary.byte_fallback or (
        vocabulary.pretokenizer.is_bytes and letters <= set(vocabulary.ids)
    )
    unk, ours = (
        model.get("unk_token"),
        vocabulary.special.unk,
    )  # only unk_token counts there, not roles in other files
    if model.get("dropout"):
        yield f"The dropout of the file, {model['dropout']}, is not imported: give it when you encode."
    if knows_all:
        return
    if (
        vocabulary.fuse_unk
        and vocabulary.pretokenizer.keeps_spaces
        and PREFIX not in vocabulary.ids
    ):
        yield f"Unknown words in a row are one {ours} there, as {PREFIX!r} is no token, and one each here."
    current = f"are {ours} each here" if ours else "leave nothing here"
    if unk is None and ours is None:
        yield "Unknown characters leave nothing, but pieces on both sides of one may join there, and not here."
    elif unk is None:
        yield f"Unknown characters leave nothing there, as the model names no unk_token, and {current}."
    elif unk not in model["vocab"]:
        yield f"Unknown characters raise an error there, as model.vocab lacks the unk_token {unk!r}, and {current}."
    elif unk != ours:
        yield f"Unknown characters become the token {unk!r} there, which is not a special token, and {current}."


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
            yield f"The template of the post-processor returns a line {n_lines} times there, once here."
    yield f"Tokens that the post-processor ({post.get('type')}) adds to a line are added here only on request."


def _cut_losses(data: Json, vocabulary: Vocabulary) -> Iterator[str]:
    section = json.dumps(data.get("pre_tokenizer"))
    cut, steps = vocabulary.pretokenizer, section + json.dumps(data.get("normalizer"))
    if vocabulary.byte_fallback:
        yield "In a run of byte tokens that is not UTF-8, all decode to U+FFFD there, and only invalid ones here."
    if cut.keeps_spaces and not cut.is_bytes and json.dumps(PREFIX)[1:-1] not in steps:
        yield f"{PREFIX!r} in text is a space here, and a character of its own there."
    if vocabulary.normalizer.lowercase and vocabulary.special.user and cut.isolates_users:
        yield "Text that lowercasing turns into an added token that the pattern names is cut otherwise there."
    if '"Digits"' in section:
        yield "Numbers newer than Unicode 16 may be numbers there, and are not here."
    if vocabulary.normalizer.lowercase:
        yield "'Σ' at the end of a word is lowered to 'ς' here, and to 'σ' there."
    if vocabulary.normalizer.form == "none":
        return
    kinds = [step.get("type") for step in flat(data.get("normalizer"), "normalizers")]
    if "Lowercase" in kinds and not {"NFC", "NFKC"} & {*kinds[kinds.index("Lowercase") :]}:
        yield "A mark that combines with the small letter only, such as U+030A after W, stays separate there, not here."
    yield "Characters newer than the Unicode version of tokenizers stay as they are there, and are normalised here."


def _decoding_losses(data: Json, vocabulary: Vocabulary) -> Iterator[str]:
    yield from letter_notes(vocabulary)
    sections = (
        flat(data.get("decoder"), "decoders"),
        decoders(Scheme.of(vocabulary), vocabulary.byte_fallback),
    )
    theirs, ours = (
        [(step.get("type"), step.get("content")) for step in steps] for steps in sections
    )
    if not theirs:
        yield "The file names no decoder: decoded tokens have spaces between them there, and not here."
    elif theirs != ours:
        yield "The decoder of the file is not imported: decoded text may have other spaces there."


def letter_notes(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield a note on special tokens that ByteLevel's decoder takes for letters of bytes."""
    letters = set(ALPHABET)
    tokens = [
        token
        for token in vocabulary.special.all
        if not token.isascii() and letters.issuperset(token)
    ]
    if tokens and vocabulary.pretokenizer.is_bytes:
        yield f"tokenizers decodes {named(tokens)} as the bytes that ByteLevel's letters spell, and VOLT as text."


def added_losses(rows: Sequence[Json], vocabulary: Vocabulary, data: Json) -> Iterator[str]:
    """Yield differences between how the library finds added tokens in text and how VOLT finds user tokens.

    rows: the added tokens with their flags, in the library's order;  data: their tokenizer.json, or {}
    """
    known = set(vocabulary.special.user)
    users = [row for row in rows if row["content"] in known]
    for flag, verbs in _FLAGS.items():
        ours = getattr(vocabulary.special, flag, ())
        others = [row["content"] for row in users if row.get(flag) and row["content"] not in ours]
        yield from _note(others, *verbs, f"there ({flag}), and not here.")
    rewrites, section = vocabulary.normalizer.name != "none", json.dumps(data.get("normalizer"))
    late = [row["content"] for row in users if row.get("normalized")]
    marks, prepends = '"Replace"' in section, '"Prepend"' in section  # both add "▁"
    strips = {*vocabulary.special.lstrip, *vocabulary.special.rstrip}
    moved = [
        name
        for name in late
        if prepends
        or (marks and ({" ", PREFIX} & {*name} or name in strips))
        or (rewrites and not _is_inert(name, vocabulary))
    ]
    yield from _note(moved, "is", "are", "found in normalised text there, in raw text here.")
    raw = [row["content"] for row in users if not row.get("normalized")]
    for first, second in product(raw, [name for name in late if name not in moved]):
        if _overlap(first, second) or (first in strips and second != second.strip()):
            what = f"The added token {named([first])} is found before {named([second])} there"
            yield f"{what}; here, the longer one is found first."
            break
    results = {*vocabulary.made}
    both = [row["content"] for row in users if _is_made(row["content"], results, data, vocabulary)]
    yield from _note(both, "is", "are", "also made by merges from other text there, and not here.")
    if not users:
        return
    names = named(vocabulary.special.user)
    if vocabulary.marker == "suffix" and SUFFIX in vocabulary.ids:
        yield f"User tokens ({names}) cut words there: text before them ends in '</w>', but no lone '</w>' follows."
    if vocabulary.pretokenizer.name == "unicode":
        yield f"'▁' may precede text after a user token ({names}) there; here it may precede the token at a line start."
    if vocabulary.pretokenizer.name.startswith("regex:"):
        yield f"Text is cut at user tokens ({names}) before it is cut into words there, and afterwards here."


def _is_inert(token: str, vocabulary: Vocabulary) -> bool:
    """Check whether normalisation neither changes nor makes a token: NFC leaves the white space of ASCII alone."""
    return vocabulary.normalizer.name == "nfc" and token.isascii() and token.isspace()


def _note(tokens: Sequence[str], one: str, several: str, rest: str) -> Iterator[str]:
    if tokens:
        yield f"The added token{'s' * (len(tokens) > 1)} {named(tokens)} {several if len(tokens) > 1 else one} {rest}"


def _is_made(token: str, results: set[str], data: Json, vocabulary: Vocabulary) -> bool:
    """Check whether merges may make an added token, too, from text with another spelling."""
    model = data.get("model", {})
    is_plain = (
        vocabulary.marker == "none" and vocabulary.normalizer.name == "none" and PREFIX not in token
    )
    is_bytes = vocabulary.pretokenizer.is_bytes and not token.isascii()
    if token not in model.get("vocab", ()) or (is_plain and not is_bytes):
        return False
    return len(token) == 1 or token in results


def _overlap(one: str, other: str) -> bool:
    ends = (
        one[-n:] == other[:n] or other[-n:] == one[:n]
        for n in range(1, min(len(one), len(other)) + 1)
    )
    return one in other or other in one or any(ends)


def remade(merges: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield merges that may prevent their next use: a merge of lower rank joins their token with the next left part.

    This requires that an earlier merge makes the same token.
    """
    if len(set(map("".join, merges))) == len(merges):  # saves the search below
        return
    output, uses = set[str](), defaultdict[str, list[tuple[str, str]]](list)
    for left, right in merges:
        reached, waiting = {left + right}, [left + right] * (left + right in output)
        while waiting:
            part = waiting.pop()
            if (part, left) in uses[part]:
                yield left, right
                break
            new = {"".join(pair) for pair in uses[part]} - reached
            reached |= new
            waiting += new
        output.add(left + right)
        for part in {left, right}:
            uses[part].append((left, right))


def refuse(model: Json, data: Json, scheme: Scheme) -> None:
    """Raise VocabularyError if another program's file requires something that no scheme of VOLT can do."""
    falls_back, looks_up = bool(model.get("byte_fallback")), bool(model.get("ignore_merges"))
    cuts, name = flat(data.get("pre_tokenizer"), "pretokenizers"), scheme.pretokenizer
    is_split = any(cut.get("type") == "Metaspace" and cut.get("split", True) for cut in cuts)
    if falls_back and scheme.marker == "suffix":
        raise VocabularyError(
            "byte_fallback spells the suffix of an unknown character as bytes, too; set it to false"
        )
    if falls_back and name.startswith("bytes") and not model["vocab"].keys() >= set(ALPHABET):
        what = "byte_fallback and ByteLevel, but not all letters of ByteLevel are tokens"
        raise VocabularyError(
            f"{what}, which VOLT cannot do; train a tokenizer with all 256 letters"
        )
    remedy = "set ignore_merges to false if every token is made by merges"
    if looks_up and not is_split and name.startswith(("metaspace", *_UNCUT)):
        raise VocabularyError(
            f"ignore_merges looks up whole lines in tokenizers, but words in VOLT; {remedy}"
        )
    if looks_up and scheme.marker != "none":
        what = f"ignore_merges looks words up without their mark ({scheme.marker}), which VOLT cannot do"
        raise VocabularyError(f"{what}; {remedy}")
