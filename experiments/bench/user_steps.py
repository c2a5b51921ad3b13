"""What a user would write, in plain Python: the same function in both programs' pipelines.

    transforms: [user: {file: user_steps.py, function: tidy}]        in a configuration
    tidied(stream)                                                   in sotastream_pipelines.py

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
