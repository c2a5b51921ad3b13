"""From lengths to a trainer's steps: batches of at most so many tokens, dealt to ranks, and packs of a fixed length.

    token_batches   rows of like length together, so that little is padding
    deal            batches as they are → the same number, of like cost, for each rank
    pack            rows laid end to end into a fixed length, for language models
    padding_share   how much of what is computed is padding

All are functions of lengths, options, a seed and the numbers of the epoch and the window. They know no text and keep
nothing, so a position among batches is a few numbers.

>>> batches = token_batches([3, 9, 2, 8], max_tokens=18, shuffle=False)
>>> [rows.tolist() for rows in batches]
[[2, 0], [3, 1]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.batches.by_tokens import TokenBatches as TokenBatches
    from volt.batches.by_tokens import padding_share as padding_share
    from volt.batches.by_tokens import token_batches as token_batches
    from volt.batches.dealing import Dealt as Dealt
    from volt.batches.dealing import deal as deal
    from volt.batches.packing import Pack as Pack
    from volt.batches.packing import Packs as Packs
    from volt.batches.packing import pack as pack

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "dealing": ("Dealt", "deal"),
        "packing": ("Pack", "Packs", "pack"),
        "by_tokens": ("TokenBatches", "padding_share", "token_batches"),
    },
)
