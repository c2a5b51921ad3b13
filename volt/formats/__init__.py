"""Other libraries' formats: a module or a sub-package for each, listed in `volt.formats.registry`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.formats.registry import FORMATS as FORMATS
    from volt.formats.registry import read_merges as read_merges
    from volt.formats.registry import read_vocabulary as read_vocabulary
    from volt.formats.registry import write_vocabulary as write_vocabulary

__getattr__, __dir__, __all__ = lazy(__name__)
