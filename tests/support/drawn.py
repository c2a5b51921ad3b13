"""The number of examples on which a law is checked: a share of them in every run, all of them in
campaigns.

    VOLT_EXAMPLES=all pytest …     as many as each law asks for; `make campaigns` does so
    VOLT_EXAMPLES=9000 pytest …    9,000 for each law
"""

import os

import pytest

_EXAMPLES = os.environ.get("VOLT_EXAMPLES", "")
DRAWS_ALL = _EXAMPLES == "all"
_SHARE = 6
_LEAST = 8
_USUAL = 100
LINES_SHARE = 12  # of a corpus


def examples(n=_USUAL, share=_SHARE):
    """Return a sixth of n, or n divided by `share`, but at least 8; n itself in campaigns.

    n: the number of examples that Hypothesis draws, of lines that are read from a corpus, or of
    batches
    """
    if _EXAMPLES.isdecimal():
        return int(_EXAMPLES)
    return n if DRAWS_ALL else min(n, max(_LEAST, n // share))


def some(cases):
    """Return every sixth of these cases; all of them in campaigns."""
    return cases if DRAWS_ALL else cases[::_SHARE]


def in_turns(rows, n):
    """Return parameters of a test, of which all but one in n have the mark `campaign`.

    >>> [bool(row.marks) for row in in_turns([("a", 1), ("a", 2), ("b", 1), ("b", 2)], 2)]
    [False, True, True, False]
    """
    every = [(place % n == place // n % n, row) for place, row in enumerate(rows)]
    return [
        pytest.param(*row, marks=[] if is_run else pytest.mark.campaign) for is_run, row in every
    ]
