"""Word counts → merges: learning BPE, and the exact token counts at every vocabulary size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.learn.bpe import learn_bpe as learn_bpe
    from volt.learn.bpe import replay_bpe as replay_bpe
    from volt.learn.candidates import Candidates as Candidates
    from volt.learn.parity import Parity as Parity
    from volt.learn.parity import learn_parity as learn_parity
    from volt.learn.parity import measure_parity as measure_parity

__getattr__, __dir__, __all__ = lazy(__name__)
