"""The special tokens that `volt import` is told, as the file does not name them: TOKEN, or TOKEN=ID.

>>> NamedTokens(special=["<|end|>=7", "<url>"], eos="<|end|>").ids()
{'special': {'<|end|>': 7, '<url>': None}, 'eos': {'<|end|>': None}}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

from volt.errors import ConfigError, quoted

_METAVAR = "TOKEN[=ID]"
_MOST_DIGITS = 18  # of an id


@dataclass(frozen=True)
class NamedTokens:
    """Tokens with a meaning of their own, and their ids."""

    PANEL = "Special tokens that the file does not name"

    special: Annotated[
        list[str] | None,
        typer.Option(
            "--special", metavar=_METAVAR, help="Found in text, never split; default id: its own or the next. Repeats."
        ),
    ] = None
    unk: Annotated[str | None, typer.Option(metavar=_METAVAR, help="The unknown token.")] = None
    bos: Annotated[str | None, typer.Option(metavar=_METAVAR, help="The begin-of-sentence token.")] = None
    eos: Annotated[str | None, typer.Option(metavar=_METAVAR, help="The end-of-sentence token.")] = None
    pad: Annotated[str | None, typer.Option(metavar=_METAVAR, help="The padding token.")] = None

    def ids(self) -> dict[str, dict[str, int | None]]:
        """As volt.read_vocabulary takes them: only those that are given. Raises ConfigError if one has two ids."""
        roles = {"unk": self.unk, "bos": self.bos, "eos": self.eos, "pad": self.pad}
        asked = {"special": self.special or [], **{role: [one] for role, one in roles.items() if one is not None}}
        return {name: _ids(name, tokens) for name, tokens in asked.items()}


def _ids(name: str, asked: Iterable[str]) -> dict[str, int | None]:
    """Tokens with their ids."""
    found = dict[str, int | None]()
    for one in asked:
        token, number = token_and_id(one)
        if found.setdefault(token, number) != number:
            raise ConfigError(f"--{name} {quoted(token)} is given twice, with two ids; leave one out")
    return found


def token_and_id(asked: str) -> tuple[str, int | None]:
    """TOKEN or TOKEN=ID; the token may hold "=" itself.

    >>> token_and_id("<|end|>=7"), token_and_id("<a=b>"), token_and_id("=7")
    (('<|end|>', 7), ('<a=b>', None), ('=7', None))
    """
    token, _, number = asked.rpartition("=")
    if token and number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS:
        return token, int(number)
    return asked, None
