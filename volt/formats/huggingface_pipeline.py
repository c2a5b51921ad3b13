"""How text becomes words and pieces text again, in the terms of tokenizer.json: normalizers, pre-tokenizers, decoders.

>>> Scheme("suffix", "nfc", "whitespace", hides=False).cut.name
'whitespace'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from volt.atoms import PREFIX, SUFFIX, Marker
from volt.special import FIRST_HIDDEN, LAST_HIDDEN
from volt.text import Normalizer, PreTokenizer
from volt.vocabulary import Vocabulary

Json = dict[str, Any]

_SPACES = "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # what str.split() cuts at
_GPT2 = (
    rf"'s|'t|'re|'ve|'m|'ll|'d|{PREFIX}?\p{{L}}+|{PREFIX}?\p{{N}}+|{PREFIX}?[^\s{PREFIX}\p{{L}}\p{{N}}]+"
    rf"|[\s{PREFIX}]+(?![^\s{PREFIX}])|[\s{PREFIX}]+"
)
# Lowercase lowers character by character; only at the end of a word is Σ another letter (Unicode's Final_Sigma).
_FINAL_SIGMA = r"\p{Cased}\p{Case_Ignorable}*\KΣ(?!\p{Case_Ignorable}*\p{Cased})"


@dataclass(frozen=True, slots=True)
class Scheme:
    """How text becomes words, and words atoms. hides: whether there are user tokens."""

    marker: Marker
    normalizer: str
    pretokenizer: str
    hides: bool

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Scheme:
        names = vocabulary.normalizer.name, vocabulary.pretokenizer.name
        return cls(vocabulary.marker, *names, hides=bool(vocabulary.special.user))

    @property
    def cut(self) -> PreTokenizer:
        """The pre-tokeniser."""
        return PreTokenizer(self.pretokenizer)


def sequence(name: str, steps: list[Json]) -> Json | None:
    return {"type": "Sequence", name: steps} if len(steps) > 1 else steps[0] if steps else None


def normalizers(scheme: Scheme) -> list[Json]:
    """What tokenizers does to a text before it cuts it."""
    normalizer, name = Normalizer.parse(scheme.normalizer), scheme.pretokenizer
    form = [{"type": normalizer.form.upper()}] * (normalizer.form != "none")
    lower = [replace_step(_FINAL_SIGMA, "ς", regex=True), {"type": "Lowercase"}, *form]
    hidden = replace_step(f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]", "\ufffd", regex=True)
    steps = [hidden] * scheme.hides + form + lower * normalizer.lowercase
    prepend: list[Json] = [{"type": "Prepend", "prepend": PREFIX}]
    if scheme.marker == "prefix" and name == "whitespace":
        strip = {"type": "Strip", "strip_left": True, "strip_right": True}
        return [
            *steps,
            replace_step(f"[{_SPACES}]+", " ", regex=True),
            strip,
            *prepend,
            replace_step(" ", f" {PREFIX}"),
        ]
    if name.startswith("regex:"):
        return steps + [replace_step(PREFIX, " ")] * scheme.cut.keeps_spaces
    if name == "gpt2" or scheme.cut.dummy_prefix:
        return steps + prepend * (scheme.cut.dummy_prefix and not scheme.hides) + [replace_step(" ", PREFIX)]
    return steps


def pre_tokenizers(scheme: Scheme) -> list[Json]:
    """How tokenizers cuts a normalised text into words."""
    name, pattern = scheme.pretokenizer, scheme.cut.pattern
    first: list[Json] = [metaspace_step("first", split=False)] * scheme.hides
    if scheme.cut.is_bytes:
        return [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
    if name == "whitespace":
        return [split_step(" " if scheme.marker == "prefix" else f"[{_SPACES}]+", "Removed")]
    if name == "metaspace":
        return [metaspace_step("first" if scheme.hides else "never", split=True)]
    if name == "unicode":
        return [*first, split_step(pattern, "Isolated")]
    if name == "gpt2":
        return [split_step(_GPT2, "Isolated")]
    words = split_step(pattern, "Removed", invert=True)
    return [words, metaspace_step("always" if scheme.marker == "prefix" else "never", split=False)]


def decoders(scheme: Scheme, byte_fallback: bool) -> list[Json]:
    """How tokenizers makes text of tokens."""
    if scheme.cut.is_bytes:
        return [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
    keeps_spaces, ends = scheme.cut.keeps_spaces, scheme.marker == "suffix"
    ending = [replace_step(rf"{SUFFIX}\z", "" if keeps_spaces else " ", regex=True)] * ends
    spaces = [replace_step(PREFIX, " ")] * (scheme.marker == "prefix" or keeps_spaces)
    bytes_last: list[Json] = [{"type": "ByteFallback"}] * byte_fallback
    starts = scheme.marker == "prefix" or scheme.cut.dummy_prefix
    first = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * starts
    last = [replace_step(r" \z", "", regex=True)] * (ends and not keeps_spaces)  # Strip panics on an empty text here
    return [*ending, *spaces, *bytes_last, {"type": "Fuse"}, *first, *last]


def replace_step(found: str, content: str, *, regex: bool = False) -> Json:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": found}, "content": content}


def split_step(pattern: str, behavior: str, *, invert: bool = False) -> Json:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def metaspace_step(scheme: str, *, split: bool) -> Json:
    return {"type": "Metaspace", "replacement": PREFIX, "prepend_scheme": scheme, "split": split}
