"""Text → pieces and ids of a vocabulary, and back: line by line, or millions of lines at once.

word        a pre-token: a part of a line that is encoded on its own
unit        the text between two breaks, such as spaces; a batch encodes each distinct unit once
atom        a character or a byte, from which merging starts
token       a member of the vocabulary; a piece is an occurrence of a token, or an unknown character
symbol      the number of an atom or token in compiled code (see volt.encode.merge_tables)
values      the output for a symbol, word, unit or line: ids, or text
row         a part of a flat array; `ends` says where each row ends in it (see volt.encode.arrays)
chunk       whole lines that one thread encodes
"""

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
