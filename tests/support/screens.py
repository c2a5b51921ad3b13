"""The text that a terminal of some width shows, and the words in it."""

import io
import re

from rich.console import Console

BORDERS = re.compile("[╭╮╰╯│─]")


def printed(parts, width):
    """Return what a terminal of this width shows, without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    for part in parts:
        console.print(part, crop=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def words(shown):
    """Return the words on a screen, without frames; a signature may also break after its bars.

    >>> sorted(words("│ 1,000  volt|norm:none| │"))
    ['1,000', 'norm:none', 'volt']
    """
    return set(BORDERS.sub(" ", shown).replace("|", " ").split())


def too_wide(shown, width):
    """Return the lines wider than the terminal that could have been broken."""
    return [line for line in shown.splitlines() if len(line) > width and len(line.split()) > 1]
