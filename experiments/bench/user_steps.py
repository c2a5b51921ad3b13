"""What a user would write, in plain Python: the same function in both programs' pipelines.

    transforms: [user: {file: user_steps.py, function: tidy}]        in a configuration
    user(stream, tidy)                                               in sotastream_pipelines.py

`recased` is light: nearly all its row's time is spent around it. `tidy` takes most of its row's time itself.

>>> tidy(["  „Hallo“,   sagt er. ", "'Hi', he says."])
['"Hallo", sagt er.', "'Hi', he says."]
"""

from __future__ import annotations

_QUOTES = str.maketrans("„“”«»‘’", '"""""\'\'')


def tidy(fields: list[str]) -> list[str]:
    """Plain quotes, one space between two words, none around them.

    >>> tidy(["«a»  b"])
    ['"a" b']
    """
    return [" ".join(field.translate(_QUOTES).split()) for field in fields]


def recased(fields: list[str]) -> list[str]:
    """The first letter of each field in the other case.

    >>> recased(["Zwei Hunde", "two dogs"])
    ['zwei Hunde', 'Two dogs']
    """
    return [field[:1].swapcase() + field[1:] for field in fields]
