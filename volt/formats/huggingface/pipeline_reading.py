"""Find the `Scheme` that treats text as the sections of another program's tokenizer.json do, or
raise an error.

    normalizer       steps that change the text        →  scheme.normalizer
    pre_tokenizer    steps that cut the text           →  scheme.pretokenizer
    model            end_of_word_suffix, vocab         →  scheme.marker

A "▁" for each space comes from a last step Metaspace of the pre_tokenizer, or from last steps
Prepend and Replace of the normalizer (Llama, Gemma). If no step cuts lines, a line is one word for
the library; VOLT cuts the line where no token spans the cut, which changes no piece.

>>> level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
>>> read_foreign({"normalizer": {"type": "NFC"}, "pre_tokenizer": level}, {"vocab": {}})
Scheme(marker='none', normalizer='nfc', pretokenizer='bytes', users=(), end='</w>')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from volt.errors import ConfigError, VocabularyError, quoted, shown
from volt.formats.huggingface.normalizer_sections import WORD_STEPS, build_normalizer, read_steps
from volt.formats.huggingface.pipeline_writing import (
    FINAL_SIGMA,
    PREPEND,
    SPACE_STEP,
    Json,
    Scheme,
    as_object,
    check_flags,
)
from volt.formats.huggingface.split_patterns import name_pretokenizer
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.byte_alphabet import ALPHABET
from volt.text.normalizer import Normalizer
from volt.text.patterns.published import drops_rest, splits_of
from volt.text.patterns.regex_parser import parse, sets_of
from volt.text.pretokenizer import IF_ABSENT, PER_SEGMENT, PreTokenizer

# The library's normalizers → VOLT's, in the order in which VOLT applies them
_FORMS = {"NFC": "nfc", "NFKC": "nfkc", "Lowercase": "lowercase"}
_EACH_SPACE = " [^ ]*|[^ ]+"  # cuts before every space
_EACH_RUN = " +[^ ]*|[^ ]+"  # cuts before every run of spaces
_LINE = r"[\s\S]+"  # cuts nowhere
# VOLT's pre-tokenizers for text that no step of the library cuts
_UNCUT = tuple(f"split:{pattern}" for pattern in (_EACH_SPACE, _EACH_RUN, _LINE))
_SPANS_WORDS = f"a{PREFIX}b"
_WORDS = {"type": "WhitespaceSplit"}
_WORDS_WITH_MARK = f"metaspace{IF_ABSENT}{PER_SEGMENT}"


def read_foreign(data: Json, model: Json, *, added: Sequence[str] = ()) -> Scheme:
    """Return the scheme that treats text as the sections of a tokenizer.json do.

    data: the tokenizer.json
    model: its section "model"
    added: its added tokens
    """
    forms = [step for step in flatten(data.get("normalizer"), "normalizers") if step != FINAL_SIGMA]
    cuts = flatten(data.get("pre_tokenizer"), "pretokenizers")
    space_steps = list[Json]()
    for last in ([PREPEND, SPACE_STEP], [SPACE_STEP]):
        if not space_steps and forms[-len(last) :] == last:
            space_steps = last
    forms = forms[: len(forms) - len(space_steps)]

    marker: Marker = "none"
    if model.get("end_of_word_suffix") == SUFFIX:
        marker = "suffix"
    if not space_steps and not _ends_in_metaspace(cuts):
        name = _read_cut(cuts, model, added)
    elif marker == "suffix":
        raise VocabularyError(
            f"end_of_word_suffix and {PREFIX!r} mark words, but VOLT marks only one end; remove one"
        )
    else:
        marker, name = _read_spaces(space_steps, cuts, model["vocab"], is_unigram="scores" in model)
    if "scores" not in model:
        return Scheme(marker, _read_normalizer(forms, name), name, ())

    if marker != "none" or PreTokenizer(name).is_bytes:
        raise VocabularyError(
            f"scores with the pre_tokenizer {' + '.join(str(cut.get('type')) for cut in cuts)}, "
            "which VOLT reads only with merges; encode with tokenizers instead"
        )
    rows = read_steps(forms)
    if cuts[:1] == [_WORDS] and name == _WORDS_WITH_MARK:
        rows += WORD_STEPS
    return Scheme(marker, build_normalizer(rows).name, name, ())


def _ends_in_metaspace(cuts: Sequence[Json]) -> bool:
    return bool(cuts) and cuts[-1].get("type") == "Metaspace"


def flatten(section: Any, name: str) -> list[Json]:
    """Return the steps of a normalizer, pre_tokenizer, decoder or post_processor section as one
    list.

    The steps of nested Sequences are included.

    name: the key of a Sequence's steps, such as "normalizers"
    Raises VocabularyError if a step is damaged.
    """
    if section is None:
        return []
    if not (isinstance(section, dict) and isinstance(section.get("type"), str | None)):
        raise VocabularyError(
            f"{name}: found {shown(section, 100)} instead of an object with a type; "
            "download or export it again"
        )
    if section.get("type") == "Sequence" and isinstance(section.get(name), list):
        return [step for part in section[name] for step in flatten(part, name)]
    check_flags(section)
    return [section]


def _read_normalizer(steps: Sequence[Json], pretokenizer: str) -> str:
    """Return the name of the normalizer that performs these steps.

    Steps on white space are left out if the pre-tokenizer drops white space anyway.
    """
    drops_white = pretokenizer == "whitespace"
    if drops_rest(pretokenizer):
        [white] = sets_of(parse(r"\s"))
        [split] = splits_of(pretokenizer)
        sets = sets_of(parse(split.pattern))
        drops_white = all((characters & white).edges == () for characters in sets)
    kinds = [
        str(step.get("type")) for step in steps if not (drops_white and _only_changes_white(step))
    ]
    names = {_FORMS.get(kind, kind) for kind in kinds}
    with suppress(ConfigError, ValueError):
        ordered = sorted(names, key=[*_FORMS.values()].index)
        return Normalizer.parse("+".join(ordered) or "none").name
    raise VocabularyError(
        f"the normalizer {' + '.join(kinds)} is not NFC, NFKC, Lowercase, or Lowercase with NFC or "
        "NFKC; normalise the text yourself, and remove the step"
    )


def _only_changes_white(step: Json) -> bool:
    """Check whether a normalizer step only replaces white space by a space, or strips a text."""
    if step.get("type") == "Strip":
        return True
    if step.get("type") != "Replace" or step.get("content") != " ":
        return False
    pattern = as_object(step.get("pattern"))
    is_space = pattern.get("String") in (" ", "\n", "\t", "  ")
    return is_space or pattern.get("Regex") in (r"\s+", r" {2,}", " +", r"\s")


def _read_spaces(
    space_steps: Sequence[Json], cuts: Sequence[Json], vocab: Iterable[str], *, is_unigram: bool
) -> tuple[Marker, str]:
    """Return the marker and the name of the pre-tokenizer of a file that writes spaces as "▁".

    space_steps: the last steps of the normalizer, if they write "▁"; the later cuts then see "▁"
        instead of spaces
    is_unigram: whether the model has scores, which are added along lines that no step cuts
    """
    # Where the library puts a "▁" that is no space: "always" (before each segment between added tokens),
    # "first" (before the line), or "never".
    prepend = "always" if PREPEND in space_steps else "never"
    splits = False
    if _ends_in_metaspace(cuts):
        *cuts, metaspace = cuts
        scheme = _read_metaspace(metaspace)
        if prepend == "never":
            prepend = scheme
        splits = metaspace.get("split") is not False
    if space_steps:
        cuts = list(filter(None, map(_with_spaces, cuts)))
    elif any(PREFIX in str(step.get("pattern")) for step in cuts):
        raise VocabularyError(
            f"a step cuts text at {PREFIX!r} before Metaspace, which VOLT cannot do; remove the step"
        )
    if is_unigram and cuts == [_WORDS]:
        if splits and prepend == "always":
            return "none", _WORDS_WITH_MARK
        raise VocabularyError(
            f"Metaspace has prepend_scheme {prepend} and split {str(splits).lower()} after "
            "WhitespaceSplit; VOLT reads only always and true there; encode with tokenizers instead"
        )
    if not cuts:
        if is_unigram and not splits:
            vocab = [_SPANS_WORDS]
        name = _choose_uncut(vocab, splits=splits, has_prefix=prepend != "never")
        if prepend != "never" and PREPEND not in space_steps:
            name += IF_ABSENT
        if prepend == "always":
            name += PER_SEGMENT
        return "none", name

    if splits:
        at_spaces = {"type": "Split", "pattern": {"Regex": _EACH_SPACE}, "behavior": "Isolated"}
        cuts = [*cuts, at_spaces]
    name = name_pretokenizer(cuts)
    if prepend == "never":
        return "none", name
    if prepend == "first" or PreTokenizer(name).keeps_spaces:
        raise VocabularyError(
            f"Metaspace puts '▁' ({prepend}) before words that {quoted(name, 100)} cuts, "
            "which VOLT cannot do; set its prepend_scheme to never"
        )
    return "prefix", name


def _read_metaspace(step: Json) -> str:
    """Return the prepend_scheme of Metaspace: "always", "first" or "never"."""
    if step.get("replacement") != PREFIX:
        raise VocabularyError(
            f"Metaspace with {step.get('replacement')!r} for spaces; VOLT reads only {PREFIX!r}"
        )
    usual = "never" if step.get("add_prefix_space") is False else "always"
    scheme: str = step.get("prepend_scheme", usual)
    if scheme not in ("always", "first", "never"):
        raise VocabularyError(
            f"Metaspace has the prepend_scheme {shown(scheme, 20)}; give always, first or never"
        )
    return scheme


def _with_spaces(step: Json) -> Json | None:
    """Convert a step that cuts text with "▁" for spaces to a step that cuts the same text with
    spaces.

    Return None if the step never cuts such text.
    """
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


def _choose_uncut(vocab: Iterable[str], *, splits: bool, has_prefix: bool) -> str:
    """Return the name of the pre-tokenizer for lines that no step cuts, or that only Metaspace
    cuts.

    The pre-tokenizer cuts where no token of `vocab` spans the cut.

    splits: whether Metaspace cuts lines at every space
    has_prefix: whether a "▁" precedes the line
    """
    with_inner_space = [token for token in vocab if PREFIX in token[1:]]
    names = ("metaspace-runs", f"split:{_EACH_RUN}")
    if splits or not with_inner_space:
        names = ("metaspace", f"split:{_EACH_SPACE}")
    elif any(re.search(f"[^{PREFIX}]{PREFIX}", token) for token in with_inner_space):
        names = ("metaspace-line", f"split:{_LINE}")
    prefixed, bare = names
    return prefixed if has_prefix else bare


def _read_cut(cuts: Sequence[Json], model: Json, added: Sequence[str]) -> str:
    """Return the name of the pre-tokenizer for a tokenizer.json that leaves spaces as they are."""
    if not cuts:
        raise VocabularyError(
            "no pre_tokenizer, but VOLT's words contain no spaces; "
            "add one, such as ByteLevel or Metaspace"
        )
    name = name_pretokenizer(cuts, isolated=added)
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


def refuse(model: Json, data: Json, scheme: Scheme) -> None:
    """Raise VocabularyError if the model's byte_fallback or ignore_merges does not work with the
    scheme in VOLT.
    """
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
    cuts = flatten(data.get("pre_tokenizer"), "pretokenizers")
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
