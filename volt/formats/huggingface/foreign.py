"""Normalizer and pre_tokenizer sections that others wrote → the scheme that treats text alike, or a refusal.

A "▁" for each space comes from Metaspace, or from a normaliser that replaces spaces (Llama, Gemma). Where nothing cuts
a line, it is one word, but it is cut wherever no token goes across, which changes no piece.

>>> level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
>>> read_foreign({"normalizer": {"type": "NFC"}, "pre_tokenizer": level}, {"vocab": {}})
Scheme(marker='none', normalizer='nfc', pretokenizer='bytes', users=(), end='</w>')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from volt.errors import ConfigError, VocabularyError, quoted
from volt.formats.huggingface.cuts import cut_name
from volt.formats.huggingface.pipeline import Json, Scheme, replace_step
from volt.text.markers import PREFIX, SUFFIX, Marker
from volt.text.normalizer import Normalizer
from volt.text.patterns.declared import drops_rest, splits_of
from volt.text.patterns.parsing import parse, sets_of
from volt.text.pretokenizer import IF_ABSENT, PreTokenizer

_FORMS = {"NFC": "nfc", "NFKC": "nfkc", "Lowercase": "lowercase"}
_SPACE = replace_step(" ", PREFIX)
_PREPEND = {"type": "Prepend", "prepend": PREFIX}
_EACH_SPACE, _EACH_RUN, _LINE = " [^ ]*|[^ ]+", " +[^ ]*|[^ ]+", r"[\s\S]+"


def read_foreign(data: Json, model: Json, *, found: Sequence[str] = ()) -> Scheme:
    """The scheme that does what the sections do. found: the added tokens.

    Raises VocabularyError if VOLT has none, ConfigError if a pattern is not supported.
    """
    suffix = model.get("end_of_word_suffix") == SUFFIX
    steps = flat(data.get("normalizer"), "normalizers")
    cuts = flat(data.get("pre_tokenizer"), "pretokenizers")
    steps, spaces = _without_spaces(steps)
    if spaces or (cuts and cuts[-1].get("type") == "Metaspace"):
        marker, name = _read_spaces(spaces, cuts, model["vocab"])
    else:
        marker, name = "none", _read_cut(cuts, model["vocab"], found)
    if suffix and marker == "prefix":
        raise VocabularyError("words are marked where they start and where they end, which VOLT cannot; mark one")
    marker = "suffix" if suffix else marker
    return Scheme(marker, read_normalizer(steps, name), name, ())


def flat(section: Any, name: str) -> list[Json]:
    """The steps of a section. name: what its list of several steps is called.

    >>> flat({"type": "Sequence", "normalizers": [{"type": "NFC"}]}, "normalizers")
    [{'type': 'NFC'}]
    """
    if section is None:
        return []
    if not isinstance(section, dict):
        raise VocabularyError(f"{name}: found {section!r} where an object belongs; restore the file")
    if section.get("type") == "Sequence" and isinstance(section.get(name), list):
        return [step for part in section[name] for step in flat(part, name)]
    return [section]


def _without_spaces(steps: list[Json]) -> tuple[list[Json], list[Json]]:
    """The steps of a normaliser, and those at their end that write "▁" for spaces."""
    for last in ([_PREPEND, _SPACE], [_SPACE]):
        if steps[-len(last) :] == last:
            return steps[: -len(last)], last
    return steps, []


def read_normalizer(steps: Sequence[Json], cut: str) -> str:
    """The name of the normaliser that does these steps. cut: the pre-tokeniser behind it.

    >>> read_normalizer([{"type": "NFC"}, {"type": "Lowercase"}], "bytes")
    'nfc+lowercase'
    """
    kinds = [str(step.get("type")) for step in steps if not (_is_about_white(step) and _drops_white(cut))]
    names = list(dict.fromkeys(_FORMS.get(kind, kind) for kind in kinds))
    try:
        return Normalizer.parse("+".join(sorted(names, key=["nfc", "nfkc", "lowercase"].index)) or "none").name
    except (ConfigError, ValueError):
        raise VocabularyError(
            f"the normalizer {' + '.join(kinds)} is none of VOLT's, which are NFC, NFKC, Lowercase, and Lowercase with "
            "one of them; choose a tokenizer with one of these, or normalise the text yourself and take the step out"
        ) from None


def _is_about_white(step: Json) -> bool:
    r"""Whether a step changes white space alone, and leaves some where there is some, but at a text's ends.

    >>> _is_about_white({"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "})
    True
    """
    if step.get("type") == "Strip":
        return True
    patterns = {"Regex": (r"\s+", r" {2,}", " +", r"\s")}, {"String": (" ", "\n", "\t", "  ")}
    found = step.get("pattern")
    known = isinstance(found, dict) and any(found.get(kind) in texts for one in patterns for kind, texts in one.items())
    return step.get("type") == "Replace" and known and step.get("content") == " "


def _drops_white(cut: str) -> bool:
    """Whether a pre-tokeniser drops all white space, which then may be any."""
    if cut == "whitespace":
        return True
    if not drops_rest(cut):
        return False
    [white], [split] = sets_of(parse(r"\s")), splits_of(cut)
    return all((characters & white).edges == () for characters in sets_of(parse(split.pattern)))


def _read_spaces(spaces: Sequence[Json], cuts: Sequence[Json], vocab: Iterable[str]) -> tuple[Marker, str]:
    """The marker and the pre-tokeniser where a "▁" stands for each space."""
    scheme, splits = ("always" if _PREPEND in spaces else "never"), False
    if cuts and cuts[-1].get("type") == "Metaspace":
        *cuts, last = cuts
        scheme, splits = _metaspace(last, scheme)
    if cuts and spaces:
        cuts = [step for step in map(_unmarked, cuts) if step]
    if not cuts:
        name = _uncut(vocab, splits=splits, starts=scheme != "never")
        return "none", name + IF_ABSENT * (scheme != "never" and _PREPEND not in spaces)
    name = cut_name([*cuts, *[_at_spaces()] * splits])
    keeps = PreTokenizer(name).keeps_spaces
    if scheme == "never":
        return "none", name
    if keeps or scheme == "first":
        raise VocabularyError(
            f"Metaspace puts '▁' before ({scheme}) what {quoted(name, 100)} cuts, which VOLT cannot; set its "
            "prepend_scheme to never"
        )
    return "prefix", name


def _metaspace(step: Json, scheme: str) -> tuple[str, bool]:
    """Where Metaspace puts a "▁" that is not in the text, and whether it cuts."""
    if step.get("replacement") != PREFIX:
        raise VocabularyError(f"Metaspace with {step.get('replacement')!r} for spaces; VOLT reads {PREFIX!r} only")
    usual = "always" if step.get("add_prefix_space", True) else "never"
    own = str(step.get("prepend_scheme", usual))
    return (own if scheme == "never" else scheme), bool(step.get("split", True))


def _at_spaces() -> Json:
    return {"type": "Split", "pattern": {"Regex": _EACH_SPACE}, "behavior": "Isolated"}


def _unmarked(step: Json) -> Json | None:
    """A step that meets "▁" where there are spaces, as one that meets the spaces; None if it never cuts."""
    found = step.get("pattern")
    text = found.get("String") if isinstance(found, dict) else None
    if step.get("type") in ("Digits", "Punctuation"):
        return step
    if step.get("type") == "Split" and isinstance(text, str):
        return None if " " in text else step | {"pattern": {"String": text.replace(PREFIX, " ")}}
    raise VocabularyError(
        f"the pre_tokenizer {step.get('type')} cuts text whose spaces are '▁' already, which VOLT cannot; give the "
        "tokenizer's sentencepiece model, if there is one"
    )


def _uncut(vocab: Iterable[str], *, splits: bool, starts: bool) -> str:
    """The pre-tokeniser that cuts wherever no token goes across."""
    within = [token for token in vocab if PREFIX in token[1:]] if not splits else []
    if not within:
        return "metaspace" if starts else f"split:{_EACH_SPACE}"
    runs = not any(re.search(f"[^{PREFIX}]{PREFIX}", token) for token in within)
    if starts:
        return "metaspace-runs" if runs else "metaspace-line"
    return f"split:{_EACH_RUN if runs else _LINE}"


def _read_cut(cuts: Sequence[Json], vocab: Iterable[str], found: Sequence[str]) -> str:
    """The pre-tokeniser where spaces stay spaces."""
    if not cuts:
        raise VocabularyError(
            "no pre_tokenizer: a line is one word, with its spaces, which VOLT's words do not have; choose a tokenizer "
            "with one, such as ByteLevel or Metaspace"
        )
    name = cut_name(cuts, found=found)
    cut = PreTokenizer(name)
    if cut.keeps_spaces and not cut.is_bytes and any(" " in token for token in vocab):
        spaced = next(token for token in vocab if " " in token)
        raise VocabularyError(f"tokens hold spaces, such as {spaced!r}, which VOLT spells '▁'; put Metaspace behind")
    return name
