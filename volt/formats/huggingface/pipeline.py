"""How text becomes words and pieces text again, in the terms of tokenizer.json: normalizers, pre-tokenizers, decoders.

>>> Scheme("suffix", "nfc", "whitespace", users=()).cut.name
'whitespace'

User tokens. Where words are cut at white space, or start with "▁", the line is normalised with them in it: without an
end marker they are words of their own, which `ignore_merges` takes whole from the vocabulary; with one they are added
tokens of the normalised text, and so is "</w>", written there as a private character. Elsewhere they are added tokens
of the raw text, which cut it first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from volt.formats.huggingface.oniguruma import spelled
from volt.text import gpt2
from volt.text.markers import PREFIX, SUFFIX, Marker
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN
from volt.text.white_space import SPLIT_SPACE, ranges
from volt.vocabulary import Vocabulary

Json = dict[str, Any]

_SPACES = ranges(SPLIT_SPACE)
# Lowercase lowers character by character; only at the end of a word is Σ another letter (Unicode's Final_Sigma).
LONE_END = chr(LAST_HIDDEN)  # stands for a lone "</w>" in normalised text; no user token is hidden behind it
_FINAL_SIGMA = r"\p{Cased}\p{Case_Ignorable}*\KΣ(?!\p{Case_Ignorable}*\p{Cased})"


@dataclass(frozen=True, slots=True)
class Scheme:
    """How text becomes words, and words atoms.

    marker, normalizer, pretokenizer: as a vocabulary names them
    users: the user tokens, in the order of their ids
    """

    marker: Marker
    normalizer: str
    pretokenizer: str
    users: tuple[str, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Scheme:
        """The scheme of a vocabulary."""
        names = vocabulary.normalizer.name, vocabulary.pretokenizer.name
        return cls(vocabulary.marker, *names, users=vocabulary.special.user)

    @property
    def cut(self) -> PreTokenizer:
        """The pre-tokeniser."""
        return PreTokenizer(self.pretokenizer)

    @property
    def takes_users_as_words(self) -> bool:
        """Whether user tokens are words of their own, and no added tokens."""
        at_spaces = (self.marker, self.pretokenizer) in (("prefix", "whitespace"), ("none", "metaspace"))
        return at_spaces and bool(self.users)

    @property
    def ends_users(self) -> bool:
        """Whether user tokens are added tokens of the normalised text, and "</w>" too."""
        return (self.marker, self.pretokenizer) == ("suffix", "whitespace") and bool(self.users)

    @property
    def user_pattern(self) -> str:
        """A regex that finds user tokens. Where two fit, the longer one is taken."""
        return "|".join(re.escape(user) for user in sorted(self.users, key=len, reverse=True))


def sequence(name: str, steps: list[Json]) -> Json | None:
    """Steps as one section of tokenizer.json. name: what the section's list of several steps is called.

    >>> sequence("normalizers", []), sequence("normalizers", [{"type": "NFC"}])
    (None, {'type': 'NFC'})
    """
    return {"type": "Sequence", name: steps} if len(steps) > 1 else steps[0] if steps else None


def normalizers(scheme: Scheme) -> list[Json]:
    """What tokenizers does to a text before it cuts it.

    >>> normalizers(Scheme("suffix", "nfc", "whitespace", users=()))
    [{'type': 'NFC'}]
    """
    normalizer, name = Normalizer.parse(scheme.normalizer), scheme.pretokenizer
    form = [{"type": normalizer.form.upper()}] * (normalizer.form != "none")
    lower = [replace_step(_FINAL_SIGMA, "ς", regex=True), {"type": "Lowercase"}, *form]
    hidden = replace_step(f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]", "\ufffd", regex=True)
    steps = [hidden] * bool(scheme.users) + _around_users(scheme, form + lower * normalizer.lowercase)
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
    if scheme.cut.has_own_pattern and not scheme.cut.is_bytes:
        return steps + [replace_step(PREFIX, " ")] * scheme.cut.keeps_spaces
    if name == "gpt2" or scheme.cut.dummy_prefix:
        prepends = scheme.cut.dummy_prefix and (scheme.takes_users_as_words or not scheme.users)
        return steps + prepend * prepends + [replace_step(" ", PREFIX)]
    return steps + _lone_ends(scheme) * scheme.ends_users


def _around_users(scheme: Scheme, steps: list[Json]) -> list[Json]:
    """The same steps with the user tokens, where the text holds them, hidden from them."""
    if not steps or not (scheme.takes_users_as_words or scheme.ends_users):
        return steps
    hidden = {user: chr(FIRST_HIDDEN + number) for number, user in enumerate(scheme.users)}
    hide = [replace_step(user, hidden[user]) for user in sorted(scheme.users, key=len, reverse=True)]
    return [*hide, *steps, *(replace_step(char, user) for user, char in hidden.items())]


def _lone_ends(scheme: Scheme) -> list[Json]:
    """Write a lone "</w>" behind user tokens that end a word.

    Added tokens are found in normalised text by their own normalised form, which must stay as it is: a user token that
    is all the text gets none, and the text "</w>" becomes one."""
    ends = rf"(?:{scheme.user_pattern})\K(?=[{_SPACES}])|(?<!\A)(?:{scheme.user_pattern})\K\z"
    return [replace_step(rf"\A{SUFFIX}\z", LONE_END, regex=True), replace_step(ends, LONE_END, regex=True)]


def pre_tokenizers(scheme: Scheme) -> list[Json]:
    """How tokenizers cuts a normalised text into words.

    >>> pre_tokenizers(Scheme("none", "none", "metaspace", users=()))
    [{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'never', 'split': True}]
    """
    name, pattern = scheme.pretokenizer, scheme.cut.pattern
    first: list[Json] = [metaspace_step("first", split=False)] * bool(scheme.users)
    users = [split_step(scheme.user_pattern, "Isolated")] * scheme.takes_users_as_words
    splits = [split_step(spelled(split.pattern), "Isolated") for split in scheme.cut.splits]
    if scheme.cut.is_bytes:
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": not splits}
        return [*splits, level]
    if splits:
        return [*splits, metaspace_step("never", split=False)]
    if name == "whitespace":
        return [split_step(" " if scheme.marker == "prefix" else f"[{_SPACES}]+", "Removed"), *users]
    if name == "metaspace":
        starts = bool(scheme.users) and not users
        return [metaspace_step("first" if starts else "never", split=True), *users]
    if name == "unicode":
        return [*first, split_step(pattern, "Isolated")]
    if name == "gpt2":
        return [split_step(gpt2.MARKED, "Isolated")]
    words = split_step(pattern, "Removed", invert=True)
    return [words, metaspace_step("always" if scheme.marker == "prefix" else "never", split=False)]


def decoders(scheme: Scheme, byte_fallback: bool) -> list[Json]:
    """How tokenizers makes text of tokens.

    >>> [step["type"] for step in decoders(Scheme("none", "none", "metaspace", users=()), byte_fallback=True)]
    ['Replace', 'ByteFallback', 'Fuse', 'Strip']
    """
    if scheme.cut.is_bytes:
        return [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
    keeps_spaces, ends = scheme.cut.keeps_spaces, scheme.marker == "suffix"
    lone = [replace_step(LONE_END, SUFFIX)] * scheme.ends_users
    ending = [replace_step(rf"{SUFFIX}\z", "" if keeps_spaces else " ", regex=True)] * ends
    spaces = [replace_step(PREFIX, " ")] * (scheme.marker == "prefix" or keeps_spaces)
    bytes_last: list[Json] = [{"type": "ByteFallback"}] * byte_fallback
    starts = scheme.marker == "prefix" or scheme.cut.dummy_prefix
    first = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * starts
    last = [replace_step(r" \z", "", regex=True)] * (ends and not keeps_spaces)  # Strip panics on an empty text here
    return [*lone, *ending, *spaces, *bytes_last, {"type": "Fuse"}, *first, *last]


def replace_step(found: str, content: str, *, regex: bool = False) -> Json:
    """A step that puts `content` for a string, or for all that a regex finds.

    >>> replace_step("▁", " ")
    {'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}
    """
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": found}, "content": content}


def split_step(pattern: str, behavior: str, *, invert: bool = False) -> Json:
    """A step that cuts text at what a regex finds. behavior: "Removed" drops that, "Isolated" makes it a word.

    invert: what the regex finds are the words, and the step cuts at all else.

    >>> split_step(" ", "Removed")
    {'type': 'Split', 'pattern': {'Regex': ' '}, 'behavior': 'Removed', 'invert': False}
    """
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def metaspace_step(scheme: str, *, split: bool) -> Json:
    """A step that puts "▁" for spaces, and before the text: "always", "never", or "first", where it starts a line.

    split: whether it also cuts before every "▁".

    >>> metaspace_step("never", split=True)["prepend_scheme"]
    'never'
    """
    return {"type": "Metaspace", "replacement": PREFIX, "prepend_scheme": scheme, "split": split}
