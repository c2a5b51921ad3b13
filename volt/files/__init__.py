"""Files: blocks of whole lines, compressed or not, atomic writing, and threads whose results keep
their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.files.atomic import write_atomic as write_atomic
    from volt.files.blocks import Block as Block
    from volt.files.blocks import read_blocks as read_blocks
    from volt.files.paths import expand as expand

__getattr__, __dir__, __all__ = lazy(__name__)
