r"""Splits ⇄ the name that a vocabulary saves them by. It holds the patterns themselves, so that no list need be kept.

    split:PATTERN     one split
    splits:JSON       a sequence: a list of patterns, or of {"pattern": …, "from_end": true} where one reads backwards
    matches:PATTERN   one pattern, and what lies between its matches is dropped; user tokens cut the text before
    bytes+…           the same, and each byte of the words becomes a character of GPT-2's alphabet

>>> name = declared("digits3", is_bytes=True)
>>> name, splits_of(name)
('bytes+split:\\p{N}{1,3}', (Split(pattern='\\p{N}{1,3}', from_end=False),))
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING

from volt.errors import ConfigError, quoted

if TYPE_CHECKING:
    from volt.text.patterns.splitter import Split
    from volt.text.patterns.words import WordCutter

BYTES = "bytes+"
_ONE, _SEVERAL, _MATCHES = "split:", "splits:", "matches:"
_OF_GPT2 = {False: "gpt2", True: "bytes"}  # pre-tokenisers of these names cut alike, and faster
_WORD = re.compile(r"[\w.-]+")


def is_declared(name: str) -> bool:
    """Whether the name of a pre-tokeniser holds splits.

    >>> is_declared("bytes+split:a"), is_declared("bytes")
    (True, False)
    """
    return name.removeprefix(BYTES).startswith((_ONE, _SEVERAL, _MATCHES))


def drops_rest(name: str) -> bool:
    """Whether what lies between the matches of the pattern in a name is dropped.

    >>> drops_rest("bytes+matches:[a-z]+"), drops_rest("split:a")
    (True, False)
    """
    return name.removeprefix(BYTES).startswith(_MATCHES)


def declared(pattern: str, *, is_bytes: bool = False) -> str:
    r"""The name that a pattern is saved by.

    pattern: the name of published splits, or a regular expression
    Raises ConfigError if it is neither.

    >>> declared("gpt2", is_bytes=True), declared(r"\w+")
    ('bytes', 'split:\\w+')
    """
    from volt.text.patterns.named import NAMED
    from volt.text.patterns.splitter import Split

    if pattern == "gpt2":
        return _OF_GPT2[is_bytes]
    if pattern not in NAMED and _WORD.fullmatch(pattern):
        near = [name for name in NAMED if name.startswith(pattern.lower())] or get_close_matches(pattern.lower(), NAMED)
        hint = f"did you mean {' or '.join(near)}? The patterns are" if near else "choose from"
        raise ConfigError(f"no pattern is called {pattern!r}; {hint} {', '.join(NAMED)}, or give a regex")
    name = BYTES * is_bytes + name_of(NAMED.get(pattern, (Split(pattern),)))
    cutter_of(name)
    return name


def of_matches(name: str) -> str:
    """The name of the pre-tokeniser that drops what one that holds one split, which reads forwards, leaves between.

    >>> of_matches("bytes+split:[a-z]+")
    'bytes+matches:[a-z]+'
    """
    return name.replace(_ONE, _MATCHES, 1)


def splits_of(name: str) -> tuple[Split, ...]:
    r"""The splits in the name of a pre-tokeniser. Raises ConfigError if they are damaged.

    >>> splits_of('splits:["a+", {"pattern": "b", "from_end": true}]')
    (Split(pattern='a+', from_end=False), Split(pattern='b', from_end=True))
    """
    from volt.text.patterns.splitter import Split

    kind, _, told = name.removeprefix(BYTES).partition(":")
    if f"{kind}:" in (_ONE, _MATCHES):
        return (Split(told),)
    try:
        rows = json.loads(told)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or not all(map(_is_split, rows)):
        raise ConfigError(
            f"pre-tokenizer {quoted(name, 200)}: behind {_SEVERAL} a JSON list of patterns belongs, such as "
            f'{_SEVERAL}["\\\\p{{N}}{{1,3}}", {{"pattern": "\\\\p{{L}}+", "from_end": true}}]'
        )
    return tuple(Split(row) if isinstance(row, str) else Split(**row) for row in rows)


def _is_split(row: object) -> bool:
    """Whether a value of JSON says a split: a pattern, or an object that holds one."""
    if not isinstance(row, dict):
        return isinstance(row, str)
    is_known = row.keys() <= {"pattern", "from_end"} and isinstance(row.get("pattern"), str)
    return is_known and isinstance(row.get("from_end", False), bool)


def name_of(splits: tuple[Split, ...]) -> str:
    """The name that splits are saved by, where characters are merged: the inverse of `splits_of`.

    >>> name_of(splits_of("split:a+"))
    'split:a+'
    """
    if len(splits) == 1 and not splits[0].from_end:
        return _ONE + splits[0].pattern
    rows = [{"pattern": one.pattern, "from_end": True} if one.from_end else one.pattern for one in splits]
    return _SEVERAL + json.dumps(rows, ensure_ascii=False)


@lru_cache(maxsize=64)
def cutter_of(name: str) -> WordCutter:
    """What cuts as the name of a pre-tokeniser says, or "bytes". Raises ConfigError if it does not say it rightly."""
    from volt.text.patterns.named import NAMED
    from volt.text.patterns.splitter import Splitter
    from volt.text.patterns.words import WordCutter

    splitter = Splitter.of(*(NAMED["gpt2"] if name == _OF_GPT2[True] else splits_of(name)))
    if not splitter.is_linear:
        raise ConfigError(
            f"pre-tokenizer {quoted(name, 500)}: on some texts its matches are looked for far beyond their ends, so "
            "that time would grow with the square of a line; bound the repetition, as in a{1,20}b|a for a*b|a"
        )
    drops = drops_rest(name)
    is_bytes = name == _OF_GPT2[True] or name.startswith(BYTES)
    return WordCutter.of(splitter, is_bytes=is_bytes, matches_only=drops, parts_users=drops)


@lru_cache(maxsize=64)
def cutter_of_regex(pattern: str) -> WordCutter | None:
    """What finds the matches of a Rust regex; None if that is read otherwise here, or may take long."""
    from volt.text.patterns.parsing import has_possessive, parse
    from volt.text.patterns.splitter import Split, Splitter
    from volt.text.patterns.words import WordCutter

    try:
        splitter = Splitter.of(Split(pattern))
        is_linear = splitter.is_linear
    except ConfigError:
        return None
    if has_possessive(parse(pattern)) or not is_linear:  # a++ is (a+)+ there
        return None
    return WordCutter.of(splitter, matches_only=True)
