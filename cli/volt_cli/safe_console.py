"""A console that shows texts of any origin: no control character of theirs reaches the terminal.

What rich itself writes, colours and cursor movements, passes; everything else is `volt.errors.visible`, but for line
ends and spaces of any width.

>>> import io
>>> console = SafeConsole(file=io.StringIO(), force_terminal=False)
>>> console.print("a\\x1b[2Jb")
>>> console.file.getvalue()
'a\\\\x1b[2Jb\\n'
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from volt.errors import visible

_OTHERS = re.compile("[^\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")


class SafeConsole(Console):
    """A rich console for tokens, lines, names and provenance as they come."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is shown, those with text made harmless."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def harmless(text: str) -> str:
    """A text with control characters, changes of direction and the like as escapes.

    >>> harmless("a\\u3000b\\n\\u202ec")
    'a\\u3000b\\n\\\\u202ec'
    """
    return text if text.isprintable() else _OTHERS.sub(lambda found: visible(found[0]), text)
