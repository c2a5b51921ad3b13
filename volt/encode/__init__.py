"""Text → pieces and ids of a vocabulary, and back: line by line, or millions of lines at once in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.encode.batch_encoder import Encoded as Encoded
    from volt.encode.encoder import Encoder as Encoder
    from volt.encode.frames import PaddedIds as PaddedIds
    from volt.encode.offsets import Spans as Spans
    from volt.encode.reachable import Reach as Reach
    from volt.encode.reachable import reach as reach

__getattr__, __dir__, __all__ = lazy(__name__)
