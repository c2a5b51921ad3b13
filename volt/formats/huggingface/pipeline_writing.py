"""`Scheme` → sections of a tokenizer.json: normalizers, pre-tokenizers, decoders, and merges for
ends of words.

The library can find user tokens in the raw text, which it then cuts at them before all other steps,
or in the normalised text. VOLT cuts words first, so that a user token in the middle of a word has
the lone marks "</w>" or "▁" beside it. A file can imitate this only by steps that write these marks
into the normalised text:

    schemes with a known end of words, or with "▁" at line starts    found in normalised text
    bytes, and other patterns                                        found in raw text

In these steps, private characters stand for user tokens (U+10C000, …) and lone marks (`LONE_END`,
`LONE_SPACE`), so that no other step changes them. With byte_fallback, the library spells an unknown
"é</w>" as the bytes of "é" and of "</w>"; three merges (`add_end_merges`) join the four bytes of
"</w>".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from volt.errors import VocabularyError, shown
from volt.formats.huggingface.normalizer_sections import normalizer_steps, replace_step
from volt.formats.huggingface.split_patterns import spell_split
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.normalizer import Normalizer
from volt.text.patterns.published import GPT2_MARKED
from volt.text.pretokenizer import IF_ABSENT, PER_SEGMENT, PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN
from volt.text.white_space import SPLIT_SPACE, shorten_class
from volt.vocabulary import Vocabulary

Json = dict[str, Any]

# The flags of models and steps
_FLAGS = {
    "add_prefix_space",
    "byte_fallback",
    "fuse_unk",
    "ignore_merges",
    "individual_digits",
    "invert",
    "split",
    "trim_offsets",
    "use_regex",
}
_END_BYTES = [f"<0x{byte:02X}>" for byte in SUFFIX.encode()]
ENDED = "".join(_END_BYTES)  # the spelling of the token "</w>" in a file with these merges
_END_MERGES = [[_END_BYTES[first], "".join(_END_BYTES[first + 1 :])] for first in (2, 1, 0)]
_HELPER_TOKENS = ["".join(pair) for pair in _END_MERGES[:-1]]
# In normalised text, these characters stand for a lone "</w>", and a lone "▁".
LONE_END = chr(LAST_HIDDEN)
LONE_SPACE = chr(LAST_HIDDEN - 1)
_SPACES = shorten_class(SPLIT_SPACE)
# Text that ends the word of a user token before it, so that an end marker is written; spaces are "▁" already.
_WORD_ENDS = {
    "whitespace": f"[{_SPACES}]",
    "metaspace": PREFIX,
    "unicode": rf"[{PREFIX}\p{{L}}\p{{M}}\p{{N}}]",
    "gpt2": rf"[{PREFIX}\s\p{{L}}\p{{N}}]",
}
# Lowercase works character by character, but Σ becomes "ς" only at the end of a word (Unicode's Final_Sigma).
_SIGMA_AT_END = r"\p{Cased}\p{Case_Ignorable}*\KΣ(?!\p{Case_Ignorable}*\p{Cased})"


# Pre-tokenizers that Metaspace imitates without a "▁" before lines → whether it cuts at spaces
UNMARKED = {"split: [^ ]*|[^ ]+": True, r"split:[\s\S]+": False}


def as_object(value: Any) -> Json:
    """Return a JSON value if it is an object (a dict), or else an empty dict."""
    return value if isinstance(value, dict) else {}


def check_flags(section: Json) -> None:
    """Raise VocabularyError if a flag of a model or a step is neither a bool nor null."""
    for name in sorted(_FLAGS & section.keys()):
        value = section[name]
        if not isinstance(value, bool | None):
            raise VocabularyError(
                f"{section.get('type')}: {name} is {shown(value, 20)} instead of true or false; "
                "export it again"
            )


def add_end_merges(model: Json) -> Json:
    """Return the model section with three merges for "</w>", and two helper tokens, which never
    stay in the output.

    >>> model = {"vocab": {"<0x77>": 0, "</w>": 1, "w": 2, "x": 3}, "merges": [], "byte_fallback": True}
    >>> ended = add_end_merges(model)
    >>> list(ended["vocab"])[4:], remove_end_merges({"model": ended})["model"] == model
    (['<0x77><0x3E>', '<0x2F><0x77><0x3E>'], True)
    """
    names = {SUFFIX: ENDED}
    vocab = {names.get(token, token): number for token, number in model["vocab"].items()}
    n_ids = 1 + max(vocab.values())
    vocab |= {helper: number for number, helper in enumerate(_HELPER_TOKENS, n_ids)}
    return model | {"vocab": vocab, "merges": _END_MERGES + model["merges"]}


def remove_end_merges(data: Json) -> Json:
    """Return a tokenizer.json without the merges that `add_end_merges` adds; `data` itself if it
    lacks them.
    """
    model = as_object(data.get("model"))
    vocab = model.get("vocab")
    merges = model.get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        return data
    if ENDED not in vocab or merges[: len(_END_MERGES)] != _END_MERGES:
        return data
    rows = [dict(row) for row in data.get("added_tokens") or []]
    for row in rows:
        if row.get("content") == ENDED:
            row["content"] = SUFFIX
    changes = {"vocab": restore_vocab(vocab), "merges": merges[len(_END_MERGES) :]}
    return data | {"added_tokens": rows, "model": model | changes}


def restore_vocab(vocab: Mapping[str, int]) -> dict[str, int]:
    """Return token → id of a model section as before `add_end_merges`.

    "</w>" has its own spelling again, and the two helper tokens are left out.
    """
    if ENDED not in vocab:
        return dict(vocab)
    names = {ENDED: SUFFIX}
    return {
        names.get(token, token): number
        for token, number in vocab.items()
        if token not in _HELPER_TOKENS
    }


@dataclass(frozen=True, slots=True)
class Scheme:
    """The rules by which text becomes words, and words become atoms.

    normalizer, pretokenizer: their names
    users: the user tokens, in the order of their ids
    end: the spelling of the token "</w>" in the file
    """

    marker: Marker
    normalizer: str
    pretokenizer: str
    users: tuple[str, ...]
    end: str = SUFFIX

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Scheme:
        has_bytes = vocabulary.byte_fallback and "w" in vocabulary.ids
        cut = vocabulary.pretokenizer
        name = cut.name
        is_usual = cut.dummy_prefix and not cut.if_absent and cut.of_lines == cut
        if vocabulary.is_unigram and is_usual and not vocabulary.special.user:
            name += PER_SEGMENT  # a line is one segment, and its "▁" is simpler to write
        return cls(
            vocabulary.marker,
            vocabulary.normalizer.name,
            name,
            users=vocabulary.special.user,
            end=ENDED if vocabulary.marker == "suffix" and has_bytes else SUFFIX,
        )

    @property
    def cut(self) -> PreTokenizer:
        return PreTokenizer(self.pretokenizer)

    @property
    def ends_users(self) -> bool:
        """Check whether a lone "</w>" after user tokens is written into the normalised text."""
        return self.marker == "suffix" and self.ending is not None and bool(self.users)

    @property
    def ending(self) -> str | None:
        """Return a regex for the text after a user token that ends the user token's word; None if
        it is unknown.
        """
        if self.cut.splits or self.cut.is_bytes:
            return r"[\s\S]"
        return _WORD_ENDS.get(self.pretokenizer)

    @property
    def spaces_users(self) -> bool:
        """Check whether a lone "▁" before user tokens is written into the normalised text."""
        if self.pretokenizer == "gpt2":
            return bool(self.users)
        return self.ends_users and self.pretokenizer in {"metaspace", "unicode"}

    @property
    def lone_marks(self) -> set[str]:
        """The lone marks ("</w>" and "▁") that are written into the normalised text, and so are
        added tokens.
        """
        marks = {SUFFIX: self.ends_users, PREFIX: self.spaces_users}
        return {mark for mark, is_added in marks.items() if is_added}

    @property
    def normalizes_users(self) -> bool:
        """Check whether the library finds user tokens in the normalised text, not in the raw text."""
        starts_lines = self.starts_lines and bool(self.users)
        return self.ends_users or self.spaces_users or starts_lines

    @property
    def starts_lines(self) -> bool:
        """Check whether a step of the normalizer writes "▁" in front of a line."""
        if self.starts_segments:
            return False
        marks_words = self.marker == "prefix" and self.pretokenizer == "whitespace"
        return self.cut.dummy_prefix or marks_words

    @property
    def starts_segments(self) -> bool:
        """Check whether the library's step Prepend or Metaspace writes "▁" before each segment
        between user tokens.
        """
        return self.cut.if_absent or self.cut.of_lines != self.cut


@lru_cache(maxsize=8)  # many schemes are tried with the same user tokens, often hundreds
def _any_of(tokens: tuple[str, ...]) -> str:
    return "|".join(re.escape(token) for token in sorted(tokens, key=len, reverse=True))


def sequence(name: str, steps: list[Json]) -> Json | None:
    """Return steps as one section of tokenizer.json; None for no steps.

    name: the key of a Sequence's steps, such as "normalizers"
    """
    if len(steps) > 1:
        return {"type": "Sequence", name: steps}
    return next(iter(steps), None)


def normalizers(scheme: Scheme) -> list[Json]:
    """Return the steps by which `tokenizers` normalises a text."""
    cut = scheme.cut
    is_whitespace = scheme.marker == "prefix" and scheme.pretokenizer == "whitespace"
    steps = _forms(Normalizer.parse(scheme.normalizer))
    if scheme.starts_segments:
        return steps if cut.if_absent else [*steps, PREPEND, SPACE_STEP]

    prepend = list[Json]()
    if scheme.starts_lines:
        prepend = [PREPEND]
    if scheme.normalizes_users:
        hidden = f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]"
        steps = [replace_step(hidden, "\ufffd", regex=True), *_around_users(scheme, steps)]
        prepend = _first_space(scheme)
    if is_whitespace:
        runs = replace_step(f"[{_SPACES}]+", " ", regex=True)
        strip = {"type": "Strip", "strip_left": True, "strip_right": True}
        return [*steps, runs, strip, *prepend, replace_step(" ", f" {PREFIX}")]
    if cut.has_own_pattern and not cut.is_bytes:
        if cut.keeps_spaces and cut.name not in UNMARKED:
            steps.append(replace_step(PREFIX, " "))
    elif scheme.pretokenizer == "gpt2" or cut.dummy_prefix:
        steps += [*prepend, SPACE_STEP]
    if scheme.spaces_users:
        space = f"{PREFIX}(?={_any_of(scheme.users)})"
        if scheme.pretokenizer == "unicode":  # it cuts a run of spaces as one word
            space = f"(?<!{PREFIX}){space}"
        steps.append(replace_step(space, LONE_SPACE, regex=True))
    if scheme.ends_users:
        steps += _lone_ends(scheme)
    return steps


def _forms(normalizer: Normalizer) -> list[Json]:
    if normalizer.steps:
        return list(normalizer_steps(normalizer))
    form = list[Json]()
    if normalizer.form != "none":
        form = [{"type": normalizer.form.upper()}]
    if normalizer.lowercase:
        return [*form, FINAL_SIGMA, {"type": "Lowercase"}, *form]
    return form


def _lone_ends(scheme: Scheme) -> list[Json]:
    """Return the steps that write a lone "</w>" after each user token that ends a word.

    A user token that is the whole text gets none.
    """
    users = scheme.users
    group = "(?:"
    if any(one != other and one.startswith(other) for one, other in product(users, users)):
        group = "(?>"  # atomic: the longest one
    user = f"{group}{_any_of(users)})"
    ends = rf"{user}\K(?={scheme.ending})|(?<!\A){user}\K\z"
    return [_lone_end(scheme), replace_step(ends, LONE_END, regex=True)]


def _lone_end(scheme: Scheme) -> Json:
    return replace_step(rf"\A{scheme.end}\z", LONE_END, regex=True)


def _around_users(scheme: Scheme, steps: list[Json]) -> list[Json]:
    """Return these steps between steps that hide the user tokens in a text and steps that restore
    them.
    """
    if not steps:
        return []
    hidden = {user: chr(FIRST_HIDDEN + number) for number, user in enumerate(scheme.users)}
    longest_first = sorted(scheme.users, key=len, reverse=True)
    hide = [replace_step(user, hidden[user]) for user in longest_first]
    show = [replace_step(character, user) for user, character in hidden.items()]
    if scheme.ends_users and scheme.end != SUFFIX:  # hexadecimal digits, some of them capitals
        hide.insert(0, _lone_end(scheme))
        show.insert(0, replace_step(LONE_END, scheme.end))
    return [*hide, *steps, *show]


def _first_space(scheme: Scheme) -> list[Json]:
    """Return the steps that put "▁" in front of a line.

    A line that is only a user token or a lone mark gets none.
    """
    steps = list[Json]()
    whole = [_any_of(scheme.users)]
    if scheme.spaces_users:
        steps.append(replace_step(rf"\A{PREFIX}\z", LONE_SPACE, regex=True))
        whole.append(LONE_SPACE)
    if scheme.ends_users:
        whole.append(scheme.end)
    if scheme.starts_lines:
        steps.append(replace_step(rf"\A(?!(?:{'|'.join(whole)})?\z)", PREFIX, regex=True))
    return steps


def pre_tokenizers(scheme: Scheme) -> list[Json]:
    """Return the steps by which `tokenizers` splits a normalised text into words."""
    name = scheme.pretokenizer
    cut = scheme.cut
    is_prefix = scheme.marker == "prefix"
    splits = [split_step(spell_split(split), "Isolated") for split in cut.splits]
    if cut.is_bytes:
        steps = [*splits, _byte_level(use_regex=not splits)]
        if is_prefix:
            steps.append(metaspace_step("always", split=False))
        return steps
    if name in UNMARKED:
        return [metaspace_step("never", split=UNMARKED[name])]
    if splits:
        return [*splits, metaspace_step("never", split=False)]
    if scheme.starts_segments:
        cuts_spaces = cut.of_lines.name.removesuffix(IF_ABSENT) == "metaspace"
        if not cuts_spaces and not cut.if_absent:
            return []
        place = "never"
        if cut.if_absent:
            place = "first"
            if cut.of_lines != cut:
                place = "always"
        return [metaspace_step(place, split=cuts_spaces)]
    if name == "whitespace":
        return [split_step(" " if is_prefix else f"[{_SPACES}]+", "Removed")]
    if name == "metaspace":
        return [metaspace_step("never", split=True)]
    if name == "unicode":
        return [split_step(cut.pattern, "Isolated")]
    if name == "gpt2":
        return [split_step(GPT2_MARKED, "Isolated")]
    words = split_step(cut.pattern, "Removed", invert=True)
    return [words, metaspace_step("always" if is_prefix else "never", split=False)]


def decoders(scheme: Scheme, *, byte_fallback: bool) -> list[Json]:
    """Return the steps by which `tokenizers` turns tokens into text."""
    keeps_spaces = scheme.cut.keeps_spaces
    is_prefix = scheme.marker == "prefix"
    steps = list[Json]()
    if scheme.cut.is_bytes:
        if scheme.marker == "suffix":
            steps.append(replace_step(rf"{SUFFIX}\z", "", regex=True))
        if is_prefix:
            steps.append(replace_step(PREFIX, ""))
        return [*steps, _byte_level(use_regex=True)]

    if scheme.ends_users:
        steps.append(replace_step(LONE_END, SUFFIX))
    if scheme.end != SUFFIX:
        steps.append(replace_step(scheme.end, SUFFIX))
    if scheme.spaces_users:
        steps.append(replace_step(LONE_SPACE, PREFIX))
    if scheme.marker == "suffix":
        space = ""
        if not keeps_spaces:
            space = " "
        steps.append(replace_step(rf"{SUFFIX}\z", space, regex=True))
    if is_prefix or keeps_spaces:
        steps.append(SPACE_BACK)
    if byte_fallback:
        steps.append({"type": "ByteFallback"})
    steps.append(FUSE)
    if is_prefix or scheme.cut.dummy_prefix:
        steps.append(STRIP_FIRST)
    if scheme.marker == "suffix" and not keeps_spaces:  # Strip panics on an empty text here
        steps.append(replace_step(r" \z", "", regex=True))
    return steps


def _byte_level(*, use_regex: bool) -> Json:
    flags = {"add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel", **flags}


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
SPACE_STEP = replace_step(" ", PREFIX)
PREPEND = {"type": "Prepend", "prepend": PREFIX}
SPACE_BACK = replace_step(PREFIX, " ")
FUSE: Json = {"type": "Fuse"}
STRIP_FIRST: Json = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
