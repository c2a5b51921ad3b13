"""A place in a pattern that is being read, and what is said of what stands there.

>>> cursor = Cursor("ab|c")
>>> cursor.take("ab"), cursor.take("c"), cursor.next(), cursor.place
(True, False, '|', 3)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from volt.errors import ConfigError, quoted


@dataclass(slots=True)
class Cursor:
    """Reads a pattern from left to right.

    place: characters that are read already
    ignores_case: whether (?i holds here
    depth: groups and classes that are open here
    """

    pattern: str
    place: int = 0
    ignores_case: bool = False
    depth: int = 0

    @property
    def is_at_end(self) -> bool:
        """Whether all is read."""
        return self.place == len(self.pattern)

    def sees(self, *texts: str) -> bool:
        """Whether one of these texts comes next."""
        return self.pattern.startswith(texts, self.place)

    def take(self, text: str) -> bool:
        """Read this text if it comes next. Returns whether it did."""
        found = self.sees(text)
        self.place += found * len(text)
        return found

    def take_match(self, expression: str) -> re.Match[str] | None:
        """Read what a regex of Python finds here. Returns what it found."""
        found = re.compile(expression).match(self.pattern, self.place)
        self.place = found.end() if found else self.place
        return found

    def next(self) -> str:
        """Read one character. Raises ConfigError if there is none."""
        if self.is_at_end:
            raise self.refusal("the pattern ends too early", "finish it, or write \\ before what has a meaning")
        self.place += 1
        return self.pattern[self.place - 1]

    def refusal(self, found: str, remedy: str, *, start: int | None = None) -> ConfigError:
        """What to raise. start: where in the pattern the thing stands, if not here.

        >>> print(Cursor("ab+?", 2).refusal("a lazy quantifier", "take out the ?"))
        pattern 'ab+?', character 3: a lazy quantifier; take out the ?
        """
        place = self.place if start is None else start
        return ConfigError(f"pattern {quoted(self.pattern, 500)}, character {place + 1}: {found}; {remedy}")
