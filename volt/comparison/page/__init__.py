"""A comparison as one HTML page: data, charts, style and scripts in a single file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.comparison.page.page import write_page as write_page
    from volt.comparison.page.page import write_plots as write_plots

__getattr__, __dir__, __all__ = lazy(__name__)
