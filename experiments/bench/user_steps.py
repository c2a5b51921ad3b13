"""Plain Python functions that users would write, for the pipelines `user` and `user-light` of both programs.

>>> tidy(["  „Hallo“,   sagt er. "]), recased(["Zwei Hunde", "two dogs"])
(['"Hallo", sagt er.'], ['zwei Hunde', 'Two dogs'])
"""

from __future__ import annotations

_QUOTES = str.maketrans("„“”«»‘’", '"""""\'\'')


def tidy(fields: list[str]) -> list[str]:
    return [" ".join(field.translate(_QUOTES).split()) for field in fields]


def recased(fields: list[str]) -> list[str]:
    return [field[:1].swapcase() + field[1:] for field in fields]
