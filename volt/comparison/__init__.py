"""Systems side by side: measures, costs, a study of MUV, and the page that shows them.

Start with `volt.compare`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.comparison.result import Comparison as Comparison
    from volt.comparison.texts import NamedText as NamedText

__getattr__, __dir__, __all__ = lazy(__name__)
