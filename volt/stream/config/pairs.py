"""Files that are probably translations of one another, line by line: their names differ in the language alone.

>>> probable_pairs(["wmt.de", "wmt.en", "news.de"])
[('wmt.de', 'wmt.en')]
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

_PART = re.compile(r"([._/-])")
_LANGUAGE = re.compile(r"(?!gz|xz)[a-z]{2}")
_SCRIPT = re.compile(r"[A-Z][a-z]{3}")


def probable_pairs(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of paths that are the same but for one part that looks like a language's code, in the order of the paths.

    >>> probable_pairs(["train.de-en.de.gz", "train.de-en.en.gz", "train.01.gz", "train.02.gz"])
    [('train.de-en.de.gz', 'train.de-en.en.gz')]
    """
    alike = dict[tuple[str, ...], list[str]]()
    for path in dict.fromkeys(paths):
        parts = _PART.split(path)
        for place, part in enumerate(parts):
            if _is_language(part, parts[place + 1 :]) and "/" not in parts[place:]:
                alike.setdefault((*parts[:place], "", *parts[place + 1 :]), []).append(path)
    return [pair for group in alike.values() for pair in pairwise(group)]


def _is_language(part: str, behind: list[str]) -> bool:
    """Whether a part of a name looks like a language's code: `de`, or `deu` with a script behind it, as in deu_Latn."""
    has_script = len(behind) > 1 and _SCRIPT.fullmatch(behind[1]) is not None
    return _LANGUAGE.fullmatch(part) is not None or (has_script and len(part) == 3 and part.islower())


def warning_of(source: str, pair: tuple[str, str]) -> str:
    """What to tell those who mix two such files.

    >>> warning_of("wmt", ("a.no", "a.sl"))
    "source 'wmt': a.no and a.sl differ only in their language, and their lines are mixed; for lines side by side write
    pair: {src: a.no, tgt: a.sl}"
    """
    first, second = pair
    found = f"{first} and {second} differ only in their language, and their lines are mixed"
    return f"source {source!r}: {found}; for lines side by side write pair: {{src: {first}, tgt: {second}}}"
