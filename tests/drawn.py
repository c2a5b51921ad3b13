"""How many examples a law is shown to hold for: some in every run, all of them in campaigns.

VOLT_EXAMPLES=all pytest …     as many as each law asks for; `make campaigns` does so
"""

from __future__ import annotations

import os
from collections.abc import Sequence

DRAWS_ALL = os.environ.get("VOLT_EXAMPLES") == "all"
_SHARE, _LEAST, _USUAL = 4, 10, 100
LINES_SHARE = 12  # of a corpus


def examples(n: int = _USUAL, share: int = _SHARE) -> int:
    """Return a quarter of n, or n divided by `share`, but at least 10; n itself in campaigns.

    n: how many examples Hypothesis draws, lines of a corpus are read, or batches are encoded
    """
    return n if DRAWS_ALL else min(n, max(_LEAST, n // share))


def some(places: Sequence[int]) -> Sequence[int]:
    """Every fourth of these places; all of them in campaigns."""
    return places[:: 1 if DRAWS_ALL else _SHARE]
