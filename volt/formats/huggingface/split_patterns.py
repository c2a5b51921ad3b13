r"""A pre_tokenizer section → the pre-tokenizer that splits text as it does; VOLT's patterns →
Oniguruma's spelling.

Steps that keep all text become a sequence of splits. A step that drops text becomes a regex of
words; each later step may only cut a class of characters out of these words. VOLT's patterns (left)
differ from those of Oniguruma, the engine of `tokenizers`:

    $           \z                the end of the text; Oniguruma's $ also matches at line ends
    c{1,3}+     (?>c{1,3})        Oniguruma's {1,3}+ repeats c{1,3}
    \pL         \p{L}
    \u4E00      \x{4E00}          and other ways to write a code point
    []a]        [\]a]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from volt.errors import ConfigError, VocabularyError, quoted
from volt.text.patterns.published import BYTES, GPT2, GPT2_GROUPED, name_of
from volt.text.patterns.regex_parser import parse, sets_of
from volt.text.patterns.regex_tree import Alternation, CharacterSet, CharClass, Node, Repetition
from volt.text.patterns.regex_tree import Sequence as Sequence_
from volt.text.patterns.splitter import Split, Splitter

Json = dict[str, Any]
_CODE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[uU]\{([0-9A-Fa-f]{1,8})\})")
_PROPERTY = re.compile(r"\\([pP])([A-Z])")
_ESCAPE = re.compile(r"\\(?:[pP]\{[^}]*\}|[pP].|[xuU]\{[^}]*\}|x..|u.{4}|U.{8}|.)", re.DOTALL)
_COUNT = re.compile(r"(?:(\{[0-9]+(?:,[0-9]*)?\})\+)?")  # a possessive count, or nothing
_ATOMIC = re.compile(
    r"\(\?>((?:\[[^\[\]]*\]|\\[pP]\{[^}]*\}|\\.|[^\\\[\]()])\{[0-9]+(?:,[0-9]*)?\})\)"
)
_JOINERS = r"\u200C\u200D"
# Oniguruma's escapes in a class → classes of VOLT that match the same characters
_IN_CLASS = {
    r"\w": rf"[\w&&[^{_JOINERS}]]",
    r"\W": rf"[\W{_JOINERS}]",
    r"\h": "[0-9A-Fa-f]",
    r"\H": "[^0-9A-Fa-f]",
}
# The same for escapes outside a class
_OUTSIDE_CLASS = _IN_CLASS | {
    r"\w": rf"[\w²³¹¼½¾&&[^{_JOINERS}]]",
    r"\W": rf"[\W{_JOINERS}&&[^²³¹¼½¾]]",
    "$": r"(?=\n|\z)",
}
_INITIAL_DOT = re.compile(r"(?<=(?<!\\)\[)\.")  # "[." is how POSIX begins something else
# Punctuation that Unicode added after the version that the library knows
_NEWER = (
    r"\u061D\u09FD\u0A76\u0C77\u0C84\u1B4E-\u1B4F\u1B7D-\u1B7F\u2E43-\u2E4F\u2E52-\u2E5D\U00010D6E\U00010EAD"
    r"\U00010F55-\U00010F59\U00010F86-\U00010F89\U000113D4-\U000113D5\U000113D7-\U000113D8\U0001144B-\U0001144F"
    r"\U0001145A-\U0001145B\U0001145D\U00011660-\U0001166C\U000116B9\U0001183B\U00011944-\U00011946\U000119E2"
    r"\U00011A3F-\U00011A46\U00011A9A-\U00011A9C\U00011A9E-\U00011AA2\U00011B00-\U00011B09\U00011BE1\U00011C41-\U00011C45"
    r"\U00011C70-\U00011C71\U00011EF7-\U00011EF8\U00011F43-\U00011F4F\U00011FFF\U00012FF1-\U00012FF2"
    r"\U00016D6D-\U00016D6F\U00016E97-\U00016E9A\U00016FE2\U0001E5FF\U0001E95E-\U0001E95F"
)
# The library's punctuation: all ASCII symbols, and what it knows of Unicode's
PUNCTUATION = rf"!-/:-@\[-`{{-~\u166D\U000111C9[\p{{P}}&&[^{_NEWER}]]"
_CLASS_ITEMS = re.compile(r"\[.*\]|\\.+|[^.()^]", re.DOTALL)  # characters that [] can surround
_REMEDY = "encode with tokenizers instead, or find a vocabulary on your corpus"
ADDS_SPACE = (
    "puts a space before each line, which VOLT cannot do; set it to false, "
    "and put the space there yourself"
)
_NUMBERS = Split(r"[\p{N}]+")
# The cuts inside numbers before each group of three digits from the right: places that Oniguruma
# finds, and groups that are read backwards
_BEFORE_GROUPS = r"(?=(\d{3})+(?!\d))"
_GROUPS = Split(r"(?:\p{Nd}{0,2}[\p{N}&&[^\p{Nd}]]+)+\p{Nd}{0,3}|\p{Nd}{1,3}", from_end=True)
_MIRRORED = {"MergedWithPrevious": "MergedWithNext", "MergedWithNext": "MergedWithPrevious"}


def to_oniguruma(pattern: str) -> str:
    r"""Return a pattern of volt.text.patterns in Oniguruma's spelling.

    >>> to_oniguruma(r"\p{N}{1,3}+|a+$|[$]")
    '(?>\\p{N}{1,3})|a+\\z|[$]'
    """
    result = ""
    for item, count in _split_items(pattern):
        text = _spell_item(item)
        result += f"(?>{text}{count})" if count else text
    return result


def can_spell(splits: Sequence[Split]) -> bool:
    """Check whether no split reads text backwards, except for groups of digits in runs of numbers."""
    before: Split | None = None
    for split in splits:
        if split.from_end and (before, split) != (_NUMBERS, _GROUPS):
            return False
        before = split
    return True


def spell_split(split: Split) -> str:
    """Return a split's pattern in Oniguruma's spelling. See `can_spell`."""
    return _BEFORE_GROUPS if split == _GROUPS else to_oniguruma(split.pattern)


def restore_split(pattern: str) -> Split:
    r"""Undo `spell_split`: return a split with c{1,3}+ for (?>c{1,3}), and with $ for \z."""
    if pattern == _BEFORE_GROUPS:
        return _GROUPS
    return Split(_ATOMIC.sub(r"\1+", pattern).replace(r"\z", "$"))


def from_oniguruma(pattern: str) -> str:
    r"""Translate a pattern of Oniguruma into the grammar of volt.text.patterns.

    >>> from_oniguruma(r"(?i)a$|\w{2}+|(?>\p{N}{1,3})")
    '(?i:a(?=\\n|\\z)|(?:[\\w²³¹¼½¾&&[^\\u200C\\u200D]]{2})+|\\p{N}{1,3}+)'
    """
    if pattern.startswith("(?i)"):
        return f"(?i:{from_oniguruma(pattern[4:])})"
    result = ""
    for item, count in _split_items(pattern):
        if item.startswith("["):
            item = _ESCAPE.sub(lambda escape: _IN_CLASS.get(escape[0], escape[0]), item)
        else:
            item = _OUTSIDE_CLASS.get(item, item)
        item = _INITIAL_DOT.sub(r"\\.", item)
        result += f"(?:{item}{count})+" if count else item
    return _ATOMIC.sub(r"\1+", result)


def _split_items(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield each sign or class of a pattern, and its possessive count: "{1,3}" if "{1,3}+" follows,
    else "".

    >>> list(_split_items(r"[a-z]{1,3}+b"))
    [('[a-z]', '{1,3}'), ('b', '')]
    """
    start = 0
    while start < len(pattern):
        end = _item_end(pattern, start)
        count = _COUNT.match(pattern, end)
        assert count  # the expression also matches nothing
        yield pattern[start:end], count[1] or ""
        start = count.end()


def _item_end(pattern: str, start: int) -> int:
    """Return the index after the sign or class that begins at index `start`."""
    if pattern[start] != "[":
        escape = _ESCAPE.match(pattern, start)
        return escape.end() if escape else start + 1
    end = start + 1 + pattern.startswith("^", start + 1)
    end += pattern.startswith("]", end)  # a first "]" is a character of the class
    while not pattern.startswith("]", end):
        if end >= len(pattern):
            raise VocabularyError(
                f"the class from {quoted(pattern[start:])} on has no end; export the file again"
            )
        end = _item_end(pattern, end)
    return end + 1


def _spell_item(text: str) -> str:
    """Return a sign or class in Oniguruma's spelling."""
    if text == "$":
        return r"\z"
    if text.startswith(("[]", "[^]")):
        text = text.replace("]", r"\]", 1)
    text = _PROPERTY.sub(r"\\\1{\2}", text)
    return _CODE.sub(lambda code: rf"\x{{{code[1] or code[2] or code[3]}}}", text)


class Cut(NamedTuple):
    """A cut of text into the matches of a pattern, and the text between them.

    drops: whether the text between the matches is dropped
    inside: "a-z" if the pattern is the class [a-z] or the run [a-z]+, else ""
    from_end: whether text is read backwards, as in `Split`
    """

    pattern: str
    drops: bool = False
    inside: str = ""
    from_end: bool = False


# Steps without options that matter → what they do
_FIXED = {
    "WhitespaceSplit": Cut(r"[^\s]+", drops=True, inside=r"^\s"),
    "Whitespace": Cut(r"\w+|[^\w\s]+", drops=True),
    "BertPreTokenizer": Cut(rf"[{PUNCTUATION}]|[^\s{PUNCTUATION}]+", drops=True),
}


def name_pretokenizer(steps: Sequence[Json], *, isolated: Sequence[str] = ()) -> str:
    r"""Return the name of the pre-tokenizer that splits as these steps do.

    isolated: tokens that the library cuts out of the text before these steps

    >>> step = {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}"}, "behavior": "Isolated"}
    >>> level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    >>> name_pretokenizer([step, level])
    'bytes+split:\\p{N}{1,3}'
    """
    cuts = list[Cut]()
    level = ""
    for step in steps:
        kind = step.get("type")
        if level:
            raise VocabularyError(
                f"{kind} cuts text after ByteLevel, which VOLT cannot do; {_REMEDY}"
            )
        if kind != "ByteLevel":
            cuts.append(_read_step(step))
            continue
        level = BYTES
        if step.get("add_prefix_space", True):
            raise VocabularyError(f"ByteLevel with add_prefix_space {ADDS_SPACE}")
        if step.get("use_regex", True):
            cuts.append(Cut(GPT2))
        elif not cuts:
            cuts.append(Cut(r"[\s\S]+"))

    if not any(cut.drops for cut in cuts):
        splits = tuple(Split(cut.pattern, from_end=cut.from_end) for cut in cuts)
        if not can_spell(splits):
            raise VocabularyError(
                f"Split by {_BEFORE_GROUPS} does not follow Digits, without which VOLT cannot cut "
                f"by it; {_REMEDY}"
            )
        if level and splits in ((Split(GPT2),), (Split(GPT2_GROUPED),)):
            return "bytes"
        return level + name_of(splits)
    first, *others = cuts
    if not first.drops or any(cut.drops for cut in others):
        raise VocabularyError(
            f"a later step drops text, which VOLT can do only in the first step; {_REMEDY}"
        )
    if others == [Cut(GPT2)] and _leaves_whole(first.pattern, isolated):
        others = []
    return f"{level}matches:{_join_cuts(first, others)}"


def _read_step(step: Json) -> Cut:
    kind = step.get("type")
    if kind in _FIXED:
        return _FIXED[kind]
    if kind == "Digits":
        return _cut_by_class(
            r"\p{N}", "Isolated" if step.get("individual_digits") else "Contiguous"
        )
    if kind == "Punctuation":
        return _cut_by_class(PUNCTUATION, str(step.get("behavior", "Isolated")))
    if kind == "CharDelimiterSplit" and isinstance(step.get("delimiter"), str):
        return _cut_by_class(re.escape(step["delimiter"]), "Removed")
    if kind == "Split":
        return _read_split(step)
    raise VocabularyError(
        f"the step {kind} of the pre_tokenizer cuts text in a way that VOLT cannot; {_REMEDY}"
    )


def _read_split(step: Json) -> Cut:
    behavior = str(step.get("behavior"))
    inverted = bool(step.get("invert"))
    if behavior == "Isolated" and step.get("pattern") == {"Regex": _BEFORE_GROUPS}:
        return Cut(_GROUPS.pattern, from_end=True)
    text = _split_text(step.get("pattern"))
    try:
        tree = parse(text)
    except ConfigError as error:
        raise VocabularyError(f"{error}; VOLT cannot cut by this pattern: {_REMEDY}") from None
    if behavior == "Isolated":
        return Cut(text)
    if behavior == "Removed" and inverted:
        return Cut(text, drops=True)

    inside = text
    is_run = False
    if isinstance(tree, Repetition) and (tree.least, tree.most) == (1, None) and text[-1] == "+":
        inside = text[: -1 - tree.possessive]
        is_run = True
        tree = tree.part
    if not isinstance(tree, CharClass) or not _CLASS_ITEMS.fullmatch(inside):
        raise VocabularyError(
            f"Split by {quoted(text, 200)} is {behavior}, which VOLT can do only for one character "
            f"or runs of one; {_REMEDY}"
        )
    return _cut_by_class(inside, behavior, is_run=is_run, inverted=inverted)


def _split_text(pattern: Any) -> str:
    """Return the regex by which a step splits, in the grammar of volt.text.patterns."""
    text = ""
    if isinstance(pattern, dict) and len(pattern) == 1:
        [(kind, value)] = pattern.items()
        if kind == "Regex" and isinstance(value, str):
            text = from_oniguruma(value)
        if kind == "String" and isinstance(value, str):
            text = "".join(map(_literal, value))
    if not text:
        raise VocabularyError(
            f"Split has the invalid pattern {pattern!r}; download or export the file again"
        )
    return text


def _literal(character: str) -> str:
    if character.isalnum() or not character.isascii() or character in " \n\r\t":
        return character
    return f"\\{character}"


def _cut_by_class(
    inside: str, behavior: str, *, is_run: bool = False, inverted: bool = False
) -> Cut:
    """Return the cut of a step that finds characters of the class [inside], and treats them by its
    `behavior`.

    is_run: whether the step finds runs of these characters
    inverted: whether it finds the text between them instead
    """
    run = f"[{inside}]+"
    found = run if is_run else f"[{inside}]"
    between = f"[^{inside}]+"
    cuts = {
        "Isolated": Cut(found, inside=inside),
        "Contiguous": Cut(run, inside=inside),
        "Removed": Cut(between, drops=True, inside=f"^{inside}"),
        "MergedWithPrevious": Cut(f"{between}{found}|{between}|{found}"),
        "MergedWithNext": Cut(f"{found}{between}|{between}|{found}"),
    }
    if behavior not in cuts:
        raise VocabularyError(
            f"VOLT does not support the behavior {behavior!r} of Split; {_REMEDY}"
        )
    if inverted:
        behavior = _MIRRORED.get(behavior, behavior)
    return cuts[behavior]


def _leaves_whole(pattern: str, isolated: Sequence[str]) -> bool:
    r"""Check whether GPT-2's pattern provably cuts no match of another pattern.

    >>> _leaves_whole(r"'s|[\p{L}]+|[\p{N}]|<a>|[^\s\p{L}\p{N}]+", ["<a>"]), _leaves_whole(r"\w+", [])
    (True, False)
    """
    tree = parse(pattern)
    gpt2 = Splitter.of(Split(GPT2))
    kinds = [_class_of(text) for text in (r"\p{L}", r"\p{N}", r"[^\s\p{L}\p{N}]")]
    for part in tree.parts if isinstance(tree, Alternation) else (tree,):
        repeated = part.part if isinstance(part, Repetition) else part
        if isinstance(repeated, CharClass):
            characters = repeated.characters
            if any(_is_empty(characters & ~kind) for kind in kinds):
                continue
        text = _only_text(part)
        if text is None or (text not in isolated and gpt2.split(text) != [text]):
            return False
    return True


def _only_text(tree: Node) -> str | None:
    """Return the only text that a regex tree matches; None if it can match several texts."""
    text = ""
    for part in tree.parts if isinstance(tree, Sequence_) else (tree,):
        if not isinstance(part, CharClass):
            return None
        edges = part.characters.edges
        if len(edges) != 2 or edges[1] != edges[0] + 1:
            return None
        text += chr(edges[0])
    return text


def _class_of(pattern: str) -> CharacterSet:
    return sets_of(parse(pattern))[0]


def _is_empty(characters: CharacterSet) -> bool:
    return characters.edges == ()


def _join_cuts(first: Cut, others: Sequence[Cut]) -> str:
    """Return one pattern that matches the words which several cuts leave.

    first: a cut that drops text
    others: cuts that isolate characters of classes which do not overlap
    """
    if not others:
        return first.pattern
    sets = [_class_of(f"[{cut.inside}]") for cut in others if cut.inside]
    are_apart = all(_is_empty(one & other) for one, other in combinations(sets, 2))
    if not first.inside.startswith("^") or len(sets) < len(others) or not are_apart:
        raise VocabularyError(
            f"{quoted(first.pattern, 100)} drops text, then {quoted(others[0].pattern, 100)} cuts "
            f"the words, which VOLT cannot do; {_REMEDY}"
        )
    dropped = _class_of(f"[{first.inside[1:]}]")
    parts = list[str]()
    rest = first.inside
    for cut, characters in zip(others, sets, strict=True):
        inside = cut.inside
        if inside.startswith("^") or "&&" in inside:
            inside = f"[{inside}]"
        rest += inside
        part = cut.pattern
        if not _is_empty(characters & dropped):
            part = f"[{inside}&&[{first.inside}]]"
            if cut.pattern.endswith("+"):
                part += "+"
        parts.append(part)
    return "|".join([*parts, f"[{rest}]+"])
