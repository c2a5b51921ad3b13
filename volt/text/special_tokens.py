"""Special tokens: four with a role, any number of the user's own that are never split, and bytes for the unknown.

A user token is hidden behind one private character before a text is normalised and cut, so it survives both, and no
merge ever crosses it. The private characters are the last of plane 16, U+10F000 onward; where a text holds them itself
they become U+FFFD, so that no text can forge a user token.

>>> special = SpecialTokens(user=("<url>",))
>>> hidden = special.hide_text("see <url>!")
>>> len(hidden), special.reveal(hidden)
(6, 'see <url>!')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from volt import arguments
from volt.errors import ConfigError, quoted
from volt.text.markers import BYTE_TOKENS, SUFFIX

if TYPE_CHECKING:
    import polars as pl

FIRST_HIDDEN, LAST_HIDDEN = 0x10F000, 0x10FFFD
MOST_USER = 4093  # user tokens: a private character stands for each
LONGEST = 1000  # characters of a special token: what looks for them takes time with the square of it
_HELP = "choose another spelling, such as <url>"


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The tokens that are not made of text.

    unk, bos, eos, pad: the tokens with a role, numbered 0 to 3 in this order
    user: the user's own tokens, which are never split, at most 4,093

    Raises ConfigError if one is empty, unprintable, longer than 1,000 characters, repeats, or could be met in text as
    an atom.

    >>> SpecialTokens(user=["<url>"]).all[4:]
    ('<url>',)
    """

    unk: str = "<unk>"
    bos: str = "<s>"
    eos: str = "</s>"
    pad: str = "<pad>"
    user: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        user = arguments.texts(self.user, "user", one="did you mean user=(token,)?")
        object.__setattr__(
            self, "user", tuple(user)
        )  # a frozen dataclass takes a list as what was meant in no other way
        for role in ("unk", "bos", "eos", "pad"):
            arguments.text(getattr(self, role), role)
        if len(self.user) > MOST_USER:
            raise ConfigError(f"{len(self.user):,} user tokens; {MOST_USER:,} are the most; leave out others")
        met = set(BYTE_TOKENS)
        for number, token in enumerate(self.all):
            if len(token) > LONGEST:
                raise ConfigError(f"special token {quoted(token)} has more than {LONGEST:,} characters; {_HELP}")
            if token.split() != [token] or not token.isprintable():
                raise ConfigError(
                    f"special token {quoted(token)} is empty or holds white space or what cannot be printed; {_HELP}"
                )
            if number < 4 and len(token) < 2:
                raise ConfigError(f"special token {token!r} is one character, which text may hold; {_HELP}")
            if token in met or token.endswith(SUFFIX):
                raise ConfigError(f"special token {quoted(token)} is given twice or has another meaning; {_HELP}")
            met.add(token)

    @property
    def all(self) -> tuple[str, ...]:
        """All special tokens in the order of their ids.

        >>> SpecialTokens(user=("<url>",)).all
        ('<unk>', '<s>', '</s>', '<pad>', '<url>')
        """
        return (self.unk, self.bos, self.eos, self.pad, *self.user)

    def hide(self, text: pl.Expr) -> pl.Expr:
        """String expression → the same with every user token as one private character.

        text: of Polars

        Where two tokens fit, the longer one is taken.
        """
        if not self.user:
            return text
        text = text.str.replace_all(rf"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]", "\ufffd")
        hidden = {token: self._hidden(number) for number, token in enumerate(self.user)}
        longest_first = sorted(self.user, key=len, reverse=True)
        return text.str.replace_many(longest_first, [hidden[token] for token in longest_first], leftmost=True)

    def hide_text(self, text: str) -> str:
        """What `hide` does, for one string.

        text: any
        """
        if not self.user:
            return text
        text = "".join("\ufffd" if FIRST_HIDDEN <= ord(char) <= LAST_HIDDEN else char for char in text)
        numbers = {token: number for number, token in enumerate(self.user)}
        return _finder(self.user).sub(lambda found: self._hidden(numbers[found[0]]), text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the user tokens stand in a text.

        text: any

        >>> SpecialTokens(user=("<url>",)).spans("see <url>!")
        [(4, 9)]
        """
        if not self.user:
            return []
        return [match.span() for match in _finder(self.user).finditer(text)]

    def reveal(self, text: str) -> str:
        """Undo `hide`.

        text: with hidden user tokens
        """
        return "".join(self.revealed(ord(char)) or char for char in text) if self.user else text

    def revealed(self, code_point: int) -> str | None:
        """The user token that a private character stands for, or None for any other character.

        code_point: of the character
        """
        number = code_point - FIRST_HIDDEN
        return self.user[number] if 0 <= number < len(self.user) else None

    @staticmethod
    def _hidden(number: int) -> str:
        return chr(FIRST_HIDDEN + number)


@lru_cache(maxsize=16)  # to sort and compile thousands of tokens takes longer than most lines
def _finder(user: tuple[str, ...]) -> re.Pattern[str]:
    """What finds user tokens; of two that begin at one place, the longer."""
    return re.compile("|".join(map(re.escape, sorted(user, key=len, reverse=True))))
