"""`Scheme` → sections of a tokenizer.json: normalizers, pre-tokenizers, decoders, and merges for ends of words.

How a scheme cuts words decides in which text the library finds user tokens:

    a known end of words, or "▁" at the start of lines       the normalised text
    bytes, and other patterns                                the raw text, which is cut at them first

The library spells an unknown "é</w>" as the bytes of "é" and of "</w>"; three merges join the four bytes of "</w>".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from volt.formats.huggingface.split_patterns import spelled
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.normalizer import Normalizer
from volt.text.patterns.published import GPT2_MARKED
from volt.text.pretokenizer import IF_ABSENT, PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN
from volt.text.white_space import SPLIT_SPACE, ranges
from volt.vocabulary import Vocabulary

Json = dict[str, Any]

_BYTES = [f"<0x{byte:02X}>" for byte in SUFFIX.encode()]
ENDED = "".join(_BYTES)  # the spelling of the token "</w>"
_MERGES = [
    [_BYTES[first], "".join(_BYTES[first + 1 :])] for first in range(len(_BYTES) - 2, -1, -1)
]
_HELPERS = ["".join(pair) for pair in _MERGES[:-1]]


def with_ends(model: Json) -> Json:
    """Return the model section with three merges for "</w>", and two helper tokens, which never stay in the output.

    >>> model = {"vocab": {"<0x77>": 0, "</w>": 1, "w": 2, "x": 3}, "merges": [], "byte_fallback": True}
    >>> ended = with_ends(model)
    >>> list(ended["vocab"])[4:], without_ends({"model": ended})["model"] == model
    (['<0x77><0x3E>', '<0x2F><0x77><0x3E>'], True)
    """
    first = 1 + max(model["vocab"].values())
    vocab = {
        ENDED if token == SUFFIX else token: number for token, number in model["vocab"].items()
    }
    vocab |= {helper: first + number for number, helper in enumerate(_HELPERS)}
    return model | {"vocab": vocab, "merges": _MERGES + model["merges"]}


def without_ends(data: Json) -> Json:
    """Return the file without the merges that `with_ends` adds, if it has any."""
    if not has_ends(data):
        return data
    model, added = data["model"], data.get("added_tokens") or []
    renamed = [row | {"content": SUFFIX} if row.get("content") == ENDED else row for row in added]
    return data | {
        "added_tokens": renamed,
        "model": model
        | {"vocab": vocab_without_ends(model["vocab"]), "merges": model["merges"][len(_MERGES) :]},
    }


def vocab_without_ends(vocab: Mapping[str, int]) -> dict[str, int]:
    """Return the ids of the tokens, with "</w>" as VOLT spells it, and without the helper tokens of `with_ends`."""
    if ENDED not in vocab:
        return dict(vocab)
    return {
        SUFFIX if token == ENDED else token: n
        for token, n in vocab.items()
        if token not in _HELPERS
    }


def has_ends(data: Json) -> bool:
    """Check whether a file has the merges that `with_ends` adds."""
    model = data.get("model")
    vocab, merges = (
        (model.get("vocab"), model.get("merges")) if isinstance(model, dict) else (None, None)
    )
    return (
        isinstance(vocab, dict)
        and ENDED in vocab
        and isinstance(merges, list)
        and merges[:3] == _MERGES
    )


_SPACES = ranges(SPLIT_SPACE)
# Lowercase works character by character, but Σ becomes "ς" only at the end of a word (Unicode's Final_Sigma).
LONE_END = chr(
    LAST_HIDDEN
)  # stands for a lone "</w>" in normalised text, where it hides no user token
LONE_SPACE = chr(LAST_HIDDEN - 1)  # stands for a lone "▁", in the same way
# Text that ends the word of a user token before it, so that an end marker is written; spaces are "▁" already.
_ENDING = {
    "whitespace": f"[{_SPACES}]",
    "metaspace": PREFIX,
    "unicode": rf"[{PREFIX}\p{{L}}\p{{M}}\p{{N}}]",
    "gpt2": rf"[{PREFIX}\s\p{{L}}\p{{N}}]",
}
_SIGMA_AT_END = r"\p{Cased}\p{Case_Ignorable}*\KΣ(?!\p{Case_Ignorable}*\p{Cased})"


@dataclass(frozen=True, slots=True)
class Scheme:
    """The rules by which text becomes words, and words become atoms.

    users: the user tokens, in the order of their ids
    end: the spelling of the lone token "</w>"
    """

    marker: Marker
    normalizer: str
    pretokenizer: str
    users: tuple[str, ...]
    end: str = SUFFIX

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Scheme:
        names = vocabulary.normalizer.name, vocabulary.pretokenizer.name
        spells_ends = (
            vocabulary.marker == "suffix" and vocabulary.byte_fallback and "w" in vocabulary.ids
        )
        return cls(
            vocabulary.marker,
            *names,
            users=vocabulary.special.user,
            end=ENDED if spells_ends else SUFFIX,
        )

    @property
    def cut(self) -> PreTokenizer:
        return PreTokenizer(self.pretokenizer)

    @property
    def ends_users(self) -> bool:
        """Check whether "</w>", like user tokens, becomes an added token of the normalised text."""
        return self.marker == "suffix" and self.ending is not None and bool(self.users)

    @property
    def ending(self) -> str | None:
        """Return the regex of text that ends the word of a user token in front of it; None if unknown."""
        return r"[\s\S]" if self.cut.splits or self.cut.is_bytes else _ENDING.get(self.pretokenizer)

    @property
    def spaces_users(self) -> bool:
        """Check whether a "▁" before a user token becomes an added token of the normalised text."""
        if self.pretokenizer == "gpt2":
            return bool(self.users)
        return self.ends_users and self.pretokenizer in {"metaspace", "unicode"}

    @property
    def lone_marks(self) -> set[str]:
        """The lone marks that become added tokens."""
        return {*[SUFFIX] * self.ends_users, *[PREFIX] * self.spaces_users}

    @property
    def normalizes_users(self) -> bool:
        starts_lines = self.starts_lines and bool(self.users)
        return self.ends_users or self.spaces_users or starts_lines

    @property
    def starts_lines(self) -> bool:
        """Check whether a regex puts "▁" in front of a line before it is cut."""
        if self.starts_segments:
            return False
        return self.cut.dummy_prefix or (
            self.marker == "prefix" and self.pretokenizer == "whitespace"
        )

    @property
    def starts_segments(self) -> bool:
        """Check whether the library's own steps put "▁" before text: they skip user tokens, as the scheme does."""
        return self.cut.if_absent or self.cut.of_lines != self.cut


@lru_cache(
    maxsize=8
)  # many schemes are tried with the same user tokens, of which there may be hundreds
def _any_of(tokens: tuple[str, ...]) -> str:
    return "|".join(re.escape(token) for token in sorted(tokens, key=len, reverse=True))


def sequence(name: str, steps: list[Json]) -> Json | None:
    """Return steps as one section of tokenizer.json. name: the key that holds a Sequence's steps"""
    return {"type": "Sequence", name: steps} if len(steps) > 1 else steps[0] if steps else None


def normalizers(scheme: Scheme) -> list[Json]:
    """Return the steps by which `tokenizers` normalises a text."""
    normalizer, name = Normalizer.parse(scheme.normalizer), scheme.pretokenizer
    form = [{"type": normalizer.form.upper()}] * (normalizer.form != "none")
    lower = [FINAL_SIGMA, {"type": "Lowercase"}, *form]
    if scheme.starts_segments:
        marks = (
            []
            if scheme.cut.if_absent
            else [{"type": "Prepend", "prepend": PREFIX}, replace_step(" ", PREFIX)]
        )
        return form + lower * normalizer.lowercase + marks
    hidden = replace_step(f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]", "\ufffd", regex=True)
    steps = [hidden] * scheme.normalizes_users + _around_users(
        scheme, form + lower * normalizer.lowercase
    )
    prepend: list[Json] = [{"type": "Prepend", "prepend": PREFIX}] * scheme.starts_lines
    prepend = _first_space(scheme) if scheme.normalizes_users else prepend
    if scheme.marker == "prefix" and name == "whitespace":
        runs = replace_step(f"[{_SPACES}]+", " ", regex=True)
        strip = {"type": "Strip", "strip_left": True, "strip_right": True}
        return [*steps, runs, strip, *prepend, replace_step(" ", f" {PREFIX}")]
    if scheme.cut.has_own_pattern and not scheme.cut.is_bytes:
        steps += [replace_step(PREFIX, " ")] * scheme.cut.keeps_spaces
    elif name == "gpt2" or scheme.cut.dummy_prefix:
        steps = [*steps, *prepend, replace_step(" ", PREFIX)]
    if scheme.spaces_users:
        alone = (
            f"(?<!{PREFIX})" if name == "unicode" else ""
        )  # "unicode" cuts a run of spaces as one word
        steps.append(
            replace_step(f"{alone}{PREFIX}(?={_any_of(scheme.users)})", LONE_SPACE, regex=True)
        )
    if (
        scheme.ends_users
    ):  # a user token that is all the text gets no lone "</w>", see `_first_space`
        is_begun = any(
            one != other and one.startswith(other) for one in scheme.users for other in scheme.users
        )
        user = f"(?{'>' if is_begun else ':'}{_any_of(scheme.users)})"  # atomic: the longest, if others begin it
        ends = rf"{user}\K(?={scheme.ending})|(?<!\A){user}\K\z"
        steps += [
            replace_step(rf"\A{scheme.end}\z", LONE_END, regex=True),
            replace_step(ends, LONE_END, regex=True),
        ]
    return steps


def _around_users(scheme: Scheme, steps: list[Json]) -> list[Json]:
    """Return these steps between steps that hide the user tokens in a text and steps that restore them."""
    if not steps or not scheme.normalizes_users:
        return steps
    hidden = {user: chr(FIRST_HIDDEN + number) for number, user in enumerate(scheme.users)}
    hide = [
        replace_step(user, hidden[user]) for user in sorted(scheme.users, key=len, reverse=True)
    ]
    end = [
        replace_step(rf"\A{scheme.end}\z", LONE_END, regex=True),
        replace_step(LONE_END, scheme.end),
    ]
    end *= (
        scheme.ends_users and scheme.end != SUFFIX
    )  # a lone end of hexadecimal digits, some of which are capitals
    return [
        *end[:1],
        *hide,
        *steps,
        *end[1:],
        *(replace_step(char, user) for user, char in hidden.items()),
    ]


def _first_space(scheme: Scheme) -> list[Json]:
    own = [replace_step(rf"\A{PREFIX}\z", LONE_SPACE, regex=True)] * scheme.spaces_users
    retained = "|".join(
        [
            _any_of(scheme.users),
            *[LONE_SPACE] * scheme.spaces_users,
            *[scheme.end] * scheme.ends_users,
        ]
    )
    return (
        own + [replace_step(rf"\A(?!(?:{retained})?\z)", PREFIX, regex=True)] * scheme.starts_lines
    )


def pre_tokenizers(scheme: Scheme) -> list[Json]:
    """Return the steps by which `tokenizers` splits a normalised text into words."""
    name, pattern = scheme.pretokenizer, scheme.cut.pattern
    splits = [split_step(spelled(split.pattern), "Isolated") for split in scheme.cut.splits]
    if scheme.cut.is_bytes:
        level = {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": not splits,
        }
        return [
            *splits,
            level,
            *[metaspace_step("always", split=False)] * (scheme.marker == "prefix"),
        ]
    if splits:
        return [*splits, metaspace_step("never", split=False)]
    if scheme.starts_segments:
        cuts_spaces = scheme.cut.of_lines.name.removesuffix(IF_ABSENT) == "metaspace"
        place = "always" if scheme.cut.of_lines != scheme.cut else "first"
        step = metaspace_step(place if scheme.cut.if_absent else "never", split=cuts_spaces)
        return [step] * (cuts_spaces or scheme.cut.if_absent)
    if name == "whitespace":
        return [split_step(" " if scheme.marker == "prefix" else f"[{_SPACES}]+", "Removed")]
    if name == "metaspace":
        return [metaspace_step("never", split=True)]
    if name == "unicode":
        return [split_step(pattern, "Isolated")]
    if name == "gpt2":
        return [split_step(GPT2_MARKED, "Isolated")]
    words = split_step(pattern, "Removed", invert=True)
    return [words, metaspace_step("always" if scheme.marker == "prefix" else "never", split=False)]


def decoders(scheme: Scheme, byte_fallback: bool) -> list[Json]:
    """Return the steps by which `tokenizers` turns tokens into text."""
    keeps_spaces, ends = scheme.cut.keeps_spaces, scheme.marker == "suffix"
    if scheme.cut.is_bytes:
        level: Json = {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        }
        marks = [replace_step(rf"{SUFFIX}\z", "", regex=True)] * ends
        return [*marks, *[replace_step(PREFIX, "")] * (scheme.marker == "prefix"), level]
    lone_ends = [LONE_END] * scheme.ends_users + [scheme.end] * (scheme.end != SUFFIX)
    lone = [replace_step(result, SUFFIX) for result in lone_ends]
    lone += [replace_step(LONE_SPACE, PREFIX)] * scheme.spaces_users
    ending = [replace_step(rf"{SUFFIX}\z", "" if keeps_spaces else " ", regex=True)] * ends
    spaces = [replace_step(PREFIX, " ")] * (scheme.marker == "prefix" or keeps_spaces)
    bytes_last: list[Json] = [{"type": "ByteFallback"}] * byte_fallback
    starts = scheme.marker == "prefix" or scheme.cut.dummy_prefix
    first = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * starts
    last = [replace_step(r" \z", "", regex=True)] * (
        ends and not keeps_spaces
    )  # Strip panics on an empty text here
    return [*lone, *ending, *spaces, *bytes_last, {"type": "Fuse"}, *first, *last]


def replace_step(pattern: str, content: str, *, regex: bool = False) -> Json:
    """Return a step that replaces a string, or each match of a regex, by `content`."""
    return {
        "type": "Replace",
        "pattern": {"Regex" if regex else "String": pattern},
        "content": content,
    }


def split_step(pattern: str, behavior: str, *, invert: bool = False) -> Json:
    """Return a step that drops ("Removed") or isolates ("Isolated") matches of a regex.

    invert: whether to drop or isolate the text between matches instead
    """
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def metaspace_step(scheme: str, *, split: bool) -> Json:
    """Return a step that writes spaces as "▁".

    scheme: where it also puts "▁": "always" before each segment, "first" before a line, or "never"
    split: whether it cuts the text at "▁"
    """
    return {"type": "Metaspace", "replacement": PREFIX, "prepend_scheme": scheme, "split": split}


FINAL_SIGMA = replace_step(_SIGMA_AT_END, "ς", regex=True)
