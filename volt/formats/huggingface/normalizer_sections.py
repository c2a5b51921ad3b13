"""Normalizer section of a tokenizer.json ⇄ `Normalizer` of steps.

    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}  ⇄  nfd+accents

Regexes are Oniguruma's there, and those of Polars here. Only regexes that both read alike are read.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Any

from volt.errors import ConfigError, VocabularyError, shown
from volt.text.atoms import PREFIX
from volt.text.normalizer import Normalizer
from volt.text.normalizer_steps import pack_table, unpack_table

Json = dict[str, Any]


def replace_step(pattern: str, content: str, *, regex: bool = False) -> Json:
    """Return a step that replaces a string, or each match of a regex, by `content`."""
    key = "Regex" if regex else "String"
    return {"type": "Replace", "pattern": {key: pattern}, "content": content}


# Steps of the library without options → VOLT's
_STEPS = {
    "NFC": "nfc",
    "NFD": "nfd",
    "NFKC": "nfkc",
    "NFKD": "nfkd",
    "Lowercase": "lowercase",
    "StripAccents": "accents",
    "Nmt": "nmt",
}
_KINDS = {step: kind for kind, step in _STEPS.items()}
# What Oniguruma and Polars may read differently in a regex without escaped symbols
_UNSHARED = re.compile(
    r"[*+?}][*+{]|\}\?|\(\?(?!:)|\\[^AzsSdDpPtnrxu]|\\x(?!\{)|(?<!\[)\^|[.$]|\[\^?[^]]*(?:\[|&&)"
    r"|(?<!\\[pPx])\{(?![0-9]+(?:,[0-9]*)?\})"
)
# sentencepiece's removal of extra spaces
_EDGE_SPACES = replace_step(rf"\A +|[ {PREFIX}]+\z", "", regex=True)
_SEVERAL_SPACES = replace_step(" {2,}", " ", regex=True)
# Words between white space, each with a "▁" → spaces before words
WORD_STEPS: list[list[Any]] = [
    ["replace", r"\s+", " ", "regex"],
    ["strip", True, True],
    ["replace", f" {PREFIX}", PREFIX, "literal"],
]


def read_steps(steps: Sequence[Json]) -> list[list[Any]]:
    """Return the steps of VOLT that do what the library's steps do.

    Raises VocabularyError for a step that VOLT does not have.

    >>> read_steps([{"type": "NFD"}, {"type": "StripAccents"}])
    [['nfd'], ['accents']]
    """
    return list(map(_read_step, steps))


def build_normalizer(rows: list[list[Any]]) -> Normalizer:
    """Return the normalizer of steps of VOLT."""
    if not rows:
        return Normalizer()
    try:
        return Normalizer.of_steps(rows)
    except ConfigError as error:
        raise VocabularyError(f"normalizer: {error}") from None


def _read_step(step: Json) -> list[Any]:
    kind = step.get("type")
    if kind in _STEPS:
        return [_STEPS[kind]]
    if kind == "Strip":
        return ["strip", step.get("strip_left"), step.get("strip_right")]
    if kind == "Prepend":
        return ["prepend", step.get("prepend")]
    if kind == "Precompiled":
        try:
            table = b64decode(step.get("precompiled_charsmap") or "", validate=True)
        except (TypeError, ValueError):
            table = b""
        if not table:
            raise VocabularyError(
                "precompiled_charsmap is empty or damaged; download or export it again"
            )
        return ["charsmap", pack_table(table), "graphemes"]
    if kind == "Replace":
        pattern = step.get("pattern")
        if not isinstance(pattern, dict):
            pattern = {}
        if "String" in pattern:
            return ["replace", pattern["String"], step.get("content"), "literal"]
        return ["replace", _read_regex(pattern.get("Regex")), step.get("content"), "regex"]
    raise VocabularyError(
        f"VOLT has no normalizer {shown(kind, 40)}; normalise the text yourself, and remove the step"
    )


def _read_regex(pattern: Any) -> str:
    """Return a regex of Oniguruma. Raises VocabularyError if Polars might read it differently."""
    if isinstance(pattern, str):
        bare = re.sub(r"\\[^\w]", "_", pattern)
        if not _UNSHARED.search(bare):
            probe = build_normalizer([["replace", pattern, "x", "regex"]])
            if probe.normalize("") == "":
                return pattern
    raise VocabularyError(
        f"the normalizer replaces the regex {shown(pattern, 100)}, which VOLT may read differently; "
        "normalise the text yourself, and remove the step"
    )


def normalizer_steps(normalizer: Normalizer) -> Iterator[Json]:
    """Yield the library's steps for a normalizer of steps."""
    for name, *options in normalizer.rows:
        if name == "charsmap":
            table = b64encode(unpack_table(options[0])).decode()
            yield {"type": "Precompiled", "precompiled_charsmap": table}
        elif name == "spaces":
            yield from (_EDGE_SPACES, _SEVERAL_SPACES)
        elif name == "replace":
            pattern, text, kind = options
            yield replace_step(pattern, text, regex=kind == "regex")
        elif name == "strip":
            left, right = options
            yield {"type": "Strip", "strip_left": left, "strip_right": right}
        elif name == "prepend":
            yield {"type": "Prepend", "prepend": options[0]}
        else:
            yield {"type": _KINDS[name]}
