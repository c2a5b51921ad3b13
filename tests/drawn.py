"""How many examples Hypothesis draws for a law: some in every run, all of them in campaigns.

VOLT_EXAMPLES=all pytest …     as many as each law asks for; `make campaigns` does so
"""

from __future__ import annotations

import os

DRAWS_ALL = os.environ.get("VOLT_EXAMPLES") == "all"
_SHARE, _LEAST, _USUAL = 4, 10, 100


def examples(n: int = _USUAL) -> int:
    """A quarter of n, and 10 at least, which are drawn in seconds; n itself in campaigns."""
    return n if DRAWS_ALL else min(n, max(_LEAST, n // _SHARE))
